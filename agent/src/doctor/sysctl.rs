//! The kernel's switches, against what packets of pods need. Pure: it is given a way to read them,
//! by their path below `/proc/sys`, and what the node looks like.

use super::mtu::Way;
use super::name::SYSCTL;
use crate::cli::check::Finding;

/// Reads a switch; `None` where the kernel has none of this name.
pub(super) type Read<'a> = &'a (dyn Fn(&str) -> Option<String> + Sync);

/// Entries of a neighbour table for a pod: the node's for it, and its own for the node. The kernel
/// counts those of all namespaces together.
const NEIGHBOURS_OF_A_POD: u64 = 2;
/// A table this full is worth a word: the node's own neighbours need room, too.
const NEARLY_FULL_PERCENT: u64 = 80;

/// What the node looks like.
pub(super) struct Facts<'a> {
    /// The NodeConfig has IPv6 networks or peers.
    pub(super) wants_ipv6: bool,
    /// The ways to peers.
    pub(super) ways: &'a [Way],
    /// The interface of the default route.
    pub(super) default: Option<&'a str>,
    /// Interfaces whose default route a router advertised.
    pub(super) advertised: &'a [String],
    /// How many pods there are.
    pub(super) pods: usize,
}

/// All switches.
pub(super) fn judge(read: Read<'_>, facts: &Facts<'_>) -> Vec<Finding> {
    let mut findings = forwarding(read);
    findings.extend(ipv6_on(read, facts.wants_ipv6));
    findings.extend(advertisements(read, facts.advertised));
    findings.extend(reverse_path(read, facts.ways, facts.default));
    findings.extend(neighbours(read, facts.pods));
    findings
}

fn forwarding(read: Read<'_>) -> Vec<Finding> {
    let mut wanted = vec!["net/ipv4/ip_forward", "net/ipv4/fib_multipath_hash_policy"];
    if read("net/ipv6/conf/all/forwarding").is_some() {
        wanted.extend(["net/ipv6/conf/all/forwarding", "net/ipv6/fib_multipath_hash_policy"]);
    }
    wanted.into_iter().map(|name| must_be(read, name, "1")).collect()
}

fn must_be(read: Read<'_>, name: &str, wanted: &str) -> Finding {
    let shown = shown(name);
    match read(name) {
        Some(value) if value == wanted => Finding::ok(SYSCTL, format!("{shown} = {wanted}")),
        Some(value) => Finding::fail(
            SYSCTL,
            format!("{shown} = {value}"),
            format!("sysctl -w {shown}={wanted}, and find out what changed it"),
        ),
        None => Finding::fail(
            SYSCTL,
            format!("{shown} is not there"),
            "use a kernel that has it, or let the agent see the node's /proc/sys",
        ),
    }
}

/// IPv6 that is switched off for all interfaces, or for those that come: pods' links do.
fn ipv6_on(read: Read<'_>, wants_ipv6: bool) -> Vec<Finding> {
    let off = |scope: &str| {
        let name = format!("net/ipv6/conf/{scope}/disable_ipv6");
        let value = read(&name)?;
        let shown = shown(&name);
        Some(match value.as_str() {
            "0" => Finding::ok(SYSCTL, format!("{shown} = 0")),
            _ if !wants_ipv6 => Finding::ok(
                SYSCTL,
                format!("{shown} = {value}, and the NodeConfig asks for no IPv6"),
            ),
            _ => Finding::fail(
                SYSCTL,
                format!("{shown} = {value}: IPv6 is switched off"),
                format!(
                    "sysctl -w {shown}=0, or take IPv6 out of the NodeConfig (spec.cidr6, peers)"
                ),
            ),
        })
    };
    ["all", "default"].into_iter().filter_map(off).collect()
}

/// A node that forwards hears router advertisements only where it is told to (`accept_ra=2`), and
/// its default route would run out.
fn advertisements(read: Read<'_>, advertised: &[String]) -> Vec<Finding> {
    let one = |interface: &String| {
        let name = format!("net/ipv6/conf/{interface}/accept_ra");
        let (value, shown) = (read(&name)?, shown(&name));
        Some(match value.as_str() {
            "2" => Finding::ok(SYSCTL, format!("{shown} = 2")),
            // systemd-networkd and others listen themselves, and keep the kernel from it.
            "0" => Finding::ok(SYSCTL, format!("{shown} = 0: another program hears the router")),
            _ => Finding::fail(
                SYSCTL,
                format!(
                    "{shown} = {value}: the default route by way of {interface} comes from a \
                     router and is not renewed while this node forwards"
                ),
                format!("sysctl -w {shown}=2, and find out what changed it"),
            ),
        })
    };
    advertised.iter().filter_map(one).collect()
}

/// Strict reverse-path filtering drops what comes in by another uplink than the answer takes, which
/// with several ToRs and with anycast is everyday.
fn reverse_path(read: Read<'_>, ways: &[Way], default: Option<&str>) -> Vec<Finding> {
    let mut uplinks: Vec<&str> = ways.iter().map(|way| way.interface.as_str()).collect();
    uplinks.extend(default);
    uplinks.sort_unstable();
    uplinks.dedup();
    let several = uplinks.len() > 1;
    let value = |scope: &str| {
        let name = format!("net/ipv4/conf/{scope}/rp_filter");
        read(&name)?.parse::<u8>().ok()
    };
    let one = |interface: &str| {
        // The kernel takes the larger of the two.
        let filter = value("all")?.max(value(interface)?);
        let shown = shown(&format!("net/ipv4/conf/{interface}/rp_filter"));
        Some(if filter == 1 && several {
            Finding::warn(
                SYSCTL,
                format!(
                    "{shown} = 1 (or that of all): packets that come in by {interface} are dropped \
                     where the way back leads by another of {}",
                    uplinks.join(", ")
                ),
                // The larger of the two counts, and 2 is loose.
                format!("sysctl -w {shown}=2"),
            )
        } else {
            Finding::ok(SYSCTL, format!("{shown} = {filter}"))
        })
    };
    uplinks.iter().filter_map(|interface| one(interface)).collect()
}

/// A full table drops packets to pods that were not spoken to lately.
fn neighbours(read: Read<'_>, pods: usize) -> Vec<Finding> {
    let need = u64::try_from(pods).unwrap_or(u64::MAX).saturating_mul(NEIGHBOURS_OF_A_POD);
    let one = |family: &str| {
        let name = format!("net/{family}/neigh/default/gc_thresh3");
        // Only the node's first namespace has it.
        let most: u64 = read(&name)?.parse().ok()?;
        let shown = shown(&name);
        Some(if need.saturating_mul(100) > most.saturating_mul(NEARLY_FULL_PERCENT) {
            let enough = (need * 2).max(4096).next_power_of_two();
            Finding::warn(
                SYSCTL,
                format!("{shown} = {most}, and {pods} pods may need {need} entries"),
                format!("sysctl -w {shown}={enough}"),
            )
        } else {
            Finding::ok(SYSCTL, format!("{shown} = {most}, enough for {pods} pods"))
        })
    };
    ["ipv4", "ipv6"].into_iter().filter_map(one).collect()
}

/// As `sysctl` takes it: with dots, unless an interface's name has some.
fn shown(name: &str) -> String {
    if name.contains('.') { name.to_owned() } else { name.replace('/', ".") }
}

/// Reads them from the kernel: those of the calling thread's namespace.
pub(super) fn from_kernel(name: &str) -> Option<String> {
    let text = std::fs::read_to_string(std::path::Path::new("/proc/sys").join(name)).ok()?;
    Some(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::cli::check::Status;

    const WELL: [(&str, &str); 13] = [
        ("net/ipv4/ip_forward", "1"),
        ("net/ipv4/fib_multipath_hash_policy", "1"),
        ("net/ipv6/conf/all/forwarding", "1"),
        ("net/ipv6/fib_multipath_hash_policy", "1"),
        ("net/ipv6/conf/all/disable_ipv6", "0"),
        ("net/ipv6/conf/default/disable_ipv6", "0"),
        ("net/ipv6/conf/eth0/accept_ra", "2"),
        ("net/ipv4/conf/all/rp_filter", "0"),
        ("net/ipv4/conf/eth0/rp_filter", "2"),
        ("net/ipv4/conf/eth1/rp_filter", "0"),
        ("net/ipv4/conf/eth0.5/rp_filter", "0"),
        ("net/ipv4/neigh/default/gc_thresh3", "1024"),
        ("net/ipv6/neigh/default/gc_thresh3", "1024"),
    ];

    fn way(interface: &str) -> Way {
        Way { peer: "tor".into(), interface: interface.into(), mtu: 1500, path: None }
    }

    const UPLINKS: &[&str] = &["eth0", "eth1", "eth0.5"];

    /// The findings that are not well, of these switches, the rest being as they should.
    fn bad(changed: &[(&str, &str)]) -> Vec<Finding> {
        bad_on(changed, true, UPLINKS, "eth0")
    }

    fn bad_on(
        changed: &[(&str, &str)],
        wants_ipv6: bool,
        uplinks: &[&str],
        default: &str,
    ) -> Vec<Finding> {
        let mut values: BTreeMap<&str, &str> = WELL.into_iter().collect();
        for (name, value) in changed {
            match *value {
                "-" => drop(values.remove(name)),
                value => drop(values.insert(name, value)),
            }
        }
        let ways: Vec<Way> = uplinks.iter().map(|uplink| way(uplink)).collect();
        let (default, advertised) = (Some(default), ["eth0".to_owned()]);
        let facts = Facts { wants_ipv6, ways: &ways, default, advertised: &advertised, pods: 100 };
        let read = |name: &str| values.get(name).map(|value| (*value).to_owned());
        let mut findings = judge(&read, &facts);
        findings.retain(|finding| finding.status != Status::Ok);
        findings
    }

    #[test]
    fn who_hears_the_router_is_told_apart() {
        let table = [("2", Status::Ok), ("0", Status::Ok), ("1", Status::Fail)];
        for (value, status) in table {
            let read = |_: &str| Some(value.to_owned());
            let found = advertisements(&read, &["eth0".to_owned()]);
            assert_eq!(found[0].status, status, "{value}: {found:?}");
        }
    }

    #[test]
    fn a_node_as_it_should_be_has_nothing_to_hear() {
        assert_eq!(bad(&[]), []);
    }

    #[test]
    fn each_switch_is_found_and_can_be_mended() {
        let strict = [("net/ipv4/conf/all/rp_filter", "1")];
        type Switches<'a> = &'a [(&'a str, &'a str)];
        let table: &[(Switches<'_>, Status, usize, &str, &str)] = &[
            (
                &[("net/ipv4/ip_forward", "0")],
                Status::Fail,
                1,
                "net.ipv4.ip_forward = 0",
                "sysctl -w net.ipv4.ip_forward=1",
            ),
            (
                &[("net/ipv4/fib_multipath_hash_policy", "-")],
                Status::Fail,
                1,
                "is not there",
                "kernel",
            ),
            (
                &[("net/ipv6/conf/all/forwarding", "0")],
                Status::Fail,
                1,
                "net.ipv6.conf.all.forwarding = 0",
                "sysctl -w net.ipv6.conf.all.forwarding=1",
            ),
            (
                &[("net/ipv6/conf/default/disable_ipv6", "1")],
                Status::Fail,
                1,
                "IPv6 is switched off",
                "net.ipv6.conf.default.disable_ipv6=0",
            ),
            (
                &[("net/ipv6/conf/eth0/accept_ra", "1")],
                Status::Fail,
                1,
                "is not renewed",
                "sysctl -w net.ipv6.conf.eth0.accept_ra=2",
            ),
            // eth0 is loose by itself, and the larger of the two counts.
            (&strict, Status::Warn, 2, "are dropped", "rp_filter=2"),
            (
                &[("net/ipv4/conf/eth0.5/rp_filter", "1")],
                Status::Warn,
                1,
                "net/ipv4/conf/eth0.5/rp_filter = 1",
                "net/ipv4/conf/eth0.5/rp_filter=2",
            ),
            (
                &[("net/ipv4/neigh/default/gc_thresh3", "128")],
                Status::Warn,
                1,
                "100 pods may need 200",
                "gc_thresh3=4096",
            ),
        ];
        for (changed, status, count, message, remedy) in table {
            let found = bad(changed);
            assert_eq!(found.len(), *count, "{changed:?}: {found:?}");
            for finding in found {
                assert_eq!(finding.status, *status, "{finding:?}");
                assert!(finding.message.contains(message), "{finding:?}");
                assert!(finding.remedy.contains(remedy), "{finding:?}");
            }
        }
    }

    #[test]
    fn what_does_not_matter_on_this_node_is_well() {
        let off = [("net/ipv6/conf/all/disable_ipv6", "1")];
        assert_eq!(bad_on(&off, false, UPLINKS, "eth0"), []);
        let strict = [("net/ipv4/conf/all/rp_filter", "1"), ("net/ipv4/conf/eth0/rp_filter", "1")];
        let found = bad_on(&strict, true, &["eth0"], "eth0");
        assert_eq!(found, [], "one uplink has no other way back");
        let found = bad_on(&strict, true, &["eth0"], "mgmt0");
        assert_eq!(found.len(), 1, "the way back may lead by mgmt0: {found:?}");
        let without_ipv6 = WELL.map(|(name, _)| name).into_iter().filter(|n| n.contains("ipv6"));
        let without_ipv6: Vec<_> = without_ipv6.map(|name| (name, "-")).collect();
        assert_eq!(bad(&without_ipv6), [], "that is a missing feature, told elsewhere");
    }
}
