//! The task that gives the kernel learned routes. It owns what is wanted and what is installed; a
//! change costs as much as it says, a change of the node's interfaces a look at everything.

mod answers;
mod flight;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flock_bgp::{NextHop, RouteChange};
use flock_dataplane::{Dataplane, Interface, LearnedHop, LearnedRoute};
use foldhash::fast::RandomState;
use ipnet::IpNet;
use tokio::sync::mpsc;
use tokio::time::Instant;

use flight::Flight;

use super::resolve::{self, Ways};
use super::routes::Routes;
use super::{Command, Counts, Installed, known};
use crate::log::Lasting;
use crate::metrics::{Metrics, Repair};

/// Changes taken together: one call of the kernel for all of them.
const TOGETHER: usize = 1024;
/// Between two looks at the kernel, however often somebody changes it.
const SPACING: Duration = Duration::from_millis(50);
/// After the kernel refused.
const PAUSE: Duration = Duration::from_secs(1);
/// After it refused the same once more.
const LONG_PAUSE: Duration = Duration::from_secs(10);

pub(super) struct Task {
    dataplane: Dataplane,
    metrics: Arc<Metrics>,
    routes: Option<mpsc::Receiver<RouteChange>>,
    wanted: Routes<NextHop>,
    /// Written by this task alone, and never held across a wait.
    installed: Arc<Mutex<Installed>>,
    /// Changes that the kernel was given and has not answered yet.
    flight: Option<Flight>,
    /// Installed by a former life, or by a speaker before this one, and not told again yet.
    stale: BTreeSet<IpNet>,
    /// What was wanted when sessions began to end on purpose: that stays. `None`: they do not.
    held: Option<Routes<NextHop>>,
    interfaces: Vec<Interface>,
    ways: Ways,
    /// What sets of next hops come to with these interfaces and ways; a full table has a few.
    resolved: HashMap<Arc<[NextHop]>, Arc<[LearnedHop]>, RandomState>,
    /// The kernel has been read.
    looked: bool,
    /// Of what we installed, what was not there any more at the last look, as it was.
    gone: BTreeMap<IpNet, Arc<[LearnedHop]>>,
    /// What the kernel refuses, with its words.
    refused: BTreeMap<IpNet, String>,
    /// Next hops that cannot be reached, as was told.
    unreached: BTreeSet<IpAddr>,
    /// What keeps the kernel from being read.
    unread: Lasting,
    /// When the kernel was last looked at, and is to be again.
    rechecked: Option<Instant>,
    recheck_at: Option<Instant>,
}

impl Task {
    pub(super) fn new(
        dataplane: Dataplane,
        installed: Arc<Mutex<Installed>>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            dataplane,
            metrics,
            routes: None,
            wanted: Routes::default(),
            installed,
            flight: None,
            stale: BTreeSet::new(),
            held: None,
            interfaces: Vec::new(),
            ways: Ways::new(),
            resolved: HashMap::default(),
            looked: false,
            gone: BTreeMap::new(),
            refused: BTreeMap::new(),
            unreached: BTreeSet::new(),
            unread: Lasting::default(),
            rechecked: None,
            recheck_at: None,
        }
    }

    pub(super) async fn run(mut self, mut inbox: mpsc::Receiver<Command>) {
        self.recheck().await;
        let mut changes = Vec::new();
        loop {
            let pause = async {
                match self.recheck_at {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let news = async {
                match &mut self.routes {
                    Some(routes) => routes.recv_many(&mut changes, TOGETHER).await,
                    None => std::future::pending().await,
                }
            };
            let flight = async {
                match &mut self.flight {
                    Some(flight) => flight.arrival().await,
                    None => std::future::pending().await,
                }
            };
            // Commands first: what is to be held is held before what follows from it.
            tokio::select! {
                biased;
                command = inbox.recv() => match command {
                    Some(command) => self.obey(command).await,
                    None => return,
                },
                count = news => {
                    if count == 0 {
                        self.routes = None;
                    }
                    self.learn(changes.drain(..)).await;
                }
                verdicts = flight => self.landed(verdicts),
                () = pause => self.recheck().await,
            }
        }
    }

    async fn obey(&mut self, command: Command) {
        self.land().await;
        match command {
            Command::Follow(routes) => {
                self.routes = Some(routes);
                self.forget();
            }
            Command::Forget => {
                self.routes = None;
                self.forget();
            }
            Command::Sweep => {
                // What was told again before everything was told is in the channel by now.
                let mut changes = Vec::new();
                while let Some(Ok(change)) = self.routes.as_mut().map(mpsc::Receiver::try_recv) {
                    changes.push(change);
                }
                self.learn(changes.into_iter()).await;
                let stale = std::mem::take(&mut self.stale);
                if !stale.is_empty() {
                    tracing::info!(
                        routes = stale.len(),
                        "learned routes that nobody told again are removed"
                    );
                    self.apply(stale.into_iter().collect()).await;
                }
            }
            Command::Hold(true) => {
                self.held.get_or_insert_with(|| self.wanted.clone());
            }
            Command::Hold(false) => {
                self.held = None;
                self.outlive();
                self.recheck().await;
            }
            Command::Recheck => {
                let now = Instant::now();
                let at = self.rechecked.map_or(now, |last| last + SPACING);
                if at <= now {
                    self.recheck().await;
                } else {
                    self.recheck_by(at);
                }
            }
            Command::Standing(prefix, answer) => {
                let _ = answer.send(self.standing(prefix));
            }
            Command::Routes(answer) => {
                let _ = answer.send(known(&self.installed).to_map());
            }
            Command::Lacking(answer) => {
                let _ = answer.send(self.lacking());
            }
            Command::Counts(answer) => {
                let _ = answer.send(Counts {
                    wanted: self.wanted.counts(),
                    installed: known(&self.installed).counts(),
                    refused: self.refused.len(),
                });
            }
        }
    }

    /// What the kernel follows.
    fn followed(&self) -> &Routes<NextHop> {
        self.held.as_ref().unwrap_or(&self.wanted)
    }

    /// What is installed is from before, and nothing has been told since.
    fn forget(&mut self) {
        self.wanted.clear();
        self.refused.clear();
        self.unreached.clear();
        self.stale = known(&self.installed).keys().collect();
    }

    /// What is installed and not wanted any more is as from before.
    fn outlive(&mut self) {
        let installed = known(&self.installed);
        self.stale.extend(installed.keys().filter(|prefix| !self.wanted.contains(prefix)));
    }

    /// The speaker chose otherwise.
    async fn learn(&mut self, changes: impl Iterator<Item = RouteChange>) {
        let mut touched = Vec::with_capacity(changes.size_hint().0);
        let mut sets: Vec<Arc<[NextHop]>> = Vec::new();
        let (mut lost, mut example) = (0_usize, None);
        for RouteChange { net, next_hops } in changes {
            touched.push(net);
            self.stale.remove(&net);
            if next_hops.iter().all(|hop| resolve::gateway(hop).is_none()) && !next_hops.is_empty()
            {
                (lost, example) = (lost + 1, Some(net));
            }
            if next_hops.is_empty() {
                self.wanted.remove(&net);
                self.refused.remove(&net);
            } else {
                self.wanted.insert(net, &next_hops);
                // Most have the same as the one before.
                if sets.last().is_none_or(|last| **last != *next_hops) {
                    sets.push(next_hops.into());
                }
            }
        }
        if let Some(prefix) = example {
            tracing::warn!(%prefix, routes = lost, "next hops that are link-local alone cannot be used in this version; the router is to send a global one");
        }
        // What is held was asked for when it was wanted.
        if self.held.is_none() {
            self.ask_ways(&sets).await;
        }
        self.apply(touched).await;
    }

    /// Interfaces and routes anew, and what follows from them.
    async fn recheck(&mut self) {
        self.recheck_at = None;
        self.rechecked = Some(Instant::now());
        self.land().await;
        self.look().await;
        let all = self.followed().keys().chain(known(&self.installed).keys()).collect();
        self.apply(all).await;
    }

    async fn look(&mut self) {
        let looked = match self.dataplane.interfaces().await {
            Ok(interfaces) => {
                self.interfaces = interfaces;
                self.dataplane.learned_routes().await
            }
            Err(error) => Err(error),
        };
        match looked {
            Ok(routes) => {
                let mut found = Installed::default();
                for route in routes {
                    found.insert(route.prefix, &route.next_hops);
                }
                let before = std::mem::replace(&mut *known(&self.installed), found);
                let installed = known(&self.installed);
                let gone = before.iter().filter(|(net, hops)| installed.get(net) != Some(*hops));
                self.gone = gone.map(|(net, hops)| (net, Arc::clone(hops))).collect();
                self.unread.is_over();
                // At the first look all is from before.
                if std::mem::replace(&mut self.looked, true) {
                    self.stale.retain(|prefix| installed.contains(prefix));
                } else {
                    self.stale = installed.keys().collect();
                }
            }
            Err(error) => {
                if self.unread.is_news(&error) {
                    tracing::error!(%error, "cannot read interfaces and learned routes; trying again");
                }
                self.try_again(PAUSE);
            }
        }
        self.ways.clear();
        self.resolved.clear();
        let all: Vec<_> = self.followed().sets().map(Arc::clone).collect();
        self.ask_ways(&all).await;
    }

    /// Asks the kernel for the way to next hops that are on no network of ours.
    async fn ask_ways(&mut self, sets: &[Arc<[NextHop]>]) {
        let new = sets.iter().filter(|set| !self.resolved.contains_key(*set));
        let next_hops = new.flat_map(|set| set.iter());
        let mut far = resolve::far(next_hops, &self.interfaces);
        far.retain(|gateway| !self.ways.contains_key(gateway));
        for gateway in far {
            let way = self.way(gateway).await;
            if way.is_some() {
                self.unreached.remove(&gateway);
            } else if self.unreached.insert(gateway) {
                tracing::warn!(%gateway, "a learned next hop cannot be reached; its routes wait");
            }
            self.ways.insert(gateway, way);
        }
    }

    async fn way(&self, gateway: IpAddr) -> Option<LearnedHop> {
        match self.dataplane.way_to(gateway).await {
            Ok(way) => way.map(|way| LearnedHop { via: way.via.unwrap_or(gateway), dev: way.dev }),
            Err(error) => {
                tracing::error!(%gateway, %error, "cannot ask for the way to a next hop");
                None
            }
        }
    }

    /// What the kernel is to be told of a prefix, with no next hops that it goes; `None`: nothing.
    fn change(&mut self, prefix: IpNet, installed: &Installed) -> Option<Arc<[LearnedHop]>> {
        let followed = self.held.as_ref().unwrap_or(&self.wanted);
        let next_hops = match followed.get(&prefix) {
            Some(wanted) => match self.resolved.get(wanted) {
                Some(known) => Arc::clone(known),
                None => {
                    let found = resolve::resolve(wanted, &self.interfaces, &self.ways);
                    let found: Arc<[LearnedHop]> = found.into();
                    self.resolved.insert(Arc::clone(wanted), Arc::clone(&found));
                    found
                }
            },
            None if self.held.is_some() || self.stale.contains(&prefix) => return None,
            None => Arc::default(),
        };
        let same = match installed.get(&prefix) {
            Some(there) => *there == next_hops,
            None => next_hops.is_empty(),
        };
        (!same).then_some(next_hops)
    }

    fn note(
        &mut self,
        LearnedRoute { prefix, next_hops }: &LearnedRoute,
        verdict: Result<(), flock_dataplane::Error>,
        installed: &mut Installed,
    ) {
        let prefix = *prefix;
        let before = self.refused.remove(&prefix);
        match verdict {
            Ok(()) if next_hops.is_empty() => {
                tracing::debug!(%prefix, "learned route removed");
                installed.remove(&prefix);
            }
            Ok(()) => {
                tracing::debug!(%prefix, hops = next_hops.len(), "learned route installed");
                if self.gone.remove(&prefix).as_ref() == Some(next_hops) {
                    self.metrics.kernel.repaired(Repair::Learned);
                }
                installed.insert(prefix, next_hops);
            }
            Err(error) => {
                self.metrics.kernel.refused(Repair::Learned);
                let words = error.to_string();
                let again = before.as_ref() == Some(&words);
                if !again {
                    tracing::error!(%prefix, %error, "cannot change a learned route; trying again");
                }
                self.refused.insert(prefix, words);
                self.try_again(if again { LONG_PAUSE } else { PAUSE });
            }
        }
    }

    fn try_again(&mut self, pause: Duration) {
        self.recheck_by(Instant::now() + pause);
    }

    fn recheck_by(&mut self, at: Instant) {
        self.recheck_at = Some(self.recheck_at.map_or(at, |known| known.min(at)));
    }
}
