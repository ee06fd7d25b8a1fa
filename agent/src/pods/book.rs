//! The book of this node's attachments: who is attached, under which host interface, with which
//! addresses, and what is on its way out. Pure bookkeeping, owned by one task (`ledger`): it
//! decides names, addresses and phases; the kernel and the disk are the callers' business.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flock_dataplane::host_ifname_nth;
use ipnet::IpNet;
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::annotations::{AddressPlan, Primary};
use crate::config::NodeConfig;
use crate::ipam::{Conflict, Ipam, IpamError, PodIdentity, PoolCounters};
use crate::store::{Allocation, Key, State};

/// How long a released address rests before it is handed out again.
const COOL_DOWN: Duration = Duration::from_secs(60);

/// Where an attachment is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// An ADD is under way.
    Wiring,
    /// Answered and working.
    Serving,
    /// A DEL, or the undoing of an ADD, is under way or has to be repeated.
    Leaving,
    /// Its namespace died, and its link with it; it waits for the runtime's DEL.
    Orphaned,
}

/// One attachment.
#[derive(Debug, Clone)]
pub struct Attachment {
    /// What is written down of it.
    pub record: Allocation,
    /// Where it is.
    pub phase: Phase,
}

impl Attachment {
    /// The host's end of the link.
    pub fn host_ifname(&self) -> &str {
        self.record.host_ifname.as_deref().unwrap_or_default()
    }
}

/// A link that is to be deleted; its name and addresses are free once it is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doomed {
    /// The host's end.
    pub host_ifname: String,
    /// Who held the addresses.
    pub holder: String,
    /// What it held.
    pub addresses: Vec<IpAddr>,
}

/// Why no addresses can be had.
#[derive(Debug, thiserror::Error)]
pub enum ReserveError {
    /// The pool is empty, or there is none.
    #[error(transparent)]
    Ipam(#[from] IpamError),
    /// Somebody else has it.
    #[error(transparent)]
    Conflict(#[from] Conflict),
    /// An address is to be one pod's own and shared by others at the same time.
    #[error(
        "address {address} is {held_by}; an address is either a pod's own or anycast, so choose \
         another one"
    )]
    Shared {
        /// The address.
        address: IpAddr,
        /// Whose it is.
        held_by: String,
    },
    /// A CIDR went away under living pods.
    #[error(
        "{pods} pod(s) still hold addresses outside the NodeConfig's networks, such as {example}: \
         a network was removed from it while in use; put it back, or delete these pods"
    )]
    Stranded {
        /// How many.
        pods: usize,
        /// One of them.
        example: IpAddr,
    },
    /// Every derived interface name is in use.
    #[error("no free name for the host interface of container {0}")]
    Names(String),
}

/// The book.
pub struct Book {
    attachments: HashMap<Key, Attachment>,
    /// Host interface names in use, with whose they are; doomed ones too.
    names: HashMap<String, Key>,
    doomed: Vec<Doomed>,
    ipam: Ipam,
    /// Anycast addresses, with how many attachments have each: never anybody's own.
    anycast: HashMap<IpAddr, usize>,
    /// Links of our kind that no entry knows, with the addresses that the kernel routes to them.
    strangers: HashMap<String, Vec<IpAddr>>,
    /// Addresses that the kernel turned out to route already, until they are next asked for.
    routed: BTreeSet<IpAddr>,
    /// Attachments outside the networks of this very configuration.
    stranded: Option<Stranded>,
    started: Instant,
    rng: StdRng,
}

/// What lies outside the networks of one configuration.
struct Stranded {
    config: Arc<NodeConfig>,
    held: BTreeSet<(IpAddr, Key)>,
}

/// Everything that an ADD wants written into the book.
#[derive(Debug, Clone)]
pub struct Draft {
    /// The record, all but addresses and interface name.
    pub record: Allocation,
    /// Where its addresses come from.
    pub plan: AddressPlan,
    /// For `ip-algo`.
    pub app: String,
    /// For `ip-algo`.
    pub image: String,
}

impl Default for Book {
    fn default() -> Self {
        Self {
            attachments: HashMap::new(),
            names: HashMap::new(),
            doomed: Vec::new(),
            ipam: Ipam::new(COOL_DOWN),
            anycast: HashMap::new(),
            strangers: HashMap::new(),
            routed: BTreeSet::new(),
            stranded: None,
            started: Instant::now(),
            rng: StdRng::from_rng(&mut rand::rng()),
        }
    }
}

/// How IPAM knows an attachment.
pub fn holder(key: &Key) -> String {
    format!("{}/{}", key.container_id, key.ifname)
}

/// How IPAM knows a link that no entry knows.
fn stranger(host_ifname: &str) -> String {
    format!("link {host_ifname}, which no entry of the state file knows")
}

/// All addresses that are this attachment's alone.
pub fn own_addresses(record: &Allocation) -> Vec<IpAddr> {
    let mut addresses: Vec<IpAddr> = Vec::new();
    addresses.extend(record.ip6.map(IpAddr::V6));
    addresses.extend(record.ip4.map(IpAddr::V4));
    for address in &record.addresses {
        if !addresses.contains(address) {
            addresses.push(*address);
        }
    }
    addresses
}

impl Book {
    /// The attachment, if there is one.
    pub fn get(&self, key: &Key) -> Option<&Attachment> {
        self.attachments.get(key)
    }

    /// All attachments.
    pub fn all(&self) -> impl Iterator<Item = &Attachment> {
        self.attachments.values()
    }

    /// The attachment behind a host interface.
    pub fn by_host_ifname(&self, name: &str) -> Option<&Attachment> {
        self.names.get(name).and_then(|key| self.attachments.get(key))
    }

    /// The attachment that holds an address.
    pub fn by_address(&self, address: IpAddr) -> Option<&Attachment> {
        let holder = self.ipam.holder(address)?;
        let (container_id, ifname) = holder.split_once('/')?;
        self.attachments
            .get(&Key { container_id: container_id.to_owned(), ifname: ifname.to_owned() })
    }

    /// The attachments that have anycast addresses.
    pub fn with_anycast(&self) -> Vec<Attachment> {
        self.all().filter(|attachment| !attachment.record.anycast.is_empty()).cloned().collect()
    }

    /// Those of the networks in which an address is held.
    pub fn holding(&self, networks: &[IpNet]) -> Vec<IpNet> {
        let holds = |network: &IpNet| {
            self.all().any(|a| own_addresses(&a.record).iter().any(|ip| network.contains(ip)))
        };
        networks.iter().filter(|network| holds(network)).copied().collect()
    }

    /// How full a pool is.
    pub fn counters(&self, pool: IpNet) -> PoolCounters {
        self.ipam.counters(pool)
    }

    /// Takes over what a former life wrote down. Conflicts are told and do not stop it: both pods
    /// live, and the operator has to choose.
    pub fn adopt(&mut self, mut record: Allocation) -> Vec<Conflict> {
        let key = record.key();
        let name = match record.host_ifname.take() {
            Some(name) => name,
            None => host_ifname_nth(&key.container_id, 0),
        };
        record.host_ifname = Some(name.clone());
        let conflicts = own_addresses(&record)
            .into_iter()
            .filter_map(|address| self.ipam.claim(address, &holder(&key)).err())
            .collect();
        self.names.insert(name, key.clone());
        self.count_anycast(&record);
        let phase = match record.state {
            State::Committed => Phase::Serving,
            State::Pending => Phase::Leaving,
        };
        self.attachments.insert(key, Attachment { record, phase });
        conflicts
    }

    /// Gives a new attachment its addresses and interface name. All or nothing.
    pub fn reserve(
        &mut self,
        draft: Draft,
        config: &Arc<NodeConfig>,
    ) -> Result<Allocation, ReserveError> {
        self.refuse_while_stranded(config)?;
        for address in &draft.plan.anycast {
            if let Some(holder) = self.ipam.holder(*address) {
                let held_by = format!("held by {holder}");
                return Err(ReserveError::Shared { address: *address, held_by });
            }
        }
        let mut record = draft.record;
        let key = record.key();
        record.host_ifname = Some(self.free_name(&key)?);
        let who = PodIdentity {
            namespace: record.namespace.clone(),
            app: draft.app,
            image: draft.image,
            holder: holder(&key),
        };
        let mut granted = Vec::new();
        if let Err(error) = self.grant(&draft.plan, &who, &mut granted) {
            for address in granted {
                self.ipam.unallocate(address, &who.holder);
            }
            return Err(error);
        }
        for address in granted.iter().take(primaries(&draft.plan)) {
            match address {
                IpAddr::V6(address) => record.ip6 = Some(*address),
                IpAddr::V4(address) => record.ip4 = Some(*address),
            }
        }
        record.anycast = draft.plan.anycast.clone();
        record.addresses = named_addresses(&draft.plan);
        self.names.insert(record.host_ifname.clone().unwrap_or_default(), key.clone());
        self.count_anycast(&record);
        self.attachments.insert(key, Attachment { record: record.clone(), phase: Phase::Wiring });
        Ok(record)
    }

    /// Primary addresses first, then the others.
    fn grant(
        &mut self,
        plan: &AddressPlan,
        who: &PodIdentity,
        granted: &mut Vec<IpAddr>,
    ) -> Result<(), ReserveError> {
        let now = self.started.elapsed();
        let routed = std::mem::take(&mut self.routed);
        for primary in [&plan.ipv6, &plan.ipv4].into_iter().flatten() {
            let address = match primary {
                Primary::Fixed(address) => {
                    self.claim(*address, &who.holder)?;
                    *address
                }
                Primary::Allocate(family) => {
                    let anycast = &self.anycast;
                    let elsewhere =
                        |address| routed.contains(&address) || anycast.contains_key(&address);
                    let grant = self.ipam.allocate(family, who, now, &mut self.rng, &elsewhere)?;
                    if let Some(note) = &grant.note {
                        tracing::info!(address = %grant.addr, holder = who.holder, note = %note, "address granted");
                    }
                    grant.addr
                }
            };
            granted.push(address);
        }
        for address in &plan.extra {
            self.claim(*address, &who.holder)?;
            granted.push(*address);
        }
        Ok(())
    }

    /// An address that the pod named.
    fn claim(&mut self, address: IpAddr, holder: &str) -> Result<(), ReserveError> {
        if self.anycast.contains_key(&address) {
            let held_by = "anycast of another pod".to_owned();
            return Err(ReserveError::Shared { address, held_by });
        }
        Ok(self.ipam.claim(address, holder)?)
    }

    fn count_anycast(&mut self, record: &Allocation) {
        for address in &record.anycast {
            *self.anycast.entry(*address).or_default() += 1;
        }
    }

    fn uncount_anycast(&mut self, record: &Allocation) {
        for address in &record.anycast {
            if let Some(count) = self.anycast.get_mut(address) {
                *count -= 1;
                if *count == 0 {
                    self.anycast.remove(address);
                }
            }
        }
    }

    /// A link that no entry knows: its pod may live, so its addresses are not handed out.
    pub fn meet_stranger(&mut self, host_ifname: &str, address: IpAddr) {
        let holder = stranger(host_ifname);
        if self.ipam.claim(address, &holder).is_ok() {
            self.strangers.entry(host_ifname.to_owned()).or_default().push(address);
        }
    }

    /// A link went; if it was a stranger's, its addresses cool down.
    pub fn stranger_gone(&mut self, host_ifname: &str) {
        let now = self.started.elapsed();
        for address in self.strangers.remove(host_ifname).unwrap_or_default() {
            self.ipam.release(address, &stranger(host_ifname), now);
        }
    }

    fn free_name(&self, key: &Key) -> Result<String, ReserveError> {
        // Two ids that hash alike, or two interfaces of one container: the next derived name.
        (0..256)
            .map(|attempt| host_ifname_nth(&key.container_id, attempt))
            .find(|name| !self.names.contains_key(name))
            .ok_or_else(|| ReserveError::Names(key.container_id.clone()))
    }

    /// The kernel has a foreign interface of that name: never offer it again, choose another.
    pub fn rename(&mut self, key: &Key) -> Result<Allocation, ReserveError> {
        let name = self.free_name(key)?;
        self.names.insert(name.clone(), key.clone());
        match self.attachments.get_mut(key) {
            Some(attachment) => {
                attachment.record.host_ifname = Some(name);
                Ok(attachment.record.clone())
            }
            None => Err(ReserveError::Names(key.container_id.clone())),
        }
    }

    /// The kernel already routes this address to somebody: not to be handed out for now.
    pub fn routed_elsewhere(&mut self, address: IpAddr) {
        self.routed.insert(address);
    }

    /// Notes what has been reached.
    pub fn set(&mut self, key: &Key, phase: Phase, record: Option<Allocation>) {
        if let Some(attachment) = self.attachments.get_mut(key) {
            attachment.phase = phase;
            if let Some(record) = record {
                attachment.record = record;
            }
        }
    }

    /// An attachment that never reached a pod: everything of it is free at once.
    pub fn forget(&mut self, key: &Key) {
        if let Some(attachment) = self.attachments.remove(key) {
            for address in own_addresses(&attachment.record) {
                self.ipam.unallocate(address, &holder(key));
            }
            self.uncount_anycast(&attachment.record);
            self.names.retain(|_, owner| owner != key);
            self.no_longer_stranded(key);
        }
    }

    /// A detached one: its name and addresses are held until its link is gone.
    pub fn doom(&mut self, key: &Key) {
        let Some(attachment) = self.attachments.remove(key) else { return };
        let host_ifname = attachment.host_ifname().to_owned();
        let doomed = format!("deleted link {host_ifname} of {}", holder(key));
        let mut addresses = own_addresses(&attachment.record);
        // Not what another entry holds: two pods of a broken state file may share one.
        addresses.retain(|address| self.ipam.holder(*address) == Some(&holder(key)));
        for address in &addresses {
            self.ipam.hold(*address, &doomed);
        }
        self.uncount_anycast(&attachment.record);
        self.names.retain(|name, owner| owner != key || *name == host_ifname);
        self.no_longer_stranded(key);
        self.doomed.push(Doomed { host_ifname, holder: doomed, addresses });
    }

    /// Whether links wait for their deletion.
    pub fn has_doomed(&self) -> bool {
        !self.doomed.is_empty()
    }

    /// What is to be deleted now. It stays in the book until `reaped`.
    pub fn doomed(&self) -> Vec<Doomed> {
        self.doomed.clone()
    }

    /// These links are gone: names are free, addresses cool down.
    pub fn reaped(&mut self, gone: &[Doomed]) {
        let now = self.started.elapsed();
        for link in gone {
            for address in &link.addresses {
                self.ipam.release(*address, &link.holder, now);
            }
            self.names.remove(&link.host_ifname);
        }
        self.doomed.retain(|link| !gone.contains(link));
    }

    /// Whether an ADD could get anything at all under this configuration.
    pub fn can_serve(&mut self, config: &Arc<NodeConfig>) -> Result<(), ReserveError> {
        self.refuse_while_stranded(config)
    }

    fn refuse_while_stranded(&mut self, config: &Arc<NodeConfig>) -> Result<(), ReserveError> {
        let known = self.stranded.as_ref().is_some_and(|known| Arc::ptr_eq(&known.config, config));
        if !known {
            let outside = self.attachments.values().flat_map(|attachment| {
                let key = attachment.record.key();
                pool_addresses(&attachment.record)
                    .filter(|address| !within(config, *address))
                    .map(move |address| (address, key.clone()))
            });
            let held = outside.collect();
            self.stranded = Some(Stranded { config: config.clone(), held });
        }
        let held = self.stranded.as_ref().map(|known| &known.held);
        let pods =
            held.map_or(0, |held| held.iter().map(|(_, key)| key).collect::<BTreeSet<_>>().len());
        match held.and_then(BTreeSet::first) {
            Some((example, _)) => Err(ReserveError::Stranded { pods, example: *example }),
            None => Ok(()),
        }
    }

    fn no_longer_stranded(&mut self, key: &Key) {
        if let Some(known) = &mut self.stranded {
            known.held.retain(|(_, owner)| owner != key);
        }
    }
}

fn primaries(plan: &AddressPlan) -> usize {
    usize::from(plan.ipv6.is_some()) + usize::from(plan.ipv4.is_some())
}

/// What the `addresses` annotation gave: fixed primaries and the others, as it is recorded.
fn named_addresses(plan: &AddressPlan) -> Vec<IpAddr> {
    let fixed =
        [&plan.ipv6, &plan.ipv4].into_iter().flatten().filter_map(|primary| match primary {
            Primary::Fixed(address) => Some(*address),
            Primary::Allocate(_) => None,
        });
    fixed.chain(plan.extra.iter().copied()).collect()
}

/// The addresses that came from a pool, not from an annotation.
fn pool_addresses(record: &Allocation) -> impl Iterator<Item = IpAddr> + '_ {
    let primary = [record.ip6.map(IpAddr::V6), record.ip4.map(IpAddr::V4)];
    primary.into_iter().flatten().filter(|address| !record.addresses.contains(address))
}

fn within(config: &NodeConfig, address: IpAddr) -> bool {
    match address {
        IpAddr::V6(address) => config.cidr6.iter().any(|net| net.contains(&address)),
        IpAddr::V4(address) => config.cidr4.iter().any(|net| net.contains(&address)),
    }
}
