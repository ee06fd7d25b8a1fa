//! What the speaker is to be told: what the node looks like, and of that what is not as it was told.

use std::net::IpAddr;
use std::sync::Arc;

use super::super::drain::Stage;
use super::super::password;
use super::super::peers::{self, Facts, Plan};
use super::{PAUSE, Task};
use crate::config::{Bgp, Endpoint, NodeConfig};

impl Task {
    /// What the node looks like. Where the kernel does not say, what was told before stays.
    pub(super) async fn facts(&mut self, bgp: &Bgp) -> Option<Facts> {
        self.folders.follow(bgp, &self.around.wake);
        let mut facts = Facts { sources: self.sources.clone(), ..Facts::default() };
        match self.around.dataplane.interfaces().await {
            Ok(interfaces) => {
                facts.interfaces = interfaces;
                self.unread.is_over();
            }
            Err(error) => {
                if self.unread.is_news(&error) {
                    tracing::error!(%error, "cannot read the node's interfaces; trying again");
                }
                self.look_soon(PAUSE);
                return None;
            }
        }
        for peer in &bgp.peers {
            if let Endpoint::Address(address) = peer.endpoint
                && let Some(dev) = self.way(address, &facts).await
            {
                facts.ways.insert(address, dev);
            }
        }
        self.ways.clone_from(&facts.ways);
        let asked =
            bgp.peers.iter().filter_map(|peer| Some((peer.name.clone(), peer.password.clone()?)));
        let asked: Vec<_> = asked.collect();
        if !asked.is_empty() {
            // On a thread that may wait for the disk.
            let secrets = self.around.source.world().secrets.clone();
            let read = move || {
                let read = |password| password::read(password, &secrets);
                asked.iter().map(|(name, password)| (name.clone(), read(password))).collect()
            };
            facts.secrets = tokio::task::spawn_blocking(read).await.unwrap_or_default();
        }
        if matches!(self.stage, Some(Stage::Drained { .. })) {
            facts.farewell = Some(format!("flock: {} is drained", self.around.node).into());
        }
        Some(facts)
    }

    /// The interface towards a peer that is on no network of ours.
    async fn way(&self, address: IpAddr, facts: &Facts) -> Option<u32> {
        let near = facts.interfaces.iter().flat_map(|interface| &interface.addresses);
        if near.into_iter().any(|on| on.network().contains(&address)) {
            return None;
        }
        match self.around.dataplane.way_to(address).await {
            Ok(way) => way.map(|way| way.dev),
            // Not a word is no news.
            Err(_) => self.ways.get(&address).copied(),
        }
    }

    /// Tells the speaker what is not as it was told.
    pub(super) async fn tell(&mut self, config: &NodeConfig, facts: &Facts, plan: Plan) {
        let draining = self.stage.is_some();
        let Some(speaking) = &mut self.speaking else { return };
        let handle = speaking.handle.clone();
        // A handle whose speaker has ended: there is nobody to tell.
        if std::mem::replace(&mut speaking.drain, draining) != draining {
            let _ = handle.drain(draining).await;
        }
        let networks = peers::networks(config, &facts.interfaces);
        if speaking.networks.as_ref() != Some(&networks) {
            let peers::Networks { connected, own, down } = networks.clone();
            let _ = handle.networks(connected, own, down).await;
            speaking.networks = Some(networks);
        }
        if speaking.peers.as_ref() != Some(&plan.peers) {
            let _ = handle.peers(plan.peers.clone()).await;
            speaking.peers = Some(plan.peers);
        }
        let untold: Arc<[_]> = plan.untold.into();
        self.around.published.live.send_if_modified(|live| {
            let Some(live) = live.as_mut().filter(|live| live.untold != untold) else {
                return false;
            };
            for peer in untold.iter() {
                tracing::warn!(peer = peer.name, reason = peer.reason, "peer not followed");
            }
            live.untold = untold;
            true
        });
    }
}
