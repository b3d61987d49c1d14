//! Reading and writing the file.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::room::{Millis, SavedRoom, Snapshot, SnapshotError};

const MAGIC: &[u8; 12] = b"gate state 1";
const CHECKSUM_LEN: usize = 32;

/// Where the state is kept.
#[derive(Clone, Debug)]
pub struct StateFile {
    path: PathBuf,
}

/// What was in the file.
#[derive(Debug, Default)]
pub struct Loaded {
    /// By the room's name. Empty on a first start.
    pub rooms: HashMap<String, SavedRoom>,
    /// The file could not be used and was kept under this name; the rooms are empty.
    pub set_aside: Option<(PathBuf, StateError)>,
}

impl Loaded {
    /// The latest time any room was saved at: a clock must not start before it.
    pub fn latest(&self) -> Millis {
        self.rooms
            .values()
            .map(SavedRoom::saved_at)
            .max()
            .unwrap_or(Millis::ZERO)
    }
}

/// What is wrong with a state file.
#[derive(Debug)]
pub struct StateError {
    path: PathBuf,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Read(io::Error),
    Write(io::Error),
    SetAside(io::Error),
    NotAStateFile,
    Checksum,
    Truncated,
    Room(String, SnapshotError),
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "state file {}: ", self.path.display())?;
        match &self.kind {
            Kind::Read(_) => f.write_str("cannot be read"),
            Kind::Write(_) => f.write_str("cannot be written"),
            Kind::SetAside(_) => f.write_str("cannot be used, nor renamed out of the way"),
            Kind::NotAStateFile => f.write_str("is no state file of this gate"),
            Kind::Checksum => f.write_str("is damaged: its checksum does not match"),
            Kind::Truncated => f.write_str("is damaged: it ends too soon"),
            Kind::Room(room, _) => write!(f, "holds no usable state of room {room}"),
        }
    }
}

impl std::error::Error for StateError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            Kind::Read(error) | Kind::Write(error) | Kind::SetAside(error) => Some(error),
            Kind::Room(_, error) => Some(error),
            Kind::NotAStateFile | Kind::Checksum | Kind::Truncated => None,
        }
    }
}

impl StateFile {
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the state. A damaged or foreign file is renamed to `NAME.damaged-N` and reported in the result.
    ///
    /// # Errors
    /// The file is there and cannot be read at all, or cannot be renamed.
    pub fn load(&self) -> Result<Loaded, StateError> {
        let bytes = match fs::read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Loaded::default()),
            Err(error) => return Err(self.error(Kind::Read(error))),
        };
        match parse(&bytes) {
            Ok(rooms) => Ok(Loaded {
                rooms,
                set_aside: None,
            }),
            Err(kind) => {
                let aside = self
                    .set_aside()
                    .map_err(|error| self.error(Kind::SetAside(error)))?;
                Ok(Loaded {
                    rooms: HashMap::new(),
                    set_aside: Some((aside, self.error(kind))),
                })
            }
        }
    }

    /// Replaces the state. When this returns, the new state survives a loss of power.
    ///
    /// # Errors
    /// The disk's; the old state is still there then.
    pub fn save(&self, rooms: &[(String, Snapshot)]) -> Result<(), StateError> {
        self.write(rooms)
            .map_err(|error| self.error(Kind::Write(error)))
    }

    fn write(&self, rooms: &[(String, Snapshot)]) -> io::Result<()> {
        let fresh = self.with_suffix(".new");
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&fresh)?;
        let mut out = Summed {
            out: BufWriter::with_capacity(1 << 20, file),
            sum: Sha256::new(),
        };
        out.put(MAGIC)?;
        out.put(&(rooms.len() as u64).to_le_bytes())?;
        for (name, snapshot) in rooms {
            out.put_sized(name.as_bytes())?;
            out.put_sized(&snapshot.encode())?;
        }
        let Summed { mut out, sum } = out;
        out.write_all(&sum.finalize())?;
        out.flush()?;
        out.get_ref().sync_all()?;
        drop(out);
        fs::rename(&fresh, &self.path)?;
        // The new name itself must reach the disk as well.
        let folder = match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            Some(_) | None => Path::new("."),
        };
        File::open(folder)?.sync_all()
    }

    fn set_aside(&self) -> io::Result<PathBuf> {
        let mut number = 1_u32;
        loop {
            let aside = self.with_suffix(&format!(".damaged-{number}"));
            if !aside.try_exists()? {
                fs::rename(&self.path, &aside)?;
                return Ok(aside);
            }
            number += 1;
        }
    }

    fn with_suffix(&self, suffix: &str) -> PathBuf {
        let mut name: OsString = self.path.clone().into_os_string();
        name.push(suffix);
        PathBuf::from(name)
    }

    fn error(&self, kind: Kind) -> StateError {
        StateError {
            path: self.path.clone(),
            kind,
        }
    }
}

struct Summed {
    out: BufWriter<File>,
    sum: Sha256,
}

impl Summed {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sum.update(bytes);
        self.out.write_all(bytes)
    }

    fn put_sized(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.put(&(bytes.len() as u64).to_le_bytes())?;
        self.put(bytes)
    }
}

fn parse(bytes: &[u8]) -> Result<HashMap<String, SavedRoom>, Kind> {
    if !bytes.starts_with(MAGIC) {
        return Err(Kind::NotAStateFile);
    }
    let (body, checksum) = bytes
        .split_last_chunk::<CHECKSUM_LEN>()
        .ok_or(Kind::Truncated)?;
    if Sha256::digest(body)[..] != checksum[..] {
        return Err(Kind::Checksum);
    }
    let mut rest = body.get(MAGIC.len()..).ok_or(Kind::Truncated)?;
    let count = take_u64(&mut rest)?;
    let mut rooms = HashMap::new();
    for _ in 0..count {
        let name = String::from_utf8_lossy(take_sized(&mut rest)?).into_owned();
        let room = SavedRoom::decode(take_sized(&mut rest)?)
            .map_err(|error| Kind::Room(name.clone(), error))?;
        rooms.insert(name, room);
    }
    Ok(rooms)
}

fn take_u64(rest: &mut &[u8]) -> Result<u64, Kind> {
    let (taken, left) = rest.split_first_chunk::<8>().ok_or(Kind::Truncated)?;
    *rest = left;
    Ok(u64::from_le_bytes(*taken))
}

fn take_sized<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], Kind> {
    let length = usize::try_from(take_u64(rest)?).map_err(|_| Kind::Truncated)?;
    let (taken, left) = rest.split_at_checked(length).ok_or(Kind::Truncated)?;
    *rest = left;
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::room::{Limits, Plan, Room, Settings};

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path =
                std::env::temp_dir().join(format!("gate-state-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn file(&self) -> StateFile {
            StateFile::new(self.0.join("state"))
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    fn snapshots() -> Vec<(String, Snapshot)> {
        let now = Millis::new(1_750_000_000_000);
        ["one", "two"]
            .map(|name| {
                let settings = Settings::with_limits(Limits::new(2, 2).unwrap());
                let mut room = Room::new(Plan::new_without_events(settings), 1, now);
                for _ in 0..5 {
                    room.check_in(now, None);
                }
                (name.to_owned(), room.snapshot(now))
            })
            .into()
    }

    #[test]
    fn what_is_saved_is_loaded() {
        let folder = Folder::new("round");
        let file = folder.file();
        assert!(file.load().unwrap().rooms.is_empty());
        let rooms = snapshots();
        file.save(&rooms).unwrap();
        file.save(&rooms).unwrap();
        let loaded = file.load().unwrap();
        assert!(loaded.set_aside.is_none());
        assert_eq!(loaded.latest(), Millis::new(1_750_000_000_000));
        for (name, snapshot) in rooms {
            let expected = SavedRoom::decode(&snapshot.encode()).unwrap();
            assert_eq!(loaded.rooms[&name], expected);
        }
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1);
    }

    #[test]
    fn every_damage_is_noticed_and_the_file_kept_aside() {
        let folder = Folder::new("damage");
        let file = folder.file();
        file.save(&snapshots()).unwrap();
        let good = fs::read(file.path()).unwrap();
        let mut damaged: Vec<Vec<u8>> = vec![Vec::new(), b"something else".to_vec()];
        damaged.extend((0..good.len()).step_by(7).map(|cut| good[..cut].to_vec()));
        damaged.extend((0..good.len()).step_by(5).map(|at| {
            let mut bytes = good.clone();
            bytes[at] ^= 1;
            bytes
        }));
        for bytes in damaged {
            fs::write(file.path(), &bytes).unwrap();
            let loaded = file.load().unwrap();
            let (aside, error) = loaded.set_aside.unwrap();
            assert!(loaded.rooms.is_empty());
            assert!(error.to_string().contains("state file"), "{error}");
            assert_eq!(fs::read(&aside).unwrap(), bytes);
            assert!(!file.path().exists());
            fs::remove_file(aside).unwrap();
        }
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error_that_names_the_file() {
        let file = StateFile::new(PathBuf::from("/nonexistent/state"));
        assert!(file.load().unwrap().rooms.is_empty());
        let error = file.save(&[]).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/state"), "{error}");
    }
}
