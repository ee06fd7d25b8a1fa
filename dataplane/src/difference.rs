//! How the kernel may differ from a pod's record, in words.
//!
//! Decides the kinds and their wording, and which of them only a new link
//! can mend. Finding them is verify's, mending them repair's.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

/// One way in which the kernel is not as recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the fields are named in the sentences below")]
pub enum Difference {
    HostLinkGone { ifname: String },
    HostLinkForeign { ifname: String },
    HostLinkDown { ifname: String },
    HostLinkDoomed { ifname: String },
    HostMtu { ifname: String, have: u32, want: u32 },
    WrongPeer { host_ifname: String, ifname: String },
    HostAddressMissing { ifname: String, address: IpNet },
    HostAddressTentative { ifname: String, address: IpNet },
    HostForwardingOff { ifname: String },
    HostProxyArpOff { ifname: String },
    HostRouteMissing { destination: IpNet, ifname: String },
    HostRouteElsewhere { destination: IpNet, ifname: String, found: String },
    PodLinkGone { ifname: String },
    PodLinkDown { ifname: String },
    PodMtu { ifname: String, have: u32, want: u32 },
    PodAddressMissing { ifname: String, address: IpNet },
    PodAddressTentative { ifname: String, address: IpNet },
    PodRouteMissing { destination: IpNet, via: Option<IpAddr>, ifname: String },
    PodNeighbourUnknown { ifname: String },
    LoopbackDown,
    AnycastMissing { address: IpNet },
    AnycastNotAdmitted { ifname: String, address: IpAddr },
}

impl Difference {
    /// Whether the pair itself is wrong: nothing on it is worth mending.
    pub(crate) fn needs_new_link(&self) -> bool {
        matches!(
            self,
            Self::HostLinkGone { .. } | Self::WrongPeer { .. } | Self::PodLinkGone { .. }
        )
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HostLinkGone { ifname } => write!(f, "host interface {ifname} is gone"),
            Self::HostLinkForeign { ifname } => {
                write!(f, "host interface {ifname} is not a veth, so not of flock's making")
            }
            Self::HostLinkDown { ifname } => write!(f, "host interface {ifname} is down"),
            Self::HostLinkDoomed { ifname } => {
                write!(f, "host interface {ifname} is marked for deletion")
            }
            Self::HostMtu { ifname, have, want } => {
                write!(f, "host interface {ifname} has MTU {have}, not {want}")
            }
            Self::WrongPeer { host_ifname, ifname } => {
                write!(f, "host interface {host_ifname} is not the peer of {ifname} in the pod")
            }
            Self::HostForwardingOff { ifname } => {
                write!(f, "IPv4 forwarding is off on host interface {ifname}")
            }
            Self::HostProxyArpOff { ifname } => {
                write!(f, "proxy_arp is off on host interface {ifname}")
            }
            Self::HostRouteMissing { destination, ifname } => {
                write!(f, "route {destination} to host interface {ifname} is missing")
            }
            Self::HostRouteElsewhere { destination, ifname, found } => {
                write!(f, "route {destination} points to {found}, not to host interface {ifname}")
            }
            Self::HostAddressMissing { ifname, address } => {
                write!(f, "address {address} is missing on host interface {ifname}")
            }
            Self::HostAddressTentative { ifname, address } => {
                write!(f, "address {address} on host interface {ifname} is not yet usable")
            }
            _ => self.fmt_pod(f),
        }
    }
}

impl Difference {
    fn fmt_pod(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PodLinkGone { ifname } => write!(f, "interface {ifname} is gone in the pod"),
            Self::PodLinkDown { ifname } => write!(f, "interface {ifname} is down in the pod"),
            Self::PodMtu { ifname, have, want } => {
                write!(f, "interface {ifname} in the pod has MTU {have}, more than {want}")
            }
            Self::PodAddressMissing { ifname, address } => {
                write!(f, "address {address} is missing on {ifname} in the pod")
            }
            Self::PodAddressTentative { ifname, address } => {
                write!(f, "address {address} on {ifname} in the pod is not yet usable")
            }
            Self::PodRouteMissing { destination, via, ifname } => {
                let name = if destination.prefix_len() == 0 { "default route" } else { "route" };
                write!(f, "{name} {destination}")?;
                if let Some(via) = via {
                    write!(f, " via {via}")?;
                }
                write!(f, " out of {ifname} is missing in the pod")
            }
            Self::PodNeighbourUnknown { ifname } => {
                write!(f, "neighbour fe80::1 on {ifname} in the pod is not the host interface")
            }
            Self::LoopbackDown => write!(f, "interface lo is down in the pod"),
            Self::AnycastMissing { address } => {
                write!(f, "anycast address {address} is missing on lo in the pod")
            }
            Self::AnycastNotAdmitted { ifname, address } => {
                write!(
                    f,
                    "packets from anycast address {address} are not let through from {ifname}"
                )
            }
            _ => write!(f, "{self:?}"),
        }
    }
}
