//! What is read when somebody asks: from the tasks that own it, each with a question that costs as
//! much as there are peers, pools and pods, never as there are routes. Decides what is asked and for
//! how long it is waited; a part that does not answer is left out, and counted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use flock_bgp_io::Status;
use flock_dataplane::NodeRoute;
use flock_dataplane::policy::{Direction, Dropped};
use ipnet::IpNet;
use tokio::time::timeout;

use super::peers::{self, Peer};
use super::process::Process;
use super::{MOST_PODS, MOST_POOLS, Metrics};
use crate::bgp::{Bgp, Sessions};
use crate::cli::drain::DrainState;
use crate::config::NodeConfig;
use crate::fib;
use crate::ipam::PoolCounters;
use crate::pods::Pods;
use crate::pods::book;
use crate::policy;
use crate::reconcile::Picture;
use crate::reconcile::desired::configured;
use crate::source::{NodeState, PodKey, Standing, World};
use crate::store;

/// How long a part is waited for. Whoever scrapes waits for ten seconds.
const PATIENCE: Duration = Duration::from_secs(2);

/// The node as it is.
#[derive(Debug)]
pub(super) struct Figures {
    pub(super) process: Process,
    pub(super) started: SystemTime,
    pub(super) at: SystemTime,
    pub(super) node_config: &'static str,
    pub(super) manifest_problems: usize,
    pub(super) source_up: bool,
    pub(super) drain: &'static str,
    pub(super) ready: bool,
    pub(super) ready_sessions: u32,
    /// Those of the NodeConfig, whether or not there is a speaker.
    pub(super) wished_peers: usize,
    pub(super) peers: Vec<Peer>,
    /// What the speaker's sockets did; `None`: there is no speaker.
    pub(super) traffic: Option<Status>,
    pub(super) fib: Option<fib::Counts>,
    pub(super) routes: Option<Routes>,
    pub(super) book: Option<book::Figures>,
    pub(super) pools: Vec<Pool>,
    pub(super) store: store::Counters,
    pub(super) kernel_failures: u64,
    pub(super) policies: Policies,
    /// How many parts did not answer in time.
    pub(super) missing: usize,
}

/// Stages of a drain, in their order.
pub(super) const DRAINS: [&str; 3] = ["in_service", "draining", "drained"];
/// What may be said of the NodeConfig.
pub(super) const NODE_CONFIGS: [&str; 4] = ["in_force", "refused", "deleted", "unknown"];

/// IPv4 and IPv6.
pub(super) type ByFamily = [usize; 2];

/// The names of [`ByFamily`].
pub(super) const FAMILIES: [&str; 2] = ["ipv4", "ipv6"];

/// What is originated, and the node routes in the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Routes {
    pub(super) summaries: ByFamily,
    pub(super) pods: ByFamily,
    pub(super) anycast: ByFamily,
    pub(super) installed_summaries: ByFamily,
    pub(super) installed_anycast: ByFamily,
}

/// Network policies, and what they dropped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Policies {
    /// One of [`POLICY_STATES`].
    pub(super) state: &'static str,
    pub(super) known: usize,
    pub(super) isolated: usize,
    /// By pod and direction, or what is left of too many.
    pub(super) dropped: Vec<DroppedFor>,
}

/// Packets that were dropped for a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DroppedFor {
    pub(super) namespace: String,
    pub(super) pod: String,
    pub(super) direction: &'static str,
    pub(super) packets: u64,
}

/// What may be said of network policies.
pub(super) const POLICY_STATES: [&str; 4] = ["none", "in_force", "waiting", "failing"];

/// A network that pods get addresses from, or what is left of too many.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pool {
    pub(super) name: String,
    pub(super) family: &'static str,
    pub(super) size: f64,
    pub(super) held: u64,
    pub(super) cooling: u64,
}

impl Figures {
    /// Asks everybody at the same time.
    pub(super) async fn gather(metrics: &Metrics, pods: &Arc<Pods>, bgp: &Bgp) -> Self {
        let world = pods.source.world();
        let config = world.node.config().map(AsRef::as_ref);
        let nets: Vec<IpNet> = configured(config).collect();
        let (sessions, traffic, counts, routes, book, status, dropped) = tokio::join!(
            timeout(PATIENCE, bgp.sessions()),
            timeout(PATIENCE, bgp.traffic()),
            timeout(PATIENCE, bgp.fib().counts()),
            timeout(PATIENCE, pods.reconciler.ask(Routes::of)),
            timeout(PATIENCE, pods.ledger.ask(move |book| book.figures(&nets))),
            timeout(PATIENCE, pods.status()),
            timeout(PATIENCE, policy::dropped(pods)),
        );
        let parts = [
            !matches!(sessions, Ok(Ok(_))),
            traffic.is_err(),
            counts.is_err(),
            routes.is_err(),
            book.is_err(),
            status.is_err(),
            dropped.is_err(),
        ];
        let missing = parts.iter().filter(|missing| **missing).count();
        // A speaker that has just ended has no peers.
        let sessions = sessions.ok().and_then(Result::ok).flatten();
        let book = book.ok().and_then(Result::ok);
        let pools = book.as_ref().map(|book| pools(&book.pools)).unwrap_or_default();
        Self {
            process: Process::now(),
            started: metrics.started,
            at: SystemTime::now(),
            node_config: standing(&world),
            manifest_problems: world.problems.len(),
            source_up: world.away.is_none(),
            drain: match bgp.drain_state() {
                DrainState::None => "in_service",
                DrainState::Draining => "draining",
                DrainState::Drained => "drained",
            },
            // Who does not answer in time is not ready.
            ready: status.is_ok_and(|status| status.is_ok()),
            ready_sessions: *bgp.ready_sessions().borrow(),
            wished_peers: config.and_then(|c| c.bgp.as_ref()).map_or(0, |bgp| bgp.peers.len()),
            peers: sessions.map(|sessions| peers(&sessions, config)).unwrap_or_default(),
            traffic: traffic.ok().flatten(),
            fib: counts.ok().flatten(),
            routes: routes.ok().flatten(),
            book,
            pools,
            store: pods.store.counters(),
            kernel_failures: pods.dataplane.failures(),
            policies: policies(pods, dropped.unwrap_or_default()),
            missing,
        }
    }
}

fn policies(pods: &Pods, (isolated, dropped): (usize, Vec<(PodKey, Dropped)>)) -> Policies {
    let state = match pods.gate.standing() {
        policy::Standing::Idle => "none",
        policy::Standing::InForce { .. } => "in_force",
        policy::Standing::Waiting => "waiting",
        policy::Standing::Failing(_) => "failing",
    };
    let known = pods.source.cluster().borrow().policies.len();
    Policies { state, known, isolated, dropped: bounded(dropped) }
}

/// Each pod and direction once, and those who are too many as one.
fn bounded(dropped: Vec<(PodKey, Dropped)>) -> Vec<DroppedFor> {
    let mut rows: BTreeMap<(PodKey, &'static str), u64> = BTreeMap::new();
    for (pod, dropped) in dropped {
        let direction = match dropped.direction {
            Direction::Ingress => "ingress",
            Direction::Egress => "egress",
        };
        let full = rows.len() >= 2 * MOST_PODS;
        let pod = match rows.contains_key(&(pod.clone(), direction)) || !full {
            true => pod,
            false => PodKey { namespace: "overflow".into(), name: "overflow".into() },
        };
        *rows.entry((pod, direction)).or_default() += dropped.packets;
    }
    let row = |((pod, direction), packets): ((PodKey, &'static str), u64)| DroppedFor {
        namespace: pod.namespace.to_string(),
        pod: pod.name.to_string(),
        direction,
        packets,
    };
    rows.into_iter().map(row).collect()
}

fn standing(world: &World) -> &'static str {
    match &world.node {
        NodeState::Unknown { .. } => "unknown",
        NodeState::Known { standing: Standing::InForce, .. } => "in_force",
        NodeState::Known { standing: Standing::Refused(_), .. } => "refused",
        NodeState::Known { standing: Standing::Deleted, .. } => "deleted",
    }
}

fn peers(sessions: &Sessions, config: Option<&NodeConfig>) -> Vec<Peer> {
    let configured = config.and_then(|config| config.bgp.as_ref());
    let wished = configured.into_iter().flat_map(|bgp| &bgp.peers);
    let limits: BTreeMap<&str, u32> = wished
        .filter_map(|peer| Some((peer.name.as_str(), peer.import.as_ref()?.max_prefixes)))
        .collect();
    let told = sessions.peers.iter().map(|status| Peer {
        limit: limits.get(&*status.name).copied(),
        ..Peer::of(status, sessions.now)
    });
    let untold = sessions.not_followed.iter().map(|(name, _)| Peer::untold(name));
    peers::bounded(told.chain(untold).collect())
}

/// The pools by name, and those who are too many as one of each family.
fn pools(counted: &[PoolCounters]) -> Vec<Pool> {
    let mut pools: Vec<Pool> = Vec::new();
    for (at, counters) in counted.iter().enumerate() {
        let family = if counters.net.addr().is_ipv4() { "ipv4" } else { "ipv6" };
        let name = match at {
            at if at < MOST_POOLS => counters.net.to_string(),
            _ => "overflow".to_owned(),
        };
        let pool = Pool {
            name,
            family,
            size: counters.size as f64,
            held: counters.held,
            cooling: counters.cooling,
        };
        let same = |known: &&mut Pool| (&known.name, known.family) == (&pool.name, family);
        match pools.iter_mut().skip(MOST_POOLS).find(same) {
            Some(known) => {
                known.size += pool.size;
                known.held += pool.held;
                known.cooling += pool.cooling;
            }
            None => pools.push(pool),
        }
    }
    pools
}

impl Routes {
    /// Costs as much as is originated: networks, and pods that are announced by themselves.
    fn of(picture: &Picture<'_>) -> Self {
        let mut routes = Self::default();
        for prefix in picture.originated.keys() {
            let kind = if picture.rules.summaries.contains(prefix) {
                &mut routes.summaries
            } else if picture.claims.of(prefix).is_some_and(|holders| holders.is_own()) {
                &mut routes.pods
            } else {
                &mut routes.anycast
            };
            add(kind, prefix);
        }
        for (prefix, route) in picture.installed {
            add(
                match route {
                    NodeRoute::Blackhole { .. } => &mut routes.installed_summaries,
                    NodeRoute::Anycast { .. } => &mut routes.installed_anycast,
                },
                prefix,
            );
        }
        routes
    }
}

fn add(counts: &mut ByFamily, prefix: &IpNet) {
    let [four, six] = counts;
    *if prefix.addr().is_ipv4() { four } else { six } += 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_of_pods_without_number_are_summed_up() {
        let one = |number: usize, direction| {
            let pod = PodKey { namespace: "d".into(), name: format!("p{number:05}").into() };
            let dropped = Dropped { ifname: String::new(), direction, packets: 2, bytes: 100 };
            (pod, dropped)
        };
        let few =
            vec![one(1, Direction::Ingress), one(1, Direction::Egress), one(1, Direction::Egress)];
        let shown: Vec<_> = bounded(few).iter().map(|row| (row.direction, row.packets)).collect();
        assert_eq!(shown, [("egress", 4), ("ingress", 2)]);
        let many = (0..2 * MOST_PODS + 5).map(|n| one(n, Direction::Ingress)).collect();
        let shown = bounded(many);
        assert_eq!(shown.len(), 2 * MOST_PODS + 1);
        assert_eq!(shown.iter().find(|row| row.pod == "overflow").unwrap().packets, 10);
    }

    #[test]
    fn networks_without_number_are_summed_up() {
        let pool = |number: usize, family: &str| {
            let net = match family {
                "ipv4" => format!("10.{}.{}.0/24", number / 256, number % 256),
                _ => format!("2001:db8:{number:x}::/64"),
            };
            PoolCounters { net: net.parse().unwrap(), size: 253, held: 1, cooling: 2, elsewhere: 0 }
        };
        let few: Vec<_> = (0..MOST_POOLS).map(|number| pool(number, "ipv4")).collect();
        let shown = pools(&few);
        assert_eq!((shown.len(), shown[0].name.as_str()), (MOST_POOLS, "10.0.0.0/24"));
        let more = (0..5).map(|number| pool(number, "ipv6"));
        let many: Vec<_> = few.into_iter().chain(more).chain([pool(900, "ipv4")]).collect();
        let shown = pools(&many);
        let rest: Vec<_> =
            shown[MOST_POOLS..].iter().map(|p| (&*p.name, p.family, p.held)).collect();
        assert_eq!(rest, [("overflow", "ipv6", 5), ("overflow", "ipv4", 1)]);
    }
}
