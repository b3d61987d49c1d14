//! Attaching the program: native first, generic where the driver refuses and the settings allow, never in place of another program,
//! always by a link that goes away with the process.

use std::io;

use aya::programs::links::FdLink;
use aya::programs::{ProgramError, Xdp, XdpMode, loaded_programs};

use super::error::KernelError;
use super::object::os_error;
use super::rtnl::{self, Interface};
use super::settings::{GenericAttach, InterfaceName};

/// Where in the network stack the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AttachMode {
    /// In the driver, before the kernel makes anything of the packet.
    Native,
    /// After the kernel has built its packet structure: works on every interface and costs more.
    Generic,
}

/// The program on one interface. Dropping it detaches.
#[derive(Debug)]
pub(super) struct Attachment {
    pub(super) index: u32,
    pub(super) mode: AttachMode,
    _link: FdLink,
}

/// Attaches to one interface.
pub(super) fn attach(
    program: &mut Xdp,
    interface: &InterfaceName,
    generic: GenericAttach,
) -> Result<Attachment, KernelError> {
    let found = find(interface)?;
    if let Some(foreign) = found.programs.first() {
        return Err(foreign_program(interface, foreign.id));
    }
    let attached = native_then_generic(generic, |mode| attach_in(program, found.index, mode));
    match attached {
        Ok((mode, link)) => Ok(Attachment {
            index: found.index,
            mode,
            _link: link,
        }),
        Err(Refusal::Occupied) => {
            // Somebody was faster than we looked.
            let id = find(interface)
                .ok()
                .and_then(|now| now.programs.first().map(|program| program.id));
            Err(foreign_program(interface, id.unwrap_or(0)))
        }
        Err(Refusal::NotPermitted(source)) => {
            let missing = super::capabilities::missing();
            Err(if missing.is_empty() {
                KernelError::NotPermitted { source }
            } else {
                KernelError::MissingCapabilities { missing, source }
            })
        }
        Err(Refusal::Neither { native, generic }) => Err(KernelError::Attach {
            interface: interface.clone(),
            native,
            generic,
        }),
    }
}

fn find(name: &InterfaceName) -> Result<Interface, KernelError> {
    let interfaces = rtnl::interfaces().map_err(|source| KernelError::Interfaces { source })?;
    let known = || {
        interfaces
            .iter()
            .map(|interface| interface.name.clone())
            .collect()
    };
    interfaces
        .iter()
        .find(|interface| interface.name == name.as_str())
        .cloned()
        .ok_or_else(|| KernelError::UnknownInterface {
            name: name.clone(),
            known: known(),
        })
}

fn foreign_program(interface: &InterfaceName, id: u32) -> KernelError {
    let name = loaded_programs()
        .flatten()
        .find(|program| program.id() == id)
        .and_then(|program| program.name_as_str().map(str::to_owned))
        .filter(|name| !name.is_empty());
    KernelError::ForeignProgram {
        interface: interface.clone(),
        id,
        name,
    }
}

fn attach_in(program: &mut Xdp, index: u32, mode: AttachMode) -> Result<FdLink, io::Error> {
    let xdp_mode = match mode {
        AttachMode::Native => XdpMode::Driver,
        AttachMode::Generic => XdpMode::Skb,
    };
    let link = program
        .attach_to_if_index(index, xdp_mode)
        .and_then(|id| program.take_link(id))
        .map_err(io_error)?;
    // Anything but a link would stay on the interface after our death. Dropping it takes it off.
    FdLink::try_from(link).map_err(|_| {
        io::Error::new(
            io::ErrorKind::Unsupported,
            "the kernel does not attach XDP programs by link",
        )
    })
}

fn io_error(error: ProgramError) -> io::Error {
    match os_error(&error) {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::other(error),
    }
}

/// Why no mode worked.
#[derive(Debug)]
enum Refusal {
    /// Another program is there.
    Occupied,
    NotPermitted(io::Error),
    Neither {
        native: io::Error,
        generic: Option<io::Error>,
    },
}

/// Tries native, then generic. A driver's refusal has many numbers; only "occupied" and "not permitted" end the search at once.
fn native_then_generic<L>(
    generic: GenericAttach,
    mut attach: impl FnMut(AttachMode) -> Result<L, io::Error>,
) -> Result<(AttachMode, L), Refusal> {
    let native = match attach(AttachMode::Native) {
        Ok(link) => return Ok((AttachMode::Native, link)),
        Err(error) => decisive(error)?,
    };
    if generic == GenericAttach::Refused {
        return Err(Refusal::Neither {
            native,
            generic: None,
        });
    }
    match attach(AttachMode::Generic) {
        Ok(link) => Ok((AttachMode::Generic, link)),
        Err(error) => Err(Refusal::Neither {
            native,
            generic: Some(decisive(error)?),
        }),
    }
}

fn decisive(error: io::Error) -> Result<io::Error, Refusal> {
    match error.raw_os_error() {
        Some(libc::EBUSY | libc::EEXIST) => Err(Refusal::Occupied),
        Some(libc::EPERM | libc::EACCES) => Err(Refusal::NotPermitted(error)),
        _ => Ok(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays a driver: the error number per mode, 0 for success.
    fn driver(native: i32, generic: i32) -> impl FnMut(AttachMode) -> Result<(), io::Error> {
        move |mode| {
            let code = match mode {
                AttachMode::Native => native,
                AttachMode::Generic => generic,
            };
            if code == 0 {
                Ok(())
            } else {
                Err(io::Error::from_raw_os_error(code))
            }
        }
    }

    #[test]
    fn native_is_taken_where_it_works() {
        let result = native_then_generic(GenericAttach::Allowed, driver(0, 0));
        assert_eq!(result.unwrap().0, AttachMode::Native);
    }

    #[test]
    fn every_refusal_of_a_driver_leads_to_generic() {
        for code in [
            libc::EOPNOTSUPP,
            libc::EINVAL,
            libc::ENOMEM,
            libc::ERANGE,
            libc::ENOSPC,
            libc::E2BIG,
        ] {
            let result = native_then_generic(GenericAttach::Allowed, driver(code, 0));
            assert_eq!(result.unwrap().0, AttachMode::Generic, "errno {code}");
        }
    }

    #[test]
    fn an_occupied_interface_is_left_alone() {
        for code in [libc::EBUSY, libc::EEXIST] {
            let result = native_then_generic(GenericAttach::Allowed, driver(code, 0));
            assert!(matches!(result, Err(Refusal::Occupied)));
            let result = native_then_generic(GenericAttach::Allowed, driver(libc::EINVAL, code));
            assert!(matches!(result, Err(Refusal::Occupied)));
        }
    }

    #[test]
    fn missing_privileges_are_not_a_driver_fault() {
        let result = native_then_generic(GenericAttach::Allowed, driver(libc::EPERM, 0));
        assert!(matches!(result, Err(Refusal::NotPermitted(_))));
    }

    #[test]
    fn generic_is_not_used_where_it_is_refused() {
        let result = native_then_generic(GenericAttach::Refused, driver(libc::EOPNOTSUPP, 0));
        assert!(matches!(
            result,
            Err(Refusal::Neither { generic: None, .. })
        ));
    }
}
