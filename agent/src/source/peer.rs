//! Which pods are somebody to selectors of NetworkPolicies, and by which addresses: the same for
//! manifests and for an API server.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::PeerPod;
use crate::annotations;
use crate::policy::{Labels, NamedPort};

/// One of `status.podIPs`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct PodAddress {
    ip: String,
}

/// The addresses of a status; what is none is left out.
pub(super) fn addresses(several: &[PodAddress], one: &str) -> Vec<IpAddr> {
    let all = several.iter().map(|address| address.ip.as_str()).chain([one]);
    let mut found = Vec::new();
    for address in all.filter_map(|word| word.parse().ok()) {
        if !found.contains(&address) {
            found.push(address);
        }
    }
    found
}

/// What is said of a pod that is not in its node's own namespace.
pub(super) struct Described<'a> {
    pub(super) labels: &'a Arc<Labels>,
    pub(super) ports: &'a Arc<[NamedPort]>,
    /// Flock's.
    pub(super) annotations: &'a BTreeMap<String, String>,
    pub(super) phase: &'a str,
    pub(super) addresses: Vec<IpAddr>,
}

impl Described<'_> {
    /// Nobody while it has no address, and when it is over: its addresses are others' by then.
    pub(super) fn peer(self) -> Option<PeerPod> {
        if self.addresses.is_empty() || matches!(self.phase, "Succeeded" | "Failed") {
            return None;
        }
        // One with an annotation that cannot be followed is never given what another of them names.
        let wishes = annotations::parse(self.annotations).unwrap_or_default();
        let mut claimed = wishes.anycast;
        claimed.extend(wishes.addresses);
        claimed.retain(|address| !self.addresses.contains(address));
        Some(PeerPod {
            labels: self.labels.clone(),
            ports: self.ports.clone(),
            addresses: self.addresses.into(),
            claimed: claimed.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(annotations: &[(&str, &str)], phase: &str, addresses: &[&str]) -> Option<PeerPod> {
        let named = |(name, value): &(&str, &str)| {
            (format!("{}{name}", annotations::PREFIX), (*value).to_owned())
        };
        let annotations = annotations.iter().map(named).collect();
        Described {
            labels: &Arc::default(),
            ports: &Arc::default(),
            annotations: &annotations,
            phase,
            addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
        }
        .peer()
    }

    #[test]
    fn a_pod_claims_what_its_annotations_name_beside_its_own() {
        let claims = |annotations: &[(&str, &str)]| {
            let peer = peer(annotations, "Running", &["10.0.0.1"]).unwrap();
            assert_eq!(peer.addresses.len(), 1);
            peer.claimed.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let both = [("anycast", "192.0.2.1,2001:db8::1"), ("addresses", "10.0.0.1, 10.0.0.7")];
        assert_eq!(claims(&both), ["192.0.2.1", "2001:db8::1", "10.0.0.7"]);
        assert!(claims(&[("anycast", "192.0.2.1,x")]).is_empty());
        assert!(claims(&[("ipv4", "perhaps"), ("anycast", "192.0.2.1")]).is_empty());
    }

    #[test]
    fn who_has_no_address_or_is_over_is_nobody() {
        assert!(peer(&[], "", &["10.0.0.1"]).is_some());
        assert!(peer(&[("anycast", "192.0.2.1")], "Pending", &[]).is_none());
        assert!(peer(&[], "Succeeded", &["10.0.0.1"]).is_none());
        assert!(peer(&[], "Failed", &["10.0.0.1"]).is_none());
    }

    #[test]
    fn addresses_are_each_once() {
        let several = ["10.0.0.1", "x", "2001:db8::1"].map(|ip| PodAddress { ip: ip.into() });
        assert_eq!(addresses(&several, "10.0.0.1").len(), 2);
        assert_eq!(addresses(&[], "10.0.0.1").len(), 1);
        assert!(addresses(&[], "").is_empty());
    }
}
