//! What the doctor calls its checks: a contract, as scripts select findings by these names.

pub(super) const NODE_CONFIG: &str = "NodeConfig";
pub(super) const API_SERVER: &str = "API server";
pub(super) const MANIFEST: &str = "pod manifest";
pub(super) const SERVING: &str = "serving";
pub(super) const POOL: &str = "pool";
pub(super) const SYSCTL: &str = "sysctl";
pub(super) const FEATURE: &str = "kernel feature";
pub(super) const ANTI_SPOOFING: &str = "anti-spoofing";
pub(super) const MTU: &str = "MTU";
pub(super) const STATE_DIRECTORY: &str = "state directory";
pub(super) const STATE_FILE: &str = "state file";
pub(super) const SPACE: &str = "disk space";
pub(super) const CNI_SOCKET: &str = "CNI socket";
pub(super) const ADMIN_SOCKET: &str = "admin socket";
pub(super) const SPOOL: &str = "spool";
pub(super) const PASSWORD_FILE: &str = "password file";
pub(super) const CONFLIST: &str = "conflist";
pub(super) const PLUGIN: &str = "plugin";
pub(super) const LINKS: &str = "links";
pub(super) const PODS: &str = "pods";
pub(super) const ROUTES: &str = "routes";
pub(super) const ADDRESSES: &str = "addresses";
pub(super) const LEAKS: &str = "leaks";
pub(super) const POLICY: &str = "network policy";
pub(super) const LEARNED: &str = "learned routes";
pub(super) const PEER: &str = "BGP peer";
pub(super) const LISTENER: &str = "BGP listener";
pub(super) const DRAIN: &str = "drain";
pub(super) const CONFLICT: &str = "conflict";
pub(super) const CLOCK: &str = "clock";
pub(super) const LIMITS: &str = "limits";
/// That something could not be looked at.
pub(super) const LOOKING: &str = "looking";
