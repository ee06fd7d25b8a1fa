//! Whether the kernel carries packets for the prefix as it should, and if not, why not.

use crate::cli::bgp::ExplainedKernel;

use super::facts::{Facts, Kernel};
use super::words::{list, within};

pub(super) fn sentences(facts: &Facts) -> Vec<String> {
    let kernel = &facts.kernel;
    let mut said = Vec::new();
    if let Some(refused) = &kernel.refused {
        let again = refused.again.map(|again| format!("; it is asked again {}", within(again)));
        let again = again.unwrap_or_default();
        said.push(format!("The kernel refuses the route: {}{again}.", refused.words));
        if facts.origin.is_network() || !facts.pods.is_empty() {
            said.push("Nothing is announced before its route is in the kernel.".to_owned());
        }
    }
    said.extend(standing(facts));
    if let Some(seconds) = kernel.lingers {
        said.push(format!(
            "The route goes {}: until then packets that routers still send are delivered.",
            within(seconds)
        ));
    }
    if !kernel.unusable.is_empty() {
        let why: Vec<&str> = kernel.unusable.iter().map(String::as_str).collect();
        said.push(match kernel.expected {
            Some(_) => format!("Not every next hop can be used: {}.", list(&why)),
            None => format!("No next hop can be used: {}.", list(&why)),
        });
    }
    if kernel.stale {
        said.push(
            "It is from before the speaker was started, and goes unless a peer tells it again."
                .to_owned(),
        );
    }
    if kernel.held {
        said.push("It is kept although sessions ended, because the node is drained.".to_owned());
    }
    said.extend(decides(kernel));
    said
}

/// What is there, beside what should be.
fn standing(facts: &Facts) -> Vec<String> {
    let kernel = &facts.kernel;
    if let Err(words) = &kernel.found {
        return vec![format!("The kernel's routes cannot be read: {words}.")];
    }
    let mut said = Vec::new();
    match (&kernel.expected, kernel.ours()) {
        (Some(expected), Some(_)) if kernel.is_as_expected() => {
            let meaning = if facts.origin.is_network() {
                "; packets for addresses that no pod has are answered with that"
            } else {
                ""
            };
            said.push(format!("The kernel has the route: {expected}{meaning}."));
        }
        (Some(expected), Some(ours)) => {
            said.push(format!("The agent put there: {expected}; but the kernel has: {ours}."));
        }
        (Some(expected), None) => said.push(format!(
            "The agent put there: {expected}; but the kernel does not have it now. It is put back as \
             soon as the agent hears of that."
        )),
        (None, Some(ours)) if !facts.pods.is_empty() => {
            said.push(format!("The kernel leads to the pod: {ours}."));
        }
        (None, Some(ours)) => said.push(format!("The kernel has: {ours}.")),
        (None, None) if facts.origin.is_network() || !facts.pods.is_empty() => {
            said.push("The kernel has no route of its own for it.".to_owned());
        }
        (None, None) => {}
    }
    if let Some(other) = kernel.another() {
        said.push(format!(
            "Packets take another program's route: {other} (protocol {}, metric {}).",
            other.protocol, other.metric
        ));
    }
    said
}

/// What becomes of packets for an address that has no route of its own.
fn decides(kernel: &Kernel) -> Option<String> {
    let (address, by) = kernel.decides.as_ref()?;
    Some(match by {
        Some(route) => format!("Packets for {address} go by the kernel's route {route}."),
        None => format!("The kernel answers packets for {address} with \"unreachable\"."),
    })
}

/// For machines.
pub(super) fn answer(facts: &Facts) -> Option<ExplainedKernel> {
    let Kernel { expected, found, refused, lingers, .. } = &facts.kernel;
    let first = found.as_ref().ok().and_then(|found| found.first());
    let route = first.map(ToString::to_string);
    if route.is_none() && expected.is_none() && refused.is_none() {
        return None;
    }
    Some(ExplainedKernel {
        route,
        expected: expected.clone(),
        refused: refused.as_ref().map(|refused| refused.words.clone()),
        retry_seconds: refused.as_ref().and_then(|refused| refused.again),
        lingers_seconds: *lingers,
    })
}
