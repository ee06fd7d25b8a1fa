//! The sessions as the speaker has them, for the doctor: it wants reasons by their kind, which the
//! rows of `bgp show` no longer have.

use std::net::SocketAddr;

use flock_bgp::{Now, PeerStatus};

use super::Bgp;

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
