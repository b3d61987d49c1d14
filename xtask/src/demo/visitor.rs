//! Demo visitors: each with its own cookie jar, one connection per request as from a phone on the move. They join, wait, ask
//! again at the interval they are told, browse a while and leave.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;

use super::network::Network;
use super::room::{REFRESH_SECONDS, ROOMS, Room};
use super::wire::Message;

/// How long a visitor waits for an answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Longest sleep between two looks at the end of the demo.
const NAP: Duration = Duration::from_millis(100);

/// What the visitors of one room have lived through.
#[derive(Debug, Default)]
pub(super) struct Diary {
    /// Visitors that had to wait and got in.
    pub(super) admitted_after_waiting: u64,
    /// Visitors that got in at once.
    pub(super) admitted_at_once: u64,
    pub(super) longest_wait: Duration,
    /// The position of each visitor that waits now, by visitor.
    pub(super) positions: BTreeMap<u64, u64>,
    /// Times that a position grew while its visitor kept asking: somebody overtook.
    pub(super) set_back: u64,
    /// Answers that were neither a page of the shop nor a place in the line.
    pub(super) errors: u64,
    pub(super) last_error: Option<String>,
}

/// All demo visitors.
#[derive(Debug)]
pub(super) struct Crowd {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    over: AtomicBool,
    gate: SocketAddr,
    diaries: [Mutex<Diary>; ROOMS.len()],
    next: AtomicU64,
    network: Option<Network>,
}

/// Where the visitors come from and how fast they arrive.
#[derive(Debug)]
pub(super) struct Arrivals {
    /// Where they find the gate.
    pub(super) gate: SocketAddr,
    /// The namespace they live in, each with an address of its own; without it they all come from this machine's loopback.
    pub(super) network: Option<Network>,
    /// Within this time all of them have come.
    pub(super) within: Duration,
}

impl Crowd {
    /// Lets them come.
    pub(super) fn start(arrivals: Arrivals) -> Result<Self> {
        let shared = Arc::new(Shared {
            over: AtomicBool::new(false),
            gate: arrivals.gate,
            diaries: ROOMS.map(|_| Mutex::default()),
            next: AtomicU64::new(1),
            network: arrivals.network,
        });
        let mut threads = Vec::new();
        for room in &ROOMS {
            for number in 0..room.visitors {
                let shared = Arc::clone(&shared);
                let delay = arrivals.within * number / room.visitors;
                let seat = u32::try_from(threads.len()).unwrap_or(0);
                threads.push(
                    thread::Builder::new()
                        .name(format!("{}-{number}", room.name))
                        .spawn(move || live(&shared, room, seat, delay))
                        .context("cannot start a demo visitor")?,
                );
            }
        }
        Ok(Self { shared, threads })
    }

    /// Reads the diary of one room.
    pub(super) fn diary<T>(&self, room: &Room, reader: impl FnOnce(&Diary) -> T) -> T {
        reader(&self.shared.diary(room))
    }

    /// Sends everybody home and waits until they are gone.
    pub(super) fn leave(self) {
        self.shared.over.store(true, Ordering::Relaxed);
        for thread in self.threads {
            // A visitor that panicked has said so.
            thread.join().ok();
        }
    }
}

impl Shared {
    fn diary(&self, room: &Room) -> std::sync::MutexGuard<'_, Diary> {
        self.diaries[room.index]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Sleeps, but not beyond the end of the demo.
    fn rest(&self, time: Duration) {
        let begun = Instant::now();
        while !self.is_over() && begun.elapsed() < time {
            thread::sleep(NAP.min(time));
        }
    }
}

/// One visitor after the other, all from the same seat.
fn live(shared: &Shared, room: &'static Room, seat: u32, delay: Duration) {
    if let Some(network) = &shared.network
        && let Err(error) = network.enter()
    {
        shared.diary(room).last_error = Some(format!("{error:#}"));
        return;
    }
    let mut dice = Dice(u64::from(seat) * 0x9E37_79B9 + 1);
    shared.rest(delay);
    while !shared.is_over() {
        let mut visitor = Visitor {
            shared,
            room,
            seat,
            id: shared.next.fetch_add(1, Ordering::Relaxed),
            cookies: BTreeMap::new(),
        };
        if let Err(error) = visitor.visit(&mut dice)
            && !shared.is_over()
        {
            let mut diary = shared.diary(room);
            diary.errors += 1;
            diary.last_error = Some(error.to_string());
        }
        shared.diary(room).positions.remove(&visitor.id);
        shared.rest(Duration::from_secs(dice.between(3, 9)));
    }
}

struct Visitor<'a> {
    shared: &'a Shared,
    room: &'static Room,
    seat: u32,
    id: u64,
    cookies: BTreeMap<String, String>,
}

/// What the gate made of a request.
enum Answer {
    /// A page of the shop.
    Shop,
    /// A place in the line.
    Line {
        position: Option<u64>,
        again: Duration,
    },
}

impl Visitor<'_> {
    /// From the first request to the last.
    fn visit(&mut self, dice: &mut Dice) -> io::Result<()> {
        let begun = Instant::now();
        let mut waited = false;
        while let Answer::Line { position, again } = self.ask(self.room.path)? {
            waited = true;
            self.note(position);
            self.shared.rest(again);
            if self.shared.is_over() {
                return Ok(());
            }
        }
        self.note_admission(begun, waited);
        let (shortest, longest) = self.room.stay_seconds;
        let leaves = Instant::now() + Duration::from_secs(dice.between(shortest, longest));
        while !self.shared.is_over() && Instant::now() < leaves {
            self.shared.rest(Duration::from_secs(dice.between(2, 5)));
            self.ask(self.room.path)?;
        }
        self.ask(self.room.leave)?;
        Ok(())
    }

    fn note(&self, position: Option<u64>) {
        let Some(position) = position else { return };
        let mut diary = self.shared.diary(self.room);
        let before = diary.positions.insert(self.id, position);
        if before.is_some_and(|before| position > before) {
            diary.set_back += 1;
        }
    }

    fn note_admission(&self, begun: Instant, waited: bool) {
        let mut diary = self.shared.diary(self.room);
        diary.positions.remove(&self.id);
        if waited {
            diary.admitted_after_waiting += 1;
            diary.longest_wait = diary.longest_wait.max(begun.elapsed());
        } else {
            diary.admitted_at_once += 1;
        }
    }

    fn ask(&mut self, path: &str) -> io::Result<Answer> {
        let stream = self.connect()?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let cookies: Vec<String> = self
            .cookies
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let mut head = format!(
            "GET {path} HTTP/1.1\r\nHost: shop.demo\r\nAccept: application/json\r\nConnection: close\r\n"
        );
        if !cookies.is_empty() {
            head.push_str(&format!("Cookie: {}\r\n", cookies.join("; ")));
        }
        head.push_str("\r\n");
        (&stream).write_all(head.as_bytes())?;
        let response = Message::read(&mut BufReader::new(&stream))?
            .ok_or_else(|| io::Error::other("no answer"))?;
        self.keep(&response);
        understand(&response)
    }

    fn connect(&self) -> io::Result<TcpStream> {
        match &self.shared.network {
            Some(network) => network.connect(self.seat, self.shared.gate, PATIENCE),
            None => TcpStream::connect_timeout(&self.shared.gate, PATIENCE),
        }
    }

    fn keep(&mut self, response: &Message) {
        for set in response.all("set-cookie") {
            let mut parts = set.split(';');
            let Some((name, value)) = parts.next().and_then(|pair| pair.split_once('=')) else {
                continue;
            };
            if parts.any(|part| part.trim().eq_ignore_ascii_case("max-age=0")) {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
    }
}

fn understand(response: &Message) -> io::Result<Answer> {
    let is_json = response
        .all("content-type")
        .any(|value| value.starts_with("application/json"));
    if is_json {
        let json: Value = serde_json::from_slice(&response.body)?;
        let again = json["cfWaitingRoom"]["refreshIntervalSeconds"]
            .as_u64()
            .unwrap_or(u64::from(REFRESH_SECONDS));
        return Ok(Answer::Line {
            position: json["position"].as_u64(),
            again: Duration::from_secs(again.max(1)),
        });
    }
    match response.first.get(1).map(String::as_str) {
        Some("200") => Ok(Answer::Shop),
        _ => Err(io::Error::other(response.first.join(" "))),
    }
}

/// Small, seeded dice (xorshift): the same demo each time.
struct Dice(u64);

impl Dice {
    /// A number from `low` to `high`, both possible.
    fn between(&mut self, low: u64, high: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        low + self.0 % (high - low + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dice_stay_in_range() {
        let mut dice = Dice(1);
        assert!((0..1000).all(|_| (3..=9).contains(&dice.between(3, 9))));
    }

    fn answer(text: &str) -> io::Result<Answer> {
        understand(&Message::read(&mut text.as_bytes()).unwrap().unwrap())
    }

    #[test]
    fn answers_are_told_apart() {
        let line = answer(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 60\r\n\r\n\
             {\"cfWaitingRoom\":{\"refreshIntervalSeconds\":5},\"position\": 3}",
        );
        assert!(matches!(
            line.unwrap(),
            Answer::Line { position: Some(3), again } if again == Duration::from_secs(5)
        ));
        let shop = answer("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n");
        assert!(matches!(shop.unwrap(), Answer::Shop));
        assert!(answer("HTTP/1.1 502 Bad Gateway\r\n\r\n").is_err());
    }
}
