//! The request and the response on the CNI socket.
//!
//! Decides their JSON: one object and a newline each way, wire compatible with
//! the Go agent and plugin (`[]byte` is standard base64, `null` and absent and
//! empty are one, unknown keys are ignored). Leaves the socket itself to
//! [`crate::client`] on one side and to the agent's server on the other.

use base64::Engine as _;
use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::error::{CniError, DECODE_FAILURE, INTERNAL};
use crate::fields::{self, Fields, Mismatch};
use crate::result::CniResult;

/// Neither side reads more than this for one message, newline included.
pub const MAX_MESSAGE: usize = 1 << 20;

/// Attach a container.
pub const ADD: &str = "ADD";
/// Detach a container.
pub const DEL: &str = "DEL";
/// Compare an attachment with what was promised.
pub const CHECK: &str = "CHECK";
/// Detach everything that is not in the config's list of valid attachments.
pub const GC: &str = "GC";
/// Say whether ADD could be served.
pub const STATUS: &str = "STATUS";

/// One call of the plugin: the CNI environment and standard input.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Request {
    /// One of this module's operations.
    pub op: String,
    /// `CNI_CONTAINERID`; empty for GC and STATUS.
    pub container_id: String,
    /// `CNI_NETNS`; may be empty for DEL.
    pub netns: String,
    /// `CNI_IFNAME`
    pub ifname: String,
    /// `CNI_ARGS`, raw; [`crate::args`] reads it.
    pub args: String,
    /// `CNI_PATH`
    pub path: String,
    /// The network config, raw; [`crate::netconf`] reads it.
    #[serde(default, serialize_with = "to_base64", deserialize_with = "from_base64")]
    pub stdin_data: Vec<u8>,
}

/// The agent's answer: a result, or an error, or (for all but ADD) neither.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Response {
    /// What ADD made. On CHECK, what was recorded at ADD, where the agent tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<CniResult>,
    /// Why it failed. Its absence is success.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The CNI code of the failure; the Go agent gives none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<u32>,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<String>,
}

/// A message that is not what this module says. The text starts with `decode:`,
/// which the contract promises to whoever sent it.
#[derive(Debug, thiserror::Error)]
#[error("decode: {0}")]
pub struct DecodeError(String);

impl From<DecodeError> for CniError {
    fn from(error: DecodeError) -> Self {
        Self::new(DECODE_FAILURE, error.to_string())
    }
}

impl Request {
    /// Reads one message, with or without its newline.
    pub fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        fields::parse(message).and_then(|value| Self::read(&value)).map_err(DecodeError)
    }

    fn read(value: &Value) -> Result<Self, Mismatch> {
        let fields = Fields::of(value)?;
        let stdin_data = fields.text("stdin_data")?;
        Ok(Self {
            op: fields.text("op")?,
            container_id: fields.text("container_id")?,
            netns: fields.text("netns")?,
            ifname: fields.text("ifname")?,
            args: fields.text("args")?,
            path: fields.text("path")?,
            stdin_data: STANDARD.decode(stdin_data).map_err(|e| format!("stdin_data: {e}"))?,
        })
    }

    /// One message, newline included.
    pub fn encode(&self) -> Result<Vec<u8>, CniError> {
        line(self)
    }
}

impl Response {
    /// Success without a result: DEL, GC, STATUS, and CHECK.
    #[must_use]
    pub fn done() -> Self {
        Self::default()
    }

    /// Success with a result: ADD.
    #[must_use]
    pub fn attached(result: CniResult) -> Self {
        Self { result: Some(result), ..Self::default() }
    }

    /// Failure. A message that is empty would read as success, so it never is.
    #[must_use]
    pub fn failed(error: CniError) -> Self {
        let msg = if error.msg.is_empty() { format!("code {}", error.code) } else { error.msg };
        Self {
            result: None,
            error: Some(msg),
            code: Some(error.code),
            details: Some(error.details).filter(|details| !details.is_empty()),
        }
    }

    /// Reads one message, with or without its newline.
    pub fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        fields::parse(message).and_then(|value| Self::read(&value)).map_err(DecodeError)
    }

    fn read(value: &Value) -> Result<Self, Mismatch> {
        let fields = Fields::of(value)?;
        let result = fields.get("result").map(CniResult::read).transpose();
        Ok(Self {
            result: result.map_err(|reason| format!("result: {reason}"))?,
            error: fields.optional_text("error")?,
            code: fields.nonzero("code")?,
            details: fields.optional_text("details")?,
        })
    }

    /// One message, newline included.
    pub fn encode(&self) -> Result<Vec<u8>, CniError> {
        line(self)
    }

    /// What the answer means. A code or details without an error are noise.
    pub fn into_outcome(self) -> Result<Option<CniResult>, CniError> {
        let Some(msg) = self.error else {
            return Ok(self.result);
        };
        let details = self.details.unwrap_or_default();
        Err(CniError { code: self.code.unwrap_or(INTERNAL), msg, details })
    }
}

fn line(message: &impl Serialize) -> Result<Vec<u8>, CniError> {
    let mut bytes = serde_json::to_vec(message)
        .map_err(|error| CniError::new(INTERNAL, format!("encode: {error}")))?;
    bytes.push(b'\n');
    Ok(bytes)
}

fn to_base64<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&Base64Display::new(bytes, &STANDARD))
}
