//! The books and the stocks in Redis or Valkey. Each call is one round trip and one script, so that it happens whole or not at
//! all; a script the server does not know is sent and tried again. Knows nothing of rooms and visitors.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, ErrorKind, IntoConnectionInfo as _, Script, TlsCertificates};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::clock::MonotonicNs;
use crate::room::Millis;
use crate::room::shared::WaitersBySecond;

use super::ledger::{
    DataCenterSeen, GateRun, Grants, Predecessor, Published, Reply, StockReport, Terms,
};
use super::settings::{ClusterSettings, Server};
use super::wire;

/// A waiter silent for longer is not present at any gate, whatever its refresh interval: its gate may be gone.
const PRESENCE_MILLIS_MAX: u64 = 60_000;
/// How long one command may take before its connection counts as broken. Longer than any visitor waits for it.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(2);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const RECONNECT_DELAY_MAX: Duration = Duration::from_secs(2);
/// How long after a refusal the server is tried again.
const REFUSED_DELAY: Duration = Duration::from_secs(1);
/// Keys live for this long after the last gate that used them, beyond what they hold slots for.
const KEY_LIFE_MILLIS: u64 = 3_600_000;

/// Why a counter cannot be asked.
#[derive(Debug)]
pub enum RedisError {
    /// A file named in the configuration cannot be read.
    File {
        file: PathBuf,
        error: std::io::Error,
    },
    /// A file that is to hold certificates holds none that can be read.
    Certificates(PathBuf),
    /// The server refused the user or the password.
    Login(redis::RedisError),
    /// The server did not do what it was asked.
    Server(redis::RedisError),
    /// Its answer has another form than ours.
    Answer,
}

impl fmt::Display for RedisError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { file, .. } => write!(f, "{}: cannot be read", file.display()),
            Self::Certificates(file) => {
                write!(f, "{}: holds no certificate (PEM)", file.display())
            }
            Self::Login(_) => f.write_str("the counter's server refuses the user or password"),
            Self::Server(_) => f.write_str("the counter's server does not answer as asked"),
            Self::Answer => f.write_str("the counter's server answered something else"),
        }
    }
}

impl std::error::Error for RedisError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::File { error, .. } => Some(error),
            Self::Login(error) | Self::Server(error) => Some(error),
            Self::Certificates(_) | Self::Answer => None,
        }
    }
}

impl From<redis::RedisError> for RedisError {
    fn from(error: redis::RedisError) -> Self {
        if error.kind() == ErrorKind::AuthenticationFailed {
            Self::Login(error)
        } else {
            Self::Server(error)
        }
    }
}

/// A server, connected to by the first command and, after a break, by the next one again, ever less often while the server is
/// away.
#[derive(Clone)]
struct Link {
    inner: Arc<LinkInner>,
}

struct LinkInner {
    server: Server,
    tls_ca_file: Option<PathBuf>,
    connection: Mutex<(ConnectionManager, MonotonicNs)>,
}

impl Link {
    /// Opens no connection yet.
    fn new(settings: &ClusterSettings, server: &Server) -> Result<Self, RedisError> {
        let tls_ca_file = settings.tls_ca_file.clone();
        let manager = manager(server, tls_ca_file.as_ref())?;
        Ok(Self {
            inner: Arc::new(LinkInner {
                server: server.clone(),
                tls_ca_file,
                connection: Mutex::new((manager, MonotonicNs::now())),
            }),
        })
    }

    fn connection(&self) -> ConnectionManager {
        self.inner.connection.lock().0.clone()
    }

    /// To be told of every error. A server that refused the login, or that was not ready for it, is never tried again by the
    /// manager of connections, which takes only lost connections for worth it; so it is replaced, and the files of password
    /// and certificates are read again.
    fn failed(&self, error: redis::RedisError) -> RedisError {
        if !error.is_io_error() {
            let mut connection = self.inner.connection.lock();
            let now = MonotonicNs::now();
            let passed = now.as_u64().saturating_sub(connection.1.as_u64());
            if Duration::from_nanos(passed) >= REFUSED_DELAY {
                match manager(&self.inner.server, self.inner.tls_ca_file.as_ref()) {
                    Ok(fresh) => connection.0 = fresh,
                    Err(error) => log::debug!("the counter's server: {error}"),
                }
                connection.1 = now;
            }
        }
        RedisError::from(error)
    }
}

fn manager(
    server: &Server,
    tls_ca_file: Option<&PathBuf>,
) -> Result<ConnectionManager, RedisError> {
    let read = |file: &PathBuf| {
        std::fs::read(file).map_err(|error| RedisError::File {
            file: file.clone(),
            error,
        })
    };
    let mut info = server.url.as_str().into_connection_info()?;
    if let Some(file) = &server.password_file {
        let password = String::from_utf8_lossy(&read(file)?).trim().to_owned();
        let login = info.redis_settings().clone().set_password(password);
        info = info.set_redis_settings(login);
    }
    let client = if server.url.starts_with("rediss://") {
        // Fails only where one is installed already.
        _ = rustls::crypto::ring::default_provider().install_default();
        let root_cert = match tls_ca_file {
            Some(file) => Some(certificates(file, read(file)?)?),
            None => None,
        };
        Client::build_with_tls(
            info,
            TlsCertificates {
                client_tls: None,
                root_cert,
            },
        )?
    } else {
        Client::open(info)?
    };
    let config = ConnectionManagerConfig::new()
        .set_response_timeout(Some(RESPONSE_TIMEOUT))
        .set_connection_timeout(Some(CONNECT_TIMEOUT))
        .set_max_delay(RECONNECT_DELAY_MAX);
    Ok(client.get_connection_manager_lazy(config)?)
}

/// The bytes of a file with at least one certificate: with none, nobody would ever be trusted.
fn certificates(file: &Path, pem: Vec<u8>) -> Result<Vec<u8>, RedisError> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match certificates {
        Ok(found) if !found.is_empty() => Ok(pem),
        Ok(_) | Err(_) => Err(RedisError::Certificates(file.to_owned())),
    }
}

fn script(text: &str) -> Script {
    Script::new(text)
}

fn with_common(text: &str) -> Script {
    Script::new(&format!("{}{text}", include_str!("scripts/common.lua")))
}

fn name(gate: &GateRun) -> String {
    format!("{}#{}", gate.gate, gate.run)
}

/// The books of all rooms on the server of all gates.
#[derive(Clone)]
pub struct RemoteLedger {
    link: Link,
    namespace: String,
    publish: Script,
    take: Script,
    refill: Script,
}

impl fmt::Debug for RemoteLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteLedger")
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

impl RemoteLedger {
    /// See [`Link`].
    pub fn new(settings: &ClusterSettings) -> Result<Self, RedisError> {
        Ok(Self {
            link: Link::new(settings, &settings.global)?,
            namespace: settings.namespace.clone(),
            publish: with_common(include_str!("scripts/publish.lua")),
            take: script(include_str!("scripts/take.lua")),
            refill: with_common(include_str!("scripts/refill.lua")),
        })
    }

    fn books(&self, room: &str) -> String {
        // The braces keep a room's keys on one node of a Redis cluster.
        format!("{}:{{{room}}}:books", self.namespace)
    }

    fn waiters(&self, room: &str) -> String {
        format!("{}:{{{room}}}:waiters", self.namespace)
    }

    /// The server's time, by which all gates go.
    pub async fn time(&self) -> Result<Millis, RedisError> {
        let mut connection = self.link.connection();
        let (seconds, micros): (u64, u64) = redis::cmd("TIME")
            .query_async(&mut connection)
            .await
            .map_err(|error| self.link.failed(error))?;
        Ok(Millis::new(seconds * 1000 + micros / 1000))
    }

    /// [`super::ledger::Ledger::publish`], and the waiters of the other gates.
    pub async fn publish(
        &self,
        room: &str,
        gate: &GateRun,
        published: &Published,
        terms: Terms,
        waiters: &WaitersBySecond,
    ) -> Result<(Reply, WaitersBySecond), RedisError> {
        let p = published;
        let record = serde_json::json!({
            "center": p.data_center, "active": p.active_users, "rate": p.admitted_last_minute, "taken": p.taken,
            "used": p.used, "returned": p.returned, "lease": p.lease, "minute": p.minute,
            "admitted": p.admitted_this_minute, "new": p.new_users,
        });
        let terms_record = serde_json::json!({
            "total": terms.total_active_users, "minute": terms.new_users_per_minute, "settle": terms.settle_millis,
            "absent": terms.absent_millis, "gate_hold": terms.gate_hold_millis,
            "center_hold": terms.data_center_hold_millis, "leased": terms.leased_percent,
        });
        let life = KEY_LIFE_MILLIS + terms.gate_hold_millis.max(terms.data_center_hold_millis);
        type Center = (String, u32, u64, u64, u64);
        let mut connection = self.link.connection();
        let answer: (Vec<u64>, Vec<Center>, Vec<Vec<u8>>) = self
            .publish
            .key(self.books(room))
            .key(self.waiters(room))
            .arg(name(gate))
            .arg(&gate.gate)
            .arg(record.to_string())
            .arg(p.granted)
            .arg(u8::from(p.grants == Grants::Settled))
            .arg(u8::from(p.predecessor == Predecessor::Remembered))
            .arg(terms_record.to_string())
            .arg(wire::encode(waiters))
            .arg(PRESENCE_MILLIS_MAX)
            .arg(life)
            .invoke_async(&mut connection)
            .await
            .map_err(|error| self.link.failed(error))?;
        let (numbers, centers, others) = answer;
        let [
            free,
            active_users,
            admitted_last_minute,
            outstanding,
            stock,
            leased,
            lease_max,
        ] = numbers[..]
        else {
            return Err(RedisError::Answer);
        };
        let reply = Reply {
            free,
            active_users,
            admitted_last_minute,
            outstanding,
            stock,
            leased,
            lease_max,
            data_centers: centers
                .into_iter()
                .map(
                    |(name, gates, minute, admitted_this_minute, new_users)| DataCenterSeen {
                        name,
                        gates,
                        minute,
                        admitted_this_minute,
                        new_users,
                    },
                )
                .collect(),
        };
        // Bytes that are none of ours are nobody's waiters.
        let pairs = others
            .iter()
            .filter_map(|bytes| wire::decode(bytes))
            .flatten();
        Ok((reply, WaitersBySecond::from_pairs(pairs)))
    }

    /// [`super::ledger::Ledger::take`].
    pub async fn take(&self, room: &str, gate: &GateRun, wanted: u64) -> Result<u64, RedisError> {
        let mut connection = self.link.connection();
        self.take
            .key(self.books(room))
            .arg(name(gate))
            .arg(wanted)
            .invoke_async(&mut connection)
            .await
            .map_err(|error| self.link.failed(error))
    }

    /// [`super::ledger::Ledger::refill`].
    pub async fn refill(
        &self,
        room: &str,
        data_center: &str,
        report: &RemoteStockReport,
    ) -> Result<Option<u64>, RedisError> {
        let mut call = self.refill.key(self.books(room));
        call.arg(data_center)
            .arg(&report.epoch)
            .arg(report.sequence)
            .arg(report.slots)
            .arg(report.wanted);
        for (gate, taken) in &report.taken {
            call.arg(gate).arg(taken);
        }
        let mut connection = self.link.connection();
        let granted: i64 = call
            .invoke_async(&mut connection)
            .await
            .map_err(|error| self.link.failed(error))?;
        Ok(u64::try_from(granted).ok())
    }
}

/// [`StockReport`] as the server words it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteStockReport {
    epoch: String,
    sequence: u64,
    slots: u64,
    taken: Vec<(String, u64)>,
    wanted: u64,
}

impl RemoteStockReport {
    /// Slots in stock.
    pub const fn slots(&self) -> u64 {
        self.slots
    }
}

/// The stock of one data center on its own server.
#[derive(Clone)]
pub struct RemoteStock {
    link: Link,
    namespace: String,
    data_center: String,
    take: Script,
    report: Script,
    add: Script,
}

impl fmt::Debug for RemoteStock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteStock")
            .field("namespace", &self.namespace)
            .field("data_center", &self.data_center)
            .finish_non_exhaustive()
    }
}

impl RemoteStock {
    /// `None` where the data center has no counter of its own. See [`Link`].
    pub fn new(settings: &ClusterSettings) -> Result<Option<Self>, RedisError> {
        let Some(server) = &settings.local else {
            return Ok(None);
        };
        Ok(Some(Self {
            link: Link::new(settings, server)?,
            namespace: settings.namespace.clone(),
            data_center: settings.data_center.clone(),
            take: script(include_str!("scripts/stock_take.lua")),
            report: script(include_str!("scripts/stock_report.lua")),
            add: script(include_str!("scripts/stock_add.lua")),
        }))
    }

    fn stock(&self, room: &str) -> String {
        format!("{}:{{{room}}}:stock:{}", self.namespace, self.data_center)
    }

    /// [`super::ledger::DataCenterStock::take`].
    pub async fn take(
        &self,
        room: &str,
        gate: &GateRun,
        taken: u64,
        wanted: u64,
    ) -> Result<u64, RedisError> {
        let mut connection = self.link.connection();
        self.take
            .key(self.stock(room))
            .arg(name(gate))
            .arg(taken)
            .arg(wanted)
            .invoke_async(&mut connection)
            .await
            .map_err(|error| self.link.failed(error))
    }

    /// [`super::ledger::DataCenterStock::report`]; `None` while another gate keeps the stock.
    pub async fn report(
        &self,
        room: &str,
        gate: &GateRun,
        wanted: u64,
        keep: Duration,
        hold_millis: u64,
    ) -> Result<Option<RemoteStockReport>, RedisError> {
        type Answer = (String, u64, u64, Vec<(String, u64)>);
        let mut connection = self.link.connection();
        let answer: Option<Answer> = self
            .report
            .key(self.stock(room))
            .arg(name(gate))
            .arg(wanted)
            .arg(u64::try_from(keep.as_millis()).unwrap_or(u64::MAX))
            .arg(hold_millis)
            .invoke_async(&mut connection)
            .await
            .map_err(|error| self.link.failed(error))?;
        Ok(
            answer.map(|(epoch, sequence, slots, taken)| RemoteStockReport {
                epoch,
                sequence,
                slots,
                taken,
                wanted,
            }),
        )
    }

    /// [`super::ledger::DataCenterStock::add`].
    pub async fn add(
        &self,
        room: &str,
        report: &RemoteStockReport,
        granted: u64,
    ) -> Result<bool, RedisError> {
        let mut connection = self.link.connection();
        let added: u8 = self
            .add
            .key(self.stock(room))
            .arg(&report.epoch)
            .arg(report.sequence)
            .arg(granted)
            .invoke_async(&mut connection)
            .await
            .map_err(|error| self.link.failed(error))?;
        Ok(added == 1)
    }
}

/// The words of a [`StockReport`] for a server; used where both are compared.
impl From<&StockReport> for RemoteStockReport {
    fn from(report: &StockReport) -> Self {
        Self {
            epoch: report.epoch.to_string(),
            sequence: report.sequence,
            slots: report.slots,
            taken: report
                .taken
                .iter()
                .map(|(gate, taken)| (name(gate), *taken))
                .collect(),
            wanted: report.wanted,
        }
    }
}
