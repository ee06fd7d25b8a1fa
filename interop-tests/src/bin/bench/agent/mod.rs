//! The whole agent: a pod's event until the router beyond has heard of it, and a start
//! (`rack::bench::agent`).

pub(crate) mod change;
pub(crate) mod start;
