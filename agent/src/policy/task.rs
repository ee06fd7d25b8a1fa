//! The task that owns the engine: what the source tells, and which pods there are, goes in; the
//! kernel gets the difference. Decides when the kernel is changed, when it is given everything anew,
//! and what is said when it refuses.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use flock_dataplane::policy::{Change, Direction, DroppedPacket, Element, Layout, Profile};
use flock_dataplane::{Dataplane, Error as KernelError};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::engine::{Engine, Local};
use super::gate::{Attached, Gate, Request, Standing};
use crate::incidents::{Incident, Incidents};
use crate::log::Lasting;
use crate::metrics::Metrics;
use crate::news::News;
use crate::source::{Cluster, PodKey, Source, World};

/// Requests that are taken together, so that a burst of pods is few transactions.
const AT_ONCE: usize = 64;
/// When what the kernel refused is tried again.
const RETRY: Duration = Duration::from_secs(5);

/// Between two times that everything is made anew because somebody changed it.
const PACE: Duration = Duration::from_secs(1);

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

    /// Gives the kernel what it lacks; `new` are links that come.
    async fn settle(&mut self, new: &[Arc<str>]) {
        if !self.begun {
            return;
        }
        let began = Instant::now();
        // Pods of this node whose labels nobody told since the start would be taken for others.
        let outcome = if !self.cluster.complete || !self.heard {
            self.kernel = Kernel::Unsure;
            self.wait(new).await.map(|()| Standing::Waiting)
        } else if self.retry_at.is_some() && new.is_empty() {
            // It was refused just now, and is tried again when its time has come.
            return;
        } else {
            self.bring_in_step(began).await
        };
        match outcome {
            Ok(standing) => self.is_well(standing),
            Err(error) => self.is_refused(&error),
        }
    }

    async fn bring_in_step(&mut self, began: Instant) -> Result<Standing, KernelError> {
        let dataplane = &self.parts.dataplane;
        let active = self.engine.is_active();
        match self.kernel {
            Kernel::Absent if !active => self.engine.forget_changes(),
            _ if !active => {
                dataplane.remove_policy().await?;
                self.engine.forget_changes();
                self.kernel = Kernel::Absent;
            }
            Kernel::InStep => {
                let change = self.engine.take_change();
                if !change.is_empty() {
                    self.kernel = Kernel::Unsure;
                    match dataplane.change_policy(change).await {
                        Err(KernelError::PolicyGone) => self.replace().await?,
                        other => other?,
                    }
                    self.kernel = Kernel::InStep;
                    self.parts.metrics.policy.updated(began.elapsed());
                }
            }
            Kernel::Unsure | Kernel::Absent => {
                self.replace().await?;
                self.parts.metrics.policy.updated(began.elapsed());
            }
        }
        self.closed.clear();
        Ok(match active {
            true => Standing::InForce {
                policies: self.cluster.policies.len(),
                isolated: self.engine.isolated(),
                crowded: self.engine.crowded().to_vec(),
            },
            false => Standing::Idle,
        })
    }

    async fn replace(&mut self) -> Result<(), KernelError> {
        self.kernel = Kernel::Unsure;
        let elements = self.engine.elements();
        self.engine.forget_changes();
        self.put(elements).await?;
        self.kernel = Kernel::InStep;
        Ok(())
    }

    /// A kernel that cannot log drops all the same.
    async fn put(&mut self, elements: Vec<Element>) -> Result<(), KernelError> {
        self.replaced_at = Some(Instant::now());
        let dataplane = &self.parts.dataplane;
        if !self.layout.log_drops {
            return dataplane.replace_policy(elements, self.layout).await;
        }
        let Err(error) = dataplane.replace_policy(elements.clone(), self.layout).await else {
            return Ok(());
        };
        let plain = Layout { log_drops: false };
        dataplane.replace_policy(elements, plain).await?;
        self.layout = plain;
        tracing::warn!(%error, "dropped packets cannot be logged");
        Ok(())
    }

    /// Somebody changed what is in the kernel. Made anew at once, but not again and again: another
    /// program may want it otherwise.
    fn recheck(&mut self) {
        self.kernel = Kernel::Unsure;
        self.lost = true;
        let next = self.replaced_at.map(|at| at + PACE).filter(|next| *next > Instant::now());
        self.retry_at = self.retry_at.or(next);
    }

    /// Not everything is known: what is in the kernel stays, and whoever comes and is isolated by what
    /// is known gets nothing at all. Where the table is lost, that is true of everybody.
    async fn wait(&mut self, new: &[Arc<str>]) -> Result<(), KernelError> {
        if std::mem::take(&mut self.lost) && self.engine.is_active() {
            let dataplane = &self.parts.dataplane;
            if !dataplane.policy_present(self.layout).await? {
                let all: Vec<Arc<str>> = self.attached.keys().cloned().collect();
                let closed: Vec<Element> =
                    all.iter().flat_map(|link| self.closed_to(link)).collect();
                self.put(closed).await?;
                self.closed = all.into_iter().collect();
            }
        }
        for ifname in new {
            if self.closed.insert(ifname.clone()) {
                self.close(ifname).await.inspect_err(|_| self.closed.clear())?;
            }
        }
        Ok(())
    }

    /// What holds a pod that policies isolate to nothing at all.
    fn closed_to(&self, ifname: &Arc<str>) -> Vec<Element> {
        let subject = |direction| Element::Subject {
            direction,
            ifname: ifname.clone(),
            profile: Profile::CLOSED,
        };
        self.isolated(ifname).map(subject).collect()
    }

    async fn close(&mut self, ifname: &Arc<str>) -> Result<(), KernelError> {
        for element in self.closed_to(ifname) {
            let change = |removed| Change { removed, added: vec![element.clone()] };
            let dataplane = &self.parts.dataplane;
            match dataplane.change_policy(change(Vec::new())).await {
                Ok(()) => {}
                Err(KernelError::PolicyGone) => self.put(vec![element]).await?,
                // Another life, or another try, may have left one of the same name.
                Err(_) => dataplane.change_policy(change(vec![element.clone()])).await?,
            }
        }
        Ok(())
    }

    fn is_well(&mut self, standing: Standing) {
        self.retry_at = None;
        self.trouble.is_over();
        self.tell(standing);
    }

    fn is_refused(&mut self, error: &KernelError) {
        self.kernel = Kernel::Unsure;
        self.retry_at = Some(Instant::now() + RETRY);
        self.parts.metrics.policy.failed();
        let reason = error.to_string();
        if self.trouble.is_news(&reason) {
            tracing::error!(
                error = reason,
                "network policies cannot be put in force; what was in force stays, trying again"
            );
            self.parts.incidents.tell(Incident::PolicyFailed { reason: reason.clone() });
        }
        self.tell(Standing::Failing(reason));
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
