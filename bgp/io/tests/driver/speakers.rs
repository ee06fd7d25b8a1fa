//! Speakers to test with: how they are configured, and awaiting what they report.

use std::fmt::Debug;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use flock_bgp::{
    AddressRule, DownReason, Export, Family, Import, NextHops, Notice, Origination, PeerAsn,
    PeerConfig, RouteChange, SpeakerConfig, Transport, Ttl, Wishes,
};
use flock_bgp_io::{Handle, Listen, Notices, Pace, Running, Told};
use ipnet::IpNet;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

/// Much longer than anything takes, however busy the machine is.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A running speaker of AS 65000 + `number`.
pub(crate) struct Speaker {
    pub(crate) number: u8,
    pub(crate) handle: Handle,
    pub(crate) notices: Notices,
    pub(crate) routes: mpsc::Receiver<RouteChange>,
}

pub(crate) fn asn(number: u8) -> u32 {
    65000 + u32::from(number)
}

pub(crate) fn loopback(number: u8) -> IpAddr {
    Ipv4Addr::new(127, 0, 0, number).into()
}

pub(crate) fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

impl Speaker {
    /// Listens on 127.0.0.`number`.
    pub(crate) fn start(number: u8) -> Self {
        Self::start_with(number, &[SocketAddr::new(loopback(number), 0)], Pace::default())
    }

    pub(crate) fn start_with(number: u8, addresses: &[SocketAddr], pace: Pace) -> Self {
        let config = SpeakerConfig {
            asn: asn(number),
            id: Ipv4Addr::new(10, 0, 0, number),
            seed: u64::from(number),
            restarted: false,
            forwarding_kept: false,
            hold_end_of_rib: false,
            transit: false,
            install: true,
        };
        let listen = Listen { addresses: addresses.to_vec(), pace };
        let Running { handle, notices, routes } = flock_bgp_io::start(config, &listen).unwrap();
        Self { number, handle, notices, routes }
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.handle.listening()[0]
    }

    /// This speaker as a peer of `of`.
    pub(crate) fn as_peer(&self, of: &Self) -> PeerConfig {
        let mut peer = peer(self.number, of.number);
        peer.address = self.address().ip();
        peer.port = self.address().port();
        peer.local_address = Some(of.address().ip());
        peer
    }

    /// These peers, from when this returns.
    pub(crate) async fn peers(&self, peers: Vec<PeerConfig>) {
        self.handle.peers(peers).await.unwrap();
        // A question is answered in order.
        self.handle.status().await.unwrap();
    }

    pub(crate) async fn originate(&self, prefixes: &[&str]) {
        let wishes = prefixes.iter().map(|prefix| (net(prefix), Some(Origination::default())));
        self.handle.originate(Wishes::Some(wishes.collect())).await.unwrap();
    }

    pub(crate) async fn withdraw(&self, prefixes: &[&str]) {
        let wishes = prefixes.iter().map(|prefix| (net(prefix), None)).collect();
        self.handle.originate(Wishes::Some(wishes)).await.unwrap();
    }

    /// The next notice for which `wanted` has something.
    pub(crate) async fn notice<T>(
        &mut self,
        what: &str,
        wanted: impl Fn(Notice) -> Option<T>,
    ) -> T {
        timeout(LONG, async {
            loop {
                match self.notices.next().await {
                    Some(Told::Notice(notice)) => {
                        if let Some(found) = wanted(notice) {
                            return found;
                        }
                    }
                    Some(Told::Missed(_)) => {}
                    None => panic!("speaker {} ended, and no {what}", self.number),
                }
            }
        })
        .await
        .unwrap_or_else(|_| panic!("speaker {}: no {what}", self.number))
    }

    /// Waits until a session with `peer` is Established.
    pub(crate) async fn up(&mut self, peer: &str) {
        self.notice("session", |notice| match notice {
            Notice::Up(_, name) if &*name == peer => Some(()),
            _ => None,
        })
        .await;
    }

    /// Waits until a session or an attempt with `peer` ends.
    pub(crate) async fn down(&mut self, peer: &str) -> DownReason {
        self.notice("end", |notice| match notice {
            Notice::Down(_, name, reason) if &*name == peer => Some(reason),
            _ => None,
        })
        .await
    }

    /// Waits until the kernel is to have (or not have) a route.
    pub(crate) async fn route(&mut self, prefix: &str, there: bool) {
        let wanted = net(prefix);
        let search = async {
            while let Some(change) = self.routes.recv().await {
                if change.net == wanted && change.next_hops.is_empty() != there {
                    return;
                }
            }
            panic!("the speaker ended");
        };
        timeout(LONG, search).await.unwrap_or_else(|_| panic!("{prefix}: not so ({there})"));
    }

    /// Reads all notices that are there already; panics where a session ended.
    pub(crate) async fn assert_undisturbed(&mut self) {
        // A question is answered in order, so everything up to now has been noticed.
        self.handle.status().await.unwrap();
        while let Ok(Some(told)) = timeout(Duration::from_millis(1), self.notices.next()).await {
            if let Told::Notice(Notice::Down(_, name, reason)) = told {
                panic!("speaker {}: session with {name} ended: {reason}", self.number);
            }
        }
    }
}

/// Peer `number` of speaker `of`: takes everything, retries quickly. Named `peer-NUMBER`.
pub(crate) fn peer(number: u8, of: u8) -> PeerConfig {
    let rule = |net: IpNet| AddressRule { net, min: 0, max: net.max_prefix_len() };
    PeerConfig {
        name: format!("peer-{number}").into(),
        address: loopback(number),
        scope: None,
        asn: PeerAsn::Number(asn(number)),
        port: 179,
        local_address: Some(loopback(of)),
        transport: Transport { md5: None, ttl: Ttl::Hops(1) },
        passive: false,
        shutdown: None,
        withheld: None,
        families: Family::ALL.to_vec(),
        hold_time: Some(Duration::from_secs(90)),
        keepalive: None,
        connect_retry: Duration::from_millis(500),
        graceful_restart: None,
        extended_messages: true,
        add_path_receive: false,
        role: None,
        import: Some(Import {
            accept: vec![rule(net("0.0.0.0/0")), rule(net("::/0"))],
            max_prefixes: 1_000_000,
        }),
        export: Export::default(),
        // A loopback address is no way to anywhere.
        next_hops: NextHops {
            ipv4: Some(Ipv4Addr::new(10, 0, 0, of)),
            ipv6: format!("2001:db8::{of}").parse().ok(),
        },
    }
}

/// Two speakers with a session between them.
pub(crate) async fn pair(first: u8, second: u8) -> (Speaker, Speaker) {
    let (mut a, mut b) = (Speaker::start(first), Speaker::start(second));
    connect(&mut a, &mut b, |_| {}).await;
    (a, b)
}

/// Makes two speakers each other's peers, and waits for the session. One waits for the other, so
/// that there is never a second connection to be got rid of.
pub(crate) async fn connect(a: &mut Speaker, b: &mut Speaker, change: impl Fn(&mut PeerConfig)) {
    let (mut to_b, mut to_a) = (b.as_peer(a), a.as_peer(b));
    to_b.passive = true;
    change(&mut to_b);
    change(&mut to_a);
    let (name_b, name_a): (Arc<str>, Arc<str>) = (to_b.name.clone(), to_a.name.clone());
    a.peers(vec![to_b]).await;
    b.peers(vec![to_a]).await;
    a.up(&name_b).await;
    b.up(&name_a).await;
}

/// Waits until `ask` has what is wanted.
pub(crate) async fn until<T, F: Future<Output = T>>(
    what: &str,
    mut ask: impl FnMut() -> F,
    wanted: impl Fn(&T) -> bool,
) -> T
where
    T: Debug,
{
    let search = async {
        loop {
            let answer = ask().await;
            if wanted(&answer) {
                return answer;
            }
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LONG, search).await.unwrap_or_else(|_| panic!("not so: {what}"))
}
