//! `gate serve`: puts the parts together, runs them and takes them down in order.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::admin::{AdminServer, ClusterReport, Report, View};
use crate::cli;
use crate::clock::Clock;
use crate::cluster::{Cluster, ClusterError};
use crate::config::{Config, ConfigError, QuickArgs};
use crate::kernel::settings::KernelMode;
use crate::kernel::{Kernel, KernelError, Severity};
use crate::proxy::{self, Gate, Listeners, Setup};
use crate::registry::{Registry, RegistryError};
use crate::rules::{Crawlers, DnsError, SystemDns};
use crate::state::{Loaded, Saver, StateError, StateFile};
use crate::ticket::{KeyError, Keyring};

/// How often a stopping gate looks whether its threads have ended.
const STOP_POLL: Duration = Duration::from_millis(10);

/// Why serving failed.
#[derive(Debug)]
pub enum ServeError {
    Configuration(ConfigError),
    /// Both a configuration file and flags that describe a room.
    FlagsBesideFile,
    Keys(KeyError),
    State(StateError),
    Rooms(RegistryError),
    Kernel(KernelError),
    Cluster(ClusterError),
    /// The system's DNS configuration.
    Dns(DnsError),
    Random(getrandom::Error),
    Bind(SocketAddr, io::Error),
    Admin(SocketAddr, io::Error),
    Thread(io::Error),
    Signals(io::Error),
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // These say it all themselves.
            Self::Configuration(error) => error.fmt(f),
            Self::Keys(error) => error.fmt(f),
            Self::State(error) => error.fmt(f),
            Self::Rooms(error) => error.fmt(f),
            Self::Kernel(error) => error.fmt(f),
            Self::Cluster(error) => error.fmt(f),
            Self::FlagsBesideFile => f.write_str(
                "--config stands beside flags that describe a room: give one or the other",
            ),
            Self::Dns(_) => f.write_str("crawlers cannot be looked up"),
            Self::Random(_) => f.write_str("the system gave no random bytes"),
            Self::Bind(address, _) => write!(f, "cannot listen on {address}"),
            Self::Admin(address, _) => write!(f, "the admin endpoint cannot listen on {address}"),
            Self::Thread(_) => f.write_str("a thread failed"),
            Self::Signals(_) => f.write_str("signals cannot be received"),
        }
    }
}

impl std::error::Error for ServeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Configuration(error) => error.source(),
            Self::Keys(error) => error.source(),
            Self::State(error) => error.source(),
            Self::Rooms(error) => error.source(),
            Self::Kernel(error) => error.source(),
            Self::Cluster(error) => error.source(),
            Self::FlagsBesideFile => None,
            Self::Dns(error) => Some(error),
            Self::Random(error) => Some(error),
            Self::Bind(_, error)
            | Self::Admin(_, error)
            | Self::Thread(error)
            | Self::Signals(error) => Some(error),
        }
    }
}

/// Serves until SIGTERM or SIGINT, then lets requests in flight end. SIGHUP reads configuration and keys again.
///
/// # Errors
/// What kept it from starting, or what ended it.
pub fn serve(order: &cli::Serve) -> Result<(), ServeError> {
    let config = read_config(order)?;
    let threads = order.threads.map_or_else(
        || std::thread::available_parallelism().map_or(1, usize::from),
        usize::from,
    );
    let state_file = config.state_file.clone().map(StateFile::new);
    let state = load_state(state_file.as_ref())?;
    let mut clock = Clock::start(state.latest());
    if let Some(cluster) = &config.cluster
        && let Some(now) = Cluster::time(cluster, &clock).map_err(ServeError::Cluster)?
    {
        // However wrong this host's clock is. Rooms take no step back: they count from the state's time on.
        clock = Clock::showing(now);
    }
    let listeners = bind(&config, threads)?;
    // After what needs privilege, and before any thread that would keep the capabilities this one gives up.
    let kernel = Arc::new(start_kernel(&config, &listeners)?);
    let setup = Setup {
        keyring: Arc::new(read_keys(&config)?),
        registry: Arc::new(
            Registry::open(&config, &state, seed()?, clock.now()).map_err(ServeError::Rooms)?,
        ),
        crawlers: start_crawlers(&config, clock)?,
        config: Arc::new(config),
    };
    let config = Arc::clone(&setup.config);
    let shared = config.cluster.as_ref().map(|cluster| {
        let registry = &setup.registry;
        registry.share(cluster, &state, clock)
    });
    let cluster = shared.transpose().map_err(ServeError::Cluster)?;
    drop(state);
    let gate = Arc::new(Gate::new(clock, setup, Arc::clone(&kernel)));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(ServeError::Thread)?;
    let admin = start_admin(&config, &gate, &kernel, cluster.clone(), clock)?;
    let saver = start_saver(state_file, &gate, clock)?;
    let served = runtime.block_on(run(order, &gate, listeners, threads));
    if let Some(admin) = admin {
        admin.stop();
    }
    if let Some(cluster) = cluster {
        cluster.stop();
    }
    // After the last request, so that nothing it did is forgotten.
    let saved = saver.map_or(Ok(()), Saver::stop);
    // Last of all: until here the program kept floods away.
    kernel.stop();
    served.and(saved.map_err(ServeError::State))
}

async fn run(
    order: &cli::Serve,
    gate: &Arc<Gate>,
    listeners: Vec<Listeners>,
    threads: usize,
) -> Result<(), ServeError> {
    // Before anything runs that a signal should end in order.
    let mut signals = Signals::listen().map_err(ServeError::Signals)?;
    let addresses: Vec<_> = listeners.iter().map(Listeners::address).collect();
    let (stop, stopped) = watch::channel(false);
    let running = proxy::start(gate, listeners, threads, &stopped).map_err(ServeError::Thread)?;
    for address in addresses {
        log::info!("listening on http://{address}");
    }
    while let Asked::Reload = signals.next().await {
        reload(order, gate);
    }
    log::info!("stopping: requests in flight may end");
    gate.stop();
    stop.send_replace(true);
    join(running).await
}

fn bind(config: &Config, threads: usize) -> Result<Vec<Listeners>, ServeError> {
    let bound = config.listen.iter().map(|&address| {
        Listeners::bind(address, threads).map_err(|error| ServeError::Bind(address, error))
    });
    bound.collect()
}

fn read_config(order: &cli::Serve) -> Result<Config, ServeError> {
    match &order.config {
        Some(_) if order.quick != QuickArgs::default() => Err(ServeError::FlagsBesideFile),
        Some(file) => Config::load(file).map_err(ServeError::Configuration),
        None => Config::from_quick(&order.quick).map_err(ServeError::Configuration),
    }
}

fn read_keys(config: &Config) -> Result<Keyring, ServeError> {
    match &config.key_file {
        Some(file) => Keyring::load_or_create(file),
        None => Keyring::ephemeral(),
    }
    .map_err(ServeError::Keys)
}

fn load_state(file: Option<&StateFile>) -> Result<Loaded, ServeError> {
    let Some(file) = file else {
        return Ok(Loaded::default());
    };
    let state = file.load().map_err(ServeError::State)?;
    if let Some((aside, error)) = &state.set_aside {
        log::error!(
            "{error}; it is kept as {}, and every visitor is a new one",
            aside.display()
        );
    }
    Ok(state)
}

/// What a room draws its visitors' numbers from.
fn seed() -> Result<u64, ServeError> {
    let mut seed = [0; 8];
    getrandom::fill(&mut seed).map_err(ServeError::Random)?;
    Ok(u64::from_ne_bytes(seed))
}

fn start_crawlers(config: &Config, clock: Clock) -> Result<Option<Crawlers>, ServeError> {
    let Some(settings) = &config.crawlers else {
        return Ok(None);
    };
    let dns = SystemDns::new(&settings.dns_servers).map_err(ServeError::Dns)?;
    Crawlers::start(settings, dns, clock)
        .map(Some)
        .map_err(ServeError::Thread)
}

/// Says what the kernel part lacks, and serves all the same; only a name that means nothing on this host is an error.
fn start_kernel(config: &Config, listeners: &[Listeners]) -> Result<Kernel, ServeError> {
    let addresses: Vec<_> = listeners.iter().map(Listeners::address).collect();
    let (kernel, faults) = Kernel::start(&config.kernel, &addresses);
    for fault in faults {
        if fault.severity() == Severity::Configuration {
            kernel.stop();
            return Err(ServeError::Kernel(fault));
        }
        match std::error::Error::source(&fault) {
            Some(cause) => log::error!("{fault}: {cause}"),
            None => log::error!("{fault}"),
        }
    }
    if config.kernel.mode != KernelMode::Off {
        for interface in kernel.status().interfaces {
            let state = interface.state.as_str();
            log::info!(
                "kernel part on {}: {state}, {}",
                interface.name,
                config.kernel.mode
            );
        }
    }
    Ok(kernel)
}

fn start_admin(
    config: &Config,
    gate: &Arc<Gate>,
    kernel: &Arc<Kernel>,
    cluster: Option<Arc<Cluster>>,
    clock: Clock,
) -> Result<Option<AdminServer>, ServeError> {
    let Some(address) = config.admin else {
        return Ok(None);
    };
    let view = AdminView {
        gate: Arc::clone(gate),
        kernel: Arc::clone(kernel),
        kernel_mode: config.kernel.mode,
        cluster,
        clock,
    };
    let admin = AdminServer::start(address, Arc::new(view))
        .map_err(|error| ServeError::Admin(address, error))?;
    log::info!("admin endpoint on http://{}", admin.address());
    Ok(Some(admin))
}

/// What the admin endpoint shows of the running parts.
struct AdminView {
    gate: Arc<Gate>,
    kernel: Arc<Kernel>,
    kernel_mode: KernelMode,
    cluster: Option<Arc<Cluster>>,
    clock: Clock,
}

impl View for AdminView {
    fn report(&self) -> Report {
        Report {
            rooms: self.gate.setup().registry.reports(self.clock.now()),
            proxy: self.gate.counts(),
            cluster: self.cluster.as_ref().map(|cluster| ClusterReport {
                now: self.clock.now(),
                data_center: cluster.settings().data_center.clone(),
                gate: cluster.settings().gate.clone(),
                counters: cluster.counters(),
            }),
            kernel: match self.kernel_mode {
                KernelMode::Off => None,
                KernelMode::Monitor | KernelMode::Enforce => Some(self.kernel.status()),
            },
        }
    }

    fn config(&self) -> Arc<Config> {
        Arc::clone(&self.gate.setup().config)
    }
}

fn start_saver(
    file: Option<StateFile>,
    gate: &Arc<Gate>,
    clock: Clock,
) -> Result<Option<Saver>, ServeError> {
    let Some(file) = file else {
        return Ok(None);
    };
    let gate = Arc::clone(gate);
    let source = move |now| gate.setup().registry.snapshots(now);
    Saver::start(file, clock, source)
        .map(Some)
        .map_err(ServeError::Thread)
}

/// Takes over what files say now. What cannot be used changes nothing and is logged. Listeners, files and the admin
/// endpoint stay as they were at the start.
fn reload(order: &cli::Serve, gate: &Gate) {
    match reloaded(order, gate) {
        Ok(setup) => {
            log::info!("reloaded: {} rooms", setup.config.rooms.len());
            reload_kernel(gate, &setup.config);
            gate.replace_setup(setup);
        }
        Err(error) => {
            for line in error.to_string().lines() {
                log::error!("not reloaded, nothing has changed: {line}");
            }
        }
    }
}

fn reloaded(order: &cli::Serve, gate: &Gate) -> Result<Setup, ServeError> {
    let config = read_config(order)?;
    let before = gate.setup();
    let keyring = match &before.config.key_file {
        Some(file) => Arc::new(Keyring::load(file).map_err(ServeError::Keys)?),
        None => Arc::clone(&before.keyring),
    };
    let registry = before
        .registry
        .reload(&config, seed()?, gate.now())
        .map_err(ServeError::Rooms)?;
    for (key, differs) in [
        ("listen", config.listen != before.config.listen),
        ("admin", config.admin != before.config.admin),
        ("state_file", config.state_file != before.config.state_file),
        ("key_file", config.key_file != before.config.key_file),
        ("cluster", config.cluster != before.config.cluster),
    ] {
        if differs {
            log::warn!("{key} has changed: that takes a restart");
        }
    }
    Ok(Setup {
        crawlers: start_crawlers(&config, gate.clock())?,
        config: Arc::new(config),
        registry: Arc::new(registry),
        keyring,
    })
}

fn reload_kernel(gate: &Gate, config: &Config) {
    match gate.kernel().set_parameters(&config.kernel) {
        Ok(after_restart) => {
            for what in after_restart {
                log::warn!("kernel.{} has changed: that takes a restart", what.as_str());
            }
        }
        Err(error) => log::error!("the kernel part keeps its parameters: {error}"),
    }
}

enum Asked {
    Reload,
    Stop,
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.terminate.recv() => Asked::Stop,
            _ = self.interrupt.recv() => Asked::Stop,
            _ = self.hang_up.recv() => Asked::Reload,
        }
    }
}

async fn join(running: Vec<JoinHandle<io::Result<()>>>) -> Result<(), ServeError> {
    for thread in running {
        while !thread.is_finished() {
            tokio::time::sleep(STOP_POLL).await;
        }
        match thread.join() {
            Ok(result) => result.map_err(ServeError::Thread)?,
            Err(_) => return Err(ServeError::Thread(io::Error::other("it panicked"))),
        }
    }
    Ok(())
}
