//! Who may talk to a pod: the table `inet flock-policy` (docs/decisions/0027).
//!
//! Decides how elements look in the kernel and that every change is one
//! transaction. Which elements there are is the agent's.
//!
//! | room | what it decides |
//! |---|---|
//! | `sets` | which sets and maps there are |
//! | `elements` | an element as keys and values, many as messages: pure |
//! | `rules` | the chains and what they say: pure |
//! | `table` | what is sent: all anew, a change, nothing left; and whether it is all there |
//! | `drops` | what was dropped, as counted |
//! | `log`, `packet` | some of what was dropped, as it happens; a packet's headers |

mod drops;
mod elements;
mod log;
mod packet;
mod rules;
mod sets;
mod table;

use std::net::IpAddr;
use std::sync::Arc;

pub(crate) use drops::drops;
pub(crate) use log::watch;
pub(crate) use sets::TABLE;
pub(crate) use table::{change, present, remove, replace};

/// What can be chosen of the rules.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Layout {
    /// Whether packets that are dropped are also told of, ten in a second
    /// (see [`crate::Dataplane::watch_drops`]). Wants the kernel's nfnetlink_log.
    pub log_drops: bool,
}

/// As seen from the pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Direction {
    /// What it is sent.
    Ingress,
    /// What it sends.
    Egress,
}

/// What rules of one direction a pod is held against. 0 is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Profile(pub u32);

impl Profile {
    /// Nothing is ever allowed by it.
    pub const CLOSED: Self = Self(1);
}

/// What an address counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Class(pub u32);

impl Class {
    /// Whoever it is.
    pub const ANYBODY: Self = Self(0);
}

/// The ports that a rule allows, as one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ports {
    /// Everything, also what has no ports.
    All,
    /// Every port of a protocol (its IP number).
    Protocol(u8),
    /// One port.
    One(u8, u16),
    /// The ports of a range by its number.
    Range(u32),
}

/// Something that is in a set or a map of the table.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Element {
    /// A pod is isolated: its host link, and what it is held against.
    Subject {
        /// Which packets.
        direction: Direction,
        /// Its host link, which need not be there yet.
        ifname: Arc<str>,
        /// What they are held against.
        profile: Profile,
    },
    /// An address of a pod.
    Member {
        /// The address.
        address: IpAddr,
        /// What it counts as.
        class: Class,
    },
    /// Addresses that are no pod's. Those of a family never overlap.
    Block {
        /// The first.
        first: IpAddr,
        /// The last, of the same family, not before the first.
        last: IpAddr,
        /// What they count as.
        class: Class,
    },
    /// A range of ports. Those of a protocol never overlap.
    Range {
        /// The IP number.
        protocol: u8,
        /// The first port.
        first: u16,
        /// The last port, not before the first.
        last: u16,
        /// Its number, not 0, and of one range only.
        number: u32,
    },
    /// A class may.
    Allowed {
        /// Held against.
        profile: Profile,
        /// Who may.
        class: Class,
        /// What.
        ports: Ports,
    },
    /// Both addresses (of one family) are one pod's.
    Own {
        /// From.
        source: IpAddr,
        /// To.
        destination: IpAddr,
    },
}

/// What changes in one transaction: first what goes, then what comes. Where an
/// element of a map gets another value, the old one goes and the new one comes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    /// These are there now.
    pub removed: Vec<Element>,
    /// These are not.
    pub added: Vec<Element>,
}

impl Change {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.added.is_empty()
    }
}

/// What was dropped for a pod since its elements were made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped {
    /// Its host link.
    pub ifname: String,
    /// Which packets.
    pub direction: Direction,
    /// How many.
    pub packets: u64,
    /// How much.
    pub bytes: u64,
}

/// One packet that was dropped, as the log wants it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DroppedPacket {
    /// The host link of the pod that did not allow it.
    pub ifname: String,
    /// Which way.
    pub direction: Direction,
    /// Who sent it.
    pub source: IpAddr,
    /// To whom.
    pub destination: IpAddr,
    /// The IP number of its protocol.
    pub protocol: u8,
    /// Its destination port, where the protocol has ports.
    pub port: Option<u16>,
}
