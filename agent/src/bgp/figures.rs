//! The speaker in figures, for metrics: peers as they are and what the sockets did. Reads, and costs
//! as much as there are peers.

use flock_bgp::{Now, PeerStatus};
use flock_bgp_io::Status;

use super::Bgp;
use super::drain::Stage;
use crate::cli::drain::DrainState;

/// The peers at one moment.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// The speaker's clock.
    pub now: Now,
    /// Those that it has.
    pub peers: Vec<PeerStatus>,
    /// Those that it cannot have, by name.
    pub untold: Vec<String>,
    /// Bytes and connections; `None`: there is no speaker.
    pub traffic: Option<Status>,
}

impl Bgp {
    /// All peers. None where there is no speaker, or where it has just ended.
    pub async fn figures(&self) -> Figures {
        let Some(live) = self.live() else { return Figures::default() };
        let peers = live.handle.query(|speaker| speaker.peers().collect()).await;
        let untold = live.untold.iter().map(|peer| peer.name.clone()).collect();
        let traffic = live.handle.status().await.ok();
        Figures { now: live.handle.now(), peers: peers.unwrap_or_default(), untold, traffic }
    }

    /// How far a drain is, whether or not peers have heard of it.
    pub fn drain_state(&self) -> DrainState {
        match self.stage() {
            None => DrainState::None,
            Some(Stage::Draining { .. }) => DrainState::Draining,
            Some(Stage::Drained { .. }) => DrainState::Drained,
        }
    }
}
