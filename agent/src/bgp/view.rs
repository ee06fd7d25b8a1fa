//! What `flock-agent bgp show` and `drain` are answered, made from the speaker as it is, the
//! reconciler (who owns what) and the kernel (what is installed).

mod asked;
mod choice;
mod explain;
mod routes;
mod sessions;
mod table;
mod walk;

pub(super) use sessions::state;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use flock_bgp::{Family, PeerKey, Speaker};
use flock_bgp_io::Gone;
use jiff::Timestamp;
use tokio::sync::oneshot;

use super::drain::{Stage, seconds, whole_seconds};
use super::{Bgp, Conflict, Live, Request, conflicts};
use crate::cli::bgp::{PeerList, PeerRow, PeerState, PeersArgs, Summary};
use crate::cli::drain::{DrainArgs, DrainSession, DrainState, DrainStatus};
pub use routes::{PAGE, Routes};

type Names = BTreeMap<PeerKey, Arc<str>>;

impl Bgp {
    /// `bgp show`.
    pub async fn summary(&self) -> Result<Summary, String> {
        let live = self.live();
        let peers = self.peers(&PeersArgs::default()).await?.peers;
        let originated = self.reconciler.ask(|picture| picture.originated.len()).await;
        let learned = match &live {
            Some(live) => live.handle.query(learned).await.map_err(gone)?,
            None => 0,
        };
        let handle = live.as_ref().map(|live| live.handle.listening().to_vec());
        let now = Timestamp::now();
        Ok(Summary {
            node: self.node.to_string(),
            asn: live.as_ref().map(|live| live.asn),
            router_id: live.as_ref().map(|live| live.id.to_string()),
            listening: handle.iter().flatten().map(ToString::to_string).collect(),
            drain: self.stage().map(|stage| stage.told(now)),
            originated: count(originated.filter(|_| live.is_some()).unwrap_or(0)),
            learned,
            installed: count(self.fib().installed()),
            peers,
        })
    }

    /// `bgp show peers`.
    pub async fn peers(&self, args: &PeersArgs) -> Result<PeerList, String> {
        let Some(live) = self.live() else { return Ok(PeerList { peers: Vec::new() }) };
        let now = live.handle.now();
        let statuses = live.handle.query(|speaker| speaker.peers().collect::<Vec<_>>());
        let statuses = statuses.await.map_err(gone)?;
        let mut peers: Vec<PeerRow> =
            statuses.iter().map(|peer| sessions::row(peer, now)).collect();
        peers.extend(live.untold.iter().map(|peer| sessions::untold(peer, live.asn)));
        if let Some(name) = &args.name {
            peers.retain(|peer| peer.name == name.as_str());
        }
        peers.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(PeerList { peers })
    }

    /// What two nodes claim: what has lasted, as the log has it, and is there at this moment.
    pub async fn conflicts(&self) -> BTreeSet<Conflict> {
        let Some(live) = self.live() else { return BTreeSet::new() };
        let lasting = self.lasting_conflicts();
        let mut found = conflicts::find(&live.handle, &self.reconciler).await;
        found.retain(|conflict| lasting.contains(conflict));
        found
    }

    /// `drain`.
    pub async fn drain(&self, args: DrainArgs) -> Result<DrainStatus, String> {
        self.request(|answer| Request::Drain(args.wait_seconds.duration(), answer)).await?;
        self.drain_status().await
    }

    /// `drain --undo`.
    pub async fn undo_drain(&self) -> Result<DrainStatus, String> {
        self.request(Request::Undo).await?;
        self.drain_status().await
    }

    async fn request(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<(), String>>) -> Request,
    ) -> Result<(), String> {
        let (answer, answered) = oneshot::channel();
        let stopping = "the agent is stopping";
        self.requests.send(request(answer)).await.map_err(|_| stopping)?;
        answered.await.map_err(|_| stopping)?
    }

    /// How far a drain is. It is over when the last session has ended.
    pub async fn drain_status(&self) -> Result<DrainStatus, String> {
        let rows = self.peers(&PeersArgs::default()).await?.peers;
        let open = rows.iter().any(|peer| peer.state == PeerState::Established);
        let now = Timestamp::now();
        let stage = self.stage();
        let state = match stage {
            None => DrainState::None,
            Some(Stage::Drained { .. }) if !open => DrainState::Drained,
            Some(_) => DrainState::Draining,
        };
        let sessions =
            rows.into_iter().map(|row| DrainSession { peer: row.name, state: row.state });
        Ok(DrainStatus {
            state,
            since: stage.map(|stage| whole_seconds(stage.since())),
            seconds_left: stage.and_then(|stage| stage.left(now)).map(seconds),
            sessions: sessions.collect(),
        })
    }

    pub(super) fn live(&self) -> Option<Live> {
        self.published.live.borrow().clone()
    }

    pub(super) fn stage(&self) -> Option<Stage> {
        *self.published.stage.borrow()
    }
}

fn learned(speaker: &Speaker) -> u32 {
    Family::ALL.into_iter().map(|family| speaker.learned(family)).sum()
}

pub(super) fn gone(error: Gone) -> String {
    format!("{error}; it is being started again")
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
