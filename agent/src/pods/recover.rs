//! What a start does with what the last life left: it makes disk, kernel and book agree before the
//! first call is served.
//!
//! - `pending`: an ADD that never answered; undone.
//! - `committed` with a doomed link: a DEL that never answered; finished.
//! - `committed` with a link: adopted as it is; the monitor's first full look repairs drift.
//! - `committed` without a link, namespace still there: wired again.
//! - `committed` without a link, namespace gone (or of an earlier boot): the pod is dead; its entry
//!   goes. Where no namespace was written down (a store of the Go agent), it is an orphan and waits
//!   for DEL or a new ADD.
//! - a link of ours that nothing knows and nothing leads to: a DEL that answered and whose link is
//!   still to go; it goes.
//! - one that nothing knows, with routes to it: its pod may live (a store was lost), so it stays,
//!   its addresses are held until it goes, and `check` tells.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use flock_dataplane::{HostLink, Netns, PodRoute};

use super::book::{Attachment, Book, Phase};
use super::repair::leads_to;
use super::{Pods, link};
use crate::metrics::Leak;
use crate::policy::Attached;
use crate::store::{Allocation, State};

/// What was found, for the log and for people.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Recovered {
    /// Pods that go on.
    pub adopted: usize,
    /// Pods that had to be wired again.
    pub rewired: usize,
    /// ADDs and DELs that a crash interrupted, undone or finished.
    pub cleared: usize,
    /// Pods that died while the agent was away.
    pub dead: usize,
    /// Pods without a link that may not be cleared away before their DEL.
    pub orphaned: usize,
}

/// Why the agent cannot go on from where it was.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// The kernel could not be read or mended.
    #[error("cannot recover the pods of this node: {0}")]
    Kernel(#[from] flock_dataplane::Error),
    /// The agent is already going.
    #[error(transparent)]
    Closed(#[from] super::ledger::Closed),
}

enum Fate {
    Keep,
    Orphan,
    Rewire(Netns),
    Clear,
    Dead,
}

impl Pods {
    /// Makes disk, kernel and book agree.
    pub async fn recover(&self, records: Vec<Allocation>) -> Result<Recovered, RecoverError> {
        let links: HashMap<String, HostLink> = self
            .dataplane
            .links()
            .await?
            .into_iter()
            .map(|link| (link.name.clone(), link))
            .collect();
        let (attachments, conflicts) = self
            .ledger
            .ask(move |book| {
                let conflicts: Vec<_> =
                    records.into_iter().flat_map(|record| book.adopt(record)).collect();
                (book.all().cloned().collect::<Vec<Attachment>>(), conflicts)
            })
            .await?;
        for conflict in conflicts {
            tracing::error!(reason = %conflict, "two pods of the state file hold one address");
        }
        let attached = attachments.iter().map(|attachment| Attached::of(&attachment.record));
        self.gate.begin(attached.collect()).await;
        let routes = self.dataplane.pod_routes().await?;
        self.meet_strangers(&links, &attachments, &routes).await?;
        let mut recovered = Recovered::default();
        for attachment in attachments {
            let found = links.get(attachment.host_ifname());
            let count = match fate(&attachment.record, found) {
                Fate::Keep => {
                    // Not announced before the first full look has put its routes back.
                    if !leads_to(&attachment.record, &routes) {
                        self.is_unwired(&attachment).await?;
                    }
                    &mut recovered.adopted
                }
                Fate::Orphan => {
                    let key = attachment.record.key();
                    self.ledger.ask(move |book| book.set(&key, Phase::Orphaned, None)).await?;
                    &mut recovered.orphaned
                }
                Fate::Rewire(netns) => {
                    if !self.rewire(&attachment, netns).await {
                        self.is_unwired(&attachment).await?;
                    }
                    &mut recovered.rewired
                }
                Fate::Clear => {
                    self.clear(&attachment).await;
                    &mut recovered.cleared
                }
                Fate::Dead => {
                    self.clear(&attachment).await;
                    &mut recovered.dead
                }
            };
            *count += 1;
        }
        let without_link = recovered.rewired + recovered.dead + recovered.orphaned;
        self.metrics.ipam.leaked(Leak::AttachmentWithoutLink, without_link);
        // A refusal is in the log, and is tried again.
        let _ = self.chores.settle().await;
        Ok(recovered)
    }

    /// Links that nothing knows keep their addresses.
    async fn meet_strangers(
        &self,
        links: &HashMap<String, HostLink>,
        attachments: &[Attachment],
        routes: &[PodRoute],
    ) -> Result<(), RecoverError> {
        let known: HashSet<&str> = attachments.iter().map(Attachment::host_ifname).collect();
        let unknown =
            |name: &str| links.get(name).is_some_and(|link| !link.doomed) && !known.contains(name);
        let led_to: HashSet<&str> = routes.iter().map(|route| &*route.ifname).collect();
        for name in links.keys().filter(|name| unknown(name) && !led_to.contains(&***name)) {
            tracing::info!(interface = name, "the link of a detached pod is left; deleting it");
            self.dataplane.retire(name, Vec::new(), Vec::new()).await?;
        }
        let routes: Vec<PodRoute> =
            routes.iter().filter(|route| unknown(&route.ifname)).cloned().collect();
        let strangers: HashSet<&str> = routes.iter().map(|route| &*route.ifname).collect();
        self.metrics.ipam.leaked(Leak::LinkWithoutEntry, strangers.len());
        for route in &routes {
            tracing::warn!(interface = route.ifname, prefix = %route.destination, "no entry knows this link; its address is not handed out");
        }
        let meet = move |book: &mut Book| {
            for route in routes {
                book.meet_stranger(&route.ifname, route.destination.addr());
            }
        };
        Ok(self.ledger.ask(meet).await?)
    }

    async fn is_unwired(&self, attachment: &Attachment) -> Result<(), RecoverError> {
        let key = attachment.record.key();
        Ok(self.ledger.ask(move |book| book.set_wired(&key, false)).await?)
    }

    async fn rewire(&self, attachment: &Attachment, netns: Netns) -> bool {
        let pod = super::called(&attachment.record);
        let rewired = self.dataplane.repair(link(&attachment.record, netns)).await;
        match &rewired {
            Ok(_) => tracing::warn!(pod, "link was gone; wired again"),
            Err(error) => tracing::error!(pod, %error, "link is gone and cannot be wired again"),
        }
        rewired.is_ok()
    }

    /// Undoes or finishes what was interrupted. What fails stays in the book as leaving, for DEL.
    async fn clear(&self, attachment: &Attachment) {
        let key = attachment.record.key();
        let pod = super::called(&attachment.record);
        tracing::info!(container = key.container_id, pod, "clearing away what is left of a pod");
        let container = key.container_id.clone();
        let _ = self.ledger.ask(move |book| book.set(&key, Phase::Leaving, None)).await;
        if let Err(error) = self.take_away(attachment).await {
            tracing::error!(
                container,
                pod,
                error = error.msg,
                "cannot clear it away; it waits for DEL"
            );
        }
    }
}

fn fate(record: &Allocation, found: Option<&HostLink>) -> Fate {
    match (record.state, found) {
        (State::Pending, _) => Fate::Clear,
        (State::Committed, Some(link)) if link.doomed => Fate::Clear,
        (State::Committed, Some(_)) => Fate::Keep,
        (State::Committed, None) => without_link(record),
    }
}

fn without_link(record: &Allocation) -> Fate {
    let (Some(path), Some(dev), Some(ino)) = (&record.netns, record.netns_dev, record.netns_ino)
    else {
        return Fate::Orphan;
    };
    // Inode numbers start anew with each boot: an equal one proves nothing then.
    if record.boot_id.is_some() && record.boot_id != boot_id() {
        return Fate::Dead;
    }
    match Netns::open(path) {
        Ok(netns) if (netns.id().dev, netns.id().ino) == (dev, ino) => Fate::Rewire(netns),
        _ => Fate::Dead,
    }
}

/// This boot of the kernel, read once: no process outlives it.
pub(crate) fn boot_id() -> Option<String> {
    static BOOT_ID: LazyLock<Option<String>> = LazyLock::new(|| {
        let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        Some(text.trim().to_owned()).filter(|id| !id.is_empty())
    });
    BOOT_ID.clone()
}
