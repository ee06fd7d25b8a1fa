//! Repairs what somebody removed: the monitor says what changed in the kernel, the book says
//! whether it was ours and still wanted, and the dataplane makes it so again.
//!
//! Our own removals produce the same events; by then the book says otherwise, so they are nothing.
//! A pod whose namespace has gone is left for DEL. Repairs are paced: a fight with another program
//! over one route must not become a storm.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use flock_dataplane::{Difference, Drift, Netns, NodeSettings, PodRoute};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use ipnet::IpNet;
use tokio::sync::mpsc;
use tracing::Instrument;

use super::book::{Attachment, Book, Phase, own_addresses};
use super::{Pods, called, link};
use crate::bgp::Bgp;
use crate::metrics::{Leak, Repair};
use crate::store::{Allocation, Key};

/// Repairs a second at most.
const PACE: NonZeroU32 = NonZeroU32::new(50).unwrap();

/// When repairs that failed are tried again.
const RETRY: Duration = Duration::from_secs(5);
/// Drift that waits for repair; a full queue fills the monitor's, which then tells of everything.
const QUEUE: usize = 1024;

/// Follows the monitor. What concerns the ways out of the node is told at once: it must not wait for
/// the repair of pods.
pub async fn follow(pods: Arc<Pods>, mut drifts: mpsc::Receiver<Drift>, bgp: Bgp) {
    let (queue, repairs) = mpsc::channel(QUEUE);
    let metrics = pods.metrics.clone();
    tokio::spawn(pods.keep_repaired(repairs));
    while let Some(drift) = drifts.recv().await {
        metrics.kernel.drifted(&drift);
        match &drift {
            Drift::NetworksChanged | Drift::Lost => bgp.networks_changed().await,
            Drift::RouteGone { destination } => {
                bgp.fib().recheck_if_installed(destination).await;
            }
            _ => {}
        }
        if drift != Drift::NetworksChanged && queue.send(drift).await.is_err() {
            return;
        }
    }
    tracing::error!("the kernel monitor has ended; drift is no longer repaired");
}

impl Pods {
    /// Repairs what it is told of. The first thing done is a full look, because anything may have
    /// happened while the agent was away.
    async fn keep_repaired(self: Arc<Self>, mut drifts: mpsc::Receiver<Drift>) {
        let pace = RateLimiter::direct(Quota::per_second(PACE));
        self.repair_all().await;
        loop {
            let again = self.ledger.ask(|book| book.unwired()).await.unwrap_or_default();
            let drift = if again.is_empty() {
                drifts.recv().await
            } else {
                match tokio::time::timeout(RETRY, drifts.recv()).await {
                    Ok(drift) => drift,
                    Err(_) => {
                        for key in again {
                            pace.until_ready().await;
                            self.repair(key).await;
                        }
                        continue;
                    }
                }
            };
            let Some(drift) = drift else { return };
            self.repair_after(drift, &pace).await;
        }
    }

    async fn repair_after(&self, drift: Drift, pace: &DefaultDirectRateLimiter) {
        match drift {
            Drift::LinkGone { name: ifname } => {
                let find = move |book: &mut Book| {
                    book.stranger_gone(&ifname);
                    book.by_host_ifname(&ifname).cloned()
                };
                self.repair_found(find, pace).await;
            }
            // With a link, or its last IPv4 address, the kernel drops routes without a word.
            Drift::LinkDown { name: ifname } | Drift::AddressGone { ifname, .. } => {
                let find = move |book: &mut Book| book.by_host_ifname(&ifname).cloned();
                self.repair_found(find, pace).await;
            }
            Drift::RouteGone { destination } => {
                let address = destination.addr();
                let find = move |book: &mut Book| book.by_address(address).cloned();
                self.repair_found(find, pace).await;
                self.reconciler.recheck_if_installed(&destination);
            }
            Drift::RulesGone => {
                pace.until_ready().await;
                tracing::warn!("the anti-spoofing rules were removed; putting them back");
                match self.dataplane.prepare_node(&NodeSettings::default()).await {
                    Ok(()) => self.metrics.kernel.repaired(Repair::Rules),
                    Err(error) => {
                        self.metrics.kernel.refused(Repair::Rules);
                        tracing::error!(%error, "cannot put the anti-spoofing rules back");
                    }
                }
                // The table also admitted anycast addresses by name.
                self.repair_all().await;
            }
            Drift::PolicyGone => {
                pace.until_ready().await;
                tracing::warn!("the rules of network policies were changed; putting them back");
                self.metrics.kernel.repaired(Repair::Policy);
                self.gate.recheck().await;
            }
            // Events were lost, or of a kind that is newer than this: look at everything.
            _ => {
                pace.until_ready().await;
                self.gate.recheck().await;
                self.repair_all().await;
                self.reconciler.recheck();
            }
        }
    }

    /// Mends an attachment if the book has it and it is serving; what a DEL of our own removed is
    /// neither by now, and costs a look into the book.
    async fn repair_found(
        &self,
        find: impl FnOnce(&mut Book) -> Option<Attachment> + Send + 'static,
        pace: &DefaultDirectRateLimiter,
    ) {
        let Ok(Some(attachment)) = self.ledger.ask(find).await else { return };
        if attachment.phase != Phase::Serving {
            return;
        }
        pace.until_ready().await;
        self.repair(attachment.record.key()).await;
        if !attachment.record.anycast.is_empty() {
            self.reconciler.recheck();
        }
    }

    async fn repair_all(&self) {
        let keys: Vec<Key> = self
            .ledger
            .ask(|book| book.all().map(|attachment| attachment.record.key()).collect())
            .await
            .unwrap_or_default();
        for key in keys {
            self.repair(key).await;
        }
    }

    /// Looks at one attachment in its turn and mends it if it still is to be there.
    async fn repair(&self, key: Key) {
        let _turn = self.turns.take(&key.container_id).await;
        let found = self.ledger.ask(move |book| book.get(&key).cloned()).await;
        let Ok(Some(attachment)) = found else { return };
        let Some(netns) = living_namespace(&attachment) else {
            self.orphan(&attachment).await;
            return;
        };
        let span = tracing::error_span!("repair", pod = called(&attachment.record));
        let mend = async {
            let mended = self.dataplane.repair(link(&attachment.record, netns)).await;
            match &mended {
                Ok(repaired) if repaired.is_empty() => {}
                Ok(repaired) => {
                    self.metrics.kernel.repaired(Repair::Pod);
                    tracing::warn!(repaired = list(repaired), "repaired");
                }
                // It is tried again every few seconds; that is told once.
                Err(error) if attachment.wired => {
                    tracing::error!(%error, "cannot repair; trying again");
                }
                Err(error) => tracing::debug!(%error, "still cannot repair"),
            }
            if mended.is_err() {
                self.metrics.kernel.refused(Repair::Pod);
            }
            mended.is_ok()
        };
        let wired = mend.instrument(span).await;
        self.note_wired(&attachment, wired).await;
    }

    /// What cannot be reached is not announced.
    async fn note_wired(&self, attachment: &Attachment, wired: bool) {
        if attachment.wired == wired {
            return;
        }
        let key = attachment.record.key();
        let _ = self.ledger.ask(move |book| book.set_wired(&key, wired)).await;
        self.reconciler.wake();
    }

    /// The namespace is gone. If the link went with it, the pod is dead, and nothing may lead to it
    /// any more; its entry waits for the runtime's DEL.
    async fn orphan(&self, attachment: &Attachment) {
        if attachment.phase != Phase::Serving {
            return;
        }
        let Ok(links) = self.dataplane.links().await else { return };
        if links.iter().any(|link| link.name == attachment.host_ifname()) {
            // It lives (its namespace was not written down, or has lost its name): it cannot be
            // mended, but is announced only while the kernel leads to it.
            if let Ok(routes) = self.dataplane.pod_routes().await {
                self.note_wired(attachment, leads_to(&attachment.record, &routes)).await;
            }
            return;
        }
        tracing::warn!(
            pod = called(&attachment.record),
            "its namespace is gone, and its link with it; waiting for DEL"
        );
        self.metrics.ipam.leaked(Leak::AttachmentWithoutLink, 1);
        let key = attachment.record.key();
        let _ = self.ledger.ask(move |book| book.set(&key, Phase::Orphaned, None)).await;
        self.reconciler.recheck();
    }
}

/// Whether the kernel has a route to every address of its own.
pub(super) fn leads_to(record: &Allocation, routes: &[PodRoute]) -> bool {
    let has =
        |address: &IpAddr| routes.iter().any(|route| route.destination == IpNet::from(*address));
    own_addresses(record).iter().all(has)
}

fn list(differences: &[Difference]) -> String {
    differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// The pod's namespace, if the pod is serving and it still is the one that was attached.
fn living_namespace(attachment: &Attachment) -> Option<Netns> {
    let record = &attachment.record;
    if attachment.phase != Phase::Serving {
        return None;
    }
    let netns = Netns::open(record.netns.as_ref()?).ok()?;
    let same = (record.netns_dev, record.netns_ino) == (Some(netns.id().dev), Some(netns.id().ino));
    same.then_some(netns)
}
