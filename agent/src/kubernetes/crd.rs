//! The CustomResourceDefinition of NodeConfig, made from the types that are read (`config::schema`) and
//! written (`status`), so that there is one place for each field. What is made is checked in as
//! `deploy/kustomize/base/crd.yaml`.
//!
//! Decides how a schema of Rust types becomes one that an API server takes ("structural"): types are
//! inlined, nothing is `nullable`, nothing has a default (the agent's are its own, and a default in
//! etcd would outlive them). A key that the schema does not have is dropped by the API server, and every
//! usual way of writing says so or refuses it (`docs/decisions/0024-the-crd.md`).

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition, CustomResourceDefinitionNames,
    CustomResourceDefinitionSpec, CustomResourceDefinitionVersion, CustomResourceSubresourceStatus,
    CustomResourceSubresources, CustomResourceValidation, JSONSchemaProps,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ApiResource, GroupVersionKind};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::status::Status;
use crate::config::schema::Spec;

/// Whose resource it is.
pub const GROUP: &str = "flock.fritzlab.net";
/// The version that is served and stored.
pub const VERSION: &str = "v1alpha1";
/// Its kind.
pub const KIND: &str = "NodeConfig";
/// Its name in paths.
pub const PLURAL: &str = "nodeconfigs";

/// How the API server is asked for one.
pub fn resource() -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, VERSION, KIND), PLURAL)
}

/// The definition as it is written; fails only where a type has no schema that an API server could
/// take, which a test rules out.
pub fn document() -> Result<Value, serde_json::Error> {
    let mut document = serde_json::to_value(definition()?)?;
    whole_numbers(&mut document);
    Ok(document)
}

/// Bounds are floating-point numbers in Kubernetes' own types; ours are whole, and look so.
fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let whole = number.as_f64().and_then(|float| format!("{float:.0}").parse::<i64>().ok());
            if let Some(whole) = whole.filter(|_| number.is_f64()) {
                *value = whole.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(items) => items.values_mut().for_each(whole_numbers),
        _ => {}
    }
}

fn definition() -> Result<CustomResourceDefinition, serde_json::Error> {
    Ok(CustomResourceDefinition {
        metadata: ObjectMeta { name: Some(format!("{PLURAL}.{GROUP}")), ..ObjectMeta::default() },
        spec: CustomResourceDefinitionSpec {
            group: GROUP.to_owned(),
            names: CustomResourceDefinitionNames {
                kind: KIND.to_owned(),
                list_kind: Some(format!("{KIND}List")),
                plural: PLURAL.to_owned(),
                singular: Some("nodeconfig".to_owned()),
                short_names: Some(vec!["nc".to_owned()]),
                categories: Some(vec!["flock".to_owned()]),
            },
            scope: "Cluster".to_owned(),
            versions: vec![CustomResourceDefinitionVersion {
                name: VERSION.to_owned(),
                served: true,
                storage: true,
                schema: Some(CustomResourceValidation { open_api_v3_schema: Some(schema()?) }),
                subresources: Some(CustomResourceSubresources {
                    status: Some(CustomResourceSubresourceStatus(json!({}))),
                    ..CustomResourceSubresources::default()
                }),
                additional_printer_columns: Some(columns()),
                ..CustomResourceDefinitionVersion::default()
            }],
            ..CustomResourceDefinitionSpec::default()
        },
        status: None,
    })
}

/// What `kubectl get nodeconfigs` shows; those of priority 1 with `-o wide`.
fn columns() -> Vec<CustomResourceColumnDefinition> {
    let column = |name: &str, kind: &str, path: &str, priority: Option<i32>, words: &str| {
        CustomResourceColumnDefinition {
            name: name.to_owned(),
            type_: kind.to_owned(),
            json_path: path.to_owned(),
            description: Some(words.to_owned()),
            priority,
            format: None,
        }
    };
    let condition =
        |name: &str, what: &str| format!(".status.conditions[?(@.type==\"{name}\")].{what}");
    let reason = condition("Degraded", "reason");
    vec![
        column("ASN", "integer", ".spec.bgp.asn", None, "The node's AS number."),
        column("Peers", "string", ".status.sessions", None, "Sessions that are Established."),
        column("Ready", "string", &condition("Ready", "status"), None, "New pods are served."),
        column("Degraded", "string", &condition("Degraded", "status"), None, "Something is wrong."),
        column("Reason", "string", &reason, Some(1), "What is wrong."),
        column("Networks", "string", ".status.networks", Some(1), "Of the pods' addresses."),
        column("Age", "date", ".metadata.creationTimestamp", None, "Since it was created."),
    ]
}

fn schema() -> Result<JSONSchemaProps, serde_json::Error> {
    serde_json::from_value(json!({
        "type": "object",
        "description": "How one node's pods are addressed and how the node peers by BGP. It has the \
                        name of the node.",
        "required": ["spec"],
        "properties": {
            "apiVersion": { "type": "string", "description": format!("{GROUP}/{VERSION}.") },
            "kind": { "type": "string", "description": format!("{KIND}.") },
            "metadata": { "type": "object" },
            "spec": structural::<Spec>(),
            "status": structural::<Status>(),
        },
    }))
}

fn structural<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::openapi3().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
        // One that says which values may be `null`; here none may.
        settings.transforms.clear();
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    simplify(&mut schema);
    schema
}

/// What an API server does not take, or what says nothing, goes.
fn simplify(schema: &mut Value) {
    let Some(rules) = schema.as_object_mut() else { return };
    without_null(rules);
    as_enum(rules);
    for word in ["title", "default", "additionalProperties", "$schema", "$defs"] {
        rules.remove(word);
    }
    if let Some(Value::Array(types)) = rules.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            rules.insert("type".to_owned(), only);
        }
    }
    // Of Rust's widths; an API server has one.
    let known = ["date-time", "int64"];
    let format = rules.get("format").and_then(Value::as_str);
    if format.is_some_and(|format| !known.contains(&format)) {
        rules.remove("format");
    }
    if let Some(Value::String(text)) = rules.get_mut("description") {
        *text = text.replace('\n', " ");
    }
    if let Some(Value::Object(properties)) = rules.get_mut("properties") {
        properties.values_mut().for_each(simplify);
    }
    if let Some(items) = rules.get_mut("items") {
        simplify(items);
    }
}

/// `oneOf` constants is how an enum comes out whose words have a sentence each.
fn as_enum(rules: &mut Map<String, Value>) {
    let choices = rules.get("oneOf").and_then(Value::as_array);
    let words: Option<Vec<Value>> =
        choices.and_then(|all| all.iter().map(|choice| choice.get("const").cloned()).collect());
    if let Some(words) = words {
        rules.remove("oneOf");
        rules.insert("type".to_owned(), json!("string"));
        rules.insert("enum".to_owned(), Value::Array(words));
    }
}

/// `anyOf` something and null is how an option of a type with a schema of its own comes out; and its
/// description stands beside.
fn without_null(rules: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = rules.get_mut("anyOf") else { return };
    let before = choices.len();
    choices.retain(|choice| choice.get("type") != Some(&json!("null")));
    if choices.len() == before {
        return;
    }
    if let Some(Value::Array(mut choices)) = rules.remove("anyOf")
        && let Some(Value::Object(only)) = choices.pop()
    {
        for (word, rule) in only {
            rules.entry(word).or_insert(rule);
        }
    }
}
