//! The task that owns the engine: what the source tells, and which pods there are, goes in; the
//! kernel gets the difference (`kernel`). Decides what is taken together, and who is answered when.

mod kernel;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use flock_dataplane::policy::{Direction, DroppedPacket, Layout};
use flock_dataplane::{Dataplane, Error as KernelError};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::engine::{Engine, Local};
use super::gate::{Attached, Gate, Request, Standing};
use crate::incidents::Incidents;
use crate::log::Lasting;
use crate::metrics::Metrics;
use crate::news::News;
use crate::source::{Cluster, PodKey, Source, World};

/// Requests that are taken together, so that a burst of pods is few transactions.
const AT_ONCE: usize = 64;

/// What the task works with.
#[allow(missing_docs, reason = "each is what its type says")]
pub struct Parts {
    pub source: Source,
    pub dataplane: Dataplane,
    pub metrics: Arc<Metrics>,
    pub incidents: Incidents,
    pub news: News,
}

/// Starts the task. The kernel is not touched before [`Gate::begin`].
pub fn start(parts: Parts) -> Gate {
    let clusters = parts.source.cluster();
    let worlds = parts.source.changes();
    let (publish, standing) = watch::channel(Standing::default());
    let (gate, requests) = Gate::new(standing, clusters.clone());
    let task = Task {
        world: parts.source.world(),
        cluster: Arc::default(),
        clusters,
        worlds,
        engine: Engine::default(),
        attached: HashMap::new(),
        by_pod: HashMap::new(),
        begun: false,
        closed: HashSet::new(),
        kernel: Kernel::Unsure,
        wanted: Layout::default(),
        layout: Layout::default(),
        told: (true, true),
        heard: false,
        lost: false,
        replaced_at: None,
        drops: None,
        retry_at: None,
        trouble: Lasting::default(),
        publish,
        parts,
    };
    tokio::spawn(task.run(requests));
    gate
}

/// What the kernel has, as far as is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kernel {
    /// What another life left, or what somebody else did to it: the next change replaces everything.
    Unsure,
    /// No table.
    Absent,
    /// What the engine had when its changes were last taken.
    InStep,
}

/// Who waits for the kernel.
enum Waiting {
    Admitted(Arc<str>, oneshot::Sender<Result<(), String>>),
    Begun(oneshot::Sender<()>),
    Asks(Box<dyn FnOnce(&View<'_>) + Send>),
}

/// What can be asked about.
pub struct View<'a> {
    /// What is decided.
    pub engine: &'a Engine,
    /// The pods of this node.
    pub attached: &'a HashMap<Arc<str>, Attached>,
    /// What was told of this node.
    pub world: &'a World,
    /// What was told of all.
    pub cluster: &'a Cluster,
}

struct Task {
    parts: Parts,
    worlds: watch::Receiver<Arc<World>>,
    clusters: watch::Receiver<Arc<Cluster>>,
    /// What the engine knows of both.
    world: Arc<World>,
    cluster: Arc<Cluster>,
    engine: Engine,
    attached: HashMap<Arc<str>, Attached>,
    by_pod: HashMap<PodKey, Vec<Arc<str>>>,
    begun: bool,
    /// Links that were closed because not everything is known.
    closed: HashSet<Arc<str>>,
    kernel: Kernel,
    /// What the NodeConfig wants, and what the kernel takes of it.
    wanted: Layout,
    layout: Layout,
    /// Both pictures are still told.
    told: (bool, bool),
    /// The source has told everything of this node once.
    heard: bool,
    /// Somebody changed the table, perhaps removed it.
    lost: bool,
    replaced_at: Option<Instant>,
    /// Packets that were dropped, where they are to be logged.
    drops: Option<mpsc::Receiver<DroppedPacket>>,
    retry_at: Option<Instant>,
    trouble: Lasting,
    publish: watch::Sender<Standing>,
}

impl Task {
    async fn run(mut self, mut requests: mpsc::Receiver<Request>) {
        loop {
            let mut asked = Vec::new();
            let retry = async {
                match self.retry_at {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                request = requests.recv() => match request {
                    Some(request) => asked.push(request),
                    None => return,
                },
                // A source that has ended leaves its last picture, which is then the best there is.
                changed = self.worlds.changed(), if self.told.0 => self.told.0 = changed.is_ok(),
                changed = self.clusters.changed(), if self.told.1 => self.told.1 = changed.is_ok(),
                () = retry => self.retry_at = None,
                dropped = next(&mut self.drops) => {
                    self.log(dropped);
                    continue;
                }
            }
            if asked.is_empty() {
                // Nobody waits: those first who have to tell others of the same news.
                tokio::task::yield_now().await;
            }
            while asked.len() < AT_ONCE
                && let Ok(request) = requests.try_recv()
            {
                asked.push(request);
            }
            // First what was told: whoever comes was told of before.
            self.look();
            let mut waiting = Vec::new();
            asked.into_iter().for_each(|request| self.take(request, &mut waiting));
            let admitted = |one: &Waiting| match one {
                Waiting::Admitted(ifname, _) => Some(ifname.clone()),
                _ => None,
            };
            let new: Vec<Arc<str>> = waiting.iter().filter_map(admitted).collect();
            self.settle(&new).await;
            self.answer(waiting);
        }
    }

    fn take(&mut self, request: Request, waiting: &mut Vec<Waiting>) {
        match request {
            Request::Begin(attached, done) => {
                self.begun = true;
                attached.into_iter().for_each(|attached| self.attach(attached));
                waiting.push(Waiting::Begun(done));
            }
            Request::Admit(attached, answer) => {
                waiting.push(Waiting::Admitted(attached.ifname.clone(), answer));
                self.attach(attached);
            }
            Request::Release(ifname) => self.detach(&ifname),
            Request::Recheck => self.recheck(),
            Request::Ask(question) => waiting.push(Waiting::Asks(question)),
        }
    }

    fn attach(&mut self, attached: Attached) {
        let links = self.by_pod.entry(attached.pod.clone()).or_default();
        if !links.contains(&attached.ifname) {
            links.push(attached.ifname.clone());
        }
        let local = self.local(&attached).unwrap_or_else(|| unknown(&attached));
        self.engine.set_local(&attached.ifname, Some(local));
        self.attached.insert(attached.ifname.clone(), attached);
    }

    fn detach(&mut self, ifname: &Arc<str>) {
        let Some(attached) = self.attached.remove(ifname) else { return };
        if let Some(links) = self.by_pod.get_mut(&attached.pod) {
            links.retain(|link| link != ifname);
            if links.is_empty() {
                self.by_pod.remove(&attached.pod);
            }
        }
        self.closed.remove(ifname);
        self.engine.set_local(ifname, None);
    }

    /// Tells the engine what was told since the last look.
    fn look(&mut self) {
        let world = self.worlds.borrow_and_update().clone();
        let before = std::mem::replace(&mut self.world, world);
        for pod in self.world.pods.differing(&before.pods) {
            for ifname in self.by_pod.get(&pod).into_iter().flatten() {
                // One that is not told of any more may still run: it stays what it was.
                let now = self.attached.get(ifname).and_then(|attached| self.local(attached));
                if let Some(local) = now {
                    self.engine.set_local(ifname, Some(local));
                }
            }
        }
        self.heard |= self.world.away.is_none();
        let cluster = self.clusters.borrow_and_update().clone();
        if !Arc::ptr_eq(&cluster, &self.cluster) {
            self.engine.set_cluster(&cluster);
            self.cluster = cluster;
        }
        let config = self.world.node.config();
        let layout = Layout { log_drops: config.is_some_and(|config| config.log_drops) };
        if layout != self.wanted {
            (self.wanted, self.layout) = (layout, layout);
            self.kernel = Kernel::Unsure;
            self.listen();
        }
    }

    /// Hears of packets that are dropped, where that is wanted.
    fn listen(&mut self) {
        self.drops = None;
        if self.layout.log_drops {
            let watched = self.parts.dataplane.watch_drops();
            let unheard = |error: &KernelError| {
                tracing::warn!(%error, "dropped packets cannot be logged");
            };
            self.drops = watched.inspect_err(unheard).ok();
        }
    }

    fn log(&mut self, dropped: Option<DroppedPacket>) {
        let Some(packet) = dropped else {
            self.drops = None;
            return;
        };
        let pod = self.attached.get(&*packet.ifname).map(|attached| attached.pod.to_string());
        let DroppedPacket { source, destination, protocol, port, .. } = packet;
        let direction = match packet.direction {
            Direction::Ingress => "ingress",
            Direction::Egress => "egress",
        };
        tracing::info!(
            pod,
            direction,
            %source,
            %destination,
            protocol,
            port,
            "a network policy dropped a packet"
        );
    }

    fn tell(&self, standing: Standing) {
        let before = match &*self.publish.borrow() {
            Standing::InForce { crowded, .. } => crowded.clone(),
            _ => Vec::new(),
        };
        if let Standing::InForce { crowded, .. } = &standing {
            for namespace in crowded.iter().filter(|namespace| !before.contains(namespace)) {
                tracing::warn!(
                    namespace,
                    "too many overlapping blocks; rules by ipBlock of this namespace allow nobody"
                );
            }
        }
        let news = self.publish.send_if_modified(|known| {
            let news = *known != standing;
            if news {
                *known = standing;
            }
            news
        });
        if news {
            self.parts.news.ring();
        }
    }

    fn answer(&mut self, waiting: Vec<Waiting>) {
        let standing = self.publish.borrow().clone();
        for one in waiting {
            match one {
                Waiting::Begun(done) => drop(done.send(())),
                Waiting::Admitted(ifname, answer) => {
                    let verdict = self.verdict(&standing, &ifname);
                    if verdict.is_err() {
                        self.detach(&ifname);
                    }
                    let _ = answer.send(verdict);
                }
                Waiting::Asks(question) => question(&View {
                    engine: &self.engine,
                    attached: &self.attached,
                    world: &self.world,
                    cluster: &self.cluster,
                }),
            }
        }
    }

    /// What is told of an attachment, as the engine is to know it. `None`: the source knows every pod
    /// of this node, and not (or not yet, or not any more) this one.
    fn local(&self, attached: &Attached) -> Option<Local> {
        let facts = self.world.pods.get(&attached.pod);
        match facts.filter(|facts| facts.has_uid(&attached.uid)) {
            Some(facts) => Some(Local {
                labels: facts.labels.clone(),
                ports: facts.ports.clone(),
                known: true,
                ..unknown(attached)
            }),
            None if self.parts.source.is_complete() => None,
            None => Some(Local { known: true, ..unknown(attached) }),
        }
    }

    /// The directions in which policies isolate a pod.
    fn isolated(&self, ifname: &Arc<str>) -> impl Iterator<Item = Direction> {
        let both = [Direction::Ingress, Direction::Egress].into_iter();
        both.filter(|way| self.engine.isolation(ifname, *way).profile.is_some())
    }

    /// A pod that nothing isolates needs nothing in the kernel.
    fn verdict(&self, standing: &Standing, ifname: &Arc<str>) -> Result<(), String> {
        match standing {
            Standing::Failing(reason) if self.isolated(ifname).next().is_some() => Err(format!(
                "network policies isolate this pod, and the kernel refuses them: {reason}"
            )),
            _ => Ok(()),
        }
    }
}

/// The next packet that was dropped; never one where nobody listens.
async fn next(drops: &mut Option<mpsc::Receiver<DroppedPacket>>) -> Option<DroppedPacket> {
    match drops {
        Some(drops) => drops.recv().await,
        None => std::future::pending().await,
    }
}

/// An attachment of which nothing but its name and addresses is known.
fn unknown(attached: &Attached) -> Local {
    Local {
        key: attached.pod.clone(),
        labels: Arc::default(),
        ports: Arc::default(),
        addresses: attached.addresses.clone(),
        shared: attached.shared.clone(),
        known: false,
    }
}

#[cfg(test)]
mod tests;
