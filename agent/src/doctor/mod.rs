//! The doctor behind `flock-agent check`. It looks at the kernel, the state, the configuration, the
//! runtime's files, the sessions and the clock, and changes nothing; every finding that is not well
//! says what to do.
//!
//! This file decides the order of looking and how long a look may take. Each room decides about its
//! facts as a pure function, with a table for a test.
//!
//! | room | what it judges |
//! |---|---|
//! | `config` | NodeConfig, manifests, whether pods can be added, pools |
//! | `sysctl`, `feature`, `mtu` | the kernel's switches, what it can do, whether packets fit |
//! | `files`, `conflist` | who may read what, room on the disk; what the runtime reads and executes |
//! | `state`, `pods` | book, kernel and source against each other; each pod as CHECK looks at it |
//! | `bgp`, `session`, `remedy` | the speaker, one peer, and what to do about it |
//! | `policy` | network policies |
//! | `clock`, `process` | the wall clock, and the agent's own limits |

mod bgp;
mod clock;
mod config;
mod conflist;
mod feature;
mod files;
mod look;
mod mtu;
mod name;
mod pods;
mod policy;
mod process;
mod remedy;
mod session;
mod state;
mod sysctl;

use std::sync::Arc;
use std::time::Duration;

pub(crate) use config::node_config;
use flock_dataplane::policy::Layout;
pub(crate) use look::pools;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use crate::bgp::Bgp;
use crate::cli::Run;
use crate::cli::check::{Finding, Report};
use crate::config::NodeConfig;
use crate::pods::Pods;
use crate::pods::book::Attachment;

/// How long one room may look. A disk or a kernel that takes longer is a finding itself.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long a start may take.
const YOUTH: Duration = Duration::from_secs(10);
/// So many things are named; more are counted.
const SHOWN: usize = 5;

/// Looks, and answers.
pub struct Doctor {
    pods: Arc<Pods>,
    bgp: Bgp,
    args: Run,
    /// When the agent started, and by how much the wall clock was ahead then.
    started: Instant,
    offset: clock::Offset,
    /// One look at files at a time: a disk that hangs keeps one thread, not one for each check.
    files: Arc<Semaphore>,
}

impl Doctor {
    /// For an agent that runs like this.
    pub fn new(pods: Arc<Pods>, bgp: Bgp, args: &Run) -> Self {
        Self {
            pods,
            bgp,
            args: args.clone(),
            started: Instant::now(),
            offset: clock::Offset::now(),
            files: Arc::new(Semaphore::new(1)),
        }
    }

    /// What it finds, in the order of looking.
    pub async fn examine(&self) -> Result<Report, String> {
        let world = self.pods.source.world();
        let config = world.node.config().cloned();
        let book = self.book().await?;
        let mut findings = config::node_config(&world.node);
        if self.pods.source.is_complete() {
            findings.push(config::api_server(&world));
        } else {
            findings.extend(config::manifests(&world));
        }
        let refused = self.pods.status().await.err().map(|error| error.to_string());
        findings.extend(config::serving(&world, refused));
        let rooms = tokio::join!(
            within("the kernel", self.kernel(&book, config.as_deref())),
            within("files", self.files(config.as_deref())),
            within("routes and links", self.state(&book)),
            within("pods", self.each_pod(&book)),
            within("network policies", self.policies(config.as_deref())),
            within("BGP", self.bgp(config.as_deref())),
        );
        let (kernel, files, state, pods, policies, bgp) = rooms;
        for room in [kernel, files, state, pods, policies, bgp] {
            findings.extend(room);
        }
        Ok(Report { findings })
    }

    /// The agent has just started: what takes a moment may still be to come.
    fn is_young(&self) -> bool {
        self.started.elapsed() < YOUTH
    }

    async fn policies(&self, config: Option<&NodeConfig>) -> Result<Vec<Finding>, String> {
        let dataplane = &self.pods.dataplane;
        let mut present = dataplane.policy_present(Layout { log_drops: false }).await;
        if matches!(present, Ok(false)) && config.is_some_and(|config| config.log_drops) {
            present = dataplane.policy_present(Layout { log_drops: true }).await;
        }
        // Those of files are told with the other manifests.
        let problems = match self.pods.source.is_complete() {
            true => self.pods.source.cluster().borrow().problems.clone(),
            false => Arc::default(),
        };
        let present = present.map_err(|error| error.to_string());
        Ok(policy::judge(&self.pods.gate.standing(), &problems, present, self.is_young()))
    }

    async fn book(&self) -> Result<Vec<Attachment>, String> {
        let all = self.pods.ledger.ask(|book| book.all().cloned().collect()).await;
        all.map_err(|error| error.to_string())
    }
}

/// A room's findings; that it could not look is one, too.
async fn within(
    what: &str,
    look: impl Future<Output = Result<Vec<Finding>, String>>,
) -> Vec<Finding> {
    let trouble = |message: String| {
        let remedy = "ask again; where it stays so, see the agent's log and the node's load";
        vec![Finding::warn(name::LOOKING, message, remedy)]
    };
    match timeout(PATIENCE, look).await {
        Ok(Ok(findings)) => findings,
        Ok(Err(error)) => trouble(format!("{what} could not be looked at: {error}")),
        Err(_) => trouble(format!("{what} could not be looked at within {PATIENCE:?}")),
    }
}

/// The first few, and how many more.
fn shorten<'a>(items: impl ExactSizeIterator<Item = &'a str>) -> String {
    let more = items.len().saturating_sub(SHOWN);
    let shown = items.take(SHOWN).collect::<Vec<_>>().join("; ");
    if more == 0 { shown } else { format!("{shown}; and {more} more") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_are_counted() {
        let names = ["a", "b", "c", "d", "e", "f", "g"];
        assert_eq!(shorten(names[..2].iter().copied()), "a; b");
        assert_eq!(shorten(names.iter().copied()), "a; b; c; d; e; and 2 more");
    }

    #[tokio::test(start_paused = true)]
    async fn what_takes_too_long_is_a_finding() {
        let slow = std::future::pending::<Result<Vec<Finding>, String>>();
        let found = within("the moon", slow).await;
        assert!(found[0].message.contains("the moon could not be looked at within"), "{found:?}");
        let broken = std::future::ready(Err("no".to_owned()));
        assert!(within("it", broken).await[0].message.ends_with("looked at: no"));
    }
}
