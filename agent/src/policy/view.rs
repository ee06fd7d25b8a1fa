//! What people ask about policies: who is isolated by what, and what was dropped. Decides how it is put.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;

use flock_dataplane::policy::{Direction, Dropped};

use super::engine::Isolation;
use super::gate::Standing;
use super::model::{Policy, PolicyKey, Rule};
use super::task::View;
use crate::cli::policy::{
    PolicyPod, PolicyReport, PolicyRow, PolicyRule, PolicyShowArgs, PolicySide, PolicyState,
};
use crate::pods::Pods;
use crate::source::PodKey;

/// So many peers or ports of a rule are named; more are counted.
const NAMED: usize = 8;

/// How many pods are isolated, and what was dropped for whom since the rules were last made anew.
pub async fn dropped(pods: &Pods) -> (usize, Vec<(PodKey, Dropped)>) {
    if pods.gate.standing() == Standing::Idle {
        return Default::default();
    }
    let counted = pods.dataplane.policy_drops().await.unwrap_or_default();
    let name = |view: &View<'_>, dropped: Dropped| {
        let attached = view.attached.get(dropped.ifname.as_str())?;
        Some((attached.pod.clone(), dropped))
    };
    let named = pods
        .gate
        .ask(move |view| {
            let dropped = counted.into_iter().filter_map(|one| name(view, one)).collect();
            (view.engine.isolated(), dropped)
        })
        .await;
    named.unwrap_or_default()
}

/// `policy show`.
pub async fn report(pods: &Pods, args: PolicyShowArgs) -> Result<PolicyReport, String> {
    let standing = pods.gate.standing();
    // Without a table nothing was dropped.
    let counted = pods.dataplane.policy_drops().await.unwrap_or_default();
    let counted: HashMap<(String, Direction), Dropped> =
        counted.into_iter().map(|one| ((one.ifname.clone(), one.direction), one)).collect();
    let wanted = args.pod.map(|pod| pod.0);
    let look = move |view: &View<'_>| look(view, &standing, wanted.as_ref(), &counted);
    pods.gate.ask(look).await.ok_or_else(|| "the agent is stopping".to_owned())
}

fn look(
    view: &View<'_>,
    standing: &Standing,
    wanted: Option<&PodKey>,
    counted: &HashMap<(String, Direction), Dropped>,
) -> PolicyReport {
    let mut selected: BTreeMap<PolicyKey, usize> = BTreeMap::new();
    let mut pods = Vec::new();
    for (ifname, attached) in view.attached {
        let ways = [Direction::Ingress, Direction::Egress];
        let [ingress, egress] = ways.map(|way| view.engine.isolation(ifname, way));
        let mut both: Vec<&PolicyKey> = ingress.policies.iter().chain(&egress.policies).collect();
        both.sort_unstable();
        both.dedup();
        for key in both {
            *selected.entry(key.clone()).or_default() += 1;
        }
        if wanted.is_none_or(|wanted| *wanted == attached.pod) {
            let side = |way, isolation: &Isolation| {
                side(view, way, isolation, counted.get(&(ifname.to_string(), way)))
            };
            pods.push(PolicyPod {
                namespace: attached.pod.namespace.to_string(),
                name: attached.pod.name.to_string(),
                host_interface: ifname.to_string(),
                ingress: side(Direction::Ingress, &ingress),
                egress: side(Direction::Egress, &egress),
            });
        }
    }
    let order =
        |pod: &PolicyPod| (pod.namespace.clone(), pod.name.clone(), pod.host_interface.clone());
    pods.sort_by_cached_key(order);
    let (state, reason) = match standing {
        Standing::Idle => (PolicyState::None, None),
        Standing::InForce { .. } => (PolicyState::InForce, None),
        Standing::Waiting => {
            (PolicyState::Waiting, Some("Not everything was told since the agent started.".into()))
        }
        Standing::Failing(reason) => (PolicyState::Failing, Some(reason.clone())),
    };
    let policies = view.cluster.policies.in_order();
    PolicyReport {
        state,
        reason,
        policies: policies.values().map(|policy| listed(policy, &selected)).collect(),
        pods,
    }
}

fn listed(policy: &Policy, selected: &BTreeMap<PolicyKey, usize>) -> PolicyRow {
    let types = [("Ingress", &policy.ingress), ("Egress", &policy.egress)];
    let types = types.into_iter().filter(|(_, rules)| rules.is_some());
    PolicyRow {
        namespace: policy.key.namespace.to_string(),
        name: policy.key.name.to_string(),
        types: types.map(|(name, _)| name.to_owned()).collect(),
        pods: selected.get(&policy.key).copied().unwrap_or_default(),
    }
}

fn side(
    view: &View<'_>,
    direction: Direction,
    isolation: &Isolation,
    dropped: Option<&Dropped>,
) -> PolicySide {
    let policy = |key: &PolicyKey| view.cluster.policies.get(key);
    let rules = isolation.policies.iter().filter_map(policy).flat_map(|policy| {
        let rules: &[Rule] = match direction {
            Direction::Ingress => policy.ingress.as_deref(),
            Direction::Egress => policy.egress.as_deref(),
        }
        .unwrap_or_default();
        rules.iter().enumerate().map(|(number, rule)| PolicyRule {
            policy: policy.key.to_string(),
            rule: number,
            peers: words(rule.peers.as_deref(), " or ", "anybody"),
            ports: words(rule.ports.as_deref(), ", ", "everything"),
        })
    });
    PolicySide {
        isolated: isolation.profile.is_some(),
        policies: isolation.policies.iter().map(ToString::to_string).collect(),
        rules: rules.collect(),
        dropped_packets: dropped.map_or(0, |dropped| dropped.packets),
        dropped_bytes: dropped.map_or(0, |dropped| dropped.bytes),
    }
}

/// What a rule lists, in words; `None`: it lists nothing, and means this.
fn words<T: Display>(items: Option<&[T]>, between: &str, unsaid: &str) -> String {
    let Some(items) = items else { return unsaid.to_owned() };
    let more = items.len().saturating_sub(NAMED);
    let mut text =
        items.iter().take(NAMED).map(ToString::to_string).collect::<Vec<_>>().join(between);
    if more > 0 {
        text.push_str(&format!("{between}{more} more"));
    }
    text
}
