//! `policy explain`: finds out who is meant, and puts into words what the judge says.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use super::judge::{self, End, Known, Packet, PodEnd, Side};
use super::task::View;
use crate::cli::policy::{
    AllowedBy, ExplainedEnd, ExplainedSide, PolicyExplainArgs, PolicyExplanation, Spoken, Who,
};
use crate::pods::Pods;
use crate::source::PodKey;

/// The IP number of ICMP; any that policies do not speak of would do.
const ICMP: u8 = 1;

/// Answers `policy explain`.
pub async fn explain(pods: &Pods, args: PolicyExplainArgs) -> Result<PolicyExplanation, String> {
    let interfaces = pods.dataplane.interfaces().await.map_err(|error| error.to_string())?;
    let addresses = interfaces.iter().flat_map(|interface| &interface.addresses);
    let node: Vec<IpAddr> = addresses.map(|address| address.address.addr()).collect();
    let answer = pods.gate.ask(move |view| answer(view, &args, &node)).await;
    answer.ok_or_else(|| "the agent is stopping".to_owned())?
}

/// One who is meant.
struct Found {
    end: End,
    /// A pod of this node.
    here: bool,
    /// This node itself.
    node: bool,
    called: String,
}

fn answer(
    view: &View<'_>,
    args: &PolicyExplainArgs,
    node: &[IpAddr],
) -> Result<PolicyExplanation, String> {
    let (mut senders, mut receivers) = (find(view, &args.from, node)?, find(view, &args.to, node)?);
    let protocol = args.protocol.protocol();
    let packet = Packet { protocol: protocol.map_or(ICMP, |p| p.number()), port: args.port };
    let policies = view.cluster.policies.in_order();
    let known = Known { policies: &policies, namespaces: &view.cluster.namespaces };
    let (mut at, mut judged) = ((0, 0), None);
    // Where several have an address, all of them have to be allowed: the first who is not decides.
    'all: for (n, from) in senders.iter().enumerate() {
        for (m, to) in receivers.iter().enumerate() {
            let verdict = judge::judge(known, &from.end, &to.end, packet);
            let denied = !verdict.allowed;
            if denied || judged.is_none() {
                (at, judged) = ((n, m), Some(verdict));
            }
            if denied {
                break 'all;
            }
        }
    }
    let shared = senders.len().max(receivers.len()) > 1;
    let judged = judged.ok_or("nobody has this address")?;
    let (from, to) = (senders.swap_remove(at.0), receivers.swap_remove(at.1));
    let by_the_node = (from.node && to.here) || (from.here && to.node);
    let allowed = judged.allowed || by_the_node;
    let spoken = match (args.protocol, args.port) {
        (Spoken::Icmp, _) | (_, None) => "ICMP".to_owned(),
        (_, Some(port)) => format!("{} {port}", name(args.protocol)),
    };
    let why = match (judged.itself, by_the_node) {
        (true, _) => ": a pod always reaches itself",
        (false, true) => ": what a pod and its own node say to each other is never filtered",
        (false, false) if shared => {
            "; several pods have that address, and only what all of them may is allowed"
        }
        (false, false) => "",
    };
    let may = if allowed { "may" } else { "may not" };
    Ok(PolicyExplanation {
        verdict: format!("{} {may} talk to {} on {spoken}{why}.", from.called, to.called),
        from: shown(from),
        to: shown(to),
        protocol: name(args.protocol).to_owned(),
        port: args.port,
        allowed,
        egress: side(judged.egress),
        ingress: side(judged.ingress),
    })
}

fn name(spoken: Spoken) -> &'static str {
    match spoken {
        Spoken::Tcp => "TCP",
        Spoken::Udp => "UDP",
        Spoken::Sctp => "SCTP",
        Spoken::Icmp => "ICMP",
    }
}

/// Whoever is meant; an address may be several pods'.
fn find(view: &View<'_>, who: &Who, node: &[IpAddr]) -> Result<Vec<Found>, String> {
    match who {
        Who::Pod(pod) => named(view, &pod.0).map(|found| vec![found]).ok_or_else(|| {
            format!(
                "pod {} is not known: it is neither attached to this node nor told of with an address",
                pod.0
            )
        }),
        Who::Address(address) => Ok(at(view, *address, node)),
    }
}

/// A pod by its name, with all its addresses.
fn named(view: &View<'_>, pod: &PodKey) -> Option<Found> {
    let here = || view.attached.values().filter(|attached| attached.pod == *pod);
    let addresses: Vec<IpAddr> = here().flat_map(|one| one.addresses.iter().copied()).collect();
    if !addresses.is_empty() {
        let facts = view.world.pods.get(pod);
        let facts = facts.filter(|facts| here().any(|one| facts.has_uid(&one.uid)));
        let known = PodEnd {
            key: pod.clone(),
            labels: facts.map(|facts| facts.labels.clone()).unwrap_or_default(),
            ports: facts.map(|facts| facts.ports.clone()).unwrap_or_default(),
        };
        return Some(found(known, addresses, true));
    }
    let peer = view.cluster.peers.get(pod)?;
    let known = PodEnd {
        key: pod.clone(),
        labels: Arc::clone(&peer.labels),
        ports: Arc::clone(&peer.ports),
    };
    let addresses = peer.addresses.iter().chain(&peer.claimed).copied().collect();
    Some(found(known, addresses, false))
}

fn found(pod: PodEnd, addresses: Vec<IpAddr>, here: bool) -> Found {
    let called = pod.key.to_string();
    Found { end: End { pod: Some(pod), addresses }, here, node: false, called }
}

/// Whoever has an address: the pods that have it as their own, or all that name it where there is none.
fn at(view: &View<'_>, address: IpAddr, node: &[IpAddr]) -> Vec<Found> {
    let here = |shared: bool| {
        let attached = view.attached.values().filter(move |one| one.addresses.contains(&address));
        let attached = attached.filter(move |one| one.shared.contains(&address) == shared);
        attached.map(|one| one.pod.clone())
    };
    let told = |own: bool| {
        let peers = view.cluster.peers.iter().filter(move |(_, peer)| {
            let addresses = if own { &peer.addresses } else { &peer.claimed };
            addresses.contains(&address)
        });
        peers.map(|(pod, _)| pod.clone())
    };
    let mut pods: BTreeSet<PodKey> = here(false).chain(told(true)).collect();
    if pods.is_empty() {
        pods.extend(told(false));
    }
    pods.extend(here(true));
    // As this address, and not as another of the same pod.
    let as_this = |found: Found| Found {
        called: format!("{} at {address}", found.called),
        end: End { addresses: vec![address], ..found.end },
        ..found
    };
    let found: Vec<Found> = pods.iter().filter_map(|pod| named(view, pod)).map(as_this).collect();
    if !found.is_empty() {
        return found;
    }
    vec![Found {
        end: End { pod: None, addresses: vec![address] },
        here: false,
        node: node.contains(&address),
        called: address.to_string(),
    }]
}

fn shown(found: Found) -> ExplainedEnd {
    ExplainedEnd {
        pod: found.end.pod.map(|pod| pod.key.to_string()),
        addresses: found.end.addresses.iter().map(ToString::to_string).collect(),
        here: found.here,
    }
}

fn side(side: Side) -> ExplainedSide {
    let policies: Vec<String> = side.isolated_by.iter().map(ToString::to_string).collect();
    let isolated = !policies.is_empty();
    let reason = match (isolated, side.allowed) {
        (false, _) => "No policy isolates it: everything is allowed.".to_owned(),
        (true, true) => format!("Isolated by {}, and allowed:", policies.join(", ")),
        (true, false) => {
            format!("Isolated by {}, and no rule of theirs allows it.", policies.join(", "))
        }
    };
    let by = side.allowed_by.into_iter().map(|by| AllowedBy {
        policy: by.policy.to_string(),
        rule: by.rule,
        reason: by.words,
    });
    ExplainedSide { isolated, allowed: side.allowed, policies, allowed_by: by.collect(), reason }
}
