//! Looking at pods: each as CHECK would, and all of them together against the kernel's tables.
//! Differences count only when they last: pods come and go while the doctor looks.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use flock_dataplane::Netns;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::name::PODS;
use super::state::{self, Differences};
use super::{Doctor, look, shorten};
use crate::cli::check::Finding;
use crate::pods::book::{Attachment, Phase};
use crate::pods::{self, Pods};
use crate::store::Allocation;

/// Between two looks at what does not agree.
const MOMENT: Duration = Duration::from_millis(300);
/// How long pods are looked at one by one; on a busy node, some of them.
const ONE_BY_ONE: Duration = Duration::from_millis(1500);
/// Looked at together: the kernel's threads are two, and calls of the runtime come first.
const TOGETHER: usize = 2;

/// What is wrong with a pod.
enum Wrong {
    /// Its namespace is gone.
    Dead(String),
    /// The kernel differs from the record.
    Differs(Vec<String>),
}

impl Doctor {
    /// Book, kernel and source against each other.
    pub(super) async fn state(&self, book: &[Attachment]) -> Result<Vec<Finding>, String> {
        let (first, routes) = self.compare(book).await?;
        let lasting = if first == Differences::default() {
            first
        } else {
            tokio::time::sleep(MOMENT).await;
            let (again, _) = self.compare(&self.book().await?).await?;
            again.lasting(&first)
        };
        let world = self.pods.source.world();
        let mut findings = state::judge(&lasting, book.len(), routes);
        findings.push(state::held_twice(book));
        findings.push(state::leaked(book, &world.pods, self.pods.source.is_complete()));
        findings.extend(look::pools(&self.pods, world.node.config().map(AsRef::as_ref)).await);
        Ok(findings)
    }

    async fn compare(&self, book: &[Attachment]) -> Result<(Differences, usize), String> {
        let told = |error: flock_dataplane::Error| error.to_string();
        let dataplane = &self.pods.dataplane;
        let kernel = state::Kernel {
            links: dataplane.links().await.map_err(told)?,
            pod_routes: dataplane.pod_routes().await.map_err(told)?,
            node_routes: dataplane.our_routes().await.map_err(told)?,
        };
        let expected = self.pods.reconciler.ask(state::expected).await;
        let expected = expected.ok_or("the reconciler has ended")?;
        Ok((state::compare(book, &kernel, &expected), kernel.node_routes.len()))
    }

    /// Every pod, as CHECK would look at it.
    pub(super) async fn each_pod(&self, book: &[Attachment]) -> Result<Vec<Finding>, String> {
        let serving = || book.iter().filter(|attachment| attachment.phase == Phase::Serving);
        let all: VecDeque<Allocation> = serving().map(|a| a.record.clone()).collect();
        let count = all.len();
        let (looked_at, mut wrong) = self.look_at(all).await;
        if !wrong.is_empty() {
            tokio::time::sleep(MOMENT).await;
            wrong = self.look_at(self.still_there(wrong).await?).await.1;
        }
        let orphans = book.iter().filter(|attachment| attachment.phase == Phase::Orphaned);
        let orphans = orphans.map(|attachment| pods::called(&attachment.record));
        Ok(vec![judge(orphans.collect(), &wrong, looked_at, count)])
    }

    /// Those that are wrong, where they are still the pods that they were.
    async fn still_there(
        &self,
        wrong: Vec<(Allocation, Wrong)>,
    ) -> Result<VecDeque<Allocation>, String> {
        let book = self.book().await?;
        let is_there = |record: &Allocation| {
            book.iter().any(|attachment| {
                attachment.phase == Phase::Serving
                    && attachment.record.key() == record.key()
                    && attachment.record.allocated_at == record.allocated_at
            })
        };
        Ok(wrong.into_iter().map(|(record, _)| record).filter(is_there).collect())
    }

    /// How many were looked at, and what is wrong with which.
    async fn look_at(&self, mut left: VecDeque<Allocation>) -> (usize, Vec<(Allocation, Wrong)>) {
        let deadline = Instant::now() + ONE_BY_ONE;
        let (mut under_way, mut wrong, mut looked_at) = (JoinSet::new(), Vec::new(), 0);
        loop {
            while under_way.len() < TOGETHER && Instant::now() < deadline {
                let Some(record) = left.pop_front() else { break };
                under_way.spawn(verify(Arc::clone(&self.pods), record));
            }
            let Some(done) = under_way.join_next().await else { break };
            let Ok((record, outcome)) = done else { continue };
            looked_at += 1;
            wrong.extend(outcome.map(|outcome| (record, outcome)));
        }
        (looked_at, wrong)
    }
}

async fn verify(all: Arc<Pods>, record: Allocation) -> (Allocation, Option<Wrong>) {
    // A store that was taken over may not say where the pod is.
    let Some(path) = record.netns.clone() else { return (record, None) };
    let netns = match Netns::open(&path) {
        Ok(netns) => netns,
        Err(error) => return (record, Some(Wrong::Dead(error.to_string()))),
    };
    let differences = match all.dataplane.verify(pods::link(&record, netns)).await {
        Ok(found) => found.iter().map(ToString::to_string).collect(),
        Err(error) => vec![error.to_string()],
    };
    let differs = (!differences.is_empty()).then_some(Wrong::Differs(differences));
    (record, differs)
}

fn judge(
    orphans: Vec<String>,
    wrong: &[(Allocation, Wrong)],
    looked_at: usize,
    count: usize,
) -> Finding {
    let (mut dead, mut differing) = (orphans, Vec::new());
    for (record, wrong) in wrong {
        let pod = pods::called(record);
        match wrong {
            Wrong::Dead(why) => dead.push(format!("{pod}: {why}")),
            Wrong::Differs(all) => differing.extend(all.iter().map(|one| format!("{pod}: {one}"))),
        }
    }
    if !differing.is_empty() {
        return Finding::fail(
            PODS,
            shorten(differing.iter().map(String::as_str)),
            "see the agent's log for why it could not repair them; deleting the pod and starting \
             it again always helps",
        );
    }
    if !dead.is_empty() {
        return Finding::warn(
            PODS,
            format!("gone, and still on the books: {}", shorten(dead.iter().map(String::as_str))),
            "the runtime owes a DEL or a GC: see its log, or start it again",
        );
    }
    if looked_at < count {
        let words = format!("{looked_at} of {count} as recorded; there was no time for the others");
        return Finding::ok(PODS, words);
    }
    Finding::ok(PODS, format!("{count} as recorded"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::check::Status;
    use crate::store::Key;

    #[test]
    fn what_differs_is_worse_than_what_is_gone() {
        let key = Key { container_id: "c1".into(), ifname: "eth0".into() };
        let record = Allocation::new(&key, jiff::Timestamp::UNIX_EPOCH);
        let dead = || vec![(record.clone(), Wrong::Dead("no such file".into()))];
        let differs = || (record.clone(), Wrong::Differs(vec!["a".into(), "b".into()]));
        let table = [
            (vec![], vec![], 3, Status::Ok, "3 as recorded"),
            (vec![], vec![], 2, Status::Ok, "2 of 3 as recorded"),
            (vec!["shop/web-0".to_owned()], vec![], 3, Status::Warn, "shop/web-0"),
            (vec![], dead(), 3, Status::Warn, "container c1: no such file"),
            (vec![], vec![differs()], 3, Status::Fail, "container c1: a; container c1: b"),
            (vec!["x".to_owned()], vec![differs()], 3, Status::Fail, "container c1: a"),
        ];
        for (orphans, wrong, looked_at, status, words) in table {
            let finding = judge(orphans, &wrong, looked_at, 3);
            assert_eq!(finding.status, status, "{finding:?}");
            assert!(finding.message.contains(words), "{finding:?}");
            assert_eq!(finding.status == Status::Ok, finding.remedy.is_empty());
        }
    }
}
