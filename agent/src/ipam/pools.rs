//! The books of one node: allocate, claim, hold, release. Decides the order of the pools and when
//! a still cooling address is better than none; leaves the choice inside a pool to `pool4` and
//! `pool6`.
//!
//! Availability before rest: when every other address of a pod's pools is held, the one that was
//! released longest ago is used although it has not cooled down. A pod that cannot start is worse
//! than a peer that meets a new pod under an old address, and the caller is told ([`Note`]).

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use rand::Rng;

use super::algo::IpAlgo;
use super::error::{Conflict, IpamError};
use super::identity::PodIdentity;
use super::ledger::{Ledger, Slot};
use super::pool4::{self, Asking, Pool4};
use super::pool6::{self, ByAlgo, Search};

/// How many IPv4 pools keep their place between allocations. A node has a handful; annotations
/// may name any number of subnets, and the rest are derived again when they are asked for.
const REMEMBERED: usize = 64;

/// Where one family's primary address may come from: the pools in order of preference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FamilyPlan {
    /// IPv4: the lowest free address.
    V4 {
        /// First choice first.
        pools: Vec<Ipv4Net>,
    },
    /// IPv6: by `ip-algo`, else random.
    V6 {
        /// First choice first.
        pools: Vec<Ipv6Net>,
        /// What the address should say about the pod.
        algo: Option<IpAlgo>,
    },
}

/// An address for a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Granted {
    /// The address, held from now on.
    pub addr: IpAddr,
    /// What an operator would want to know about it.
    pub note: Option<Note>,
}

/// A grant that is not quite what was wished for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// All sixteen `ip-algo` addresses of this pod are held: the address is random.
    AlgoFull(Ipv6Net),
    /// The pool's length is not a multiple of 4: the address is random.
    AlgoDoesNotFit(Ipv6Net),
    /// Nothing else was free: released this long ago, before its cool-down was over.
    StillCooling(Duration),
}

/// How full a pool is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolCounters {
    /// The pool.
    pub net: IpNet,
    /// Usable addresses.
    pub size: u128,
    /// Of those, held.
    pub held: u64,
    /// Of those, released and cooling down.
    pub cooling: u64,
    /// Of those, found routed by somebody else when last looked at.
    pub elsewhere: u64,
}

/// All addresses of a node's pods.
#[derive(Debug)]
pub struct Ipam {
    cooldown: Duration,
    ledger: Ledger,
    pools4: HashMap<Ipv4Net, Pool4>,
    asked: u64,
    examined: u64,
}

impl Ipam {
    /// Nothing held. A released address rests for `cooldown`.
    pub fn new(cooldown: Duration) -> Self {
        Self { cooldown, ledger: Ledger::default(), pools4: HashMap::new(), asked: 0, examined: 0 }
    }

    /// The next address for this pod, held by `who.holder` from now on. `now` is any monotonic
    /// time, always of the same clock; `taken_elsewhere` says whether the kernel already routes
    /// an address.
    pub fn allocate(
        &mut self,
        plan: &FamilyPlan,
        who: &PodIdentity,
        now: Duration,
        rng: &mut impl Rng,
        taken_elsewhere: &dyn Fn(IpAddr) -> bool,
    ) -> Result<Granted, IpamError> {
        self.wake(now);
        let asking = Asking { now, taken_elsewhere };
        let granted = match plan {
            FamilyPlan::V4 { pools } => self.allocate4(pools, &asking),
            FamilyPlan::V6 { pools, algo } => {
                self.allocate6(pools, algo.as_ref(), who, rng, &asking)
            }
        };
        let Some(granted) = granted else {
            return Err(self.exhausted(plan));
        };
        self.ledger.hold(granted.addr, &who.holder);
        Ok(granted)
    }

    /// Takes this very address: for `addresses` annotations and for recovery. Again for the same
    /// holder is fine, and so is one that cools down.
    pub fn claim(&mut self, addr: IpAddr, holder: &str) -> Result<(), Conflict> {
        match self.ledger.holder(addr) {
            Some(other) if other != holder => Err(Conflict { addr, held_by: other.to_owned() }),
            Some(_) => Ok(()),
            None => {
                self.ledger.hold(addr, holder);
                Ok(())
            }
        }
    }

    /// Puts the address under another key, whoever holds it now: when a pod is gone and its link
    /// is still being deleted, the deletion holds the address until it is done.
    pub fn hold(&mut self, addr: IpAddr, holder: &str) {
        self.ledger.hold(addr, holder);
    }

    /// Starts the cool-down, if it is this holder's: a late second release must not free what
    /// meanwhile belongs to somebody else. Says whether it was.
    pub fn release(&mut self, addr: IpAddr, holder: &str, now: Duration) -> bool {
        self.wake(now);
        let is_theirs = self.ledger.holder(addr) == Some(holder);
        if is_theirs {
            self.ledger.cool(addr, now, false);
        }
        is_theirs
    }

    /// Takes back an allocation that never reached a pod: free at once, without a cool-down.
    /// Says whether it was this holder's.
    pub fn unallocate(&mut self, addr: IpAddr, holder: &str) -> bool {
        let is_theirs = self.ledger.holder(addr) == Some(holder);
        if is_theirs {
            self.ledger.free(addr);
            self.give_back(addr);
        }
        is_theirs
    }

    /// Who holds the address.
    pub fn holder(&self, addr: IpAddr) -> Option<&str> {
        self.ledger.holder(addr)
    }

    /// How full a pool is. Counts what is held in it: for metrics, not for each event.
    pub fn counters(&self, net: IpNet) -> PoolCounters {
        let (size, range) = usable(net);
        let mut counters = PoolCounters { net, size, held: 0, cooling: 0, elsewhere: 0 };
        for slot in range.into_iter().flat_map(|range| self.ledger.within(range)) {
            match slot {
                Slot::Held(_) => counters.held += 1,
                Slot::Cooling(cooling) if cooling.elsewhere => counters.elsewhere += 1,
                Slot::Cooling(_) => counters.cooling += 1,
            }
        }
        counters
    }

    /// How many addresses have been looked at since the start: what allocations cost, in a unit
    /// that does not depend on the machine.
    pub fn examined(&self) -> u64 {
        self.examined
    }

    fn allocate4(&mut self, pools: &[Ipv4Net], asking: &Asking<'_>) -> Option<Granted> {
        for net in pools {
            self.remember(*net);
            let Some(pool) = self.pools4.get_mut(net) else {
                continue;
            };
            if let Some(addr) = pool.lowest(&mut self.ledger, asking, &mut self.examined) {
                return Some(Granted { addr: addr.into(), note: None });
            }
        }
        self.oldest_cooling(
            pools.iter().filter_map(|net| Some(self.pools4.get(net)?.range())),
            asking,
        )
    }

    fn allocate6(
        &mut self,
        pools: &[Ipv6Net],
        algo: Option<&IpAlgo>,
        who: &PodIdentity,
        rng: &mut impl Rng,
        asking: &Asking<'_>,
    ) -> Option<Granted> {
        let mut search = Search { ledger: &self.ledger, asking, examined: &mut self.examined };
        let mut note = None;
        for net in pools {
            match algo.map(|algo| search.by_algo(algo, *net, who, rng)) {
                Some(ByAlgo::Found(addr, cooling)) => {
                    let note =
                        cooling.map(|c| Note::StillCooling(asking.now.saturating_sub(c.since)));
                    return Some(Granted { addr: addr.into(), note });
                }
                Some(ByAlgo::Full) => note = note.or(Some(Note::AlgoFull(*net))),
                Some(ByAlgo::DoesNotFit) => note = note.or(Some(Note::AlgoDoesNotFit(*net))),
                None => {}
            }
        }
        // Only when no pool has an address of the wished form.
        for net in pools {
            if let Some(addr) = search.random(*net, rng) {
                return Some(Granted { addr: addr.into(), note });
            }
        }
        self.oldest_cooling(pools.iter().map(|net| pool6::usable(*net)), asking)
    }

    /// The longest rested address of the pools, the first pool's before the others'.
    fn oldest_cooling(
        &self,
        mut ranges: impl Iterator<Item = RangeInclusive<IpAddr>>,
        asking: &Asking<'_>,
    ) -> Option<Granted> {
        let (addr, cooling) = ranges.find_map(|range| {
            self.ledger.cooling(range).find(|(addr, _)| !(asking.taken_elsewhere)(*addr))
        })?;
        let rested = asking.now.saturating_sub(cooling.since);
        Some(Granted { addr, note: Some(Note::StillCooling(rested)) })
    }

    /// Frees what has rested long enough.
    fn wake(&mut self, now: Duration) {
        while let Some(addr) = self.ledger.next_rested(now, self.cooldown) {
            self.examined += 1;
            self.give_back(addr);
        }
    }

    /// Tells the pools that an address is free. At most one pool of each length contains it, so
    /// this is a fixed number of look-ups however many pools there are.
    fn give_back(&mut self, addr: IpAddr) {
        let IpAddr::V4(addr) = addr else { return };
        for len in 0..=32 {
            let Ok(net) = Ipv4Net::new(addr, len) else {
                continue;
            };
            if let Some(pool) = self.pools4.get_mut(&net.trunc()) {
                pool.give_back(addr);
            }
        }
    }

    fn remember(&mut self, net: Ipv4Net) {
        self.asked += 1;
        if !self.pools4.contains_key(&net) {
            if self.pools4.len() >= REMEMBERED
                && let Some(idle) = self.pools4.iter().min_by_key(|(_, p)| p.asked).map(|(n, _)| *n)
            {
                self.pools4.remove(&idle);
            }
            if let Some(pool) = Pool4::new(net) {
                self.pools4.insert(net, pool);
            }
        }
        if let Some(pool) = self.pools4.get_mut(&net) {
            pool.asked = self.asked;
        }
    }

    fn exhausted(&self, plan: &FamilyPlan) -> IpamError {
        let nets: Vec<IpNet> = match plan {
            FamilyPlan::V4 { pools } => pools.iter().map(|net| IpNet::V4(*net)).collect(),
            FamilyPlan::V6 { pools, .. } => pools.iter().map(|net| IpNet::V6(*net)).collect(),
        };
        if nets.is_empty() {
            return IpamError::NoPool;
        }
        IpamError::Exhausted(nets.into_iter().map(|net| self.counters(net)).collect())
    }
}

/// How many usable addresses a network has, and from where to where.
fn usable(net: IpNet) -> (u128, Option<RangeInclusive<IpAddr>>) {
    match net {
        IpNet::V4(net) => match pool4::usable(net) {
            Some((first, last)) => {
                (u128::from(last - first) + 1, Some(super::ledger::range4(first, last)))
            }
            None => (0, None),
        },
        IpNet::V6(net) => (net.hostmask().to_bits(), Some(pool6::usable(net))),
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlgoFull(net) => {
                write!(
                    f,
                    "all 16 ip-algo addresses of this pod in {net} are held: the address is random"
                )
            }
            Self::AlgoDoesNotFit(net) => write!(
                f,
                "ip-algo needs a prefix length that is a multiple of 4, and {net} has {}: the address is random",
                net.prefix_len()
            ),
            Self::StillCooling(rested) => write!(
                f,
                "nothing else is free: the address was released only {} ms ago",
                rested.as_millis()
            ),
        }
    }
}
