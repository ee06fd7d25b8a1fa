//! The parties of a fabric as [`Place`]s: whoever enters one finds everything where documents say that
//! it is, and needs no path of the rack.

use std::net::IpAddr;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::{Fabric, PodOnNode, TOR_ASN, Tor};
use crate::link::Side;
use crate::place::Place;
use crate::router::Brand;

impl Fabric {
    /// The ToRs as a node's peers over IPv6: name, address and AS number.
    pub fn peers(&self, node: usize) -> Result<Vec<(String, IpAddr, u32)>> {
        let peer = |tor: &Tor| {
            let link = self.link(node, &tor.name)?;
            let address = link.plug(Side::Far).address(true).context("a cable without IPv6")?;
            Ok((tor.name.clone(), address, TOR_ASN))
        };
        self.tors.iter().map(peer).collect()
    }

    /// A place for each ToR, with its router's own command line, and for each node, with its agent's
    /// directories and the namespaces of those of these pods that are on it. They are to be dropped
    /// before the fabric is.
    pub fn places(&self, pods: &[PodOnNode]) -> Result<Vec<Place>> {
        let mut places = Vec::new();
        for tor in &self.tors {
            places.push(Place::new(&tor.name, &tor.netns, &[console(tor)])?);
        }
        for (number, host) in (1..).zip(&self.hosts) {
            let node = &host.node;
            let mut put = vec![
                (node.file("standalone"), "/etc/flock".to_owned()),
                (node.file("run"), "/run/flock".to_owned()),
                (node.state_dir().to_owned(), "/var/lib/flock".to_owned()),
            ];
            let here = pods.iter().filter(|one| one.node == number).map(|one| &one.pod);
            put.extend(here.map(|pod| (pod.netns.path(), format!("/run/netns/{}", pod.name))));
            places.push(Place::new(node.name(), node.netns(), &put)?);
        }
        Ok(places)
    }
}

/// Where the command line of a router looks for it.
fn console(tor: &Tor) -> (PathBuf, String) {
    let home = tor.router.home();
    match tor.router.brand() {
        Brand::Frr => (home.join("frr"), "/run/frr".to_owned()),
        brand => (home.to_owned(), format!("/run/{}", brand.name())),
    }
}
