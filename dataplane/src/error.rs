//! What can go wrong between a wish and the kernel.
//!
//! Decides how a refusal is told: each error names the thing, the value and
//! the errno, and those that force a decision on the caller (try the next
//! name, refuse the address, answer "try again later") are variants of their
//! own. What to do about them is the caller's.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;

use ipnet::IpNet;
use rustix::io::Errno;

use crate::difference::Difference;
use crate::fault::Injected;

/// A refusal by the kernel: the errno and, where it gave one, its own words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The errno, positive.
    pub code: i32,
    /// The extended acknowledgement's text.
    pub text: Option<String>,
}

impl Refusal {
    pub(crate) fn is(&self, errno: Errno) -> bool {
        self.code == errno.raw_os_error()
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", io::Error::from_raw_os_error(self.code))?;
        match &self.text {
            Some(text) => write!(f, ": {text}"),
            None => Ok(()),
        }
    }
}

/// Why the kernel is not as asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The host interface's name is in use; try [`crate::host_ifname_nth`].
    #[error("host interface name {name} is already taken")]
    NameTaken {
        /// The name that was asked for.
        name: String,
    },
    /// The pod already has an interface of that name.
    #[error("interface {ifname} already exists in network namespace {netns}")]
    PodInterfaceTaken {
        /// The name that was asked for.
        ifname: String,
        /// The pod's namespace.
        netns: PathBuf,
    },
    /// A route for the pod's address is already in the kernel.
    #[error("address {address} already has a route on this node")]
    AddressTaken {
        /// The address that was asked for.
        address: IpAddr,
    },
    /// A learned route's place is another's.
    #[error(
        "route {prefix} metric {metric} is another program's (protocol {protocol}) and stays; for \
         flock's to take its place: ip route del {prefix} metric {metric} proto {protocol}"
    )]
    RouteTaken {
        /// Where it leads.
        prefix: IpNet,
        /// Its metric.
        metric: u32,
        /// Whose it is, as a number of rtnetlink.h or iproute2's rt_protos.
        protocol: u8,
    },
    /// A route names an interface that is not there.
    #[error("interface {name} does not exist")]
    NoSuchLink {
        /// The interface's name.
        name: String,
    },
    /// An interface name that the kernel would not take.
    #[error("{name:?} is not an interface name (1 to 15 bytes, no slash, colon or space)")]
    BadName {
        /// The name.
        name: String,
    },
    /// A request that makes no sense, caught before the kernel saw it.
    #[error("{what}")]
    BadRequest {
        /// What was asked, and why it cannot be.
        what: String,
    },
    /// The namespace's file could not be opened.
    #[error("network namespace {}: {source}", path.display())]
    NamespaceOpen {
        /// The path that was given.
        path: PathBuf,
        /// What open said.
        source: io::Error,
    },
    /// The path is a file, but no network namespace.
    #[error("{} is not a network namespace ({found})", path.display())]
    NotANetworkNamespace {
        /// The path that was given.
        path: PathBuf,
        /// What it is.
        found: String,
    },
    /// The path is the node's own namespace: a pod there would be the node.
    #[error("{} is the node's own network namespace", path.display())]
    OwnNamespace {
        /// The path that was given.
        path: PathBuf,
    },
    /// A thread could not come back from the pod's namespace; it is replaced.
    #[error("cannot return from network namespace {}: {source}", path.display())]
    Stranded {
        /// The pod's namespace.
        path: PathBuf,
        /// What setns said.
        source: io::Error,
    },
    /// The kernel refused a request.
    #[error("{what}: {refusal}")]
    Kernel {
        /// What was asked.
        what: String,
        /// Its answer.
        refusal: Refusal,
    },
    /// The socket failed under us.
    #[error("netlink, {what}: {source}")]
    Socket {
        /// What was being done.
        what: &'static str,
        /// What the system call said.
        source: io::Error,
    },
    /// An answer that cannot be read.
    #[error("netlink, unreadable answer to {what}: {detail}")]
    Malformed {
        /// What was asked.
        what: String,
        /// What is wrong with the answer.
        detail: String,
    },
    /// The kernel's tables changed during every one of our readings.
    #[error("{what}: interrupted by concurrent changes {attempts} times in a row")]
    Interrupted {
        /// What was being listed.
        what: String,
        /// How often it was tried.
        attempts: u32,
    },
    /// A sysctl has the wrong value and cannot be written.
    #[error(
        "sysctl {name} is {have:?} and must be {want:?}, but {} cannot be written: {source}; \
         set it on the node, or give the agent a writable /proc/sys (in a container: the node's \
         /proc/sys/net, mounted at /host/proc/sys/net)",
        path.display()
    )]
    Sysctl {
        /// The dotted name.
        name: String,
        /// Its value now.
        have: String,
        /// The value that flock needs.
        want: String,
        /// The file.
        path: PathBuf,
        /// What open or write said.
        source: io::Error,
    },
    /// What was repaired is still not as it should be.
    #[error("{ifname} is still not as recorded: {}", list(left))]
    NotRepaired {
        /// The host interface.
        ifname: String,
        /// What is left.
        left: Vec<Difference>,
    },
    /// Elements of the policy cannot change, because its table is not there or
    /// not what it was: it wants [`crate::Dataplane::replace_policy`].
    #[error("nftables table inet flock-policy is gone, or was made by another; nothing changed")]
    PolicyGone,
    /// The monitor needs a tokio runtime around it.
    #[error("the monitor was started outside a tokio runtime")]
    NoRuntime,
    /// The worker threads are gone.
    #[error("the dataplane's threads have ended")]
    Stopped,
    /// A fault that a test asked for.
    #[error(transparent)]
    Fault(#[from] Injected),
}

impl Error {
    /// Whether something is wrong with the kernel or the way to it. What it says of names, addresses
    /// and namespaces that others have, or that are gone, is an answer.
    pub(crate) fn is_failure(&self) -> bool {
        matches!(
            self,
            Self::Stranded { .. }
                | Self::Kernel { .. }
                | Self::Socket { .. }
                | Self::Malformed { .. }
                | Self::Interrupted { .. }
                | Self::Sysctl { .. }
                | Self::NotRepaired { .. }
        )
    }
}

fn list(differences: &[Difference]) -> String {
    let each: Vec<String> = differences.iter().map(ToString::to_string).collect();
    each.join("; ")
}
