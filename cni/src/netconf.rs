//! The network config that a runtime gives on standard input.
//!
//! Decides what of it flock reads, the defaults, and what is refused. Unknown
//! keys belong to others (`runtimeConfig`, chained plugins) and are ignored.
//! Leaves to the agent what a valid config leads to.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::{CniError, DECODE_FAILURE, INVALID_CONFIG};
use crate::fields::{self, Fields};
use crate::names;
use crate::result::Dns;
use crate::version::CniVersion;

/// Where the agent listens unless the config says otherwise.
pub const DEFAULT_SOCKET: &str = "/run/flock/flock.sock";
/// Where a DEL waits for the agent unless the config says otherwise.
pub const DEFAULT_SPOOL: &str = "/var/lib/flock/spool";
/// A longer `cniVersion` is not echoed in errors.
const LONGEST_VERSION: usize = 32;

/// A network config that passed every check.
#[derive(Debug, Clone, PartialEq)]
pub struct NetConf {
    /// The version to answer in.
    pub cni_version: CniVersion,
    /// The network's name.
    pub name: String,
    /// The plugin's name, `type` in the config.
    pub plugin: String,
    /// To be passed through into the result.
    pub dns: Dns,
    /// The result so far (ADD), or of the whole chain (CHECK, DEL), unread.
    pub prev_result: Option<Value>,
    /// The agent's socket.
    pub socket: PathBuf,
    /// The directory for DELs that the agent did not hear.
    pub spool: PathBuf,
    /// For GC; None when the runtime did not say, which is not "none are valid".
    pub valid_attachments: Option<Vec<ValidAttachment>>,
}

/// An attachment that GC must leave alone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValidAttachment {
    /// The container's ID.
    pub container_id: String,
    /// The interface inside the container.
    pub ifname: String,
}

impl NetConf {
    /// Reads and checks standard input.
    pub fn parse(stdin: &[u8]) -> Result<Self, CniError> {
        let undecodable =
            |reason| CniError::new(DECODE_FAILURE, format!("network config: {reason}"));
        let value = fields::parse(stdin).map_err(undecodable)?;
        let fields = Fields::of(&value).map_err(undecodable)?;
        let text = |key| fields.optional_text(key).map_err(undecodable);
        let cni_version = CniVersion::parse(text("cniVersion")?.as_deref())?;
        let name = text("name")?.unwrap_or_default();
        names::check_network_name(&name)?;
        Ok(Self {
            cni_version,
            name,
            plugin: text("type")?.unwrap_or_default(),
            dns: Dns::read(fields).map_err(undecodable)?,
            prev_result: fields.get("prevResult").cloned(),
            socket: absolute("socket", text("socket")?, DEFAULT_SOCKET)?,
            spool: absolute("spool", text("spool")?, DEFAULT_SPOOL)?,
            valid_attachments: valid_attachments(fields)?,
        })
    }

    /// The list that GC goes by. Its absence (or `null`) is refused: taken for an
    /// empty list it would detach every container of the node.
    pub fn required_valid_attachments(&self) -> Result<&[ValidAttachment], CniError> {
        self.valid_attachments.as_deref().ok_or_else(|| {
            CniError::new(INVALID_CONFIG, "GC needs the list cni.dev/valid-attachments")
                .with_details("an empty list [] would detach everything; none was given")
        })
    }
}

/// The `cniVersion` of a config that was refused, so that the error can be
/// written in it; None where even that cannot be read.
#[must_use]
pub fn stated_version(stdin: &[u8]) -> Option<String> {
    let value = fields::parse(stdin).ok()?;
    let stated = Fields::of(&value).ok()?.optional_text("cniVersion").ok()??;
    (stated.len() <= LONGEST_VERSION).then_some(stated)
}

/// The spec's first printing called the key `cni.dev/attachments`; libcni sends
/// both. A garbled entry would make GC take a living container for a dead one.
fn valid_attachments(fields: Fields<'_>) -> Result<Option<Vec<ValidAttachment>>, CniError> {
    let keys = ["cni.dev/valid-attachments", "cni.dev/attachments"];
    let Some(key) = keys.into_iter().find(|key| fields.get(key).is_some()) else {
        return Ok(None);
    };
    let read = |item: &Value| {
        let fields = Fields::of(item)?;
        let missing = || "containerID or ifname is missing".to_owned();
        Ok(ValidAttachment {
            container_id: fields.optional_text("containerID")?.ok_or_else(missing)?,
            ifname: fields.optional_text("ifname")?.ok_or_else(missing)?,
        })
    };
    let refused = |reason| CniError::new(INVALID_CONFIG, format!("network config: {reason}"));
    fields.list(key, read).map(Some).map_err(refused)
}

fn absolute(key: &str, given: Option<String>, default: &str) -> Result<PathBuf, CniError> {
    let Some(path) = given else {
        return Ok(PathBuf::from(default));
    };
    if Path::new(&path).is_absolute() && !path.contains('\0') {
        return Ok(PathBuf::from(path));
    }
    Err(CniError::new(INVALID_CONFIG, format!("{key} {path:?} is not an absolute path")))
}
