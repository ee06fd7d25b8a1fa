//! Who has which address, and what everybody is told: pure functions of what the
//! builder was asked for.
//!
//! With `T` the number of a ToR and `N` that of a node, both from 1 and written in
//! decimal wherever they stand:
//!
//! | what | IPv6 | IPv4 |
//! |---|---|---|
//! | cable of node N and ToR T | `2001:db8:fT:N::/64`: ToR `::1`, node `::2` | `172.(15+T).N.0/30`: ToR `.1`, node `.2` |
//! | cable of ToRs S and T | `2001:db8:ff:ST::/64`: S `::1`, T `::2` | `172.31.ST.0/30`: S `.1`, T `.2` |
//! | ToR T itself | `2001:db8:ff::T` | `10.255.0.T`, also its BGP identifier |
//! | pods of node N | `2001:db8:0:N::/64` | `10.244.N.0/24` |

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{Sessions, Transport};
use crate::manifests;
use crate::router::{Brand, Config, Family, Peer, Route};

/// The AS number of every ToR.
pub const TOR_ASN: u32 = 65_000;

/// The most that the numbering has room for.
const MOST_TORS: usize = 9;
/// See [`MOST_TORS`].
const MOST_NODES: usize = 254;

/// How long a ToR keeps the routes of a peer that restarts, in seconds.
const RESTART_TIME: u16 = 120;

/// How many nodes can share the traffic of one prefix.
const MAX_PATHS: u8 = 16;

/// What the builder was asked for.
#[derive(Debug, Clone, Default)]
pub(super) struct Plan {
    pub(super) tors: Vec<(String, Brand)>,
    pub(super) nodes: usize,
    pub(super) transport: Transport,
    pub(super) sessions: Sessions,
    pub(super) own_asns: bool,
    pub(super) hold_time: Option<u16>,
}

/// The addresses of one end of a cable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Addresses {
    pub(super) v6: Ipv6Addr,
    pub(super) v4: Option<Ipv4Addr>,
}

impl Addresses {
    /// With their prefix lengths.
    pub(super) fn texts(self) -> Vec<String> {
        let four = self.v4.map(|address| format!("{address}/30"));
        [Some(format!("{}/64", self.v6)), four].into_iter().flatten().collect()
    }
}

/// One session on a cable: the addresses of both ends, and what it carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Session {
    pub(super) near: IpAddr,
    pub(super) far: IpAddr,
    pub(super) families: Vec<Family>,
}

impl Plan {
    /// Refuses what cannot be built.
    pub(super) fn check(&self) -> Result<()> {
        let (tors, nodes) = (self.tors.len(), self.nodes);
        ensure!((1..=MOST_TORS).contains(&tors), "{tors} ToRs: take 1 to {MOST_TORS}");
        ensure!(nodes <= MOST_NODES, "{nodes} nodes: take at most {MOST_NODES}");
        let over_ipv4 = self.sessions != Sessions::OverIpv6;
        ensure!(
            self.transport == Transport::DualStack || !over_ipv4,
            "sessions over IPv4 on cables without IPv4: take Transport::DualStack"
        );
        for (at, (name, brand)) in self.tors.iter().enumerate() {
            // The other ToRs call their end of the cable by this name.
            let fits = (1..=15).contains(&name.len()) && !name.starts_with("node-");
            ensure!(fits, "a ToR called {name:?}: take up to 15 letters, and not node-...");
            let before = self.tors.iter().take(at);
            ensure!(before.clone().all(|(other, _)| other != name), "two ToRs are called {name}");
            ensure!(*brand != Brand::Exabgp, "ExaBGP passes no routes on: take another for {name}");
        }
        Ok(())
    }

    /// The number of a ToR.
    pub(super) fn number(&self, tor: &str) -> Result<usize> {
        let at = self.tors.iter().position(|(name, _)| name == tor);
        Ok(at.with_context(|| format!("there is no ToR {tor}"))? + 1)
    }

    /// The name and the brand of a ToR.
    pub(super) fn tor(&self, number: usize) -> Result<&(String, Brand)> {
        let tor = number.checked_sub(1).and_then(|at| self.tors.get(at));
        tor.with_context(|| format!("there is no ToR number {number}"))
    }

    /// The AS number of a node.
    pub(super) fn node_asn(&self, node: usize) -> Result<u32> {
        let own = if self.own_asns { u32::try_from(node)? } else { 1 };
        Ok(TOR_ASN + own)
    }

    /// The ends of the cable of a node, near, and a ToR, far.
    pub(super) fn cable(&self, node: usize, tor: usize) -> Result<(Addresses, Addresses)> {
        let (n, t) = (u8::try_from(node)?, u8::try_from(tor)?);
        let end = |host: u8| -> Result<Addresses> {
            let v6 = address6(0xf0 + u16::from(t), written(node)?, host);
            Ok(Addresses { v6, v4: self.if_dual(Ipv4Addr::new(172, 15 + t, n, host)) })
        };
        Ok((end(2)?, end(1)?))
    }

    /// The ends of the cable of two ToRs, in this order.
    pub(super) fn peer_cable(&self, near: usize, far: usize) -> Result<(Addresses, Addresses)> {
        let both = near.min(far) * 10 + near.max(far);
        let pair = u8::try_from(both)?;
        let end = |host: u8| -> Result<Addresses> {
            let v6 = address6(0xff, written(both)?, host);
            Ok(Addresses { v6, v4: self.if_dual(Ipv4Addr::new(172, 31, pair, host)) })
        };
        let (first, second) = (end(1)?, end(2)?);
        Ok(if near < far { (first, second) } else { (second, first) })
    }

    /// A ToR's own addresses, on its loopback interface.
    pub(super) fn own(&self, tor: usize) -> Result<(Ipv6Addr, Ipv4Addr)> {
        let t = u8::try_from(tor)?;
        Ok((address6(0xff, 0, t), Ipv4Addr::new(10, 255, 0, t)))
    }

    fn if_dual(&self, v4: Ipv4Addr) -> Option<Ipv4Addr> {
        (self.transport == Transport::DualStack).then_some(v4)
    }

    /// The sessions of a node, near, with a ToR, far.
    pub(super) fn sessions(&self, node: usize, tor: usize) -> Result<Vec<Session>> {
        let (near, far) = self.cable(node, tor)?;
        let (_, brand) = self.tor(tor)?;
        Ok(sessions(self.suiting(&[*brand]), near, far))
    }

    /// The sessions of two ToRs, in this order.
    pub(super) fn peer_sessions(&self, near: usize, far: usize) -> Result<Vec<Session>> {
        let ends = self.peer_cable(near, far)?;
        let brands = [self.tor(near)?.1, self.tor(far)?.1];
        Ok(sessions(self.suiting(&brands), ends.0, ends.1))
    }

    /// What was asked for, unless one of these cannot do it: OpenBGPD on Linux
    /// gives routes of the session's other family a loopback next hop and does not
    /// know RFC 8950, and GoBGP has one IPv6 next hop for all sessions over IPv4.
    fn suiting(&self, brands: &[Brand]) -> Sessions {
        let crosses = |brand: &Brand| match brand {
            Brand::Openbgpd => false,
            Brand::Gobgp => self.sessions == Sessions::OverIpv6,
            Brand::Bird | Brand::Frr | Brand::Exabgp => true,
        };
        if brands.iter().all(crosses) { self.sessions } else { Sessions::PerFamily }
    }

    /// What a ToR is told.
    pub(super) fn router(&self, tor: usize) -> Result<Config> {
        let (v6, v4) = self.own(tor)?;
        let mut config = Config::new(TOR_ASN, v4, v6);
        config.transit = true;
        config.max_paths = Some(MAX_PATHS);
        let own = [format!("{v6}/128"), format!("{v4}/32")];
        let routes = ["::/0", "0.0.0.0/0"].into_iter().chain(own.iter().map(String::as_str));
        config.routes = routes.map(Route::new).collect();
        for node in 1..=self.nodes {
            let asn = self.node_asn(node)?;
            let sessions = self.sessions(node, tor)?;
            config.peers.extend(sessions.iter().map(|one| self.peer(one.near, one.far, asn, one)));
        }
        for other in (1..=self.tors.len()).filter(|other| *other != tor) {
            let sessions = self.peer_sessions(other, tor)?;
            let peers = sessions.iter().map(|one| self.peer(one.near, one.far, TOR_ASN, one));
            config.peers.extend(peers);
        }
        Ok(config)
    }

    fn peer(&self, address: IpAddr, local: IpAddr, asn: u32, session: &Session) -> Peer {
        let mut peer = Peer::new(address, local, asn);
        peer.families.clone_from(&session.families);
        peer.extended_next_hop =
            self.transport == Transport::Ipv6Only && session.families.contains(&Family::Ipv4);
        peer.graceful_restart = Some(RESTART_TIME);
        if let Some(time) = self.hold_time {
            peer.hold_time = time;
        }
        peer
    }

    /// What a node is told.
    pub(super) fn node_config(&self, node: usize) -> Result<Value> {
        let mut peers = Vec::new();
        for (number, (name, _)) in (1..).zip(&self.tors) {
            let sessions = self.sessions(node, number)?;
            let alone = sessions.len() == 1;
            for session in sessions {
                let suffix = if session.far.is_ipv6() { "v6" } else { "v4" };
                let name = if alone { name.clone() } else { format!("{name}-{suffix}") };
                peers.push(self.node_peer(&name, &session));
            }
        }
        let cidr6 = format!("2001:db8:0:{node}::/64");
        let cidr4 = format!("10.244.{node}.0/24");
        let mut config = manifests::node_config(&node_name(node), &[&cidr6], &[&cidr4]);
        let spec = config.pointer_mut("/spec/bgp").context("a NodeConfig without BGP")?;
        *spec = json!({ "asn": self.node_asn(node)?, "peers": peers });
        Ok(config)
    }

    fn node_peer(&self, name: &str, session: &Session) -> Value {
        let families: Vec<_> = session.families.iter().map(|family| family.name()).collect();
        let defaults = session.families.iter().map(|family| match family {
            Family::Ipv6 => "::/0",
            Family::Ipv4 => "0.0.0.0/0",
        });
        let mut peer = json!({
            "name": name,
            "address": session.far,
            "asn": TOR_ASN,
            "families": families,
            "connectRetry": "1s",
            "import": { "accept": defaults.collect::<Vec<_>>() },
        });
        if let (Some(time), Some(fields)) = (self.hold_time, peer.as_object_mut()) {
            fields.insert("holdTime".to_owned(), json!(format!("{time}s")));
        }
        peer
    }
}

/// The name of a node.
pub(super) fn node_name(node: usize) -> String {
    format!("node-{node}")
}

fn sessions(wished: Sessions, near: Addresses, far: Addresses) -> Vec<Session> {
    let both = vec![Family::Ipv6, Family::Ipv4];
    let over_ipv6 = |families| Session { near: near.v6.into(), far: far.v6.into(), families };
    let over_ipv4 = |families| {
        let (near, far) = (near.v4?.into(), far.v4?.into());
        Some(Session { near, far, families })
    };
    match wished {
        Sessions::OverIpv6 => vec![over_ipv6(both)],
        Sessions::OverIpv4 => over_ipv4(both).into_iter().collect(),
        Sessions::PerFamily => {
            let six = over_ipv6(vec![Family::Ipv6]);
            [Some(six), over_ipv4(vec![Family::Ipv4])].into_iter().flatten().collect()
        }
    }
}

/// `2001:db8:THIRD:FOURTH::HOST`.
fn address6(third: u16, fourth: u16, host: u8) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, third, fourth, 0, 0, 0, host.into())
}

/// The group of an IPv6 address that reads as this number does in decimal.
fn written(number: usize) -> Result<u16> {
    u16::from_str_radix(&number.to_string(), 16).with_context(|| format!("{number} is too long"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(tors: &[(&str, Brand)]) -> Plan {
        let tors = tors.iter().map(|(name, brand)| ((*name).to_owned(), *brand)).collect();
        Plan { tors, nodes: 12, ..Plan::default() }
    }

    const PAIR: &[(&str, Brand)] = &[("tor-a", Brand::Bird), ("tor-b", Brand::Frr)];

    #[test]
    fn addresses_read_as_their_numbers() {
        let plan = plan(PAIR);
        let (node, tor) = plan.cable(12, 2).unwrap();
        assert_eq!(tor.texts(), ["2001:db8:f2:12::1/64", "172.17.12.1/30"]);
        assert_eq!(node.texts(), ["2001:db8:f2:12::2/64", "172.17.12.2/30"]);
        let (first, second) = plan.peer_cable(1, 2).unwrap();
        assert_eq!(first.texts(), ["2001:db8:ff:12::1/64", "172.31.12.1/30"]);
        assert_eq!(plan.peer_cable(2, 1).unwrap(), (second, first), "the same from the other end");
        let own = plan.own(2).unwrap();
        assert_eq!(
            (own.0.to_string(), own.1.to_string()),
            ("2001:db8:ff::2".into(), "10.255.0.2".into())
        );
    }

    #[test]
    fn without_ipv4_on_the_cables_everything_goes_over_ipv6() {
        let plan = Plan { transport: Transport::Ipv6Only, ..plan(PAIR) };
        let (node, _) = plan.cable(3, 1).unwrap();
        assert_eq!(node.texts(), ["2001:db8:f1:3::2/64"]);
        let router = plan.router(1).unwrap();
        assert!(router.peers.iter().all(|peer| peer.local.is_ipv6() && peer.extended_next_hop));
        assert!(router.peers.iter().all(|peer| peer.families.len() == 2));
        let refused = Plan { sessions: Sessions::OverIpv4, ..plan.clone() }.check().unwrap_err();
        assert!(refused.to_string().contains("DualStack"), "{refused}");
        let lone = Plan { tors: vec![("tor".to_owned(), Brand::Openbgpd)], ..plan };
        let families: Vec<_> =
            lone.sessions(1, 1).unwrap().into_iter().map(|one| one.families).collect();
        assert_eq!(families, [[Family::Ipv6]], "it does not know RFC 8950");
    }

    #[test]
    fn a_node_is_told_of_every_tor() {
        let mut plan = plan(&[("tor-a", Brand::Bird), ("tor-b", Brand::Openbgpd)]);
        plan.hold_time = Some(3);
        plan.own_asns = true;
        let config = plan.node_config(2).unwrap();
        let spec = config.get("spec").unwrap();
        assert_eq!(spec["cidr6"], json!(["2001:db8:0:2::/64"]));
        assert_eq!(spec["cidr4"], json!(["10.244.2.0/24"]));
        assert_eq!(spec["bgp"]["asn"], json!(65_002));
        let peers = spec["bgp"]["peers"].as_array().unwrap();
        let told: Vec<_> = peers.iter().map(|peer| (&peer["name"], &peer["address"])).collect();
        assert_eq!(
            told,
            [
                (&json!("tor-a"), &json!("2001:db8:f1:2::1")),
                (&json!("tor-b-v6"), &json!("2001:db8:f2:2::1")),
                (&json!("tor-b-v4"), &json!("172.17.2.1")),
            ]
        );
        assert_eq!(peers[0]["holdTime"], json!("3s"));
        assert_eq!(peers[0]["import"]["accept"], json!(["::/0", "0.0.0.0/0"]));
        assert_eq!(peers[2]["import"]["accept"], json!(["0.0.0.0/0"]));
    }

    #[test]
    fn what_cannot_be_built_is_refused() {
        let long = "a-name-of-sixteen";
        let crowd: Vec<_> = (0..10).map(|_| ("tor", Brand::Bird)).collect();
        let cases: [(&[(&str, Brand)], &str); 5] = [
            (&[], "0 ToRs"),
            (&crowd, "10 ToRs"),
            (&[(long, Brand::Bird)], long),
            (&[("tor", Brand::Bird), ("tor", Brand::Frr)], "two ToRs"),
            (&[("tor", Brand::Exabgp)], "ExaBGP"),
        ];
        for (tors, told) in cases {
            let refused = plan(tors).check().unwrap_err().to_string();
            assert!(refused.contains(told), "{refused}");
        }
        plan(PAIR).check().unwrap();
        Plan { nodes: 255, ..plan(PAIR) }.check().unwrap_err();
    }
}
