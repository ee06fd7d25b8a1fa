//! The API's shape of a NetworkPolicy, as far as it is read. What of it is good is decided in the
//! room above; here everything may be missing, and what is new is left out.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `spec` of a NetworkPolicy. Written again it is what was read, without unknown fields.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicySpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pod_selector: Option<SelectorSpec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) policy_types: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ingress: Option<Vec<IngressSpec>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) egress: Option<Vec<EgressSpec>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct SelectorSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) match_labels: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) match_expressions: Option<Vec<RequirementSpec>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct RequirementSpec {
    pub(super) key: String,
    pub(super) operator: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) values: Option<Vec<String>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct IngressSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) from: Option<Vec<PeerSpec>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ports: Option<Vec<PortSpec>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct EgressSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) to: Option<Vec<PeerSpec>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ports: Option<Vec<PortSpec>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PeerSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pod_selector: Option<SelectorSpec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) namespace_selector: Option<SelectorSpec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ip_block: Option<BlockSpec>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct BlockSpec {
    pub(super) cidr: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) except: Option<Vec<String>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PortSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) protocol: Option<String>,
    /// A number or a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) port: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) end_port: Option<i64>,
}

/// A field that was written and not read: a slip of the pen that would open more than was meant
/// (`form:` in a rule is everybody). What was read is compared as it is written again.
pub(super) fn unread(written: &Value, read: &Value, path: &str) -> Option<String> {
    match (written, read) {
        (Value::Object(written), Value::Object(read)) => {
            written.iter().find_map(|(name, value)| {
                let path = format!("{path}.{name}");
                match read.get(name) {
                    Some(read) => unread(value, read, &path),
                    None if value.is_null() => None,
                    None => Some(path),
                }
            })
        }
        (Value::Array(written), Value::Array(read)) => {
            let both = written.iter().zip(read).enumerate();
            both.into_iter()
                .find_map(|(n, (written, read))| unread(written, read, &format!("{path}[{n}]")))
        }
        // A list where fields are expected would be read as their values, in an order that nobody knows.
        (Value::Array(_), Value::Object(_)) => Some(path.to_owned()),
        _ => None,
    }
}
