//! Names of addresses and addresses of names.

use std::fmt;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::RData;

/// An answer on its way.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, DnsError>> + Send + 'a>>;

/// The DNS as far as crawlers need it. Asked on one thread.
pub trait Dns: fmt::Debug + Send + Sync + 'static {
    /// The names of an address; none where it has none.
    fn names(&self, address: IpAddr) -> Answer<'_, Vec<String>>;

    /// The addresses of a name; none where there are none.
    fn addresses<'a>(&'a self, name: &'a str) -> Answer<'a, Vec<IpAddr>>;
}

/// No answer could be had.
#[derive(Debug)]
pub struct DnsError(Option<NetError>);

impl DnsError {
    /// For resolvers that know no more.
    pub const UNKNOWN: Self = Self(None);
}

impl fmt::Display for DnsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the DNS gave no answer")
    }
}

impl std::error::Error for DnsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.as_ref().map(|error| error as _)
    }
}

/// The real DNS.
#[derive(Clone)]
pub struct SystemDns(TokioResolver);

impl fmt::Debug for SystemDns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SystemDns").finish_non_exhaustive()
    }
}

impl SystemDns {
    /// Asks `servers`, or those of the system where there are none.
    ///
    /// # Errors
    /// The system's configuration cannot be read.
    pub fn new(servers: &[SocketAddr]) -> Result<Self, DnsError> {
        let builder = if servers.is_empty() {
            TokioResolver::builder_tokio().map_err(failed)?
        } else {
            let config = ResolverConfig::from_name_servers(servers.iter().map(server).collect());
            TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
        };
        builder.build().map(Self).map_err(failed)
    }
}

fn server(address: &SocketAddr) -> NameServerConfig {
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
        connection.port = address.port();
        connection
    });
    NameServerConfig::new(address.ip(), true, connections.into())
}

fn failed(error: NetError) -> DnsError {
    DnsError(Some(error))
}

impl Dns for SystemDns {
    fn names(&self, address: IpAddr) -> Answer<'_, Vec<String>> {
        Box::pin(async move {
            let lookup = match self.0.reverse_lookup(address).await {
                Ok(lookup) => lookup,
                Err(error) if error.is_no_records_found() => return Ok(Vec::new()),
                Err(error) => return Err(failed(error)),
            };
            let names = lookup.answers().iter().filter_map(|record| {
                let RData::PTR(name) = &record.data else {
                    return None;
                };
                Some(name.0.to_ascii())
            });
            Ok(names.collect())
        })
    }

    fn addresses<'a>(&'a self, name: &'a str) -> Answer<'a, Vec<IpAddr>> {
        Box::pin(async move {
            // With the final dot no search list applies.
            let name = format!("{}.", name.strip_suffix('.').unwrap_or(name));
            match self.0.lookup_ip(name).await {
                Ok(lookup) => Ok(lookup
                    .iter()
                    .map(|address| address.to_canonical())
                    .collect()),
                Err(error) if error.is_no_records_found() => Ok(Vec::new()),
                Err(error) => Err(failed(error)),
            }
        })
    }
}
