//! In service, draining, drained: what the operator says, made durable and carried out.

use std::collections::BTreeSet;
use std::time::Duration;

use flock_bgp::{DownReason, Notice, PeerStatus};
use flock_bgp_io::Told;
use jiff::Timestamp;
use tokio::time::Instant;

use super::super::Request;
use super::super::drain::Stage;
use super::{PATIENCE, PAUSE, Speaking, Task, WITHDRAWN_WITHIN, is_ready};

impl Task {
    pub(super) async fn obey(&mut self, request: Request) {
        self.look_soon(Duration::ZERO);
        match request {
            Request::Silence(_) => {}
            Request::Drain(wait, answer) => {
                let stage = match self.stage {
                    // Said again: it may be hurried or given more time, until it is done.
                    Some(stage @ Stage::Drained { .. }) => stage,
                    _ => Stage::begin(Timestamp::now(), wait),
                };
                let _ = answer.send(self.enter(Some(stage)).await);
            }
            Request::Undo(answer) => {
                let entered = self.enter(None).await;
                if entered.is_ok() {
                    self.return_to_service().await;
                }
                let _ = answer.send(entered);
            }
        }
    }

    /// Durable before it is promised.
    async fn enter(&mut self, stage: Option<Stage>) -> Result<(), String> {
        if stage == self.stage {
            return Ok(());
        }
        let file = self.drain_file.clone();
        let written = tokio::task::spawn_blocking(move || file.write(stage)).await;
        written.map_err(|error| error.to_string())??;
        self.stage = stage;
        self.around.published.stage.send_replace(stage);
        match stage {
            Some(stage) => tracing::warn!(drain = stage.told(Timestamp::now()), "drain"),
            None => tracing::info!("the drain is undone; back in service"),
        }
        Ok(())
    }

    async fn return_to_service(&mut self) {
        self.around.fib.hold(false).await;
        self.around.reconciler.hush(false).await;
        let peers = self.speaking.iter().flat_map(|speaking| speaking.peers.iter().flatten());
        let importing = peers.filter(|peer| peer.import.is_some());
        let patience =
            importing.map(|peer| peer.graceful_restart.map_or(PATIENCE, |restart| restart.time));
        self.sweep_at = Some(Instant::now() + patience.max().unwrap_or_default());
        self.mark().await;
    }

    /// A session that is lost while the node drains is waited for: its peer keeps what it was told
    /// for a while, and is to hear that nothing is left of it.
    pub(super) fn lost_in_drain(&mut self, told: &Told) {
        let draining = matches!(self.stage, Some(Stage::Draining { .. }));
        let Told::Notice(Notice::Down(_, name, DownReason::Closed(_))) = told else { return };
        let peers = self.speaking.iter().flat_map(|speaking| speaking.peers.iter().flatten());
        let lost = peers.filter(|peer| peer.name == *name);
        let kept = lost.filter_map(|peer| peer.graceful_restart).map(|restart| restart.time).max();
        if let Some(kept) = kept.filter(|_| draining) {
            self.kept_until = self.kept_until.max(Some(Instant::now() + kept));
        }
    }

    /// Until when the end of a drain waits although its wait is over; `None`: it does not.
    pub(super) fn drain_waits_for(&self) -> Option<Instant> {
        self.kept_until.max(self.drain_again)
    }

    /// When the wait is over: withdraw, and then the sessions end with words.
    pub(super) async fn advance_drain(&mut self) {
        let now = Timestamp::now();
        let Some(stage) = self.stage else { return };
        if stage.left(now) != Some(Duration::ZERO) {
            return;
        }
        self.around.fib.hold(true).await;
        self.around.reconciler.hush(true).await;
        // An agent that was away meanwhile has told nobody: its peers hear that nothing is left of
        // what they keep, by an End-of-RIB, before their sessions end for good.
        if self.drain_waits_for().is_some_and(|at| Instant::now() < at) {
            return;
        }
        self.drain_again = None;
        if let Some(speaking) = &self.speaking {
            let settled = tokio::time::timeout(WITHDRAWN_WITHIN, speaking.handle.settled());
            if settled.await.is_err() {
                tracing::warn!(
                    "a peer does not take the withdrawals; its session ends all the same"
                );
            }
        }
        if let Err(error) = self.enter(Some(Stage::Drained { since: now })).await {
            // Withdrawn it is; that it is, is not on disk yet.
            tracing::error!(error, "cannot note that the node is drained; trying again");
            self.drain_again = Some(Instant::now() + PAUSE);
            return;
        }
        self.forget_marker().await;
        self.look_soon(Duration::ZERO);
    }
}

/// Whether every peer that keeps routes across a restart has heard all that there is now.
pub(super) fn is_heard(speaking: &Speaking, all: &[PeerStatus]) -> bool {
    let peers = speaking.peers.iter().flatten();
    let keeps = peers.filter(|peer| peer.graceful_restart.is_some());
    let keeps: BTreeSet<&str> = keeps.map(|peer| &*peer.name).collect();
    let mut keeping = all.iter().filter(|peer| keeps.contains(&*peer.name));
    // Before the speaker knows its peers, nobody has heard anything.
    !keeps.is_empty() && keeping.all(is_ready)
}
