//! The threads that talk to the kernel.
//!
//! Decides where netlink runs: on a few OS threads of our own, because a
//! visit to a pod's namespace changes the thread, which an async runtime's
//! thread must never suffer. A thread that cannot come home ends and is
//! replaced. The queue is bounded: a full one makes the callers wait. A brief
//! job that visits nobody is done where it is asked for, while the threads rest.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use netlink_sys::TokioSocket;
use tokio::sync::oneshot;

use crate::channel::Channel;
use crate::error::Error;
use crate::hearing::Listeners;
use crate::indices::Indices;
use crate::jobs::{Callers, Jobs, queue};
use crate::netns::Netns;
use crate::sysctl::NodeSettings;

/// RTNL serialises the writers anyway, and those that wait for it spin: two,
/// so that a reader and a long deletion do not wait for each other.
const THREADS: usize = 2;

/// Jobs waiting for a thread; when full, the async side waits.
const QUEUE: usize = 256;

type Job = Box<dyn FnOnce(&mut Worker) + Send>;

/// The ports of the threads' sockets, by which the monitor knows what this
/// dataplane asked for itself. A number is one socket's of one protocol.
#[derive(Debug, Default)]
pub(crate) struct Ports {
    pub(crate) route: OwnPorts,
    pub(crate) netfilter: OwnPorts,
    /// Those that are not told of our own routes.
    listeners: Listeners,
}

impl Ports {
    /// From now on this socket is not told of our own routes.
    pub(crate) fn listen(&self, socket: Weak<TokioSocket>) {
        self.listeners.add(socket, &self.route.all());
    }

    fn note_route(&self, thread: usize, port: u32) {
        self.route.note(thread, port);
        self.listeners.pass_over(&self.route.all());
    }
}

/// Those of one protocol, one for each thread and one for brief jobs.
#[derive(Debug, Default)]
pub(crate) struct OwnPorts([AtomicU32; THREADS + 1]);

impl OwnPorts {
    pub(crate) fn contain(&self, port: u32) -> bool {
        // 0 is the kernel's own, and that of a socket that is not open yet.
        port != 0 && self.0.iter().any(|own| own.load(Ordering::Relaxed) == port)
    }

    fn all(&self) -> [u32; THREADS + 1] {
        self.0.each_ref().map(|own| own.load(Ordering::Relaxed))
    }

    fn note(&self, thread: usize, port: u32) {
        if let Some(own) = self.0.get(thread) {
            own.store(port, Ordering::Relaxed);
        }
    }
}

/// What all threads share.
#[derive(Debug)]
struct Shared {
    home: Netns,
    ports: Arc<Ports>,
    proc_sys: OnceLock<PathBuf>,
    jobs: Arc<Jobs<Job>>,
    /// Whose turn it is to make a link.
    wiring: Mutex<()>,
    /// The names of links that are retired and not yet deleted.
    retired: Mutex<BTreeSet<String>>,
    indices: Indices,
}

/// Held by every thread: with the last of them nobody takes a job any more.
#[derive(Debug)]
struct Threads(Arc<Jobs<Job>>);

impl Drop for Threads {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// A thread's own things, or those of brief jobs.
#[derive(Debug)]
pub(crate) struct Worker {
    shared: Arc<Shared>,
    /// None of brief jobs.
    threads: Option<Arc<Threads>>,
    /// Which of the threads it is; brief jobs come behind them.
    thread: usize,
    host: Channel,
    /// Opened when it is first needed.
    netfilter: Option<Channel>,
    stranded: bool,
}

impl Worker {
    fn new(
        shared: Arc<Shared>,
        threads: Option<Arc<Threads>>,
        thread: usize,
    ) -> Result<Self, Error> {
        let home = &shared.home;
        home.enter().map_err(|errno| Error::NamespaceOpen {
            path: home.path().to_path_buf(),
            source: errno.into(),
        })?;
        let host = Channel::route()?;
        shared.ports.note_route(thread, host.port());
        Ok(Self { host, netfilter: None, shared, threads, thread, stranded: false })
    }

    /// The node's own socket, a fresh one where the last exchange failed.
    pub(crate) fn host(&mut self) -> Result<&mut Channel, Error> {
        if self.host.broken() {
            let fresh = Channel::route()?;
            // Before the old one is closed, and its port can be another's.
            self.shared.ports.note_route(self.thread, fresh.port());
            self.host = fresh;
        }
        Ok(&mut self.host)
    }

    /// The node's own socket for nftables, likewise. It lasts, so that what
    /// it changes is known as our own.
    pub(crate) fn netfilter(&mut self) -> Result<&mut Channel, Error> {
        let channel = match self.netfilter.take().filter(|channel| !channel.broken()) {
            Some(channel) => channel,
            None => {
                let channel = Channel::netfilter()?;
                self.shared.ports.netfilter.note(self.thread, channel.port());
                channel
            }
        };
        Ok(self.netfilter.insert(channel))
    }

    /// The node's namespace.
    pub(crate) fn home(&self) -> &Netns {
        &self.shared.home
    }

    pub(crate) fn proc_sys(&self) -> &Path {
        self.shared.proc_sys.get_or_init(|| NodeSettings::default().proc_sys)
    }

    pub(crate) fn set_proc_sys(&self, path: &Path) {
        // The first one counts; it does not change while the agent runs.
        let _ = self.shared.proc_sys.set(path.to_path_buf());
    }

    /// Does what holds RTNL for long while no other thread of ours does: the kernel makes one link at
    /// a time, and whoever waits for RTNL spins, on a processor that others have a use for.
    pub(crate) fn in_turn<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let shared = Arc::clone(&self.shared);
        // There is nothing behind the lock that a panic could have left half done.
        let _turn = shared.wiring.lock().unwrap_or_else(PoisonError::into_inner);
        work(self)
    }

    /// The indices of pods' links.
    pub(crate) fn indices(&self) -> &Indices {
        &self.shared.indices
    }

    /// From now on this link is one to be deleted.
    pub(crate) fn condemn(&self, host_ifname: &str) {
        self.retired().insert(host_ifname.to_owned());
    }

    /// And no longer.
    pub(crate) fn pardon(&self, host_ifname: &str) {
        self.retired().remove(host_ifname);
    }

    /// Whether it is.
    pub(crate) fn is_condemned(&self, host_ifname: &str) -> bool {
        self.retired().contains(host_ifname)
    }

    /// All of them.
    pub(crate) fn condemned(&self) -> Vec<String> {
        self.retired().iter().cloned().collect()
    }

    fn retired(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.shared.retired.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A socket inside a pod's namespace; the thread is home again after.
    pub(crate) fn channel_inside(&mut self, netns: &Netns) -> Result<Channel, Error> {
        self.visit(netns, Channel::route)
    }

    pub(crate) fn visit<T>(
        &mut self,
        netns: &Netns,
        visit: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        if netns.id() == self.home().id() {
            return Err(Error::OwnNamespace { path: netns.path().to_path_buf() });
        }
        let home = self.shared.home.clone();
        netns.visit(&home, visit).inspect_err(|error| {
            self.stranded |= matches!(error, Error::Stranded { .. });
        })
    }
}

/// The callers' end: jobs go in, threads end when the last of it is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    callers: Arc<Callers<Job>>,
    /// For brief jobs, which whoever asks does himself.
    brief: Arc<Mutex<Worker>>,
    home: Netns,
    ports: Arc<Ports>,
    /// Jobs that the kernel, or the way to it, failed.
    failures: Arc<AtomicU64>,
}

impl Pool {
    /// Starts the threads in the namespace of the calling thread.
    pub(crate) fn start() -> Result<Self, Error> {
        let home = Netns::of_this_thread()?;
        let (callers, jobs) = queue(QUEUE);
        let ports = Arc::new(Ports::default());
        let shared = Arc::new(Shared {
            home: home.clone(),
            ports: Arc::clone(&ports),
            proc_sys: OnceLock::new(),
            jobs,
            wiring: Mutex::default(),
            retired: Mutex::default(),
            indices: Indices::default(),
        });
        let threads = Arc::new(Threads(Arc::clone(&shared.jobs)));
        for thread in 0..THREADS {
            let threads = Some(Arc::clone(&threads));
            spawn(Worker::new(Arc::clone(&shared), threads, thread)?)?;
        }
        let brief = Arc::new(Mutex::new(Worker::new(shared, None, THREADS)?));
        Ok(Self { callers: Arc::new(callers), brief, home, ports, failures: Arc::default() })
    }

    pub(crate) fn ports(&self) -> Arc<Ports> {
        Arc::clone(&self.ports)
    }

    pub(crate) fn home(&self) -> &Netns {
        &self.home
    }

    /// Runs a job on one of the threads. A caller that gives up waiting does
    /// not stop it: what was begun in the kernel is finished or undone.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Worker) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (answer, result) = oneshot::channel();
        // What is logged on the thread is logged for whoever asked.
        let span = tracing::Span::current();
        let job: Job = Box::new(move |worker| {
            let outcome = span.in_scope(|| job(worker));
            let _ = answer.send(outcome);
        });
        self.callers.add(job).await;
        self.counted(result.await.map_err(|_| Error::Stopped)?)
    }

    /// The same for a job of a few requests that visits no namespace: done by
    /// the calling thread where the others rest. A thread that has to be woken,
    /// and its answer brought back, takes four times as long as a route does
    /// (190 and 48 us, traced). While they work the caller would only wait for the
    /// kernel's lock with everybody behind him, so that the job is one of theirs.
    pub(crate) async fn run_brief<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Worker) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        if self.callers.are_idle()
            && let Ok(mut worker) = self.brief.try_lock()
        {
            return self.counted(job(&mut worker));
        }
        self.run(job).await
    }

    fn counted<T>(&self, outcome: Result<T, Error>) -> Result<T, Error> {
        if outcome.as_ref().is_err_and(Error::is_failure) {
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
        outcome
    }

    /// Counts those of many verdicts that are failures.
    pub(crate) fn count(&self, verdicts: &[Result<(), Error>]) {
        let failed =
            verdicts.iter().filter(|verdict| verdict.as_ref().is_err_and(Error::is_failure));
        self.failures.fetch_add(failed.count() as u64, Ordering::Relaxed);
    }

    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }
}

fn spawn(worker: Worker) -> Result<(), Error> {
    std::thread::Builder::new()
        .name("flock-netlink".to_owned())
        .spawn(move || serve(worker))
        .map(drop)
        .map_err(|source| Error::Socket { what: "start a thread", source })
}

fn serve(mut worker: Worker) {
    // A replacement is started by a thread that is lost, and so inherits the
    // wrong namespace; from the pool it is where it should be already.
    if let Err(errno) = worker.home().enter() {
        tracing::error!(%errno, "a netlink thread cannot enter the node's namespace");
        return;
    }
    loop {
        let Some(taken) = worker.shared.jobs.next() else { return };
        (taken.job)(&mut worker);
        drop(taken.place);
        if worker.stranded {
            replace(worker);
            return;
        }
    }
}

fn replace(lost: Worker) {
    tracing::error!("a netlink thread is stranded in a pod's namespace, replacing it");
    let (shared, threads, thread) = (Arc::clone(&lost.shared), lost.threads.clone(), lost.thread);
    let spawned =
        std::thread::Builder::new().name("flock-netlink".to_owned()).spawn(
            move || match Worker::new(shared, threads, thread) {
                Ok(worker) => serve(worker),
                Err(error) => tracing::error!(%error, "no replacement for a netlink thread"),
            },
        );
    if let Err(error) = spawned {
        tracing::error!(%error, "no replacement for a netlink thread");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[tokio::test]
    async fn a_brief_job_is_done_by_who_asks_unless_a_thread_is_at_work() {
        let pool = Pool::start().unwrap();
        let here = thread::current().id();
        let who = |_: &mut Worker| Ok(thread::current().id());
        assert_eq!(pool.run_brief(who).await.unwrap(), here);
        let (go_on, held) = mpsc::channel::<()>();
        let busy = pool.clone();
        let job = tokio::spawn(async move { busy.run(move |_| Ok(held.recv().is_ok())).await });
        while pool.callers.are_idle() {
            tokio::task::yield_now().await;
        }
        assert_ne!(pool.run_brief(who).await.unwrap(), here);
        go_on.send(()).unwrap();
        assert!(job.await.unwrap().unwrap());
        let own = pool.brief.lock().unwrap().host.port();
        assert!(pool.ports.route.contain(own), "what it does would be taken for drift");
    }
}
