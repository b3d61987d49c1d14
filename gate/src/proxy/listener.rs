//! Listening sockets and the threads that accept from them: one single-threaded runtime each, with a socket of its own on
//! every address (`SO_REUSEPORT`), so that nothing on a request's path crosses threads.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use super::connection;
use super::gate::{Core, Gate, Seat};

/// Connections the kernel holds for a thread that has not accepted them yet.
const BACKLOG: i32 = 4096;
/// How long accepting rests after the process ran out of files or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How often a full gate looks for room again.
const FULL_PAUSE: Duration = Duration::from_millis(20);

/// The sockets of one address, one for each thread.
#[derive(Debug)]
pub struct Listeners {
    address: SocketAddr,
    sockets: Vec<StdListener>,
}

impl Listeners {
    /// Binds `threads` sockets to `address`; port 0 becomes a free one. Fails where another process listens there.
    pub fn bind(address: SocketAddr, threads: usize) -> io::Result<Self> {
        // SO_REUSEPORT would let us share the port with another gate in silence.
        let probe = socket(address)?;
        probe.bind(&address.into())?;
        drop(probe);
        let mut bound = address;
        let mut sockets = Vec::with_capacity(threads);
        for _ in 0..threads {
            let socket = socket(bound)?;
            socket.set_reuse_port(true)?;
            socket.bind(&bound.into())?;
            // Accepted sockets inherit it.
            socket.set_tcp_nodelay(true)?;
            socket.listen(BACKLOG)?;
            let socket = StdListener::from(socket);
            bound = socket.local_addr()?;
            sockets.push(socket);
        }
        Ok(Self {
            address: bound,
            sockets,
        })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

fn socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    Ok(socket)
}

/// Starts `threads` threads that serve `listeners` until `stop` says so, and then end within the drain timeout.
pub fn start(
    gate: &Arc<Gate>,
    listeners: Vec<Listeners>,
    threads: usize,
    stop: &watch::Receiver<bool>,
) -> io::Result<Vec<std::thread::JoinHandle<io::Result<()>>>> {
    let mut shares: Vec<Vec<StdListener>> = (0..threads).map(|_| Vec::new()).collect();
    for listener in listeners {
        for (share, socket) in shares.iter_mut().zip(listener.sockets) {
            share.push(socket);
        }
    }
    shares
        .into_iter()
        .enumerate()
        .map(|(index, sockets)| {
            let gate = Arc::clone(gate);
            let stop = stop.clone();
            std::thread::Builder::new()
                .name(format!("gate-{index}"))
                .spawn(move || run(gate, sockets, stop))
        })
        .collect()
}

fn run(
    gate: Arc<Gate>,
    sockets: Vec<StdListener>,
    mut stop: watch::Receiver<bool>,
) -> io::Result<()> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())?;
    runtime.block_on(async move {
        let core = Rc::new(Core::new(gate).map_err(io::Error::other)?);
        for socket in sockets {
            let listener = TcpListener::from_std(socket)?;
            tokio::task::spawn_local(accept(Rc::clone(&core), listener, stop.clone()));
        }
        let mut second = interval(Duration::from_secs(1));
        second.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = second.tick() => core.tick(),
                _ = stop.wait_for(|stop| *stop) => break,
            }
        }
        drain(&core).await;
        Ok(())
    })
}

/// Waits until the thread's connections have ended, or for the drain timeout.
async fn drain(core: &Rc<Core>) {
    let deadline = Instant::now()
        + Duration::from_secs(u64::from(core.local().limits().drain_timeout_seconds));
    while core.open.get() > 0 && Instant::now() < deadline {
        // Those parked since the last round end, too.
        core.parked.notify_waiters();
        let ended = core.ended.notified();
        if timeout(FULL_PAUSE, ended).await.is_err() {
            continue;
        }
    }
    if core.open.get() > 0 {
        log::warn!("{} connections cut at the drain timeout", core.open.get());
    }
}

async fn accept(core: Rc<Core>, listener: TcpListener, mut stop: watch::Receiver<bool>) {
    loop {
        if !core.has_room() {
            tokio::select! {
                () = core.ended.notified() => {}
                () = sleep(FULL_PAUSE) => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
            continue;
        }
        let accepted = tokio::select! {
            biased;
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => return,
        };
        match accepted {
            Ok((stream, peer)) => {
                let seat = Seat::take(&core);
                tokio::task::spawn_local(connection::serve(Rc::clone(&core), stream, peer, seat));
            }
            Err(error) => {
                if !is_of_one_connection(&error) {
                    log::error!("accepting fails: {error}");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// Errors that concern the connection that was to be accepted, not the socket.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::Interrupted
    )
}
