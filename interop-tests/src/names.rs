//! Names that no other test, and no other run, can have: process id and a counter.
//!
//! The process id in the name also tells which run a namespace belongs to, so
//! that what a killed run left behind is found and removed by the next.

use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// What every name starts with.
pub const PREFIX: &str = "rack";

/// A name that is unique on this machine: `rack<pid>-<counter>-<role>`.
pub fn unique(role: &str) -> String {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    format!("{PREFIX}{}-{number}-{role}", process::id())
}

/// Whether a name was made by [`unique`] in a process that is no more.
pub fn is_orphan(name: &str) -> bool {
    name.strip_prefix(PREFIX)
        .and_then(|rest| rest.split_once('-'))
        .and_then(|(pid, _)| pid.parse::<u32>().ok())
        .is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists())
}

/// A container id such as a runtime would choose: 64 hexadecimal digits, here
/// computed from a unique name so that a log line leads back to it.
pub fn container_id(unique_name: &str) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut id = String::new();
    for round in 0_u8..4 {
        for byte in unique_name.bytes().chain([round]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        id.push_str(&format!("{hash:016x}"));
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_dead_processes_are_orphans() {
        assert!(!is_orphan(&unique("a")), "this process lives");
        assert!(is_orphan("rack4194304999-0-a"), "no such process id can exist");
        assert!(!is_orphan("cni-162948aa"));
        assert!(!is_orphan("rack-of-someone-else"));
    }

    #[test]
    fn container_ids_differ_and_look_like_a_runtime_made_them() {
        let (a, b) = (container_id("a"), container_id("b"));
        assert_ne!(a, b);
        assert_eq!(a.len(), 64);
        assert!(a.bytes().all(|byte| byte.is_ascii_hexdigit()));
    }
}
