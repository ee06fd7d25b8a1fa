//! `bgp show` as a script and an operator see it: the JSON contract, what is asked of the agent,
//! what is refused before.

use clap::Parser;
use serde_json::{Value, json};

use std::path::Path;

use super::show::What;
use super::*;
use crate::cli::desk::{self, Desk};
use crate::cli::output::{self, Look};
use crate::cli::{Cli, Command};
use crate::server::admin;

/// An agent with the sample's peers and routes.
fn agent() -> Desk {
    desk::open(|op, given| match op {
        "bgp.summary" => desk::ok(sample::summary()),
        "bgp.peers" => {
            let PeersArgs { name } = admin::args(given)?;
            let is_wanted =
                |peer: &PeerRow| name.as_ref().is_none_or(|name| name.as_str() == peer.name);
            desk::ok(PeerList { peers: sample::peers().into_iter().filter(is_wanted).collect() })
        }
        "bgp.routes" => {
            let question: RoutesArgs = admin::args(given)?;
            let is_wanted = |route: &RouteRow| {
                let net = route.prefix.parse().unwrap();
                question.prefix.is_none_or(|wanted| wanted.admits(&net))
                    && question
                        .peer
                        .as_ref()
                        .is_none_or(|p| route.peer.as_deref() == Some(p.as_str()))
            };
            desk::ok(RouteList { routes: sample::routes().into_iter().filter(is_wanted).collect() })
        }
        other => Err(format!("unknown op {other:?}")),
    })
}

/// A node whose speaker has nothing: no peers, no routes, and without an AS number no BGP.
fn empty_agent(asn: Option<u32>) -> Desk {
    desk::open(move |op, _| match op {
        "bgp.summary" => desk::ok(Summary { asn, peers: vec![], ..sample::summary() }),
        "bgp.peers" => desk::ok(PeerList { peers: vec![] }),
        _ => desk::ok(RouteList { routes: vec![] }),
    })
}

fn parsed(words: &[&str]) -> Result<BgpShow, String> {
    let line = ["flock-agent", "bgp", "show"].iter().chain(words);
    match Cli::try_parse_from(line).map_err(|error| error.to_string())?.command {
        Command::Bgp(Bgp { command: BgpCommand::Show(show) }) => Ok(show),
        other => panic!("{other:?}"),
    }
}

/// What `bgp show` with these words prints.
fn said(desk: &Desk, words: &[&str]) -> anyhow::Result<String> {
    let mut wanted = parsed(words).unwrap();
    wanted.show.admin_socket = desk.socket.clone();
    let wide = wanted.show.output == output::Form::Wide;
    show::shown(&wanted, Look { wide, ..sample::NARROW })
}

fn keys(row: &Value) -> Vec<&str> {
    row.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn the_keys_of_peers_are_the_contract() {
    let contract = json!({
        "name": "tor-b",
        "address": "192.0.2.2",
        "asn": 4_200_000_001_u32,
        "localAsn": 65001,
        "state": "Active",
        "uptimeSeconds": 0,
        "families": ["ipv4-unicast"],
        "received": 0,
        "accepted": 0,
        "advertised": 0,
        "lastError": "cannot connect: Connection refused",
    });
    let beyond = json!({
        "lastErrorSecondsAgo": 5,
        "stateSeconds": 5,
        "nextAttemptSeconds": 3,
        "routerId": null,
        "localAddress": null,
        "holdTimeSeconds": null,
        "keepaliveSeconds": null,
        "endOfRibSent": false,
        "endOfRibReceived": false,
        "restarting": false,
        "pending": null,
        "notAnnounced": [],
        "flaps": 0,
        "messagesSent": 0,
        "messagesReceived": 0,
        "familyDetails": [],
    });
    let mut whole = contract.as_object().unwrap().clone();
    whole.extend(beyond.as_object().unwrap().clone());
    let [up, down] = sample::peers();
    assert_eq!(serde_json::to_value(down).unwrap(), Value::Object(whole));
    let up = serde_json::to_value(up).unwrap();
    assert_eq!(up["state"], "Established");
    assert_eq!(keys(&up["notAnnounced"][0]), ["family", "reason"]);
    assert_eq!(
        up["familyDetails"][0],
        json!({
            "family": "ipv6-unicast",
            "negotiated": true,
            "received": 12,
            "accepted": 11,
            "advertised": 3,
            "endOfRibSent": true,
            "endOfRibReceived": true,
            "stale": false,
        })
    );
}

#[test]
fn the_states_have_the_names_of_the_rfc() {
    use PeerState::*;
    for state in [Idle, Connect, Active, OpenSent, OpenConfirm, Established] {
        assert_eq!(serde_json::to_value(state).unwrap(), json!(state.to_string()));
    }
}

#[test]
fn the_keys_of_routes_are_the_contract() {
    let [summary, .., refused] = sample::routes();
    assert_eq!(
        serde_json::to_value(summary).unwrap(),
        json!({
            "prefix": "2001:db8:a::/64",
            "source": "local",
            "owner": "spec.cidr6",
            "peer": null,
            "nextHops": [],
            "asPath": [],
            "communities": ["65001:100", "no-export"],
            "largeCommunities": ["65001:1:2"],
            "med": null,
            "localPref": null,
            "best": true,
            "equal": false,
            "stale": false,
            "refused": null,
            "installed": null,
        })
    );
    let refused = serde_json::to_value(refused).unwrap();
    assert_eq!(refused["source"], "learned");
    assert_eq!(refused["asPath"], json!([65000]));
}

#[test]
fn every_view_has_its_json_and_the_summary_has_the_keys_of_peers() {
    let agent = agent();
    let read =
        |words: &[&str]| -> Value { serde_json::from_str(&said(&agent, words).unwrap()).unwrap() };
    let (summary, peers) = (read(&["-o", "json"]), read(&["peers", "-o", "json"]));
    assert_eq!(
        keys(&summary),
        [
            "asn",
            "drain",
            "installed",
            "learned",
            "listening",
            "node",
            "originated",
            "peers",
            "routerId"
        ]
    );
    assert_eq!(summary["peers"], peers["peers"]);
    assert_eq!(keys(&peers), ["peers"]);
    let one = read(&["-o", "json", "peers", "tor-b"]);
    assert_eq!(one["peers"], json!([peers["peers"][1]]));
    let routes = read(&["routes", "::/0", "--peer", "tor-b", "-o", "json"]);
    assert_eq!(keys(&routes), ["routes"]);
    assert_eq!(routes["routes"][0]["nextHops"], json!(["2001:db8:ffff::3"]));
    let yaml = said(&agent, &["peers", "tor-a", "-o", "yaml"]).unwrap();
    assert!(yaml.starts_with("peers:\n") && yaml.contains("name: tor-a\n"), "{yaml}");
}

#[test]
fn every_view_has_its_table() {
    let agent = agent();
    let begins = |words: &[&str], start: &str| {
        let text = said(&agent, words).unwrap();
        assert!(text.starts_with(start), "{words:?}: {text}");
        text
    };
    begins(&[], "Node:       node-a, AS 65001");
    begins(&["peers"], "PEER ");
    assert!(begins(&["peers", "-o", "wide"], "PEER ").contains("LAST ERROR"));
    begins(&["peers", "tor-a"], "Peer:            tor-a\n");
    begins(&["routes", "-o", "wide"], "  PREFIX ");
    begins(&["routes", "--advertised"], "PREFIX ");
    let held = begins(&["routes", "10.1.2.3"], "  PREFIX ");
    assert_eq!(held.lines().count(), 2, "{held}");
}

#[test]
fn a_name_that_is_no_peer_brings_the_names_that_are() {
    let agent = agent();
    let views = [
        &["peers", "tor-x"][..],
        &["peers", "tor-x", "-o", "json"],
        &["routes", "--peer", "tor-x"],
    ];
    for words in views {
        let refused = said(&agent, words).unwrap_err().to_string();
        assert_eq!(refused, "no peer is called \"tor-x\"; there are: tor-a, tor-b", "{words:?}");
    }
    let none = said(&empty_agent(Some(1)), &["peers", "tor-x"]).unwrap_err().to_string();
    assert_eq!(none, "no peer is called \"tor-x\": No peers are configured.");
    // A peer without a route is a peer all the same.
    let quiet = said(&agent, &["routes", "10.9.0.0/16", "--peer", "tor-b"]).unwrap();
    assert_eq!(quiet, "No route for 10.9.0.0/16.\n");
}

#[test]
fn nothing_is_said_in_words_to_people_and_in_lists_to_machines() {
    let speaks = empty_agent(Some(65001));
    assert_eq!(said(&speaks, &["peers"]).unwrap(), "No peers are configured.\n");
    assert_eq!(said(&speaks, &["routes"]).unwrap(), "No routes.\n");
    let silent = empty_agent(None);
    for words in [&[][..], &["peers"], &["routes"]] {
        let text = said(&silent, words).unwrap();
        assert_eq!(text, "This node does not speak BGP: spec.bgp is not set.\n", "{words:?}");
    }
    for (view, list) in [("peers", "peers"), ("routes", "routes")] {
        let text = said(&silent, &[view, "-o", "json"]).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), json!({ list: [] }));
    }
}

#[test]
fn flags_become_the_question() {
    let asked = |words: &[&str]| match parsed(&[&["routes"], words].concat()).unwrap().what {
        Some(What::Routes(routes)) => serde_json::to_value(routes.question().unwrap()).unwrap(),
        other => panic!("{other:?}"),
    };
    assert_eq!(asked(&[]), json!({ "which": "all" }));
    assert_eq!(asked(&["--originated"]), json!({ "which": "originated" }));
    assert_eq!(
        asked(&["10.0.0.0/8", "--received", "--peer", "tor-a"]),
        json!({ "which": "received", "prefix": "10.0.0.0/8", "peer": "tor-a" })
    );
    assert_eq!(
        asked(&["--advertised", "2001:DB8::1"]),
        json!({ "which": "advertised", "prefix": "2001:db8::1" })
    );
    assert_eq!(
        asked(&["10.0.0.0/8", "--longer", "--limit", "5", "--after", "10.0.0.0/16"]),
        json!({
            "which": "all",
            "prefix": "10.0.0.0/8",
            "within": true,
            "limit": 5,
            "after": "10.0.0.0/16",
        })
    );
    for (address, host) in [("10.0.0.1", "10.0.0.1/32"), ("2001:db8::1", "2001:db8::1/128")] {
        assert_eq!(asked(&[address, "--exact"]), json!({ "which": "all", "prefix": host }));
    }
    assert_eq!(asked(&["10.0.0.0/8", "--exact"]), asked(&["10.0.0.0/8"]));
    let Some(What::Routes(within)) = parsed(&["routes", "10.0.0.1", "--longer"]).unwrap().what
    else {
        panic!();
    };
    let refused = within.question().unwrap_err();
    assert_eq!(
        refused.to_string(),
        "--longer: what is within a prefix wants a prefix, for example 10.0.0.0/8"
    );
}

#[test]
fn bad_words_are_refused_before_the_agent_is_asked() {
    let refused = [
        (&["routes", "tor-a"][..], "'tor-a' for '[PREFIX]': neither a prefix nor an address"),
        (&["routes", "10.0.0.1/8"], "write the network 10.0.0.0/8, or the address 10.0.0.1"),
        (&["routes", "10.0.0.0/33"], "write for example 2001:db8::/64"),
        (&["routes", "--received", "--advertised"], "cannot be used with"),
        (&["routes", "--originated", "--peer", "tor-a"], "cannot be used with"),
        (&["routes", "--longer"], "required arguments were not provided"),
        (&["routes", "10.0.0.0/8", "--longer", "--exact"], "cannot be used with"),
        (&["routes", "--limit", "0"], "0 is not in 1.."),
        (&["peers", " "], "the name of a peer has 1 to 255 bytes; write for example tor-a"),
        (&["-o", "xml"], "invalid value 'xml'"),
    ];
    for (words, why) in refused {
        let error = parsed(words).unwrap_err();
        assert!(error.contains(why), "{words:?}: {error}");
    }
}

#[test]
fn both_flags_may_stand_on_either_side() {
    for words in [&["-o", "json", "peers"][..], &["peers", "-o", "json"]] {
        assert_eq!(parsed(words).unwrap().show.output, output::Form::Json, "{words:?}");
    }
    for words in [&["--admin-socket", "/s", "routes"][..], &["routes", "--admin-socket", "/s"]] {
        assert_eq!(parsed(words).unwrap().show.admin_socket, Path::new("/s"), "{words:?}");
    }
}

#[test]
fn a_destination_is_a_prefix_or_what_holds_an_address() {
    let table = [
        ("10.0.0.0/8", "10.0.0.0/8", true),
        ("10.0.0.0/8", "10.0.0.0/16", false),
        ("10.0.0.0/8", "0.0.0.0/0", false),
        ("10.0.0.1", "10.0.0.0/8", true),
        ("10.0.0.1", "10.0.0.1/32", true),
        ("10.0.0.1", "::/0", false),
        ("2001:db8::1", "::/0", true),
        ("2001:db8::1", "2001:db8:1::/48", false),
    ];
    for (text, prefix, is_admitted) in table {
        let destination: Destination = text.parse().unwrap();
        assert_eq!(destination.admits(&prefix.parse().unwrap()), is_admitted, "{text} {prefix}");
        assert_eq!(destination.to_string(), text);
    }
}

#[test]
fn the_agent_refuses_arguments_that_it_does_not_know() {
    let peers = |given: Value| admin::args::<PeersArgs>(&given);
    let routes = |given: Value| admin::args::<RoutesArgs>(&given);
    assert_eq!(peers(Value::Null), Ok(PeersArgs::default()));
    assert_eq!(routes(json!({})), Ok(RoutesArgs::default()));
    let refused = [
        (peers(json!({ "nam": "a" })).unwrap_err(), "unknown field `nam`"),
        (peers(json!({ "name": "" })).unwrap_err(), "args.name: the name of a peer"),
        (peers(json!({ "name": "x".repeat(256) })).unwrap_err(), "1 to 255 bytes"),
        (peers(json!([])).unwrap_err(), "args: expected an object or nothing, not []"),
        (routes(json!({ "most": 1 })).unwrap_err(), "unknown field `most`"),
        (routes(json!({ "limit": -1 })).unwrap_err(), "args.limit: invalid value"),
        (routes(json!({ "find": "x".repeat(65) })).unwrap_err(), "args.find: what is looked for"),
        (routes(json!({ "find": " " })).unwrap_err(), "1 to 64 bytes"),
        (routes(json!({ "after": "10.0.0.0" })).unwrap_err(), "args.after: "),
        (routes(json!({ "within": "yes" })).unwrap_err(), "args.within: invalid type"),
        (routes(json!({ "which": "best" })).unwrap_err(), "args.which: unknown variant `best`"),
        (routes(json!({ "prefix": "x" })).unwrap_err(), "args.prefix: \"x\": neither a prefix"),
    ];
    for (error, words) in refused {
        assert!(error.contains(words), "{error}");
    }
}
