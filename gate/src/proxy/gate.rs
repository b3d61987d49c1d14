//! What all threads of the proxy share, and what each keeps for itself.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use hyper::server::conn::http1;
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;

use super::forward::{Peer, Sender};
use super::upstream::Pool;
use crate::admin::ProxyCounts;
use crate::clock::Clock;
use crate::config::{Config, Origin, ProxyLimits};
use crate::kernel::Kernel;
use crate::page::{AnswerKind, Language, Page, Prepared, PreparedAnswers};
use crate::registry::{OpenRoom, Registry};
use crate::room::{Millis, WaitView};
use crate::rules::Crawlers;
use crate::ticket::{Keyring, TicketBox};

/// What a configuration says, as the proxy uses it. Never changes; a reload brings another one.
#[derive(Debug)]
pub struct Setup {
    pub config: Arc<Config>,
    pub registry: Arc<Registry>,
    pub keyring: Arc<Keyring>,
    /// Who passes every room as a verified search crawler; `None` where nobody does.
    pub crawlers: Option<Crawlers>,
}

/// The proxy's state that all threads share.
#[derive(Debug)]
pub struct Gate {
    clock: Clock,
    pub(super) kernel: Arc<Kernel>,
    setup: RwLock<Arc<Setup>>,
    /// Counts setups, so that threads see with one load whether theirs is the latest.
    generation: AtomicU64,
    connections: AtomicUsize,
    counts: Mutex<Vec<Arc<Counts>>>,
    stopping: AtomicBool,
    /// A thread is at `connections_max`.
    wants_room: AtomicBool,
}

impl Gate {
    pub fn new(clock: Clock, setup: Setup, kernel: Arc<Kernel>) -> Self {
        Self {
            clock,
            kernel,
            setup: RwLock::new(Arc::new(setup)),
            generation: AtomicU64::new(0),
            connections: AtomicUsize::new(0),
            counts: Mutex::new(Vec::new()),
            stopping: AtomicBool::new(false),
            wants_room: AtomicBool::new(false),
        }
    }

    /// Requests that begin from now on see the new setup.
    pub fn replace_setup(&self, setup: Setup) {
        *self.setup.write() = Arc::new(setup);
        self.generation.fetch_add(1, Ordering::Release);
    }

    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    pub fn setup(&self) -> Arc<Setup> {
        Arc::clone(&self.setup.read())
    }

    pub fn now(&self) -> Millis {
        self.clock.now()
    }

    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Client connections open now, idle ones included.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// What all threads have done so far.
    pub fn counts(&self) -> ProxyCounts {
        let mut sum = ProxyCounts {
            connections: self.connections() as u64,
            ..ProxyCounts::default()
        };
        for counts in &*self.counts.lock() {
            counts.add_to(&mut sum);
        }
        sum
    }

    /// No connection is accepted any more, and none is kept after its request.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    fn register(&self) -> Arc<Counts> {
        let counts = Arc::new(Counts::default());
        self.counts.lock().push(Arc::clone(&counts));
        counts
    }
}

/// What one thread counts. Only that thread writes; anybody may read.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) requests: Count,
    pub(super) forwarded: Count,
    pub(super) queued_answers: Count,
    pub(super) origin_failures: Count,
    pub(super) rate_limited: Count,
}

/// A counter with one writer.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn add_one(&self) {
        // No read-modify-write: nobody else writes.
        self.0
            .store(self.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

impl Counts {
    fn add_to(&self, sum: &mut ProxyCounts) {
        let value = |count: &Count| count.0.load(Ordering::Relaxed);
        sum.requests_total += value(&self.requests);
        sum.forwarded_total += value(&self.forwarded);
        sum.queued_answers_total += value(&self.queued_answers);
        sum.origin_failures_total += value(&self.origin_failures);
        sum.rate_limited_total += value(&self.rate_limited);
    }
}

/// A setup with what one thread needs to serve it.
pub(super) struct Local {
    pub(super) setup: Arc<Setup>,
    pub(super) http: http1::Builder,
    /// For requests outside every room.
    pub(super) pool: Rc<Pool>,
    /// In the order of the registry's rooms; rooms of one origin share one.
    room_pools: Vec<Rc<Pool>>,
    /// Each pool once.
    pools: Vec<Rc<Pool>>,
    prepared: RefCell<PreparedAnswers>,
}

impl fmt::Debug for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Local")
            .field("setup", &self.setup)
            .finish_non_exhaustive()
    }
}

impl Local {
    fn new(setup: Arc<Setup>, before: Option<&Self>) -> Self {
        let limits = &setup.config.limits;
        let mut pools: Vec<Rc<Pool>> = Vec::new();
        let mut pool_of = |origin: &Origin| {
            if let Some(pool) = pools.iter().find(|pool| pool.origin() == origin) {
                return Rc::clone(pool);
            }
            let kept = before.map_or(&[][..], |local| &local.pools);
            let pool = match kept.iter().find(|pool| pool.origin() == origin) {
                Some(pool) => Rc::clone(pool),
                None => Rc::new(Pool::new(origin.clone(), limits)),
            };
            pools.push(Rc::clone(&pool));
            pool
        };
        let pool = pool_of(&setup.config.origin);
        let rooms = setup.registry.rooms().iter();
        let room_pools = rooms.map(|room| pool_of(&room.config().origin)).collect();
        let http = http_builder(limits);
        Self {
            setup,
            http,
            pool,
            room_pools,
            pools,
            prepared: RefCell::default(),
        }
    }

    pub(super) fn limits(&self) -> &ProxyLimits {
        &self.setup.config.limits
    }

    /// The room that covers a request and the pool of its origin.
    pub(super) fn room(
        &self,
        target: &http::Uri,
        host_header: Option<&[u8]>,
    ) -> Option<(&OpenRoom, &Rc<Pool>)> {
        let index = self.setup.registry.find(target, host_header)?;
        let room = self.setup.registry.rooms().get(index)?;
        Some((room, self.room_pools.get(index)?))
    }

    /// The room that covers a path of a host.
    pub(super) fn room_at(&self, host: &[u8], path: &[u8]) -> Option<&OpenRoom> {
        let registry = &self.setup.registry;
        registry.rooms().get(registry.find_path(host, path)?)
    }

    /// What a waiting visitor is answered with. `page` must be of this setup.
    pub(super) fn prepared(
        &self,
        page: &Page,
        kind: AnswerKind,
        language: Language,
        view: &WaitView,
    ) -> Rc<Prepared> {
        let mut prepared = self.prepared.borrow_mut();
        prepared.get(page, kind, language, view)
    }

    /// Who is at the other end of a connection.
    pub(super) fn sender(&self, address: IpAddr) -> Sender {
        let address = address.to_canonical();
        Sender {
            address,
            text: address.to_string().into(),
            peer: if self.is_trusted(address) {
                Peer::TrustedProxy
            } else {
                Peer::Client
            },
        }
    }

    pub(super) fn is_trusted(&self, address: IpAddr) -> bool {
        let trusted = &self.setup.config.trusted_proxies;
        trusted.iter().any(|prefix| prefix.contains(address))
    }
}

/// What hyper may buffer for one connection, unless heads may be longer.
const BUFFER_BYTES_MAX: usize = 64 * 1024;

fn http_builder(limits: &ProxyLimits) -> http1::Builder {
    let mut http = http1::Builder::new();
    http.max_header_size(limits.head_bytes_max)
        .max_buf_size(limits.head_bytes_max.max(BUFFER_BYTES_MAX))
        // The watch keeps this time, for all phases of a connection alike.
        .header_read_timeout(None);
    http
}

/// Read at once from a connection that has no buffer of its own.
const SCRATCH_BYTES: usize = 16 * 1024;

/// What all connections of a thread write into between two awaits, so that none has to keep it.
#[derive(Debug)]
pub(super) struct Scratch {
    pub(super) input: Box<[u8]>,
    pub(super) head: String,
    pub(super) body: String,
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            input: vec![0; SCRATCH_BYTES].into(),
            head: String::new(),
            body: String::new(),
        }
    }
}

/// One thread of the proxy.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) gate: Arc<Gate>,
    local: RefCell<Rc<Local>>,
    generation: Cell<u64>,
    /// Connections of this thread.
    pub(super) open: Cell<usize>,
    /// Where idle connections wait for a request: the longest idle is told first to make room.
    pub(super) parked: Notify,
    /// Told when a connection of this thread has ended.
    pub(super) ended: Notify,
    pub(super) tickets: RefCell<TicketBox>,
    pub(super) counts: Arc<Counts>,
    pub(super) scratch: RefCell<Scratch>,
    date: RefCell<(u64, String)>,
    has_logged: Cell<bool>,
}

impl Core {
    /// Fails where the system has no randomness for its tickets.
    pub(super) fn new(gate: Arc<Gate>) -> Result<Self, getrandom::Error> {
        let generation = gate.generation.load(Ordering::Acquire);
        let local = Local::new(gate.setup(), None);
        let tickets = TicketBox::new(Arc::clone(&local.setup.keyring))?;
        let counts = gate.register();
        Ok(Self {
            gate,
            local: RefCell::new(Rc::new(local)),
            generation: Cell::new(generation),
            open: Cell::new(0),
            parked: Notify::new(),
            ended: Notify::new(),
            tickets: RefCell::new(tickets),
            counts,
            scratch: RefCell::default(),
            date: RefCell::new((u64::MAX, String::new())),
            has_logged: Cell::new(false),
        })
    }

    pub(super) fn now(&self) -> Millis {
        self.gate.now()
    }

    /// Appends the value of `Date`.
    pub(super) fn write_date(&self, out: &mut String) {
        let seconds = self.now().as_secs();
        let mut date = self.date.borrow_mut();
        if date.0 != seconds {
            let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
            *date = (seconds, httpdate::fmt_http_date(time));
        }
        out.push_str(&date.1);
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.gate.clock
    }

    /// The setup in force.
    pub(super) fn local(&self) -> Rc<Local> {
        let latest = self.gate.generation.load(Ordering::Acquire);
        if latest != self.generation.get() {
            let next = Local::new(self.gate.setup(), Some(&self.local.borrow()));
            let keyring = Arc::clone(&next.setup.keyring);
            // The old keys go on being good; the next reload tries again.
            if let Err(error) = self.tickets.borrow_mut().set_keyring(keyring) {
                log::error!("new keys cannot be used: {error}");
            }
            *self.local.borrow_mut() = Rc::new(next);
            self.generation.set(latest);
        }
        Rc::clone(&self.local.borrow())
    }

    /// Whether a connection may be accepted. Threads ask by themselves: each may be one too late. At the limit the longest
    /// idle connection is asked to leave, of this thread now and of the others at their next tick.
    pub(super) fn has_room(&self) -> bool {
        if self.gate.connections() < self.local().limits().connections_max {
            return true;
        }
        self.gate.wants_room.store(true, Ordering::Relaxed);
        self.parked.notify_one();
        false
    }

    /// To be called once a second.
    pub(super) fn tick(&self) {
        let local = self.local();
        if self.gate.wants_room.swap(false, Ordering::Relaxed) {
            self.parked.notify_one();
        }
        for pool in &local.pools {
            pool.tick(local.limits());
        }
        self.has_logged.set(false);
        if self.gate.is_stopping() {
            self.parked.notify_waiters();
        }
    }

    /// Logs a failed exchange, at most once a second: an origin that is down must not fill the disk.
    pub(super) fn log_failure(&self, origin: &Origin, error: &dyn std::error::Error) {
        if self.has_logged.replace(true) {
            return;
        }
        let mut chain = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            chain.push_str(": ");
            chain.push_str(&cause.to_string());
            source = cause.source();
        }
        log::warn!("{origin}: {chain}");
    }
}

/// The right of one connection to be open.
#[derive(Debug)]
pub(super) struct Seat {
    core: Rc<Core>,
}

impl Seat {
    pub(super) fn take(core: &Rc<Core>) -> Self {
        core.gate.connections.fetch_add(1, Ordering::Relaxed);
        core.open.set(core.open.get() + 1);
        Self {
            core: Rc::clone(core),
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.core.gate.connections.fetch_sub(1, Ordering::Relaxed);
        self.core.open.set(self.core.open.get() - 1);
        self.core.ended.notify_one();
    }
}
