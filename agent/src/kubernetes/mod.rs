//! What is said to the API server, and how it is reached. What it tells is `source::kubernetes`'s.

pub mod client;
