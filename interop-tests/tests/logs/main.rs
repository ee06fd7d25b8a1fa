//! The agent's log: what it says, what it never says, how it is steered, and that nobody can forge,
//! colour or flood it.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on ends"
)]

mod flood;
mod hostile;
mod level;
mod lines;
mod scene;
mod secrets;
