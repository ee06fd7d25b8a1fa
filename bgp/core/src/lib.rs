//! The BGP speaker as a pure machine: bytes, time and wishes in; bytes, deadlines and notices out.
//! No clock, no socket, no randomness, no log.
//!
//! ```text
//!   Event ──▶ Speaker::handle ──▶ peer (fsm, session) ──▶ policy::import ──▶ rib
//!   Action ◀── Speaker::poll                                                 │
//!   bytes  ◀── Speaker::transmit ◀── policy::export ◀── per-peer pending set ◀┤
//!   routes ◀── Speaker::poll_route ◀── pending set of the kernel            ◀─┘
//! ```
//!
//! The driver (`flock-bgp-io`) owns sockets and the clock, and moves bytes. Everything that leaves
//! is pulled when there is room for it, so a prefix that flaps while a socket is full is sent once,
//! as it is then, and nothing queues without bound.
//!
//! It speaks for anyone who gives it bytes and time:
//!
//! ```
//! use std::time::Duration;
//! use flock_bgp::{
//!     Action, Event, Now, Origination, PeerAsn, PeerConfig, Speaker, SpeakerConfig, Wishes,
//! };
//!
//! let seed = 42; // the driver's randomness
//! let mut speaker = Speaker::new(SpeakerConfig::new(65001, [10, 0, 0, 1].into(), seed));
//! let now = Now(Duration::ZERO); // the driver's clock
//! let route = ("10.244.1.0/24".parse()?, Some(Origination::default()));
//! speaker.handle(now, Event::Originate(Wishes::Some(vec![route])));
//! let tor = PeerConfig::new("tor", "10.0.0.254".parse()?, PeerAsn::Number(65000));
//! speaker.handle(now, Event::Peers(vec![tor]));
//! while let Some(action) = speaker.poll() {
//!     match action {
//!         Action::Dial { conn, remote, .. } => {
//!             // Connect, then tell: Event::Dialled(conn, local, remote), and from then on
//!             // Event::Received(conn, bytes); on Action::Wake, send what `transmit` gives.
//!             assert_eq!(remote.to_string(), "10.0.0.254:179");
//!             # let _ = conn;
//!         }
//!         Action::Admit { .. } => {} // the peer may connect, too
//!         other => panic!("{other:?}"),
//!     }
//! }
//! assert!(speaker.next_deadline().is_some()); // Event::Tick at the latest then
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod collision;
mod config;
mod connection;
mod difference;
mod event;
mod fsm;
mod inbound;
mod negotiate;
mod peer;
mod policy;
mod restart;
mod rib;
mod speaker;
mod tally;
mod timer;

pub use config::{
    AddressRule, Export, GracefulRestart, Import, NextHops, Origination, PeerAsn, PeerConfig,
    Secret, SpeakerConfig, Transport, Ttl,
};
pub use event::{
    Action, ConnId, DownReason, Event, Farewell, Notice, Now, PeerKey, Refusal, RouteChange, Wishes,
};
pub use flock_bgp_wire::{
    AsPath, Attributes, Capability, Community, Family, LargeCommunity, NextHop, Origin, Role,
    frame::MAX_EXTENDED,
};
pub use peer::Messages;
pub use policy::Withheld;
pub use rib::{Heard, PathView, Pending, Reason, RouteView, Span, Spot, ToldView};
pub use speaker::{FamilyStatus, LastError, NegotiatedStatus, PeerStatus, Speaker, State};
