//! The words that labels may be. Decides how what comes from outside is folded into a list that ends:
//! whoever sends nonsense makes no new series.

use flock_cni::error as code;
use flock_cni::words;
use flock_dataplane::Drift;
use prometheus_client::encoding::EncodeLabelSet;

use crate::ipam::IpamError;
use crate::pods::book::ReserveError;
use crate::server::admin::op;

/// For what is on none of the lists.
const OTHER: &str = "other";

/// The ops of the CNI socket.
pub(super) const OPS: [&str; 5] = [words::ADD, words::DEL, words::CHECK, words::GC, words::STATUS];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Op {
    pub(super) op: &'static str,
}

impl Op {
    pub(super) fn of(op: &str) -> Self {
        Self { op: known(op, &OPS) }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Call {
    op: &'static str,
    result: &'static str,
    code: &'static str,
}

impl Call {
    /// A call that ended with this code; `None`: well.
    pub(super) fn of(op: &str, code: Option<u32>) -> Self {
        let (result, code) = ending(code);
        Self { op: Op::of(op).op, result, code }
    }
}

/// What a code means to whoever counts failures: "not now" is none.
fn ending(number: Option<u32>) -> (&'static str, &'static str) {
    let Some(number) = number else { return ("ok", "0") };
    match number {
        code::TRY_AGAIN_LATER => ("try_again", "11"),
        code::NOT_AVAILABLE => ("try_again", "50"),
        code::NOT_AVAILABLE_LIMITED => ("try_again", "51"),
        code::INCOMPATIBLE_VERSION => ("error", "1"),
        code::UNSUPPORTED_FIELD => ("error", "2"),
        code::UNKNOWN_CONTAINER => ("error", "3"),
        code::INVALID_ENVIRONMENT => ("error", "4"),
        code::IO_FAILURE => ("error", "5"),
        code::DECODE_FAILURE => ("error", "6"),
        code::INVALID_CONFIG => ("error", "7"),
        code::INTERNAL => ("error", "100"),
        code::CHECK_FAILED => ("error", "101"),
        _ => ("error", OTHER),
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Reason {
    pub(super) reason: &'static str,
}

/// Why no address was given.
pub(super) const ADDRESS_REASONS: [&str; 7] =
    ["exhausted", "no_pool", "conflict", "shared", "stranded", "names", ROUTED];
/// The kernel already leads elsewhere.
pub(super) const ROUTED: &str = "routed";

impl Reason {
    pub(super) fn of(error: &ReserveError) -> Self {
        let reason = match error {
            ReserveError::Ipam(IpamError::Exhausted(_)) => "exhausted",
            ReserveError::Ipam(IpamError::NoPool) => "no_pool",
            ReserveError::Conflict(_) => "conflict",
            ReserveError::Shared { .. } => "shared",
            ReserveError::Stranded { .. } => "stranded",
            ReserveError::Names(_) => "names",
        };
        Self { reason }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Kind {
    pub(super) kind: &'static str,
}

/// What is repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repair {
    /// A pod's link, addresses or routes.
    Pod,
    /// A summary or an anycast route.
    Route,
    /// The anti-spoofing rules.
    Rules,
    /// A learned route.
    Learned,
    /// The rules of network policies.
    Policy,
}

impl Repair {
    pub(super) const ALL: [Self; 5] =
        [Self::Pod, Self::Route, Self::Rules, Self::Learned, Self::Policy];
}

impl From<Repair> for Kind {
    fn from(repair: Repair) -> Self {
        let kind = match repair {
            Repair::Pod => "pod",
            Repair::Route => "route",
            Repair::Rules => "rules",
            Repair::Learned => "learned",
            Repair::Policy => "policy",
        };
        Self { kind }
    }
}

/// What is there and belongs to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leak {
    /// The state file knows a pod, and the kernel has no link of it.
    AttachmentWithoutLink,
    /// The kernel has a link of our kind, and the state file knows no pod of it.
    LinkWithoutEntry,
}

impl Leak {
    pub(super) const ALL: [Self; 2] = [Self::AttachmentWithoutLink, Self::LinkWithoutEntry];
}

impl From<Leak> for Kind {
    fn from(leak: Leak) -> Self {
        let kind = match leak {
            Leak::AttachmentWithoutLink => "attachment_without_link",
            Leak::LinkWithoutEntry => "link_without_entry",
        };
        Self { kind }
    }
}

/// What the monitor tells of.
pub(super) const DRIFTS: [&str; 8] = [
    "link_gone",
    "link_down",
    "route_gone",
    "address_gone",
    "rules_gone",
    "policy_gone",
    "networks_changed",
    "lost",
];

impl From<&Drift> for Kind {
    fn from(drift: &Drift) -> Self {
        let kind = match drift {
            Drift::LinkGone { .. } => "link_gone",
            Drift::LinkDown { .. } => "link_down",
            Drift::RouteGone { .. } => "route_gone",
            Drift::AddressGone { .. } => "address_gone",
            Drift::RulesGone => "rules_gone",
            Drift::PolicyGone => "policy_gone",
            Drift::NetworksChanged => "networks_changed",
            Drift::Lost => "lost",
            _ => OTHER,
        };
        Self { kind }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Outcome {
    pub(super) result: &'static str,
}

/// What is asked for on the HTTP port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoint(&'static str);

impl Endpoint {
    pub(super) const ALL: [Self; 3] = [Self("metrics"), Self("healthz"), Self("readyz")];

    /// By its path.
    pub fn of(path: &str) -> Self {
        Self(match path {
            "/metrics" => "metrics",
            "/healthz" => "healthz",
            "/readyz" => "readyz",
            "/" => "page",
            _ if path.starts_with("/api/") => "api",
            _ if [".css", ".js", ".svg"].iter().any(|kind| path.ends_with(kind)) => "page",
            _ => OTHER,
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Answer {
    endpoint: &'static str,
    code: u16,
}

impl Answer {
    pub(super) fn of(endpoint: Endpoint, code: u16) -> Self {
        Self { endpoint: endpoint.0, code }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Request {
    op: &'static str,
    result: &'static str,
}

impl Request {
    pub(super) fn of(op: &str, well: bool) -> Self {
        Self { op: known(op, &op::ALL), result: if well { "ok" } else { "error" } }
    }
}

fn known(word: &str, list: &[&'static str]) -> &'static str {
    list.iter().copied().find(|known| *known == word).unwrap_or(OTHER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_ends_in_one_of_three_ways() {
        for (op, code, wanted) in [
            ("ADD", None, ("ADD", "ok", "0")),
            ("ADD", Some(11), ("ADD", "try_again", "11")),
            ("STATUS", Some(50), ("STATUS", "try_again", "50")),
            ("DEL", Some(5), ("DEL", "error", "5")),
            ("DEL", Some(4_000_000_000), ("DEL", "error", "other")),
            ("add", Some(4), ("other", "error", "4")),
            ("x{y=\"z\"}", None, ("other", "ok", "0")),
        ] {
            let Call { op: named, result, code: number } = Call::of(op, code);
            assert_eq!((named, result, number), wanted, "{op} {code:?}");
        }
    }

    #[test]
    fn paths_of_strangers_are_one_endpoint() {
        for (path, wanted) in [
            ("/metrics", "metrics"),
            ("/metrics/", "other"),
            ("/", "page"),
            ("/page.css", "page"),
            ("/api/v1/peers", "api"),
            ("/wp-login.php", "other"),
        ] {
            assert_eq!(Endpoint::of(path), Endpoint(wanted), "{path}");
        }
    }
}
