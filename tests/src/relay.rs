//! A wire that takes its time: forwards TCP with a delay each way, and can be cut.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Listens at one address and forwards to another for as long as the test runs.
#[derive(Clone, Debug)]
pub struct Relay {
    address: SocketAddr,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    to: SocketAddr,
    delay_ms: AtomicU64,
    cut: AtomicBool,
}

impl Relay {
    /// Listens at `address`; each byte arrives `delay` later than it was sent.
    ///
    /// # Panics
    /// Where it cannot listen.
    #[track_caller]
    pub fn start(address: SocketAddr, to: SocketAddr, delay: Duration) -> Self {
        let listener = TcpListener::bind(address).expect("an address to listen at");
        let address = listener.local_addr().expect("its address");
        let state = Arc::new(State {
            to,
            delay_ms: AtomicU64::new(0),
            cut: AtomicBool::new(false),
        });
        let relay = Self { address, state };
        relay.set_delay(delay);
        let state = relay.state.clone();
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let state = state.clone();
                thread::spawn(move || forward(&near, &state));
            }
        });
        relay
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on, one way.
    pub fn set_delay(&self, delay: Duration) {
        let millis = u64::try_from(delay.as_millis()).expect("a delay in reason");
        self.state.delay_ms.store(millis, Ordering::Relaxed);
    }

    /// Nothing passes any more: what is sent is swallowed, connections stay open and silent.
    pub fn cut(&self) {
        self.state.cut.store(true, Ordering::Relaxed);
    }

    /// New connections pass again; those that were cut are closed.
    pub fn mend(&self) {
        self.state.cut.store(false, Ordering::Relaxed);
    }
}

fn forward(near: &TcpStream, state: &Arc<State>) {
    let Ok(far) = TcpStream::connect(state.to) else {
        return;
    };
    let broken = Arc::new(AtomicBool::new(false));
    let ways = [(near, &far), (&far, near)].map(|(from, to)| {
        let (from, to) = (from.try_clone(), to.try_clone());
        let (state, broken) = (state.clone(), broken.clone());
        thread::spawn(move || {
            if let (Ok(from), Ok(to)) = (from, to) {
                one_way(from, to, &state, &broken);
            }
        })
    });
    for way in ways {
        way.join().expect("a way");
    }
}

fn one_way(mut from: TcpStream, mut to: TcpStream, state: &Arc<State>, broken: &Arc<AtomicBool>) {
    let (sent, arrives) = mpsc::channel::<(Instant, Vec<u8>)>();
    let mut sink = to.try_clone().expect("a second handle");
    let writer = thread::spawn(move || {
        for (at, bytes) in arrives {
            thread::sleep(at.saturating_duration_since(Instant::now()));
            if sink.write_all(&bytes).is_err() {
                return;
            }
        }
    });
    from.set_read_timeout(Some(Duration::from_millis(50)))
        .expect("a timeout");
    let mut bytes = [0; 65_536];
    loop {
        match from.read(&mut bytes) {
            Ok(0) => break,
            Ok(count) => {
                if state.cut.load(Ordering::Relaxed) {
                    broken.store(true, Ordering::Relaxed);
                } else {
                    let delay = Duration::from_millis(state.delay_ms.load(Ordering::Relaxed));
                    if sent
                        .send((Instant::now() + delay, bytes[..count].to_vec()))
                        .is_err()
                    {
                        break;
                    }
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => break,
        }
        if broken.load(Ordering::Relaxed) && !state.cut.load(Ordering::Relaxed) {
            // A connection that lost bytes cannot go on.
            from.shutdown(Shutdown::Both).ok();
            break;
        }
    }
    drop(sent);
    writer.join().expect("the writer");
    to.flush().ok();
    to.shutdown(Shutdown::Both).ok();
}
