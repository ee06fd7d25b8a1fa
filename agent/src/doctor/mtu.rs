//! Whether what pods send fits the ways out. Packets that are too large are lost without a word
//! where routers or firewalls keep the word to themselves. Pure.

use std::collections::BTreeMap;

use super::name::MTU;
use crate::cli::check::Finding;

/// The way to a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Way {
    /// Whose.
    pub(super) peer: String,
    /// By which interface.
    pub(super) interface: String,
    /// What the interface takes.
    pub(super) mtu: u32,
    /// What passes, where the kernel knows better.
    pub(super) path: Option<u32>,
}

/// What there is to compare.
pub(super) struct Facts<'a> {
    /// The ways to peers, in the order of the NodeConfig.
    pub(super) ways: &'a [Way],
    /// Peers that no route leads to.
    pub(super) unreachable: &'a [String],
    /// The default route's interface and its MTU.
    pub(super) default: Option<(&'a str, u32)>,
    /// `spec.mtu`.
    pub(super) configured: Option<u32>,
    /// The MTU of each pod.
    pub(super) pods: &'a [u32],
}

/// All that is to be said about it.
pub(super) fn judge(facts: &Facts<'_>) -> Vec<Finding> {
    let mut findings: Vec<Finding> = facts.unreachable.iter().map(|peer| no_way(peer)).collect();
    findings.extend(facts.ways.iter().filter_map(narrow));
    let uplinks = uplinks(facts);
    if uplinks.is_empty() {
        findings.push(Finding::warn(
            MTU,
            "there is no default route and no way to a peer",
            "add a default route, or peers that announce one (spec.bgp.peers, import.accept); \
             until then pods reach only this node and its own networks",
        ));
        return findings;
    }
    let smallest = uplinks.iter().min_by_key(|(_, mtu)| **mtu);
    let Some((name, least)) = smallest.map(|(name, mtu)| (*name, *mtu)) else { return findings };
    if let Some(configured) = facts.configured.filter(|configured| *configured > least) {
        findings.push(Finding::warn(
            MTU,
            format!("spec.mtu {configured} is larger than the {least} of {name}"),
            format!(
                "set spec.mtu of the NodeConfig to {least}, or raise the MTU of {name} and of \
                 whatever it is plugged into"
            ),
        ));
    }
    let larger = facts.pods.iter().filter(|mtu| **mtu > least).count();
    if larger > 0 {
        findings.push(Finding::warn(
            MTU,
            format!("{larger} pod(s) have a larger MTU than the {least} of {name}"),
            format!(
                "set spec.mtu of the NodeConfig to {least}, and start these pods again: a pod \
                 keeps the MTU that it was born with"
            ),
        ));
    }
    if findings.is_empty() {
        let each: Vec<String> = uplinks.iter().map(|(name, mtu)| format!("{name} {mtu}")).collect();
        findings.push(Finding::ok(MTU, format!("pods fit all uplinks: {}", each.join(", "))));
    }
    findings
}

/// The interfaces that pods' packets leave by.
fn uplinks<'a>(facts: &Facts<'a>) -> BTreeMap<&'a str, u32> {
    let ways = facts.ways.iter().map(|way| (way.interface.as_str(), way.mtu));
    ways.chain(facts.default).collect()
}

fn no_way(peer: &str) -> Finding {
    Finding::warn(
        MTU,
        format!("no route leads to the peer {peer}"),
        "give the node an address on the peer's network, or a route to it",
    )
}

fn narrow(way: &Way) -> Option<Finding> {
    let path = way.path.filter(|path| *path < way.mtu)?;
    Some(Finding::warn(
        MTU,
        format!(
            "only {path} bytes pass on the way to {}, and its interface {} takes {}",
            way.peer, way.interface, way.mtu
        ),
        format!(
            "raise the MTU between this node and {}, or set spec.mtu of the NodeConfig and the MTU \
             of {} to {path}; `ip route get` shows whether it was learned or set",
            way.peer, way.interface
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::check::Status;

    #[test]
    fn what_does_not_fit_is_told() {
        let way = |interface: &str, mtu, path| Way {
            peer: "tor-a".into(),
            interface: interface.into(),
            mtu,
            path,
        };
        let two = [way("eth0", 9000, None), way("eth1", 1500, None)];
        let narrow = [way("eth0", 1500, Some(1400))];
        let wide = [way("eth0", 1500, Some(1500))];
        let gone = ["tor-b".to_owned()];
        let none: &[Way] = &[];
        let facts = |ways, unreachable, default, configured, pods| Facts {
            ways,
            unreachable,
            default,
            configured,
            pods,
        };
        let table = [
            (facts(&two, &[], None, None, &[1500]), vec![]),
            (facts(&two, &[], None, Some(1500), &[1500, 1400]), vec![]),
            (facts(&two, &[], Some(("mgmt0", 1500)), None, &[]), vec![]),
            (facts(none, &[], Some(("eth0", 1500)), None, &[1500]), vec![]),
            (facts(&wide, &[], None, None, &[]), vec![]),
            (
                facts(&two, &[], None, Some(9000), &[]),
                vec!["spec.mtu 9000 is larger than the 1500 of eth1"],
            ),
            (
                facts(&two, &[], None, None, &[9000, 9000, 1500]),
                vec!["2 pod(s) have a larger MTU than the 1500 of eth1"],
            ),
            (
                facts(&wide, &[], Some(("eth9", 1280)), None, &[1500]),
                vec!["1 pod(s) have a larger MTU than the 1280 of eth9"],
            ),
            (facts(&narrow, &[], None, None, &[1500]), vec!["only 1400 bytes pass"]),
            (facts(&two, &gone, None, None, &[]), vec!["no route leads to the peer tor-b"]),
            (
                facts(none, &[], None, Some(1500), &[]),
                vec!["no default route and no way to a peer"],
            ),
        ];
        for (facts, wanted) in table {
            let findings = judge(&facts);
            assert!(!findings.is_empty());
            let bad: Vec<_> = findings.iter().filter(|f| f.status != Status::Ok).collect();
            assert_eq!(bad.len(), wanted.len(), "{findings:?}");
            for (finding, words) in bad.iter().zip(wanted) {
                assert!(finding.message.contains(words), "{finding:?}");
                assert!(finding.status == Status::Warn && !finding.remedy.is_empty());
            }
        }
    }
}
