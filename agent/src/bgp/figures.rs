//! The speaker in figures, for metrics: what its sockets did, and how far a drain is. Peers as they are
//! have a room of their own (`standing`).

use flock_bgp_io::Status;

use super::Bgp;
use super::drain::Stage;
use crate::cli::drain::DrainState;

impl Bgp {
    /// Bytes and connections; `None`: there is no speaker, or it has just ended.
    pub(crate) async fn traffic(&self) -> Option<Status> {
        self.live()?.handle.status().await.ok()
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
