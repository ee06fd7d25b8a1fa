//! What two nodes claim: found in what peers tell, accepted or refused, beside what this node
//! originates. Reported, never acted upon: both nodes serve what they have, and the operator has to
//! choose. An anycast address on several nodes is none.
//!
//! - the same address or network is announced elsewhere: two pods with one address, two NodeConfigs
//!   with one network;
//! - a part of our network is announced elsewhere: two NodeConfigs that overlap;
//! - an anycast address of ours is within a network as large as a node's that is announced
//!   elsewhere: packets for it may go there wherever our announcement is not heard.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use flock_bgp::{Family, FamilyStatus, PathView, PeerKey, Speaker, Withheld};
use flock_bgp_io::Handle;
use ipnet::IpNet;
use tokio::time::Instant;

use crate::reconcile::{Picture, Reconciler};

/// Routes looked at in one question, so that the speaker is not kept from its work.
const AT_ONCE: usize = 2_000;
/// No more than these are told.
const MOST: usize = 100;

/// What this node claims, so that one look at a peer's prefix costs the same however much it is.
#[derive(Debug, Default)]
pub(super) struct Ours {
    /// Its networks, and their lengths.
    summaries: BTreeSet<IpNet>,
    lengths: BTreeSet<(bool, u8)>,
    /// Addresses that are its own alone.
    own: BTreeSet<IpNet>,
    /// Addresses that are shared by design.
    anycast: BTreeSet<IpAddr>,
}

impl Ours {
    fn new(
        summaries: impl Iterator<Item = IpNet>,
        hosts: impl Iterator<Item = (IpNet, bool)>,
    ) -> Self {
        let mut ours = Self { summaries: summaries.collect(), ..Self::default() };
        ours.lengths =
            ours.summaries.iter().map(|n| (n.addr().is_ipv6(), n.prefix_len())).collect();
        for (prefix, shared) in hosts {
            if shared {
                ours.anycast.insert(prefix.addr());
            } else {
                ours.own.insert(prefix);
            }
        }
        ours
    }

    fn of(picture: &Picture<'_>) -> Self {
        let summaries = &picture.rules.summaries;
        let hosts = picture.originated.keys().filter(|prefix| !summaries.contains(prefix));
        let hosts = hosts.map(|prefix| (*prefix, picture.claims.is_anycast(prefix)));
        Self::new(summaries.iter().copied(), hosts)
    }

    /// The lengths of its networks of a family, the largest network first.
    fn lengths(&self, six: bool) -> impl Iterator<Item = u8> + '_ {
        self.lengths.range((six, 0)..=(six, u8::MAX)).map(|(_, length)| *length)
    }
}

/// Something that two nodes claim.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conflict {
    /// What is ours.
    pub ours: IpNet,
    /// What a peer tells of.
    pub theirs: IpNet,
    /// What is wrong about it.
    pub kind: Kind,
}

/// What two claims are to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// One address on two nodes.
    SameAddress,
    /// One network, or part of it, on two nodes.
    Overlap,
    /// Our anycast address is inside another node's network.
    AnycastInside,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ours, theirs, kind } = self;
        match kind {
            Kind::SameAddress => write!(f, "{ours} is announced elsewhere, too"),
            Kind::Overlap if ours == theirs => {
                write!(f, "the network {ours} is announced elsewhere, too")
            }
            Kind::Overlap => {
                write!(f, "{theirs} is announced elsewhere, and is part of this node's {ours}")
            }
            Kind::AnycastInside => write!(
                f,
                "the anycast address {} is inside {theirs}, which is announced elsewhere",
                ours.addr()
            ),
        }
    }
}

impl Conflict {
    /// What an operator is to do.
    pub fn remedy(&self) -> &'static str {
        match self.kind {
            Kind::SameAddress => "give one of the two pods another address",
            Kind::Overlap => "give the nodes networks that do not overlap (spec.cidr6, spec.cidr4)",
            Kind::AnycastInside => "choose an anycast address outside the nodes' networks",
        }
    }
}

/// What of a peer's prefix is in conflict with ours; of many anycast addresses inside it, the first.
pub(super) fn judge(ours: &Ours, theirs: IpNet) -> Vec<Conflict> {
    let six = theirs.addr().is_ipv6();
    let conflict = |ours, kind| Conflict { ours, theirs, kind };
    let around = ours.lengths(six).filter(|length| *length <= theirs.prefix_len());
    let around = around.filter_map(|length| IpNet::new(theirs.addr(), length).ok());
    let around = around.map(|net| net.trunc()).filter(|net| ours.summaries.contains(net));
    let mut found: Vec<Conflict> = around.map(|net| conflict(net, Kind::Overlap)).collect();
    if ours.own.contains(&theirs) {
        found.push(conflict(theirs, Kind::SameAddress));
    }
    let is_host = theirs.prefix_len() == theirs.max_prefix_len();
    // No network of a node is larger than that, as far as this node can tell: its own.
    let like_a_node = ours.lengths(six).next().is_some_and(|most| theirs.prefix_len() >= most);
    if !is_host && like_a_node {
        let inside = ours.anycast.range(theirs.network()..=theirs.broadcast()).next();
        found.extend(inside.map(|address| conflict((*address).into(), Kind::AnycastInside)));
    }
    found
}

/// A prefix that peers tell of.
#[derive(Debug, Clone)]
struct Told {
    net: IpNet,
    /// We originate it, too.
    ours: bool,
    by: Vec<Teller>,
}

#[derive(Debug, Clone, Copy)]
struct Teller {
    peer: PeerKey,
    /// Our AS number is in the path: it may be our own announcement come back.
    looped: bool,
}

/// Peers that send back whatever they are told, as some routers do: everything that they were told
/// is among what they tell. Where nodes share an AS number, what such a peer says of our own
/// prefixes cannot be told from an echo, and is no evidence.
fn echoers(told: &[Told], advertised: &BTreeMap<PeerKey, usize>) -> BTreeSet<PeerKey> {
    let mut returned: BTreeMap<PeerKey, usize> = BTreeMap::new();
    for told in told.iter().filter(|told| told.ours) {
        for teller in &told.by {
            *returned.entry(teller.peer).or_default() += 1;
        }
    }
    let all = |(peer, count): &(PeerKey, usize)| {
        *count > 0 && advertised.get(peer).is_some_and(|advertised| advertised <= count)
    };
    returned.into_iter().filter(all).map(|(peer, _)| peer).collect()
}

fn sift(ours: &Ours, told: &[Told], advertised: &BTreeMap<PeerKey, usize>) -> BTreeSet<Conflict> {
    let echoers = echoers(told, advertised);
    let proven = |teller: &Teller| !teller.looped || !echoers.contains(&teller.peer);
    let evidence = told.iter().filter(|told| told.by.iter().any(proven));
    evidence.flat_map(|told| judge(ours, told.net)).take(MOST).collect()
}

/// Looks through everything that peers told.
pub(super) async fn find(handle: &Handle, reconciler: &Reconciler) -> BTreeSet<Conflict> {
    looked_through(handle, reconciler).await.unwrap_or_default()
}

async fn looked_through(handle: &Handle, reconciler: &Reconciler) -> Option<BTreeSet<Conflict>> {
    let ours = reconciler.ask(Ours::of).await?;
    let mut told = Vec::new();
    for family in Family::ALL {
        let mut after = None;
        loop {
            let (more, last) =
                handle.query(move |speaker| piece(speaker, family, after)).await.ok()?;
            told.extend(more.into_iter().filter(|t| t.ours || !judge(&ours, t.net).is_empty()));
            after = last;
            if last.is_none() {
                break;
            }
        }
    }
    let advertised = |speaker: &Speaker| {
        let count = |f: &FamilyStatus| usize::try_from(f.advertised).unwrap_or(usize::MAX);
        speaker.peers().map(|peer| (peer.key, peer.families.iter().map(count).sum())).collect()
    };
    let advertised = handle.query(advertised).await.ok()?;
    Some(sift(&ours, &told, &advertised))
}

fn piece(speaker: &Speaker, family: Family, after: Option<u32>) -> (Vec<Told>, Option<u32>) {
    let mut last = None;
    let mut found = Vec::new();
    for route in speaker.routes(family, after).take(AT_ONCE) {
        last = Some(route.position);
        let teller = |path: &PathView<'_>| {
            let looped = matches!(path.withheld, Some(Withheld::AsLoop | Withheld::OwnPodsLoop));
            path.peer.map(|peer| Teller { peer, looped })
        };
        let by: Vec<Teller> = route.paths.iter().filter_map(teller).collect();
        let ours = route.paths.iter().any(|path| path.peer.is_none());
        if !by.is_empty() {
            found.push(Told { net: route.net, ours, by });
        }
    }
    (found, last)
}

/// What lasts so long is no echo of our own announcement, as a router may send it while a session
/// begins.
const LASTING: Duration = Duration::from_secs(5);
/// Whether a conflict that was reported is over: nobody tells when a peer withdraws its part of it.
const OVER: Duration = Duration::from_secs(30);

/// What has been found, and what has been reported: once, and not before it lasts.
#[derive(Default)]
pub(super) struct Reports {
    /// Since when it is there; `None`: it has been reported.
    found: BTreeMap<Conflict, Option<Instant>>,
    /// When to look because something else changed.
    look_at: Option<Instant>,
    /// When it was last looked.
    looked: Option<Instant>,
}

impl Reports {
    /// When to look again, to see what lasts and what is over.
    pub(super) fn next_look(&self) -> Option<Instant> {
        let lasting = self.found.values().flatten().min().map(|since| *since + LASTING);
        let reported = self.found.values().any(Option::is_none);
        let over = self.looked.filter(|_| reported).map(|looked| looked + OVER);
        lasting.into_iter().chain(self.look_at).chain(over).min()
    }

    /// What was reported and, as far as was looked, is still so.
    pub(super) fn reported(&self) -> impl Iterator<Item = &Conflict> {
        self.found.iter().filter(|(_, since)| since.is_none()).map(|(conflict, _)| conflict)
    }

    /// This node claims more than it did. Nobody tells again what he told before, so that is looked
    /// through; not with every pod, because it costs as much as peers have told.
    pub(super) fn look_soon(&mut self, now: Instant) {
        self.look_at.get_or_insert(now + LASTING);
    }

    /// Looks, and tells what lasts.
    pub(super) async fn look(&mut self, handle: &Handle, reconciler: &Reconciler) {
        self.look_at = None;
        let found = find(handle, reconciler).await;
        for conflict in self.note(found, Instant::now()) {
            tracing::warn!(prefix = %conflict.ours, %conflict, remedy = conflict.remedy(), "two nodes claim the same");
        }
    }

    /// What is to be reported now.
    fn note(&mut self, found: BTreeSet<Conflict>, now: Instant) -> Vec<Conflict> {
        self.looked = Some(now);
        self.found.retain(|known, _| found.contains(known));
        let mut lasting = Vec::new();
        for conflict in found {
            let since = self.found.entry(conflict.clone()).or_insert(Some(now));
            if since.is_some_and(|since| now >= since + LASTING) {
                *since = None;
                lasting.push(conflict);
            }
        }
        lasting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    #[test]
    fn what_is_a_conflict() {
        let hosts = [
            ("198.51.100.7/32", false),
            ("192.0.2.1/32", true),
            ("192.0.2.2/32", true),
            ("2001:db8:cafe::1/128", true),
        ];
        let ours = Ours::new(
            ["10.244.1.0/24", "2001:db8:1::/64"].map(net).into_iter(),
            hosts.into_iter().map(|(host, shared)| (net(host), shared)),
        );
        for (theirs, expected) in [
            ("10.244.1.0/24", vec![Kind::Overlap]),
            ("10.244.1.128/25", vec![Kind::Overlap]),
            ("10.244.1.7/32", vec![Kind::Overlap]),
            ("10.244.0.0/16", vec![]), // the fabric's own summary of its nodes
            ("10.244.2.0/24", vec![]),
            ("198.51.100.7/32", vec![Kind::SameAddress]),
            ("198.51.100.0/24", vec![]),
            ("192.0.2.1/32", vec![]), // another node serves it, too
            ("192.0.2.0/24", vec![Kind::AnycastInside]),
            ("192.0.0.0/16", vec![]), // larger than any node's
            ("0.0.0.0/0", vec![]),
            ("2001:db8:cafe::/64", vec![Kind::AnycastInside]),
            ("2001:db8::/32", vec![]),
        ] {
            let kinds: Vec<Kind> = judge(&ours, net(theirs)).iter().map(|c| c.kind).collect();
            assert_eq!(kinds, expected, "{theirs}");
        }
    }

    #[test]
    fn what_a_router_sends_back_is_no_evidence() {
        let ours = Ours::new(["10.1.0.0/24", "10.2.0.0/24"].map(net).into_iter(), [].into_iter());
        let told = |prefix: &str, by: &[(u16, bool)]| Told {
            net: net(prefix),
            ours: true,
            by: by
                .iter()
                .map(|(p, looped)| Teller { peer: PeerKey(*p), looped: *looped })
                .collect(),
        };
        let advertised: BTreeMap<PeerKey, usize> = [(PeerKey(1), 2), (PeerKey(2), 2)].into();
        let count = |told: &[Told]| sift(&ours, told, &advertised).len();
        let echo = [told("10.1.0.0/24", &[(1, true)]), told("10.2.0.0/24", &[(1, true)])];
        assert_eq!(count(&echo), 0, "everything comes back");
        assert_eq!(count(&echo[..1]), 1, "only one of two comes back: another node's");
        let another = [told("10.1.0.0/24", &[(1, true), (2, true)]), echo[1].clone()];
        assert_eq!(count(&another), 1, "a peer that sends nothing else back");
        let other_as = [told("10.1.0.0/24", &[(1, false)]), echo[1].clone()];
        assert_eq!(count(&other_as), 1, "of another AS");
    }

    #[test]
    fn what_lasts_is_reported_once_and_an_echo_never() {
        let conflict = |text| Conflict { ours: net(text), theirs: net(text), kind: Kind::Overlap };
        let (echo, real) = (conflict("10.1.0.0/24"), conflict("10.2.0.0/24"));
        let both = BTreeSet::from([echo, real.clone()]);
        let only = BTreeSet::from([real.clone()]);
        let mut reports = Reports::default();
        let start = Instant::now();
        assert_eq!(reports.note(both, start), []);
        assert_eq!(reports.next_look(), Some(start + LASTING));
        assert_eq!(reports.note(only.clone(), start + LASTING / 2), []);
        assert_eq!(reports.note(only.clone(), start + LASTING).len(), 1);
        assert_eq!(
            (reports.note(only.clone(), start + 2 * LASTING), reports.next_look()),
            (vec![], Some(start + 2 * LASTING + OVER)),
            "whether it is over is looked at"
        );
        assert!(reports.reported().eq([&real]));
        reports.look_soon(start);
        reports.look_soon(start + LASTING / 2);
        assert_eq!(reports.next_look(), Some(start + LASTING), "however much is claimed meanwhile");
        reports.look_at = None;
        // It went and came back: that is news.
        assert_eq!(reports.note(BTreeSet::new(), start + 3 * LASTING), []);
        assert_eq!((reports.reported().count(), reports.next_look()), (0, None));
        assert_eq!(reports.note(only.clone(), start + 4 * LASTING), []);
        assert_eq!(reports.note(only, start + 5 * LASTING), [real]);
    }
}
