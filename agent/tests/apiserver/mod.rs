//! What an API server would say of a NodeConfig, by the schema that it is given: as much of OpenAPI as
//! the definition uses. A word that is not known here fails, so that nothing is believed to be checked
//! that is not. Keys that the schema does not have are dropped by an API server, and passed over here.

use std::cell::RefCell;
use std::collections::BTreeMap;

use flock_agent::kubernetes::crd;
use regex::Regex;
use serde_json::Value;

/// The schema of the whole object.
pub(crate) fn schema() -> Value {
    let definition = crd::document().unwrap();
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

/// All complaints about a document, each with its place.
pub(crate) fn complaints(yaml: &str) -> Vec<String> {
    let mut object: Value = serde_saphyr::from_str(yaml).unwrap();
    // Another resource's, and not looked at when the object itself is written.
    object.as_object_mut().unwrap().remove("status");
    let mut found = Vec::new();
    check(&schema(), &object, "", &mut found);
    found
}

/// Fails where there are any.
pub(crate) fn accepts(yaml: &str) {
    let found = complaints(yaml);
    assert!(found.is_empty(), "the API server refuses it: {found:?}\n{yaml}");
}

fn check(schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    for (word, rule) in schema.as_object().unwrap() {
        if let Some(complaint) = broken(schema, word, rule, value) {
            found.push(format!("{at}: {complaint}"));
        }
        match word.as_str() {
            "properties" => {
                for (key, inner) in value.as_object().into_iter().flatten() {
                    if let Some(of_key) = rule.get(key) {
                        check(of_key, inner, &format!("{at}.{key}"), found);
                    }
                }
            }
            "items" => {
                for (i, inner) in value.as_array().into_iter().flatten().enumerate() {
                    check(rule, inner, &format!("{at}[{i}]"), found);
                }
            }
            _ => {}
        }
    }
}

fn holds(schema: &Value, value: &Value) -> bool {
    let mut found = Vec::new();
    check(schema, value, "", &mut found);
    found.is_empty()
}

/// Why one rule does not hold.
fn broken(schema: &Value, word: &str, rule: &Value, value: &Value) -> Option<String> {
    let text = value.as_str();
    let length = text.map(|text| text.chars().count() as u64);
    let count = value.as_array().map(|list| list.len() as u64);
    let number = value.as_f64();
    let kept = match word {
        "type" => has_type(rule.as_str().unwrap(), value),
        "enum" => rule.as_array().unwrap().contains(value),
        "minimum" => number.is_none_or(|number| number >= rule.as_f64().unwrap()),
        "maximum" => number.is_none_or(|number| number <= rule.as_f64().unwrap()),
        "minLength" => length.is_none_or(|length| length >= rule.as_u64().unwrap()),
        "maxLength" => length.is_none_or(|length| length <= rule.as_u64().unwrap()),
        "minItems" => count.is_none_or(|count| count >= rule.as_u64().unwrap()),
        "maxItems" => count.is_none_or(|count| count <= rule.as_u64().unwrap()),
        "pattern" => text.is_none_or(|text| matches(rule.as_str().unwrap(), text)),
        "required" => {
            let keys = rule.as_array().unwrap();
            keys.iter().all(|key| value.get(key.as_str().unwrap()).is_some())
        }
        "anyOf" => rule.as_array().unwrap().iter().any(|one| holds(one, value)),
        "oneOf" => {
            let fitting = rule.as_array().unwrap().iter().filter(|one| holds(one, value));
            fitting.count() == 1
        }
        "not" => !holds(rule, value),
        "x-kubernetes-list-type" => is_unique(schema, rule.as_str().unwrap(), value),
        "x-kubernetes-int-or-string" => value.is_i64() || value.is_string(),
        "description" | "format" | "properties" | "items" | "x-kubernetes-list-map-keys" => true,
        other => panic!("the word {other} is not known here"),
    };
    (!kept).then(|| format!("{value} breaks {word}: {rule}"))
}

fn matches(pattern: &str, text: &str) -> bool {
    thread_local! {
        static KNOWN: RefCell<BTreeMap<String, Regex>> = RefCell::default();
    }
    KNOWN.with_borrow_mut(|known| {
        let made = || Regex::new(pattern).unwrap();
        known.entry(pattern.to_owned()).or_insert_with(made).is_match(text)
    })
}

fn is_unique(schema: &Value, kind: &str, list: &Value) -> bool {
    let keys = schema["x-kubernetes-list-map-keys"].as_array();
    let identity = |item: &Value| match kind {
        "set" => Some(item.clone()),
        "map" => keys.unwrap().iter().map(|key| item.get(key.as_str().unwrap()).cloned()).collect(),
        "atomic" => None,
        other => panic!("a list of type {other}"),
    };
    let found: Vec<Value> = list.as_array().into_iter().flatten().filter_map(identity).collect();
    found.iter().enumerate().all(|(i, one)| found.iter().skip(i + 1).all(|other| one != other))
}

fn has_type(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "boolean" => value.is_boolean(),
        other => panic!("the type {other} is not known here"),
    }
}
