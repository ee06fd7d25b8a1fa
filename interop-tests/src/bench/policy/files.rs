//! Policies, pods and namespaces as the agent reads them, as many as are wanted.
//! Nothing here is ever allowed to reach the server but what the gate lets in, so
//! that one file decides about the probes whatever else is in force.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::{Value, json};

/// Whose probes pass while the gate is open.
pub const CLIENT: &str = "client";
/// Who is probed.
pub const SERVER: &str = "server";
/// Who is never let in, and what everybody is who has no part in it.
pub const STRANGER: &str = "stranger";
/// Namespaces, beside `default`, that the described pods are in.
const TEAMS: usize = 10;
/// Deployments in each of them, as it were.
const APPS: usize = 50;
/// A file may have 1,024 documents and a mebibyte.
const MOST_DOCUMENTS: usize = 1000;
const MOST: usize = 900 << 10;

/// Several documents in as few files as there have to be.
pub fn bundles(documents: impl IntoIterator<Item = Value>) -> Vec<String> {
    let mut files: Vec<(usize, String)> = Vec::new();
    for document in documents {
        let document = format!("---\n{document}\n");
        match files.last_mut() {
            Some((count, file))
                if *count < MOST_DOCUMENTS && file.len() + document.len() <= MOST =>
            {
                *count += 1;
                file.push_str(&document);
            }
            _ => files.push((1, document)),
        }
    }
    files.into_iter().map(|(_, file)| file).collect()
}

/// A pod with its label; addresses where it is not a pod of this node.
pub fn pod(namespace: &str, name: &str, app: &str, addresses: &[IpAddr]) -> Value {
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "namespace": namespace, "name": name, "labels": { "app": app } },
        "spec": { "containers": [{ "name": "main", "image": "example.org/main:1" }] },
    });
    let addresses: Vec<_> = addresses.iter().map(|address| json!({ "ip": address })).collect();
    if let (Some(pod), false) = (pod.as_object_mut(), addresses.is_empty()) {
        pod.insert("status".to_owned(), json!({ "phase": "Running", "podIPs": addresses }));
    }
    pod
}

/// The addresses of the described pod of this number.
pub fn addresses(number: u16) -> [IpAddr; 2] {
    let [high, low] = number.to_be_bytes();
    [
        Ipv4Addr::new(10, 100, high, low).into(),
        Ipv6Addr::new(0xfd00, 0x100, 0, 0, 0, 0, 0, number).into(),
    ]
}

/// Pods of other nodes, numbered from 1; twenty of each have the same labels.
pub fn described(count: u16) -> impl Iterator<Item = Value> {
    (1..=count).map(|number| {
        let (team, app) = (usize::from(number) % TEAMS, usize::from(number) / TEAMS % APPS);
        let name = format!("app-{app}-7d9f8c6b5-{number:05}");
        let mut pod = pod(&team_name(team), &name, &app_name(app), &addresses(number));
        if let Some(labels) = pod.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
            labels.insert("pod-template-hash".to_owned(), "7d9f8c6b5".into());
            labels.insert("tier".to_owned(), if app % 2 == 0 { "front" } else { "back" }.into());
        }
        pod
    })
}

/// The namespaces of those pods.
pub fn namespaces() -> impl Iterator<Item = Value> {
    (0..TEAMS).map(|team| {
        json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": { "name": team_name(team), "labels": { "team": team.to_string() } },
        })
    })
}

/// What isolates the server, and lets clients in while it is open.
pub fn gate(open: bool) -> Value {
    let clients = json!([{ "from": [selected(CLIENT)] }]);
    let ingress = if open { clients } else { json!([]) };
    policy("default", "gate", SERVER, "Ingress", "ingress", &ingress)
}

/// What isolates the client, so that both ends of a packet are looked at.
pub fn leash() -> Value {
    let servers = json!([{ "to": [selected(SERVER)] }]);
    policy("default", "leash", CLIENT, "Egress", "egress", &servers)
}

/// Others that are in force beside those two. One half selects the server, the
/// other half other pods; half of each has blocks, namespaces and ports.
pub fn others(count: usize) -> impl Iterator<Item = Value> {
    (0..count).map(|number| {
        let rich = number / 2 % 2 == 0;
        let ingress = if rich { rich_rules(number) } else { plain_rules(number) };
        let name = format!("other-{number}");
        let (namespace, whom) = match number % 4 {
            0 | 2 => ("default".to_owned(), SERVER.to_owned()),
            1 => ("default".to_owned(), STRANGER.to_owned()),
            _ => (team_name(number % TEAMS), app_name(number % APPS)),
        };
        policy(&namespace, &name, &whom, "Ingress", "ingress", &ingress)
    })
}

fn plain_rules(number: usize) -> Value {
    let apps = json!({ "matchLabels": { "app": app_name(number % APPS) } });
    json!([{ "from": [{ "namespaceSelector": {}, "podSelector": apps }] }])
}

fn rich_rules(number: usize) -> Value {
    let block = format!("172.{}.{}.0/24", 16 + number / 250 % 16, number % 250);
    let except = block.replace("0/24", "64/26");
    let apps = [number % APPS, (number + 7) % APPS].map(app_name);
    json!([{
        "from": [
            { "ipBlock": { "cidr": block, "except": [except] } },
            {
                "namespaceSelector": { "matchLabels": { "team": (number % TEAMS).to_string() } },
                "podSelector": {
                    "matchExpressions": [{ "key": "app", "operator": "In", "values": apps }],
                },
            },
        ],
        "ports": [
            { "protocol": "TCP", "port": 8000 + number },
            { "protocol": "UDP", "port": 20_000 + 8 * number, "endPort": 20_003 + 8 * number },
        ],
    }])
}

fn policy(ns: &str, name: &str, whom: &str, kind: &str, field: &str, rules: &Value) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": { "namespace": ns, "name": name },
        "spec": {
            "podSelector": { "matchLabels": { "app": whom } },
            "policyTypes": [kind],
            field: rules,
        },
    })
}

fn selected(app: &str) -> Value {
    json!({ "podSelector": { "matchLabels": { "app": app } } })
}

fn team_name(team: usize) -> String {
    format!("team-{team}")
}

fn app_name(app: usize) -> String {
    format!("app-{app}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_documents_are_few_files_that_are_not_too_long() {
        let files = bundles(described(10_000));
        let documents = |file: &String| file.matches("---\n").count();
        assert_eq!(files.len(), 10);
        assert!(files.iter().all(|file| file.len() < 1 << 20 && documents(file) <= 1024));
        assert_eq!(files.iter().map(documents).sum::<usize>(), 10_000);
    }

    #[test]
    fn one_half_of_the_others_selects_the_server() {
        let whom = |policy: &Value| {
            policy.pointer("/spec/podSelector/matchLabels/app").unwrap().as_str().unwrap() == SERVER
        };
        assert_eq!(others(500).filter(whom).count(), 250);
        let rich = |policy: &Value| policy.pointer("/spec/ingress/0/ports").is_some();
        assert_eq!(others(500).filter(|policy| whom(policy) && rich(policy)).count(), 125);
    }
}
