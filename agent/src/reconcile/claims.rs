//! Who asks for which prefix. Several pods may ask for one, and none of them can take it from the
//! others: a prefix goes when the last who asked for it has gone. Decides nothing else.
//!
//! Nearly every prefix is asked for by one: its holders are a list without room to spare, and a key is
//! kept once, however much its attachment asks for (1.4 KB a prefix with a map for each, 0.2 KB so).

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use flock_dataplane::NextHop;
use ipnet::IpNet;

use crate::store::Key;

/// What an attachment asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// Its own address is to be announced.
    Own {
        /// The address.
        prefix: IpNet,
    },
    /// It has an anycast address.
    Anycast {
        /// The address.
        prefix: IpNet,
        /// The way to the pod.
        hop: Arc<NextHop>,
        /// It serves the address now.
        serves: bool,
    },
}

impl Claim {
    fn prefix(&self) -> IpNet {
        match self {
            Self::Own { prefix } | Self::Anycast { prefix, .. } => *prefix,
        }
    }
}

/// Who asks for one prefix, sorted by who.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Holders(Vec<Holder>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Holder {
    key: Arc<Key>,
    /// `None`: it is its own address.
    anycast: Option<(Arc<NextHop>, bool)>,
}

impl Holders {
    /// The address of a pod, to be announced.
    pub fn is_own(&self) -> bool {
        self.0.iter().any(|holder| holder.anycast.is_none())
    }

    fn is_anycast(&self) -> bool {
        self.0.iter().any(|holder| holder.anycast.is_some())
    }

    /// The ways to the pods that serve it.
    pub fn serving(&self) -> impl Iterator<Item = &Arc<NextHop>> {
        self.anycast().filter(|(_, serves)| *serves).map(|(hop, _)| hop)
    }

    /// The ways to all pods that have it.
    pub fn attached(&self) -> impl Iterator<Item = &Arc<NextHop>> {
        self.anycast().map(|(hop, _)| hop)
    }

    fn anycast(&self) -> impl Iterator<Item = &(Arc<NextHop>, bool)> {
        self.0.iter().filter_map(|holder| holder.anycast.as_ref())
    }

    fn add(&mut self, holder: Holder) {
        let at = self.0.partition_point(|known| known.key <= holder.key);
        self.0.reserve_exact(1);
        self.0.insert(at, holder);
    }

    fn remove(&mut self, key: &Key) {
        self.0.retain(|holder| *holder.key != *key);
    }
}

/// An attachment's claims, and what to call it.
#[derive(Debug)]
struct Entry {
    name: Arc<str>,
    claims: Vec<Claim>,
}

/// All claims, by who and by prefix.
#[derive(Debug, Default)]
pub struct Claims {
    entries: HashMap<Arc<Key>, Entry>,
    prefixes: HashMap<IpNet, Holders>,
}

impl Claims {
    /// An attachment asks for these from now on. Returns the prefixes whose holders changed.
    pub fn set(&mut self, key: &Key, name: &str, mut claims: Vec<Claim>) -> BTreeSet<IpNet> {
        let before = self.entries.remove(key).map(|entry| entry.claims).unwrap_or_default();
        let changed = if before == claims {
            BTreeSet::new()
        } else {
            before.iter().chain(&claims).map(Claim::prefix).collect()
        };
        for prefix in &changed {
            if let Some(holders) = self.prefixes.get_mut(prefix) {
                holders.remove(key);
            }
        }
        let key = Arc::new(key.clone());
        if !changed.is_empty() {
            for claim in &claims {
                let anycast = match claim {
                    Claim::Own { .. } => None,
                    Claim::Anycast { hop, serves, .. } => Some((Arc::clone(hop), *serves)),
                };
                let holder = Holder { key: Arc::clone(&key), anycast };
                self.prefixes.entry(claim.prefix()).or_default().add(holder);
            }
            for prefix in &changed {
                if self.prefixes.get(prefix).is_some_and(|holders| holders.0.is_empty()) {
                    self.prefixes.remove(prefix);
                }
            }
        }
        if !claims.is_empty() {
            claims.shrink_to_fit();
            self.entries.insert(key, Entry { name: name.into(), claims });
        }
        changed
    }

    /// Who asks for a prefix.
    pub fn of(&self, prefix: &IpNet) -> Option<&Holders> {
        self.prefixes.get(prefix)
    }

    /// What an attachment that asks for something is called.
    pub fn name(&self, key: &Key) -> Option<Arc<str>> {
        self.entries.get(key).map(|entry| Arc::clone(&entry.name))
    }

    /// Whether an attachment is one for which a prefix is to be announced.
    pub fn serves(&self, prefix: &IpNet, key: &Key) -> bool {
        let serves = |holder: &Holder| holder.anycast.as_ref().is_none_or(|(_, serves)| *serves);
        self.of(prefix).is_some_and(|holders| {
            holders.0.iter().any(|holder| *holder.key == *key && serves(holder))
        })
    }

    /// All prefixes that somebody asks for.
    pub fn prefixes(&self) -> impl Iterator<Item = &IpNet> {
        self.prefixes.keys()
    }

    /// Whether a prefix is somebody's anycast address.
    pub fn is_anycast(&self, prefix: &IpNet) -> bool {
        self.of(prefix).is_some_and(Holders::is_anycast)
    }

    /// Who asks for a prefix, for people; `None`: nobody.
    pub fn told(&self, prefix: &IpNet) -> Option<String> {
        let holders = self.of(prefix)?;
        let kind = if holders.is_own() { "pod" } else { "anycast" };
        let names = holders.0.iter().filter_map(|holder| self.entries.get(&holder.key));
        let names: BTreeSet<&str> = names.map(|entry| &*entry.name).collect();
        Some(format!("{kind} {}", names.into_iter().collect::<Vec<_>>().join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u8) -> Key {
        Key { container_id: format!("c{n}"), ifname: "eth0".into() }
    }

    fn anycast(prefix: &str, n: u8, serves: bool) -> Claim {
        let hop = NextHop { via: [10, 0, 0, n].into(), dev: format!("flock{n:08x}") };
        Claim::Anycast { prefix: prefix.parse().unwrap(), hop: hop.into(), serves }
    }

    fn own(prefix: &str) -> Claim {
        Claim::Own { prefix: prefix.parse().unwrap() }
    }

    fn nets(list: &[&str]) -> BTreeSet<IpNet> {
        list.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn two_owners_of_one_prefix_never_withdraw_each_other() {
        let (a, b) = ("192.0.2.1/32", "192.0.2.2/32");
        let prefix = a.parse().unwrap();
        let mut claims = Claims::default();
        assert_eq!(claims.set(&key(1), "d/p1", vec![anycast(a, 1, true)]), nets(&[a]));
        assert_eq!(claims.set(&key(2), "d/p2", vec![anycast(a, 2, true), own(b)]), nets(&[a, b]));
        assert_eq!(claims.of(&prefix).unwrap().serving().count(), 2);
        assert_eq!(claims.told(&prefix).unwrap(), "anycast d/p1, d/p2");
        assert_eq!(claims.set(&key(1), "d/p1", vec![]), nets(&[a]));
        assert_eq!(claims.of(&prefix).unwrap().serving().count(), 1, "the other still serves it");
        assert_eq!(claims.set(&key(2), "d/p2", vec![own(b)]), nets(&[a, b]));
        assert!(claims.of(&prefix).is_none());
        assert_eq!(claims.told(&b.parse().unwrap()).unwrap(), "pod d/p2");
        assert_eq!(claims.set(&key(2), "d/p2", vec![own(b)]), nets(&[]), "the same is no change");
        claims.set(&key(2), "d/p2", vec![]);
        assert!(claims.entries.is_empty() && claims.prefixes.is_empty(), "{claims:?}");
    }

    #[test]
    fn one_that_is_not_ready_is_attached_and_does_not_serve() {
        let mut claims = Claims::default();
        let a = "192.0.2.1/32";
        claims.set(&key(1), "d/p1", vec![anycast(a, 1, false)]);
        let holders = claims.of(&a.parse().unwrap()).unwrap();
        assert_eq!((holders.serving().count(), holders.attached().count()), (0, 1));
        assert!(!holders.is_own());
    }
}
