//! Tokio sockets and one timer around `flock-bgp`. It moves bytes and has no protocol `if`.
//!
//! A place so far: the speaker comes with its own issue. It does not depend on `flock-bgp-wire`,
//! so that it cannot see a message.
