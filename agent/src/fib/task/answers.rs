//! What the task says of its routes to people: of one prefix, and of what the kernel has not.

use flock_bgp::NextHop;
use flock_dataplane::LearnedHop;
use ipnet::IpNet;

use super::super::resolve::{self, Reach};
use super::super::{Lacking, Standing, known};
use super::Task;

impl Task {
    pub(super) fn standing(&self, prefix: IpNet) -> Standing {
        let name = |dev: &u32| {
            let found = self.interfaces.iter().find(|interface| interface.index == *dev);
            found.map_or_else(|| format!("interface {dev}"), |interface| interface.name.clone())
        };
        let way = |hop: &LearnedHop| format!("via {} dev {}", hop.via, name(&hop.dev));
        let unusable = |hop: &NextHop| match resolve::reach(hop, &self.interfaces, &self.ways) {
            Reach::By(_) => None,
            Reach::Down(dev) => Some(format!("{} is down", name(&dev))),
            Reach::NoWay(gateway) => Some(format!("nothing leads to {gateway}")),
            Reach::NoAddress => Some("a link-local next hop alone cannot be used".to_owned()),
        };
        let wanted = self.followed().get(&prefix).map(AsRef::as_ref).unwrap_or_default();
        Standing {
            installed: known(&self.installed)
                .get(&prefix)
                .map(|hops| hops.iter().map(way).collect()),
            unusable: wanted.iter().filter_map(unusable).collect(),
            refused: self.refused.get(&prefix).map(|words| (words.clone(), self.recheck_at)),
            stale: self.stale.contains(&prefix),
            held: self.held.as_ref().is_some_and(|held| held.contains(&prefix)),
        }
    }

    pub(super) fn lacking(&self) -> Lacking {
        let installed = known(&self.installed);
        let missing = self.followed().keys().filter(|prefix| !installed.contains(prefix));
        let unreachable = missing.filter(|prefix| !self.refused.contains_key(prefix));
        let mut unreachable: Vec<IpNet> = unreachable.collect();
        unreachable.sort_unstable();
        Lacking { refused: self.refused.clone(), unreachable }
    }
}
