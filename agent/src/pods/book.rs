//! The book of this node's attachments: who is attached, under which host interface, with which
//! addresses, and what is on its way out. Pure bookkeeping, owned by one task (`ledger`): it
//! decides phases and who holds what, `reserve` what a new one gets; the kernel and the disk are
//! the callers' business.

mod figures;
mod reserve;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use flock_dataplane::host_ifname_nth;
use ipnet::IpNet;
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::pod_key;
use crate::ipam::{Conflict, Ipam, PoolCounters};
use crate::source::PodKey;
use crate::store::{Allocation, Key, State};

pub use figures::Figures;
use reserve::Stranded;
pub use reserve::{Draft, ReserveError};

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
    /// The kernel leads to it, as far as is known: false after a repair that failed.
    pub wired: bool,
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

/// The book.
pub struct Book {
    attachments: HashMap<Key, Attachment>,
    /// The attachments of a pod: one, but for a second interface, or an earlier sandbox on its way
    /// out.
    by_pod: HashMap<PodKey, Vec<Key>>,
    /// Attachments that are not as they were at the last `take_changed`.
    changed: HashSet<Key>,
    /// Those that a repair failed for.
    unwired: HashSet<Key>,
    /// Host interface names in use, with whose they are; doomed ones too.
    names: HashMap<String, Key>,
    doomed: Vec<Doomed>,
    ipam: Ipam,
    /// Anycast addresses, with how many attachments have each: never anybody's own.
    anycast: HashMap<IpAddr, u32>,
    /// Links of our kind that no entry knows, with the addresses that the kernel routes to them.
    strangers: HashMap<String, Vec<IpAddr>>,
    /// Addresses that the kernel turned out to route already, until they are next asked for.
    routed: BTreeSet<IpAddr>,
    /// Attachments outside the networks of this very configuration.
    stranded: Option<Stranded>,
    started: Instant,
    rng: StdRng,
}

impl Default for Book {
    fn default() -> Self {
        Self {
            attachments: HashMap::new(),
            by_pod: HashMap::new(),
            changed: HashSet::new(),
            unwired: HashSet::new(),
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

    /// What holds an address, in words: an attachment, a link that waits for its deletion, or one
    /// that no entry knows.
    pub fn holder_of(&self, address: IpAddr) -> Option<String> {
        self.ipam.holder(address).map(str::to_owned)
    }

    /// The attachments that changed since this was last asked, and those of these pods; gone ones
    /// without their record.
    pub fn take_changed(&mut self, pods: &[PodKey]) -> Vec<(Key, Option<Attachment>)> {
        let mut keys = std::mem::take(&mut self.changed);
        keys.extend(pods.iter().filter_map(|pod| self.by_pod.get(pod)).flatten().cloned());
        let found = |key: Key| {
            let attachment = self.get(&key).cloned();
            (key, attachment)
        };
        keys.into_iter().map(found).collect()
    }

    /// The pod's attachment enters the book.
    fn enter(&mut self, record: Allocation, phase: Phase) {
        let key = record.key();
        self.leave(&key);
        // Without a name there is nothing that the source could say of it.
        if !record.pod_name.is_empty() {
            self.by_pod.entry(pod_key(&record)).or_default().push(key.clone());
        }
        self.changed.insert(key.clone());
        self.attachments.insert(key, Attachment { record, phase, wired: true });
    }

    /// And leaves it.
    fn leave(&mut self, key: &Key) -> Option<Attachment> {
        let attachment = self.attachments.remove(key)?;
        self.changed.insert(key.clone());
        self.unwired.remove(key);
        let pod = pod_key(&attachment.record);
        if let Some(keys) = self.by_pod.get_mut(&pod) {
            keys.retain(|other| other != key);
            if keys.is_empty() {
                self.by_pod.remove(&pod);
            }
        }
        Some(attachment)
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
        self.names.insert(name, key);
        self.count_anycast(&record);
        let phase = match record.state {
            State::Committed => Phase::Serving,
            State::Pending => Phase::Leaving,
        };
        self.enter(record, phase);
        conflicts
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

    /// The kernel already routes this address to somebody: not to be handed out for now.
    pub fn routed_elsewhere(&mut self, address: IpAddr) {
        self.routed.insert(address);
    }

    /// Notes what has been reached.
    pub fn set(&mut self, key: &Key, phase: Phase, record: Option<Allocation>) {
        if let Some(attachment) = self.attachments.get_mut(key) {
            self.changed.insert(key.clone());
            attachment.phase = phase;
            if let Some(record) = record {
                attachment.record = record;
            }
        }
    }

    /// Whether the kernel leads to it.
    pub fn set_wired(&mut self, key: &Key, wired: bool) {
        if let Some(attachment) = self.attachments.get_mut(key).filter(|a| a.wired != wired) {
            attachment.wired = wired;
            self.changed.insert(key.clone());
            if wired {
                self.unwired.remove(key);
            } else {
                self.unwired.insert(key.clone());
            }
        }
    }

    /// Those that a repair failed for.
    pub fn unwired(&self) -> Vec<Key> {
        self.unwired.iter().cloned().collect()
    }

    /// An attachment that never reached a pod: everything of it is free at once.
    pub fn forget(&mut self, key: &Key) {
        if let Some(attachment) = self.leave(key) {
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
        let Some(attachment) = self.leave(key) else { return };
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
}
