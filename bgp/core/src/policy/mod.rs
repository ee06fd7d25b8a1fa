//! What is believed and what is said. Pure functions over values: no state, no time.
//!
//! `import` judges a received route, with `networks` knowing which prefixes are the node's own;
//! `export` makes the attributes that a peer is told. Which routes there are, and which of them is
//! best, is the RIB's business.

use std::fmt;

pub(crate) mod export;
pub(crate) mod import;
pub(crate) mod networks;

/// Why a received route is not used, or a known one not told. Small enough to be kept with each
/// route; in words for operators by `Display`. Of two reasons against a received route the first one
/// here says more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Withheld {
    /// A network of this node's own pods, or part of one.
    OwnPods,
    /// The same, with our AS number in the path: our own announcement come back, or that of another
    /// node of our AS.
    OwnPodsLoop,
    /// A network that this node is connected to, or part of one.
    Connected,
    /// Loopback, link-local, multicast, unspecified or the like.
    Martian,
    /// More attributes than a route may have here: what a peer tells must cost a bounded amount.
    TooMuch,
    /// Our AS number is in the path (RFC 4271 §9.1.2).
    AsLoop,
    /// ORIGINATOR_ID is ours (RFC 4456 §8).
    OriginatorLoop,
    /// CLUSTER_LIST holds our identifier (RFC 4456 §8).
    ClusterLoop,
    /// The path does not begin with the peer's AS number (RFC 4271 §6.3).
    FirstAs,
    /// Only To Customer says that this route leaks (RFC 9234 §5).
    RouteLeak,
    /// The next hop is ours, a martian, or not on a network of ours.
    NextHop,
    /// No rule of `import.accept` matches (RFC 8212).
    NotAccepted,
    /// Only what we originate is told (RFC 8212).
    NotOriginated,
    /// It came from this peer, or from inside to inside (RFC 4271 §9.2).
    SplitHorizon,
    /// NO_EXPORT, NO_ADVERTISE or NO_EXPORT_SUBCONFED (RFC 1997).
    WellKnownCommunity,
    /// There is no next hop of this family to tell this peer.
    NoNextHop,
    /// The attributes do not fit into a message.
    TooLong,
}

impl Withheld {
    /// The peer tells of a network that is this node's own affair.
    pub(crate) fn overlaps(self) -> bool {
        matches!(self, Self::OwnPods | Self::OwnPodsLoop | Self::Connected)
    }
}

impl fmt::Display for Withheld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OwnPods => "a network of this node's own pods, or part of one",
            Self::OwnPodsLoop => {
                "a network of this node's own pods, or part of one, with our own AS number in the path"
            }
            Self::NotAccepted => "no rule of import.accept matches",
            Self::AsLoop => "our own AS number is in the path",
            Self::FirstAs => "the path does not begin with the peer's AS number",
            Self::OriginatorLoop => "it came from us: ORIGINATOR_ID is our router ID",
            Self::ClusterLoop => "it passed through us: our router ID is in CLUSTER_LIST",
            Self::Martian => "not a routable prefix (loopback, link-local, multicast or reserved)",
            Self::Connected => "this node is connected to that network",
            Self::NextHop => {
                "the next hop is unusable: ours, not unicast, or on no network of ours"
            }
            Self::RouteLeak => "a route leak by its Only To Customer attribute",
            Self::NotOriginated => {
                "learned from a peer, and only what this node originates is told"
            }
            Self::SplitHorizon => "it came from this peer, or from another internal peer",
            Self::WellKnownCommunity => "it carries NO_EXPORT, NO_ADVERTISE or the like",
            Self::NoNextHop => "there is no next hop of this address family to tell this peer",
            Self::TooLong => "its attributes do not fit into a message",
            Self::TooMuch => "its path and communities are longer than any that is kept",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Withheld;

    #[test]
    fn each_reason_has_words_of_its_own() {
        let all = [
            Withheld::OwnPods,
            Withheld::OwnPodsLoop,
            Withheld::NotAccepted,
            Withheld::AsLoop,
            Withheld::FirstAs,
            Withheld::OriginatorLoop,
            Withheld::ClusterLoop,
            Withheld::Martian,
            Withheld::Connected,
            Withheld::NextHop,
            Withheld::RouteLeak,
            Withheld::NotOriginated,
            Withheld::SplitHorizon,
            Withheld::WellKnownCommunity,
            Withheld::NoNextHop,
            Withheld::TooLong,
            Withheld::TooMuch,
        ];
        let mut words: Vec<String> = all.iter().map(ToString::to_string).collect();
        words.sort();
        words.dedup();
        assert_eq!(words.len(), all.len());
    }

    /// A reason is kept with each refused route.
    #[test]
    fn a_reason_costs_one_byte_with_or_without() {
        assert_eq!(size_of::<Option<Withheld>>(), 1);
    }
}
