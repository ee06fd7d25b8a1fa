//! What the node was told: the NodeConfig, manifests, and how full its pools are. Pure.

use super::name::{API_SERVER, MANIFEST, NODE_CONFIG, POOL, SERVING};
use crate::cli::check::Finding;
use crate::ipam::PoolCounters;
use crate::source::{NodeState, Standing, World};

/// A pool this full is worth a word.
const NEARLY_FULL_PERCENT: u128 = 90;
/// A pool larger than this is not counted for people.
const PLENTY: u128 = 1 << 20;
/// So many manifests are named; more are counted.
const NAMED: usize = 20;

/// The NodeConfig, and what was overlooked in it.
pub(crate) fn node_config(node: &NodeState) -> Vec<Finding> {
    let config = match node {
        NodeState::Unknown { reason } => {
            return vec![Finding::fail(
                NODE_CONFIG,
                reason.clone(),
                "write a NodeConfig; until then no pod can be added",
            )];
        }
        NodeState::Known { standing: Standing::Refused(problem), .. } => {
            return vec![Finding::fail(
                NODE_CONFIG,
                format!("refused, the last good one stays in force: {problem}"),
                "mend what it names",
            )];
        }
        NodeState::Known { standing: Standing::Deleted, .. } => {
            return vec![Finding::fail(
                NODE_CONFIG,
                "deleted; pods are kept, new ones refused",
                "create it again",
            )];
        }
        NodeState::Known { config, .. } => config,
    };
    let mut findings = vec![Finding::ok(NODE_CONFIG, format!("{} in force", config.name))];
    findings.extend(config.warnings.iter().map(|warning| {
        Finding::warn(NODE_CONFIG, warning.clone(), "correct it in the NodeConfig")
    }));
    let peers = config.bgp.iter().flat_map(|bgp| &bgp.peers);
    findings.extend(peers.filter(|peer| peer.bfd.is_some()).map(|peer| {
        Finding::warn(
            NODE_CONFIG,
            format!("bfd of the peer {} is not part of this version", peer.name),
            "leave bfd out, and lower holdTime where a dead peer is to be noticed sooner",
        )
    }));
    findings
}

/// Where pods and NodeConfig are told of by an API server, whether it does.
pub(super) fn api_server(world: &World) -> Finding {
    match &world.away {
        Some(away) => Finding::warn(
            API_SERVER,
            format!("has not answered since {}: {}", away.since.strftime("%FT%TZ"), away.reason),
            "pods and routes go on from what was known; new pods wait until it is reached, and may \
             be served, again: network, its address, the agent's token and roles",
        ),
        None => Finding::ok(API_SERVER, format!("answers; pods known: {}", world.pods.len())),
    }
}

/// Manifests that cannot be used.
pub(super) fn manifests(world: &World) -> Vec<Finding> {
    let problems = world.problems.iter();
    let mut findings: Vec<Finding> = problems
        .take(NAMED)
        .map(|(file, problem)| {
            Finding::warn(
                MANIFEST,
                format!("{file}: {problem}"),
                "mend the file; what it said before stays in force",
            )
        })
        .collect();
    let more = world.problems.len().saturating_sub(NAMED);
    if more > 0 {
        let message = format!("{more} more manifests cannot be used");
        findings.push(Finding::warn(MANIFEST, message, "see the agent's log for each"));
    }
    if findings.is_empty() {
        findings.push(Finding::ok(MANIFEST, format!("pods known: {}", world.pods.len())));
    }
    findings
}

/// Whether a pod could be added now. Without a NodeConfig that has been said.
pub(super) fn serving(world: &World, refused: Option<String>) -> Option<Finding> {
    world.node.config()?;
    Some(match refused {
        None => Finding::ok(SERVING, "pods can be added"),
        Some(reason) => Finding::warn(
            SERVING,
            reason,
            "mend what it names, or wait for it: until then STATUS says no, and new pods wait",
        ),
    })
}

/// How full the pools are. They are used one after the other: a full one is no trouble while another
/// of its family has room.
pub(super) fn pools(counted: &[PoolCounters]) -> Vec<Finding> {
    let used = |pool: &PoolCounters| {
        [pool.held, pool.cooling, pool.elsewhere].map(u128::from).iter().sum::<u128>()
    };
    let nearly_full = |of: &PoolCounters| {
        let same = |pool: &&PoolCounters| pool.net.addr().is_ipv4() == of.net.addr().is_ipv4();
        let family = || counted.iter().filter(same);
        let used: u128 = family().map(used).sum();
        let size = family().fold(0_u128, |size, pool| size.saturating_add(pool.size));
        used.saturating_mul(100) >= size.saturating_mul(NEARLY_FULL_PERCENT)
    };
    let one = |pool: &PoolCounters| {
        let size = if pool.size > PLENTY { "plenty".into() } else { pool.size.to_string() };
        let found =
            format!("{}: {} held, {} cooling, of {size}", pool.net, pool.held, pool.cooling);
        if nearly_full(pool) {
            let remedy = "add a network to the NodeConfig (spec.cidr6, spec.cidr4)";
            Finding::warn(POOL, found, remedy)
        } else {
            Finding::ok(POOL, found)
        }
    };
    counted.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;
    use crate::cli::check::Status;
    use crate::config::parse;
    use crate::source::Pods;

    fn known(spec: &str, standing: Standing) -> NodeState {
        let text = format!(
            "apiVersion: flock.fritzlab.net/v1alpha1\nkind: NodeConfig\nmetadata: {{name: a}}\nspec: {spec}\n"
        );
        NodeState::Known { config: Arc::new(parse(&text).unwrap()), standing }
    }

    #[test]
    fn a_nodeconfig_and_its_standing() {
        let bfd = "{bgp: {asn: 65001, peers: [{name: t, address: 192.0.2.1, asn: 65000, bfd: {enabled: true}}]}}";
        let lonely = "{readiness: {sessions: 2}}";
        let table = [
            (known("{}", Standing::InForce), vec![Status::Ok], "a in force"),
            (known("{}", Standing::Deleted), vec![Status::Fail], "deleted"),
            (known("{}", Standing::Refused("spec.x".into())), vec![Status::Fail], "spec.x"),
            (NodeState::Unknown { reason: "not there".into() }, vec![Status::Fail], "not there"),
            (known(bfd, Standing::InForce), vec![Status::Ok, Status::Warn], "a in force"),
            (known(lonely, Standing::InForce), vec![Status::Ok, Status::Warn], "a in force"),
        ];
        for (node, statuses, words) in table {
            let found = node_config(&node);
            assert_eq!(found.iter().map(|f| f.status).collect::<Vec<_>>(), statuses, "{found:?}");
            assert!(found[0].message.contains(words), "{found:?}");
            assert!(found.iter().all(|f| (f.status == Status::Ok) == f.remedy.is_empty()));
        }
    }

    #[test]
    fn many_bad_manifests_are_named_up_to_a_bound() {
        let world = |bad: usize| World {
            node: NodeState::Unknown { reason: String::new() },
            pods: Pods::default(),
            secrets: Default::default(),
            object: None,
            away: None,
            problems: Arc::new(
                (0..bad).map(|n| (format!("pods/{n}"), "x".into())).collect::<BTreeMap<_, _>>(),
            ),
        };
        assert_eq!(manifests(&world(0))[0].status, Status::Ok);
        assert_eq!(api_server(&world(0)).status, Status::Ok);
        let away =
            crate::source::Away { since: jiff::Timestamp::UNIX_EPOCH, reason: "no way".into() };
        let found = api_server(&World { away: Some(away), ..world(0) });
        assert_eq!(found.status, Status::Warn);
        assert!(found.message.contains("since 1970-01-01T00:00:00Z: no way"), "{}", found.message);
        assert_eq!(manifests(&world(20)).len(), 20);
        let many = manifests(&world(1000));
        assert_eq!(many.len(), 21);
        assert!(many[20].message.starts_with("980 more"), "{many:?}");
        assert_eq!(serving(&world(0), Some("x".into())), None, "there is no NodeConfig");
    }

    #[test]
    fn a_pool_that_is_nearly_full_is_told() {
        let pool = |held, cooling, size| PoolCounters {
            net: "10.0.0.0/24".parse().unwrap(),
            held,
            cooling,
            size,
            elsewhere: 0,
        };
        let table = [
            (pool(0, 0, 253), Status::Ok),
            (pool(200, 27, 253), Status::Ok),
            (pool(200, 28, 253), Status::Warn),
            (pool(1, 0, 1), Status::Warn),
            (pool(5, 0, u128::MAX / 100), Status::Ok),
        ];
        for (pool, status) in table {
            let found = pools(&[pool]);
            assert_eq!(found[0].status, status, "{found:?}");
        }
        // One is used after the other: a full one is no trouble while the next has room.
        let found = pools(&[pool(13, 0, 13), pool(0, 0, 253)]);
        assert!(found.iter().all(|finding| finding.status == Status::Ok), "{found:?}");
        let found = pools(&[pool(13, 0, 13), pool(250, 0, 253)]);
        assert!(found.iter().all(|finding| finding.status == Status::Warn), "{found:?}");
    }
}
