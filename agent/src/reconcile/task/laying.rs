//! The node's routes in the kernel: laid, taken away, read again. What they should be is decided by
//! `desired`; when, by the pass.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use flock_dataplane::{Error, NodeRoute, RouteWish};
use ipnet::IpNet;
use tokio::time::Instant;

use super::super::desired;
use super::Task;
use crate::metrics::Repair;

/// How long the route of a withdrawn anycast address stays.
const LINGER: Duration = Duration::from_secs(5);
/// Routes of withdrawn addresses are taken away so often: with hundreds of withdrawals a second each
/// would be a job of its own.
const GRID: Duration = Duration::from_millis(100);
/// After the kernel refused.
const PAUSE: Duration = Duration::from_secs(1);
/// After it refused the same once more.
const LONG_PAUSE: Duration = Duration::from_secs(10);

impl Task {
    /// Lays what is wanted of these and not there, all in one job. Returns what is not wanted any
    /// more.
    pub(super) async fn lay(&mut self, prefixes: &BTreeSet<IpNet>, now: Instant) -> Vec<IpNet> {
        let (mut missing, mut unwanted) = (Vec::new(), Vec::new());
        for prefix in prefixes {
            match self.wanted(*prefix, now) {
                Some(route) if self.installed.get(prefix) == Some(&route) => {
                    self.refused.remove(prefix);
                }
                Some(route) => missing.push((*prefix, route)),
                None => unwanted.push(*prefix),
            }
        }
        if !missing.is_empty() {
            self.install(missing).await;
        }
        unwanted
    }

    /// The route that a prefix should have now.
    fn wanted(&mut self, prefix: IpNet, now: Instant) -> Option<NodeRoute> {
        let holders = self.claims.of(&prefix);
        let installed = self.installed.get(&prefix);
        let served = desired::route(prefix, holders, &self.rules, installed, false);
        let had = matches!(installed, Some(NodeRoute::Anycast { .. }));
        let wanted = if served.is_none() && had {
            let until = *self.lingering.entry(prefix).or_insert(lingers_until(self.began, now));
            desired::route(prefix, holders, &self.rules, installed, now < until)
        } else {
            self.lingering.remove(&prefix);
            served
        };
        if wanted.is_none() {
            self.lingering.remove(&prefix);
            self.refused.remove(&prefix);
        }
        if let Some(until) = self.lingering.get(&prefix).copied() {
            self.again.add(prefix, until);
        }
        wanted
    }

    /// What is there, instead of what is remembered.
    pub(super) async fn read_kernel(&mut self, now: Instant) {
        self.read_again = None;
        match self.dataplane.our_routes().await {
            Ok(routes) => {
                let before = std::mem::take(&mut self.installed);
                self.installed =
                    routes.into_iter().map(|route| (destination(&route), route)).collect();
                let there = |(prefix, route): &(IpNet, NodeRoute)| {
                    self.installed.get(prefix) == Some(route)
                };
                self.gone = before.into_iter().filter(|route| !there(route)).collect();
                *self.signal.installed() = self.installed.keys().copied().collect();
                self.found = true;
                self.unread.is_over();
            }
            Err(error) => {
                if self.unread.is_news(&error) {
                    tracing::error!(%error, "cannot read the node's routes; trying again");
                }
                self.read_again = Some(now + PAUSE);
            }
        }
    }

    async fn install(&mut self, missing: Vec<(IpNet, NodeRoute)>) {
        let wishes = missing.iter().map(|(_, route)| RouteWish::Set(route.clone())).collect();
        let verdicts = self.ask_kernel(wishes).await;
        for ((prefix, route), verdict) in missing.into_iter().zip(verdicts) {
            match verdict {
                Ok(()) => self.is_laid(prefix, route),
                Err(error) => self.is_refused(prefix, &error),
            }
        }
    }

    fn is_laid(&mut self, prefix: IpNet, route: NodeRoute) {
        if self.gone.remove(&prefix).as_ref() == Some(&route) {
            self.metrics.kernel.repaired(Repair::Route);
        }
        self.laid.push((prefix, route.clone()));
        self.refused.remove(&prefix);
        self.installed.insert(prefix, route);
        self.signal.installed().insert(prefix);
    }

    fn is_refused(&mut self, prefix: IpNet, error: &Error) {
        self.metrics.kernel.refused(Repair::Route);
        let words = error.to_string();
        let again = self.refused.get(&prefix) == Some(&words);
        if !again {
            tracing::error!(%prefix, %error, "cannot install a route; trying again");
        }
        self.refused.insert(prefix, words);
        // Whatever is there now is not what was promised; the next try looks first.
        self.installed.remove(&prefix);
        let at = Instant::now() + if again { LONG_PAUSE } else { PAUSE };
        self.read_again = Some(self.read_again.map_or(at, |known| known.min(at)));
        self.again.add(prefix, at);
    }

    /// Takes the routes of these away, all in one job.
    pub(super) async fn remove(&mut self, unwanted: Vec<IpNet>) {
        let (mut wishes, mut going) = (Vec::new(), Vec::new());
        for prefix in unwanted {
            match self.installed.get(&prefix) {
                Some(route) => {
                    // Before it goes: our own removal is no drift.
                    self.signal.installed().remove(&prefix);
                    wishes.push(RouteWish::Remove(route.key()));
                    going.push(prefix);
                }
                None => drop(self.unremoved.remove(&prefix)),
            }
        }
        if going.is_empty() {
            return;
        }
        let verdicts = self.ask_kernel(wishes).await;
        for (prefix, verdict) in going.into_iter().zip(verdicts) {
            match verdict {
                Ok(()) => {
                    tracing::info!(%prefix, "route removed");
                    self.unremoved.remove(&prefix);
                    self.installed.remove(&prefix);
                }
                Err(error) => {
                    if self.unremoved.entry(prefix).or_default().is_news(&*error) {
                        tracing::error!(%prefix, %error, "cannot remove a route; trying again");
                    }
                    self.again.add(prefix, Instant::now() + PAUSE);
                }
            }
        }
    }

    /// A verdict for each; where the kernel cannot be spoken to, that for all.
    async fn ask_kernel(&self, wishes: Vec<RouteWish>) -> Vec<Result<(), Arc<Error>>> {
        let count = wishes.len();
        match self.dataplane.lay(wishes).await {
            Ok(verdicts) => verdicts.into_iter().map(|verdict| verdict.map_err(Arc::new)).collect(),
            Err(error) => vec![Err(Arc::new(error)); count],
        }
    }
}

/// On a grid, so that the routes of many withdrawals go in one job.
fn lingers_until(began: Instant, now: Instant) -> Instant {
    let grid = GRID.as_nanos();
    let past = (now.saturating_duration_since(began).as_nanos() + LINGER.as_nanos()) % grid;
    let rest = u64::try_from(grid - past).unwrap_or_default();
    now + LINGER + Duration::from_nanos(rest)
}

/// Where a route leads, for the log.
pub(super) fn told(route: &NodeRoute) -> String {
    match route {
        NodeRoute::Blackhole { .. } => "unreachable".to_owned(),
        NodeRoute::Anycast { next_hops, .. } => {
            let hops = next_hops.iter().map(|hop| format!("{} dev {}", hop.via, hop.dev));
            hops.collect::<Vec<_>>().join(", ")
        }
    }
}

fn destination(route: &NodeRoute) -> IpNet {
    match route {
        NodeRoute::Blackhole { prefix } => *prefix,
        NodeRoute::Anycast { address, .. } => IpNet::from(*address),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lingering_ends_on_a_grid_and_never_early() {
        let began = Instant::now();
        let at = |millis| began + Duration::from_millis(millis);
        for (now, until) in [(0, 5100), (1, 5100), (99, 5100), (100, 5200), (7050, 12_100)] {
            assert_eq!(lingers_until(began, at(now)), at(until), "{now}");
        }
    }
}
