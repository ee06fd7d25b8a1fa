//! As much of JSON Schema as the contracts in `docs/schemas/` use, to hold what
//! the commands really print against them. A word that it does not know is an
//! error, so that nothing is believed to be checked that is not.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// Words that say nothing about what is allowed.
const REMARKS: [&str; 5] = ["$schema", "title", "description", "format", "$defs"];

/// The contract of this name.
pub fn load(name: &str) -> Result<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/schemas");
    let path = folder.join(format!("{name}.json"));
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    Ok(serde_json::from_str(&text)?)
}

/// Fails where a value breaks its contract, or has a key that is not in it.
pub fn check(schema: &Value, value: &Value) -> Result<()> {
    allows(schema, schema, value)
}

fn allows(root: &Value, schema: &Value, value: &Value) -> Result<()> {
    let rules = schema.as_object().with_context(|| format!("no schema: {schema}"))?;
    for (word, rule) in rules.iter().filter(|(word, _)| !REMARKS.contains(&word.as_str())) {
        match word.as_str() {
            "$ref" => {
                let place = rule.as_str().and_then(|text| text.strip_prefix('#'));
                let there = place.and_then(|place| root.pointer(place));
                allows(root, there.with_context(|| format!("{rule} is not there"))?, value)?;
            }
            "type" => ensure!(has_type(rule, value), "{value} is not of type {rule}"),
            "const" => ensure!(rule == value, "{value} is not {rule}"),
            "enum" => {
                ensure!(list(rule)?.contains(value), "{value} is not one of {rule}");
            }
            "minimum" => {
                let below =
                    value.as_f64().zip(rule.as_f64()).is_some_and(|(value, least)| value < least);
                ensure!(!below, "{value} is less than {rule}");
            }
            "anyOf" | "oneOf" => {
                let fits = list(rule)?.iter().any(|one| allows(root, one, value).is_ok());
                ensure!(fits, "{value} is none of {rule}");
            }
            "items" => {
                for item in value.as_array().into_iter().flatten() {
                    allows(root, rule, item)?;
                }
            }
            // Keys that are not among `properties` are refused in any case.
            "additionalProperties" if *rule == Value::Bool(false) => {}
            "additionalProperties" => {
                ensure!(rules.get("properties").is_none(), "both are not known here");
                for (key, item) in value.as_object().into_iter().flatten() {
                    allows(root, rule, item).with_context(|| key.clone())?;
                }
            }
            "minLength" => {
                let length = value.as_str().and_then(|text| u64::try_from(text.len()).ok());
                ensure!(length >= rule.as_u64(), "{value} is shorter than {rule}");
            }
            "properties" => {
                for (key, item) in value.as_object().into_iter().flatten() {
                    let of_key = rule.get(key).with_context(|| format!("{key} is not in it"))?;
                    allows(root, of_key, item).with_context(|| key.clone())?;
                }
            }
            "required" => {
                for key in list(rule)? {
                    let there = key.as_str().is_some_and(|key| value.get(key).is_some());
                    ensure!(there, "{key} is missing from {value}");
                }
            }
            other => bail!("the word {other} is not known here"),
        }
    }
    Ok(())
}

fn list(rule: &Value) -> Result<&Vec<Value>> {
    rule.as_array().with_context(|| format!("not a list: {rule}"))
}

fn has_type(wanted: &Value, value: &Value) -> bool {
    let is = |name: &Value| match name.as_str().unwrap_or_default() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    };
    match wanted {
        Value::Array(names) => names.iter().any(is),
        name => is(name),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_contract_is_held_and_broken() {
        let schema = load("drain-status").unwrap();
        let good = json!({
            "state": "none", "since": null, "secondsLeft": null,
            "sessions": [{ "peer": "tor-a", "state": "Idle" }],
        });
        check(&schema, &good).unwrap();
        let table = [
            ("/state", json!("gone"), "none of"),
            ("/secondsLeft", json!(-1), "less than"),
            ("/secondsLeft", json!("12"), "not of type"),
            ("/sessions/0/state", json!("Up"), "none of"),
            ("/sessions/0", json!({ "peer": "tor-a" }), "\"state\" is missing"),
            ("/sessions/0", json!({ "peer": "a", "state": "Idle", "x": 1 }), "x is not in it"),
        ];
        for (place, value, words) in table {
            let mut bad = good.clone();
            *bad.pointer_mut(place).unwrap() = value;
            let why = format!("{:#}", check(&schema, &bad).unwrap_err());
            assert!(why.contains(words), "{place}: {why}");
        }
    }
}
