//! What the binary says about itself, to people and to runtimes.
//!
//! Decides the text of `--help` and `--version` and the answer to VERSION.

use std::ffi::OsStr;

use flock_cni::CniVersion;
use flock_cni::netconf::{DEFAULT_SOCKET, DEFAULT_SPOOL};
use serde_json::{Value, json};

use super::Role;

/// The text for a person, if this is one: `argument` is the first after the
/// binary's name.
pub(crate) fn asked_for(role: Role, argument: Option<&OsStr>, person: bool) -> Option<String> {
    match argument.and_then(OsStr::to_str) {
        Some("--version" | "-V") => Some(version_line(role)),
        Some("--help" | "-h") => Some(help(role)),
        _ if person => Some(help(role)),
        _ => None,
    }
}

/// The answer to VERSION.
pub(crate) fn versions() -> Value {
    json!({
        "cniVersion": CniVersion::NEWEST.as_str(),
        "supportedVersions": CniVersion::ALL.map(CniVersion::as_str),
    })
}

fn version_line(role: Role) -> String {
    let name = match role {
        Role::Flock => "flock",
        Role::Loopback => "loopback (flock)",
    };
    format!("{name} {}", env!("CARGO_PKG_VERSION"))
}

fn help(role: Role) -> String {
    let what = match role {
        Role::Flock => format!(
            "The CNI plugin of flock. A container runtime executes it; it hands each call\n\
             to flock-agent on this node, which does the work.\n\n\
             In the network config:\n  \
             \"type\": \"flock\"\n  \
             \"socket\": where flock-agent listens (default {DEFAULT_SOCKET})\n  \
             \"spool\":  where a DEL waits while it is away (default {DEFAULT_SPOOL})\n\n\
             To ask the agent something: flock-agent pods, flock-agent check"
        ),
        Role::Loopback => "The CNI plugin `loopback`, provided by flock: brings `lo` up inside a\n\
             container's network namespace. A container runtime executes it."
            .to_owned(),
    };
    let versions = CniVersion::ALL.map(CniVersion::as_str).join(", ");
    format!(
        "{}\n\n{what}\n\nCNI versions: {versions}\n\
         By hand: CNI_COMMAND=VERSION and the name of this binary",
        version_line(role)
    )
}
