//! Routes by prefix, counted by family as they come and go: whoever asks how many there are does not
//! make anybody walk through a full table.

use std::collections::BTreeMap;
use std::ops::Deref;

use ipnet::IpNet;

/// What is known of each prefix.
#[derive(Debug, Clone)]
pub(super) struct Routes<V> {
    map: BTreeMap<IpNet, V>,
    four: usize,
}

impl<V> Default for Routes<V> {
    fn default() -> Self {
        Self { map: BTreeMap::new(), four: 0 }
    }
}

impl<V> Routes<V> {
    pub(super) fn insert(&mut self, prefix: IpNet, value: V) {
        if self.map.insert(prefix, value).is_none() {
            self.four += usize::from(prefix.addr().is_ipv4());
        }
    }

    pub(super) fn remove(&mut self, prefix: &IpNet) -> Option<V> {
        let gone = self.map.remove(prefix)?;
        self.four -= usize::from(prefix.addr().is_ipv4());
        Some(gone)
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// All of it.
    pub(super) fn to_map(&self) -> BTreeMap<IpNet, V>
    where
        V: Clone,
    {
        self.map.clone()
    }

    /// How many of IPv4, and of IPv6.
    pub(super) fn counts(&self) -> [usize; 2] {
        [self.four, self.map.len() - self.four]
    }
}

impl<V> IntoIterator for Routes<V> {
    type Item = (IpNet, V);
    type IntoIter = std::collections::btree_map::IntoIter<IpNet, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.map.into_iter()
    }
}

/// To be read as any map is.
impl<V> Deref for Routes<V> {
    type Target = BTreeMap<IpNet, V>;

    fn deref(&self) -> &Self::Target {
        &self.map
    }
}

impl<V> FromIterator<(IpNet, V)> for Routes<V> {
    fn from_iter<I: IntoIterator<Item = (IpNet, V)>>(all: I) -> Self {
        let map: BTreeMap<IpNet, V> = all.into_iter().collect();
        let four = map.keys().filter(|prefix| prefix.addr().is_ipv4()).count();
        Self { map, four }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_and_goes_is_counted_once() {
        let [a, b, c] = ["10.0.0.0/8", "::/0", "2001:db8::/32"].map(|net| net.parse().unwrap());
        let mut routes: Routes<u8> = [(a, 1), (b, 2)].into_iter().collect();
        assert_eq!(routes.counts(), [1, 1]);
        routes.insert(a, 3);
        routes.insert(c, 4);
        assert_eq!((routes.counts(), routes.get(&a)), ([1, 2], Some(&3)), "replaced, not added");
        assert_eq!((routes.remove(&a), routes.remove(&a)), (Some(3), None));
        assert_eq!(routes.counts(), [0, 2]);
        routes.clear();
        assert_eq!(routes.counts(), [0, 0]);
    }
}
