//! Which of several paths is best, and why: RFC 4271 §9.1.2.2 with RFC 4456 §9, as a narrowing of
//! the field step by step. What is eligible at all was judged before; what LOCAL_PREF a path has
//! is policy's. There are no interior costs here (step e): every next hop is on a network of ours.
//!
//! Each step looks at all that are left, never at pairs. So MED, which compares paths of one AS
//! only, cannot make the result depend on the order of arrival: the outcome is that of choosing the
//! best of each AS first and then among those. The last steps tell any two paths apart.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use flock_bgp_wire::Origin;

use super::Source;
use super::path::{Path, Set};

/// RFC 4271 §9.1.1 leaves it open; 100 is what everyone takes.
const DEFAULT_LOCAL_PREF: u32 = 100;

/// The step that decided: for the best path the last one that excluded another, for any other the
/// one that excluded it. In the order of the steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// There is no other.
    Only,
    /// We originate it.
    Originated,
    /// Higher LOCAL_PREF (RFC 4271 §9.1.1).
    LocalPref,
    /// Shorter AS_PATH (RFC 4271 §9.1.2.2 a).
    AsPath,
    /// Lower ORIGIN (RFC 4271 §9.1.2.2 b).
    Origin,
    /// Lower MULTI_EXIT_DISC from the same AS (RFC 4271 §9.1.2.2 c).
    Med,
    /// From an external peer (RFC 4271 §9.1.2.2 d).
    External,
    /// Lower BGP identifier, or ORIGINATOR_ID (RFC 4271 §9.1.2.2 f, RFC 4456 §9). Paths that differ
    /// only from here on are equally good and share the traffic.
    RouterId,
    /// Shorter CLUSTER_LIST (RFC 4456 §9).
    ClusterList,
    /// Lower peer address (RFC 4271 §9.1.2.2 g).
    PeerAddress,
    /// Lower path identifier (RFC 7911).
    PathId,
    /// The same router on another link: lower number of the peer.
    Peer,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Only => "only path",
            Self::Originated => "originated here",
            Self::LocalPref => "higher LOCAL_PREF",
            Self::AsPath => "shorter AS path",
            Self::Origin => "lower ORIGIN",
            Self::Med => "lower MED from the same AS",
            Self::External => "external over internal",
            Self::RouterId => "lower router id",
            Self::ClusterList => "shorter CLUSTER_LIST",
            Self::PeerAddress => "lower peer address",
            Self::PathId => "lower path id",
            Self::Peer => "lower peer number",
        })
    }
}

/// A path with all that is compared.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    /// Where it is among the paths of its prefix.
    pub(super) at: usize,
    ours: bool,
    local_pref: u32,
    hops: usize,
    origin: Origin,
    /// `None`: our own AS (RFC 4271 §9.1.2.2 c).
    neighbour: Option<u32>,
    med: u32,
    internal: bool,
    id: Ipv4Addr,
    clusters: usize,
    address: IpAddr,
    path_id: u32,
    peer: u16,
    /// The step that excluded it; `None`: the best.
    pub(super) lost: Option<Reason>,
}

impl Candidate {
    pub(super) fn new(at: usize, path: &Path, set: &Set, source: Source) -> Self {
        let attributes = &set.attributes;
        Self {
            at,
            ours: path.ours(),
            local_pref: attributes.local_pref.unwrap_or(DEFAULT_LOCAL_PREF),
            hops: set.hops,
            origin: attributes.origin,
            neighbour: set.neighbour,
            // RFC 4271 §9.1.2.2 c: none is the lowest.
            med: attributes.med.unwrap_or(0),
            internal: source.internal,
            id: attributes.originator_id.unwrap_or(source.id),
            clusters: attributes.cluster_list.len(),
            address: source.address,
            path_id: path.path_id,
            peer: path.peer().map_or(0, |peer| peer.0),
            lost: None,
        }
    }

    /// As good as the best but for the steps that only tell paths apart: shares its traffic.
    pub(super) fn equal(&self) -> bool {
        self.lost.is_none_or(|step| step >= Reason::RouterId)
    }
}

/// Excludes all but the best and says which step was the last to exclude one.
pub(super) fn decide(field: &mut [Candidate]) -> Reason {
    let mut field = Field { left: field.len(), field, decided: Reason::Only };
    field.lowest(Reason::Originated, |path| !path.ours);
    field.lowest(Reason::LocalPref, |path| u32::MAX - path.local_pref);
    field.lowest(Reason::AsPath, |path| path.hops);
    field.lowest(Reason::Origin, |path| path.origin);
    field.lowest_med();
    field.lowest(Reason::External, |path| path.internal);
    field.lowest(Reason::RouterId, |path| path.id);
    field.lowest(Reason::ClusterList, |path| path.clusters);
    field.lowest(Reason::PeerAddress, |path| path.address);
    field.lowest(Reason::PathId, |path| path.path_id);
    field.lowest(Reason::Peer, |path| path.peer);
    field.decided
}

struct Field<'a> {
    field: &'a mut [Candidate],
    left: usize,
    decided: Reason,
}

impl Field<'_> {
    fn left(&self) -> impl Iterator<Item = &Candidate> {
        self.field.iter().filter(|path| path.lost.is_none())
    }

    /// Excludes those that are not among the lowest.
    fn lowest<K: Ord>(&mut self, step: Reason, key: impl Fn(&Candidate) -> K) {
        if self.left > 1
            && let Some(lowest) = self.left().map(&key).min()
        {
            self.exclude(step, |path| key(path) > lowest);
        }
    }

    /// Excludes those for which there is a lower one of the same AS.
    fn lowest_med(&mut self) {
        let mut values = self.left().map(|path| path.med);
        let first = values.next();
        if values.all(|med| Some(med) == first) {
            return;
        }
        drop(values);
        let mut lowest: Vec<(Option<u32>, u32)> =
            self.left().map(|path| (path.neighbour, path.med)).collect();
        lowest.sort_unstable();
        lowest.dedup_by_key(|(neighbour, _)| *neighbour);
        self.exclude(Reason::Med, |path| {
            let at = lowest.binary_search_by_key(&path.neighbour, |(neighbour, _)| *neighbour);
            at.ok().and_then(|at| lowest.get(at)).is_some_and(|(_, med)| path.med > *med)
        });
    }

    fn exclude(&mut self, step: Reason, worse: impl Fn(&Candidate) -> bool) {
        for path in self.field.iter_mut().filter(|path| path.lost.is_none()) {
            if worse(path) {
                path.lost = Some(step);
                self.left -= 1;
                self.decided = step;
            }
        }
    }
}

#[cfg(test)]
mod tests;
