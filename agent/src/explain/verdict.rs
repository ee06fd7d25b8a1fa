//! The answer in one line: what most of all keeps the prefix from being told, or that nothing does.

use ipnet::IpNet;

use crate::cli::bgp::Destination;

use super::facts::{By, Drain, Facts, Peer, Route};
use super::words::{at, list, since, within};
use super::{kernel, origin, paths, peers};

/// One line.
pub(super) fn verdict(facts: &Facts) -> String {
    match &facts.only {
        Some(name) => of_one(facts, name),
        None => of_all(facts),
    }
}

/// Something is known of the prefix itself.
pub(super) fn is_known(facts: &Facts) -> bool {
    facts.origin.is_network()
        || facts.origin.since.is_some()
        || facts.origin.withdrawn.is_some()
        || !facts.pods.is_empty()
        || !facts.mentions.is_empty()
        || facts.holder.is_some()
        || route(facts).is_some()
}

fn route(facts: &Facts) -> Option<&Route> {
    facts.speaker.as_ref()?.route.as_ref()
}

/// As far as one peer is concerned.
fn of_one(facts: &Facts, name: &str) -> String {
    let prefix = facts.prefix;
    let Some(peer) = peers::asked(facts).into_iter().next() else {
        return format!("{name} was not told of {prefix}: it is no peer.");
    };
    let what = match &peer.heard {
        Some(heard) if heard.told => {
            let when = heard.when.map(|(_, when)| format!(" {}", at(when, facts.now)));
            let but = peers::shortly(facts, peer).map(|why| format!("; {why}"));
            format!("was told of {prefix}{}{}", when.unwrap_or_default(), but.unwrap_or_default())
        }
        _ => {
            let why = match not_announced(facts) {
                Some(why) if facts.origin.since.is_none() => why,
                _ => peers::shortly(facts, peer).unwrap_or_default(),
            };
            format!("was not told of {prefix}: {why}")
        }
    };
    format!("{name} {what}.")
}

fn of_all(facts: &Facts) -> String {
    let prefix = facts.prefix;
    if let Some(nobody) = nobodys(facts) {
        return nobody;
    }
    if let Some(what) = origin::shortly(facts).filter(|_| facts.origin.since.is_some()) {
        return originated(facts, &what);
    }
    if let Some(covered) = covered(facts) {
        return covered;
    }
    if let Some(why) = not_announced(facts) {
        return format!("{prefix} is not announced: {why}.");
    }
    match route(facts) {
        Some(route) if facts.origin.since.is_none() => learned(facts, route),
        _ if facts.origin.since.is_some() => format!("{prefix} is originated here."),
        _ => unknown(facts),
    }
}

/// An address that no pod has: what holds it decides.
fn nobodys(facts: &Facts) -> Option<String> {
    let Destination::Address(address) = facts.asked else { return None };
    if facts.prefix.prefix_len() == facts.prefix.max_prefix_len() {
        return None;
    }
    let prefix = facts.prefix;
    if !facts.origin.is_network() {
        let route = route(facts)?;
        return Some(format!("{address} has no route of its own: {}", learned(facts, route)));
    }
    let answer = match &facts.kernel.decides {
        Some((_, Some(route))) => format!("packets for it go by the kernel's route {route}"),
        Some((_, None)) => "the kernel answers \"unreachable\"".to_owned(),
        None => "the kernel could not be asked".to_owned(),
    };
    let what = origin::shortly(facts).unwrap_or_default();
    Some(format!(
        "{address} is no pod's: it is inside the node's network {prefix} ({what}), and {answer}."
    ))
}

fn originated(facts: &Facts, what: &str) -> String {
    let peers = peers::asked(facts);
    let told: Vec<&str> =
        peers.iter().filter(|peer| peers::was_told(peer)).map(|peer| peer.name.as_str()).collect();
    let head = format!("{} is originated here ({what})", facts.prefix);
    let outcome = match (told.len(), peers.len()) {
        _ if facts.speaker.is_none() && facts.node.speaks => {
            ", and the speaker is being started".to_owned()
        }
        _ if facts.speaker.is_none() => {
            ", but this node does not speak BGP: spec.bgp is not set".to_owned()
        }
        (_, 0) => ", but no peers are configured".to_owned(),
        (1, 1) => format!(" and told to {}", list(&told)),
        (all, peers) if all == peers => format!(" and told to {} peers", counted(all)),
        (0, _) => format!(", but no peer was told: {}", reasons(facts, &peers)),
        (some, all) => format!(
            " and told to {some} of {all} peers, {}; not to {}",
            list(&told),
            reasons(facts, &peers)
        ),
    };
    let drain = match facts.node.drain {
        Some(Drain::Draining(left)) => {
            format!("; the node drains, and withdraws it {}", within(left))
        }
        _ => String::new(),
    };
    let contested = match route(facts).map(paths::rivals) {
        Some(tellers) if !tellers.is_empty() => {
            let tell = if tellers.len() == 1 { "tells" } else { "tell" };
            format!("; {} {tell} it, too", list(&tellers))
        }
        _ => String::new(),
    };
    format!("{head}{outcome}{drain}{contested}.")
}

/// `both`, `all 3`.
fn counted(number: usize) -> String {
    if number == 2 { "both".to_owned() } else { format!("all {number}") }
}

/// Why some peers were not told: `tor-b: no session`.
fn reasons(facts: &Facts, peers: &[&Peer]) -> String {
    let untold: Vec<&Peer> = peers.iter().filter(|peer| !peers::was_told(peer)).copied().collect();
    let groups = peers::grouped(&untold, |peer| peers::shortly(facts, peer));
    let texts = groups.iter().map(|(why, names)| format!("{} ({why})", list(names)));
    texts.collect::<Vec<_>>().join(", ")
}

/// Why something that is asked for here is not originated; `None`: nobody asks, or it is.
fn not_announced(facts: &Facts) -> Option<String> {
    let of = &facts.origin;
    let asked_for = of.is_network() || !facts.pods.is_empty();
    if of.since.is_some() {
        return None;
    }
    if !asked_for {
        let (when, why) = of.withdrawn.as_ref()?;
        return Some(format!("it was withdrawn {}: {why}", at(*when, facts.now)));
    }
    if of.hushed {
        return Some(match facts.node.drain {
            Some(Drain::Drained(when)) => {
                format!("the node is drained {}", since(when, facts.now))
            }
            _ => "the node is drained".to_owned(),
        });
    }
    if let Some(refused) = &facts.kernel.refused {
        return Some(format!("the kernel refuses its route: {}", refused.words));
    }
    if let Some(seconds) = of.paced {
        return Some(format!("it flaps, and is announced again {}", within(seconds)));
    }
    let hindered: Vec<String> = facts
        .pods
        .iter()
        .filter_map(|pod| Some(format!("pod {} {}", pod.name, origin::hindrance(pod)?)))
        .collect();
    if hindered.len() == facts.pods.len() && !hindered.is_empty() {
        let hindered: Vec<&str> = hindered.iter().map(String::as_str).collect();
        return Some(list(&hindered));
    }
    if let Some(network) = needs_no_announcement(facts) {
        return Some(format!("the node's network {network} leads to it"));
    }
    match kernel::answer(facts) {
        None => Some("its route is not in the kernel".to_owned()),
        Some(_) => Some("it is about to be".to_owned()),
    }
}

/// The network of the node that leads to a pod which is not to be announced itself.
fn needs_no_announcement(facts: &Facts) -> Option<IpNet> {
    let own = !facts.pods.is_empty() && facts.pods.iter().all(|pod| pod.by != By::Anycast);
    facts.origin.inside.filter(|_| own && !facts.node.announce_pods)
}

/// A pod that is reached by a network of the node.
fn covered(facts: &Facts) -> Option<String> {
    let network = needs_no_announcement(facts)?;
    if facts.pods.iter().any(|pod| origin::hindrance(pod).is_some()) {
        return None;
    }
    let what = origin::shortly(facts)?;
    let around = facts.covering.as_ref().filter(|around| around.prefix == network);
    let told = around.map(|around| by_whom(around)).unwrap_or_default();
    Some(format!(
        "{} is the {what}, and reached by the node's network {network}{told}; it needs no \
         announcement of its own.",
        facts.prefix
    ))
}

/// `, which both peers were told`.
fn by_whom(facts: &Facts) -> String {
    let peers = peers::asked(facts);
    let told = peers.iter().filter(|peer| peers::was_told(peer)).count();
    match (told, peers.len()) {
        (0, _) => ", which no peer was told".to_owned(),
        (1, 1) => format!(", which {} was told", list(&names(&peers))),
        (all, peers) if all == peers => format!(", which {} peers were told", counted(all)),
        (some, all) => format!(", which {some} of {all} peers were told"),
    }
}

fn names<'a>(peers: &[&'a Peer]) -> Vec<&'a str> {
    peers.iter().map(|peer| peer.name.as_str()).collect()
}

fn learned(facts: &Facts, route: &Route) -> String {
    let prefix = facts.prefix;
    let sharing = paths::sharing(route);
    let Some(reason) = route.reason else {
        let mut whys: Vec<String> = route
            .paths
            .iter()
            .filter_map(|path| path.withheld)
            .map(|why| why.to_string())
            .collect();
        whys.dedup();
        let whys: Vec<&str> = whys.iter().map(String::as_str).collect();
        let tellers = paths::tellers(route);
        return format!("{prefix} was told by {}, and refused: {}.", list(&tellers), list(&whys));
    };
    let from = match sharing.as_slice() {
        [best] if route.paths.len() == 1 => format!("from {best}"),
        [best] => format!("from {best}, whose path won ({reason})"),
        sharing => format!("from {}, which share the traffic", list(sharing)),
    };
    let kernel = match (&facts.kernel.refused, &facts.kernel.expected) {
        (Some(refused), _) => format!("but the kernel refuses it: {}", refused.words),
        (None, Some(_)) if facts.kernel.is_as_expected() => "and in the kernel".to_owned(),
        (None, Some(_)) => "but the kernel does not have it as it should".to_owned(),
        (None, None) if !facts.kernel.unusable.is_empty() => {
            let why: Vec<&str> = facts.kernel.unusable.iter().map(String::as_str).collect();
            format!("but not in the kernel: {}", list(&why))
        }
        (None, None) => "and not in the kernel yet".to_owned(),
    };
    format!("{prefix} is learned {from}, {kernel}.")
}

fn unknown(facts: &Facts) -> String {
    let asked = facts.asked;
    if !facts.mentions.is_empty() || facts.holder.is_some() {
        let first = origin::sentences(facts).into_iter().next().unwrap_or_default();
        return format!("{asked} is not announced. {first}");
    }
    if let Some(covering) = &facts.covering {
        let follow = covering.prefix;
        return format!("Nothing is known of {asked} itself; packets for it follow {follow}.");
    }
    format!(
        "Nothing is known of {asked}: no pod of this node has it, its NodeConfig does not name it, and no peer told it."
    )
}
