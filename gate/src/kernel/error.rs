//! What can go wrong with the kernel part. Nothing here stops the gate from serving, except a name in the configuration that
//! means nothing on this host.

use std::error::Error;
use std::{fmt, io};

use super::settings::InterfaceName;

/// A fault of the kernel part. The gate serves without it.
#[derive(Debug)]
pub enum KernelError {
    /// This gate was built without the kernel object.
    NoObject,
    /// The process lacks capabilities; these are missing.
    MissingCapabilities {
        missing: Vec<&'static str>,
        source: io::Error,
    },
    /// The kernel refuses although no capability is missing: seccomp, lockdown or a container's rules.
    NotPermitted { source: io::Error },
    /// The kernel does not take the program or its maps.
    Load {
        source: Box<dyn Error + Send + Sync>,
    },
    /// The object and this gate were built from different sources.
    ObjectMismatch {
        map: &'static str,
        source: Option<Box<dyn Error + Send + Sync>>,
    },
    /// No such interface on this host. A fault of the configuration.
    UnknownInterface {
        name: InterfaceName,
        known: Vec<String>,
    },
    /// Another program is on the interface; it stays.
    ForeignProgram {
        interface: InterfaceName,
        id: u32,
        name: Option<String>,
    },
    /// Neither mode works on the interface.
    Attach {
        interface: InterfaceName,
        native: io::Error,
        /// Why generic XDP does not work either; nothing where the settings refuse it.
        generic: Option<io::Error>,
    },
    /// The kernel's list of interfaces or addresses cannot be read.
    Interfaces { source: io::Error },
    /// A map cannot be written.
    Map {
        map: &'static str,
        source: Box<dyn Error + Send + Sync>,
    },
    /// More addresses to guard than the map holds; the first ones are guarded.
    ListenersTooMany { max: usize },
    /// Capabilities that are no longer needed could not be given up.
    GiveUp { source: io::Error },
    /// Other threads were running already and keep the capabilities.
    CapabilitiesKept { threads: usize },
    /// The socket for `gate kernel status` cannot be opened.
    Control { source: io::Error },
    /// The thread that keeps the maps cannot be started.
    Thread { source: io::Error },
}

/// Who has to act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The configuration names something that is not there: refuse to start.
    Configuration,
    /// The kernel part, or a piece of it, is off: say so and serve.
    Degraded,
}

impl KernelError {
    /// Who has to act.
    pub const fn severity(&self) -> Severity {
        match self {
            Self::UnknownInterface { .. } => Severity::Configuration,
            Self::NoObject
            | Self::MissingCapabilities { .. }
            | Self::NotPermitted { .. }
            | Self::Load { .. }
            | Self::ObjectMismatch { .. }
            | Self::ForeignProgram { .. }
            | Self::Attach { .. }
            | Self::Interfaces { .. }
            | Self::Map { .. }
            | Self::ListenersTooMany { .. }
            | Self::GiveUp { .. }
            | Self::CapabilitiesKept { .. }
            | Self::Control { .. }
            | Self::Thread { .. } => Severity::Degraded,
        }
    }
}

impl fmt::Display for KernelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoObject => f.write_str(
                "this gate was built without the kernel object, so the kernel part is off (build it with `cargo xtask build-ebpf`)",
            ),
            Self::MissingCapabilities { missing, .. } => write!(
                f,
                "the kernel part is off: loading the program needs {}",
                missing.join(", ")
            ),
            Self::NotPermitted { .. } => f.write_str(
                "the kernel part is off: no capability is missing, but the kernel refuses (seccomp profile, lockdown mode or container rules)",
            ),
            Self::Load { .. } => {
                f.write_str("the kernel part is off: the kernel does not take the program")
            }
            Self::ObjectMismatch { map, .. } => write!(
                f,
                "the kernel part is off: map {map} of the kernel object does not fit this gate; build it anew with `cargo xtask build-ebpf`"
            ),
            Self::UnknownInterface { name, known } => write!(
                f,
                "kernel.interfaces: no network interface {name} on this host; there are: {}",
                known.join(", ")
            ),
            Self::ForeignProgram {
                interface,
                id,
                name,
            } => {
                let name = name.as_deref().unwrap_or("without a name");
                write!(
                    f,
                    "interface {interface} already carries XDP program {id} ({name}), which stays; the gate does not guard this interface"
                )
            }
            Self::Attach {
                interface,
                native,
                generic,
            } => {
                write!(f, "cannot attach to interface {interface}: native: {native}")?;
                match generic {
                    Some(error) => write!(f, "; generic: {error}"),
                    None => f.write_str("; generic is refused by the settings"),
                }
            }
            Self::Interfaces { .. } => {
                f.write_str("cannot read this host's interfaces and addresses")
            }
            Self::Map { map, .. } => write!(f, "cannot write the kernel's map {map}"),
            Self::ListenersTooMany { max } => write!(
                f,
                "more than {max} addresses to guard; the kernel guards the first {max}"
            ),
            Self::GiveUp { .. } => {
                f.write_str("cannot give up capabilities that are no longer needed")
            }
            Self::CapabilitiesKept { threads } => write!(
                f,
                "{threads} threads were running before the kernel part started and keep their capabilities"
            ),
            Self::Control { .. } => {
                f.write_str("`gate kernel` cannot reach this gate: its socket cannot be opened")
            }
            Self::Thread { .. } => {
                f.write_str("the kernel part is off: its thread cannot be started")
            }
        }
    }
}

impl Error for KernelError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::MissingCapabilities { source, .. }
            | Self::NotPermitted { source }
            | Self::Interfaces { source }
            | Self::GiveUp { source }
            | Self::Control { source }
            | Self::Thread { source } => Some(source),
            Self::Load { source } | Self::Map { source, .. } => Some(source.as_ref()),
            Self::ObjectMismatch { source, .. } => source.as_ref().map(|source| {
                let source: &(dyn Error + 'static) = source.as_ref();
                source
            }),
            Self::NoObject
            | Self::UnknownInterface { .. }
            | Self::ForeignProgram { .. }
            | Self::Attach { .. }
            | Self::ListenersTooMany { .. }
            | Self::CapabilitiesKept { .. } => None,
        }
    }
}
