//! Which names a runtime may use for containers, interfaces and networks.
//!
//! Decides as the CNI spec says ("Parameters", "Network configuration"), and as
//! libcni checks before it calls a plugin. Both sides of the socket call these:
//! a name that passed is safe inside a file name, which [`crate::spool`] needs.

use crate::error::{CniError, INVALID_CONFIG, INVALID_ENVIRONMENT};

/// Linux's IFNAMSIZ without the closing NUL.
const LONGEST_IFNAME: usize = 15;
/// Runtimes use 64 hexadecimal digits. The agent keeps every ID, and a spool
/// entry has to hold one.
pub const LONGEST_CONTAINER_ID: usize = 1024;
/// How much of a refused value an error repeats.
const SHOWN: usize = 64;

/// Letter or digit first, then letters, digits, `_`, `.` and `-`.
fn is_plain(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'))
}

fn shown(value: &str) -> String {
    let mut text: String = value.chars().take(SHOWN).collect();
    if text.len() < value.len() {
        text.push('…');
    }
    format!("{text:?}")
}

/// Checks a container ID (`CNI_CONTAINERID`).
pub fn check_container_id(id: &str) -> Result<(), CniError> {
    if id.len() > LONGEST_CONTAINER_ID {
        let msg = format!("CNI_CONTAINERID {} is not valid", shown(id));
        let reason = format!("it has {} bytes, and {LONGEST_CONTAINER_ID} are allowed", id.len());
        return Err(CniError::new(INVALID_ENVIRONMENT, msg).with_details(reason));
    }
    if is_plain(id) {
        return Ok(());
    }
    Err(CniError::new(INVALID_ENVIRONMENT, format!("CNI_CONTAINERID {} is not valid", shown(id)))
        .with_details("it starts with a letter or digit and has only those, '_', '.' and '-'"))
}

/// Checks the name of the interface inside the container (`CNI_IFNAME`).
pub fn check_ifname(name: &str) -> Result<(), CniError> {
    let reason = if name.is_empty() {
        "it is empty"
    } else if name.len() > LONGEST_IFNAME {
        "it is longer than 15 bytes"
    } else if name == "." || name == ".." {
        "it names a directory"
    } else if name.contains(|c: char| c == '/' || c == ':' || c == '\0' || c.is_whitespace()) {
        "it contains '/', ':', NUL or whitespace"
    } else {
        return Ok(());
    };
    Err(CniError::new(INVALID_ENVIRONMENT, format!("CNI_IFNAME {} is not valid", shown(name)))
        .with_details(reason))
}

/// Checks the network's `name` in a config.
pub fn check_network_name(name: &str) -> Result<(), CniError> {
    if is_plain(name) {
        return Ok(());
    }
    if name.is_empty() {
        return Err(CniError::new(INVALID_CONFIG, "the network config has no name"));
    }
    Err(CniError::new(INVALID_CONFIG, format!("network name {} is not valid", shown(name)))
        .with_details("it starts with a letter or digit and has only those, '_', '.' and '-'"))
}
