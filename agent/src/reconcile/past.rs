//! What was announced until lately and is not any more, and why: for people who ask where it went.
//! Bounded, and noted at a cost that does not depend on how much is announced. Decides nothing.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use ipnet::IpNet;
use tokio::time::Instant;

use crate::pods::book::{Attachment, Phase};
use crate::source::Behind;

/// So many withdrawals are remembered.
const KEPT: usize = 1024;

/// Something that is not announced any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Withdrawal {
    /// What.
    pub prefix: IpNet,
    /// Since when.
    pub at: Instant,
    /// Why.
    pub why: Why,
}

/// Why a prefix was withdrawn, as it was then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// The node was drained.
    Drained,
    /// The NodeConfig does not have the network any more, and no pod holds an address of it.
    NotConfigured,
    /// The last pod that it was announced for does not have it, or does not serve it.
    Pod(Arc<str>, Cause),
    /// The kernel does not deliver it; with its words, where it gave some.
    Undelivered(Option<Arc<str>>),
}

/// What became of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// It is gone.
    Detached,
    /// It is about to go.
    Leaving,
    /// Its namespace is gone, and its link with it.
    Orphaned,
    /// Somebody took its route away, and it could not be put back yet.
    Unwired,
    /// A network of the node leads to it.
    Covered,
    /// It is being deleted.
    Terminating,
    /// It is not Ready.
    NotReady,
    /// The API server does not have it any more.
    Unknown,
}

/// What became of a pod for which a prefix is not announced any more.
pub(super) fn cause(attachment: Option<&Attachment>, pod: Option<Behind<'_>>) -> Cause {
    let Some(attachment) = attachment else { return Cause::Detached };
    match attachment.phase {
        Phase::Wiring | Phase::Leaving => Cause::Leaving,
        Phase::Orphaned => Cause::Orphaned,
        Phase::Serving if !attachment.wired => Cause::Unwired,
        Phase::Serving => match pod {
            Some(Behind::Pod(pod)) if pod.terminating => Cause::Terminating,
            Some(Behind::Pod(pod)) if !pod.ready => Cause::NotReady,
            Some(Behind::Gone) => Cause::Unknown,
            _ => Cause::Covered,
        },
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Drained => f.write_str("the node was drained"),
            Self::NotConfigured => f.write_str("the NodeConfig does not have it any more"),
            Self::Pod(pod, cause) => write!(f, "pod {pod} {cause}"),
            Self::Undelivered(None) => f.write_str("its route was not in the kernel"),
            Self::Undelivered(Some(words)) => write!(f, "the kernel refused its route: {words}"),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Detached => "was detached",
            Self::Leaving => "was about to be detached",
            Self::Orphaned => "lost its network namespace",
            Self::Unwired => "lost its route, which could not be put back at once",
            Self::Covered => "is reached by a network of the node",
            Self::Terminating => "was being deleted",
            Self::NotReady => "was not Ready",
            Self::Unknown => "was gone from the API server",
        })
    }
}

/// The last withdrawals, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Past {
    withdrawn: VecDeque<Withdrawal>,
}

impl Past {
    pub(super) fn note(&mut self, withdrawal: Withdrawal) {
        if self.withdrawn.len() == KEPT {
            self.withdrawn.pop_front();
        }
        self.withdrawn.push_back(withdrawal);
    }

    /// The last one of a prefix; one that is announced again has none worth telling.
    pub(super) fn last(&self, prefix: &IpNet) -> Option<&Withdrawal> {
        self.withdrawn.iter().rev().find(|withdrawal| withdrawal.prefix == *prefix)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::source::{PodFacts, PodKey};
    use crate::store::{Allocation, Key};

    #[test]
    fn what_became_of_a_pod() {
        let key = Key { container_id: "c".into(), ifname: "eth0".into() };
        let record = Allocation::new(&key, jiff::Timestamp::UNIX_EPOCH);
        let attached = |phase, wired| Attachment { record: record.clone(), phase, wired };
        let facts = |ready, terminating| PodFacts {
            key: PodKey { namespace: "d".into(), name: "p".into() },
            uid: String::new(),
            static_uid: None,
            annotations: BTreeMap::new(),
            app: Arc::default(),
            image: Arc::default(),
            ready,
            terminating,
            labels: std::sync::Arc::default(),
            ports: std::sync::Arc::default(),
        };
        let serving = attached(Phase::Serving, true);
        let (ready, unready) = (facts(true, false), facts(false, false));
        let (ready, unready) = (Behind::Pod(&ready), Behind::Pod(&unready));
        let going = facts(true, true);
        for (attachment, pod, expected) in [
            (None, None, Cause::Detached),
            (Some(attached(Phase::Leaving, true)), Some(ready), Cause::Leaving),
            (Some(attached(Phase::Orphaned, true)), Some(Behind::Unmentioned), Cause::Orphaned),
            (Some(attached(Phase::Serving, false)), Some(ready), Cause::Unwired),
            (Some(serving.clone()), Some(Behind::Pod(&going)), Cause::Terminating),
            (Some(serving.clone()), Some(unready), Cause::NotReady),
            (Some(serving.clone()), Some(ready), Cause::Covered),
            (Some(serving.clone()), Some(Behind::Gone), Cause::Unknown),
            (Some(serving), Some(Behind::Unmentioned), Cause::Covered),
        ] {
            assert_eq!(cause(attachment.as_ref(), pod), expected);
        }
        let why = Why::Pod("shop/dns-0".into(), Cause::NotReady);
        assert_eq!(why.to_string(), "pod shop/dns-0 was not Ready");
    }

    #[test]
    fn the_last_is_told_and_old_ones_are_forgotten() {
        let mut past = Past::default();
        let prefix = |n: u32| IpNet::from(std::net::IpAddr::V4(n.into()));
        let at = Instant::now();
        let gone = |n, why| Withdrawal { prefix: prefix(n), at, why };
        past.note(gone(1, Why::Drained));
        past.note(gone(1, Why::NotConfigured));
        assert_eq!(past.last(&prefix(1)).map(|w| &w.why), Some(&Why::NotConfigured));
        assert_eq!(past.last(&prefix(2)), None);
        for n in 0..u32::try_from(KEPT).unwrap() {
            past.note(gone(100 + n, Why::Drained));
        }
        assert_eq!(past.last(&prefix(1)), None);
        assert_eq!(past.withdrawn.len(), KEPT);
    }
}
