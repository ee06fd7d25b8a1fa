//! A node and its ToRs, with the real agent: what it learns and refuses, what it keeps while it is
//! away, cables that fail, ten thousand changes, passwords.
//!
//! | module | what it shows |
//! |---|---|
//! | `scene` | what the others share |
//! | `impostor` | a ToR that is played by hand, byte by byte |
//! | `import` | defaults and ECMP in the kernel, live policy |
//! | `refused` | what no ToR may say, and nonsense |
//! | `kept` | learned routes outlive the agent, and are swept |
//! | `links` | cables that are cut, shut, silent, deaf, slow |
//! | `changes` | many changes and no reset; changes that force one |
//! | `passwords` | files that come, go and change |
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on ends"
)]

mod changes;
mod import;
mod impostor;
mod kept;
mod links;
mod passwords;
mod refused;
mod scene;
