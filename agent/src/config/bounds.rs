//! How much of something a NodeConfig may have. One place, because `validate` and the API server's
//! schema both say it. Lists are bounded so that a generated document cannot make the agent, the status
//! that it writes or an UPDATE as large as it likes; each bound is far from what a node has.

/// Networks of one family.
pub(super) const NETWORKS: usize = 1024;
/// Peers of a node. Each is a row of the status, which is one object of the API server.
pub(super) const PEERS: usize = 1024;
/// Communities of one list.
pub(super) const COMMUNITIES: usize = 1024;
/// Rules of `import.accept`.
pub(super) const RULES: usize = 1024;
/// More than this is a mistake: routers commonly refuse long paths.
pub(super) const PREPENDS: u8 = 32;
/// RFC 8200 §5: no IPv6 link may have less.
pub(super) const LEAST_MTU: u32 = 1280;
/// No interface has more.
pub(super) const MOST_MTU: u32 = 65_535;
