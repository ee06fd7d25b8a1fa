//! The looking glass in a real browser, against a rack that runs: what a person does, what happens
//! meanwhile, how it looks, and what the port refuses.
//!
//! Every test ends with what the browser logged, which is nothing, and with where it sent requests,
//! which is the agent and nobody else.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on ends"
)]

mod happens;
mod looks;
mod person;
mod port;
mod scene;
