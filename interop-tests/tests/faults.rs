//! Cables that fail: each fault does what it says, to whom it says, and can be
//! undone.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on ends"
)]

use std::net::IpAddr;

use rack::facts;
use rack::link::{End, Link, Side, connect};
use rack::netns::Netns;
use rack::probe::await_ping;
use rack::storm::Storm;
use serde_json::Value;

const NEAR: [&str; 2] = ["2001:db8:1::1/64", "192.0.2.1/24"];
const FAR: [&str; 2] = ["2001:db8:1::2/64", "192.0.2.2/24"];

/// Two namespaces with a cable between them.
struct Pair {
    near: Netns,
    far: Netns,
    link: Link,
}

fn pair() -> Pair {
    let (near, far) = (Netns::new("near").unwrap(), Netns::new("far").unwrap());
    // As long as an interface's name can be, and with what nft's names cannot have.
    let one = End { netns: &near, ifname: "uplink-to.far-0", addresses: &NEAR };
    let other = End { netns: &far, ifname: "eth0", addresses: &FAR };
    connect(one, other).unwrap();
    let link = Link::between(one, other).unwrap();
    Pair { near, far, link }
}

impl Pair {
    fn addresses(&self, side: Side) -> [IpAddr; 2] {
        [true, false].map(|ipv6| self.link.plug(side).address(ipv6).unwrap())
    }

    fn storm(&self) -> Storm {
        let storm = Storm::start(&self.near, &self.addresses(Side::Far), 1000).unwrap();
        storm.await_answers(20).unwrap();
        storm
    }

    fn await_whole(&self) {
        for address in self.addresses(Side::Far) {
            await_ping(&self.near, address).unwrap();
        }
        for address in self.addresses(Side::Near) {
            await_ping(&self.far, address).unwrap();
        }
    }

    fn is_up(&self, side: Side) -> bool {
        let plug = self.link.plug(side);
        facts::interface(plug.netns(), plug.ifname()).unwrap().up
    }

    fn has_carrier(&self, side: Side) -> bool {
        let plug = self.link.plug(side);
        let shown = plug.netns().ip(&format!("-br link show dev {}", plug.ifname())).unwrap();
        shown.contains("LOWER_UP")
    }
}

#[test]
fn a_cut_takes_one_interface_and_the_others_carrier() {
    let pair = pair();
    for side in Side::BOTH {
        pair.link.cut(side).unwrap();
        assert!(!pair.is_up(side) && pair.is_up(side.other()));
        assert!(!pair.has_carrier(side.other()));
        ping_in_vain(&pair.near, pair.addresses(Side::Far)[0]);
        pair.link.mend().unwrap();
        assert!(pair.is_up(side) && pair.has_carrier(side) && pair.has_carrier(side.other()));
        pair.await_whole();
        pair.link.mend().unwrap();
    }
}

#[test]
fn an_unplugged_side_stays_up_and_keeps_its_addresses() {
    let pair = pair();
    let plug = pair.link.plug(Side::Near);
    let before = facts::global_addresses(plug.netns(), plug.ifname()).unwrap();
    assert_eq!(before.len(), 2);
    pair.link.unplug(Side::Near).unwrap();
    assert!(pair.is_up(Side::Near) && !pair.has_carrier(Side::Near));
    assert_eq!(facts::global_addresses(plug.netns(), plug.ifname()).unwrap(), before);
    ping_in_vain(&pair.near, pair.addresses(Side::Far)[0]);
    pair.link.mend().unwrap();
    pair.await_whole();
}

#[test]
fn silence_is_noticed_by_nobody_but_packets() {
    let pair = pair();
    let storms = Side::BOTH.map(|from| {
        let netns = pair.link.plug(from).netns();
        Storm::start(netns, &pair.addresses(from.other()), 1000).unwrap()
    });
    storms.iter().for_each(|storm| storm.await_answers(20).unwrap());
    pair.link.silence().unwrap();
    storms.iter().for_each(|storm| storm.await_sent(100).unwrap());
    for side in Side::BOTH {
        assert!(pair.is_up(side) && pair.has_carrier(side));
    }
    pair.link.pass().unwrap();
    storms.iter().for_each(|storm| storm.await_answers(20).unwrap());
    for storm in storms {
        let outcome = storm.stop().unwrap();
        for tally in &outcome.targets {
            assert!(tally.longest_loss >= 100 && tally.longest_loss == tally.lost, "{outcome}");
        }
    }
    pair.link.pass().unwrap();
}

/// One echo request, which is lost.
fn ping_in_vain(from: &Netns, to: IpAddr) {
    from.exec("ping", &["-n", "-c", "1", "-W", "0.3", &to.to_string()]).unwrap_err();
}

/// What arrives, as the interface counted it before any filter.
fn arrived(pair: &Pair, side: Side) -> u64 {
    let plug = pair.link.plug(side);
    let file = format!("/sys/class/net/{}/statistics/rx_packets", plug.ifname());
    plug.netns().exec("cat", &[&file]).unwrap().trim().parse().unwrap()
}

#[test]
fn one_way_is_one_way() {
    let pair = pair();
    pair.await_whole();
    for deaf in Side::BOTH {
        let heard = pair.link.plug(deaf.other());
        pair.link.one_way(deaf).unwrap();
        // What the deaf side sends is still counted by a rule at the other side ...
        let nft = |words: &[&str]| heard.netns().exec("nft", words).unwrap();
        nft(&["add", "table", "inet", "test"]);
        nft(&["add", "chain", "inet", "test", "test", "{ type filter hook input priority 0; }"]);
        let rule = "icmp type { echo-request, echo-reply } counter name hits";
        nft(&["add", "counter", "inet", "test", "hits"]);
        nft(&["add", "rule", "inet", "test", "test", rule]);
        let [_, four] = pair.addresses(deaf.other());
        ping_in_vain(pair.link.plug(deaf).netns(), four);
        assert!(nft(&["list", "counter", "inet", "test", "hits"]).contains("packets 1 "));
        // ... but nothing comes back, and nothing gets there.
        let before = arrived(&pair, deaf);
        ping_in_vain(heard.netns(), pair.addresses(deaf)[1]);
        assert!(arrived(&pair, deaf) > before, "it came, and was dropped");
        assert!(nft(&["list", "counter", "inet", "test", "hits"]).contains("packets 1 "));
        nft(&["delete", "table", "inet", "test"]);
    }
    pair.link.pass().unwrap();
    pair.await_whole();
}

#[test]
fn a_slow_link_delays_and_loses_nothing() {
    let pair = pair();
    let [_, four] = pair.addresses(Side::Far).map(|address| address.to_string());
    // More than leaves at once, and at 512 kbit/s a quarter of a second's worth.
    let burst = ["-q", "-n", "-l", "12", "-c", "12", "-s", "1400", "-W", "20", &four];
    let waited = |netns: &Netns| {
        let shown = netns.exec("tc", &["-s", "-j", "qdisc", "show"]).unwrap();
        let shown: Value = serde_json::from_str(&shown).unwrap();
        let qdiscs = shown.as_array().unwrap().iter();
        qdiscs
            .filter(|qdisc| qdisc["kind"] == "tbf")
            .map(|qdisc| qdisc["overlimits"].as_u64())
            .sum()
    };
    pair.near.exec("ping", &burst).unwrap();
    assert_eq!((waited(&pair.near), waited(&pair.far)), (Some(0), Some(0)));
    pair.link.slow(512_000).unwrap();
    pair.near.exec("ping", &burst).unwrap();
    let waits: [Option<u64>; 2] = [&pair.near, &pair.far].map(waited);
    assert!(waits[0] > Some(0), "nothing had to wait: {waits:?}");
    for _twice in 0..2 {
        pair.link.full_speed().unwrap();
    }
    assert_eq!((waited(&pair.near), waited(&pair.far)), (Some(0), Some(0)));
    pair.storm().stop().unwrap().ensure_perfect().unwrap();
}

#[test]
fn everything_at_once_is_undone_at_once() {
    let pair = pair();
    pair.link.slow(1_000_000).unwrap();
    pair.link.silence().unwrap();
    pair.link.one_way(Side::Far).unwrap();
    pair.link.cut(Side::Far).unwrap();
    pair.link.cut(Side::Near).unwrap();
    pair.link.restore().unwrap();
    pair.await_whole();
    for side in Side::BOTH {
        let netns = pair.link.plug(side).netns();
        assert_eq!(netns.exec("nft", &["list", "ruleset"]).unwrap(), "");
        assert!(!netns.exec("tc", &["qdisc", "show"]).unwrap().contains("tbf"));
    }
}
