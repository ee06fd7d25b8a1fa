//! Walks through the tables of speakers that run, while they change.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use flock_bgp::{
    AddressRule, Import, Origination, PeerAsn, PeerConfig, SpeakerConfig, State, Wishes,
};
use flock_bgp_io::{Listen, Running};
use tokio::time::timeout;

use super::*;

const LONG: Duration = Duration::from_secs(60);
/// Many of each, so that they interleave with what happens.
const SMALL: Steps = Steps { chosen: 64, places: 100, piece: 10 };

fn v4(number: u32) -> IpNet {
    IpNet::new(Ipv4Addr::from(0x0A00_0000 + (number << 8)).into(), 24).unwrap()
}

fn v6(number: u32) -> IpNet {
    IpNet::new(Ipv6Addr::from((0x2001_0db8_u128 << 96) + (u128::from(number) << 64)).into(), 64)
        .unwrap()
}

fn start(number: u8) -> Running {
    let id = Ipv4Addr::new(10, 0, 0, number);
    let config = SpeakerConfig::new(65_000 + u32::from(number), id, u64::from(number));
    let address = SocketAddr::new(Ipv4Addr::new(127, 0, 0, number).into(), 0);
    let listen = Listen { addresses: vec![address], ..Listen::default() };
    flock_bgp_io::start(config, &listen).unwrap()
}

async fn originate(handle: &Handle, nets: impl Iterator<Item = IpNet>, there: bool) {
    let wish = there.then(Origination::default);
    let wishes = nets.map(|net| (net, wish.clone())).collect();
    handle.originate(Wishes::Some(wishes)).await.unwrap();
}

async fn walk(handle: &Handle, args: &RoutesArgs, steps: Steps) -> Walk {
    let names = handle.query(|s| s.peers().map(|peer| (peer.key, peer.name)).collect::<Names>());
    let mut walk = Walk::new(handle.clone(), Arc::new(names.await.unwrap()), args);
    walk.steps.chosen = walk.steps.chosen.min(steps.chosen);
    (walk.steps.places, walk.steps.piece) = (steps.places, steps.piece);
    walk
}

/// The prefixes of all rows.
async fn all(handle: &Handle, args: &RoutesArgs) -> Vec<IpNet> {
    let mut walk = walk(handle, args, SMALL).await;
    let mut nets = Vec::new();
    while let Some(rows) = walk.piece().await.unwrap() {
        let found = rows.into_iter().filter(|row| walk.is_found(row));
        nets.extend(found.map(|(net, _)| net));
    }
    nets
}

fn asked(text: &str) -> RoutesArgs {
    serde_json::from_str(text).unwrap()
}

#[tokio::test]
async fn whatever_comes_and_goes_what_stays_is_told_once_and_in_order() {
    let Running { handle, .. } = start(1);
    let stays = |number: &u32| number.is_multiple_of(2);
    originate(&handle, (0..2_000).rev().map(v4).chain((0..1_000).map(v6)), true).await;
    let mut walk = walk(&handle, &RoutesArgs::default(), SMALL).await;
    let (mut told, mut round) = (Vec::new(), 0);
    while let Some(rows) = walk.piece().await.unwrap() {
        assert!(rows.len() <= SMALL.piece && walk.chosen.len() <= SMALL.chosen);
        assert!(walk.chosen.capacity() <= 2 * SMALL.chosen, "{}", walk.chosen.capacity());
        told.extend(rows.into_iter().map(|(net, _)| net));
        // All others go, come back elsewhere in the table, and new ones come in their places.
        let others = || (0..2_000).filter(|number| !stays(number));
        originate(&handle, others().map(v4).chain(others().map(v6)), round % 2 == 1).await;
        originate(&handle, (3_000..3_500).map(v4), round % 3 == 0).await;
        round += 1;
    }
    assert!(round > 100, "{round}");
    assert!(told.is_sorted(), "in order");
    let set: BTreeSet<IpNet> = told.iter().copied().collect();
    assert_eq!(set.len(), told.len(), "each once");
    for number in (0..2_000).filter(stays) {
        assert!(set.contains(&v4(number)), "{}", v4(number));
        assert!(number >= 1_000 || set.contains(&v6(number)), "{}", v6(number));
    }
}

#[tokio::test]
async fn a_reader_chooses_where_to_begin_how_many_and_what() {
    let Running { handle, .. } = start(2);
    originate(&handle, (0..300).map(v4).chain((0..300).map(v6)), true).await;
    let wide = ["0.0.0.0/0", "10.0.0.0/8", "10.0.7.0/28", "10.0.7.128/25"];
    originate(&handle, wide.into_iter().map(|net| net.parse().unwrap()), true).await;
    let texts = |nets: Vec<IpNet>| nets.iter().map(ToString::to_string).collect::<Vec<_>>();
    let table = [
        (r#"{"prefix":"10.0.7.0/24"}"#, vec!["10.0.7.0/24"]),
        (r#"{"prefix":"10.9.9.0/24"}"#, vec![]),
        (r#"{"prefix":"10.0.7.1"}"#, vec!["0.0.0.0/0", "10.0.0.0/8", "10.0.7.0/24", "10.0.7.0/28"]),
        (r#"{"prefix":"10.0.7.1","after":"10.0.7.0/24"}"#, vec!["10.0.7.0/28"]),
        (
            r#"{"prefix":"10.0.7.0/24","within":true}"#,
            vec!["10.0.7.0/24", "10.0.7.0/28", "10.0.7.128/25"],
        ),
        (r#"{"prefix":"10.0.7.0/24","within":true,"after":"10.0.7.0/28"}"#, vec!["10.0.7.128/25"]),
        (r#"{"after":"2001:db8:0:12a::/64"}"#, vec!["2001:db8:0:12b::/64"]),
        (r#"{"which":"received"}"#, vec![]),
        (r#"{"peer":"nobody"}"#, vec![]),
    ];
    for (args, wanted) in table {
        assert_eq!(texts(all(&handle, &asked(args)).await), wanted, "{args}");
    }
    assert_eq!(all(&handle, &asked("{}")).await.len(), 604);
    assert_eq!(all(&handle, &asked(r#"{"which":"originated","after":"::/0"}"#)).await.len(), 300);
    // Few are wanted: few are chosen, and one more than that.
    let mut few = walk(&handle, &asked(r#"{"limit":3}"#), STEPS).await;
    assert_eq!(few.piece().await.unwrap().unwrap().len(), 4);
}

#[tokio::test]
async fn what_peers_tell_and_were_told_is_walked_alike() {
    let (ours, theirs) = (start(3), start(4));
    let peer = |of: &Running, name: &str, asn, from: u8| {
        let address = of.handle.listening()[0];
        let mut peer = PeerConfig::new(name, address.ip(), PeerAsn::Number(asn));
        peer.port = address.port();
        peer.local_address = Some(Ipv4Addr::new(127, 0, 0, from).into());
        // A loopback address is no way to anywhere.
        peer.next_hops.ipv4 = Some(Ipv4Addr::new(192, 0, 2, from));
        peer.import = Some(Import {
            accept: vec![AddressRule { net: "0.0.0.0/0".parse().unwrap(), min: 0, max: 32 }],
            max_prefixes: 10_000,
        });
        peer
    };
    originate(&ours.handle, (0..1_000).map(v4), true).await;
    originate(&theirs.handle, (500..700).rev().map(v4), true).await;
    ours.handle.peers(vec![peer(&theirs, "them", 65_004, 3)]).await.unwrap();
    theirs.handle.peers(vec![peer(&ours, "us", 65_003, 4)]).await.unwrap();
    let settled = |handle: Handle, advertised: u32, received: u32| async move {
        loop {
            let peer = handle.query(|s| s.peers().next()).await.unwrap().unwrap();
            let counts = peer.families.iter().find(|f| f.family == Family::Ipv4).unwrap();
            if peer.state == State::Established
                && (counts.advertised, counts.received) == (advertised, received)
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LONG, settled(ours.handle.clone(), 1_000, 200)).await.unwrap();
    timeout(LONG, settled(theirs.handle.clone(), 200, 1_000)).await.unwrap();

    let (ours, theirs) = (&ours.handle, &theirs.handle);
    let ask = async |handle: &Handle, args: &str| all(handle, &asked(args)).await;
    let thousand: Vec<IpNet> = (0..1_000).map(v4).collect();
    assert_eq!(ask(ours, r#"{"which":"advertised"}"#).await, thousand);
    assert_eq!(ask(ours, r#"{"which":"advertised","peer":"them"}"#).await, thousand);
    assert_eq!(ask(ours, r#"{"which":"advertised","peer":"us"}"#).await, []);
    assert_eq!(ask(theirs, r#"{"which":"received","peer":"us"}"#).await, thousand);
    let contested: Vec<IpNet> = (500..700).map(v4).collect();
    assert_eq!(ask(theirs, r#"{"which":"originated"}"#).await, contested);
    assert_eq!(ask(ours, r#"{"which":"received"}"#).await, contested);
    assert_eq!(ask(ours, "{}").await.len(), 1_200, "a row per path");
    let one = r#"{"which":"advertised","prefix":"10.0.7.0/24"}"#;
    assert_eq!(ask(ours, one).await, [v4(7)]);
    let learned = ours.query(|speaker| speaker.learned(Family::Ipv4)).await.unwrap();
    assert_eq!(learned, 200);

    // What is looked for may be in the prefix or in the name.
    assert_eq!(ask(theirs, r#"{"which":"received","find":"US"}"#).await, thousand);
    assert_eq!(ask(theirs, r#"{"find":".3.7."}"#).await, [v4(0x0307)]);
    assert_eq!(ask(theirs, r#"{"find":"nowhere"}"#).await, []);
    assert_eq!(ask(theirs, r#"{"find":"0.3.0/"}"#).await, [v4(3)]);
    assert_eq!(ask(ours, r#"{"which":"advertised","find":"0.3.0/"}"#).await, [v4(3)]);
}
