//! Random acts, and after them the same question to the table and to a model of a few lines: what
//! does each peer know, what does the kernel know, what is counted? The model decides from scratch
//! each time, so this is also the proof that deciding step by step comes to the same.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::policy::export::From;

const PEERS: u16 = 4;
const NETS: u32 = 12;

#[derive(Debug, Clone)]
enum Act {
    Learn { peer: u16, net: u32, path_id: u32, tag: u32 },
    Refuse { peer: u16, net: u32, path_id: u32 },
    Unlearn { peer: u16, net: u32, path_id: u32 },
    Originate { net: u32, community: Option<u32> },
    OriginateAll { nets: Vec<u32> },
    MarkStale { peer: u16 },
    SweepStale { peer: u16 },
    Forget { peer: u16 },
    Rejudge { peer: u16, odd: bool },
    Identify { peer: u16, id: u8 },
    Open { peer: u16 },
    Close { peer: u16 },
    Retell { peer: u16, drain: bool, transit: bool },
    Transmit { peer: u16, room: usize },
    PollRoutes { most: usize },
}

fn any_act() -> impl Strategy<Value = Act> {
    let (peer, net, path_id) = (1..=PEERS, 0..NETS, 0..2_u32);
    let path = (peer.clone(), net.clone(), path_id);
    prop_oneof![
        12 => (path.clone(), 0..6_u32)
            .prop_map(|((peer, net, path_id), tag)| Act::Learn { peer, net, path_id, tag }),
        2 => path.clone().prop_map(|(peer, net, path_id)| Act::Refuse { peer, net, path_id }),
        8 => path.prop_map(|(peer, net, path_id)| Act::Unlearn { peer, net, path_id }),
        4 => (net.clone(), prop::option::of(0..2_u32))
            .prop_map(|(net, community)| Act::Originate { net, community }),
        1 => prop::collection::vec(net, 0..8).prop_map(|nets| Act::OriginateAll { nets }),
        1 => peer.clone().prop_map(|peer| Act::MarkStale { peer }),
        1 => peer.clone().prop_map(|peer| Act::SweepStale { peer }),
        1 => peer.clone().prop_map(|peer| Act::Forget { peer }),
        1 => (peer.clone(), any::<bool>()).prop_map(|(peer, odd)| Act::Rejudge { peer, odd }),
        1 => (peer.clone(), 0..9_u8).prop_map(|(peer, id)| Act::Identify { peer, id }),
        2 => peer.clone().prop_map(|peer| Act::Open { peer }),
        1 => peer.clone().prop_map(|peer| Act::Close { peer }),
        1 => (peer.clone(), any::<bool>(), prop::bool::weighted(0.8))
            .prop_map(|(peer, drain, transit)| Act::Retell { peer, drain, transit }),
        6 => (peer, 1..200_usize).prop_map(|(peer, room)| Act::Transmit { peer, room }),
        2 => (1..4_usize).prop_map(|most| Act::PollRoutes { most }),
    ]
}

/// Attributes that tie and differ in all that the decision looks at, and that may not all be told.
fn tagged(peer: u16, tag: u32) -> Attributes {
    let mut attributes = said(peer, 0);
    match tag {
        0 => {}
        1 => attributes.as_path.prepend(65_100 + u32::from(peer), 1),
        2 => attributes.med = Some(5),
        3 => attributes.communities = vec![flock_bgp_wire::Community::NO_EXPORT],
        // The same neighbour AS and the same next hop as everyone's.
        4 => attributes = said(9, 0),
        _ => {
            attributes = said(9, 0);
            attributes.med = Some(7);
        }
    }
    attributes
}

/// What a path of a prefix is in the model: `Err` is refused.
type Told = (Result<Attributes, ()>, bool);

#[derive(Default)]
struct Model {
    paths: BTreeMap<(u32, u16, u32), Told>,
    originated: BTreeMap<u32, Origination>,
    sources: BTreeMap<u16, Source>,
    outlets: BTreeMap<u16, (Exporter, Ear)>,
    kernel: BTreeMap<IpNet, Vec<NextHop>>,
}

impl Model {
    /// The best path of a prefix, its attributes, and the next hops of it and its equals, by the
    /// definition of RFC 4271 §9.1.2.2.
    fn best(&self, net: u32) -> Option<(From, Attributes, Vec<NextHop>)> {
        if let Some(wish) = self.originated.get(&net) {
            return Some((From::Ourselves, attributes(wish), Vec::new()));
        }
        let mut left: Vec<_> = self
            .paths
            .range((net, 0, 0)..=(net, u16::MAX, u32::MAX))
            .filter_map(|(&(_, peer, path_id), (route, _))| {
                Some((self.sources[&peer], peer, path_id, route.as_ref().ok()?))
            })
            .collect();
        let shortest = left.iter().map(|path| path.3.as_path.hops()).min()?;
        left.retain(|path| path.3.as_path.hops() == shortest);
        let all = left.clone();
        left.retain(|path| {
            let rival = |other: &Attributes| {
                other.as_path.first() == path.3.as_path.first()
                    && other.med.unwrap_or(0) < path.3.med.unwrap_or(0)
            };
            !all.iter().any(|other| rival(other.3))
        });
        if left.iter().any(|path| !path.0.internal) {
            left.retain(|path| !path.0.internal);
        }
        let mut hops: Vec<NextHop> = left.iter().map(|path| path.3.next_hop).collect();
        hops.sort_unstable();
        hops.dedup();
        let best = left.into_iter().min_by_key(|path| (path.0.id, path.0.address, path.2))?;
        let from = From::Peer { key: key(best.1), internal: best.0.internal };
        Some((from, best.3.clone(), hops))
    }

    /// What a peer should know.
    fn export(&self, exporter: &Exporter) -> BTreeMap<IpNet, Attributes> {
        (0..NETS)
            .filter_map(|net| {
                let (from, attributes, _) = self.best(net)?;
                Some((nth(net).into(), exporter.attributes(Family::Ipv4, &attributes, from).ok()?))
            })
            .collect()
    }

    fn heard(&mut self, change: RouteChange) {
        let told = change.next_hops;
        let before = self.kernel.get(&change.net);
        assert_ne!(before, Some(&told), "the kernel knew that");
        if told.is_empty() {
            assert!(self.kernel.remove(&change.net).is_some(), "the kernel had no such route");
        } else {
            self.kernel.insert(change.net, told);
        }
    }

    fn act(&mut self, rib: &mut Rib, act: &Act) {
        match *act {
            Act::Learn { peer, net, path_id, tag } => {
                let attributes = tagged(peer, tag);
                let id = rib.intern(attributes.clone());
                rib.learn(key(peer), nth(net), path_id, id);
                rib.release(id);
                self.paths.insert((net, peer, path_id), (Ok(attributes), false));
            }
            Act::Refuse { peer, net, path_id } => {
                rib.refuse(key(peer), nth(net), path_id, Withheld::AsLoop, 100);
                self.paths.insert((net, peer, path_id), (Err(()), false));
            }
            Act::Unlearn { peer, net, path_id } => {
                rib.unlearn(key(peer), nth(net), path_id);
                self.paths.remove(&(net, peer, path_id));
            }
            Act::Originate { net, community } => {
                let wished = community.map(wish);
                rib.originate(nth(net).into(), wished.as_ref());
                match wished {
                    Some(wish) => self.originated.insert(net, wish),
                    None => self.originated.remove(&net),
                };
            }
            Act::OriginateAll { ref nets } => {
                let all: Vec<_> = nets.iter().map(|&net| (net, wish(net % 2))).collect();
                let wishes: Vec<_> =
                    all.iter().map(|(net, wish)| (nth(*net).into(), wish.clone())).collect();
                rib.originate_all(&wishes);
                self.originated = all.into_iter().collect();
            }
            Act::MarkStale { peer } => {
                rib.mark_stale(key(peer), Family::Ipv4);
                for ((_, teller, _), path) in &mut self.paths {
                    path.1 |= *teller == peer;
                }
            }
            Act::SweepStale { peer } => {
                rib.sweep_stale(key(peer), Family::Ipv4);
                self.paths.retain(|(_, teller, _), path| *teller != peer || !path.1);
            }
            Act::Forget { peer } => {
                rib.forget(key(peer), Family::Ipv4);
                self.paths.retain(|(_, teller, _), _| *teller != peer);
            }
            Act::Rejudge { peer, odd } => {
                let refused = |net: u32| (net % 2 == 1) == odd;
                rib.rejudge(key(peer), Family::Ipv4, &mut |net, _| {
                    let at = (0..NETS).find(|&at| IpNet::from(nth(at)) == net).unwrap();
                    if refused(at) { Err(Withheld::Martian) } else { Ok(()) }
                });
                for ((net, teller, _), path) in &mut self.paths {
                    if *teller == peer && refused(*net) {
                        path.0 = Err(());
                    }
                }
            }
            Act::Identify { peer, id } => {
                let source = Source { id: Ipv4Addr::new(9, 9, 9, id), ..source(peer, peer == 4) };
                rib.source(key(peer), source);
                self.sources.insert(peer, source);
            }
            Act::Open { peer } => {
                rib.open_outlet(key(peer), Family::Ipv4, exporter(peer));
                self.outlets.insert(peer, (exporter(peer), Ear::default()));
            }
            Act::Close { peer } => {
                rib.close_outlet(key(peer), Family::Ipv4);
                self.outlets.remove(&peer);
            }
            Act::Retell { peer, drain, transit } => {
                if let Some((exporter, _)) = self.outlets.get_mut(&peer) {
                    exporter.drain = drain;
                    exporter.transit = transit;
                    rib.retell(key(peer), Family::Ipv4, exporter.clone());
                }
            }
            Act::Transmit { peer, room } => {
                if let Some((_, ear)) = self.outlets.get_mut(&peer) {
                    let mut out = BytesMut::new();
                    rib.transmit(key(peer), Family::Ipv4, FORM, room, &mut out);
                    ear.read(&out, FORM);
                }
            }
            Act::PollRoutes { most } => {
                for _ in 0..most {
                    if let Some(change) = rib.poll_route() {
                        self.heard(change);
                    }
                }
            }
        }
    }

    /// Who tells what, without what is said of it.
    fn check_walks(&self, rib: &Rib) {
        let mut known: BTreeMap<IpNet, (bool, Vec<u16>)> = BTreeMap::new();
        for net in self.originated.keys() {
            known.entry(nth(*net).into()).or_default().0 = true;
        }
        for (net, teller, _) in self.paths.keys() {
            known.entry(nth(*net).into()).or_default().1.push(*teller);
        }
        let spots = rib.spots(Family::Ipv4, 0..rib.places(Family::Ipv4));
        let spots = spots.map(|spot| {
            let mut tellers: Vec<u16> = spot.tellers().map(|peer| peer.0).collect();
            tellers.sort_unstable();
            (spot.net, (spot.is_originated(), tellers))
        });
        assert_eq!(spots.collect::<BTreeMap<_, _>>(), known);
        let used = self.paths.iter().filter(|(_, path)| path.0.is_ok()).map(|((net, ..), _)| *net);
        let used: std::collections::BTreeSet<u32> = used.collect();
        assert_eq!(usize::try_from(rib.learned(Family::Ipv4)).unwrap(), used.len());
    }

    fn check(&mut self, rib: &mut Rib) {
        for peer in 1..=PEERS {
            let of = |used: bool| {
                let count = self
                    .paths
                    .iter()
                    .filter(|((_, teller, _), path)| *teller == peer && (path.0.is_ok() || !used));
                u32::try_from(count.count()).unwrap()
            };
            let counts = rib.counts(key(peer), Family::Ipv4);
            assert_eq!((counts.received, counts.accepted), (of(false), of(true)));
        }
        self.check_walks(rib);
        let peers: Vec<u16> = self.outlets.keys().copied().collect();
        for peer in peers {
            let wanted = self.export(&self.outlets[&peer].0);
            let ear = &mut self.outlets.get_mut(&peer).unwrap().1;
            ear.hear(rib, peer);
            assert_eq!(ear.routes, wanted, "what peer {peer} knows");
            let advertised = rib.counts(key(peer), Family::Ipv4).advertised;
            assert_eq!(usize::try_from(advertised).unwrap(), wanted.len());
            let told: BTreeMap<_, _> = rib
                .told(key(peer), Family::Ipv4)
                .map(|view| (view.net, view.attributes.unwrap()))
                .collect();
            assert_eq!(told, wanted, "what peer {peer} was told");
            let one_by_one = (0..NETS).filter_map(|net| rib.told_of(key(peer), nth(net).into()));
            let one_by_one: BTreeMap<_, _> =
                one_by_one.map(|view| (view.net, view.attributes.unwrap())).collect();
            assert_eq!(one_by_one, wanted, "asked one by one");
            let mut spots: Vec<_> =
                rib.told_spots(key(peer), Family::Ipv4, None).map(|(_, net)| net).collect();
            spots.sort_unstable();
            assert!(spots.iter().eq(wanted.keys()), "{spots:?}");
        }
        while let Some(change) = rib.poll_route() {
            self.heard(change);
        }
        let wanted: BTreeMap<IpNet, _> = (0..NETS)
            .filter_map(|net| Some((nth(net).into(), self.best(net)?.2)))
            .filter(|(_, hops)| !hops.is_empty())
            .collect();
        assert_eq!(self.kernel, wanted, "what the kernel knows");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn everyone_knows_what_they_should(
        rounds in prop::collection::vec(prop::collection::vec(any_act(), 1..60), 1..5)
    ) {
        let (mut rib, mut model) = (Rib::new(3, true), Model::default());
        for peer in 1..=PEERS {
            model.act(&mut rib, &Act::Identify { peer, id: 1 });
        }
        for acts in rounds {
            for act in &acts {
                model.act(&mut rib, act);
            }
            model.check(&mut rib);
        }
        // Everything goes, and nothing is left.
        for peer in 1..=PEERS {
            model.act(&mut rib, &Act::Forget { peer });
        }
        model.act(&mut rib, &Act::OriginateAll { nets: Vec::new() });
        model.check(&mut rib);
        assert_empty(&rib);
    }
}
