//! What a failed call tells the runtime: a CNI error code and words for people.
//!
//! Decides the codes (CNI spec, "Error codes"; 100 and above are ours) and the
//! JSON of an error. Leaves to the caller which of them a failure deserves: an
//! error type elsewhere in this crate says so with its `From` conversion.

use serde_json::{Map, Value};

/// The config asks for a CNI version that flock does not speak.
pub const INCOMPATIBLE_VERSION: u32 = 1;
/// The config carries a field whose value flock cannot honour.
pub const UNSUPPORTED_FIELD: u32 = 2;
/// The container is unknown; the runtime need not clean up after it.
pub const UNKNOWN_CONTAINER: u32 = 3;
/// A `CNI_*` environment variable is missing or makes no sense.
pub const INVALID_ENVIRONMENT: u32 = 4;
/// Reading or writing failed.
pub const IO_FAILURE: u32 = 5;
/// Bytes that should have been JSON of a certain shape were not.
pub const DECODE_FAILURE: u32 = 6;
/// The network config was decoded, and is wrong.
pub const INVALID_CONFIG: u32 = 7;
/// Nothing is wrong with the call: it may succeed when it is made again.
pub const TRY_AGAIN_LATER: u32 = 11;
/// STATUS: an ADD would fail now.
pub const NOT_AVAILABLE: u32 = 50;
/// STATUS: an ADD would fail now, and running containers may be cut off too.
pub const NOT_AVAILABLE_LIMITED: u32 = 51;
/// Ours: the fault is flock's own, or the agent gave no code.
pub const INTERNAL: u32 = 100;
/// Ours: CHECK found a difference between what was promised and what is.
pub const CHECK_FAILED: u32 = 101;

/// A failed CNI call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{msg}{}{details}", if details.is_empty() { "" } else { ": " })]
pub struct CniError {
    /// One of this module's codes, or the agent's own.
    pub code: u32,
    /// What failed, naming the field and the value.
    pub msg: String,
    /// What to do about it; may be empty.
    pub details: String,
}

impl CniError {
    /// An error without details.
    pub fn new(code: u32, msg: impl Into<String>) -> Self {
        Self { code, msg: msg.into(), details: String::new() }
    }

    /// The same error with a remedy or a longer explanation.
    #[must_use]
    pub fn with_details(mut self, details: impl Into<String>) -> Self {
        self.details = details.into();
        self
    }

    /// The JSON object that the spec wants on standard output. `cni_version` is
    /// the config's own text, echoed even where it is the very thing refused.
    #[must_use]
    pub fn to_value(&self, cni_version: &str) -> Value {
        let mut object = Map::new();
        object.insert("cniVersion".into(), cni_version.into());
        object.insert("code".into(), self.code.into());
        object.insert("msg".into(), self.msg.as_str().into());
        if !self.details.is_empty() {
            object.insert("details".into(), self.details.as_str().into());
        }
        Value::Object(object)
    }
}
