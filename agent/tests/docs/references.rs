//! The references of the NodeConfig and of annotations.

use std::collections::{BTreeMap, BTreeSet};

use flock_agent::annotations;
use flock_agent::config::{self, NodeConfig};
use serde_json::{Map, Value, json};

use super::markdown::quoted;
use super::{apiserver, read, rows};

/// The fields of the object at a place, found out by asking for one that cannot be: the parser
/// names those that it knows. `None`: what is there is no object.
fn fields(place: &[&str]) -> Option<Vec<String>> {
    let odd = json!({ "odd": null });
    let value = place.iter().rev().fold(odd, |inner, part| match part.strip_suffix("[]") {
        Some(name) => json!({ name: [inner] }),
        None => json!({ *part: inner }),
    });
    let mut object = complete(json!({}));
    for (key, value) in value.as_object().unwrap() {
        object[key] = value.clone();
    }
    let told = config::parse_object(&object).err()?.to_string();
    if place.last() == Some(&"password") {
        // It repeats no key that is written there, which may be a password; it tells what to write.
        let (_, remedy) = told.split_once("; write ")?;
        let keys = remedy.split_whitespace().filter_map(|word| word.strip_suffix(':'));
        return Some(keys.map(str::to_owned).collect());
    }
    let (_, known) = told.split_once("unknown field `odd`, expected ")?;
    Some(known.split('`').skip(1).step_by(2).map(str::to_owned).collect())
}

/// An object with everything that is required, and this `spec`.
fn complete(spec: Value) -> Value {
    json!({
        "apiVersion": "flock.fritzlab.net/v1alpha1",
        "kind": "NodeConfig",
        "metadata": { "name": "node-1" },
        "spec": spec,
    })
}

/// Every place below one, as the reference writes it.
fn places(below: &[&str], found: &mut BTreeSet<String>) {
    for field in fields(below).unwrap_or_default() {
        let list = format!("{field}[]");
        let inner = [field.as_str(), list.as_str()]
            .into_iter()
            .find(|name| fields(&[below, &[*name]].concat()).is_some());
        match inner {
            Some(name) => places(&[below, &[name]].concat(), found),
            None => drop(found.insert([below, &[field.as_str()]].concat().join("."))),
        }
    }
}

#[test]
fn every_field_of_the_nodeconfig_is_in_the_reference() {
    let page = read("docs/nodeconfig.md");
    let told: BTreeSet<&str> =
        rows(&page, "## Reference").into_iter().map(|(name, _)| name).collect();
    let mut found = BTreeSet::new();
    places(&["spec"], &mut found);
    assert!(found.len() > 35, "{found:?}");
    let missing: Vec<_> = found.iter().filter(|place| !told.contains(place.as_str())).collect();
    assert!(missing.is_empty(), "not in the reference: {missing:?}");
    // An object may have a row of its own beside those of its fields.
    let known = |name: &str| {
        let inside = [format!("{name}."), format!("{name}[]")];
        found.contains(name)
            || found.iter().any(|place| inside.iter().any(|start| place.starts_with(start)))
    };
    let strange: Vec<_> =
        told.iter().filter(|name| name.starts_with("spec") && !known(name)).collect();
    assert!(strange.is_empty(), "there are no such fields: {strange:?}");
}

/// Every place of the status, as the definition of the resource has it.
fn written(schema: &Value, at: &str, found: &mut BTreeSet<String>) {
    let inside = match &schema["items"] {
        // A condition is Kubernetes' own.
        items if items["properties"].is_object() && !at.ends_with("conditions") => {
            Some((items, format!("{at}[]")))
        }
        _ if schema["properties"].is_object() => Some((schema, at.to_owned())),
        _ => None,
    };
    let Some((object, at)) = inside else {
        found.insert(at.to_owned());
        return;
    };
    for (key, inner) in object["properties"].as_object().unwrap() {
        written(inner, &format!("{at}.{key}"), found);
    }
}

#[test]
fn every_field_of_the_status_is_in_the_reference() {
    let page = read("docs/nodeconfig.md");
    let rows = rows(&page, "## Status").into_iter().map(|(name, _)| name);
    let told: BTreeSet<&str> = rows.filter(|name| name.starts_with("status.")).collect();
    let mut found = BTreeSet::new();
    written(&apiserver::schema()["properties"]["status"], "status", &mut found);
    assert!(found.len() > 10, "{found:?}");
    assert_eq!(told, found.iter().map(String::as_str).collect());
}

#[test]
fn every_default_in_the_reference_is_the_agents_own() {
    let page = read("docs/nodeconfig.md");
    let mut checked = 0;
    for (name, cells) in rows(&page, "## Reference") {
        let Some(default) = cells[0].strip_prefix('`').and_then(|cell| cell.strip_suffix('`'))
        else {
            continue;
        };
        let value = serde_json::from_str(default).unwrap_or_else(|_| json!(default));
        let place = name.strip_prefix("spec.").unwrap_or_else(|| panic!("{name}"));
        let (plain, said) = (with(place, None), with(place, Some(value)));
        assert_eq!(plain, said, "{name} is not {default} when nothing is said");
        checked += 1;
    }
    assert!(checked > 15, "only {checked} defaults were found");
}

/// A small configuration, and with a field set to a value.
fn with(place: &str, value: Option<Value>) -> NodeConfig {
    let accept = json!(["::/0"]);
    let peer = json!({
        "name": "tor-a", "address": "2001:db8::1", "asn": 65000, "import": { "accept": accept },
    });
    let mut spec = json!({ "bgp": { "asn": 65001, "peers": [peer] } });
    // Others count only where this is on, or where that is not what the default is about.
    match place {
        "readiness.timeout" => spec["readiness"] = json!({ "sessions": 1 }),
        "bgp.peers" => spec["bgp"] = json!({ "asn": 65001 }),
        "bgp.peers[].import.accept" => {
            drop(spec["bgp"]["peers"][0].as_object_mut().unwrap().remove("import"));
        }
        _ if place.contains(".bfd.") => {
            spec["bgp"]["peers"][0]["bfd"] = json!({ "enabled": place.ends_with("l") });
        }
        _ => {}
    }
    if let Some(value) = value {
        let mut at = &mut spec;
        for part in place.split('.') {
            at = match part.strip_suffix("[]") {
                Some(name) => &mut at[name][0],
                None => {
                    if at.is_null() {
                        *at = Value::Object(Map::new());
                    }
                    &mut at[part]
                }
            };
        }
        *at = value;
    }
    config::parse_object(&complete(spec.clone())).unwrap_or_else(|error| panic!("{spec}: {error}"))
}

#[test]
fn every_annotation_is_in_the_reference() {
    let page = read("docs/annotations.md");
    let told: BTreeSet<&str> =
        rows(&page, "# Pod annotations").into_iter().map(|(name, _)| name).collect();
    let unknown = |name: &str| {
        let key = format!("{}{name}", annotations::PREFIX);
        let wishes = annotations::parse(&BTreeMap::from([(key, String::new())]));
        wishes.is_ok_and(|all| all.warnings.iter().any(|text| text.contains("no such annotation")))
    };
    let strange: Vec<_> = told.iter().filter(|name| unknown(name)).collect();
    assert!(strange.is_empty(), "there are no such annotations: {strange:?}");
    // The other way round there is nobody to ask but the source.
    let source = read("agent/src/annotations/parse.rs");
    let arms = source.lines().filter_map(|line| line.trim().strip_prefix('"')?.split_once("\" =>"));
    let arms = arms.filter(|(name, _)| !name.contains('"'));
    let known: BTreeSet<&str> = arms.map(|(name, _)| name).chain(["ready"]).collect();
    assert!(known.len() > 7, "{known:?}");
    assert_eq!(known, told);
    let short = read("README.md");
    let named: BTreeSet<&str> = quoted(&short).collect();
    let missing: Vec<_> =
        known.iter().filter(|name| **name != "ready" && !named.contains(*name)).collect();
    assert!(missing.is_empty(), "not in README.md: {missing:?}");
}
