//! What the process may do, and giving up what it no longer needs once the program is attached.

use std::io;

use rustix::thread::{
    CapabilitySet, capabilities, remove_capability_from_bounding_set, set_capabilities,
};

/// What loading and attaching need, with the names people know.
const NEEDED: [(CapabilitySet, &str); 3] = [
    (CapabilitySet::BPF, "CAP_BPF"),
    (CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN"),
    (CapabilitySet::PERFMON, "CAP_PERFMON"),
];

/// The capabilities for loading and attaching that this thread lacks. `CAP_SYS_ADMIN` stands for all but `CAP_NET_ADMIN`.
pub(super) fn missing() -> Vec<&'static str> {
    let Ok(sets) = capabilities(None) else {
        return Vec::new();
    };
    let administrator = sets.effective.contains(CapabilitySet::SYS_ADMIN);
    NEEDED
        .iter()
        .filter(|(set, _)| {
            let stood_for = administrator && *set != CapabilitySet::NET_ADMIN;
            !sets.effective.contains(*set) && !stood_for
        })
        .map(|(_, name)| *name)
        .collect()
}

/// Takes the capabilities of [`NEEDED`] and `CAP_SYS_ADMIN`, which stands for them, from this thread, from the threads it starts
/// later and from the programs they execute.
///
/// Linux keeps capabilities per thread: call it before other threads exist.
pub(super) fn give_up() -> io::Result<()> {
    let mut sets = capabilities(None)?;
    let mut unneeded = CapabilitySet::SYS_ADMIN;
    // Taking from the bounding set needs CAP_SETPCAP; without it there is no way to regain anything anyway.
    let may_bound = sets.effective.contains(CapabilitySet::SETPCAP);
    if may_bound {
        remove_capability_from_bounding_set(CapabilitySet::SYS_ADMIN)?;
    }
    for (set, _) in NEEDED {
        unneeded |= set;
        if may_bound {
            remove_capability_from_bounding_set(set)?;
        }
    }
    sets.effective -= unneeded;
    sets.permitted -= unneeded;
    sets.inheritable -= unneeded;
    set_capabilities(None, sets)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_up_is_gone_in_this_thread_only() {
        let before = missing();
        std::thread::spawn(|| {
            give_up().unwrap();
            assert_eq!(missing(), ["CAP_BPF", "CAP_NET_ADMIN", "CAP_PERFMON"]);
            // A second time there is nothing left to give up.
            give_up().unwrap();
        })
        .join()
        .unwrap();
        assert_eq!(missing(), before);
    }
}
