//! The task that gives the kernel learned routes. It owns what is wanted and what is installed; a
//! change costs as much as it says, a change of the node's interfaces a look at everything.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flock_bgp::{NextHop, RouteChange};
use flock_dataplane::{Dataplane, Interface, LearnedHop, LearnedRoute};
use ipnet::IpNet;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::resolve::{self, Reach, Ways};
use super::routes::Routes;
use super::{Command, Counts, Lacking, Standing, known};
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
    known: Arc<Mutex<BTreeSet<IpNet>>>,
    routes: Option<mpsc::Receiver<RouteChange>>,
    wanted: Routes<Vec<NextHop>>,
    installed: Routes<Vec<LearnedHop>>,
    /// Installed by a former life, or by a speaker before this one, and not told again yet.
    stale: BTreeSet<IpNet>,
    /// What was wanted when sessions began to end on purpose: that stays. `None`: they do not.
    held: Option<Routes<Vec<NextHop>>>,
    interfaces: Vec<Interface>,
    ways: Ways,
    /// The kernel has been read.
    looked: bool,
    /// Of what we installed, what was not there any more at the last look, as it was.
    gone: BTreeMap<IpNet, Vec<LearnedHop>>,
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
        known: Arc<Mutex<BTreeSet<IpNet>>>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            dataplane,
            metrics,
            known,
            routes: None,
            wanted: Routes::default(),
            installed: Routes::default(),
            stale: BTreeSet::new(),
            held: None,
            interfaces: Vec::new(),
            ways: Ways::new(),
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
                () = pause => self.recheck().await,
            }
        }
    }

    async fn obey(&mut self, command: Command) {
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
                    self.apply(stale).await;
                }
            }
            Command::Hold(true) => {
                self.held.get_or_insert_with(|| self.wanted.clone());
            }
            Command::Hold(false) => {
                self.held = None;
                let unwanted = self.installed.keys().filter(|p| !self.wanted.contains_key(p));
                self.stale.extend(unwanted.copied().collect::<Vec<_>>());
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
                let _ = answer.send(self.installed.to_map());
            }
            Command::Lacking(answer) => {
                let _ = answer.send(self.lacking());
            }
            Command::Counts(answer) => {
                let _ = answer.send(Counts {
                    wanted: self.wanted.counts(),
                    installed: self.installed.counts(),
                    refused: self.refused.len(),
                });
            }
        }
    }

    fn standing(&self, prefix: IpNet) -> Standing {
        let name = |dev: &u32| {
            let found = self.interfaces.iter().find(|interface| interface.index == *dev);
            found.map_or_else(|| format!("interface {dev}"), |interface| interface.name.clone())
        };
        let way = |hop: &LearnedHop| format!("via {} dev {}", hop.via, name(&hop.dev));
        let unusable = |hop: &NextHop| match resolve::reach(hop, &self.interfaces, &self.ways) {
            Reach::By(_) => None,
            Reach::Down(dev) => Some(format!("{} is down", name(&dev))),
            Reach::NoWay(gateway) => Some(format!("nothing leads to {gateway}")),
            Reach::NoAddress => Some("a link-local next hop alone cannot be used".to_owned()),
        };
        let wanted = self.followed().get(&prefix).map(Vec::as_slice).unwrap_or_default();
        Standing {
            installed: self.installed.get(&prefix).map(|hops| hops.iter().map(way).collect()),
            unusable: wanted.iter().filter_map(unusable).collect(),
            refused: self.refused.get(&prefix).map(|words| (words.clone(), self.recheck_at)),
            stale: self.stale.contains(&prefix),
            held: self.held.as_ref().is_some_and(|held| held.contains_key(&prefix)),
        }
    }

    fn lacking(&self) -> Lacking {
        let missing = self.followed().keys().filter(|prefix| !self.installed.contains_key(prefix));
        let unreachable = missing.filter(|prefix| !self.refused.contains_key(prefix)).copied();
        Lacking { refused: self.refused.clone(), unreachable: unreachable.collect() }
    }

    /// What the kernel follows.
    fn followed(&self) -> &Routes<Vec<NextHop>> {
        self.held.as_ref().unwrap_or(&self.wanted)
    }

    /// What is installed is from before, and nothing has been told since.
    fn forget(&mut self) {
        self.wanted.clear();
        self.refused.clear();
        self.unreached.clear();
        self.stale = self.installed.keys().copied().collect();
    }

    /// The speaker chose otherwise.
    async fn learn(&mut self, changes: impl Iterator<Item = RouteChange>) {
        let mut touched = BTreeSet::new();
        let (mut lost, mut example) = (0_usize, None);
        for RouteChange { net, next_hops } in changes {
            touched.insert(net);
            self.stale.remove(&net);
            if next_hops.iter().all(|hop| resolve::gateway(hop).is_none()) && !next_hops.is_empty()
            {
                (lost, example) = (lost + 1, Some(net));
            }
            if next_hops.is_empty() {
                self.wanted.remove(&net);
                self.refused.remove(&net);
            } else {
                self.wanted.insert(net, next_hops);
            }
        }
        if let Some(prefix) = example {
            tracing::warn!(%prefix, routes = lost, "next hops that are link-local alone cannot be used in this version; the router is to send a global one");
        }
        self.ask_ways(&touched).await;
        self.apply(touched).await;
    }

    /// Interfaces and routes anew, and what follows from them.
    async fn recheck(&mut self) {
        self.recheck_at = None;
        self.rechecked = Some(Instant::now());
        self.look().await;
        let all = self.followed().keys().chain(self.installed.keys()).copied().collect();
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
                let before = std::mem::take(&mut self.installed);
                self.installed =
                    routes.into_iter().map(|route| (route.prefix, route.next_hops)).collect();
                let there = |(prefix, hops): &(IpNet, Vec<LearnedHop>)| {
                    self.installed.get(prefix) == Some(hops)
                };
                self.gone = before.into_iter().filter(|route| !there(route)).collect();
                *known(&self.known) = self.installed.keys().copied().collect();
                self.unread.is_over();
                // At the first look all is from before.
                if std::mem::replace(&mut self.looked, true) {
                    self.stale.retain(|prefix| self.installed.contains_key(prefix));
                } else {
                    self.stale = self.installed.keys().copied().collect();
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
        self.ask_ways(&self.followed().keys().copied().collect()).await;
    }

    /// Asks the kernel for the way to next hops that are on no network of ours.
    async fn ask_ways(&mut self, prefixes: &BTreeSet<IpNet>) {
        let followed = self.followed();
        let next_hops = prefixes.iter().filter_map(|prefix| followed.get(prefix)).flatten();
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

    /// Makes the kernel's routes for these prefixes what they should be.
    async fn apply(&mut self, prefixes: BTreeSet<IpNet>) {
        let mut changes = Vec::new();
        for prefix in prefixes {
            match self.change(prefix) {
                Some(change) => changes.push(change),
                // As it should be: what the kernel once refused is refused no longer.
                None => drop(self.refused.remove(&prefix)),
            }
        }
        if changes.is_empty() {
            return;
        }
        // Before they go: our own removal is no drift.
        for gone in changes.iter().filter(|change| change.next_hops.is_empty()) {
            known(&self.known).remove(&gone.prefix);
        }
        let verdicts = match self.dataplane.set_learned(changes.clone()).await {
            Ok(verdicts) => verdicts,
            Err(error) => {
                tracing::error!(%error, "cannot change learned routes; trying again");
                self.try_again(PAUSE);
                return;
            }
        };
        for (change, verdict) in changes.into_iter().zip(verdicts) {
            self.note(change, verdict);
        }
    }

    /// What the kernel is to be told of a prefix; `None`: nothing.
    fn change(&self, prefix: IpNet) -> Option<LearnedRoute> {
        let next_hops = match self.followed().get(&prefix) {
            Some(wanted) => resolve::resolve(wanted, &self.interfaces, &self.ways),
            None if self.held.is_some() || self.stale.contains(&prefix) => return None,
            None => Vec::new(),
        };
        let same = match self.installed.get(&prefix) {
            Some(there) => *there == next_hops,
            None => next_hops.is_empty(),
        };
        (!same).then_some(LearnedRoute { prefix, next_hops })
    }

    fn note(&mut self, change: LearnedRoute, verdict: Result<(), flock_dataplane::Error>) {
        let LearnedRoute { prefix, next_hops } = change;
        let before = self.refused.remove(&prefix);
        match verdict {
            Ok(()) if next_hops.is_empty() => {
                tracing::debug!(%prefix, "learned route removed");
                self.installed.remove(&prefix);
            }
            Ok(()) => {
                tracing::debug!(%prefix, hops = next_hops.len(), "learned route installed");
                if self.gone.remove(&prefix).as_ref() == Some(&next_hops) {
                    self.metrics.kernel.repaired(Repair::Learned);
                }
                known(&self.known).insert(prefix);
                self.installed.insert(prefix, next_hops);
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
