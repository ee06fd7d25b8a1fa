//! The whole agent: a pod's event until the router beyond has heard of it, at rest and under load; a start;
//! many peers; a table into the kernel; changes without end (`rack::bench::agent`).

pub(crate) mod busy;
pub(crate) mod change;
pub(crate) mod install;
pub(crate) mod peers;
pub(crate) mod soak;
pub(crate) mod start;
