//! The task that gives the kernel its node routes and the speaker its originations. It remembers
//! what it did, so that a pass costs the difference; after drift, and at the start, it reads the
//! kernel instead of remembering.
//!
//! The order of a pass: who asks for what; withdrawals; routes; announcements; removals, for which
//! nobody waits. Between a withdrawal and its route's removal an anycast address lingers, because
//! routers act later than we speak.

mod asking;
mod laying;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use flock_bgp::{Origination, Wishes};
use flock_bgp_io::Handle;
use flock_dataplane::{Dataplane, NodeRoute};
use ipnet::IpNet;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::agenda::Agenda;
use super::claims::Claims;
use super::desired::{self, Rules};
use super::pace::Pace;
use super::past::{Cause, Past, Withdrawal};
use super::{Picture, Question, Routes, Signal};
use crate::config::NodeConfig;
use crate::log::Lasting;
use crate::metrics::Metrics;
use crate::pods::book::{Attachment, Book};
use crate::pods::ledger::{Closed, Ledger};
use crate::source::{Pods, Source};
use crate::store::Key;

pub(super) struct Task {
    ledger: Ledger,
    dataplane: Dataplane,
    source: Source,
    signal: Arc<Signal>,
    metrics: Arc<Metrics>,
    claims: Claims,
    rules: Rules,
    /// The configuration and the pods that `claims` and `rules` are made from.
    config: Option<Arc<NodeConfig>>,
    pods: Pods,
    installed: Routes,
    /// Of what we installed, what was not there any more when the kernel was last read.
    gone: Routes,
    /// `installed` was read from the kernel and not looked at yet.
    found: bool,
    /// When to read it (again), after a failure.
    read_again: Option<Instant>,
    /// Routes of this pass that are to be told of.
    laid: Vec<(IpNet, NodeRoute)>,
    /// What the kernel refuses, with its words.
    refused: BTreeMap<IpNet, String>,
    /// What keeps the kernel from being read, and from removing what is not wanted any more.
    unread: Lasting,
    unremoved: BTreeMap<IpNet, Lasting>,
    /// Networks that are kept only for the pods in them.
    leftover: Vec<IpNet>,
    /// Until when a withdrawn address may stay.
    lingering: BTreeMap<IpNet, Instant>,
    pace: Pace,
    /// When to look at a prefix again: the end of its lingering or of its pacing, another try.
    again: Agenda,
    /// Nothing is to be announced.
    hushed: bool,
    /// Since when.
    originated: BTreeMap<IpNet, Instant>,
    /// Pods of this pass for which something is not to be announced any more.
    left: BTreeMap<IpNet, (Arc<str>, Cause)>,
    past: Past,
    /// Which speaker knows `originated`, with which attributes.
    told: (u64, Origination),
    /// When the task began.
    began: Instant,
}

impl Task {
    pub(super) fn new(
        ledger: Ledger,
        dataplane: Dataplane,
        source: Source,
        signal: Arc<Signal>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            ledger,
            dataplane,
            source,
            signal,
            metrics,
            claims: Claims::default(),
            rules: Rules::default(),
            config: None,
            pods: Pods::default(),
            installed: Routes::new(),
            gone: Routes::new(),
            found: false,
            read_again: None,
            laid: Vec::new(),
            refused: BTreeMap::new(),
            unread: Lasting::default(),
            unremoved: BTreeMap::new(),
            hushed: false,
            leftover: Vec::new(),
            lingering: BTreeMap::new(),
            pace: Pace::default(),
            again: Agenda::default(),
            originated: BTreeMap::new(),
            left: BTreeMap::new(),
            past: Past::default(),
            told: (0, Origination::default()),
            began: Instant::now(),
        }
    }

    pub(super) async fn run(
        mut self,
        publish: watch::Sender<u64>,
        mut questions: mpsc::Receiver<Question>,
    ) {
        self.signal.begun.notified().await;
        let mut changes = self.source.changes();
        loop {
            let next = self.again.next().into_iter().chain(self.read_again).min();
            let pause = async {
                match next {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.signal.wake.notified() => {}
                changed = changes.changed() => if changed.is_err() { return },
                () = pause => {}
                Some(question) = questions.recv() => {
                    question(&self.picture());
                    continue;
                }
            }
            let asked = self.signal.asked.load(Ordering::Acquire);
            if self.pass().await.is_err() {
                return;
            }
            // Told also after a failure: an ADD does not hang on another pod's route.
            publish.send_replace(asked);
            self.signal.news.ring();
        }
    }

    fn picture(&self) -> Picture<'_> {
        Picture {
            claims: &self.claims,
            rules: &self.rules,
            originated: &self.originated,
            installed: &self.installed,
            lingering: &self.lingering,
            again: &self.again,
            refused: &self.refused,
            leftover: &self.leftover,
            hushed: self.hushed,
            past: &self.past,
        }
    }

    /// One look at the world.
    async fn pass(&mut self) -> Result<(), Closed> {
        let now = Instant::now();
        let mut dirty = self.again.due(now);
        let reread = self.read_again.is_some_and(|at| at <= now);
        if self.signal.recheck.swap(false, Ordering::AcqRel) || reread {
            self.read_kernel(now).await;
            dirty.extend(self.everything().chain(self.installed.keys().copied()));
        }
        let since = self.metrics.latency.take();
        self.look(&mut dirty).await?;
        let hushed = self.signal.hushed.load(Ordering::Acquire);
        let (generation, handle) = self.signal.speaker().clone();
        if std::mem::replace(&mut self.hushed, hushed) != hushed || self.told.0 != generation {
            dirty.extend(self.everything().chain(self.originated.keys().copied()));
        }
        let speaker = Speaker { handle, generation, since };
        let announced = dirty.iter().filter(|prefix| self.originated.contains_key(prefix));
        let gone = announced.filter(|prefix| !self.wants(prefix)).copied().collect();
        self.withdraw(&speaker, gone, now).await;
        let unwanted = self.lay(&dirty, now).await;
        self.announce(&speaker, &dirty, now).await;
        self.remove(unwanted).await;
        // Not on the way to the peers.
        for (prefix, route) in self.laid.drain(..) {
            tracing::info!(%prefix, to = laying::told(&route), "route installed");
        }
        self.left.clear();
        Ok(())
    }

    /// Every prefix that somebody asks for.
    fn everything(&self) -> impl Iterator<Item = IpNet> + '_ {
        self.claims.prefixes().chain(&self.rules.summaries).copied()
    }

    /// Whether a prefix is to be announced, kernel aside.
    fn wants(&self, prefix: &IpNet) -> bool {
        !self.hushed && desired::wants_announcement(*prefix, self.claims.of(prefix), &self.rules)
    }

    /// Takes in what changed: the NodeConfig, pods, attachments. Adds the prefixes concerned.
    async fn look(&mut self, dirty: &mut BTreeSet<IpNet>) -> Result<(), Closed> {
        let world = self.source.world();
        let config = world.node.config();
        let differing = world.pods.differing(&self.pods);
        let same_config = config.map(Arc::as_ptr) == self.config.as_ref().map(Arc::as_ptr);
        // Networks that are no longer asked for come to be with another configuration, or are found
        // in the kernel; they are looked for as long as there are some.
        let leftover = if same_config && !self.found && self.leftover.is_empty() {
            Vec::new()
        } else {
            desired::leftover_summaries(config.map(AsRef::as_ref), &self.installed)
        };
        // Without any NodeConfig yet, what a former life installed stays as it is.
        let keep_all = config.is_none();
        let look = move |book: &mut Book| {
            let held = if keep_all { leftover } else { book.holding(&leftover) };
            (held, book.take_changed(&differing))
        };
        let (still_held, mut changed) = self.ledger.ask(look).await?;
        let same = same_config && self.leftover == still_held;
        self.found = false;
        self.tell_of_leftovers(still_held);
        self.pods = world.pods.clone();
        if !same {
            self.config = config.cloned();
            let rules = Rules::new(config.map(AsRef::as_ref), &self.leftover);
            if rules != self.rules {
                dirty.extend(rules.summaries.symmetric_difference(&self.rules.summaries));
                self.rules = rules;
                changed.extend(self.ledger.ask(everybody).await?);
            }
        }
        self.claim(changed, dirty);
        Ok(())
    }

    /// Announces what is wanted, delivered and not announced yet, and takes back what turned out
    /// not to be delivered.
    async fn announce(&mut self, speaker: &Speaker, dirty: &BTreeSet<IpNet>, now: Instant) {
        let (mut news, mut undelivered) = (Vec::new(), Vec::new());
        for prefix in dirty.iter().filter(|prefix| self.wants(prefix)).copied().collect::<Vec<_>>()
        {
            let (holders, installed) = (self.claims.of(&prefix), self.installed.get(&prefix));
            let delivered = desired::is_delivered(prefix, holders, &self.rules, installed);
            match (delivered, self.originated.contains_key(&prefix)) {
                (true, false) if self.may_announce(prefix, now) => news.push(prefix),
                (false, true) => undelivered.push(prefix),
                _ => {}
            }
        }
        self.withdraw(speaker, undelivered, now).await;
        let since = news.iter().map(|prefix| (*prefix, now));
        if self.originated.is_empty() {
            // A tree that is made at once has no gaps: half of the size after a start.
            self.originated = since.collect();
        } else {
            self.originated.extend(since);
        }
        if !news.is_empty() {
            self.signal.more.notify_one();
        }
        let origination = &self.rules.origination;
        if self.told.0 != speaker.generation || self.told.1 != *origination {
            self.told = (speaker.generation, origination.clone());
            let all = self.originated.keys().map(|prefix| (*prefix, origination.clone()));
            speaker.tell(Wishes::All(all.collect()), &self.metrics).await;
        } else if !news.is_empty() {
            let news = news.into_iter().map(|prefix| (prefix, Some(origination.clone())));
            speaker.tell(Wishes::Some(news.collect()), &self.metrics).await;
        }
    }

    /// Only anycast addresses are paced: they follow readiness, which may flap.
    fn may_announce(&mut self, prefix: IpNet, now: Instant) -> bool {
        if self.rules.summaries.contains(&prefix) || !self.claims.is_anycast(&prefix) {
            return true;
        }
        match self.pace.ask(&prefix) {
            Ok(()) => true,
            Err(wait) => {
                tracing::warn!(%prefix, ?wait, "it flaps; announced again when it may be");
                self.again.add(prefix, now + wait);
                false
            }
        }
    }

    async fn withdraw(&mut self, speaker: &Speaker, gone: Vec<IpNet>, now: Instant) {
        if gone.is_empty() {
            return;
        }
        for prefix in &gone {
            self.originated.remove(prefix);
            self.pace.withdrawn(*prefix);
        }
        if self.told.0 == speaker.generation {
            let gone = gone.iter().map(|prefix| (*prefix, None)).collect();
            speaker.tell(Wishes::Some(gone), &self.metrics).await;
        }
        for prefix in gone {
            self.past.note(Withdrawal { prefix, at: now, why: self.why(&prefix) });
        }
    }
}

fn everybody(book: &mut Book) -> Vec<(Key, Option<Attachment>)> {
    book.all().map(|attachment| (attachment.record.key(), Some(attachment.clone()))).collect()
}

/// The speaker of this moment, if there is one.
struct Speaker {
    handle: Option<Handle>,
    generation: u64,
    /// When it happened what it is told of; `None`: it is nothing that is measured.
    since: Option<Instant>,
}

impl Speaker {
    /// One that has ended needs no words: its successor is told everything.
    async fn tell(&self, wishes: Wishes, metrics: &Metrics) {
        let Some(handle) = &self.handle else { return };
        let told = handle.originate(wishes).await;
        if let Some(since) = self.since.filter(|_| told.is_ok())
            && let Ok(heard) = handle.hearing().await
        {
            metrics.latency.told(since, heard);
        }
        // The speaker speaks at once; what else there is to do and to log is not on the way (15 us).
        tokio::task::yield_now().await;
    }
}
