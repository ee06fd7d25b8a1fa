//! What the kernel has to be able to do. Deciding is pure; looking changes nothing: a socket that
//! nobody uses, and files.

use std::path::Path;

use super::name::{ANTI_SPOOFING, FEATURE};
use crate::cli::check::Finding;

/// What was found.
pub(super) struct Facts {
    /// There are IPv6 switches.
    pub(super) ipv6: bool,
    /// The NodeConfig asks for IPv6.
    pub(super) wants_ipv6: bool,
    /// There is IPv4's switch of how flows are spread.
    pub(super) multipath: bool,
    /// `None`: it cannot be told.
    pub(super) veth: Option<bool>,
    /// Whether the rules are in place, or why that cannot be told.
    pub(super) rules: Result<bool, String>,
    /// `None`: no peer has a password.
    pub(super) md5: Option<Result<(), String>>,
}

/// All features.
pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    let mut findings = vec![anti_spoofing(&facts.rules)];
    findings.push(match (facts.ipv6, facts.wants_ipv6) {
        (true, _) => Finding::ok(FEATURE, "IPv6"),
        (false, false) => Finding::ok(FEATURE, "no IPv6, and the NodeConfig asks for none"),
        (false, true) => lacks("IPv6 (CONFIG_IPV6, or ipv6.disable=1 at boot)"),
    });
    findings.push(match facts.multipath {
        true => Finding::ok(FEATURE, "multipath routes"),
        false => lacks("IPv4 multipath routes (CONFIG_IP_ROUTE_MULTIPATH)"),
    });
    findings.push(match facts.veth {
        Some(true) => Finding::ok(FEATURE, "veth"),
        Some(false) => lacks("veth pairs (CONFIG_VETH)"),
        None => Finding::ok(FEATURE, "veth: cannot be told before the first pod"),
    });
    findings.extend(facts.md5.as_ref().map(|md5| match md5 {
        Ok(()) => Finding::ok(FEATURE, "TCP-MD5"),
        Err(error) => Finding::fail(
            FEATURE,
            format!("a peer has a password, and TCP-MD5 cannot be used: {error}"),
            "use a kernel with CONFIG_TCP_MD5SIG (and not in FIPS mode), or leave the password out \
             on both sides",
        ),
    }));
    findings
}

fn lacks(what: &str) -> Finding {
    let remedy = "use a kernel that has it, or load its module on the node";
    Finding::fail(FEATURE, format!("the kernel has no {what}"), remedy)
}

fn anti_spoofing(rules: &Result<bool, String>) -> Finding {
    match rules {
        Ok(true) => Finding::ok(ANTI_SPOOFING, "nftables table inet flock is in place"),
        Ok(false) => Finding::fail(
            ANTI_SPOOFING,
            "nftables table inet flock is missing or changed: pods can send from any address",
            "find out what changes nftables (a firewall's restart?) and let it leave the table inet \
             flock alone; a table that was flushed is put back within a second, one with foreign \
             rules by a restart of the agent",
        ),
        Err(error) => Finding::fail(
            ANTI_SPOOFING,
            error.clone(),
            "use a kernel with nf_tables and its fib expression (CONFIG_NFT_FIB_INET)",
        ),
    }
}

/// Whether the kernel makes veth pairs. Pods prove it; then its modules; where the node's are not
/// to be seen (a container), nobody can tell.
pub(super) fn veth(has_pods: bool, loaded: &Path, modules: &Path) -> Option<bool> {
    if has_pods || loaded.join("veth").exists() {
        return Some(true);
    }
    let lists = ["modules.builtin", "modules.dep"];
    let lists: Vec<String> =
        lists.iter().filter_map(|list| std::fs::read_to_string(modules.join(list)).ok()).collect();
    if lists.is_empty() {
        return None;
    }
    Some(lists.iter().any(|list| list.contains("/veth.ko")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::check::Status;

    fn well() -> Facts {
        Facts {
            ipv6: true,
            wants_ipv6: true,
            multipath: true,
            veth: Some(true),
            rules: Ok(true),
            md5: Some(Ok(())),
        }
    }

    #[test]
    fn what_is_missing_fails_only_where_it_is_needed() {
        type Change = fn(&mut Facts);
        let table: [(Change, Option<&str>); 9] = [
            (|_| {}, None),
            (|facts| (facts.ipv6, facts.wants_ipv6) = (false, false), None),
            (|facts| facts.veth = None, None),
            (|facts| facts.md5 = None, None),
            (|facts| facts.ipv6 = false, Some("no IPv6")),
            (|facts| facts.multipath = false, Some("multipath")),
            (|facts| facts.veth = Some(false), Some("veth")),
            (|facts| facts.rules = Ok(false), Some("inet flock is missing")),
            (|facts| facts.md5 = Some(Err("Protocol not available".into())), Some("TCP-MD5")),
        ];
        for (change, wanted) in table {
            let mut facts = well();
            change(&mut facts);
            let findings = judge(&facts);
            let bad: Vec<_> = findings.iter().filter(|f| f.status != Status::Ok).collect();
            assert_eq!(bad.len(), usize::from(wanted.is_some()), "{findings:?}");
            for finding in bad {
                assert!(finding.message.contains(wanted.unwrap()), "{finding:?}");
                assert!(finding.status == Status::Fail && !finding.remedy.is_empty());
            }
        }
    }

    #[test]
    fn veth_is_looked_for_where_modules_are() {
        let dir = tempfile::tempdir().unwrap();
        let (loaded, modules) = (dir.path().join("sys"), dir.path().join("lib"));
        assert_eq!(veth(true, &loaded, &modules), Some(true));
        assert_eq!(veth(false, &loaded, &modules), None, "no modules to be seen");
        std::fs::create_dir_all(&modules).unwrap();
        std::fs::write(modules.join("modules.builtin"), "kernel/net/ipv6/ipv6.ko\n").unwrap();
        assert_eq!(veth(false, &loaded, &modules), Some(false));
        std::fs::write(modules.join("modules.dep"), "kernel/drivers/net/veth.ko.xz:\n").unwrap();
        assert_eq!(veth(false, &loaded, &modules), Some(true));
    }
}
