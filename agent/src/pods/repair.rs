//! Repairs what somebody removed: the monitor says what changed in the kernel, the book says
//! whether it was ours and still wanted, and the dataplane makes it so again.
//!
//! Our own removals produce the same events; by then the book says otherwise, so they are nothing.
//! A pod whose namespace has gone is left for DEL. Repairs are paced: a fight with another program
//! over one route must not become a storm.

use std::num::NonZeroU32;
use std::sync::Arc;

use flock_dataplane::{Difference, Drift, Netns, NodeSettings};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use tokio::sync::mpsc;

use super::book::{Attachment, Book, Phase};
use super::{Pods, called, link};
use crate::bgp::Bgp;
use crate::store::Key;

/// Repairs a second at most.
const PACE: NonZeroU32 = NonZeroU32::new(50).unwrap();

impl Pods {
    /// Follows the monitor for as long as it speaks. The first thing done is a full look, because
    /// anything may have happened while the agent was away.
    pub async fn keep_repaired(self: Arc<Self>, mut drifts: mpsc::Receiver<Drift>, bgp: Bgp) {
        let pace = RateLimiter::direct(Quota::per_second(PACE));
        self.repair_all().await;
        while let Some(drift) = drifts.recv().await {
            self.repair_after(drift, &pace, &bgp).await;
        }
        tracing::error!("the kernel monitor has ended; drift is no longer repaired");
    }

    async fn repair_after(&self, drift: Drift, pace: &DefaultDirectRateLimiter, bgp: &Bgp) {
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
                bgp.fib().recheck_if_installed(&destination).await;
            }
            Drift::NetworksChanged => bgp.networks_changed().await,
            Drift::RulesGone => {
                pace.until_ready().await;
                tracing::warn!("the anti-spoofing rules were removed; putting them back");
                if let Err(error) = self.dataplane.prepare_node(&NodeSettings::default()).await {
                    tracing::error!(%error, "cannot put the anti-spoofing rules back");
                }
                // The table also admitted anycast addresses by name.
                self.repair_all().await;
            }
            // Events were lost, or of a kind that is newer than this: look at everything.
            _ => {
                pace.until_ready().await;
                self.repair_all().await;
                self.reconciler.recheck();
                bgp.networks_changed().await;
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
        let pod = called(&attachment.record);
        let mended = self.dataplane.repair(link(&attachment.record, netns)).await;
        match &mended {
            Ok(repaired) if repaired.is_empty() => {}
            Ok(repaired) => tracing::warn!(pod, repaired = list(repaired), "repaired"),
            Err(error) => tracing::error!(pod, %error, "cannot repair"),
        }
        // What cannot be reached is not announced.
        if attachment.wired != mended.is_ok() {
            let key = attachment.record.key();
            let _ = self.ledger.ask(move |book| book.set_wired(&key, mended.is_ok())).await;
            self.reconciler.wake();
        }
    }

    /// The namespace is gone. If the link went with it, the pod is dead, and nothing may lead to it
    /// any more; its entry waits for the runtime's DEL.
    async fn orphan(&self, attachment: &Attachment) {
        if attachment.phase != Phase::Serving {
            return;
        }
        let Ok(links) = self.dataplane.links().await else { return };
        if links.iter().any(|link| link.name == attachment.host_ifname()) {
            return;
        }
        tracing::warn!(
            pod = called(&attachment.record),
            "its namespace is gone, and its link with it; waiting for DEL"
        );
        let key = attachment.record.key();
        let _ = self.ledger.ask(move |book| book.set(&key, Phase::Orphaned, None)).await;
        self.reconciler.recheck();
    }
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
