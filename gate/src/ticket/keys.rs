//! The key ring and its file.
//!
//! The file is text, mode 0600: a header line, then one key a line as `ID SECRET` in hexadecimal. The first key seals; every
//! key opens. Rotation puts a new key first and keeps the old ones, so that nobody loses a place.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Keys a ring holds. Rotation drops the oldest beyond it: tickets it sealed become those of new users.
pub const KEYS_MAX: usize = 4;
/// A key file is never larger; a larger one is not a key file.
const FILE_BYTES_MAX: u64 = 4096;
const HEADER: &str = "gate keys 1";

/// One secret and the number tickets name it by.
#[derive(Clone)]
pub(super) struct Key {
    pub(super) id: u32,
    pub(super) secret: [u8; 32],
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The secret stays out of every log.
        write!(f, "Key({:08x})", self.id)
    }
}

/// What opens and seals tickets: one to [`KEYS_MAX`] keys, the first one sealing.
#[derive(Clone, Debug)]
pub struct Keyring {
    keys: Vec<Key>,
}

/// What is wrong with a key file, or with making one.
#[derive(Debug)]
pub struct KeyError {
    file: PathBuf,
    kind: KeyErrorKind,
}

#[derive(Debug)]
enum KeyErrorKind {
    Read(io::Error),
    Write(io::Error),
    Random(getrandom::Error),
    TooLarge,
    Header,
    Line(usize),
    Repeated(u32),
    Empty,
    TooMany,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key file {}: ", self.file.display())?;
        match &self.kind {
            KeyErrorKind::Read(_) => f.write_str("cannot be read"),
            KeyErrorKind::Write(_) => f.write_str("cannot be written"),
            KeyErrorKind::Random(_) => f.write_str("the system gave no random bytes"),
            KeyErrorKind::TooLarge => write!(f, "larger than {FILE_BYTES_MAX} bytes"),
            KeyErrorKind::Header => write!(f, "the first line must be '{HEADER}'"),
            KeyErrorKind::Line(line) => write!(
                f,
                "line {line} must be a key: 8 and 64 hexadecimal digits with a space between"
            ),
            KeyErrorKind::Repeated(id) => write!(f, "key {id:08x} stands twice"),
            KeyErrorKind::Empty => f.write_str("holds no key"),
            KeyErrorKind::TooMany => write!(f, "holds more than {KEYS_MAX} keys"),
        }
    }
}

impl std::error::Error for KeyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            KeyErrorKind::Read(error) | KeyErrorKind::Write(error) => Some(error),
            KeyErrorKind::Random(error) => Some(error),
            KeyErrorKind::TooLarge
            | KeyErrorKind::Header
            | KeyErrorKind::Line(_)
            | KeyErrorKind::Repeated(_)
            | KeyErrorKind::Empty
            | KeyErrorKind::TooMany => None,
        }
    }
}

impl Keyring {
    /// A ring of one new key, in no file: tickets end with the process.
    pub fn ephemeral() -> Result<Self, KeyError> {
        let key = new_key().map_err(at(Path::new("(in memory)")))?;
        Ok(Self { keys: vec![key] })
    }

    /// Reads the ring from `file`; where there is no such file, makes one with a new key and mode 0600.
    pub fn load_or_create(file: &Path) -> Result<Self, KeyError> {
        match fs::metadata(file) {
            Ok(_) => Self::load(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let ring = Self {
                    keys: vec![new_key().map_err(at(file))?],
                };
                match ring.create_file(file) {
                    // Another gate was first: its keys are the ones.
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Self::load(file),
                    Err(error) => Err(at(file)(KeyErrorKind::Write(error))),
                    Ok(()) => Ok(ring),
                }
            }
            Err(error) => Err(at(file)(KeyErrorKind::Read(error))),
        }
    }

    /// Reads the ring from `file`. Warns in the log when others than the owner may read it.
    pub fn load(file: &Path) -> Result<Self, KeyError> {
        let meta = fs::metadata(file).map_err(|e| at(file)(KeyErrorKind::Read(e)))?;
        if meta.len() > FILE_BYTES_MAX {
            return Err(at(file)(KeyErrorKind::TooLarge));
        }
        let mode = meta.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            log::warn!(
                "key file {} has mode {mode:04o}: others than its owner may read it; 0600 is safe",
                file.display()
            );
        }
        let text = fs::read_to_string(file).map_err(|e| at(file)(KeyErrorKind::Read(e)))?;
        Self::parse(&text).map_err(at(file))
    }

    /// Puts a new key first in `file` and drops the oldest beyond [`KEYS_MAX`]. The file is replaced as a whole: a gate that
    /// reads it at any moment finds the old ring or the new one. Returns the new key's id.
    pub fn rotate(file: &Path) -> Result<u32, KeyError> {
        let mut ring = Self::load(file)?;
        let key = new_key().map_err(at(file))?;
        let id = key.id;
        ring.keys.insert(0, key);
        ring.keys.truncate(KEYS_MAX);
        ring.replace_file(file)
            .map_err(|e| at(file)(KeyErrorKind::Write(e)))?;
        Ok(id)
    }

    /// Keys in the ring.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// A ring is never empty.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub(super) fn sealing(&self) -> &Key {
        &self.keys[0]
    }

    pub(super) fn find(&self, id: u32) -> Option<&Key> {
        self.keys.iter().find(|key| key.id == id)
    }

    fn parse(text: &str) -> Result<Self, KeyErrorKind> {
        let mut lines = text.lines().enumerate();
        if lines.next().map(|(_, line)| line) != Some(HEADER) {
            return Err(KeyErrorKind::Header);
        }
        let mut keys: Vec<Key> = Vec::new();
        for (index, line) in lines {
            let key = parse_key(line).ok_or(KeyErrorKind::Line(index + 1))?;
            if keys.iter().any(|known| known.id == key.id) {
                return Err(KeyErrorKind::Repeated(key.id));
            }
            if keys.len() == KEYS_MAX {
                return Err(KeyErrorKind::TooMany);
            }
            keys.push(key);
        }
        if keys.is_empty() {
            return Err(KeyErrorKind::Empty);
        }
        Ok(Self { keys })
    }

    fn replace_file(&self, file: &Path) -> io::Result<()> {
        let fresh = file.with_extension("new");
        // A leftover of an interrupted rotation is no one's key file.
        match fs::remove_file(&fresh) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        self.create_file(&fresh)?;
        fs::rename(&fresh, file)
    }

    fn create_file(&self, file: &Path) -> io::Result<()> {
        use fmt::Write as _;
        let mut text = format!("{HEADER}\n");
        for key in &self.keys {
            // Writing to a string cannot fail.
            write!(text, "{:08x} ", key.id).map_err(io::Error::other)?;
            for byte in key.secret {
                write!(text, "{byte:02x}").map_err(io::Error::other)?;
            }
            text.push('\n');
        }
        let mut out: File = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(file)?;
        out.write_all(text.as_bytes())?;
        out.sync_all()
    }
}

fn at(file: &Path) -> impl Fn(KeyErrorKind) -> KeyError {
    move |kind| KeyError {
        file: file.to_owned(),
        kind,
    }
}

fn new_key() -> Result<Key, KeyErrorKind> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(KeyErrorKind::Random)?;
    let mut id = [0; 4];
    getrandom::fill(&mut id).map_err(KeyErrorKind::Random)?;
    Ok(Key {
        id: u32::from_be_bytes(id),
        secret,
    })
}

fn parse_key(line: &str) -> Option<Key> {
    let (id, secret) = line.split_once(' ')?;
    Some(Key {
        id: u32::from_be_bytes(parse_hex(id)?),
        secret: parse_hex(secret)?,
    })
}

fn parse_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let high = char::from(pair[0]).to_digit(16)?;
        let low = char::from(pair[1]).to_digit(16)?;
        *byte = u8::try_from(high << 4 | low).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("gate-keys-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn creates_the_file_once_and_for_the_owner_only() {
        let folder = folder("create");
        let file = folder.join("keys");
        let first = Keyring::load_or_create(&file).unwrap();
        let again = Keyring::load_or_create(&file).unwrap();
        assert_eq!(first.sealing().secret, again.sealing().secret);
        assert_eq!(
            fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o600
        );
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn rotation_puts_a_new_key_first_and_keeps_the_old_ones() {
        let folder = folder("rotate");
        let file = folder.join("keys");
        let old = Keyring::load_or_create(&file).unwrap();
        let id = Keyring::rotate(&file).unwrap();
        let ring = Keyring::load(&file).unwrap();
        assert_eq!(ring.sealing().id, id);
        assert!(ring.find(old.sealing().id).is_some());
        for _ in 0..KEYS_MAX {
            Keyring::rotate(&file).unwrap();
        }
        let ring = Keyring::load(&file).unwrap();
        assert_eq!(ring.len(), KEYS_MAX);
        assert!(ring.find(old.sealing().id).is_none());
        assert_eq!(
            fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o600
        );
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_damaged_file_is_refused_with_its_line() {
        let key = format!("00000001 {}", "ab".repeat(32));
        for (text, said) in [
            (String::new(), "first line"),
            (format!("{HEADER}\n"), "no key"),
            (format!("{HEADER}\n{key}\n00000002 abcd\n"), "line 3"),
            (format!("{HEADER}\n{key}\n{key}\n"), "twice"),
            (
                format!("{HEADER}\n00000001 {}é\n", "a".repeat(62)),
                "line 2",
            ),
        ] {
            let error = at(Path::new("k"))(Keyring::parse(&text).unwrap_err());
            assert!(error.to_string().contains(said), "{error} for {text:?}");
        }
    }
}
