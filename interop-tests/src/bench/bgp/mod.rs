//! The speaker beside BIRD, FRR, OpenBGPD and GoBGP, in one run, by one tool.
//!
//! The bytes of BGP are written here once more, plainly and without the crates
//! under test: a stopwatch must not be made of what it measures.
//!
//! | module | what it holds |
//! |---|---|
//! | [`message`] | the few messages that a stopwatch needs |
//! | [`table`] | routes by the million, encoded before the clock starts |
//! | [`session`], [`count`] | a session over a plain socket, and counting what comes out |
//! | [`crowd`] | many such sessions of one speaker |
//! | [`router`], [`configs`] | the contestants as processes, and what they are told |
//! | [`usage`] | processor time and memory of a process and its children |
//! | [`kernel`] | routes as the kernel of a namespace reports them |
//! | [`transit`] | many routes in at one side and out at the other |
//! | [`change`] | one change, until it is in the kernel of the router beyond |
//! | [`start`] | from the start of the process to all routes told |
//! | [`verify`] | whether what came out is what should have come out |
//! | [`codec`] | the codec's own benchmark, where it was built |

pub mod change;
pub mod codec;
pub mod configs;
pub mod count;
pub mod crowd;
pub mod kernel;
pub mod message;
pub mod router;
pub mod session;
pub mod start;
pub mod table;
pub mod transit;
pub mod usage;
pub mod verify;

/// An address family, with the addresses that a benchmark gives to its links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// IPv4 unicast.
    V4,
    /// IPv6 unicast.
    V6,
}

impl Family {
    /// The address family identifier.
    pub fn afi(self) -> u16 {
        match self {
            Self::V4 => 1,
            Self::V6 => 2,
        }
    }

    /// What the table calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }

    /// The address of host `host` on link `link`.
    pub fn address(self, link: u8, host: u8) -> String {
        match self {
            Self::V4 => format!("10.0.{link}.{host}"),
            Self::V6 => format!("fd00:{link}::{host}"),
        }
    }

    /// The same with the length of the link's prefix.
    pub fn with_length(self, link: u8, host: u8) -> String {
        let length = match self {
            Self::V4 => 24,
            Self::V6 => 64,
        };
        format!("{}/{length}", self.address(link, host))
    }
}
