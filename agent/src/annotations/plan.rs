//! From wishes to a plan. Decides which families a pod has, which pools may serve it, and which
//! of its own addresses are primary; leaves taking the addresses to `ipam`.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::{AnnotationError, PREFIX, PodWishes};
use crate::config::NodeConfig;
use crate::ipam::{FamilyPlan, IpAlgo};

/// Where one family's primary address comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Primary {
    /// The pod named it: claim it, nothing is allocated.
    Fixed(IpAddr),
    /// Allocate one.
    Allocate(FamilyPlan),
}

/// The addresses that a pod is to get; at least one family is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressPlan {
    /// The primary IPv6 address; `None` when the pod has no IPv6.
    pub ipv6: Option<Primary>,
    /// The primary IPv4 address; `None` when the pod has no IPv4.
    pub ipv4: Option<Primary>,
    /// Addresses of its own beside the primary ones, in the order of the annotation.
    pub extra: Vec<IpAddr>,
    /// Shared addresses, in the order of the annotation.
    pub anycast: Vec<IpAddr>,
    /// What was overlooked, for the log and the pod's events.
    pub warnings: Vec<String>,
}

/// What the pod gets on this node.
pub fn resolve(wishes: &PodWishes, node: &NodeConfig) -> Result<AddressPlan, AnnotationError> {
    let mut fixed6 = None;
    let mut fixed4 = None;
    let mut extra = Vec::new();
    for addr in &wishes.addresses {
        let primary = if addr.is_ipv6() { &mut fixed6 } else { &mut fixed4 };
        match primary {
            None => *primary = Some(*addr),
            Some(_) => extra.push(*addr),
        }
    }
    let algo = wishes.ip_algo.clone().or_else(|| node.ip_algo.clone());
    let mut warnings = wishes.warnings.clone();

    let ipv6 =
        Family { name: "ipv6", cidr: "cidr6", wish: wishes.ipv6, default: node.defaults.ipv6 };
    let ipv4 =
        Family { name: "ipv4", cidr: "cidr4", wish: wishes.ipv4, default: node.defaults.ipv4 };
    let state6 = ipv6.state(fixed6, !node.cidr6.is_empty())?;
    let state4 = ipv4.state(fixed4, !node.cidr4.is_empty())?;
    for (name, list) in [("addresses", &wishes.addresses), ("anycast", &wishes.anycast)] {
        for addr in list {
            let state = if addr.is_ipv6() { state6 } else { state4 };
            if let State::Off(why) = state {
                return Err(AnnotationError::bad(name, addr, off(addr, why)));
            }
        }
    }
    let plan6 = match (state6, fixed6) {
        (State::Off(_), _) => None,
        (State::On, Some(addr)) => Some(Primary::Fixed(addr)),
        (State::On, None) => {
            let pools = narrow("cidr6", &wishes.cidr6, &node.cidr6)?;
            warnings.extend(misfits(algo.as_ref(), &pools));
            Some(Primary::Allocate(FamilyPlan::V6 { pools, algo }))
        }
    };
    let plan4 = match (state4, fixed4) {
        (State::Off(_), _) => None,
        (State::On, Some(addr)) => Some(Primary::Fixed(addr)),
        (State::On, None) => {
            let pools = narrow("cidr4", &wishes.cidr4, &node.cidr4)?;
            Some(Primary::Allocate(FamilyPlan::V4 { pools }))
        }
    };
    if plan6.is_none() && plan4.is_none() {
        return Err(no_family(state6, state4));
    }
    Ok(AddressPlan { ipv6: plan6, ipv4: plan4, extra, anycast: wishes.anycast.clone(), warnings })
}

/// Why a family is off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Off {
    Annotation,
    NodeDefault,
    NoPool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    On,
    Off(Off),
}

struct Family {
    name: &'static str,
    cidr: &'static str,
    wish: Option<bool>,
    default: bool,
}

impl Family {
    /// The pod's annotation, then the node's defaults. A family that is merely not refused and
    /// has nowhere to take an address from is off; one that the pod asks for is an error then.
    fn state(&self, fixed: Option<IpAddr>, has_pool: bool) -> Result<State, AnnotationError> {
        match (self.wish, self.default) {
            (Some(false), _) => Ok(State::Off(Off::Annotation)),
            (None, false) => Ok(State::Off(Off::NodeDefault)),
            _ if fixed.is_some() || has_pool => Ok(State::On),
            (Some(true), _) => Err(AnnotationError::bad(
                self.name,
                "true",
                format!(
                    "this node has no network for it; add one to spec.{} of its NodeConfig, or give \
                     the pod an address with {PREFIX}addresses",
                    self.cidr
                ),
            )),
            (None, true) => Ok(State::Off(Off::NoPool)),
        }
    }
}

/// The words for an address whose family the pod does not have.
fn off(addr: &IpAddr, why: Off) -> String {
    let (family, key) = if addr.is_ipv6() { ("IPv6", "6") } else { ("IPv4", "4") };
    match why {
        Off::Annotation => format!(
            "{family} is off for this pod by {PREFIX}ipv{key}; remove the address, or that annotation"
        ),
        Off::NodeDefault => format!(
            "{family} is off on this node by spec.defaults.ipv{key}; remove the address, or set \
             {PREFIX}ipv{key}: \"true\""
        ),
        Off::NoPool => format!(
            "the pod has no {family}, because this node has no network for it; add one to \
             spec.cidr{key} of its NodeConfig"
        ),
    }
}

fn no_family(state6: State, state4: State) -> AnnotationError {
    let say = |state, key| match state {
        State::Off(Off::Annotation) => format!("IPv{key} is off by {PREFIX}ipv{key}"),
        State::Off(Off::NodeDefault) => format!("IPv{key} is off by spec.defaults.ipv{key}"),
        _ => format!("the node has no network in spec.cidr{key}"),
    };
    let remedy = match (state6, state4) {
        (State::Off(Off::NoPool), _) | (_, State::Off(Off::NoPool)) => {
            "add spec.cidr6 or spec.cidr4 to the NodeConfig of this node"
        }
        _ => "turn one of the families on",
    };
    AnnotationError::NoFamily(format!("{} and {}; {remedy}", say(state6, '6'), say(state4, '4')))
}

/// The pools that the pod may use. Without an annotation all of the node's. With one, the entries
/// are read in order and the first that meets a pool of the node decides (a Deployment lists one
/// entry per node that way): an entry that equals or covers pools means these pools, one inside a
/// pool means itself. Entries that meet nothing are an error only if none meets anything.
fn narrow<N: Network>(name: &str, entries: &[N], node: &[N]) -> Result<Vec<N>, AnnotationError> {
    if entries.is_empty() {
        return Ok(node.to_vec());
    }
    for entry in entries {
        let covered: Vec<N> = node.iter().filter(|pool| entry.covers(pool)).copied().collect();
        if !covered.is_empty() {
            return Ok(covered);
        }
        if node.iter().any(|pool| pool.covers(entry)) {
            return Ok(vec![*entry]);
        }
    }
    let list = |nets: &[N]| nets.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let problem = format!(
        "outside this node's networks, which are {}; choose a network inside or around one of them",
        list(node)
    );
    Err(AnnotationError::bad(name, list(entries), problem))
}

trait Network: Copy + ToString {
    /// Whether all of `other` is in here.
    fn covers(&self, other: &Self) -> bool;
}

impl Network for Ipv6Net {
    fn covers(&self, other: &Self) -> bool {
        self.contains(other)
    }
}

impl Network for Ipv4Net {
    fn covers(&self, other: &Self) -> bool {
        self.contains(other)
    }
}

/// Pools in which the algorithm cannot be followed.
fn misfits<'a>(
    algo: Option<&'a IpAlgo>,
    pools: &'a [Ipv6Net],
) -> impl Iterator<Item = String> + 'a {
    pools.iter().filter(move |pool| algo.is_some() && !IpAlgo::fits(**pool)).map(move |pool| {
        let algo = algo.map(ToString::to_string).unwrap_or_default();
        format!(
            "ip-algo {algo:?} is not followed in {}: it needs a prefix length that is a multiple of 4",
            IpNet::V6(*pool)
        )
    })
}
