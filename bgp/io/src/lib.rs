//! Tokio sockets and one timer around `flock-bgp`. It moves bytes and has no protocol `if`: it does
//! not depend on `flock-bgp-wire`, so that it cannot see a message.
//!
//! One task owns the speaker and every socket; there is no lock around routing state and no task
//! per connection. A socket that becomes ready puts its name on a list and wakes that task
//! (`ready`), which reads into one buffer that all connections share and writes straight from the
//! speaker's pull. So one change costs one hop (the command) and one system call.
//!
//! | room | what it decides |
//! |---|---|
//! | `handle` | what the owner may ask, and how it is answered |
//! | `channels` | every channel, its length, and what happens when it is full |
//! | `driver` | the loop: what is looked at, in what order, and carrying out what the speaker asks |
//! | `traffic` | reading, writing and closing, fairly |
//! | `connection`, `ready` | one socket, and which sockets can go on |
//! | `dial`, `listener`, `pace` | connections that we open, those that come, and how often |
//! | `transport`, `sockopt` | socket options |
//! | `counters` | the kernel's word on TCP-MD5 |
//!
//! What it costs: a peer that does not read, one transmit (some 64 KiB) here and at most 256 KiB
//! unsent in the kernel; a peer that sends fast, nothing, as it is read only when everyone else had
//! a turn; an idle one, no buffer.
//!
//! Places left: TCP-AO is one more option beside TCP-MD5 in `transport`; an unnumbered peer brings
//! its link as the scope of its address.
#![deny(unsafe_code)]

mod channels;
mod connection;
mod counters;
mod dial;
mod driver;
mod handle;
mod listener;
mod pace;
mod ready;
mod sockopt;
mod traffic;
mod transport;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use flock_bgp::{RouteChange, SpeakerConfig};
use tokio::sync::mpsc;

pub use channels::{Notices, Told};
pub use handle::{ConnectionStatus, Full, Gone, Handle, Heard, Status};
pub use listener::Arrivals;
pub use pace::{Pace, Rate};

/// Where to listen, and how often anything may happen.
#[derive(Debug, Clone, Default)]
pub struct Listen {
    /// Each becomes a socket; port 0 lets the system choose. None: connections are only opened.
    pub addresses: Vec<SocketAddr>,
    /// How often.
    pub pace: Pace,
}

/// An address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}{}", without(.source))]
pub struct StartError {
    /// Which.
    pub address: SocketAddr,
    /// The system's words.
    pub source: io::Error,
}

/// The one thing that a permission can be denied for here.
fn without(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => " without the capability NET_BIND_SERVICE",
        _ => "",
    }
}

/// A speaker that runs.
#[derive(Debug)]
pub struct Running {
    /// To ask it.
    pub handle: Handle,
    /// What happens.
    pub notices: Notices,
    /// Learned routes that the kernel should have. Dropped: they are not asked for.
    pub routes: mpsc::Receiver<RouteChange>,
}

/// Listens, and starts a speaker without peers on the current tokio runtime. It ends with
/// [`Handle::farewell`], or silently when the last handle is dropped.
pub fn start(config: SpeakerConfig, listen: &Listen) -> Result<Running, StartError> {
    driver::start(config, listen)
}

/// Whether the kernel signs TCP segments (RFC 2385), tried with a socket that nobody uses. A kernel
/// without it says so only then.
pub fn knows_md5() -> io::Result<()> {
    let nobody = IpAddr::V4(Ipv4Addr::LOCALHOST);
    sockopt::set_md5(transport::socket(nobody)?, nobody, Some(b"probe"))
}
