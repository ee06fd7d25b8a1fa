//! BGP-4 messages as bytes, and bytes as messages: pure, total on any input, no IO.
//!
//! Reading goes in three steps, so that each can be fuzzed alone and none trusts a length:
//! [`frame::length`] finds where a message ends, [`decode`] reads it in the [`Context`] of its
//! session, and [`Nlri`] yields prefixes one by one from bytes that were checked before. What is
//! wrong with a message is a type, not a text: [`Reset`] carries the NOTIFICATION that ends the
//! session; a [`Fault`] is survived, by discarding an attribute or by treating the routes as
//! withdrawn (RFC 7606). Writing goes into a `BytesMut` of the caller, one message a call.
//!
//! This crate knows nobody; `flock-bgp` knows it; the driver cannot see it.
#![forbid(unsafe_code)]

pub mod attributes;
pub mod capability;
pub mod community;
mod cursor;
mod decode;
pub mod encode;
pub mod family;
pub mod frame;
pub mod nlri;
pub mod notification;
pub mod open;
pub mod refresh;
pub mod update;

pub use attributes::{
    Aggregator, AsPath, Attributes, NextHop, Origin, Segment, SegmentKind, Unknown,
};
pub use capability::{AddPathMode, Capability, GracefulRestart, Role};
pub use community::{Community, ExtendedCommunity, LargeCommunity};
pub use decode::{Context, decode};
pub use family::{Family, Net};
pub use nlri::{Nlri, Received};
pub use notification::{Notification, Reset};
pub use open::Open;
pub use refresh::{Refresh, RefreshKind};
pub use update::{Disposition, Fault, MpReach, MpUnreach, Update};

/// A message as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message<'a> {
    /// RFC 4271 §4.2.
    Open(Open),
    /// RFC 4271 §4.3.
    Update(Box<Update<'a>>),
    /// RFC 4271 §4.5.
    Notification(Notification),
    /// RFC 4271 §4.4.
    Keepalive,
    /// RFC 2918 §3, RFC 7313 §3.
    Refresh(Refresh),
}
