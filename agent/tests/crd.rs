//! The definition of NodeConfig: what its schema refuses the agent refuses, what the agent accepts it
//! accepts, and an API server takes it. The accepted ones of `config.rs` and of the documents are held
//! against the schema there.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[allow(dead_code, reason = "not all of it is needed here")]
mod apiserver;

use flock_agent::config::parse;
use serde_json::Value;

fn with_spec(spec: &str) -> String {
    format!(
        "apiVersion: flock.fritzlab.net/v1alpha1\nkind: NodeConfig\nmetadata: {{name: a}}\nspec: {spec}\n"
    )
}

fn with_peer(more: &str) -> String {
    let peer = format!("name: t, address: 192.0.2.1, asn: 65000, {more}");
    with_spec(&format!("{{bgp: {{asn: 65001, peers: [{{{peer}}}]}}}}"))
}

/// Bounds, and ways to write that a stricter pattern would not take.
#[test]
fn what_the_agent_accepts_the_schema_accepts() {
    let list =
        |count: usize, of: fn(usize) -> String| (0..count).map(of).collect::<Vec<_>>().join(", ");
    let networks = list(1024, |n| format!("10.{}.{}.0/24", n / 256, n % 256));
    let communities = list(1024, |n| format!("'65001:{n}'"));
    let rules = list(1024, |n| format!("10.{}.{}.0/24", n / 256, n % 256));
    let peers = list(1024, |n| {
        format!("{{name: p{n}, address: 10.0.{}.{}, asn: internal}}", n / 128, n % 128 + 1)
    });
    let specs = [
        "{cidr6: [' 2001:db8::/64 ', \"2001:db8:1::/64\\u00a0\"], cidr4: [' 10.0.0.0/24']}".into(),
        "{cidr6: [], cidr4: [], defaults: {}, readiness: {}, mtu: 1280}".into(),
        "{mtu: 65535, readiness: {sessions: 4294967295, timeout: 1}}".into(),
        "{readiness: {sessions: 0, timeout: ' 1h'}}".into(),
        "{bgp: {asn: 1, peers: [{name: ' t ', interface: 'eth0', asn: external}]}}".into(),
        "{bgp: {asn: 4294967294, routerId: ' 255.255.255.255 ', listenPort: 0}}".into(),
        "{bgp: {asn: 1, listenPort: 65535, peers: [], communities: ['0:0', ' 4294967295:0:0 ']}}"
            .into(),
        "{bgp: {asn: 1, communities: [graceful-shutdown, blackhole, no-export, no-advertise, \
         no-export-subconfed, no-peer]}}"
            .into(),
        format!("{{cidr4: [{networks}], bgp: {{asn: 1, communities: [{communities}]}}}}"),
        format!("{{bgp: {{asn: 1, peers: [{peers}]}}}}"),
    ];
    let mut texts: Vec<String> = specs.iter().map(|spec| with_spec(spec)).collect();
    let peers = [
        "port: 1, multihop: 255, ttlSecurity: false".to_owned(),
        "port: 65535, ttlSecurity: true, role: rs-client".into(),
        "holdTime: '0', connectRetry: 100ms".into(),
        "holdTime: 0, connectRetry: 1h".into(),
        "holdTime: 18h 10min, keepalive: '6h 4m'".into(),
        "families: [ipv4-unicast], localAddress: ' 192.0.2.2'".into(),
        "gracefulRestart: {}, bfd: {multiplier: 255, interval: 60}".into(),
        "password: {secretRef: {name: a, key: b}}".into(),
        "password: {file: /}".into(),
        "import: {accept: [' ::/0  ge 1\tle 2 '], maxPrefixes: 4294967295}".into(),
        format!("import: {{accept: [{rules}]}}"),
        "export: {communities: [], localPref: 4294967295, med: 0, prepend: 32}".into(),
        "nextHop: {ipv6: ' 2001:db8::1', ipv4: '192.0.2.9 '}".into(),
        "nextHop: {}".into(),
    ];
    texts.extend(peers.iter().map(|more| with_peer(more)));
    for text in texts {
        parse(&text).unwrap_or_else(|error| panic!("{text}\n{error}"));
        apiserver::accepts(&text);
    }
}

#[test]
fn what_the_schema_refuses_the_agent_refuses() {
    let head = "apiVersion: flock.fritzlab.net/v1alpha1\nkind: NodeConfig\nmetadata: {name: a}\n";
    let one_more =
        |count: usize, of: fn(usize) -> String| (0..=count).map(of).collect::<Vec<_>>().join(", ");
    let networks = one_more(1024, |n| format!("10.{}.{}.0/24", n / 256, n % 256));
    let communities = one_more(1024, |n| format!("'65001:{n}'"));
    let rules = one_more(1024, |n| format!("10.{}.{}.0/24", n / 256, n % 256));
    let many = one_more(1024, |n| {
        format!("{{name: p{n}, address: 10.0.{}.{}, asn: 1}}", n / 128, n % 128 + 1)
    });
    let spec = |text: &str| with_spec(text);
    let table = [
        (head.to_owned(), "required"),
        (spec("{mtu: 1279}"), ".spec.mtu: 1279 breaks minimum"),
        (spec("{mtu: 65536}"), ".spec.mtu: 65536 breaks maximum"),
        (spec("{mtu: big}"), "breaks type"),
        (spec("{cidr6: [10.0.0.0/24]}"), ".spec.cidr6[0]: \"10.0.0.0/24\" breaks pattern"),
        (spec("{cidr4: ['2001:db8::/64']}"), ".spec.cidr4[0]"),
        (spec("{cidr4: [10.0.0.0]}"), ".spec.cidr4[0]"),
        (spec("{cidr4: 10.0.0.0/24}"), "breaks type"),
        (spec(&format!("{{cidr4: [{networks}]}}")), "breaks maxItems: 1024"),
        (spec("{defaults: {ipv6: maybe}}"), ".spec.defaults.ipv6"),
        (spec("{readiness: {sessions: -1}}"), "breaks minimum"),
        (spec("{readiness: {timeout: soon}}"), "breaks pattern"),
        (spec("{bgp: {}}"), ".spec.bgp: {} breaks required: [\"asn\"]"),
        (spec("{bgp: {asn: 0}}"), "breaks minimum"),
        (spec("{bgp: {asn: 4294967296}}"), "breaks maximum"),
        (spec("{bgp: {asn: 1, routerId: me}}"), "breaks pattern"),
        (spec("{bgp: {asn: 1, listenPort: 65536}}"), "breaks maximum"),
        (spec("{bgp: {asn: 1, communities: [none]}}"), "breaks pattern"),
        (spec("{bgp: {asn: 1, communities: ['1:2', '1:2']}}"), "breaks x-kubernetes-list-type"),
        (spec(&format!("{{bgp: {{asn: 1, communities: [{communities}]}}}}")), "maxItems: 1024"),
        (spec(&format!("{{bgp: {{asn: 1, peers: [{many}]}}}}")), "maxItems: 1024"),
        (spec("{bgp: {asn: 1, peers: [{address: 10.0.0.1, asn: 1}]}}"), "breaks required"),
        (spec("{bgp: {asn: 1, peers: [{name: a, address: 10.0.0.1}]}}"), "breaks required"),
        (spec("{bgp: {asn: 1, peers: [{name: a, asn: 1}]}}"), "breaks oneOf"),
        (
            spec(
                "{bgp: {asn: 1, peers: [{name: a, asn: 1, address: 10.0.0.1}, {name: a, asn: 1, address: 10.0.0.2}]}}",
            ),
            "breaks x-kubernetes-list-type: \"map\"",
        ),
        (spec("{bgp: {asn: 1, peers: [{name: '', asn: 1, address: 10.0.0.1}]}}"), "minLength"),
        (spec("{bgp: {asn: 1, peers: [{name: a, asn: 1, address: tor}]}}"), "breaks pattern"),
        (
            spec("{bgp: {asn: 1, peers: [{name: a, asn: ibgp, address: 10.0.0.1}]}}"),
            "breaks pattern",
        ),
        (spec("{bgp: {asn: 1, peers: [{name: a, asn: 1.5, address: 10.0.0.1}]}}"), "int-or-string"),
        (spec("{bgp: {asn: 1, peers: [{name: a, asn: 1, interface: a/b}]}}"), "breaks pattern"),
        (
            spec("{bgp: {asn: 1, peers: [{name: a, asn: 1, interface: abcdefghijklmnop}]}}"),
            "maxLength",
        ),
        (with_peer("interface: eth0"), "breaks oneOf"),
        (with_peer("port: 0"), "breaks minimum"),
        (with_peer("ttlSecurity: true, multihop: 4"), "breaks not"),
        (with_peer("multihop: 256"), "breaks maximum"),
        (with_peer("families: []"), "breaks minItems"),
        (with_peer("families: [ipv4]"), "breaks enum"),
        (with_peer("families: [ipv4-unicast, ipv4-unicast]"), "breaks x-kubernetes-list-type"),
        (with_peer("holdTime: -1"), "breaks minimum"),
        (with_peer("holdTime: true"), "int-or-string"),
        (with_peer("localAddress: me"), "breaks pattern"),
        (with_peer("password: {}"), "breaks oneOf"),
        (with_peer("password: {secretRef: {name: a, key: b}, file: /c}"), "breaks oneOf"),
        (with_peer("password: {secretRef: {name: a}}"), "breaks required"),
        (with_peer("password: {secretRef: {name: a, key: ''}}"), "breaks minLength"),
        (with_peer("password: {file: c}"), "breaks pattern"),
        (with_peer("password: hunter2"), "breaks type"),
        (with_peer("bfd: {multiplier: 0}"), "breaks minimum"),
        (with_peer("import: {accept: [all]}"), "breaks pattern"),
        (with_peer(&format!("import: {{accept: [{rules}]}}")), "breaks maxItems: 1024"),
        (with_peer("import: {maxPrefixes: 0}"), "breaks minimum"),
        (with_peer("export: {prepend: 33}"), "breaks maximum"),
        (with_peer("export: {med: -1}"), "breaks minimum"),
        (with_peer("role: tor"), "breaks enum"),
        (with_peer("nextHop: {ipv6: 192.0.2.9}"), "breaks pattern"),
        (with_peer("nextHop: {ipv4: '2001:db8::1'}"), "breaks pattern"),
    ];
    for (yaml, wanted) in table {
        let found = apiserver::complaints(&yaml);
        assert!(found.iter().any(|one| one.contains(wanted)), "{yaml}\nwanted {wanted}: {found:?}");
        assert!(parse(&yaml).is_err(), "only the API server refuses it: {yaml}");
    }
}

/// What "structural" means (KEP 1979), and what we add to it: nothing is `null`, nothing has a default,
/// every field has a sentence.
#[test]
fn the_schema_is_one_that_every_version_takes() {
    let schema = apiserver::schema();
    let mut fields = 0;
    walk(&schema, "", &mut fields);
    assert!(fields > 60, "only {fields}");
}

fn walk(schema: &Value, at: &str, fields: &mut usize) {
    let rules = schema.as_object().unwrap_or_else(|| panic!("{at}: {schema}"));
    for word in ["nullable", "default", "$ref", "additionalProperties", "uniqueItems", "const"] {
        assert!(!rules.contains_key(word), "{at}: {word}");
    }
    let either = rules.contains_key("x-kubernetes-int-or-string");
    assert!(either != rules.get("type").is_some_and(Value::is_string), "{at}: its type");
    if let Some(format) = rules.get("format") {
        assert!(["int64", "date-time"].contains(&format.as_str().unwrap()), "{at}: {format}");
    }
    assert_eq!(rules.contains_key("items"), rules.get("type") == Some(&"array".into()), "{at}");
    if let Some(items) = rules.get("items") {
        let kind =
            rules.get("x-kubernetes-list-type").unwrap_or_else(|| panic!("{at}: its list type"));
        if kind == "map" {
            for key in rules["x-kubernetes-list-map-keys"].as_array().unwrap() {
                assert!(items["required"].as_array().unwrap().contains(key), "{at}: {key}");
            }
        }
        walk(items, &format!("{at}[]"), fields);
    }
    // What stands in them says nothing new about types.
    for word in ["oneOf", "not"] {
        assert!(!rules.get(word).is_some_and(|rule| rule.to_string().contains("type\":")), "{at}");
    }
    for (key, inner) in rules.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let at = format!("{at}.{key}");
        let words = inner["description"].as_str().unwrap_or_default();
        let is_sentence = words.ends_with('.') && !words.contains(['`', '\n']);
        assert!(at == ".metadata" || is_sentence, "{at}: {words:?}");
        *fields += 1;
        walk(inner, &at, fields);
    }
}
