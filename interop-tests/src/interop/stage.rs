//! The stage of a group: us in one namespace, a router in another, one cable.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::link::{End, connect};
use crate::netns::Netns;
use crate::router::{Brand, Config, Housing, Peer, Router};
use crate::speaker::Speaker;
use crate::story::Telling;

pub(super) const US4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
pub(super) const THEM4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
pub(super) const US6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
pub(super) const THEM6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);

/// What we originate, and what they do.
pub(super) const OUR4: &str = "10.1.0.0/24";
pub(super) const OUR6: &str = "fd01::/48";
pub(super) const THEIR4: &str = "10.2.0.0/24";
pub(super) const THEIR6: &str = "fd02::/48";

/// Which addresses a session runs over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    Ipv4,
    Ipv6,
}

impl Transport {
    pub(super) fn us(self) -> IpAddr {
        match self {
            Self::Ipv4 => US4.into(),
            Self::Ipv6 => US6.into(),
        }
    }

    pub(super) fn them(self) -> IpAddr {
        match self {
            Self::Ipv4 => THEM4.into(),
            Self::Ipv6 => THEM6.into(),
        }
    }
}

/// Two namespaces and who lives there, with the configuration that both sides
/// would get; a group changes that before it starts them.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) us: Arc<Netns>,
    pub(super) them: Arc<Netns>,
    pub(super) transport: Transport,
    /// For the router: one peer, us.
    pub(super) router: Config,
    /// For the speaker.
    pub(super) speaker: Value,
    brand: Brand,
}

impl Stage {
    /// An external session: the router waits, we dial. Two-byte AS numbers.
    pub(super) fn new(brand: Brand, transport: Transport) -> Result<Self> {
        Self::with_asns(brand, transport, 65_001, 65_002)
    }

    pub(super) fn with_asns(
        brand: Brand,
        transport: Transport,
        ours: u32,
        theirs: u32,
    ) -> Result<Self> {
        let (us, them) = (Arc::new(Netns::new("us")?), Arc::new(Netns::new(brand.name())?));
        us.loopback_up()?;
        them.loopback_up()?;
        let (near, far) = (addresses(US4, US6), addresses(THEM4, THEM6));
        connect(
            End { netns: &us, ifname: "eth0", addresses: &near.each_ref().map(String::as_str) },
            End { netns: &them, ifname: "eth0", addresses: &far.each_ref().map(String::as_str) },
        )?;
        let mut router = Config::new(theirs, THEM4, THEM6);
        let mut peer = Peer::new(transport.us(), transport.them(), ours);
        peer.passive = true;
        router.peers.push(peer);
        let listen = std::net::SocketAddr::new(transport.us(), 179).to_string();
        let speaker = json!({
            "asn": ours,
            "routerId": US4,
            "listen": [listen],
            "connected": ["192.0.2.0/24", "2001:db8::/64"],
            "peers": [{
                "name": "them",
                "address": transport.them(),
                "localAddress": transport.us(),
                "asn": theirs,
                "holdTime": 90,
                "connectRetry": 0.5,
                "import": { "accept": ["0.0.0.0/0 le 32", "::/0 le 128"], "maxPrefixes": 1000 },
            }],
            "originate": [],
        });
        Ok(Self { us, them, transport, router, speaker, brand })
    }

    /// Changes the router's only peer.
    pub(super) fn their_peer(&mut self, change: impl FnOnce(&mut Peer)) {
        if let Some(peer) = self.router.peers.first_mut() {
            change(peer);
        }
    }

    /// Sets a field of the speaker's only peer.
    pub(super) fn our_peer(&mut self, field: &str, value: Value) -> Result<()> {
        let peer = self.speaker.pointer_mut("/peers/0").and_then(Value::as_object_mut);
        peer.context("the speaker has no peer")?.insert(field.to_owned(), value);
        Ok(())
    }

    /// Sets a field of the speaker's configuration.
    pub(super) fn ours(&mut self, field: &str, value: Value) -> Result<()> {
        let fields = self.speaker.as_object_mut().context("no configuration")?;
        fields.insert(field.to_owned(), value);
        Ok(())
    }

    pub(super) fn start_router(&self) -> Result<Router> {
        let them = Arc::clone(&self.them);
        Router::start(self.brand, them, self.router.clone(), Housing::Container)
    }

    pub(super) fn start_speaker(&self) -> Result<Speaker> {
        Speaker::start(&self.us, &self.speaker)
    }

    /// Starts both and awaits that both say Established.
    pub(super) fn establish(&self) -> Result<(Router, Speaker)> {
        let router = self.start_router()?;
        let mut speaker = self.start_speaker()?;
        speaker.await_up(0).telling(|| router.log_tail())?;
        router.await_established(self.transport.us()).telling(|| speaker.story())?;
        Ok((router, speaker))
    }
}

fn addresses(v4: Ipv4Addr, v6: Ipv6Addr) -> [String; 2] {
    [format!("{v4}/24"), format!("{v6}/64")]
}
