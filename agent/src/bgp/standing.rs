//! The sessions as the speaker has them, for the doctor and for metrics: they want reasons by their
//! kind, which the rows of `bgp show` no longer have. And what the task knows beside them.

use std::net::SocketAddr;
use std::sync::Arc;

use flock_bgp::{Now, PeerStatus};

use super::{Bgp, Conflict};

/// A speaker that lives, and its peers.
pub(crate) struct Sessions {
    /// Its peers.
    pub(crate) peers: Vec<PeerStatus>,
    /// Peers of the NodeConfig that it is not told of, and why.
    pub(crate) not_followed: Vec<(String, String)>,
    /// Its clock, to compare the times of its peers with.
    pub(crate) now: Now,
    /// Where peers may dial it.
    pub(crate) listening: Vec<SocketAddr>,
}

impl Bgp {
    /// The generation of the NodeConfig that the speaker was last made to follow.
    pub(crate) fn following(&self) -> Option<i64> {
        *self.published.following.borrow()
    }

    /// What two nodes have claimed for a while, as the log has it.
    pub(crate) fn lasting_conflicts(&self) -> Arc<[Conflict]> {
        self.published.conflicts.borrow().clone()
    }

    /// The node is drained, or about to be.
    pub(crate) fn is_drained(&self) -> bool {
        self.stage().is_some()
    }

    /// There is a speaker.
    pub(crate) fn is_speaking(&self) -> bool {
        self.published.live.borrow().is_some()
    }

    /// `None`: there is no speaker.
    pub(crate) async fn sessions(&self) -> Result<Option<Sessions>, String> {
        let live = self.published.live.borrow().clone();
        let Some(live) = live else { return Ok(None) };
        let peers = live.handle.query(|speaker| speaker.peers().collect());
        let untold = live.untold.iter();
        let not_followed = untold.map(|peer| (peer.name.clone(), peer.reason.clone()));
        Ok(Some(Sessions {
            peers: peers.await.map_err(|error| error.to_string())?,
            not_followed: not_followed.collect(),
            now: live.handle.now(),
            listening: live.handle.listening().to_vec(),
        }))
    }
}
