//! What the speaker tells, as lines for operators: sessions up and down with the reason, the codes
//! and the peer's own words; what was refused; what somebody else claims. A peer that cannot be
//! reached is told once, not with every attempt.

use std::collections::HashMap;
use std::sync::Arc;

use flock_bgp::{DownReason, Notice, PeerKey, State, Withheld};
use flock_bgp_io::{Handle, Told};

use crate::reconcile::Reconciler;

/// Reasons remembered of one peer; attempts fail in few ways.
const MOST_SAID: usize = 8;

/// What was said of peers that are down, since they were last up.
#[derive(Default)]
pub(super) struct Journal {
    down: HashMap<Arc<str>, Vec<String>>,
}

impl Journal {
    /// Writes what there is to say. True when it may mean that two nodes claim the same.
    pub(super) async fn write(
        &mut self,
        told: Told,
        handle: &Handle,
        reconciler: &Reconciler,
    ) -> bool {
        let notice = match told {
            Told::Notice(notice) => notice,
            Told::Missed(count) => {
                tracing::warn!(count, "events of the speaker were lost; its state is not");
                return true;
            }
        };
        match notice {
            Notice::Up(key, name) => {
                self.down.remove(&name);
                up(key, &name, handle).await;
                false
            }
            Notice::Down(_, name, reason) => {
                self.went_down(name, &reason);
                false
            }
            Notice::Malformed { name, attribute, what, .. } => {
                tracing::warn!(peer = &*name, attribute, %what, "a malformed UPDATE was survived");
                false
            }
            Notice::EndOfRib(_, name, family) => {
                tracing::info!(peer = &*name, %family, "the peer has told everything");
                true
            }
            Notice::Told(_, name, family) => {
                tracing::info!(peer = &*name, %family, "everything is told");
                false
            }
            Notice::Refused { name, net, why, more, .. } => {
                let peer = &*name;
                // Everyday where routers tell all that they are connected to; a conflict of two
                // nodes gets a line of its own.
                let ours =
                    matches!(why, Withheld::OwnPods | Withheld::OwnPodsLoop | Withheld::Connected);
                if ours {
                    tracing::info!(peer, prefix = %net, %why, more, "route refused");
                } else {
                    tracing::warn!(peer, prefix = %net, %why, more, "route refused");
                }
                ours
            }
            Notice::Contested { name, net, .. } => {
                // Several nodes announce an anycast address: that is what it is for.
                let shared = reconciler.ask(move |picture| picture.claims.is_anycast(&net)).await;
                tracing::debug!(peer = &*name, prefix = %net, "announced elsewhere, too");
                shared != Some(true)
            }
        }
    }

    fn went_down(&mut self, name: Arc<str>, reason: &DownReason) {
        let words = reason.to_string();
        let gist = gist(reason, &words);
        let said = self.down.entry(name.clone()).or_default();
        let again = said.contains(&gist);
        if !again && said.len() < MOST_SAID {
            said.push(gist);
        }
        let (code, subcode) = reason.code().unzip();
        if again {
            tracing::debug!(peer = &*name, reason = words, "still down");
        } else {
            tracing::warn!(
                peer = &*name,
                reason = words,
                code,
                subcode,
                said = reason.words(),
                "session down"
            );
        }
    }
}

/// What makes one reason another one. How long an answer was awaited, and what was counted
/// meanwhile, differs with every attempt and is no news.
fn gist(reason: &DownReason, words: &str) -> String {
    match reason {
        DownReason::Refused(_) => words.chars().filter(|c| !c.is_ascii_digit()).collect(),
        _ => words.to_owned(),
    }
}

async fn up(key: PeerKey, name: &str, handle: &Handle) {
    let status = handle.query(move |speaker| speaker.peer(key)).await.ok().flatten();
    let Some(status) = status.filter(|status| status.state == State::Established) else {
        tracing::info!(peer = name, "session up");
        return;
    };
    let families = status.families.iter().filter(|family| family.negotiated);
    let families: Vec<&str> = families.map(|family| family.family.name()).collect();
    let hold = status.negotiated.as_ref().and_then(|negotiated| negotiated.hold_time);
    tracing::info!(
        peer = name,
        address = %status.address,
        asn = status.asn,
        families = families.join(","),
        hold_time = hold.map(|hold| hold.as_secs()),
        "session up"
    );
    for family in &status.families {
        if let Some(reason) = &family.not_announced {
            tracing::warn!(
                peer = name,
                family = family.family.name(),
                reason,
                "nothing of this family is announced"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use flock_bgp::Refusal;

    use super::*;

    #[test]
    fn attempts_that_differ_in_numbers_only_are_one_story() {
        let mut journal = Journal::default();
        let refused = |what: &str| DownReason::Refused(Refusal { what: what.into() });
        let told = |journal: &mut Journal, reason: &DownReason| {
            let before = journal.down.get("tor-a").cloned();
            journal.went_down("tor-a".into(), reason);
            journal.down.get("tor-a").cloned() != before
        };
        for (reason, news) in [
            (refused("no answer within 3.9s"), true),
            (refused("no answer within 4.2s"), false),
            (refused("no answer within 4.2s; segments were dropped (2)"), true),
            (refused("no answer within 3.8s; segments were dropped (1)"), false),
            (refused("Connection refused (os error 111)"), true),
            (DownReason::Sent(6, 1, Default::default()), true),
            (DownReason::Sent(6, 2, Default::default()), true),
        ] {
            assert_eq!(told(&mut journal, &reason), news, "{reason}");
        }
    }
}
