//! The node's own networks and routes against what a peer tells: what is refused, which reason is
//! kept, who is asked again, and what people hear of it.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod world;

use flock_bgp::{
    AsPath, Attributes, Event, Import, NextHop, Notice, Origin, Origination, PeerConfig,
    PeerStatus, Wishes, Withheld,
};
use flock_bgp_wire::encode::{self, Form};
use flock_bgp_wire::{RefreshKind, frame};
use ipnet::Ipv4Net;
use world::script::{Said, Script, modern, written};
use world::wishes::{everything, networks, number, originate, withdraw};
use world::{peer, speaker};

const FORM: Form = Form { four_octet_as: true, max: frame::MAX };

fn nets(of: &[&str]) -> Vec<Ipv4Net> {
    of.iter().map(|net| net.parse().unwrap()).collect()
}

fn announce_by(path: &[u32], next_hop: [u8; 4], of: &[&str]) -> Vec<u8> {
    let mut attributes = Attributes::new(Origin::Igp, NextHop::V4(next_hop.into()));
    attributes.as_path = AsPath::sequence(path.iter().copied());
    let nets = nets(of);
    written(|out| assert_eq!(encode::announce(&attributes, &nets, FORM, out), nets.len()))
}

fn announce(of: &[&str]) -> Vec<u8> {
    announce_by(&[65_002], [10, 0, 0, 2], of)
}

/// With our AS number in its path.
fn looped(of: &[&str]) -> Vec<u8> {
    announce_by(&[65_002, 65_001], [10, 0, 0, 2], of)
}

/// By a next hop that is nowhere.
fn far(of: &[&str]) -> Vec<u8> {
    announce_by(&[65_002], [203, 0, 113, 1], of)
}

fn passive() -> PeerConfig {
    PeerConfig { passive: true, ..peer("b", "10.0.0.2") }
}

/// On 10.0.0.0/24, with pods on 10.244.1.0/24.
fn node() -> Event<'static> {
    networks(&["10.0.0.0/24"], &["10.244.1.0/24"])
}

/// Established, with nothing left to hear.
fn established(wish: PeerConfig) -> Script {
    let mut script = Script::new(speaker(1), wish);
    script.tell(node());
    script.establish(modern());
    script.notices.clear();
    script
}

fn why(script: &Script, net: &str) -> Option<Withheld> {
    let route = script.speaker.route(net.parse().unwrap())?;
    route.paths.iter().find(|path| path.peer.is_some())?.withheld
}

fn has(script: &Script, net: &str) -> bool {
    let route = script.speaker.route(net.parse().unwrap());
    route.is_some_and(|route| route.paths.iter().any(|path| path.best))
}

fn status(script: &Script) -> PeerStatus {
    script.speaker.peers().next().unwrap()
}

/// Prefix, reason and how many others, of each notice since the last time.
fn refusals(script: &mut Script) -> Vec<(String, Withheld, u64)> {
    let notices = std::mem::take(&mut script.notices);
    let told = notices.into_iter().filter_map(|notice| match notice {
        Notice::Refused { name, net, why, more, .. } if &*name == "b" => {
            Some((net.to_string(), why, more))
        }
        _ => None,
    });
    told.collect()
}

fn contests(script: &mut Script) -> Vec<(String, u64)> {
    let notices = std::mem::take(&mut script.notices);
    let told = notices.into_iter().filter_map(|notice| match notice {
        Notice::Contested { name, net, more, .. } if &*name == "b" => Some((net.to_string(), more)),
        _ => None,
    });
    told.collect()
}

fn refusal(net: &str, why: Withheld, more: u64) -> (String, Withheld, u64) {
    (net.to_owned(), why, more)
}

#[test]
fn a_part_of_our_pods_network_is_refused_and_told() {
    let mut script = established(passive());
    script.say(&announce(&["10.244.1.128/25", "10.244.0.0/16", "172.16.0.0/24"]));
    assert_eq!(why(&script, "10.244.1.128/25"), Some(Withheld::OwnPods));
    assert!(has(&script, "10.244.0.0/16") && has(&script, "172.16.0.0/24"));
    assert_eq!(refusals(&mut script), [refusal("10.244.1.128/25", Withheld::OwnPods, 0)]);
    assert_eq!(status(&script).refused, 1);
}

#[test]
fn our_pods_are_no_way_to_anywhere() {
    let mut script = established(passive());
    script.say(&announce_by(&[65_002], [10, 244, 1, 9], &["172.16.0.0/24"]));
    assert_eq!(why(&script, "172.16.0.0/24"), Some(Withheld::NextHop));
}

#[test]
fn an_overlap_shows_also_where_the_route_is_refused_anyway() {
    for import in [passive().import, None] {
        let mut script = established(PeerConfig { import: import.clone(), ..passive() });
        script.say(&looped(&["10.244.1.0/24", "10.0.0.128/25", "172.16.0.0/24"]));
        assert_eq!(why(&script, "10.244.1.0/24"), Some(Withheld::OwnPodsLoop));
        assert_eq!(why(&script, "10.0.0.128/25"), Some(Withheld::Connected));
        assert_eq!(why(&script, "172.16.0.0/24"), Some(Withheld::AsLoop));
        let told = refusals(&mut script);
        assert_eq!(told, [refusal("10.244.1.0/24", Withheld::OwnPodsLoop, 1)], "{import:?}");
    }
}

#[test]
fn what_happens_every_day_is_not_told() {
    let default =
        vec![everything()[0]].into_iter().map(|rule| flock_bgp::AddressRule { max: 0, ..rule });
    let import = Some(Import { accept: default.collect(), max_prefixes: 10 });
    let mut script = established(PeerConfig { import, ..passive() });
    script.say(&announce(&["0.0.0.0/0", "172.16.0.0/24"]));
    script.say(&looped(&["172.16.1.0/24"]));
    script.say(&far(&["172.16.2.0/24"])); // No rule asks for it.
    assert_eq!(why(&script, "172.16.2.0/24"), Some(Withheld::NextHop));
    assert_eq!((refusals(&mut script), status(&script).refused), (vec![], 0));
    script.say(&far(&["0.0.0.0/0"]));
    assert_eq!(refusals(&mut script), [refusal("0.0.0.0/0", Withheld::NextHop, 0)]);
}

#[test]
fn a_flood_of_refusals_is_told_once_a_second_and_to_the_last() {
    let mut script = established(passive());
    script.say(&far(&["172.16.0.0/24"]));
    assert_eq!(refusals(&mut script), [refusal("172.16.0.0/24", Withheld::NextHop, 0)]);
    for n in 0..5_000 {
        script.say(&far(&[&number(n)]));
    }
    script.say(&announce(&["10.244.1.0/26"]));
    for n in 0..5_000 {
        script.say(&far(&[&number(n)]));
    }
    assert_eq!(refusals(&mut script), [], "not before the second is over");
    script.wait(1);
    let told = refusals(&mut script);
    assert_eq!(told, [refusal("10.244.1.0/26", Withheld::OwnPods, 10_000)], "what says most");
    script.wait(10);
    assert_eq!((refusals(&mut script), status(&script).refused), (vec![], 10_002));
    script.say(&far(&["172.16.0.0/24"]));
    assert_eq!(refusals(&mut script).len(), 1, "again, and at once");
}

#[test]
fn networks_that_did_not_change_ask_for_nothing() {
    let mut script = established(passive());
    script.say(&far(&["172.16.0.0/24"]));
    script.tell(node());
    script.tell(networks(&["10.0.0.7/24", "10.0.0.0/24"], &["10.244.1.0/24"]));
    assert_eq!(script.hear(), []);
}

#[test]
fn only_a_peer_with_something_refused_is_asked_again() {
    let asked = [Said::Refresh(1, RefreshKind::Request), Said::Refresh(2, RefreshKind::Request)];
    let mut script = established(passive());
    script.say(&announce(&["172.16.0.0/24", "10.9.0.0/24"]));
    script.tell(networks(&["10.0.0.0/24", "203.0.113.0/24"], &[]));
    assert_eq!(script.hear(), [], "there is nothing to be gained");

    script.tell(networks(&["10.0.0.0/24"], &["10.9.0.0/16"]));
    assert_eq!(why(&script, "10.9.0.0/24"), Some(Withheld::OwnPods), "at once");
    assert_eq!(refusals(&mut script), [refusal("10.9.0.0/24", Withheld::OwnPods, 0)]);
    assert_eq!(script.hear(), [], "nor here: it was just lost");

    script.tell(networks(&["10.0.0.0/24"], &[]));
    assert_eq!(script.hear(), asked, "it may be welcome now");
    script.say(&announce(&["10.9.0.0/24"]));
    assert!(has(&script, "10.9.0.0/24"));
}

#[test]
fn a_refused_route_has_its_new_reason_at_once() {
    let mut script = established(passive());
    script.say(&looped(&["10.9.0.0/24"]));
    assert_eq!(why(&script, "10.9.0.0/24"), Some(Withheld::AsLoop));
    script.tell(networks(&["10.0.0.0/24"], &["10.9.0.0/16"]));
    assert_eq!(why(&script, "10.9.0.0/24"), Some(Withheld::OwnPodsLoop));
    assert_eq!(refusals(&mut script), [refusal("10.9.0.0/24", Withheld::OwnPodsLoop, 0)]);
}

/// Of very many refused routes some are kept, and those may be gone again.
#[test]
fn what_was_refused_and_not_kept_is_asked_for_too() {
    let mut script = established(passive());
    let many: Vec<String> = (0..1_500).map(number).collect();
    for net in &many {
        script.say(&far(&[net]));
    }
    let kept = status(&script).families[0].received;
    assert!(kept < 1_500, "{kept}");
    let gone: Vec<&str> = many.iter().map(String::as_str).take(1_000).collect();
    for some in gone.chunks(100) {
        script.say(&written(|out| assert_eq!(encode::withdraw(&nets(some), FORM, out), 100)));
    }
    assert_eq!(status(&script).families[0].received, 0);
    script.tell(networks(&["10.0.0.0/24", "203.0.113.0/24"], &[]));
    assert!(!script.hear().is_empty());
}

#[test]
fn a_prefix_that_we_originate_too_is_told_used_or_refused() {
    let mut script = established(passive());
    script.tell(originate(&["10.1.0.0/24", "10.2.0.0/24"]));
    script.say(&announce(&["10.1.0.0/24", "10.1.0.0/25", "10.0.0.0/8", "10.3.0.0/24"]));
    assert_eq!(contests(&mut script), [("10.1.0.0/24".to_owned(), 0)]);
    script.wait(1);
    assert_eq!(contests(&mut script), []);
    script.say(&looped(&["10.2.0.0/24"]));
    assert_eq!(contests(&mut script), [("10.2.0.0/24".to_owned(), 0)]);
    assert_eq!(status(&script).contested, 2);

    // Beside our own route, which is the one that is used, theirs shows with what became of it.
    let route = script.speaker.route("10.2.0.0/24".parse().unwrap()).unwrap();
    let paths: Vec<_> =
        route.paths.iter().map(|path| (path.peer.is_some(), path.best, path.withheld)).collect();
    assert_eq!(paths, [(false, true, None), (true, false, Some(Withheld::AsLoop))]);
    let all = script.speaker.routes(flock_bgp::Family::Ipv4, None);
    let shown: Vec<_> = all.filter(|route| route.paths.len() == 2).map(|r| r.net).collect();
    assert_eq!(shown.len(), 2, "{shown:?}");
}

#[test]
fn a_prefix_that_a_peer_had_before_us_is_told_when_we_begin() {
    let mut script = established(passive());
    script.say(&announce(&["10.1.0.0/24"]));
    script.say(&looped(&["10.2.0.0/24", "10.3.0.0/24"]));
    assert_eq!(contests(&mut script), []);
    let wish = |net: &str, med| {
        let origination = Origination { med, ..Origination::default() };
        (net.parse().unwrap(), origination)
    };
    let all = |med| {
        let wishes = ["10.1.0.0/24", "10.2.0.0/24", "10.9.0.0/24"].map(|net| wish(net, med));
        Event::Originate(Wishes::All(wishes.to_vec()))
    };
    script.tell(all(None));
    assert_eq!(contests(&mut script), [("10.1.0.0/24".to_owned(), 1)]);
    script.wait(5);
    script.tell(all(None));
    script.tell(all(Some(5)));
    script.wait(5);
    assert_eq!(contests(&mut script), [], "we had begun already");
    script.tell(withdraw(&["10.2.0.0/24"]));
    script.tell(originate(&["10.2.0.0/24"]));
    assert_eq!(contests(&mut script), [("10.2.0.0/24".to_owned(), 0)]);
}

#[test]
fn a_flood_of_contests_is_told_once_a_second() {
    let mut script = established(passive());
    script.tell(originate(&["10.1.0.0/24"]));
    for _ in 0..1_000 {
        script.say(&announce(&["10.1.0.0/24"]));
    }
    assert_eq!(contests(&mut script), [("10.1.0.0/24".to_owned(), 0)]);
    script.wait(3);
    assert_eq!(contests(&mut script), [("10.1.0.0/24".to_owned(), 998)]);
    script.tell(withdraw(&["10.1.0.0/24"]));
    script.say(&announce(&["10.1.0.0/24"]));
    script.wait(3);
    assert_eq!(contests(&mut script), [], "it is theirs alone");
}

#[test]
fn a_peer_that_goes_takes_its_untold_notices_along() {
    let mut script = established(passive());
    script.say(&far(&["172.16.0.0/24", "172.16.1.0/24"]));
    script.say(&far(&["172.16.2.0/24"]));
    script.tell(Event::Peers(vec![]));
    assert_eq!(script.speaker.next_deadline(), None);
}
