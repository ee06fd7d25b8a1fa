//! The task that gives the kernel its node routes. It remembers what it installed, so that a pass
//! costs the difference; after drift, and at the start, it reads the kernel instead of remembering.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use flock_dataplane::{Dataplane, NodeRoute};
use ipnet::IpNet;
use tokio::sync::watch;
use tokio::time::Instant;

use super::{Routes, Signal, desired};
use crate::pods::book::{Attachment, Book};
use crate::pods::ledger::Ledger;
use crate::source::{Source, World};

/// How long the route of a withdrawn anycast address stays.
const LINGER: Duration = Duration::from_secs(5);
/// After the kernel refused.
const PAUSE: Duration = Duration::from_secs(1);

pub(super) struct Task {
    ledger: Ledger,
    dataplane: Dataplane,
    source: Source,
    signal: Arc<Signal>,
    installed: Routes,
    /// Networks that are kept only for the pods in them.
    leftover: Vec<IpNet>,
    /// Until when a withdrawn address may stay.
    lingering: BTreeMap<IpAddr, Instant>,
}

impl Task {
    pub(super) fn new(
        ledger: Ledger,
        dataplane: Dataplane,
        source: Source,
        signal: Arc<Signal>,
    ) -> Self {
        let (installed, leftover, lingering) = (Routes::new(), Vec::new(), BTreeMap::new());
        Self { ledger, dataplane, source, signal, installed, leftover, lingering }
    }

    pub(super) async fn run(mut self, publish: watch::Sender<u64>) {
        self.signal.begun.notified().await;
        let mut changes = self.source.changes();
        let mut again: Option<Instant> = None;
        loop {
            let pause = async {
                match again {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.signal.wake.notified() => {}
                changed = changes.changed() => if changed.is_err() { return },
                () = pause => {}
            }
            let asked = self.signal.asked.load(Ordering::Acquire);
            let Ok(all_well) = self.pass().await else { return };
            // Told also after a failure: an ADD does not hang on another pod's route.
            publish.send_replace(asked);
            let retry = (!all_well).then(|| Instant::now() + PAUSE);
            again = self.lingering.values().copied().chain(retry).min();
        }
    }

    /// One look at the world. False when the kernel refused something, which is tried again.
    async fn pass(&mut self) -> Result<bool, crate::pods::ledger::Closed> {
        let mut all_well = true;
        if self.signal.recheck.swap(false, Ordering::AcqRel) {
            all_well = self.read_kernel().await;
        }
        let world = self.source.world();
        let config = world.node.config().map(AsRef::as_ref);
        let leftover = desired::leftover_summaries(config, &self.installed);
        // Without any NodeConfig yet, what a former life installed stays as it is.
        let all = config.is_none();
        let look = move |book: &mut Book| {
            let held = if all { leftover } else { book.holding(&leftover) };
            (book.with_anycast(), held)
        };
        let (attachments, still_held) = self.ledger.ask(look).await?;
        self.tell_of_leftovers(&still_held);
        let mut wanted = self.anycast(&world, &attachments);
        wanted.extend(desired::summaries(config, &still_held));
        for (prefix, route) in &wanted {
            if self.installed.get(prefix) != Some(route) {
                all_well &= self.install(*prefix, route.clone()).await;
            }
        }
        let gone: Vec<IpNet> =
            self.installed.keys().filter(|prefix| !wanted.contains_key(prefix)).copied().collect();
        for prefix in gone {
            all_well &= self.remove(prefix).await;
        }
        Ok(all_well)
    }

    fn tell_of_leftovers(&mut self, still_held: &[IpNet]) {
        for network in still_held.iter().filter(|network| !self.leftover.contains(network)) {
            tracing::warn!(%network, "not in the NodeConfig, but pods hold addresses of it: kept until they are gone");
        }
        self.leftover = still_held.to_vec();
    }

    fn anycast(&mut self, world: &World, attachments: &[Attachment]) -> Routes {
        let served = desired::anycast(attachments, &world.pods, &self.installed, |_| false);
        let now = Instant::now();
        for (prefix, route) in &self.installed {
            if matches!(route, NodeRoute::Anycast { .. }) && !served.contains_key(prefix) {
                self.lingering.entry(prefix.addr()).or_insert(now + LINGER);
            }
        }
        self.lingering
            .retain(|address, until| *until > now && !served.contains_key(&IpNet::from(*address)));
        let lingering = &self.lingering;
        let lingers = |address: IpAddr| lingering.contains_key(&address);
        let wanted = desired::anycast(attachments, &world.pods, &self.installed, lingers);
        self.lingering.retain(|address, _| wanted.contains_key(&IpNet::from(*address)));
        wanted
    }

    async fn read_kernel(&mut self) -> bool {
        match self.dataplane.our_routes().await {
            Ok(routes) => {
                self.installed =
                    routes.into_iter().map(|route| (destination(&route), route)).collect();
                self.known(|installed| installed.extend(self.installed.keys().copied()));
                true
            }
            Err(error) => {
                tracing::error!(%error, "cannot read the node's routes; trying again");
                self.signal.recheck.store(true, Ordering::Release);
                false
            }
        }
    }

    fn known<R>(&self, change: impl FnOnce(&mut BTreeSet<IpNet>) -> R) -> R {
        change(&mut self.signal.installed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn install(&mut self, prefix: IpNet, route: NodeRoute) -> bool {
        match self.dataplane.set_route(route.clone()).await {
            Ok(()) => {
                tracing::info!(%prefix, to = told(&route), "route installed");
                self.installed.insert(prefix, route);
                self.known(|installed| installed.insert(prefix));
                true
            }
            Err(error) => {
                tracing::error!(%prefix, %error, "cannot install a route; trying again");
                false
            }
        }
    }

    async fn remove(&mut self, prefix: IpNet) -> bool {
        let Some(route) = self.installed.get(&prefix) else { return true };
        // Before it goes: our own removal is no drift.
        self.known(|installed| installed.remove(&prefix));
        match self.dataplane.remove_route(route.key()).await {
            Ok(()) => {
                tracing::info!(%prefix, "route removed");
                self.installed.remove(&prefix);
                true
            }
            Err(error) => {
                tracing::error!(%prefix, %error, "cannot remove a route; trying again");
                false
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
