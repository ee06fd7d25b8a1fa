//! ADD: known already? allocate, write `pending`, wire, write `committed`, publish, answer. What a
//! failed step leaves is undone here; what a crash leaves is undone by `recover`.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flock_cni::error::{self, CniError};
use flock_cni::result::CniResult;
use flock_dataplane::{Error as KernelError, Netns, Waking, Wired, fault};

use super::book::{self, Draft, Phase, ReserveError};
use super::call::Call;
use super::{DEFAULT_MTU, Pods, answer, closed, failed, link, name_in_log};
use crate::annotations;
use crate::config::{Endpoint, NodeConfig};
use crate::incidents::Incident;
use crate::source::{PodFacts, PodKey, Unfound};
use crate::store::{Allocation, Key, State};

/// How often a taken name or address is answered with the next one.
const TRIES: usize = 16;
/// ETH_MAX_MTU of linux/if_ether.h.
const LARGEST_MTU: u32 = 65_535;
/// How long an answer about the uplink holds.
const MTU_IS_FRESH: Duration = Duration::from_secs(1);

impl Pods {
    /// Attaches a pod.
    pub async fn add(&self, call: Call) -> Result<CniResult, CniError> {
        let netns = Netns::open(&call.netns).map_err(|error| {
            CniError::new(error::INVALID_ENVIRONMENT, format!("CNI_NETNS: {error}"))
        })?;
        let _turn = self.turns.take(&call.key.container_id).await;
        if let Some(record) = self.already(&call, &netns).await? {
            return Ok(answer::result(&record, &call.netns, &call.conf.dns));
        }
        // What was written to the source before this call is seen by it.
        self.source.refreshed().await;
        let config = self
            .config()
            .map_err(|reason| CniError::new(error::TRY_AGAIN_LATER, format!("ADD: {reason}")))?;
        let draft = self.draft(&call, &netns, &config).await?;
        let record = self.attach(draft, &config, netns).await?;
        Ok(answer::result(&record, &call.netns, &call.conf.dns))
    }

    /// The same call again gets the same answer. What another life of the container left is
    /// cleared away first.
    async fn already(&self, call: &Call, netns: &Netns) -> Result<Option<Allocation>, CniError> {
        let key = call.key.clone();
        let known = self.ledger.ask(move |book| book.get(&key).cloned()).await.map_err(closed)?;
        let Some(attachment) = known else { return Ok(None) };
        let record = attachment.record;
        let same_namespace = match (record.netns_dev, record.netns_ino) {
            (Some(dev), Some(ino)) => (dev, ino) == (netns.id().dev, netns.id().ino),
            // Taken over from a store that did not write it down: the container id has to do.
            _ => true,
        };
        // One whose link went with its namespace is not there any more, whatever the record says.
        if attachment.phase == Phase::Serving && same_namespace {
            return Ok(Some(record));
        }
        tracing::info!("clearing away an earlier attachment");
        self.detach(&call.key).await?;
        self.chores.settle().await.map_err(|error| CniError::new(error::TRY_AGAIN_LATER, error))?;
        Ok(None)
    }

    /// Who the pod is and what it is to get.
    async fn draft(
        &self,
        call: &Call,
        netns: &Netns,
        config: &Arc<NodeConfig>,
    ) -> Result<Draft, CniError> {
        let name = self.name(call)?;
        let facts = match &name {
            Some(key) => {
                name_in_log(key);
                self.facts(key, call).await?
            }
            None => None,
        };
        let wishes = match &facts {
            Some(facts) => annotations::parse(&facts.annotations),
            None => Ok(annotations::PodWishes::default()),
        };
        let plan = wishes
            .and_then(|wishes| annotations::resolve(&wishes, config))
            .map_err(|error| CniError::new(error::INVALID_CONFIG, error.to_string()))?;
        for warning in &plan.warnings {
            tracing::warn!(reason = warning, "pod annotation not followed");
        }
        let name = name.unwrap_or(PodKey { namespace: Arc::default(), name: Arc::default() });
        let uid = call.args.uid.clone().or(facts.as_ref().map(|facts| facts.uid.clone()));
        let (app, image) = match &facts {
            Some(facts) => (facts.app.to_string(), facts.image.to_string()),
            None if name.name.is_empty() => (call.key.container_id.clone(), String::new()),
            None => (name.name.to_string(), String::new()),
        };
        let mut record = Allocation::new(&call.key, jiff::Timestamp::now());
        record.namespace = name.namespace.to_string();
        record.pod_name = name.name.to_string();
        record.owner_uid = uid.unwrap_or_default();
        record.netns = Some(call.netns.clone());
        record.netns_dev = Some(netns.id().dev);
        record.netns_ino = Some(netns.id().ino);
        record.network = Some(call.conf.name.clone()).filter(|name| !name.is_empty());
        record.boot_id = super::recover::boot_id();
        record.mtu = Some(self.mtu(config).await);
        Ok(Draft { record, plan, app, image })
    }

    /// The pod's name, required with Kubernetes.
    fn name(&self, call: &Call) -> Result<Option<PodKey>, CniError> {
        let missing = |what: &str| {
            CniError::new(
                error::INVALID_ENVIRONMENT,
                format!("CNI_ARGS has no {what}; flock needs it to know the pod"),
            )
        };
        let name = match &call.args.name {
            Some(name) => name.as_str(),
            None if self.source.is_complete() => return Err(missing("K8S_POD_NAME")),
            None => return Ok(None),
        };
        let namespace = match &call.args.namespace {
            Some(namespace) => namespace.as_str(),
            None if self.source.is_complete() => return Err(missing("K8S_POD_NAMESPACE")),
            None => "default",
        };
        Ok(Some(PodKey { namespace: namespace.into(), name: name.into() }))
    }

    /// What the source knows of it. A StatefulSet reuses names: a wrong uid is another pod.
    async fn facts(&self, key: &PodKey, call: &Call) -> Result<Option<Arc<PodFacts>>, CniError> {
        let uid = call.args.uid.as_deref().unwrap_or_default();
        self.source.pod(key, uid).await.map_err(|unfound| {
            let code = match unfound {
                Unfound::Unusable(_) => error::INVALID_CONFIG,
                Unfound::NotYet(_) => error::TRY_AGAIN_LATER,
            };
            CniError::new(code, unfound.to_string())
        })
    }

    /// The NodeConfig's MTU, else the uplink's. Asked of the kernel once a second at most: finding
    /// the default route reads the whole table, whose size an ADD must not feel.
    async fn mtu(&self, config: &Arc<NodeConfig>) -> u32 {
        if let Some(mtu) = config.mtu {
            return mtu;
        }
        let known = self.uplink_mtu.borrow().clone();
        if let Some((seen, at, mtu)) = known
            && Arc::ptr_eq(&seen, config)
            && at.elapsed() < MTU_IS_FRESH
        {
            return mtu;
        }
        let mtu = self.uplink_mtu_now(config).await;
        self.uplink_mtu.send_replace(Some((config.clone(), Instant::now(), mtu)));
        mtu
    }

    /// That of the way to the first peer, else of the default route.
    async fn uplink_mtu_now(&self, config: &NodeConfig) -> u32 {
        let first = config.bgp.iter().flat_map(|bgp| &bgp.peers).next();
        let uplink = match first.map(|peer| &peer.endpoint) {
            Some(Endpoint::Address(address)) => self.dataplane.uplink_towards(*address).await,
            Some(Endpoint::Interface(name)) => self.dataplane.uplink_named(name).await,
            None => self.dataplane.default_uplink().await,
        };
        let problem = match uplink {
            // That of `lo` is one more than a veth takes.
            Ok(Some(uplink)) => return uplink.mtu.min(LARGEST_MTU),
            Ok(None) => "there is no way to the first peer, or no default route".to_owned(),
            Err(error) => error.to_string(),
        };
        tracing::warn!(
            error = problem,
            mtu = DEFAULT_MTU,
            "cannot tell the uplink's MTU; set spec.mtu"
        );
        DEFAULT_MTU
    }

    /// From a plan to a working pod. A name or an address that the kernel knows to be somebody
    /// else's is exchanged for the next.
    async fn attach(
        &self,
        draft: Draft,
        config: &Arc<NodeConfig>,
        netns: Netns,
    ) -> Result<Allocation, CniError> {
        for _ in 0..TRIES {
            let record = self.reserve(&draft, config).await?;
            let key = record.key();
            match self.wire(record, netns.clone()).await {
                Ok(record) => return Ok(record),
                Err(Undone::AddressTaken(address)) if is_pool_address(&draft, address) => {
                    tracing::warn!(%address, "the kernel already routes this address; trying another");
                    self.metrics.ipam.routed();
                    self.ledger
                        .ask(move |book| {
                            book.forget(&key);
                            book.routed_elsewhere(address);
                        })
                        .await
                        .map_err(closed)?;
                }
                Err(Undone::AddressTaken(address)) => {
                    self.ledger.ask(move |book| book.forget(&key)).await.map_err(closed)?;
                    return Err(taken(&draft, address));
                }
                Err(Undone::Failed(error)) => {
                    self.ledger.ask(move |book| book.forget(&key)).await.map_err(closed)?;
                    return Err(error);
                }
                // Still on disk: it stays in the book as leaving, for DEL or the next ADD.
                Err(Undone::SomethingIsLeft(error)) => return Err(error),
            }
        }
        Err(CniError::new(
            error::TRY_AGAIN_LATER,
            "no address could be found that the kernel does not already route",
        ))
    }

    /// Addresses and a name from the book. What is missing may be held by links that are being
    /// deleted at this moment: that is worth waiting for, once.
    async fn reserve(
        &self,
        draft: &Draft,
        config: &Arc<NodeConfig>,
    ) -> Result<Allocation, CniError> {
        for last in [false, true] {
            let (wish, config) = (draft.clone(), config.clone());
            let step = self.ledger.ask(move |book| {
                let going = book.has_doomed();
                book.reserve(wish, &config).map_err(|error| (error, going))
            });
            match step.await.map_err(closed)? {
                Ok(record) => return Ok(record),
                // A refusal is in the log, and the second try says what is missing.
                Err((_, true)) if !last => drop(self.chores.settle().await),
                Err((error, _)) => {
                    self.metrics.ipam.failed(&error);
                    if matches!(error, ReserveError::Ipam(_)) {
                        let reason = error.to_string();
                        self.incidents.tell(Incident::PoolExhausted { reason });
                    }
                    return Err(CniError::new(error::TRY_AGAIN_LATER, error.to_string()));
                }
            }
        }
        Err(CniError::new(error::TRY_AGAIN_LATER, "no address could be reserved"))
    }

    /// pending, kernel, committed, published.
    async fn wire(&self, record: Allocation, netns: Netns) -> Result<Allocation, Undone> {
        let key = record.key();
        let started = Instant::now();
        self.store
            .put(record.clone())
            .await
            .map_err(|error| failed("ADD, writing the state", error))?;
        let pending = started.elapsed();
        let outcome = match fault::point("add.pending") {
            Ok(()) => self.wire_kernel(record, netns).await,
            Err(error) => Err(failed("ADD", error).into()),
        };
        let (record, wired, waking) = match outcome {
            Ok(done) => done,
            Err(error) => return Err(self.unwrite(&key, error).await),
        };
        let record = committed(record, &wired);
        let kernel = started.elapsed() - pending;
        // Neither waits for the other: the disk, and what is left of the wiring. A crash between the
        // two leaves an entry whose link lacks something, which the next start mends.
        let (written, awake) = tokio::join!(self.commit(&record), self.dataplane.awaken(waking));
        if let Err(error) =
            written.and(awake.map_err(|error| failed("ADD, awaiting the link", error)))
        {
            return Err(self.undo(&record, error).await);
        }
        let durable = started.elapsed() - pending - kernel;
        tracing::debug!(?pending, ?kernel, committed = ?durable, "steps of an ADD");
        let (key, published) = (record.key(), record.clone());
        let stepped =
            self.ledger.ask(move |book| book.set(&key, Phase::Serving, Some(published))).await;
        stepped.map_err(closed)?;
        if self.reconciler.concerns(&record) {
            self.reconciler.settle_pod().await;
        } else {
            self.reconciler.wake();
        }
        // Only a crash matters here: the pod is there, and an error would not undo it.
        let _ = fault::point("add.published");
        self.chores.finish(wired.host.index);
        Ok(record)
    }

    async fn wire_kernel(
        &self,
        mut record: Allocation,
        netns: Netns,
    ) -> Result<(Allocation, Wired, Waking), Undone> {
        let mut waited = false;
        for _ in 0..TRIES {
            // Before there is a link: no packet of it is ever free of policies.
            self.gate.admit(&record).await.map_err(|why| {
                CniError::new(error::TRY_AGAIN_LATER, format!("ADD, network policies: {why}"))
            })?;
            let attached = self.dataplane.begin_attach(link(&record, netns.clone())).await;
            if attached.is_err() {
                self.gate.release(record.host_ifname.as_deref().unwrap_or_default()).await;
            }
            match attached {
                Ok((wired, waking)) => return Ok((record, wired, waking)),
                Err(KernelError::AddressTaken { address }) => {
                    return Err(Undone::AddressTaken(address));
                }
                Err(KernelError::NameTaken { name }) => {
                    tracing::warn!(
                        interface = name,
                        "a foreign interface has this name; trying another"
                    );
                    let key = record.key();
                    let renamed = self.ledger.ask(move |book| book.rename(&key)).await;
                    record = renamed.map_err(closed)?.map_err(|error| {
                        CniError::new(error::TRY_AGAIN_LATER, error.to_string())
                    })?;
                    // Written before it is made, so that a crash knows what to take away.
                    self.store
                        .put(record.clone())
                        .await
                        .map_err(|error| failed("ADD, writing the state", error))?;
                }
                // The pod's last link may be one that is being deleted at this moment.
                Err(KernelError::PodInterfaceTaken { .. }) if !waited => {
                    waited = true;
                    let _ = self.chores.settle().await;
                }
                Err(error) => return Err(failed("ADD, wiring the pod", error).into()),
            }
        }
        Err(CniError::new(error::TRY_AGAIN_LATER, "no free name for the host interface").into())
    }

    async fn commit(&self, record: &Allocation) -> Result<(), CniError> {
        fault::point("add.wired").map_err(|error| failed("ADD", error))?;
        self.store
            .put(record.clone())
            .await
            .map_err(|error| failed("ADD, writing the state", error))?;
        fault::point("add.committed").map_err(|error| failed("ADD", error))
    }

    /// Takes away a wired pod whose commit failed.
    async fn undo(&self, record: &Allocation, error: CniError) -> Undone {
        let name = record.host_ifname.clone().unwrap_or_default();
        let (own, anycast) = (book::own_addresses(record), record.anycast.clone());
        let gone = match self.dataplane.retire(&name, own, anycast).await {
            Ok(()) => self.dataplane.reap().await,
            Err(refused) => Err(refused),
        };
        if let Err(refused) = gone {
            tracing::error!(interface = name, error = %refused, "cannot take away a pod whose ADD failed; DEL or the next start will");
            return self.leave(&record.key(), error).await;
        }
        self.gate.release(&name).await;
        self.unwrite(&record.key(), error.into()).await
    }

    /// Takes the pending entry off the disk again.
    async fn unwrite(&self, key: &Key, error: Undone) -> Undone {
        match self.store.remove(key).await {
            Ok(()) => error,
            Err(refused) => {
                tracing::error!(error = %refused, "cannot take back the entry of a failed ADD; DEL or the next start will");
                match error {
                    Undone::Failed(error) | Undone::SomethingIsLeft(error) => {
                        self.leave(key, error).await
                    }
                    Undone::AddressTaken(address) => {
                        self.leave(key, failed("ADD", format!("{address} is already routed"))).await
                    }
                }
            }
        }
    }

    async fn leave(&self, key: &Key, error: CniError) -> Undone {
        let key = key.clone();
        let _ = self.ledger.ask(move |book| book.set(&key, Phase::Leaving, None)).await;
        Undone::SomethingIsLeft(error)
    }
}

/// How an ADD failed, by what is left of it.
enum Undone {
    /// Nothing is left.
    Failed(CniError),
    /// Nothing is left; this address is somebody else's.
    AddressTaken(IpAddr),
    /// Something is left, and the book says so.
    SomethingIsLeft(CniError),
}

impl From<CniError> for Undone {
    fn from(error: CniError) -> Self {
        Self::Failed(error)
    }
}

/// An address that the pod named and cannot have.
fn taken(draft: &Draft, address: IpAddr) -> CniError {
    let (name, why) = if draft.plan.anycast.contains(&address) {
        (
            "anycast",
            "is the node's own, another's on this node, or on a network that the node is connected to",
        )
    } else {
        ("addresses", "already has a route on this node")
    };
    let annotation = format!("{}{name}", annotations::PREFIX);
    CniError::new(
        error::INVALID_CONFIG,
        format!("annotation {annotation}: {address} {why}; choose another"),
    )
}

fn is_pool_address(draft: &Draft, address: IpAddr) -> bool {
    use crate::annotations::Primary::Allocate;
    let family = if address.is_ipv6() { &draft.plan.ipv6 } else { &draft.plan.ipv4 };
    let named = draft.plan.extra.contains(&address) || draft.plan.anycast.contains(&address);
    matches!(family, Some(Allocate(_))) && !named
}

fn committed(mut record: Allocation, wired: &Wired) -> Allocation {
    record.state = State::Committed;
    record.host_mac = Some(answer::mac(wired.host.mac));
    record.pod_mac = Some(answer::mac(wired.pod.mac));
    record
}
