//! Who asks for the prefix on this node, and what keeps it from being originated.

use crate::annotations::PREFIX;
use crate::cli::bgp::{ExplainedOrigin, ExplainedPod};
use crate::pods::book::Phase;

use super::facts::{By, Drain, Facts, Mention, Origin, Pod};
use super::words::{at, rfc3339, since, within};

/// The annotation by which a pod has an address.
fn annotation(by: By) -> Option<String> {
    match by {
        By::Anycast => Some(format!("{PREFIX}anycast")),
        By::Addresses => Some(format!("{PREFIX}addresses")),
        By::Network => None,
    }
}

/// Whether the address is to be announced for a pod, as far as the pod is concerned.
pub(super) fn serves(pod: &Pod) -> bool {
    let attached = pod.phase == Phase::Serving;
    match pod.by {
        By::Anycast => attached && pod.ready.unwrap_or(!pod.gone) && !pod.terminating,
        By::Addresses | By::Network => attached && pod.wired,
    }
}

/// What keeps a pod from serving an address: `is not Ready`.
pub(super) fn hindrance(pod: &Pod) -> Option<&'static str> {
    match pod.phase {
        Phase::Wiring => Some("is still being attached"),
        Phase::Leaving => Some("is being detached"),
        Phase::Orphaned => Some("lost its network namespace and waits for the runtime's DEL"),
        Phase::Serving => match pod.by {
            By::Anycast if pod.terminating => Some("is being deleted"),
            By::Anycast if pod.gone => Some("is gone from the API server"),
            By::Anycast if pod.ready == Some(false) => Some("is not Ready"),
            By::Addresses | By::Network if !pod.wired => {
                Some("lost its route, which could not be put back yet")
            }
            _ => None,
        },
    }
}

/// In a few words, for the verdict: `spec.cidr4[0]`, `anycast of pod shop/dns-0`.
pub(super) fn shortly(facts: &Facts) -> Option<String> {
    let origin = &facts.origin;
    if let Some(field) = &origin.field {
        return Some(field.clone());
    }
    if origin.leftover {
        return Some("a network that the NodeConfig does not have any more".to_owned());
    }
    let serving: Vec<&Pod> = facts.pods.iter().filter(|pod| serves(pod)).collect();
    let pods = if serving.is_empty() { facts.pods.iter().collect() } else { serving };
    let first = pods.first()?;
    let names: Vec<&str> = pods.iter().map(|pod| pod.name.as_str()).collect();
    let what = match (first.by, names.len()) {
        (By::Anycast, 1) => "anycast of pod",
        (By::Anycast, _) => "anycast of pods",
        (_, 1) => "own address of pod",
        _ => "own address of pods",
    };
    Some(format!("{what} {}", super::words::list(&names)))
}

pub(super) fn sentences(facts: &Facts) -> Vec<String> {
    let mut said = Vec::new();
    network(facts, &mut said);
    said.extend(facts.pods.iter().map(of_pod));
    rule(facts, &mut said);
    said.extend(facts.mentions.iter().map(of_mention));
    if let Some(holder) = &facts.holder {
        said.push(format!("No pod has the address, but it is held by {holder}."));
    }
    state(facts, &mut said);
    said
}

fn network(facts: &Facts, said: &mut Vec<String>) {
    let Origin { field, leftover, .. } = &facts.origin;
    let config = facts.node.config.as_deref().unwrap_or("this node");
    if let Some(field) = field {
        said.push(format!("It is the network {field} of the NodeConfig {config}."));
    } else if *leftover {
        said.push(format!(
            "The NodeConfig {config} does not have this network any more; it is kept because pods \
             hold addresses of it."
        ));
    }
}

fn of_pod(pod: &Pod) -> String {
    let by = match annotation(pod.by) {
        Some(annotation) => format!("by its annotation {annotation}"),
        None => "from the node's network".to_owned(),
    };
    let state = match (hindrance(pod), pod.by) {
        (Some(why), By::Anycast) => format!("it {why}, so it does not serve it"),
        (Some(why), _) => format!("it {why}"),
        (None, By::Anycast) if pod.ready.is_none() => {
            "it is attached, counts as Ready because nothing says otherwise, and serves it"
                .to_owned()
        }
        (None, By::Anycast) => "it is attached and Ready, and serves it".to_owned(),
        (None, _) => "it is attached".to_owned(),
    };
    let link = match pod.interface.as_str() {
        "" => String::new(),
        name => format!(" (interface {name})"),
    };
    format!("Pod {} has it {by}: {state}{link}.", pod.name)
}

/// Why a pod's own address is announced itself, or not.
fn rule(facts: &Facts, said: &mut Vec<String>) {
    let own = |pod: &Pod| pod.by != By::Anycast;
    if !facts.pods.iter().any(own) || facts.pods.iter().any(|pod| !own(pod)) {
        return;
    }
    said.push(match (facts.origin.inside, facts.node.announce_pods) {
        (Some(network), true) => format!(
            "The node's network {network} holds it; it is announced beside it because \
             spec.bgp.announcePods is true."
        ),
        (Some(network), false) => format!(
            "The node's network {network} holds it and leads here, so it is not announced itself; \
             spec.bgp.announcePods would announce each pod."
        ),
        (None, _) => "No network of the node holds it, so it is announced itself.".to_owned(),
    });
}

fn of_mention(mention: &Mention) -> String {
    let Mention { pod, annotation, attached } = mention;
    let but = if *attached {
        "that pod was attached without it: annotations are read when a pod is attached, so start it \
         again"
    } else {
        "that pod is not attached on this node"
    };
    format!("The manifest of pod {pod} names it in {annotation}, but {but}.")
}

/// Originated or not, and what the node says to it.
fn state(facts: &Facts, said: &mut Vec<String>) {
    let Origin { since: from, withdrawn, paced, hushed, .. } = &facts.origin;
    let asked_for = facts.origin.is_network() || !facts.pods.is_empty();
    if let Some(from) = from {
        said.push(format!("This node has originated it {}.", since(*from, facts.now)));
    }
    if let Some((when, why)) = withdrawn {
        said.push(format!("It was withdrawn {}: {why}.", at(*when, facts.now)));
    }
    if let Some(seconds) = paced {
        said.push(format!(
            "It flaps, and is announced at most once a second until it stays: again {}.",
            within(*seconds)
        ));
    }
    match facts.node.drain {
        Some(Drain::Drained(when)) if *hushed || asked_for => said.push(format!(
            "The node is drained {}: nothing is announced until `flock-agent drain --undo`.",
            since(when, facts.now)
        )),
        Some(Drain::Draining(_)) if *hushed && asked_for => {
            said.push("The node is drained: everything is withdrawn.".to_owned());
        }
        Some(Drain::Draining(left)) if from.is_some() => said.push(format!(
            "The node drains: everything carries GRACEFUL_SHUTDOWN, and is withdrawn {}.",
            within(left)
        )),
        _ => {}
    }
    if asked_for && let Some(problem) = &facts.node.problem {
        said.push(problem.clone());
    }
}

/// For machines.
pub(super) fn answer(facts: &Facts) -> Option<ExplainedOrigin> {
    let Origin { field, since, paced, withdrawn, .. } = &facts.origin;
    let nobody = !facts.origin.is_network() && facts.pods.is_empty();
    if nobody && since.is_none() && withdrawn.is_none() {
        return None;
    }
    Some(ExplainedOrigin {
        originated: since.is_some(),
        since: since.map(rfc3339),
        field: field.clone(),
        pods: facts.pods.iter().map(pod_answer).collect(),
        withdrawn_at: withdrawn.as_ref().map(|(when, _)| rfc3339(*when)),
        withdrawn_because: withdrawn.as_ref().map(|(_, why)| why.clone()),
        paced_seconds: *paced,
    })
}

fn pod_answer(pod: &Pod) -> ExplainedPod {
    ExplainedPod {
        name: pod.name.clone(),
        annotation: annotation(pod.by),
        state: match pod.phase {
            Phase::Wiring => "attaching",
            Phase::Serving => "attached",
            Phase::Leaving => "detaching",
            Phase::Orphaned => "orphaned",
        }
        .to_owned(),
        ready: pod.ready.map(|ready| ready && !pod.terminating),
        terminating: pod.terminating,
        serves: serves(pod),
        host_interface: pod.interface.clone(),
    }
}
