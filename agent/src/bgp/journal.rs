//! What the speaker tells, as lines for operators: sessions up and down with the reason, the codes,
//! the peer's own words and how long it lasted; what was refused; what somebody else claims. That a
//! session does not come about is told once for each reason, not with every attempt.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flock_bgp::{DownReason, Notice, PeerKey, State, Withheld};
use flock_bgp_io::{Handle, Told};

use crate::incidents::{Incident, Incidents};
use crate::reconcile::Reconciler;

/// Reasons remembered of one peer; attempts fail in few ways.
const MOST_SAID: usize = 8;

/// What was said of peers.
#[derive(Default)]
pub(super) struct Journal {
    incidents: Incidents,
    /// Of those that are down, since they were last up.
    down: HashMap<Arc<str>, Vec<String>>,
    /// Since when the others are up.
    up: HashMap<Arc<str>, Instant>,
}

impl Journal {
    /// Nothing was said yet. Sessions that begin and end are told there, too.
    pub(super) fn new(incidents: Incidents) -> Self {
        Self { incidents, ..Self::default() }
    }

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
                self.up.insert(name.clone(), Instant::now());
                up(key, &name, handle).await;
                self.incidents.tell(Incident::SessionUp { peer: name });
                false
            }
            Notice::Down(_, name, reason) => {
                self.went_down(name, &reason);
                false
            }
            Notice::Malformed { peer, name, attribute, what } => {
                // Told once a second at most: how many there were is in the total.
                let status = handle.query(move |speaker| speaker.peer(peer)).await.ok().flatten();
                let total = status.map(|status| status.faults);
                tracing::warn!(peer = &*name, attribute, total, reason = %what, "a malformed UPDATE was survived");
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
                    tracing::info!(peer, prefix = %net, reason = %why, more, "route refused");
                } else {
                    tracing::warn!(peer, prefix = %net, reason = %why, more, "route refused");
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

    /// The end of a session is told each time; that none comes about, once for each reason.
    fn went_down(&mut self, name: Arc<str>, reason: &DownReason) {
        let words = reason.to_string();
        let gist = gist(reason, &words);
        let said = self.down.entry(name.clone()).or_default();
        let again = said.contains(&gist);
        if !again && said.len() < MOST_SAID {
            said.push(gist);
        }
        let (peer, said) = (&*name, reason.words());
        let (code, subcode) = reason.code().unzip();
        if let Some(since) = self.up.remove(&name) {
            let lasted = humantime::format_duration(whole_seconds(since.elapsed())).to_string();
            tracing::warn!(peer, reason = words, code, subcode, said, lasted, "session down");
            self.incidents.tell(Incident::SessionDown { peer: name, reason: words });
        } else if again {
            tracing::debug!(peer, reason = words, "still no session");
        } else {
            tracing::warn!(peer, reason = words, code, subcode, said, "no session");
            self.incidents.tell(Incident::NoSession { peer: name, reason: words });
        }
    }
}

/// Whom it is about.
pub(super) fn peer(told: &Told) -> Option<&str> {
    let Told::Notice(notice) = told else { return None };
    let (Notice::Up(_, name)
    | Notice::Down(_, name, _)
    | Notice::EndOfRib(_, name, _)
    | Notice::Told(_, name, _)
    | Notice::Malformed { name, .. }
    | Notice::Refused { name, .. }
    | Notice::Contested { name, .. }) = notice;
    Some(name)
}

fn whole_seconds(time: Duration) -> Duration {
    Duration::from_secs(time.as_secs())
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
    fn what_is_told_to_those_far_away_is_what_the_log_warns_of() {
        let (incidents, mut heard) = Incidents::heard();
        let mut journal = Journal::new(incidents);
        let peer = || Arc::<str>::from("tor-a");
        let reason = DownReason::Received(6, 4, Default::default());
        let words = "received Cease: Administrative Reset (6/4)".to_owned();
        journal.went_down(peer(), &reason);
        journal.went_down(peer(), &reason);
        journal.up.insert(peer(), Instant::now());
        journal.went_down(peer(), &reason);
        assert_eq!(
            std::iter::from_fn(|| heard.try_recv().ok()).collect::<Vec<_>>(),
            [
                Incident::NoSession { peer: peer(), reason: words.clone() },
                Incident::SessionDown { peer: peer(), reason: words },
            ]
        );
    }

    #[test]
    fn attempts_that_differ_in_numbers_only_are_one_story() {
        let mut journal = Journal::default();
        let refused = |what: &str| DownReason::Refused(Refusal { what: what.into() });
        let told = |journal: &mut Journal, reason: &DownReason| {
            let before = journal.down.get("tor-a").cloned();
            journal.went_down("tor-a".into(), reason);
            journal.down.get("tor-a").cloned() != before
        };
        journal.up.insert("tor-a".into(), Instant::now());
        journal.went_down("tor-a".into(), &DownReason::Closed(None));
        assert!(journal.up.is_empty(), "it lasted until now");
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
