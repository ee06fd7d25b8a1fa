//! `bgp explain`: why a prefix is announced or not, to whom, and what was learned of it, in sentences
//! for people. `gather` asks everybody who knows; all the rest is a pure function of what was found.
//!
//! | room | what it decides |
//! |---|---|
//! | `facts` | what an explanation is made from |
//! | `gather` | which prefix a question is about, and whom to ask |
//! | `verdict` | the answer in one line: what most of all keeps it from being told |
//! | `origin`, `kernel`, `peers`, `paths` | the sentences about each |
//! | `words` | names in a row, moments, attributes |

pub(crate) mod facts;
mod gather;
mod kernel;
mod origin;
mod paths;
mod peers;
#[cfg(test)]
mod tests;
mod verdict;
mod words;

use crate::cli::bgp::{About, Covering, Explanation, Sentence};
use facts::Facts;

pub use gather::explain;

/// What follows from the facts.
fn explained(facts: &Facts) -> Explanation {
    let covering = facts.covering.as_deref().map(|around| Covering {
        prefix: around.prefix.to_string(),
        announced: is_announced(around),
        verdict: verdict::verdict(around),
    });
    Explanation {
        question: facts.asked.to_string(),
        prefix: facts.prefix.to_string(),
        peer: facts.only.clone(),
        known: verdict::is_known(facts) || covering.is_some(),
        announced: is_announced(facts),
        verdict: verdict::verdict(facts),
        sentences: sentences(facts, covering.as_ref()),
        origin: origin::answer(facts),
        kernel: kernel::answer(facts),
        peers: peers::answers(facts),
        paths: paths::answers(facts),
        decision: paths::step(facts),
        covering,
    }
}

fn is_announced(facts: &Facts) -> bool {
    peers::asked(facts).into_iter().any(peers::was_told)
}

fn sentences(facts: &Facts, covering: Option<&Covering>) -> Vec<Sentence> {
    let around: Vec<String> = covering.iter().map(|around| around.verdict.clone()).collect();
    let parts = [
        (About::Origin, origin::sentences(facts)),
        (About::Kernel, kernel::sentences(facts)),
        (About::Peers, peers::sentences(facts)),
        (About::Paths, paths::sentences(facts)),
        (About::Covering, around),
        (About::Advice, advice(facts)),
    ];
    let texts = |(about, texts): (About, Vec<String>)| {
        texts.into_iter().map(move |text| Sentence { about, text })
    };
    parts.into_iter().flat_map(texts).collect()
}

/// What to do where nobody asks for it.
fn advice(facts: &Facts) -> Vec<String> {
    let mut said = Vec::new();
    if verdict::is_known(facts) {
        return said;
    }
    if !facts.within.is_empty() {
        let inside: Vec<String> = facts.within.iter().map(ToString::to_string).collect();
        let inside: Vec<&str> = inside.iter().map(String::as_str).collect();
        said.push(format!("Inside it, this node originates {}.", words::list(&inside)));
    }
    let host = facts.prefix.prefix_len() == facts.prefix.max_prefix_len();
    said.push(match host {
        true => format!(
            "To announce it from here, name it in a pod's annotation {0}anycast, which follows \
             readiness, or {0}addresses, which makes it the pod's own.",
            crate::annotations::PREFIX
        ),
        false => "To announce it from here, add it to spec.cidr6 or spec.cidr4 of the NodeConfig."
            .to_owned(),
    });
    said
}
