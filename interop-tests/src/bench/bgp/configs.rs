//! What each contestant is told, in its own language and with nothing that the
//! measurement does not need.
//!
//! Where a default would make a contestant slower than it can be (FRR's
//! advertisement interval, its policy requirement), it is turned off.

use std::fmt::Write;
use std::path::Path;

use serde_json::{Value, json};

use super::Family;

/// What a contestant should do.
#[derive(Debug, Clone)]
pub struct Wishes {
    /// The family of transport and routes.
    pub family: Family,
    /// Its ASN.
    pub asn: u32,
    /// Its router id.
    pub id: String,
    /// With whom it speaks.
    pub peers: Vec<Peer>,
    /// What it is there for.
    pub role: Role,
}

/// What a contestant is there for.
#[derive(Debug, Clone)]
pub enum Role {
    /// Passes on what it learns.
    Transit,
    /// Originates these IPv4 prefixes, as a node does.
    Node(Vec<String>),
    /// Puts what it learns into its kernel and tells nobody, as a router at the
    /// top of a rack whose other ports are not looked at.
    TopOfRack,
}

impl Wishes {
    fn originated(&self) -> &[String] {
        match &self.role {
            Role::Node(prefixes) => prefixes,
            Role::Transit | Role::TopOfRack => &[],
        }
    }
}

/// One peer of a contestant.
#[derive(Debug, Clone)]
pub struct Peer {
    /// A word that every configuration language takes as a name.
    pub name: String,
    /// Its address.
    pub address: String,
    /// Our address towards it.
    pub local: String,
    /// Its ASN.
    pub asn: u32,
    /// Whether to await that it dials.
    pub passive: bool,
}

/// The `speaker` example's configuration.
pub fn flock(wishes: &Wishes) -> String {
    let family = match wishes.family {
        Family::V4 => "ipv4-unicast",
        Family::V6 => "ipv6-unicast",
    };
    let peer = |peer: &Peer| {
        json!({
            "name": peer.name,
            "address": peer.address,
            "localAddress": peer.local,
            "asn": peer.asn,
            "passive": peer.passive,
            "families": [family],
            "holdTime": 240,
            "import": { "accept": ["0.0.0.0/0 le 32", "::/0 le 128"], "maxPrefixes": 4_000_000 },
        })
    };
    let listen = |peer: &Peer| match wishes.family {
        Family::V4 => format!("{}:179", peer.local),
        Family::V6 => format!("[{}]:179", peer.local),
    };
    json!({
        "asn": wishes.asn,
        "routerId": wishes.id,
        "listen": wishes.peers.iter().map(listen).collect::<Vec<_>>(),
        "transit": matches!(wishes.role, Role::Transit),
        "report": false,
        "threads": 1,
        "peers": wishes.peers.iter().map(peer).collect::<Vec<_>>(),
        "originate": flock_routes(wishes.originated()),
    })
    .to_string()
}

/// Routes as the example's commands take them.
pub fn flock_routes(prefixes: &[String]) -> Vec<Value> {
    prefixes.iter().map(|prefix| json!({ "prefix": prefix })).collect()
}

/// bird.conf.
pub fn bird(wishes: &Wishes) -> String {
    let channel = match wishes.family {
        Family::V4 => "ipv4",
        Family::V6 => "ipv6",
    };
    let mut text = format!("router id {};\nprotocol device {{ scan time 600; }}\n", wishes.id);
    let export = match wishes.role {
        Role::Transit => "all",
        Role::Node(_) => "where source = RTS_STATIC",
        Role::TopOfRack => "none",
    };
    if let Role::TopOfRack = wishes.role {
        let _ = writeln!(
            text,
            "protocol kernel {{ scan time 3600; {channel} {{ import none; export all; }}; }}"
        );
    }
    if let Role::Node(originated) = &wishes.role {
        text.push_str("protocol static originated {\n  ipv4;\n");
        for prefix in originated {
            let _ = writeln!(text, "  route {prefix} unreachable;");
        }
        text.push_str("}\n");
    }
    for Peer { name, address, local, asn, passive } in &wishes.peers {
        let dial = if *passive { "passive on;" } else { "connect delay time 1;" };
        let _ = writeln!(
            text,
            "protocol bgp {name} {{ local {local} as {}; neighbor {address} as {asn}; {dial} \
             hold time 240; {channel} {{ import all; export {export}; }}; }}",
            wishes.asn
        );
    }
    text
}

/// bgpd.conf of FRR.
pub fn frr(wishes: &Wishes) -> String {
    let family = match wishes.family {
        Family::V4 => "ipv4",
        Family::V6 => "ipv6",
    };
    let mut text = format!(
        "router bgp {}\n bgp router-id {}\n no bgp ebgp-requires-policy\n \
         no bgp default ipv4-unicast\n no bgp network import-check\n",
        wishes.asn, wishes.id
    );
    let mut activated = format!(" address-family {family} unicast\n");
    for Peer { address, asn, passive, .. } in &wishes.peers {
        let _ = writeln!(text, " neighbor {address} remote-as {asn}");
        let _ = writeln!(text, " neighbor {address} advertisement-interval 0");
        if *passive {
            let _ = writeln!(text, " neighbor {address} passive");
        }
        let _ = writeln!(activated, "  neighbor {address} activate");
    }
    text + &activated + " exit-address-family\n"
}

/// bgpd.conf of OpenBGPD.
pub fn openbgpd(wishes: &Wishes, socket: &Path) -> String {
    let mut text = format!(
        "AS {}\nrouter-id {}\nfib-update no\nsocket \"{}\"\n",
        wishes.asn,
        wishes.id,
        socket.display()
    );
    for peer in &wishes.peers {
        let _ = writeln!(text, "listen on {}", peer.local);
    }
    let (this, other) = match wishes.family {
        Family::V4 => ("IPv4", "IPv6"),
        Family::V6 => ("IPv6", "IPv4"),
    };
    for Peer { name, address, asn, passive, .. } in &wishes.peers {
        let passive = if *passive { "passive" } else { "" };
        let _ = writeln!(
            text,
            "neighbor {address} {{\n  descr {name}\n  remote-as {asn}\n  {passive}\n  \
             announce {this} unicast\n  announce {other} none\n}}"
        );
    }
    text + "allow from any\nallow to any\n"
}

/// gobgpd.toml.
pub fn gobgp(wishes: &Wishes) -> String {
    let family = match wishes.family {
        Family::V4 => "ipv4-unicast",
        Family::V6 => "ipv6-unicast",
    };
    let mut text = format!("[global.config]\nas = {}\nrouter-id = \"{}\"\n", wishes.asn, wishes.id);
    for Peer { address, local, asn, passive, .. } in &wishes.peers {
        let _ = writeln!(
            text,
            "[[neighbors]]\n[neighbors.config]\nneighbor-address = \"{address}\"\n\
             peer-as = {asn}\n[neighbors.timers.config]\nhold-time = 240\n[neighbors.transport.config]\npassive-mode = {passive}\n\
             local-address = \"{local}\"\n[[neighbors.afi-safis]]\n\
             [neighbors.afi-safis.config]\nafi-safi-name = \"{family}\""
        );
    }
    text
}
