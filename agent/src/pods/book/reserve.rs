//! Giving a new attachment its addresses and its interface name: which are free, which are refused,
//! and why nothing is given out while a removed network still holds pods.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use flock_dataplane::host_ifname_nth;

use super::{Book, Phase, holder};
use crate::annotations::{AddressPlan, Primary};
use crate::config::NodeConfig;
use crate::ipam::{Conflict, IpamError, PodIdentity};
use crate::store::{Allocation, Key};

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

/// What lies outside the networks of one configuration.
pub(super) struct Stranded {
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

impl Book {
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
        self.names.insert(record.host_ifname.clone().unwrap_or_default(), key);
        self.count_anycast(&record);
        self.enter(record.clone(), Phase::Wiring);
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
                        tracing::info!(address = %grant.addr, holder = who.holder, reason = %note, "address granted");
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

    pub(super) fn no_longer_stranded(&mut self, key: &Key) {
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
