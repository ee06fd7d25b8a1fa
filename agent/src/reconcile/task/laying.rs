//! The node's routes in the kernel: laid, taken away, read again. What they should be is decided by
//! `desired`; when, by the pass.

use std::time::Duration;

use flock_dataplane::NodeRoute;
use ipnet::IpNet;
use tokio::time::Instant;

use super::super::desired;
use super::Task;
use crate::metrics::Repair;

/// How long the route of a withdrawn anycast address stays.
const LINGER: Duration = Duration::from_secs(5);
/// After the kernel refused.
const PAUSE: Duration = Duration::from_secs(1);
/// After it refused the same once more.
const LONG_PAUSE: Duration = Duration::from_secs(10);

impl Task {
    /// Makes the kernel's route for a prefix what it should be.
    pub(super) async fn lay(&mut self, prefix: IpNet, now: Instant) {
        let holders = self.claims.of(&prefix);
        let installed = self.installed.get(&prefix);
        let served = desired::route(prefix, holders, &self.rules, installed, false);
        let had = matches!(installed, Some(NodeRoute::Anycast { .. }));
        let wanted = if served.is_none() && had {
            let until = *self.lingering.entry(prefix).or_insert(now + LINGER);
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
            self.look_again(prefix, until);
        }
        match wanted {
            Some(route) if self.installed.get(&prefix) == Some(&route) => {
                self.refused.remove(&prefix);
            }
            Some(route) => self.install(prefix, route).await,
            None => self.remove(prefix).await,
        }
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
                self.signal.installed().extend(self.installed.keys().copied());
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

    async fn install(&mut self, prefix: IpNet, route: NodeRoute) {
        match self.dataplane.set_route(route.clone()).await {
            Ok(()) => {
                if self.gone.remove(&prefix).as_ref() == Some(&route) {
                    self.metrics.kernel.repaired(Repair::Route);
                }
                self.laid.push((prefix, told(&route)));
                self.refused.remove(&prefix);
                self.installed.insert(prefix, route);
                self.signal.installed().insert(prefix);
            }
            Err(error) => {
                self.metrics.kernel.refused(Repair::Route);
                let words = error.to_string();
                let again = self.refused.get(&prefix) == Some(&words);
                if !again {
                    tracing::error!(%prefix, %error, "cannot install a route; trying again");
                }
                self.refused.insert(prefix, words);
                // Whatever is there now is not what was promised; the next try looks first.
                self.installed.remove(&prefix);
                let pause = if again { LONG_PAUSE } else { PAUSE };
                let at = Instant::now() + pause;
                self.read_again = Some(self.read_again.map_or(at, |known| known.min(at)));
                self.look_again(prefix, at);
            }
        }
    }

    async fn remove(&mut self, prefix: IpNet) {
        let Some(route) = self.installed.get(&prefix) else {
            self.unremoved.remove(&prefix);
            return;
        };
        // Before it goes: our own removal is no drift.
        self.signal.installed().remove(&prefix);
        match self.dataplane.remove_route(route.key()).await {
            Ok(()) => {
                tracing::info!(%prefix, "route removed");
                self.unremoved.remove(&prefix);
                self.installed.remove(&prefix);
            }
            Err(error) => {
                if self.unremoved.entry(prefix).or_default().is_news(&error) {
                    tracing::error!(%prefix, %error, "cannot remove a route; trying again");
                }
                self.look_again(prefix, Instant::now() + PAUSE);
            }
        }
    }
}

/// Where a route leads, for the log.
fn told(route: &NodeRoute) -> String {
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
