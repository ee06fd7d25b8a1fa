//! Where the scenes are played: us in one namespace, the router in another.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use anyhow::Result;
use rack::capture::{Message, Open, Wire};
use rack::link::{End, connect};
use rack::netns::Netns;
use rack::router::{Config, Housing, Peer, Route, Router};
use rack::wait::{PATIENCE, until};

use crate::golden::Album;

pub(crate) const US4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
pub(crate) const THEM4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
pub(crate) const US6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
pub(crate) const THEM6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);
pub(crate) const OUR_ASN: u32 = 65_001;
pub(crate) const THEIR_ASN: u32 = 4_200_000_002;
pub(crate) const V4: &str = "198.51.100.0/24";
pub(crate) const V6: &str = "2001:db8:100::/48";

/// Two namespaces and a cable.
pub(crate) struct Stage {
    pub(crate) us: Arc<Netns>,
    them: Arc<Netns>,
}

impl Stage {
    pub(crate) fn new() -> Result<Self> {
        let (us, them) = (Arc::new(Netns::new("us")?), Arc::new(Netns::new("them")?));
        us.loopback_up()?;
        them.loopback_up()?;
        connect(
            End {
                netns: &us,
                ifname: "eth0",
                addresses: &[&format!("{US4}/24"), &format!("{US6}/64")],
            },
            End {
                netns: &them,
                ifname: "eth0",
                addresses: &[&format!("{THEM4}/24"), &format!("{THEM6}/64")],
            },
        )?;
        Ok(Self { us, them })
    }

    pub(crate) fn start(&self, album: &Album, config: Config) -> Result<Router> {
        Router::start(album.brand, Arc::clone(&self.them), config, Housing::Process)
    }

    /// Opens a session; again, where the router is not ready and says so with an
    /// error of the state machine.
    pub(crate) fn session(&self, router: IpAddr, open: &[u8]) -> Result<(Wire, Message, Message)> {
        until("a session", PATIENCE, || {
            let mut wire = Wire::dial(&self.us, router)?;
            let (theirs, alive) = wire.establish(open)?;
            Ok((wire, theirs, alive))
        })
    }

    pub(crate) fn dial4(&self) -> Result<Wire> {
        Wire::dial(&self.us, THEM4.into())
    }
}

pub(crate) fn peer4() -> Peer {
    let mut peer = Peer::new(US4.into(), THEM4.into(), OUR_ASN);
    // Some dial only every ten seconds; we do it at once.
    peer.passive = true;
    peer
}

pub(crate) fn peer6() -> Peer {
    Peer { address: US6.into(), local: THEM6.into(), ..peer4() }
}

pub(crate) fn config(peer: Peer) -> Config {
    let mut config = Config::new(THEIR_ASN, THEM4, THEM6);
    config.routes = vec![rich(V4), Route::new(V6).with_communities(&["65002:600"])];
    config.peers.push(peer);
    config
}

fn rich(prefix: &str) -> Route {
    Route::new(prefix)
        .with_communities(&["65002:100", "65002:200", "4200000002:1:2", "4200000002:3:4294967295"])
        .with_med(50)
}

pub(crate) fn open() -> Open {
    Open::new(OUR_ASN, US4)
}
