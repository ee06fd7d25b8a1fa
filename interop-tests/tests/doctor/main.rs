//! `flock-agent check`: each trouble is made for real, and the doctor finds it, says what to do and
//! exits accordingly. A healthy rack has nothing to hear.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on ends"
)]

mod bgp;
mod files;
mod kernel;
mod scene;
mod state;
