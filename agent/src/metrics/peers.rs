//! A peer in figures. Decides what becomes of more peers than labels may have, and how an error is
//! told in numbers: the words of others are in the log and in `bgp show`, never in a label.

use std::time::Duration;

use flock_bgp::{DownReason, Family, FamilyStatus, Messages, Now, PeerStatus, State};

use super::MOST_PEERS;

/// The name of those that have none.
const OVERFLOW: &str = "overflow";

/// Bytes of a name that is a label of its own.
const LONGEST_NAME: usize = 128;

/// RFC 4271 §8.2.2, in its order.
pub(super) const STATES: [State; 6] = [
    State::Idle,
    State::Connect,
    State::Active,
    State::OpenSent,
    State::OpenConfirm,
    State::Established,
];

/// Codes and subcodes that standards give a meaning (RFC 4271 §4.5, RFC 7313, RFC 4486, RFC 9384).
const MOST_CODE: u8 = 7;
const MOST_SUBCODE: u8 = 11;

/// One peer, or several.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Peer {
    pub(super) name: String,
    /// How many are in which state; of one peer, one is 1.
    pub(super) states: [u64; 6],
    pub(super) uptime_seconds: u64,
    pub(super) flaps: u64,
    pub(super) last_error: Option<LastError>,
    pub(super) messages: Messages,
    pub(super) faults: u64,
    pub(super) refused: u64,
    pub(super) contested: u64,
    /// What may be accepted of each family.
    pub(super) limit: Option<u32>,
    /// By [`Family::index`]; `None`: not wished for.
    pub(super) families: [Option<Routes>; 2],
}

/// One family of a peer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Routes {
    pub(super) received: u64,
    pub(super) accepted: u64,
    pub(super) advertised: u64,
    pub(super) pending: u64,
    /// Whether everything was told, to the peer and by it; `None`: the session does not speak it.
    pub(super) end_of_rib: Option<(bool, bool)>,
}

/// Why there was no session, in figures.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LastError {
    /// Of the NOTIFICATION; 0 where there was none.
    pub(super) code: String,
    pub(super) subcode: String,
    pub(super) side: &'static str,
    pub(super) ago: Duration,
}

impl Peer {
    /// One that the speaker has.
    pub(super) fn of(status: &PeerStatus, now: Now) -> Self {
        let since = |at: Now| now.0.saturating_sub(at.0);
        let up = status.state == State::Established;
        let mut families = [None; 2];
        for family in &status.families {
            if let Some(slot) = families.get_mut(family.family.index()) {
                *slot = Some(Routes::from(family));
            }
        }
        Self {
            name: status.name.to_string(),
            states: STATES.map(|state| u64::from(state == status.state)),
            uptime_seconds: if up { since(status.since).as_secs() } else { 0 },
            flaps: status.flaps,
            last_error: status.last_error.as_ref().map(|error| {
                let (code, subcode, side) = in_figures(&error.reason);
                LastError { code, subcode, side, ago: since(error.at) }
            }),
            messages: status.messages,
            faults: status.faults,
            refused: status.refused,
            contested: status.contested,
            limit: None,
            families,
        }
    }

    /// One that the speaker cannot have: Idle for ever.
    pub(super) fn untold(name: &str) -> Self {
        let states = STATES.map(|state| u64::from(state == State::Idle));
        Self { name: name.to_owned(), states, ..Self::default() }
    }

    /// How many of them are Established.
    pub(super) fn up(&self) -> u64 {
        let [.., established] = self.states;
        established
    }

    /// Its families, by name.
    pub(super) fn routes(&self) -> impl Iterator<Item = (&'static str, &Routes)> {
        let named = Family::ALL.map(|family| (name(family), family.index()));
        named.into_iter().filter_map(|(name, at)| Some((name, self.families.get(at)?.as_ref()?)))
    }

    fn absorb(&mut self, other: &Self) {
        for (ours, theirs) in self.states.iter_mut().zip(other.states) {
            *ours += theirs;
        }
        self.flaps += other.flaps;
        self.messages.received += other.messages.received;
        self.messages.updates_received += other.messages.updates_received;
        self.messages.sent += other.messages.sent;
        self.messages.updates_sent += other.messages.updates_sent;
        self.faults += other.faults;
        self.refused += other.refused;
        self.contested += other.contested;
        for (ours, theirs) in self.families.iter_mut().zip(&other.families) {
            if let Some(theirs) = theirs {
                let ours = ours.get_or_insert_default();
                ours.received += theirs.received;
                ours.accepted += theirs.accepted;
                ours.advertised += theirs.advertised;
                ours.pending += theirs.pending;
            }
        }
    }
}

impl From<&FamilyStatus> for Routes {
    fn from(family: &FamilyStatus) -> Self {
        Self {
            received: family.received.into(),
            accepted: family.accepted.into(),
            advertised: family.advertised.into(),
            pending: family.pending.into(),
            end_of_rib: family
                .negotiated
                .then_some((family.end_of_rib_sent, family.end_of_rib_received)),
        }
    }
}

/// The peers by name, and those who are too many, or whose name is no label, as one: what can be
/// summed up is.
pub(super) fn bounded(peers: Vec<Peer>) -> Vec<Peer> {
    let is_label = |peer: &Peer| peer.name.len() <= LONGEST_NAME && peer.name != OVERFLOW;
    let (mut named, mut rest): (Vec<_>, Vec<_>) = peers.into_iter().partition(is_label);
    named.sort_by(|a, b| a.name.cmp(&b.name));
    rest.extend(named.drain(MOST_PEERS.min(named.len())..));
    if !rest.is_empty() {
        let mut sum = Peer { name: OVERFLOW.to_owned(), ..Peer::default() };
        rest.iter().for_each(|peer| sum.absorb(peer));
        named.push(sum);
    }
    named
}

/// A family as a label.
pub(super) fn name(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "ipv4",
        Family::Ipv6 => "ipv6",
    }
}

/// Code and subcode, and who said it.
fn in_figures(reason: &DownReason) -> (String, String, &'static str) {
    let bounded = |number: u8, most: u8| match number {
        number if number <= most => number.to_string(),
        _ => "other".to_owned(),
    };
    let (code, subcode) = reason.code().unwrap_or_default();
    let side = match reason {
        DownReason::Sent(..) => "sent",
        DownReason::Received(..) => "received",
        DownReason::Closed(_) | DownReason::Refused(_) => "tcp",
        DownReason::Local(_) => "local",
    };
    (bounded(code, MOST_CODE), bounded(subcode, MOST_SUBCODE), side)
}

#[cfg(test)]
mod tests {
    use flock_bgp::Refusal;

    use super::*;

    fn peer(number: usize) -> Peer {
        let received = u64::try_from(number).unwrap();
        let routes = Routes { received, ..Routes::default() };
        let mut peer = Peer::untold(&format!("peer-{number:05}"));
        peer.states = STATES.map(|state| u64::from(state == State::Established));
        peer.flaps = 1;
        peer.families = [Some(routes), None];
        peer
    }

    #[test]
    fn peers_without_number_are_summed_up() {
        let few = bounded((0..MOST_PEERS).rev().map(peer).collect());
        assert_eq!((few.len(), few[0].name.as_str()), (MOST_PEERS, "peer-00000"), "by name");
        assert!(few.iter().all(|peer| peer.name != OVERFLOW && peer.up() == 1));
        let many = bounded((0..MOST_PEERS + 3).map(peer).collect());
        let rest = many.last().unwrap();
        assert_eq!((many.len(), rest.name.as_str()), (MOST_PEERS + 1, OVERFLOW));
        assert_eq!((rest.up(), rest.flaps, rest.states), (3, 3, [0, 0, 0, 0, 0, 3]));
        let [Some(routes), None] = rest.families else { panic!("{rest:?}") };
        assert_eq!(routes.received, 512 + 513 + 514);
        let strange = ["x".repeat(LONGEST_NAME + 1), OVERFLOW.to_owned(), "tor-a".to_owned()];
        let shown = bounded(strange.iter().map(|name| Peer::untold(name)).collect());
        let shown: Vec<_> = shown.iter().map(|peer| (&*peer.name, peer.states[0])).collect();
        assert_eq!(shown, [("tor-a", 1), (OVERFLOW, 2)]);
    }

    #[test]
    fn an_error_is_two_numbers_and_a_side() {
        let refusal = Refusal { what: "No route to host".into() };
        for (reason, wanted) in [
            (DownReason::Sent(6, 1, Default::default()), ("6", "1", "sent")),
            (DownReason::Received(6, 9, Default::default()), ("6", "9", "received")),
            (DownReason::Received(200, 77, Default::default()), ("other", "other", "received")),
            (DownReason::Closed(None), ("0", "0", "tcp")),
            (DownReason::Refused(refusal), ("0", "0", "tcp")),
            (DownReason::Local("withheld".into()), ("0", "0", "local")),
        ] {
            let (code, subcode, side) = in_figures(&reason);
            assert_eq!((code.as_str(), subcode.as_str(), side), wanted, "{reason}");
        }
    }

    #[test]
    fn one_that_cannot_be_told_is_idle() {
        let peer = Peer::untold("tor-a");
        assert_eq!((peer.states, peer.up()), ([1, 0, 0, 0, 0, 0], 0));
        assert_eq!(peer.routes().count(), 0);
    }
}
