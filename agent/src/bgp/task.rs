//! The task around the speaker. It follows the NodeConfig, the node's networks, passwords and the
//! operator, and decides the order in which things are said:
//!
//! routes of the node first (`reconcile`); then a speaker without peers; everything that is
//! originated; the marker on disk; networks; and only then peers. So the first UPDATE of a session
//! has all, and End-of-RIB is true.

mod life;
mod service;
mod wishes;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use flock_bgp::{PeerConfig, PeerStatus, Speaker, State};
use flock_bgp_io::{Handle, Notices, Told};
use flock_dataplane::Dataplane;
use jiff::Timestamp;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;
use tracing::Instrument;

use super::conflicts::Reports;
use super::drain::{DrainFile, Stage};
use super::journal::{self, Journal};
use super::marker::Marker;
use super::peers::{self};
use super::{Published, Request, identity, password};
use crate::config::NodeConfig;
use crate::fib::Fib;
use crate::incidents::Incidents;
use crate::log::Lasting;
use crate::news::News;
use crate::reconcile::Reconciler;
use crate::source::{Secrets, Source, World};

/// How long withdrawals may take before sessions are closed all the same.
const WITHDRAWN_WITHIN: Duration = Duration::from_secs(5);
/// When the kernel is asked again for what it did not tell.
const PAUSE: Duration = Duration::from_secs(1);
/// How long a peer may take to tell everything again, where nothing says how long its routes are
/// kept.
const PATIENCE: Duration = Duration::from_secs(30);
/// When to look again whether everything that was learned has been offered.
const OFFERED_SOON: Duration = Duration::from_millis(20);
/// Between two looks at the node's networks, however often somebody changes them.
const SPACING: Duration = Duration::from_millis(50);

/// Everything around the speaker.
pub(super) struct Around {
    pub(super) node: Arc<str>,
    pub(super) source: Source,
    pub(super) dataplane: Dataplane,
    pub(super) reconciler: Reconciler,
    pub(super) fib: Fib,
    pub(super) published: Published,
    pub(super) wake: Arc<Notify>,
    pub(super) news: News,
    pub(super) incidents: Incidents,
}

/// What makes a speaker another one when it changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    asn: u32,
    id: Ipv4Addr,
    listen_port: Option<u16>,
}

/// A speaker that lives.
struct Speaking {
    identity: Identity,
    handle: Handle,
    notices: Notices,
    /// As told; `None`: not yet.
    peers: Option<Vec<PeerConfig>>,
    networks: Option<peers::Networks>,
    drain: bool,
}

pub(super) struct Task {
    around: Around,
    marker: Marker,
    drain_file: DrainFile,
    stage: Option<Stage>,
    speaking: Option<Speaking>,
    /// One has spoken in this life: another one is a restart.
    has_spoken: bool,
    folders: password::Folders,
    journal: Journal,
    reports: Reports,
    /// What keeps the node from being read, and the speaker from starting.
    unread: Lasting,
    unstarted: Lasting,
    /// What was learned before is swept at the latest then; `None`: it has been.
    sweep_at: Option<Instant>,
    /// Until when peers may keep what the life before told them: a drain ends after that, or once
    /// they have heard otherwise. `None`: they keep nothing that is not true.
    kept_until: Option<Instant>,
    /// The end of a drain is tried again then, because the disk refused it.
    drain_again: Option<Instant>,
    /// The ways to peers that are on no network of ours, as the kernel last told them.
    ways: BTreeMap<IpAddr, u32>,
    /// The addresses that peers are dialled from.
    sources: BTreeMap<String, IpAddr>,
    /// The NodeConfig that the speaker follows, and the Secrets that it names.
    followed: (Option<Arc<NodeConfig>>, Secrets),
    /// When that was last looked at, and is to be again.
    looked: Option<Instant>,
    look_at: Option<Instant>,
    /// The agent stops.
    ended: bool,
}

impl Task {
    pub(super) fn new(around: Around, marker: Marker, drain_file: DrainFile) -> Self {
        let stage = *around.published.stage.borrow();
        let journal = Journal::new(around.incidents.clone());
        Self {
            around,
            marker,
            drain_file,
            stage,
            speaking: None,
            has_spoken: false,
            folders: password::Folders::default(),
            journal,
            reports: Reports::default(),
            unread: Lasting::default(),
            unstarted: Lasting::default(),
            sweep_at: None,
            kept_until: None,
            drain_again: None,
            ways: BTreeMap::new(),
            sources: BTreeMap::new(),
            followed: Default::default(),
            looked: None,
            look_at: Some(Instant::now()),
            ended: false,
        }
    }

    pub(super) async fn run(mut self, mut inbox: mpsc::Receiver<Request>) {
        if let Some(stage) = self.stage {
            tracing::warn!(
                drain = stage.told(Timestamp::now()),
                "the node is not in service; `flock-agent drain --undo` brings it back"
            );
        }
        if matches!(self.stage, Some(Stage::Drained { .. })) {
            self.around.fib.hold(true).await;
            self.around.reconciler.hush(true).await;
        }
        let mut changes = self.around.source.changes();
        loop {
            if self.look_at.is_some_and(|at| at <= Instant::now()) {
                self.follow().await;
            }
            self.review().await;
            self.report().await;
            // Whatever happened, a notice or a stage of a drain: people may look at it now.
            self.around.news.ring();
            while !self.happens(&mut changes, &mut inbox).await {}
            if self.ended {
                return;
            }
            self.advance_drain().await;
        }
    }

    /// Waits for something. False where it is of no concern to sessions: pods come and go all the
    /// time, and the speaker is not to be asked about its peers because of them.
    async fn happens(
        &mut self,
        changes: &mut watch::Receiver<Arc<World>>,
        inbox: &mut mpsc::Receiver<Request>,
    ) -> bool {
        let next = self.next_moment();
        let pause = async {
            match next {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let news = async {
            match &mut self.speaking {
                Some(speaking) => speaking.notices.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = changes.changed() => {
                // Those first who have to tell peers of the same news.
                tokio::task::yield_now().await;
                match changed {
                    Ok(()) if self.is_followed() => return false,
                    Ok(()) => self.look_soon(Duration::ZERO),
                    Err(_) => self.ended = true,
                }
            }
            () = self.around.wake.notified() => self.look_soon(SPACING),
            () = self.around.reconciler.announces_more() => {
                self.reports.look_soon(Instant::now());
                return false;
            }
            request = inbox.recv() => match request {
                Some(Request::Silence(answer)) => {
                    self.fall_silent().await;
                    let _ = answer.send(());
                    self.ended = true;
                }
                Some(request) => self.obey(request).await,
                None => self.ended = true,
            },
            told = news => self.hear(told).await,
            () = pause => {}
        }
        true
    }

    /// NodeConfig and Secrets are those that the speaker follows: only pods changed.
    fn is_followed(&self) -> bool {
        let world = self.around.source.world();
        let (config, secrets) = &self.followed;
        world.node.config().map(Arc::as_ptr) == config.as_ref().map(Arc::as_ptr)
            && world.secrets == *secrets
    }

    /// What there is to follow is looked at, now or so long after the last look.
    fn look_soon(&mut self, spacing: Duration) {
        let at = self.looked.map_or_else(Instant::now, |looked| looked + spacing);
        self.look_at = Some(self.look_at.map_or(at, |known| known.min(at)));
    }

    fn next_moment(&self) -> Option<Instant> {
        let left = self.stage.and_then(|stage| stage.left(Timestamp::now()));
        let waits_for = if left == Some(Duration::ZERO) { self.drain_waits_for() } else { None };
        let withdraw = left.map(|left| waits_for.unwrap_or_else(|| Instant::now() + left));
        // Both wait for a speaker, and are looked at when there is one.
        let (sweep, report) = match &self.speaking {
            Some(_) => (self.sweep_at.filter(|_| self.stage.is_none()), self.reports.next_look()),
            None => (None, None),
        };
        [withdraw, sweep, self.look_at, report].into_iter().flatten().min()
    }

    /// Makes the speaker what the NodeConfig says.
    async fn follow(&mut self) {
        self.look_at = None;
        self.looked = Some(Instant::now());
        let world = self.around.source.world();
        let config = world.node.config().cloned();
        let followed = self.is_followed();
        self.followed = (config.clone(), world.secrets.clone());
        let speaks = config.as_ref().and_then(|config| Some((config, config.bgp.as_ref()?)));
        let Some((config, bgp)) = speaks else {
            // Before the first NodeConfig, what a former life left is kept.
            if let Some(config) = config {
                self.stop().await;
                self.around.published.following.send_replace(config.generation);
            }
            return;
        };
        let id = bgp.router_id.unwrap_or_else(|| identity::router_id(&self.around.node));
        let identity = Identity { asn: bgp.asn, id, listen_port: bgp.listen_port };
        if self.speaking.as_ref().is_none_or(|speaking| speaking.identity != identity) {
            self.start(identity, bgp).await;
        }
        for peer in bgp.peers.iter().filter(|peer| peer.bfd.is_some() && !followed) {
            tracing::warn!(
                peer = peer.name,
                "bfd is not part of this version: a dead peer is noticed at its hold time"
            );
        }
        let Some(facts) = self.facts(bgp).await else { return };
        let plan = peers::plan(config, bgp, &facts);
        let source = |peer: &PeerConfig| Some((peer.name.to_string(), peer.local_address?));
        self.sources = plan.peers.iter().filter_map(source).collect();
        self.tell(config, &facts, plan).await;
        self.around.published.following.send_replace(config.generation);
    }

    async fn hear(&mut self, told: Option<Told>) {
        match told {
            Some(told) => {
                self.lost_in_drain(&told);
                let Some(speaking) = &self.speaking else { return };
                let (handle, reconciler) = (&speaking.handle, &self.around.reconciler);
                // Its lines name the peer themselves; whatever else is said because of it does by this.
                let span = tracing::debug_span!("session", peer = journal::peer(&told));
                let follow = async {
                    if self.journal.write(told, handle, reconciler).await {
                        self.reports.look(handle, reconciler).await;
                    }
                };
                follow.instrument(span).await;
            }
            None => {
                tracing::error!("the speaker has ended; starting another");
                self.speaking = None;
                self.around.published.ready.send_replace(0);
                self.look_soon(PAUSE);
            }
        }
    }

    /// What follows from the state of the sessions.
    async fn review(&mut self) {
        let Some(speaking) = &self.speaking else { return };
        let look = |speaker: &Speaker| (speaker.peers().collect::<Vec<_>>(), speaker.offered());
        let Ok((all, offered)) = speaking.handle.query(look).await else { return };
        let ready = all.iter().filter(|peer| is_ready(peer)).count();
        let ready = u32::try_from(ready).unwrap_or(u32::MAX);
        self.around
            .published
            .ready
            .send_if_modified(|known| std::mem::replace(known, ready) != ready);
        if service::is_heard(speaking, &all)
            || self.kept_until.is_some_and(|at| at <= Instant::now())
        {
            self.kept_until = None;
        }
        let Some(sweep_at) = self.sweep_at.filter(|_| self.stage.is_none()) else { return };
        let Some(peers) = &speaking.peers else { return };
        let imports = peers.iter().filter(|peer| peer.import.is_some());
        let imports: BTreeSet<&str> = imports.map(|peer| &*peer.name).collect();
        let complete = all.iter().filter(|peer| imports.contains(&*peer.name)).all(|peer| {
            let told = |f: &flock_bgp::FamilyStatus| !f.negotiated || f.end_of_rib_received;
            peer.state == State::Established && peer.families.iter().all(told)
        });
        let now = Instant::now();
        if !(complete || now >= sweep_at) {
            return;
        }
        if offered {
            self.sweep_at = None;
            self.around.fib.sweep().await;
        } else {
            // What was told again is on its way to the kernel: not swept before it is there.
            self.sweep_at = Some(now + OFFERED_SOON);
        }
    }

    /// Conflicts that were found a while ago: are they still there?
    async fn report(&mut self) {
        let due = self.reports.next_look().is_some_and(|at| at <= Instant::now());
        if let Some(speaking) = self.speaking.as_ref().filter(|_| due) {
            self.reports.look(&speaking.handle, &self.around.reconciler).await;
        }
        self.around.published.conflicts.send_if_modified(|known| {
            let same = known.iter().eq(self.reports.reported());
            if !same {
                *known = self.reports.reported().cloned().collect();
            }
            !same
        });
    }
}

/// A session that is up and was told everything.
fn is_ready(peer: &PeerStatus) -> bool {
    peer.state == State::Established
        && peer.families.iter().all(|family| !family.negotiated || family.end_of_rib_sent)
}
