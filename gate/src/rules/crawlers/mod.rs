//! Verified search crawlers pass every room (`search_engine_crawler_bypass`). Verified means by address, never by what a client
//! says of itself: the address is in a range its operator publishes, or its name in the DNS is below a domain of the
//! operator's and leads back to the address.
//!
//! No request waits for the DNS. A client that calls itself a crawler and whose address is not known yet is a visitor like any
//! other while it is looked up in the background. `User-Agent` only saves the lookup for everybody else.

mod dns;
mod ranges;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use parking_lot::Mutex;
use regex::bytes::Regex;
use tokio::sync::{Semaphore, mpsc};

use super::address::AddressSet;
use crate::clock::Clock;
use crate::room::Millis;

pub use dns::{Answer, Dns, DnsError, SystemDns};
pub use ranges::{RangesError, parse_ranges};

/// Most addresses remembered. Beyond it those that are no crawlers are forgotten; where that is not enough, a new one is not
/// remembered and goes on being a visitor.
pub const KNOWN_ADDRESSES_MAX: usize = 16_384;
/// Most addresses that wait for their lookup. A further one is a visitor until it asks again.
pub const LOOKUPS_WAITING_MAX: usize = 1_024;
/// Most lookups at once.
pub const LOOKUPS_AT_ONCE_MAX: usize = 16;
/// A lookup that takes longer has failed.
pub const LOOKUP_TIMEOUT_SECONDS: u64 = 10;
/// For how long a verified crawler is taken for one.
pub const VERIFIED_SECONDS: u64 = 3_600;
/// For how long an address that is no crawler's is not looked up again.
pub const REFUTED_SECONDS: u64 = 600;
/// For how long an address whose lookup failed is not looked up again.
pub const FAILED_SECONDS: u64 = 60;
/// Names of one address that are looked at. More are an odd host's.
const NAMES_MAX: usize = 4;

/// By whom a crawler is verified.
#[derive(Clone, Debug, Default)]
pub struct CrawlerSettings {
    /// Published by the operators of crawlers.
    pub ranges: AddressSet,
    /// In lower case, without a final dot.
    pub domains: Vec<String>,
    /// Who is asked; none is the system's.
    pub dns_servers: Vec<SocketAddr>,
}

/// What is known of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Verified,
    /// It is none, or is being looked up.
    Visitor,
}

/// Who is a crawler. Shared by all threads.
#[derive(Debug)]
pub struct Crawlers {
    ranges: AddressSet,
    known: Arc<Known>,
    /// Absent where no domain is to be asked for.
    lookups: Option<mpsc::Sender<IpAddr>>,
}

#[derive(Debug, Default)]
struct Known {
    addresses: Mutex<HashMap<IpAddr, (Verdict, Millis)>>,
}

/// What crawlers have in their names. Whoever has none of it is not looked up.
static CALLS_ITSELF_ONE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new("(?i-u)bot|spider|crawl|slurp|yeti|google").ok());

impl Crawlers {
    /// Starts the lookups on a thread of their own, which ends with this.
    ///
    /// # Errors
    /// The thread or its runtime cannot be had.
    pub fn start<D: Dns>(
        settings: &CrawlerSettings,
        dns: D,
        clock: Clock,
    ) -> std::io::Result<Self> {
        let known = Arc::new(Known::default());
        let lookups = if settings.domains.is_empty() {
            None
        } else {
            let (sender, receiver) = mpsc::channel(LOOKUPS_WAITING_MAX);
            let worker = Worker {
                dns,
                domains: settings.domains.clone(),
                known: Arc::clone(&known),
                clock,
            };
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            std::thread::Builder::new()
                .name("crawlers".to_owned())
                .spawn(move || runtime.block_on(run(Arc::new(worker), receiver)))?;
            Some(sender)
        };
        Ok(Self {
            ranges: settings.ranges.clone(),
            known,
            lookups,
        })
    }

    /// Whether a client is a verified crawler.
    pub fn is_verified(&self, now: Millis, client: IpAddr, user_agent: Option<&[u8]>) -> bool {
        if self.ranges.contains(client) {
            return true;
        }
        let Some(lookups) = &self.lookups else {
            return false;
        };
        let claims = CALLS_ITSELF_ONE
            .as_ref()
            .zip(user_agent)
            .is_some_and(|(regex, agent)| regex.is_match(agent));
        if !claims {
            return false;
        }
        let mut addresses = self.known.addresses.lock();
        match addresses.get(&client) {
            Some((verdict, until)) if now < *until => *verdict == Verdict::Verified,
            Some(_) | None => {
                // Where there are too many, it may ask again.
                if lookups.try_send(client).is_ok() {
                    let until = now.plus_millis((LOOKUP_TIMEOUT_SECONDS + 1) * 1_000);
                    remember(&mut addresses, now, client, Verdict::Visitor, until);
                }
                false
            }
        }
    }
}

/// Makes room where there is none; see [`KNOWN_ADDRESSES_MAX`].
fn remember(
    addresses: &mut HashMap<IpAddr, (Verdict, Millis)>,
    now: Millis,
    client: IpAddr,
    verdict: Verdict,
    until: Millis,
) {
    if addresses.len() >= KNOWN_ADDRESSES_MAX && !addresses.contains_key(&client) {
        addresses.retain(|_, (verdict, until)| *verdict == Verdict::Verified && now < *until);
        if addresses.len() >= KNOWN_ADDRESSES_MAX {
            return;
        }
    }
    addresses.insert(client, (verdict, until));
}

#[derive(Debug)]
struct Worker<D> {
    dns: D,
    domains: Vec<String>,
    known: Arc<Known>,
    clock: Clock,
}

async fn run<D: Dns>(worker: Arc<Worker<D>>, mut addresses: mpsc::Receiver<IpAddr>) {
    let at_once = Arc::new(Semaphore::new(LOOKUPS_AT_ONCE_MAX));
    while let Some(address) = addresses.recv().await {
        // Nobody closes it.
        let Ok(permit) = Arc::clone(&at_once).acquire_owned().await else {
            return;
        };
        let worker = Arc::clone(&worker);
        tokio::spawn(async move {
            worker.look_up(address).await;
            drop(permit);
        });
    }
}

impl<D: Dns> Worker<D> {
    async fn look_up(&self, address: IpAddr) {
        let timeout = Duration::from_secs(LOOKUP_TIMEOUT_SECONDS);
        let result = tokio::time::timeout(timeout, self.verify(address)).await;
        let (verdict, seconds) = match result {
            Ok(Ok(true)) => (Verdict::Verified, VERIFIED_SECONDS),
            Ok(Ok(false)) => (Verdict::Visitor, REFUTED_SECONDS),
            Ok(Err(_)) | Err(_) => (Verdict::Visitor, FAILED_SECONDS),
        };
        let now = self.clock.now();
        let until = now.plus_millis(seconds * 1_000);
        let mut addresses = self.known.addresses.lock();
        remember(&mut addresses, now, address, verdict, until);
    }

    /// From the address to its names, and from a name below one of the domains back to the address.
    async fn verify(&self, address: IpAddr) -> Result<bool, DnsError> {
        for name in self.dns.names(address).await?.into_iter().take(NAMES_MAX) {
            if is_below(&name, &self.domains) && self.dns.addresses(&name).await?.contains(&address)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn is_below(name: &str, domains: &[String]) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    domains.iter().any(|domain| {
        name.strip_suffix(domain.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    })
}

#[cfg(test)]
mod tests;
