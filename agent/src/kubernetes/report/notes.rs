//! What becomes an Event, and in which words: incidents of the node, and what became of the NodeConfig
//! from one picture of the world to the next. Pure.

use std::sync::Arc;

use crate::incidents::Incident;
use crate::kubernetes::status::{bounded, refusal};
use crate::source::{NodeState, Standing, World};

/// What an Event holds.
const LONGEST: usize = 1024;

/// An Event before it has an object and a time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Note {
    pub(super) reason: Reason,
    /// Whose session, where it is about one.
    pub(super) peer: Option<Arc<str>>,
    pub(super) words: String,
}

/// In one word, as `kubectl get events` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Reason {
    SessionUp,
    SessionDown,
    SessionFailed,
    ConfigAccepted,
    ConfigRefused,
    ConfigDeleted,
    PoolExhausted,
    PolicyFailed,
}

impl Reason {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::SessionUp => "SessionUp",
            Self::SessionDown => "SessionDown",
            Self::SessionFailed => "SessionFailed",
            Self::ConfigAccepted => "ConfigAccepted",
            Self::ConfigRefused => "ConfigRefused",
            Self::ConfigDeleted => "ConfigDeleted",
            Self::PoolExhausted => "PoolExhausted",
            Self::PolicyFailed => "PolicyFailed",
        }
    }

    pub(super) fn is_warning(self) -> bool {
        !matches!(self, Self::SessionUp | Self::ConfigAccepted)
    }
}

impl Note {
    fn new(reason: Reason, peer: Option<Arc<str>>, words: &str) -> Self {
        Self { reason, peer, words: bounded(words, LONGEST) }
    }
}

/// Of something that happened.
pub(super) fn of(incident: Incident) -> Note {
    match incident {
        Incident::SessionUp { peer } => {
            let words = format!("the BGP session with {peer} is up");
            Note::new(Reason::SessionUp, Some(peer), &words)
        }
        Incident::SessionDown { peer, reason } => {
            let words = format!("the BGP session with {peer} ended: {reason}");
            Note::new(Reason::SessionDown, Some(peer), &words)
        }
        Incident::NoSession { peer, reason } => {
            let words = format!("no BGP session with {peer}: {reason}");
            Note::new(Reason::SessionFailed, Some(peer), &words)
        }
        Incident::PoolExhausted { reason } => {
            let words = format!("a pod gets no address: {reason}");
            Note::new(Reason::PoolExhausted, None, &words)
        }
        Incident::PolicyFailed { reason } => {
            let words = format!(
                "network policies cannot be put in force, what was in force stays: {reason}"
            );
            Note::new(Reason::PolicyFailed, None, &words)
        }
    }
}

/// Of what became of the NodeConfig. `before`: the picture before; none at the start.
pub(super) fn between(before: Option<&World>, now: &World) -> Option<Note> {
    let was = before.and_then(refusal);
    match refusal(now) {
        Some(why) if was != Some(why) => {
            let kept = match now.node.config() {
                Some(_) => "the last good one stays in force",
                None => "none is in force",
            };
            return Some(Note::new(Reason::ConfigRefused, None, &format!("{why}; {kept}")));
        }
        Some(_) => return None,
        None => {}
    }
    let deleted =
        |world: &World| matches!(world.node, NodeState::Known { standing: Standing::Deleted, .. });
    if deleted(now) {
        let words = "the NodeConfig was deleted: pods are kept, new ones refused; create it again";
        let is_news = !before.is_some_and(deleted);
        return is_news.then(|| Note::new(Reason::ConfigDeleted, None, words));
    }
    let bad = was.is_some() || before.is_some_and(deleted);
    let in_force = now.node.config().is_some();
    (bad && in_force)
        .then(|| Note::new(Reason::ConfigAccepted, None, "the NodeConfig is accepted and in force"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;
    use crate::source::{Object, Pods, Secrets};

    fn world(node: NodeState, there: bool) -> World {
        World {
            node,
            pods: Pods::default(),
            problems: Arc::default(),
            secrets: Secrets::default(),
            object: there.then(|| Object { uid: "u".into(), generation: 1 }),
            away: None,
        }
    }

    fn known(standing: Standing) -> World {
        let text = "apiVersion: flock.fritzlab.net/v1alpha1\nkind: NodeConfig\nmetadata: {name: a}\nspec: {}\n";
        let there = standing != Standing::Deleted;
        world(NodeState::Known { config: Arc::new(parse(text).unwrap()), standing }, there)
    }

    #[test]
    fn what_became_of_the_nodeconfig() {
        let unknown =
            |reason: &str, there| world(NodeState::Unknown { reason: reason.into() }, there);
        let good = || known(Standing::InForce);
        let bad = |why: &str| known(Standing::Refused(why.into()));
        let deleted = || known(Standing::Deleted);
        let table = [
            (None, good(), None),
            (None, unknown("not there yet", false), None),
            (
                None,
                unknown("spec.mtu: \"1\"", true),
                Some((Reason::ConfigRefused, "none is in force")),
            ),
            (None, bad("x"), Some((Reason::ConfigRefused, "x; the last good one stays"))),
            (Some(good()), good(), None),
            (
                Some(good()),
                bad("spec.mtu: \"1\""),
                Some((Reason::ConfigRefused, "spec.mtu: \"1\"; ")),
            ),
            (Some(bad("x")), bad("x"), None),
            (Some(bad("x")), bad("y"), Some((Reason::ConfigRefused, "y; "))),
            (Some(bad("x")), good(), Some((Reason::ConfigAccepted, "in force"))),
            (Some(unknown("x", true)), good(), Some((Reason::ConfigAccepted, "in force"))),
            (Some(unknown("not there yet", false)), good(), None),
            (Some(good()), deleted(), Some((Reason::ConfigDeleted, "new ones refused"))),
            (Some(deleted()), deleted(), None),
            (Some(deleted()), good(), Some((Reason::ConfigAccepted, "in force"))),
            (Some(deleted()), bad("x"), Some((Reason::ConfigRefused, "x; "))),
        ];
        for (at, (before, now, wanted)) in table.into_iter().enumerate() {
            let found = between(before.as_ref(), &now);
            assert_eq!(
                found.as_ref().map(|note| note.reason),
                wanted.map(|(reason, _)| reason),
                "{at}"
            );
            if let (Some(note), Some((_, words))) = (&found, wanted) {
                assert!(note.words.contains(words), "{at}: {note:?}");
            }
        }
    }

    #[test]
    fn every_reason_is_in_the_reference() {
        let page = include_str!("../../../../docs/nodeconfig.md");
        let all = [
            Reason::SessionUp,
            Reason::SessionDown,
            Reason::SessionFailed,
            Reason::ConfigAccepted,
            Reason::ConfigRefused,
            Reason::ConfigDeleted,
            Reason::PoolExhausted,
        ];
        for reason in all {
            assert!(page.contains(&format!("`{}`", reason.word())), "{}", reason.word());
        }
    }

    #[test]
    fn an_event_says_who_and_why() {
        let peer = || Arc::<str>::from("tor-a");
        let reason =
            "received Cease / Administrative Shutdown (6/2): maintenance\x1b[31m".to_owned();
        let down = of(Incident::SessionDown { peer: peer(), reason });
        assert_eq!((down.reason.word(), down.reason.is_warning()), ("SessionDown", true));
        assert_eq!(down.peer, Some(peer()));
        let wanted = "the BGP session with tor-a ended: received Cease / Administrative Shutdown (6/2): \
                      maintenance\u{fffd}[31m";
        assert_eq!(down.words, wanted);
        assert!(!of(Incident::SessionUp { peer: peer() }).reason.is_warning());
        let failed = of(Incident::NoSession { peer: peer(), reason: "x".repeat(5000) });
        assert_eq!(failed.reason.word(), "SessionFailed");
        assert!(failed.words.len() <= LONGEST);
        let full = of(Incident::PoolExhausted { reason: "pool 10.1.0.0/24".into() });
        assert_eq!((full.reason.word(), full.peer), ("PoolExhausted", None));
    }
}
