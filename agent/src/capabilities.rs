//! What the kernel has to allow the agent. Decides which capabilities are needed, what for, and what is
//! said where one is missing: at the start, before anything is changed, and by its name. Otherwise the
//! first call that needs it would fail with "Operation not permitted", which names nothing.
//!
//! `deploy/` gives the container exactly these; a test runs the agent with them, and with each left out.

use rustix::thread::{CapabilitySet, capabilities};

/// A capability that the agent uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needed {
    /// As Kubernetes writes it: without `CAP_`.
    pub name: &'static str,
    /// What it is for, after "with which it".
    pub purpose: &'static str,
    set: CapabilitySet,
    /// Whether there is no agent without it.
    vital: bool,
}

/// All of them.
pub const NEEDED: [Needed; 3] = [
    Needed {
        name: "NET_ADMIN",
        purpose: "makes links, routes, nftables rules and sysctls",
        set: CapabilitySet::NET_ADMIN,
        vital: true,
    },
    Needed {
        name: "NET_BIND_SERVICE",
        purpose: "listens on BGP's port 179",
        set: CapabilitySet::NET_BIND_SERVICE,
        vital: false,
    },
    Needed {
        name: "SYS_ADMIN",
        purpose: "enters the network namespaces of pods",
        set: CapabilitySet::SYS_ADMIN,
        vital: true,
    },
];

/// Capabilities without which nothing works.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}; {REMEDY}", told(.0))]
pub struct Missing(Vec<Needed>);

const REMEDY: &str = "run the agent as root, in a container with these in \
                      securityContext.capabilities.add: NET_ADMIN, NET_BIND_SERVICE, SYS_ADMIN";

/// Refuses to start without what is vital. What else is missing says so where it is missed.
pub fn check() -> Result<(), Missing> {
    // Where the kernel does not say, the calls themselves will.
    capabilities(None).map_or(Ok(()), |held| vital(held.effective))
}

/// Whether the agent may listen on a port below 1024.
pub fn may_bind() -> bool {
    capabilities(None).is_ok_and(|held| held.effective.contains(CapabilitySet::NET_BIND_SERVICE))
}

fn vital(held: CapabilitySet) -> Result<(), Missing> {
    let lacking: Vec<Needed> = missing(held).filter(|needed| needed.vital).collect();
    if lacking.is_empty() { Ok(()) } else { Err(Missing(lacking)) }
}

fn missing(held: CapabilitySet) -> impl Iterator<Item = Needed> {
    NEEDED.into_iter().filter(move |needed| !held.contains(needed.set))
}

fn told(lacking: &[Needed]) -> String {
    let each = lacking.iter().map(|needed| {
        let Needed { name, purpose, .. } = needed;
        format!("the agent has no CAP_{name}, with which it {purpose}")
    });
    each.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_vital_is_refused_by_its_name() {
        let all = NEEDED.iter().fold(CapabilitySet::empty(), |all, needed| all | needed.set);
        assert_eq!(vital(all), Ok(()));
        for needed in NEEDED {
            let lacking = missing(all - needed.set).collect::<Vec<_>>();
            assert_eq!(lacking, [needed]);
            let outcome = vital(all - needed.set);
            assert_eq!(outcome.is_err(), needed.vital, "{needed:?}");
            if let Err(error) = outcome {
                let text = error.to_string();
                let name = format!("CAP_{}, with which it {}", needed.name, needed.purpose);
                assert!(text.contains(&name) && text.contains("capabilities.add"), "{text}");
            }
        }
        let text = vital(CapabilitySet::empty()).unwrap_err().to_string();
        assert!(text.contains("CAP_NET_ADMIN") && text.contains("CAP_SYS_ADMIN"), "{text}");
    }
}
