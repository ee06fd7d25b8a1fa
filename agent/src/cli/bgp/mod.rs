//! `flock-agent bgp`: what the speaker of this node does.

mod answer;
mod question;

pub use answer::{
    FamilyRow, NotAnnounced, PeerList, PeerRow, PeerState, RouteList, RouteRow, RouteSource,
    Summary,
};
pub use question::{Destination, PeerName, PeersArgs, RoutesArgs, Which};
