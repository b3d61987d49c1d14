//! How `gate kernel` reaches a running gate: one line each way over a Unix socket in the abstract namespace, named after the gate's
//! process. It leaves no file behind, and only root and the gate's own user are answered.
//!
//! Serves nobody by itself: the kernel part's thread accepts and answers.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;
use std::{error, fmt, fs, process};

use super::rtnl;
use super::status::KernelStatus;

const NAME_PREFIX: &str = "gate-kernel-";
/// Longest question; anything longer is none of ours.
const QUESTION_BYTES_MAX: u64 = 64;
/// Longest answer a client reads.
const ANSWER_BYTES_MAX: u64 = 1024 * 1024;
/// How long either side waits for the other.
const WAIT_SECONDS_MAX: u64 = 2;
/// Every program of the kernel object begins with this.
const PROGRAM_PREFIX: &str = "gate_xdp";

/// What a running gate can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    Status,
    Detach,
}

impl Question {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Detach => "detach",
        }
    }

    fn parse(line: &str) -> Option<Self> {
        [Self::Status, Self::Detach]
            .into_iter()
            .find(|question| question.as_str() == line.trim_end())
    }
}

/// Opens this gate's socket; accepting never blocks.
pub(super) fn listen() -> io::Result<UnixListener> {
    // A second kernel part in one process, as in tests, has a name of its own.
    let own = process::id().to_string();
    for name in [own.clone(), format!("{own}-2"), format!("{own}-3")] {
        let address = SocketAddr::from_abstract_name(format!("{NAME_PREFIX}{name}"))?;
        match UnixListener::bind_addr(&address) {
            Ok(listener) => {
                listener.set_nonblocking(true)?;
                return Ok(listener);
            }
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AddrInUse.into())
}

/// Takes one waiting client's question and answers it. Waits at most [`WAIT_SECONDS_MAX`] for it.
pub(super) fn serve_one(
    listener: &UnixListener,
    answer: impl FnOnce(Question) -> String,
) -> io::Result<()> {
    let (mut stream, _) = listener.accept()?;
    let peer = rustix::net::sockopt::socket_peercred(&stream)?;
    if !peer.uid.is_root() && peer.uid != rustix::process::geteuid() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    stream.set_nonblocking(false)?;
    patient(&stream)?;
    let mut line = String::new();
    BufReader::new((&stream).take(QUESTION_BYTES_MAX)).read_line(&mut line)?;
    if let Some(question) = Question::parse(&line) {
        stream.write_all(answer(question).as_bytes())?;
    }
    Ok(())
}

fn patient(stream: &UnixStream) -> io::Result<()> {
    let wait = Some(Duration::from_secs(WAIT_SECONDS_MAX));
    stream.set_read_timeout(wait)?;
    stream.set_write_timeout(wait)
}

/// Why `gate kernel` has nothing to show.
#[derive(Debug)]
pub enum ControlError {
    /// No gate with a kernel part runs in this network namespace.
    NobodyThere,
    /// The system's list of sockets cannot be read.
    List(io::Error),
    /// A gate does not answer.
    NoAnswer { gate: String, source: io::Error },
    /// A gate answers something else; it is of another version.
    Unreadable {
        gate: String,
        source: serde_json::Error,
    },
    /// The interfaces cannot be listed.
    Interfaces(io::Error),
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NobodyThere => f.write_str(
                "no gate with a kernel part in mode monitor or enforce runs in this network namespace",
            ),
            Self::List(_) => f.write_str("cannot list this host's sockets"),
            Self::NoAnswer { gate, .. } => write!(
                f,
                "the gate of process {gate} does not answer (only root and its own user are answered)"
            ),
            Self::Unreadable { gate, .. } => write!(
                f,
                "the gate of process {gate} answers what this one cannot read"
            ),
            Self::Interfaces(_) => f.write_str("cannot list this host's interfaces"),
        }
    }
}

impl error::Error for ControlError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::NobodyThere => None,
            Self::List(source) | Self::NoAnswer { source, .. } | Self::Interfaces(source) => {
                Some(source)
            }
            Self::Unreadable { source, .. } => Some(source),
        }
    }
}

/// A running gate's answer to `gate kernel status`.
#[derive(Debug)]
pub struct GateStatus {
    /// The gate's process.
    pub gate: String,
    pub status: KernelStatus,
}

/// The status of every gate with a kernel part in this network namespace.
pub fn status() -> Result<Vec<GateStatus>, ControlError> {
    let gates = running_gates()?;
    if gates.is_empty() {
        return Err(ControlError::NobodyThere);
    }
    gates
        .into_iter()
        .map(|gate| {
            let status = ask(&gate, Question::Status)?;
            Ok(GateStatus { gate, status })
        })
        .collect()
}

/// What `gate kernel detach` did to one interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Detached {
    /// A running gate let go of its interfaces; it goes on serving.
    ByGate { gate: String },
    /// A program of ours that no process held was taken off.
    Leftover { interface: String, program_id: u32 },
    /// A program of ours stays, for this reason: as a rule a process that does not answer holds it; ending it detaches.
    Stuck {
        interface: String,
        program_id: u32,
        reason: String,
    },
}

impl fmt::Display for Detached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ByGate { gate } => write!(
                f,
                "the gate of process {gate} has detached and goes on serving"
            ),
            Self::Leftover {
                interface,
                program_id,
            } => write!(f, "took program {program_id} off interface {interface}"),
            Self::Stuck {
                interface,
                program_id,
                reason,
            } => write!(
                f,
                "program {program_id} stays on interface {interface}: {reason}; ending the process that holds it detaches it"
            ),
        }
    }
}

/// Asks every running gate of this network namespace to detach, then takes off what none of them holds. Nothing to do is fine.
pub fn detach() -> Result<Vec<Detached>, ControlError> {
    let mut done = Vec::new();
    for gate in running_gates()? {
        // A gate that does not answer is dealt with below, where its program is found.
        if ask(&gate, Question::Detach).is_ok() {
            done.push(Detached::ByGate { gate });
        }
    }
    for interface in rtnl::interfaces().map_err(ControlError::Interfaces)? {
        for program in &interface.programs {
            if !is_ours(program.id) {
                continue;
            }
            let name = interface.name.clone();
            done.push(match rtnl::detach_leftover(interface.index, program.mode) {
                Ok(()) => Detached::Leftover {
                    interface: name,
                    program_id: program.id,
                },
                Err(error) => Detached::Stuck {
                    interface: name,
                    program_id: program.id,
                    reason: error.to_string(),
                },
            });
        }
    }
    Ok(done)
}

/// By name: whoever calls a program of its own `gate_xdp…` means us.
fn is_ours(program_id: u32) -> bool {
    aya::programs::loaded_programs().flatten().any(|program| {
        program.id() == program_id
            && program
                .name_as_str()
                .is_some_and(|name| name.starts_with(PROGRAM_PREFIX))
    })
}

/// The processes of the gates whose sockets are open in this namespace.
fn running_gates() -> Result<Vec<String>, ControlError> {
    let sockets = fs::read_to_string("/proc/thread-self/net/unix").map_err(ControlError::List)?;
    let mut gates: Vec<String> = sockets
        .lines()
        .filter_map(|line| line.rsplit_once(" @")?.1.strip_prefix(NAME_PREFIX))
        .map(str::to_owned)
        .collect();
    gates.sort();
    // Connections being served are listed under the same name.
    gates.dedup();
    Ok(gates)
}

fn ask(gate: &str, question: Question) -> Result<KernelStatus, ControlError> {
    let answer = exchange(gate, question).map_err(|source| ControlError::NoAnswer {
        gate: gate.to_owned(),
        source,
    })?;
    serde_json::from_str(&answer).map_err(|source| ControlError::Unreadable {
        gate: gate.to_owned(),
        source,
    })
}

fn exchange(gate: &str, question: Question) -> io::Result<String> {
    let address = SocketAddr::from_abstract_name(format!("{NAME_PREFIX}{gate}"))?;
    let mut stream = UnixStream::connect_addr(&address)?;
    patient(&stream)?;
    stream.write_all(format!("{}\n", question.as_str()).as_bytes())?;
    let mut answer = String::new();
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer)?;
    if answer.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_read_back() {
        for question in [Question::Status, Question::Detach] {
            let line = format!("{}\n", question.as_str());
            assert_eq!(Question::parse(&line), Some(question));
        }
        assert_eq!(Question::parse("stat"), None);
        assert_eq!(Question::parse(""), None);
    }
}
