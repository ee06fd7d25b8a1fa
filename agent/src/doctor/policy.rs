//! Network policies: whether the kernel holds pods to them, and policies that cannot be used. Pure.

use std::collections::BTreeMap;

use super::name::POLICY;
use crate::cli::check::Finding;
use crate::policy::Standing;

/// So many are named; more are counted.
const NAMED: usize = 20;

/// What is known, and what the kernel has: `present` is whether it has our rules as they should be.
pub(super) fn judge(
    standing: &Standing,
    problems: &BTreeMap<String, String>,
    present: Result<bool, String>,
    young: bool,
) -> Vec<Finding> {
    let mut findings = vec![match standing {
        Standing::Idle => Finding::ok(POLICY, "there is none: every pod is open"),
        Standing::Waiting if young => Finding::ok(POLICY, "not all are told yet"),
        Standing::Waiting => Finding::warn(
            POLICY,
            "not everything was told since the start: what was in force stays, new pods that a \
             policy isolates are closed",
            "see why the API server does not tell of networkpolicies, namespaces and pods: the \
             agent's log, its roles",
        ),
        Standing::Failing(reason) => Finding::fail(
            POLICY,
            format!("cannot be put in force, what was in force stays: {reason}"),
            "mend what it names; it is tried again every few seconds",
        ),
        Standing::InForce { policies, isolated, .. } => match present {
            Ok(true) => Finding::ok(
                POLICY,
                format!("{policies} in force; isolated pods of this node: {isolated}"),
            ),
            Ok(false) => Finding::fail(
                POLICY,
                "the table inet flock-policy is not as it should be",
                "it is put back by itself within seconds; find who changes it where that lasts",
            ),
            Err(error) => Finding::warn(POLICY, error, "see the agent's log"),
        },
    }];
    if let Standing::InForce { crowded, .. } = standing {
        findings.extend(crowded.iter().map(|namespace| {
            Finding::warn(
                POLICY,
                format!("namespace {namespace}: too many overlapping blocks; its rules by ipBlock allow nobody"),
                "write fewer rules with ipBlock there, or larger blocks",
            )
        }));
    }
    findings.extend(problems.iter().take(NAMED).map(|(place, problem)| {
        let remedy = "mend it; what it said before stays in force";
        Finding::warn(POLICY, format!("{place}: {problem}"), remedy)
    }));
    let more = problems.len().saturating_sub(NAMED);
    if more > 0 {
        let message = format!("{more} more cannot be used");
        findings.push(Finding::warn(POLICY, message, "see the agent's log for each"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::check::Status;

    #[test]
    fn how_policies_stand() {
        let none = BTreeMap::new();
        let in_force = Standing::InForce { policies: 2, isolated: 1, crowded: vec![] };
        let table = [
            (Standing::Idle, Ok(false), false, Status::Ok, "there is none"),
            (Standing::Waiting, Ok(false), true, Status::Ok, "not all"),
            (Standing::Waiting, Ok(false), false, Status::Warn, "not everything"),
            (Standing::Failing("no room".into()), Ok(true), false, Status::Fail, "no room"),
            (in_force.clone(), Ok(true), false, Status::Ok, "2 in force"),
            (in_force.clone(), Ok(false), false, Status::Fail, "flock-policy"),
            (in_force, Err("x".into()), false, Status::Warn, "x"),
        ];
        for (standing, present, young, status, words) in table {
            let found = judge(&standing, &none, present, young);
            assert_eq!((found.len(), found[0].status), (1, status), "{found:?}");
            assert!(found[0].message.contains(words), "{found:?}");
            assert_eq!(found[0].remedy.is_empty(), status == Status::Ok);
        }
        let crowded =
            Standing::InForce { policies: 1, isolated: 0, crowded: vec!["greedy".into()] };
        let found = judge(&crowded, &none, Ok(true), false);
        assert!(found[1].message.starts_with("namespace greedy: too many"), "{found:?}");
        let many = (0..30).map(|n| (format!("networkpolicies/{n:02}"), "bad".into())).collect();
        let found = judge(&Standing::Idle, &many, Ok(false), false);
        assert_eq!(found.len(), 22);
        assert!(found[21].message.starts_with("10 more"));
    }
}
