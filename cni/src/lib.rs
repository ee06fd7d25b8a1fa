//! The words that the CNI plugin `flock` and the agent share.
//!
//! Decides how a CNI call looks: what a runtime may ask ([`netconf`], [`args`],
//! [`names`], [`version`]), how it is put to the agent ([`words`], [`client`]),
//! what an answer looks like ([`result`], [`error`]), and what becomes of a DEL
//! that nobody was there to hear ([`spool`]).
//!
//! Leaves to others: carrying a call out (the agent), and what a call does with
//! the process it runs in (the binary's own modules under `plugin/`). No async
//! runtime and no netlink crate here: the binary is executed once per call, and
//! its size is its start-up time.
#![forbid(unsafe_code)]

pub mod args;
pub mod cidr;
pub mod client;
pub mod error;
mod fields;
pub mod names;
pub mod netconf;
pub mod netns;
pub mod result;
pub mod spool;
pub mod version;
pub mod words;

pub use cidr::IpCidr;
pub use error::CniError;
pub use netconf::NetConf;
pub use netns::NetnsId;
pub use result::CniResult;
pub use spool::SpoolEntry;
pub use version::CniVersion;
pub use words::{Request, Response};
