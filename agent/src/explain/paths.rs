//! What peers told of the prefix, which path is used, and at which step it won.

use flock_bgp::{Reason, Withheld};

use crate::cli::bgp::ExplainedPath;

use super::facts::{Facts, Path, Route};
use super::words::{attributes, list, told};

/// More paths than these are counted.
const SHOWN: usize = 16;

fn learned(route: &Route) -> impl Iterator<Item = &Path> {
    route.paths.iter().filter(|path| path.peer.is_some())
}

/// Who told it, used or refused.
pub(super) fn tellers(route: &Route) -> Vec<&str> {
    learned(route).filter_map(|path| path.peer.as_deref()).collect()
}

/// Who told it otherwise than as our own announcement come back.
pub(super) fn rivals(route: &Route) -> Vec<&str> {
    let rivals = learned(route).filter(|path| !is_loop(path));
    rivals.filter_map(|path| path.peer.as_deref()).collect()
}

fn is_loop(path: &Path) -> bool {
    matches!(path.withheld, Some(Withheld::AsLoop | Withheld::OwnPodsLoop))
}

/// Who shares its traffic, the best first.
pub(super) fn sharing(route: &Route) -> Vec<&str> {
    learned(route).filter(|path| path.equal).filter_map(|path| path.peer.as_deref()).collect()
}

pub(super) fn sentences(facts: &Facts) -> Vec<String> {
    let Some(route) = facts.speaker.as_ref().and_then(|speaker| speaker.route.as_ref()) else {
        return Vec::new();
    };
    if learned(route).next().is_none() {
        return Vec::new();
    }
    let mut said: Vec<String> = decision(route).into_iter().collect();
    said.extend(learned(route).take(SHOWN).map(of_path));
    let more = learned(route).skip(SHOWN).count();
    if more > 0 {
        said.push(format!("There are {more} more paths; -o json has them all."));
    }
    if facts.origin.since.is_some() {
        said.push(match rivals(route).is_empty() {
            true => "That is our own announcement come back, or that of another node of our AS; \
                     `flock-agent check` tells which."
                .to_owned(),
            false => {
                "Another node may have the same network or address; `flock-agent check` tells."
                    .to_owned()
            }
        });
    }
    said
}

fn decision(route: &Route) -> Option<String> {
    let reason = route.reason?;
    if route.paths.iter().any(|path| path.best && path.peer.is_none()) {
        return Some("This node originates it, so no peer's path is used.".to_owned());
    }
    let sharing = sharing(route);
    let best = learned(route).find(|path| path.best)?.peer.as_deref()?;
    Some(match reason {
        Reason::Only => format!("{best} told the only path that is used."),
        _ if sharing.len() > 1 => format!(
            "The paths of {} are equally good and share the traffic; {best}'s counts as the best \
             ({reason}).",
            list(&sharing)
        ),
        reason => format!("{best}'s path won: {reason}."),
    })
}

fn of_path(path: &Path) -> String {
    let peer = path.peer.as_deref().unwrap_or_default();
    let what = path.attributes.as_ref().map(|of| told(&attributes(of, false))).unwrap_or_default();
    let stale =
        if path.stale { "; stale: the peer restarts, and it is kept meanwhile" } else { "" };
    match (path.withheld, path.lost) {
        (Some(why), _) => format!("{peer} told it; refused: {}.", refusal(why)),
        (None, None) => format!("{peer} told it: {what}; used{stale}."),
        (None, Some(_)) if path.equal => format!("{peer} told it: {what}; used as well{stale}."),
        (None, Some(Reason::Originated)) => {
            format!("{peer} told it: {what}; not used: this node originates it{stale}.")
        }
        (None, Some(step)) => {
            format!("{peer} told it: {what}; not used: {}{stale}.", better(step))
        }
    }
}

/// What the other has that this one has not.
fn better(step: Reason) -> String {
    match step {
        Reason::External => "another came from an external peer".to_owned(),
        step => format!("another has a {step}"),
    }
}

fn refusal(why: Withheld) -> String {
    match why {
        Withheld::NotAccepted => format!("{why} (spec.bgp.peers[].import.accept)"),
        why => why.to_string(),
    }
}

/// The step that decided.
pub(super) fn step(facts: &Facts) -> Option<String> {
    let route = facts.speaker.as_ref()?.route.as_ref()?;
    learned(route).next()?;
    route.reason.map(|reason| reason.to_string())
}

/// For machines.
pub(super) fn answers(facts: &Facts) -> Vec<ExplainedPath> {
    let route = facts.speaker.as_ref().and_then(|speaker| speaker.route.as_ref());
    let paths = route.map(|route| route.paths.as_slice()).unwrap_or_default();
    let answer = |path: &Path| ExplainedPath {
        peer: path.peer.clone(),
        attributes: path.attributes.as_ref().map(|of| attributes(of, path.peer.is_none())),
        best: path.best,
        equal: path.equal,
        stale: path.stale,
        refused: path.withheld.map(|why| why.to_string()),
        lost: path.lost.map(|step| step.to_string()),
    };
    paths.iter().map(answer).collect()
}
