//! The agent may do what it needs and no more: the API server is asked what its service account may do,
//! beyond what every service account may, and the agents' logs have no refusal.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use rack::cluster::kubectl::Kubectl;
use serde_json::{Value, json};

use crate::flock;
use crate::stage::{Stage, text};

/// What is allowed everywhere: verb, group, resource.
const ANYWHERE: &[(&str, &str, &str)] = &[
    ("get", "flock.fritzlab.net", "nodeconfigs"),
    ("list", "flock.fritzlab.net", "nodeconfigs"),
    ("watch", "flock.fritzlab.net", "nodeconfigs"),
    ("patch", "flock.fritzlab.net", "nodeconfigs/status"),
    ("list", "", "pods"),
    ("watch", "", "pods"),
    ("list", "networking.k8s.io", "networkpolicies"),
    ("watch", "networking.k8s.io", "networkpolicies"),
    ("list", "", "namespaces"),
    ("watch", "", "namespaces"),
    ("get", "", "nodes"),
    ("list", "", "nodes"),
    ("watch", "", "nodes"),
    ("patch", "", "nodes/status"),
];

/// Beside that, in flock's own namespace: passwords.
const AT_HOME: &[(&str, &str, &str)] = &[("list", "", "secrets"), ("watch", "", "secrets")];

/// Beside that, where Events of objects without a namespace are kept.
const IN_DEFAULT: &[(&str, &str, &str)] = &[("create", "", "events"), ("patch", "", "events")];

pub(crate) fn play(stage: &mut Stage) -> Result<()> {
    if !stage.is_foreign() {
        stage.flock()?;
    }
    let kubectl = stage.kubectl()?;
    for (namespace, more) in
        [(flock::NAMESPACE, AT_HOME), ("default", IN_DEFAULT), ("kube-system", &[])]
    {
        let expected: BTreeSet<_> = ANYWHERE.iter().chain(more).map(words).collect();
        let everybody = allowed(kubectl, "system:serviceaccount:default:default", namespace)?;
        let agent = format!("system:serviceaccount:{}:flock", flock::NAMESPACE);
        let agent = allowed(kubectl, &agent, namespace)?;
        let own: BTreeSet<_> = agent.difference(&everybody).cloned().collect();
        let missing: Vec<_> = expected.difference(&own).collect();
        let beyond: Vec<_> = own.difference(&expected).collect();
        ensure!(
            missing.is_empty() && beyond.is_empty(),
            "in {namespace} it may not {missing:?}, and may {beyond:?} beyond what is expected"
        );
    }
    println!("     the agent may do what is listed, in three namespaces, and nothing else");
    for (node, pod) in flock::agents(kubectl)? {
        let words = ["-n", flock::NAMESPACE, "logs", &pod, "-c", "flock"];
        let log = kubectl.run(&words)?;
        ensure!(!log.is_empty(), "{node}: the agent says nothing at all");
        let log = log + &before(kubectl, &words)?;
        let refused: Vec<_> =
            log.lines().filter(|line| line.to_lowercase().contains("forbidden")).collect();
        ensure!(refused.is_empty(), "{node}: {refused:#?}");
    }
    println!("     and no agent was refused anything since the start before its last one");
    Ok(())
}

/// What an agent said before it was started again, where it was and its container is still there.
fn before(kubectl: &Kubectl, words: &[&str]) -> Result<String> {
    let words: Vec<_> = words.iter().copied().chain(["--previous"]).collect();
    match kubectl.run(&words) {
        Err(error) if format!("{error:#}").contains("previous terminated container") => {
            Ok(String::new())
        }
        said => said,
    }
}

fn words((verb, group, resource): &(&str, &str, &str)) -> String {
    format!("{verb} {resource}.{group}")
}

/// What a user may do in a namespace, each verb of each resource for itself.
fn allowed(kubectl: &Kubectl, user: &str, namespace: &str) -> Result<BTreeSet<String>> {
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview",
        "spec": { "namespace": namespace },
    });
    let as_user = format!("--as={user}");
    let arguments = ["create", "-f", "-", "-o", "json", &as_user];
    let answer: Value = serde_json::from_str(&kubectl.fed(&arguments, &review.to_string())?)?;
    ensure!(text(&answer, "/status/evaluationError").is_empty(), "{answer}");
    let rules = answer.pointer("/status/resourceRules").and_then(Value::as_array);
    let list = |rule: &Value, key: &str| -> Vec<String> {
        let all = rule.get(key).and_then(Value::as_array).into_iter().flatten();
        all.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut all = BTreeSet::new();
    for rule in rules.into_iter().flatten() {
        let names = list(rule, "resourceNames").join(",");
        let names = if names.is_empty() { names } else { format!(" {names}") };
        for verb in list(rule, "verbs") {
            for group in list(rule, "apiGroups") {
                for resource in list(rule, "resources") {
                    all.insert(format!("{verb} {resource}.{group}{names}"));
                }
            }
        }
    }
    Ok(all)
}
