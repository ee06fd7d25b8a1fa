//! What the host side of a pod's link is called, and which links are ours.
//!
//! Decides the name from the container id alone, so that it can be found
//! again without a record. Whether it is free is the kernel's to say.

const PREFIX: &str = "flock";
const DIGITS: usize = 8;

/// The kernel's IFNAMSIZ without the terminating zero.
const LONGEST: usize = 15;

/// The host interface's name: `flock` and eight hex digits of FNV-1a-32.
pub fn host_ifname(container_id: &str) -> String {
    host_ifname_nth(container_id, 0)
}

/// The name to try when two container ids hash alike: attempt 0 is
/// [`host_ifname`], each further one hashes the id and the attempt's number.
pub fn host_ifname_nth(container_id: &str, attempt: u32) -> String {
    let mut hash = fnv1a32(0x811c_9dc5, container_id.as_bytes());
    if attempt > 0 {
        hash = fnv1a32(hash, &attempt.to_be_bytes());
    }
    format!("{PREFIX}{hash:08x}")
}

fn fnv1a32(start: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(start, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// Whether a link of that name can be one that flock made.
pub(crate) fn is_host_ifname(name: &str) -> bool {
    name.strip_prefix(PREFIX).is_some_and(|digits| {
        digits.len() == DIGITS
            && digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    })
}

/// Whether the kernel would take it as an interface's name (dev_valid_name).
pub(crate) fn is_ifname(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= LONGEST
        && name != "."
        && name != ".."
        && !name.bytes().any(|b| b == b'/' || b == b':' || b == 0 || b.is_ascii_whitespace())
}
