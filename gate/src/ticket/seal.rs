//! Sealing and opening. Neither allocates on the path of a known key.

use std::fmt;
use std::sync::Arc;

use aes_gcm::aead::{AeadInOut as _, KeyInit as _};
use aes_gcm::{Aes256Gcm, Nonce, Tag};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hkdf::Hkdf;
use sha2::Sha256;

use super::keys::Keyring;
use crate::room::{Millis, Place, Session, Ticket, VisitorId, Waiting};

const VERSION: u8 = 1;
const SALT_LEN: usize = 16;
const COUNTER_LEN: usize = 6;
const HEAD_LEN: usize = 1 + 4 + SALT_LEN + COUNTER_LEN;
const TIME_LEN: usize = 6;
const PAYLOAD_LEN: usize = 1 + 8 + 8 + 3 * TIME_LEN;
const TAG_LEN: usize = 16;
const RAW_LEN: usize = HEAD_LEN + PAYLOAD_LEN + TAG_LEN;
/// Characters of a sealed ticket.
pub const SEALED_LEN: usize = RAW_LEN.div_ceil(3) * 4;
const _: () = assert!(
    RAW_LEN.is_multiple_of(3),
    "no padding, so the length is exact"
);

/// Derived keys a box remembers: one per thread and start of every gate on the ring. Beyond it the oldest is derived anew
/// when it comes back, a microsecond's work. Only tickets that opened enter, so garbage evicts nothing.
const DERIVED_KEYS_MAX: usize = 64;
/// Longest room name plus cookie name that a scope can hold, with the client's binding.
const AAD_BYTES_MAX: usize = 512;

/// Client properties a ticket is bound to, as a digest; [`Binding::NONE`] where the room binds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding([u8; 8]);

impl Binding {
    pub const NONE: Self = Self([0; 8]);

    /// A digest of the properties. Two clients collide with the odds of 64 bits; a collision only lets a ticket move.
    pub fn of(properties: &[&[u8]]) -> Self {
        use sha2::Digest as _;
        let mut hash = Sha256::new();
        for property in properties {
            hash.update((property.len() as u64).to_be_bytes());
            hash.update(property);
        }
        let digest = hash.finalize();
        let mut short = [0; 8];
        short.copy_from_slice(&digest[..8]);
        Self(short)
    }
}

/// The room and cookie a ticket is for.
#[derive(Clone, Debug)]
pub struct Scope {
    aad: Box<[u8]>,
}

impl Scope {
    /// `None` when the two names together are longer than 500 bytes.
    pub fn new(room: &str, cookie_name: &str) -> Option<Self> {
        let mut aad = Vec::with_capacity(room.len() + 1 + cookie_name.len());
        aad.extend_from_slice(room.as_bytes());
        aad.push(0);
        aad.extend_from_slice(cookie_name.as_bytes());
        (aad.len() + 8 <= AAD_BYTES_MAX).then(|| Self {
            aad: aad.into_boxed_slice(),
        })
    }
}

/// A ticket ready for the wire: [`SEALED_LEN`] characters that need no quoting in a cookie.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SealedTicket([u8; SEALED_LEN]);

impl SealedTicket {
    pub const fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn as_str(&self) -> &str {
        // base64url is ASCII.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Debug for SealedTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealedTicket(..)")
    }
}

struct DerivedKey {
    key_id: u32,
    salt: [u8; SALT_LEN],
    cipher: Aes256Gcm,
}

/// Seals and opens tickets for one thread.
pub struct TicketBox {
    ring: Arc<Keyring>,
    own: DerivedKey,
    counter: u64,
    /// Keys of other boxes, the latest to be needed anew last.
    others: Vec<DerivedKey>,
}

impl fmt::Debug for TicketBox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TicketBox")
            .field("ring", &self.ring)
            .finish_non_exhaustive()
    }
}

impl TicketBox {
    /// Draws the box's salt from the system; fails only where the system has no randomness.
    pub fn new(ring: Arc<Keyring>) -> Result<Self, getrandom::Error> {
        let own = fresh_key(&ring)?;
        Ok(Self {
            ring,
            own,
            counter: 0,
            others: Vec::new(),
        })
    }

    /// Seals with the ring's first key from now on, and opens with any of its keys.
    pub fn set_keyring(&mut self, ring: Arc<Keyring>) -> Result<(), getrandom::Error> {
        self.own = fresh_key(&ring)?;
        self.counter = 0;
        self.others.clear();
        self.ring = ring;
        Ok(())
    }

    /// Seals `ticket` for `scope` and `binding`.
    pub fn seal(&mut self, scope: &Scope, binding: Binding, ticket: &Ticket) -> SealedTicket {
        let counter = self.counter;
        // 2^48 tickets take a busy core decades.
        assert!(counter < 1 << (8 * COUNTER_LEN), "nonces are used up");
        self.counter += 1;

        let mut raw = [0; RAW_LEN];
        let (head, rest) = raw.split_at_mut(HEAD_LEN);
        head[0] = VERSION;
        head[1..5].copy_from_slice(&self.own.key_id.to_be_bytes());
        head[5..5 + SALT_LEN].copy_from_slice(&self.own.salt);
        head[5 + SALT_LEN..].copy_from_slice(&counter.to_be_bytes()[8 - COUNTER_LEN..]);
        let nonce = nonce_of(head);
        let (payload, tag_out) = rest.split_at_mut(PAYLOAD_LEN);
        write_payload(payload, ticket);
        let mut aad = [0; AAD_BYTES_MAX];
        let aad = write_aad(&mut aad, scope, binding);
        let tag = self
            .own
            .cipher
            .encrypt_inout_detached(&nonce, aad, payload.into())
            .expect("35 bytes are within GCM's limits");
        tag_out.copy_from_slice(&tag);
        let mut text = [0; SEALED_LEN];
        let written = URL_SAFE_NO_PAD.encode_slice(raw, &mut text);
        debug_assert_eq!(written, Ok(SEALED_LEN));
        SealedTicket(text)
    }

    /// Opens a cookie's value. `None` for whatever this ring did not seal for this scope and binding: garbage, another
    /// room's, another key's, altered or cut.
    pub fn open(&mut self, scope: &Scope, binding: Binding, text: &[u8]) -> Option<Ticket> {
        if text.len() != SEALED_LEN {
            return None;
        }
        let mut raw = [0; RAW_LEN];
        if URL_SAFE_NO_PAD.decode_slice(text, &mut raw) != Ok(RAW_LEN) || raw[0] != VERSION {
            return None;
        }
        let (head, rest) = raw.split_at_mut(HEAD_LEN);
        let (payload, tag) = rest.split_at_mut(PAYLOAD_LEN);
        let key_id = u32::from_be_bytes(head[1..5].try_into().ok()?);
        let salt: [u8; SALT_LEN] = head[5..5 + SALT_LEN].try_into().ok()?;
        let nonce = nonce_of(head);
        let tag = Tag::try_from(&*tag).ok()?;
        let mut aad = [0; AAD_BYTES_MAX];
        let aad = write_aad(&mut aad, scope, binding);

        let decrypt = |cipher: &Aes256Gcm, payload: &mut [u8]| {
            cipher.decrypt_inout_detached(&nonce, aad, payload.into(), &tag)
        };
        if self.own.key_id == key_id && self.own.salt == salt {
            decrypt(&self.own.cipher, payload).ok()?;
        } else if let Some(known) = self
            .others
            .iter()
            .find(|key| key.salt == salt && key.key_id == key_id)
        {
            decrypt(&known.cipher, payload).ok()?;
        } else {
            let cipher = derive(&self.ring.find(key_id)?.secret, &salt);
            decrypt(&cipher, payload).ok()?;
            if self.others.len() == DERIVED_KEYS_MAX {
                self.others.remove(0);
            }
            self.others.push(DerivedKey {
                key_id,
                salt,
                cipher,
            });
        }
        read_payload(payload)
    }
}

fn fresh_key(ring: &Keyring) -> Result<DerivedKey, getrandom::Error> {
    let mut salt = [0; SALT_LEN];
    getrandom::fill(&mut salt)?;
    let key = ring.sealing();
    Ok(DerivedKey {
        key_id: key.id,
        salt,
        cipher: derive(&key.secret, &salt),
    })
}

fn derive(secret: &[u8; 32], salt: &[u8; SALT_LEN]) -> Aes256Gcm {
    let mut key = [0; 32];
    Hkdf::<Sha256>::new(Some(salt), secret)
        .expand(b"gate ticket", &mut key)
        .expect("32 bytes are a length HKDF gives");
    Aes256Gcm::new(&key.into())
}

fn nonce_of(head: &[u8]) -> Nonce<aes_gcm::aead::consts::U12> {
    let mut nonce = [0; 12];
    nonce[12 - COUNTER_LEN..].copy_from_slice(&head[HEAD_LEN - COUNTER_LEN..]);
    nonce.into()
}

fn write_aad<'a>(buffer: &'a mut [u8; AAD_BYTES_MAX], scope: &Scope, binding: Binding) -> &'a [u8] {
    let length = scope.aad.len();
    buffer[..length].copy_from_slice(&scope.aad);
    buffer[length..length + 8].copy_from_slice(&binding.0);
    &buffer[..length + 8]
}

fn write_payload(payload: &mut [u8], ticket: &Ticket) {
    let (kind, visitor, place, times) = match *ticket {
        Ticket::Waiting(w) => (
            1,
            w.visitor,
            w.place.0,
            [w.joined_at, Millis::ZERO, w.last_check_in],
        ),
        Ticket::Session(s) => (
            2,
            s.visitor,
            0,
            [s.joined_at, s.accepted_at, s.last_check_in],
        ),
    };
    payload[0] = kind;
    payload[1..9].copy_from_slice(&visitor.0.to_be_bytes());
    payload[9..17].copy_from_slice(&place.to_be_bytes());
    for (out, time) in payload[17..].chunks_exact_mut(TIME_LEN).zip(times) {
        // 48 bits of milliseconds reach beyond the year 10,000.
        out.copy_from_slice(&time.as_u64().to_be_bytes()[8 - TIME_LEN..]);
    }
}

fn read_payload(payload: &[u8]) -> Option<Ticket> {
    let word = |from: usize| -> Option<u64> {
        Some(u64::from_be_bytes(
            payload.get(from..from + 8)?.try_into().ok()?,
        ))
    };
    let time = |index: usize| {
        let from = 17 + index * TIME_LEN;
        let mut bytes = [0; 8];
        bytes[8 - TIME_LEN..].copy_from_slice(&payload[from..from + TIME_LEN]);
        Millis::new(u64::from_be_bytes(bytes))
    };
    let visitor = VisitorId(word(1)?);
    match payload[0] {
        1 => Some(Ticket::Waiting(Waiting {
            visitor,
            place: Place(word(9)?),
            joined_at: time(0),
            last_check_in: time(2),
        })),
        2 => Some(Ticket::Session(Session {
            visitor,
            joined_at: time(0),
            accepted_at: time(1),
            last_check_in: time(2),
        })),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scope() -> Scope {
        Scope::new("room", "__waitingroom").unwrap()
    }

    fn waiting() -> Ticket {
        Ticket::Waiting(Waiting {
            visitor: VisitorId(0x0123_4567_89ab_cdef),
            place: Place(42),
            joined_at: Millis::new(1_700_000_000_000),
            last_check_in: Millis::new(1_700_000_020_000),
        })
    }

    fn session() -> Ticket {
        Ticket::Session(Session {
            visitor: VisitorId(7),
            joined_at: Millis::new(1),
            accepted_at: Millis::new(2),
            last_check_in: Millis::new(3),
        })
    }

    fn boxed(ring: &Keyring) -> TicketBox {
        TicketBox::new(Arc::new(ring.clone())).unwrap()
    }

    #[test]
    fn opens_what_it_and_its_siblings_sealed() {
        let ring = Keyring::ephemeral().unwrap();
        let (mut one, mut other) = (boxed(&ring), boxed(&ring));
        for ticket in [waiting(), session()] {
            let sealed = one.seal(&scope(), Binding::NONE, &ticket);
            for opener in [&mut one, &mut other] {
                // Twice: the second time the key is a remembered one.
                for _ in 0..2 {
                    let opened = opener.open(&scope(), Binding::NONE, sealed.as_bytes());
                    assert_eq!(opened, Some(ticket));
                }
            }
        }
    }

    #[test]
    fn another_ring_room_cookie_or_client_does_not_open() {
        let ring = Keyring::ephemeral().unwrap();
        let mut ours = boxed(&ring);
        let bound = Binding::of(&[b"192.0.2.1"]);
        let sealed = ours.seal(&scope(), bound, &waiting());
        let open = |opener: &mut TicketBox, scope: &Scope, binding| {
            opener.open(scope, binding, sealed.as_bytes())
        };
        assert_eq!(open(&mut ours, &scope(), bound), Some(waiting()));
        assert_eq!(open(&mut ours, &scope(), Binding::NONE), None);
        assert_eq!(
            open(&mut ours, &scope(), Binding::of(&[b"192.0.2.2"])),
            None
        );
        let elsewhere = Scope::new("other", "__waitingroom").unwrap();
        assert_eq!(open(&mut ours, &elsewhere, bound), None);
        let renamed = Scope::new("room", "__waitingroom_x").unwrap();
        assert_eq!(open(&mut ours, &renamed, bound), None);
        let mut foreign = boxed(&Keyring::ephemeral().unwrap());
        assert_eq!(open(&mut foreign, &scope(), bound), None);
    }

    #[test]
    fn properties_cannot_be_shifted_between_each_other() {
        assert_ne!(Binding::of(&[b"ab", b"c"]), Binding::of(&[b"a", b"bc"]));
    }

    #[test]
    fn no_two_tickets_share_salt_and_counter() {
        let ring = Keyring::ephemeral().unwrap();
        let mut seen = std::collections::HashSet::new();
        for _ in 0..4 {
            let mut sealer = boxed(&ring);
            for _ in 0..100 {
                let sealed = sealer.seal(&scope(), Binding::NONE, &waiting());
                let raw = URL_SAFE_NO_PAD.decode(sealed.as_bytes()).unwrap();
                assert!(seen.insert(raw[5..HEAD_LEN].to_vec()));
            }
        }
    }

    #[test]
    fn a_rotated_ring_still_opens_old_tickets() {
        let folder = std::env::temp_dir().join(format!("gate-seal-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("keys");
        let mut sealer = boxed(&Keyring::load_or_create(&file).unwrap());
        let old = sealer.seal(&scope(), Binding::NONE, &waiting());
        Keyring::rotate(&file).unwrap();
        sealer
            .set_keyring(Arc::new(Keyring::load(&file).unwrap()))
            .unwrap();
        let new = sealer.seal(&scope(), Binding::NONE, &waiting());
        assert_ne!(old.as_bytes()[..8], new.as_bytes()[..8]);
        for sealed in [old, new] {
            let opened = sealer.open(&scope(), Binding::NONE, sealed.as_bytes());
            assert_eq!(opened, Some(waiting()));
        }
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn more_salts_than_are_remembered_still_open() {
        let ring = Keyring::ephemeral().unwrap();
        let mut opener = boxed(&ring);
        let sealed: Vec<_> = (0..DERIVED_KEYS_MAX + 10)
            .map(|_| boxed(&ring).seal(&scope(), Binding::NONE, &session()))
            .collect();
        for _ in 0..2 {
            for ticket in &sealed {
                let opened = opener.open(&scope(), Binding::NONE, ticket.as_bytes());
                assert_eq!(opened, Some(session()));
            }
        }
        assert!(opener.others.len() <= DERIVED_KEYS_MAX);
    }

    proptest! {
        #[test]
        fn garbage_never_opens_and_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut opener = boxed(&Keyring::ephemeral().unwrap());
            prop_assert_eq!(opener.open(&scope(), Binding::NONE, &bytes), None);
        }

        #[test]
        fn one_altered_character_never_opens(at in 0..SEALED_LEN, to in "[A-Za-z0-9_-]") {
            let mut ours = boxed(&Keyring::ephemeral().unwrap());
            let sealed = ours.seal(&scope(), Binding::NONE, &session());
            let mut bytes = sealed.as_bytes().to_vec();
            let to = to.as_bytes()[0];
            prop_assume!(bytes[at] != to);
            bytes[at] = to;
            prop_assert_eq!(ours.open(&scope(), Binding::NONE, &bytes), None);
        }
    }
}
