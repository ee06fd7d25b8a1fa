//! Every way into and out of the speaker, on one page.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flock_bgp_wire::{Family, NextHop, Notification};
use ipnet::IpNet;

use crate::config::{Origination, PeerConfig, Transport};
use crate::policy::Withheld;

/// Time since the driver's own beginning. Never goes back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Now(pub Duration);

/// A TCP connection, or an attempt at one. Numbered by whoever opens it: dials by the speaker
/// (even numbers), accepted ones by the driver (odd numbers). Never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u64);

/// A peer for as long as it is wished for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerKey(pub u16);

/// What the speaker is told.
///
/// A place is left here for a peer that BFD finds dead (RFC 5882 §4.2: its session ends with Cease
/// 6/10, RFC 9384) and for a link's peer that was found (unnumbered peering: `Peers` with its
/// `scope`).
#[derive(Debug)]
pub enum Event<'a> {
    /// These peers, and no others. Unchanged ones are left alone, changed ones are changed live
    /// where the protocol lets them, and only otherwise reset.
    Peers(Vec<PeerConfig>),
    /// These originations.
    Originate(Wishes),
    /// All that a restarted agent had is originated again: End-of-RIB may go out.
    OriginationsComplete,
    /// GRACEFUL_SHUTDOWN on everything (RFC 8326), or no longer.
    Drain(bool),
    /// The networks of this node. A prefix that is one of them or part of one is refused. Never
    /// said: every next hop counts as reachable, and none is refused for that.
    Networks {
        /// Those that it is connected to: next hops can be there.
        connected: Vec<IpNet>,
        /// Those of its own pods: no next hop is there.
        own: Vec<IpNet>,
        /// Those that it is connected to by an interface that carries no packets now: no next hop is
        /// there, and nobody may tell them all the same.
        down: Vec<IpNet>,
    },
    /// Ask a peer for everything again (RFC 2918).
    Refresh(PeerKey),
    /// Tell a peer everything again, as if it had asked.
    Retell(PeerKey),
    /// End a peer's session and begin anew, with words (RFC 9003).
    Reset(PeerKey, Arc<str>),
    /// A dial succeeded; our end and theirs.
    Dialled(ConnId, SocketAddr, SocketAddr),
    /// A dial failed.
    Refused(ConnId, Refusal),
    /// Someone of `Admit` connected; our end and theirs.
    Accepted(ConnId, SocketAddr, SocketAddr),
    /// Bytes came.
    Received(ConnId, &'a [u8]),
    /// Bytes that `transmit` gave were taken by the kernel (RFC 9687: the peer lives).
    Sent(ConnId),
    /// The connection is gone, with the system's words.
    Closed(ConnId, Option<Arc<str>>),
    /// Time has passed. What can be read is to be told before: a hold time that is over counts.
    Tick,
    /// Everything ends.
    Farewell(Farewell),
}

/// What is originated, by prefix.
#[derive(Debug, Clone)]
pub enum Wishes {
    /// These and no others.
    All(Vec<(IpNet, Origination)>),
    /// These prefixes so (or not at all); all others as they are. Costs as little as it says.
    Some(Vec<(IpNet, Option<Origination>)>),
}

/// How everything ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Farewell {
    /// Connections close without a word: we come back (RFC 4724).
    Silent,
    /// Withdraw nothing, Cease with words (RFC 9003): it takes everything back.
    Shutdown(Arc<str>),
}

/// Why a dial failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The system's words, or a better guess (a password that does not match).
    pub what: Arc<str>,
}

/// What the driver is asked to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Connect.
    Dial {
        /// The attempt.
        conn: ConnId,
        /// To.
        remote: SocketAddr,
        /// From.
        local: Option<IpAddr>,
        /// So.
        transport: Transport,
        /// How long the handshake may take; the speaker gives the attempt up a little later.
        patience: Duration,
    },
    /// Take connections from this address, with these settings on the listener (its key) and on
    /// the connection. Replaces what was said of the address before.
    Admit {
        /// From.
        remote: IpAddr,
        /// So.
        transport: Transport,
    },
    /// No longer.
    Expel {
        /// From.
        remote: IpAddr,
    },
    /// `transmit` has something for this connection. Said once until it was called.
    Wake(ConnId),
    /// Close this connection or give the attempt up. What `transmit` still has (it is to be called
    /// once more) goes out first, as far as the socket takes it.
    Close(ConnId),
    /// Something that an operator may want to know.
    Notice(Notice),
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// A session is Established.
    Up(PeerKey, Arc<str>),
    /// A session, or an attempt at one, ended.
    Down(PeerKey, Arc<str>, DownReason),
    /// An UPDATE had something wrong that was survived (RFC 7606).
    Malformed {
        /// Who.
        peer: PeerKey,
        /// Its name.
        name: Arc<str>,
        /// Attribute code.
        attribute: u8,
        /// In words, with what followed from it.
        what: Arc<str>,
    },
    /// Prefixes were refused that overlap the node's networks, or that a rule would have let in. Not
    /// for what is everyday: that no rule wants them, or that our AS number is in their path. Told at
    /// most once a second.
    Refused {
        /// Who told them.
        peer: PeerKey,
        /// Its name.
        name: Arc<str>,
        /// One of them, of those with the reason that says most.
        net: IpNet,
        /// Why.
        why: Withheld,
        /// How many others were refused since the last notice.
        more: u64,
    },
    /// A peer tells of prefixes that we originate ourselves; used or refused. Told at most once a
    /// second.
    Contested {
        /// Who tells of them.
        peer: PeerKey,
        /// Its name.
        name: Arc<str>,
        /// One of them.
        net: IpNet,
        /// How many times more it happened since the last notice.
        more: u64,
    },
    /// The peer has sent all that it had (RFC 4724 §2).
    EndOfRib(PeerKey, Arc<str>, Family),
    /// We have sent all that we had.
    Told(PeerKey, Arc<str>, Family),
}

/// Why a session ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DownReason {
    /// We sent this NOTIFICATION: code, subcode, data.
    Sent(u8, u8, Bytes),
    /// They sent this one.
    Received(u8, u8, Bytes),
    /// The connection closed, with the system's words.
    Closed(Option<Arc<str>>),
    /// The dial failed.
    Refused(Refusal),
    /// The peer is not wished for any more, or withheld, or we said farewell silently.
    Local(Arc<str>),
}

impl DownReason {
    /// The peer's own words, where it sent some (RFC 9003); control characters replaced.
    pub fn words(&self) -> Option<String> {
        match self {
            Self::Received(code, subcode, data) => {
                Notification::with(*code, *subcode, data.clone()).text()
            }
            _ => None,
        }
    }

    /// Code and subcode of the NOTIFICATION, where there was one.
    pub fn code(&self) -> Option<(u8, u8)> {
        match self {
            Self::Sent(code, subcode, _) | Self::Received(code, subcode, _) => {
                Some((*code, *subcode))
            }
            _ => None,
        }
    }
}

/// For operators.
impl fmt::Display for DownReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sent(code, subcode, data) | Self::Received(code, subcode, data) => {
                let notification = Notification::with(*code, *subcode, data.clone());
                let who = if matches!(self, Self::Sent(..)) { "sent" } else { "received" };
                write!(f, "{who} {} ({code}/{subcode})", notification.describe())?;
                match notification.text() {
                    Some(text) => write!(f, ": {text}"),
                    None => Ok(()),
                }
            }
            Self::Closed(None) => f.write_str("the connection closed"),
            Self::Closed(Some(why)) => write!(f, "the connection closed: {why}"),
            Self::Refused(refusal) => write!(f, "cannot connect: {}", refusal.what),
            Self::Local(why) => f.write_str(why),
        }
    }
}

/// What the kernel should have for a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteChange {
    /// The prefix.
    pub net: IpNet,
    /// Sorted, distinct next hops of the best and equal paths; empty: no route.
    pub next_hops: Vec<NextHop>,
}
