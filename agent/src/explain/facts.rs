//! Everything that an explanation is made from: gathered once, by `gather`, and then only read.
//! Times are those of the wall, lengths of time are whole seconds.

use std::net::IpAddr;

use flock_bgp::{Attributes, Pending, Reason, Withheld};
use flock_dataplane::StandingRoute;
use ipnet::IpNet;
use jiff::Timestamp;

use crate::cli::bgp::{Destination, PeerState};
use crate::pods::book::Phase;

/// Everything about one prefix.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(crate) asked: Destination,
    /// What is explained.
    pub(crate) prefix: IpNet,
    pub(crate) now: Timestamp,
    pub(crate) node: Node,
    pub(crate) origin: Origin,
    /// Those that have the address.
    pub(crate) pods: Vec<Pod>,
    /// Those whose manifest names the address, although they do not have it.
    pub(crate) mentions: Vec<Mention>,
    /// What else holds the address, in the words of the ledger.
    pub(crate) holder: Option<String>,
    pub(crate) kernel: Kernel,
    /// `None`: there is none.
    pub(crate) speaker: Option<Speaker>,
    /// The only peer that was asked about.
    pub(crate) only: Option<String>,
    /// The narrowest prefix around it that something is known of.
    pub(crate) covering: Option<Box<Facts>>,
    /// Some of what this node originates inside it.
    pub(crate) within: Vec<IpNet>,
}

/// The node.
#[derive(Debug, Clone, Default)]
pub(crate) struct Node {
    /// The name of the NodeConfig in force.
    pub(crate) config: Option<String>,
    /// What is wrong with it, as a sentence.
    pub(crate) problem: Option<String>,
    /// It has `spec.bgp`.
    pub(crate) speaks: bool,
    pub(crate) announce_pods: bool,
    pub(crate) drain: Option<Drain>,
}

/// How far the node is on its way out of service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Drain {
    /// Everything is withdrawn in so many seconds.
    Draining(u64),
    /// Everything is withdrawn.
    Drained(Timestamp),
}

/// What the reconciler knows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Origin {
    /// The field of the NodeConfig that names it.
    pub(crate) field: Option<String>,
    /// A network that the NodeConfig does not have any more, kept for the pods in it.
    pub(crate) leftover: bool,
    /// Originated, since then.
    pub(crate) since: Option<Timestamp>,
    /// The node is drained: nothing is originated.
    pub(crate) hushed: bool,
    /// It flaps, and is announced again in so many seconds.
    pub(crate) paced: Option<u64>,
    /// When it was last withdrawn, and why.
    pub(crate) withdrawn: Option<(Timestamp, String)>,
    /// The network of the node that holds it, itself aside.
    pub(crate) inside: Option<IpNet>,
}

impl Origin {
    /// A network of the node.
    pub(crate) fn is_network(&self) -> bool {
        self.field.is_some() || self.leftover
    }
}

/// A pod that has the address.
#[derive(Debug, Clone)]
pub(crate) struct Pod {
    pub(crate) name: String,
    pub(crate) by: By,
    pub(crate) phase: Phase,
    /// Its route is in place, as far as is known.
    pub(crate) wired: bool,
    /// `None`: the source knows nothing of it, and it counts as Ready.
    pub(crate) ready: Option<bool>,
    pub(crate) terminating: bool,
    /// The API server does not have it any more.
    pub(crate) gone: bool,
    pub(crate) interface: String,
}

/// By what a pod has an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// Shared with other pods, by annotation.
    Anycast,
    /// Its own, by annotation.
    Addresses,
    /// Its own, from the node's network.
    Network,
}

/// A manifest that names the address.
#[derive(Debug, Clone)]
pub(crate) struct Mention {
    pub(crate) pod: String,
    pub(crate) annotation: String,
    /// It is attached, without the address.
    pub(crate) attached: bool,
}

/// What is in the kernel, and what should be.
#[derive(Debug, Clone)]
pub(crate) struct Kernel {
    /// What was put there, as `ip route` would put it.
    pub(crate) expected: Option<String>,
    /// What is there: flock's, and before it another's that packets take instead. `Err`: it cannot
    /// be read, in these words.
    pub(crate) found: Result<Vec<StandingRoute>, String>,
    /// For an address: what decides about its packets.
    pub(crate) decides: Option<(IpAddr, Option<StandingRoute>)>,
    pub(crate) refused: Option<Refused>,
    /// It was withdrawn, and its route stays for so many seconds.
    pub(crate) lingers: Option<u64>,
    /// Next hops of a learned route that cannot be used now, and why.
    pub(crate) unusable: Vec<String>,
    /// A learned route of a former life or speaker, not told again yet.
    pub(crate) stale: bool,
    /// A learned route that is kept because the node is drained.
    pub(crate) held: bool,
}

impl Default for Kernel {
    fn default() -> Self {
        Self {
            expected: None,
            found: Ok(Vec::new()),
            decides: None,
            refused: None,
            lingers: None,
            unusable: Vec::new(),
            stale: false,
            held: false,
        }
    }
}

impl Kernel {
    /// Flock's route.
    pub(crate) fn ours(&self) -> Option<&StandingRoute> {
        self.found.as_ref().ok()?.iter().find(|route| route.is_ours())
    }

    /// Another program's, which packets take instead.
    pub(crate) fn another(&self) -> Option<&StandingRoute> {
        self.found.as_ref().ok()?.iter().find(|route| !route.is_ours())
    }

    /// What was put there is there.
    pub(crate) fn is_as_expected(&self) -> bool {
        let same = |expected: &String| self.ours().is_some_and(|o| o.to_string() == *expected);
        self.expected.as_ref().is_some_and(same)
    }
}

/// What the kernel refuses.
#[derive(Debug, Clone)]
pub(crate) struct Refused {
    /// In its words.
    pub(crate) words: String,
    /// Asked again in so many seconds.
    pub(crate) again: Option<u64>,
}

/// What the speaker knows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Speaker {
    /// By name.
    pub(crate) peers: Vec<Peer>,
    pub(crate) route: Option<Route>,
}

/// A route of the speaker's table.
#[derive(Debug, Clone)]
pub(crate) struct Route {
    /// The step that chose the best path; `None`: none is used.
    pub(crate) reason: Option<Reason>,
    /// The best first, refused ones last.
    pub(crate) paths: Vec<Path>,
}

/// A path of a route.
#[derive(Debug, Clone)]
pub(crate) struct Path {
    /// `None`: ours.
    pub(crate) peer: Option<String>,
    /// `None`: refused.
    pub(crate) attributes: Option<Attributes>,
    pub(crate) best: bool,
    pub(crate) equal: bool,
    pub(crate) stale: bool,
    pub(crate) withheld: Option<Withheld>,
    pub(crate) lost: Option<Reason>,
}

/// A peer, as far as the prefix is concerned.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub(crate) name: String,
    pub(crate) state: PeerState,
    /// When the last session ended.
    pub(crate) ended: Option<Timestamp>,
    /// Why there is none.
    pub(crate) last_error: Option<String>,
    /// The next attempt is in so many seconds.
    pub(crate) next_attempt: Option<u64>,
    /// The speaker does not know it, for this reason.
    pub(crate) untold: Option<String>,
    /// Why nothing of the prefix's family is told.
    pub(crate) not_announced: Option<String>,
    /// `None`: no session with that family.
    pub(crate) heard: Option<Heard>,
    /// Why policy keeps the prefix from it.
    pub(crate) withheld: Option<Withheld>,
}

impl Speaker {
    /// Nobody hears of a prefix before this node has it, nor of its end before it is withdrawn. The
    /// speaker's memory is coarse: without this, a peer might seem to know first.
    pub(crate) fn order(&mut self, origin: &Origin) {
        let withdrawn = origin.withdrawn.as_ref().map(|(at, _)| *at);
        for heard in self.peers.iter_mut().filter_map(|peer| peer.heard.as_mut()) {
            let earliest = if heard.told { origin.since } else { withdrawn };
            if let (Some(earliest), Some((from, until))) = (earliest, &mut heard.when) {
                *from = earliest.max(*from);
                *until = earliest.max(*until);
            }
        }
    }
}

/// What a peer has heard of the prefix.
#[derive(Debug, Clone, Default)]
pub(crate) struct Heard {
    pub(crate) told: bool,
    /// Not before the first and not after the second.
    pub(crate) when: Option<(Timestamp, Timestamp)>,
    pub(crate) attributes: Option<Attributes>,
    pub(crate) pending: Option<Pending>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_hears_of_a_prefix_before_this_node_has_it() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let heard = |told: bool, from: i64, until: i64| Peer {
            name: "tor-a".into(),
            state: PeerState::Established,
            ended: None,
            last_error: None,
            next_attempt: None,
            untold: None,
            not_announced: None,
            heard: Some(Heard { told, when: Some((at(from), at(until))), ..Heard::default() }),
            withheld: None,
        };
        let mut speaker = Speaker {
            peers: vec![
                heard(true, 9, 9),
                heard(true, 9, 12),
                heard(true, 11, 12),
                heard(false, 18, 18),
            ],
            route: None,
        };
        let withdrawn = Some((at(20), "not Ready".to_owned()));
        speaker.order(&Origin { since: Some(at(10)), withdrawn, ..Origin::default() });
        let spans = speaker.peers.iter().map(|peer| peer.heard.as_ref().unwrap().when.unwrap());
        let wanted = [(10, 10), (10, 12), (11, 12), (20, 20)].map(|(a, b)| (at(a), at(b)));
        assert_eq!(spans.collect::<Vec<_>>(), wanted);
    }
}
