//! A room at one instant, as bytes and back, so that a restart forgets neither the active users nor the line. Where the
//! bytes are kept is not known here.

use std::collections::HashSet;
use std::fmt;

use rand::SeedableRng as _;
use rand_pcg::Pcg64Mcg;

use super::core::{Gap, Prequeue, Room};
use super::line::{FrozenLine, Waiter};
use super::plan::Plan;
use super::sessions::FrozenSessions;
use super::shuffle::Shuffle;
use super::time::Millis;
use super::visitor::VisitorId;

/// Places left free after a restart for visitors who joined between the last snapshot and the end of the process: more than
/// anybody can join in the second or so that is.
const GAP_PLACES: u64 = 1 << 20;
/// Places between the first waiter and the end of the line. A snapshot with more is damaged: it would make the line reserve
/// memory for all of them.
const LINE_SPAN_MAX: u64 = 1 << 31;
const MAGIC: &[u8; 8] = b"gateroom";
const VERSION: u32 = 1;

/// What [`Room::snapshot`] saw. Taking one is cheap; [`Snapshot::encode`] does the work and needs no room.
#[derive(Clone, Debug)]
pub struct Snapshot {
    saved_at: Millis,
    sessions: FrozenSessions,
    line: FrozenLine,
    rate: Vec<(Millis, u32)>,
    shuffles: Vec<Shuffle>,
    prequeue: Option<Prequeue>,
    admitted_total: u64,
    sessions_revoked_total: u64,
}

/// A snapshot read from bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedRoom {
    saved_at: Millis,
    next_index: u64,
    sessions: Vec<(VisitorId, u32, u32)>,
    waiters: Vec<Waiter>,
    rate: Vec<(Millis, u32)>,
    shuffles: Vec<Shuffle>,
    prequeue: Option<Prequeue>,
    admitted_total: u64,
    sessions_revoked_total: u64,
}

/// Why bytes are no snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotError {
    NotASnapshot,
    /// Written by another version of the gate.
    Version(u32),
    /// Shorter than it says.
    Truncated,
    /// Longer than it says.
    TrailingBytes,
    /// A waiter stands where nobody can.
    PlaceOutOfRange,
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotASnapshot => f.write_str("not a room's state"),
            Self::Version(version) => write!(
                f,
                "state of version {version}, where this gate reads version {VERSION}"
            ),
            Self::Truncated => f.write_str("the state ends too soon"),
            Self::PlaceOutOfRange => f.write_str("a waiter stands outside the line"),
            Self::TrailingBytes => f.write_str("the state goes on after its end"),
        }
    }
}

impl std::error::Error for SnapshotError {}

impl Room {
    /// The room as it stands. Shares memory with the room until either changes.
    pub fn snapshot(&mut self, now: Millis) -> Snapshot {
        self.advance(now);
        Snapshot {
            saved_at: self.now,
            sessions: self.sessions.freeze(),
            line: self.line.freeze(),
            rate: self.rate.entries().collect(),
            shuffles: self.shuffles.clone(),
            prequeue: self.prequeue,
            admitted_total: self.admitted_total,
            sessions_revoked_total: self.sessions_revoked_total,
        }
    }

    /// A room that goes on where `saved` stopped. What happened after it was saved is taken, once each, from the tickets of
    /// those who come back: sessions while there is a seat, places as they were.
    pub fn restore(plan: Plan, seed: u64, now: Millis, saved: &SavedRoom) -> Self {
        let now = now.max(saved.saved_at);
        let mut room = Self::new(plan, seed, now);
        // The seed may be one the room had before; visitors must not get ids of their predecessors.
        room.rng = Pcg64Mcg::seed_from_u64(seed ^ saved.saved_at.as_u64().rotate_left(32));
        for &(visitor, accepted_at_s, ends_at_s) in &saved.sessions {
            room.sessions.restore(visitor, accepted_at_s, ends_at_s);
        }
        let gap_end = saved.next_index.saturating_add(GAP_PLACES);
        room.line.skip_to(gap_end);
        room.line.restore(saved.waiters.iter().copied());
        for &(at, count) in &saved.rate {
            room.rate.restore(at, count);
        }
        room.shuffles.clone_from(&saved.shuffles);
        room.prequeue = saved.prequeue;
        room.admitted_total = saved.admitted_total;
        room.sessions_revoked_total = saved.sessions_revoked_total;
        room.gap = Some(Gap {
            saved_at: saved.saved_at,
            started_at: now,
            places: saved.next_index..gap_end,
            claimed: HashSet::new(),
        });
        room.advance(now);
        room.enter_phase();
        room
    }
}

impl SavedRoom {
    /// When the snapshot was taken.
    pub const fn saved_at(&self) -> Millis {
        self.saved_at
    }
}

impl Snapshot {
    /// The snapshot as bytes for [`SavedRoom::decode`]: 14 bytes a waiter, 16 a session.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(MAGIC);
        put32(&mut out, VERSION);
        put64(&mut out, self.saved_at.as_u64());
        put64(&mut out, self.admitted_total);
        put64(&mut out, self.sessions_revoked_total);
        put64(&mut out, self.line.next_index());
        match self.prequeue {
            Some(prequeue) => {
                out.push(1);
                put64(&mut out, prequeue.event_starts_at.as_u64());
                put64(&mut out, prequeue.from);
            }
            None => out.push(0),
        }
        put_list(&mut out, self.shuffles.iter(), |out, shuffle| {
            put64(out, shuffle.from);
            put64(out, shuffle.length);
            put64(out, shuffle.key);
        });
        put_list(&mut out, self.rate.iter(), |out, (at, count)| {
            put64(out, at.as_u64());
            put32(out, *count);
        });
        put_list(
            &mut out,
            self.sessions.iter(),
            |out, (visitor, accepted_at_s, ends_at_s)| {
                put64(out, visitor.0);
                put32(out, accepted_at_s);
                put32(out, ends_at_s);
            },
        );
        put_list(&mut out, self.line.iter(), |out, waiter| {
            put64(out, waiter.index);
            put32(out, waiter.last_check_in_s);
            out.extend_from_slice(&waiter.present_seconds.to_le_bytes());
        });
        out
    }
}

impl SavedRoom {
    /// Reads what [`Snapshot::encode`] wrote. Never panics, whatever the bytes are.
    pub fn decode(bytes: &[u8]) -> Result<Self, SnapshotError> {
        let mut bytes = Reader(bytes);
        if bytes.take::<8>().map_err(|_| SnapshotError::NotASnapshot)? != *MAGIC {
            return Err(SnapshotError::NotASnapshot);
        }
        let version = bytes.u32()?;
        if version != VERSION {
            return Err(SnapshotError::Version(version));
        }
        let saved_at = Millis::new(bytes.u64()?);
        let admitted_total = bytes.u64()?;
        let sessions_revoked_total = bytes.u64()?;
        let next_index = bytes.u64()?;
        let prequeue = match bytes.take::<1>()? {
            [0] => None,
            [_] => Some(Prequeue {
                event_starts_at: Millis::new(bytes.u64()?),
                from: bytes.u64()?,
            }),
        };
        let shuffles = bytes.list(24, |bytes| {
            Ok(Shuffle {
                from: bytes.u64()?,
                length: bytes.u64()?,
                key: bytes.u64()?,
            })
        })?;
        let rate = bytes.list(12, |bytes| Ok((Millis::new(bytes.u64()?), bytes.u32()?)))?;
        let sessions = bytes.list(16, |bytes| {
            Ok((VisitorId(bytes.u64()?), bytes.u32()?, bytes.u32()?))
        })?;
        let waiters = bytes.list(14, |bytes| {
            Ok(Waiter {
                index: bytes.u64()?,
                last_check_in_s: bytes.u32()?,
                present_seconds: u16::from_le_bytes(bytes.take()?),
            })
        })?;
        let line = next_index.saturating_sub(LINE_SPAN_MAX)..next_index;
        if waiters.iter().any(|waiter| !line.contains(&waiter.index)) {
            return Err(SnapshotError::PlaceOutOfRange);
        }
        if !bytes.0.is_empty() {
            return Err(SnapshotError::TrailingBytes);
        }
        Ok(Self {
            saved_at,
            next_index,
            sessions,
            waiters,
            rate,
            shuffles,
            prequeue,
            admitted_total,
            sessions_revoked_total,
        })
    }
}

fn put32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn put64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Writes a count and then the items; the count is known only at the end.
fn put_list<T>(
    out: &mut Vec<u8>,
    items: impl Iterator<Item = T>,
    mut put: impl FnMut(&mut Vec<u8>, T),
) {
    let at = out.len();
    put64(out, 0);
    let mut count = 0_u64;
    for item in items {
        put(out, item);
        count += 1;
    }
    out[at..at + 8].copy_from_slice(&count.to_le_bytes());
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], SnapshotError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(SnapshotError::Truncated)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn u32(&mut self) -> Result<u32, SnapshotError> {
        Ok(u32::from_le_bytes(self.take()?))
    }

    fn u64(&mut self) -> Result<u64, SnapshotError> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    fn list<T>(
        &mut self,
        item_bytes: usize,
        mut read: impl FnMut(&mut Self) -> Result<T, SnapshotError>,
    ) -> Result<Vec<T>, SnapshotError> {
        let count = usize::try_from(self.u64()?).map_err(|_| SnapshotError::Truncated)?;
        // No more is reserved than the bytes can hold, whatever the count says.
        if count > self.0.len() / item_bytes {
            return Err(SnapshotError::Truncated);
        }
        let mut items = Vec::with_capacity(count);
        for _ in 0..count {
            items.push(read(self)?);
        }
        Ok(items)
    }
}
