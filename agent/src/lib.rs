//! flock-agent as a library, so that its parts can be tested one by one. Nothing outside this
//! package depends on it: the product is the binary.
#![deny(unsafe_code)]

pub mod allocator;
pub mod annotations;
pub mod bgp;
pub mod capabilities;
pub mod cli;
pub mod config;
pub mod doctor;
pub mod explain;
pub mod fib;
pub mod incidents;
pub mod install;
pub mod ipam;
pub mod kubernetes;
pub mod log;
pub mod metrics;
pub mod news;
mod notify;
pub mod pods;
pub mod policy;
pub mod reconcile;
pub mod run;
pub mod server;
pub mod source;
pub mod store;
mod yaml;
