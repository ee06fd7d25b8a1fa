//! Policies that nobody would write: everything that the API knows, thrown together by a seed. The same
//! seed makes the same policies, wherever and whenever.

use serde_json::{Map, Value, json};

use super::rig::PODS;

/// Namespaces, keys and values of the rig, and some that nobody has.
const NAMESPACES: [&str; 3] = ["front", "back", "ops"];
const LABELS: [(&str, &[&str]); 5] = [
    ("app", &["web", "db", "api", "dns", "probe", "nobody"]),
    ("tier", &["front", "back"]),
    ("version", &["v1", "v2"]),
    ("zone", &["a", "b"]),
    ("colour", &["red", "green"]),
];
const NAMESPACE_LABELS: [(&str, &[&str]); 4] = [
    ("team", &["web", "data", "nobody"]),
    ("env", &["prod", "test"]),
    ("open", &["", "yes"]),
    ("kubernetes.io/metadata.name", &["front", "back", "ops"]),
];
const BLOCKS: [&str; 12] = [
    "0.0.0.0/0",
    "::/0",
    "10.244.0.0/16",
    PODS[0][0],
    PODS[1][1],
    "2001:db8:a::/48",
    "203.0.113.0/24",
    "203.0.113.77/32",
    "2001:db8:f00d::/64",
    "2001:db8:f00d::77/128",
    "192.0.2.48/29",
    "198.18.0.0/15",
];

/// Numbers by a seed (splitmix64).
#[derive(Debug, Clone)]
pub struct Dice {
    state: u64,
}

impl Dice {
    /// Dice that always fall alike.
    pub fn new(seed: u64) -> Self {
        Self { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number below another.
    pub fn below(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit.max(1)).unwrap_or(1);
        usize::try_from(self.next() % limit).unwrap_or(0)
    }

    /// True so many times of a hundred.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of several.
    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        all.get(self.below(all.len()))
    }

    fn word(&mut self, all: &[&'static str]) -> &'static str {
        self.pick(all).copied().unwrap_or_default()
    }
}

/// A handful of policies.
pub fn policies(dice: &mut Dice) -> Vec<Value> {
    let count = 1 + dice.below(6);
    (0..count).map(|number| policy(dice, number)).collect()
}

/// One policy; its number is its name.
pub fn policy(dice: &mut Dice, number: usize) -> Value {
    let mut spec = Map::new();
    spec.insert("podSelector".to_owned(), selector(dice, &LABELS, 40));
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        if dice.chance(60) {
            let count = dice.below(4);
            let rules: Vec<_> = (0..count).map(|_| rule(dice, peers)).collect();
            spec.insert(direction.to_owned(), rules.into());
        }
    }
    if dice.chance(50) {
        let types: &[&[&str]] = &[&["Ingress"], &["Egress"], &["Ingress", "Egress"]];
        let types = dice.pick(types).copied().unwrap_or_default();
        spec.insert("policyTypes".to_owned(), json!(types));
    }
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": { "namespace": dice.word(&NAMESPACES), "name": format!("random-{number}") },
        "spec": spec,
    })
}

fn rule(dice: &mut Dice, peers_at: &str) -> Value {
    let mut rule = Map::new();
    if dice.chance(80) {
        let count = 1 + dice.below(3);
        rule.insert(peers_at.to_owned(), (0..count).map(|_| peer(dice)).collect());
    }
    if dice.chance(60) {
        let count = 1 + dice.below(3);
        rule.insert("ports".to_owned(), (0..count).map(|_| port(dice)).collect());
    }
    Value::Object(rule)
}

fn peer(dice: &mut Dice) -> Value {
    match dice.below(5) {
        0 => json!({ "podSelector": selector(dice, &LABELS, 25) }),
        1 => json!({ "namespaceSelector": selector(dice, &NAMESPACE_LABELS, 25) }),
        2 => json!({
            "podSelector": selector(dice, &LABELS, 25),
            "namespaceSelector": selector(dice, &NAMESPACE_LABELS, 25),
        }),
        3 => json!({ "ipBlock": { "cidr": dice.word(&BLOCKS) } }),
        _ => {
            let (cidr, except): (&str, Vec<&str>) = match dice.below(4) {
                0 => ("0.0.0.0/0", vec!["10.244.1.0/24", "203.0.113.64/26"]),
                1 => ("::/0", vec!["2001:db8:a:2::/64", "2001:db8:f00d::77/128"]),
                2 => ("203.0.113.0/24", vec!["203.0.113.77/32"]),
                _ => ("192.0.2.0/24", vec!["192.0.2.53/32", "192.0.2.51/32"]),
            };
            json!({ "ipBlock": { "cidr": cidr, "except": except } })
        }
    }
}

fn port(dice: &mut Dice) -> Value {
    let protocol = dice.word(&["TCP", "UDP", "SCTP", "TCP", "UDP"]);
    let mut port = match dice.below(6) {
        0 => json!({}),
        1 => json!({ "port": dice.word(&["http", "names", "names-tcp", "metrics", "nothing"]) }),
        2 => json!({ "port": 9000, "endPort": 9005 }),
        3 => json!({ "port": 1, "endPort": 1024 }),
        _ => {
            let numbers: [u16; 5] = [53, 80, 5353, 8080, 9005];
            json!({ "port": dice.pick(&numbers).copied().unwrap_or_default() })
        }
    };
    if let Some(port) = port.as_object_mut()
        && (protocol != "TCP" || dice.chance(50))
    {
        port.insert("protocol".to_owned(), protocol.into());
    }
    port
}

/// A selector; empty so many times of a hundred.
fn selector(dice: &mut Dice, labels: &[(&'static str, &[&'static str])], empty: usize) -> Value {
    if dice.chance(empty) {
        return json!({});
    }
    let Some((key, values)) = dice.pick(labels).copied() else { return json!({}) };
    let value = dice.word(values);
    if dice.chance(50) {
        return json!({ "matchLabels": { key: value } });
    }
    let other = dice.word(values);
    let mut some = vec![value];
    if other != value {
        some.push(other);
    }
    let expression = match dice.below(4) {
        0 => json!({ "key": key, "operator": "In", "values": some }),
        1 => json!({ "key": key, "operator": "NotIn", "values": some }),
        2 => json!({ "key": key, "operator": "Exists" }),
        _ => json!({ "key": key, "operator": "DoesNotExist" }),
    };
    json!({ "matchExpressions": [expression] })
}

/// Labels for a pod.
pub fn labels(dice: &mut Dice) -> Vec<(&'static str, &'static str)> {
    some_of(dice, &LABELS)
}

/// Labels for a namespace; its name is none that anybody may choose.
pub fn namespace_labels(dice: &mut Dice) -> Vec<(&'static str, &'static str)> {
    let mut labels = some_of(dice, &NAMESPACE_LABELS);
    labels.retain(|(key, _)| *key != "kubernetes.io/metadata.name");
    labels
}

fn some_of(
    dice: &mut Dice,
    all: &[(&'static str, &[&'static str])],
) -> Vec<(&'static str, &'static str)> {
    let mut chosen = Vec::new();
    for (key, values) in all {
        if dice.chance(50) {
            chosen.push((*key, dice.word(values)));
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_makes_the_same() {
        assert_eq!(policies(&mut Dice::new(7)), policies(&mut Dice::new(7)));
        assert_ne!(policies(&mut Dice::new(7)), policies(&mut Dice::new(8)));
    }

    #[test]
    fn everything_comes_up() {
        let all: String = (0..200)
            .flat_map(|seed| policies(&mut Dice::new(seed)))
            .map(|policy| policy.to_string())
            .collect();
        for word in [
            "ipBlock",
            "except",
            "endPort",
            "NotIn",
            "DoesNotExist",
            "\"Exists",
            "SCTP",
            "http",
            "namespaceSelector",
            "policyTypes",
            "\"egress\":[]",
            "::/0",
            "192.0.2.53/32",
        ] {
            assert!(all.contains(word), "{word} never comes up");
        }
    }
}
