//! A ToR that is played by hand: it has a cable to a node, and says what a script wants, byte by
//! byte. The session is over IPv4 and has no hold time, so that nobody has to keep it alive.

use std::net::{IpAddr, Ipv4Addr};

use rack::capture::{Kind, Message, Open, Wire, message};
use rack::fabric::Fabric;
use rack::link::{End, connect};
use rack::netns::Netns;
use serde_json::{Value, json};

use super::scene::ip;

/// What the node calls it.
pub(crate) const NAME: &str = "impostor";
pub(crate) const ASN: u32 = 65_666;
/// Its addresses, and the node's on the same cable.
pub(crate) const HERE_V4: &str = "172.30.0.1";
pub(crate) const HERE_V6: &str = "2001:db8:e:1::1";
pub(crate) const NODE_V4: &str = "172.30.0.2";
const NODE_V6: &str = "2001:db8:e:1::2";

pub(crate) struct Impostor {
    netns: Netns,
}

impl Impostor {
    /// Cabled to a node, and the node's peer once its NodeConfig is written.
    pub(crate) fn new(fabric: &mut Fabric, node: usize, import: &Value) -> Self {
        let netns = Netns::new(NAME).unwrap();
        netns.loopback_up().unwrap();
        let text =
            |address: &str| format!("{address}/{}", if address.contains(':') { 64 } else { 30 });
        let (near, far) = ([NODE_V4, NODE_V6].map(text), [HERE_V4, HERE_V6].map(text));
        connect(
            End {
                netns: fabric.node(node).unwrap().netns(),
                ifname: "uplink9",
                addresses: &near.each_ref().map(String::as_str),
            },
            End { netns: &netns, ifname: "node", addresses: &far.each_ref().map(String::as_str) },
        )
        .unwrap();
        let config = fabric.node_config_mut(node).unwrap();
        let peers = config.pointer_mut("/spec/bgp/peers").unwrap().as_array_mut().unwrap();
        peers.push(json!({
            "name": NAME,
            "address": HERE_V4,
            "asn": ASN,
            "families": ["ipv6-unicast", "ipv4-unicast"],
            "connectRetry": "1s",
            "import": import,
        }));
        Self { netns }
    }

    /// Awaits that the node dials; nothing is said yet.
    pub(crate) fn accept(&self) -> Wire {
        Wire::accept(&self.netns, ip(HERE_V4)).unwrap()
    }

    /// Awaits that the node dials, and opens a session.
    pub(crate) fn establish(&self) -> Wire {
        let mut wire = self.accept();
        let mut open = Open::new(ASN, Ipv4Addr::new(172, 30, 0, 1));
        open.hold_time = 0;
        wire.establish(&open.bytes()).unwrap();
        wire
    }
}

/// Code and subcode of the NOTIFICATION with which the node ends it.
pub(crate) fn ended(wire: &mut Wire) -> (u8, u8) {
    let last = wire.receive_until(&mut Vec::new(), |message| message.kind() == Kind::Notification);
    let last: Message = last.unwrap();
    (last.body()[0], last.body()[1])
}

/// An UPDATE that announces prefixes of the family of the next hop, with this AS path.
pub(crate) fn update(next_hop: &str, path: &[u32], prefixes: &[&str]) -> Vec<u8> {
    let nlri: Vec<u8> = prefixes.iter().flat_map(|prefix| encoded(prefix)).collect();
    // ORIGIN: IGP. AS_PATH: one sequence.
    let mut attributes = vec![0x40, 1, 1, 0];
    let count = u8::try_from(path.len()).unwrap();
    attributes.extend([0x40, 2, 2 + 4 * count, 2, count]);
    attributes.extend(path.iter().flat_map(|asn| asn.to_be_bytes()));
    match ip(next_hop) {
        IpAddr::V4(hop) => {
            attributes.extend([0x40, 3, 4]);
            attributes.extend(hop.octets());
            whole(&attributes, &nlri)
        }
        IpAddr::V6(hop) => {
            let mut reach = vec![0, 2, 1, 16];
            reach.extend(hop.octets());
            reach.push(0);
            reach.extend(nlri);
            // MP_REACH_NLRI with a length of two bytes.
            attributes.extend([0x90, 14]);
            attributes.extend(u16::try_from(reach.len()).unwrap().to_be_bytes());
            attributes.extend(reach);
            whole(&attributes, &[])
        }
    }
}

/// An UPDATE of these attributes and IPv4 prefixes, whether they make sense or not.
pub(crate) fn whole(attributes: &[u8], nlri: &[u8]) -> Vec<u8> {
    let mut body = vec![0, 0];
    body.extend(u16::try_from(attributes.len()).unwrap().to_be_bytes());
    body.extend_from_slice(attributes);
    body.extend_from_slice(nlri);
    message(2, &body)
}

/// A prefix as NLRI: its length, and as many bytes as that takes.
pub(crate) fn encoded(prefix: &str) -> Vec<u8> {
    let (address, length) = prefix.split_once('/').unwrap();
    let length: u8 = length.parse().unwrap();
    let bytes = match ip(address) {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let mut nlri = vec![length];
    nlri.extend(&bytes[..usize::from(length.div_ceil(8))]);
    nlri
}
