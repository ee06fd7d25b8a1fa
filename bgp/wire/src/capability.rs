//! Capabilities (RFC 5492): those that we know, and those that we do not, kept raw.

use bytes::Bytes;

use crate::family::Family;

/// Capability codes (IANA).
pub(crate) mod code {
    pub(crate) const MULTIPROTOCOL: u8 = 1;
    pub(crate) const ROUTE_REFRESH: u8 = 2;
    pub(crate) const EXTENDED_NEXT_HOP: u8 = 5;
    pub(crate) const EXTENDED_MESSAGE: u8 = 6;
    pub(crate) const ROLE: u8 = 9;
    pub(crate) const GRACEFUL_RESTART: u8 = 64;
    pub(crate) const FOUR_OCTET_AS: u8 = 65;
    pub(crate) const ADD_PATH: u8 = 69;
    pub(crate) const ENHANCED_ROUTE_REFRESH: u8 = 70;
}

/// One capability of an OPEN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Capability {
    /// Code 1 (RFC 4760 §8); families that are not ours stay raw in `Other`.
    Multiprotocol(Family),
    /// Code 2 (RFC 2918).
    RouteRefresh,
    /// Code 5 (RFC 8950 §4): NLRI family whose next hop may be IPv6.
    ExtendedNextHop(Vec<Family>),
    /// Code 6 (RFC 8654).
    ExtendedMessage,
    /// Code 9 (RFC 9234 §4.1).
    Role(Role),
    /// Code 64 (RFC 4724 §3, RFC 8538 §2).
    GracefulRestart(GracefulRestart),
    /// Code 65 (RFC 6793).
    FourOctetAs(u32),
    /// Code 69 (RFC 7911 §4).
    AddPath(Vec<(Family, AddPathMode)>),
    /// Code 70 (RFC 7313 §3.1).
    EnhancedRouteRefresh,
    /// Any other, or a known code with a family that is not ours.
    Other {
        /// Capability code.
        code: u8,
        /// Its value.
        value: Bytes,
    },
}

/// RFC 9234 §4.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// 0: the sender is a provider.
    Provider,
    /// 1: a route server.
    RouteServer,
    /// 2: a route server's client.
    RouteServerClient,
    /// 3: a customer.
    Customer,
    /// 4: a lateral peer.
    Peer,
}

impl Role {
    pub(crate) fn from_wire(role: u8) -> Option<Self> {
        Some(match role {
            0 => Self::Provider,
            1 => Self::RouteServer,
            2 => Self::RouteServerClient,
            3 => Self::Customer,
            4 => Self::Peer,
            _ => return None,
        })
    }

    pub(crate) fn to_wire(self) -> u8 {
        match self {
            Self::Provider => 0,
            Self::RouteServer => 1,
            Self::RouteServerClient => 2,
            Self::Customer => 3,
            Self::Peer => 4,
        }
    }
}

/// RFC 4724 §3.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GracefulRestart {
    /// R: the speaker has restarted.
    pub restarted: bool,
    /// N: NOTIFICATIONs keep forwarding state too (RFC 8538 §2).
    pub notification: bool,
    /// Seconds, at most 4095.
    pub time: u16,
    /// The families, each with F: forwarding state was kept.
    pub families: Vec<(Family, bool)>,
}

/// RFC 7911 §4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AddPathMode {
    /// 1: the sender can receive several paths.
    Receive,
    /// 2: the sender can send several.
    Send,
    /// 3: both.
    Both,
}
