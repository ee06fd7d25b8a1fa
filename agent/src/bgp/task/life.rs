//! When a speaker lives: how it starts, as what, and how it ends.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use flock_bgp::{Farewell, SpeakerConfig};
use flock_bgp_io::{Listen, Running};
use rand::RngExt;
use tokio::time::Instant;

use super::super::Live;
use super::super::conflicts::Reports;
use super::super::drain::Stage;
use super::super::journal::Journal;
use super::super::marker::Past;
use super::{Identity, PATIENCE, PAUSE, Speaking, Task};
use crate::config::Bgp;

impl Task {
    pub(super) async fn start(&mut self, identity: Identity, bgp: &Bgp) {
        if self.speaking.is_some() {
            tracing::warn!("AS number, router ID or port changed: every session begins anew");
            self.fall_silent().await;
        }
        let marker = self.marker.clone();
        let past = match self.has_spoken {
            true => Past::Restarted,
            false => tokio::task::spawn_blocking(move || marker.past()).await.unwrap_or(Past::None),
        };
        let restarted = past == Past::Restarted;
        let config = SpeakerConfig {
            restarted,
            forwarding_kept: restarted,
            install: true,
            ..SpeakerConfig::new(identity.asn, identity.id, rand::rng().random())
        };
        let Running { handle, notices, routes } = match listening(&config, identity.listen_port) {
            Ok(running) => running,
            Err(error) => {
                if self.unstarted.is_news(&error) {
                    tracing::error!(error, "the speaker cannot start; trying again");
                }
                self.look_soon(PAUSE);
                return;
            }
        };
        self.unstarted.is_over();
        self.journal = Journal::new(self.around.incidents.clone());
        tracing::info!(
            asn = identity.asn,
            router_id = %identity.id,
            listening = ?handle.listening(),
            ?past,
            "speaking BGP"
        );
        self.around.fib.follow(routes).await;
        let importing = bgp.peers.iter().filter(|peer| peer.import.is_some());
        let patience = importing.map(|peer| peer.graceful_restart.unwrap_or(PATIENCE)).max();
        self.sweep_at = Some(Instant::now() + patience.unwrap_or_default());
        let longest = bgp.peers.iter().filter_map(|peer| peer.graceful_restart).max();
        self.kept_until = longest.filter(|_| restarted).map(|time| Instant::now() + time);
        self.around.reconciler.speak_to(Some(handle.clone())).await;
        self.has_spoken = true;
        self.mark().await;
        let (asn, id, untold) = (identity.asn, identity.id, Arc::default());
        let live = Live { handle: handle.clone(), asn, id, untold };
        self.around.published.live.send_replace(Some(live));
        self.speaking =
            Some(Speaking { identity, handle, notices, peers: None, networks: None, drain: false });
    }

    /// From now on a start is a restart, unless the node said goodbye.
    pub(super) async fn mark(&self) {
        if matches!(self.stage, Some(Stage::Drained { .. })) {
            return;
        }
        let marker = self.marker.clone();
        let written = tokio::task::spawn_blocking(move || marker.write()).await;
        if let Ok(Err(error)) = written {
            tracing::error!(%error, "cannot note that sessions are up: after a restart of the agent peers would drop this node's routes for a moment");
        }
    }

    /// There is no `spec.bgp` (any more): the peers go, with a word, and what was learned.
    pub(super) async fn stop(&mut self) {
        if let Some(old) = self.speaking.take() {
            tracing::info!("spec.bgp is gone: every session ends");
            let _ = old.handle.peers(Vec::new()).await;
            let _ = old.handle.farewell(Farewell::Silent).await;
            self.around.published.live.send_replace(None);
            self.around.published.ready.send_replace(0);
            self.around.reconciler.speak_to(None).await;
        }
        self.reports = Reports::default();
        self.around.fib.clear().await;
        (self.sweep_at, self.kept_until) = (None, None);
        self.forget_marker().await;
    }

    /// We come back: connections close without a word (RFC 4724).
    pub(super) async fn fall_silent(&mut self) {
        if let Some(speaking) = self.speaking.take() {
            let _ = speaking.handle.farewell(Farewell::Silent).await;
        }
    }

    pub(super) async fn forget_marker(&mut self) {
        self.has_spoken = false;
        let marker = self.marker.clone();
        if let Ok(Err(error)) = tokio::task::spawn_blocking(move || marker.clear()).await {
            tracing::error!(%error, "cannot remove the marker of the last life");
        }
    }
}

/// Listens for both families. A port that somebody else has is no reason to be silent: we dial.
fn listening(config: &SpeakerConfig, port: Option<u16>) -> Result<Running, String> {
    let any = [IpAddr::V6(Ipv6Addr::UNSPECIFIED), IpAddr::V4(Ipv4Addr::UNSPECIFIED)];
    let addresses = port.into_iter().flat_map(|port| any.map(|ip| SocketAddr::new(ip, port)));
    let listen = Listen { addresses: addresses.collect(), ..Listen::default() };
    match flock_bgp_io::start(config.clone(), &listen) {
        Ok(running) => Ok(running),
        Err(error) if listen.addresses.is_empty() => Err(error.to_string()),
        Err(error) => {
            let error = format!("{error}: {}", error.source);
            tracing::error!(
                error,
                "peers cannot connect to this node, it only connects to them; stop whatever has the port, or set spec.bgp.listenPort, and restart the agent"
            );
            let none = Listen { addresses: Vec::new(), ..listen };
            flock_bgp_io::start(config.clone(), &none).map_err(|error| error.to_string())
        }
    }
}
