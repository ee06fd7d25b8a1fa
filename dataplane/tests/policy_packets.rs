//! What the policy's table does to real packets: pods on a node, wired as the agent wires them.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test says what went wrong by ending there"
)]

mod lab;

use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use flock_dataplane::policy::{Change, Direction, DroppedPacket, Element, Layout, Ports};
use flock_dataplane::{Dataplane, Error, NodeSettings, PodLink};
use lab::policy::{TCP, UDP, allowed, block, egress, ingress, member, own, range, subject};
use lab::{Space, address, dual, on_node};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto, socket_with,
};

/// What became of a packet.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Arrived,
    Dropped(String, Direction),
}

struct Pod {
    space: Space,
    link: PodLink,
}

impl Pod {
    fn name(&self) -> &str {
        &self.link.host_ifname
    }

    fn address(&self, v6: bool) -> IpAddr {
        if v6 { self.link.ip6.unwrap().into() } else { self.link.ip4.unwrap().into() }
    }
}

/// Three pods on a node. Their addresses end in 2, 3 and 4.
struct Net {
    dataplane: Dataplane,
    pods: [Pod; 3],
}

const FAMILIES: [bool; 2] = [false, true];

impl Net {
    async fn new() -> Self {
        let dataplane = Dataplane::start().unwrap();
        dataplane.prepare_node(&NodeSettings::default()).await.unwrap();
        let pods = [2, 3, 4].map(|n| {
            let space = Space::new("p");
            let link = dual(&space, n);
            Pod { space, link }
        });
        for pod in &pods {
            dataplane.attach(pod.link.clone()).await.unwrap();
        }
        Self { dataplane, pods }
    }

    async fn policy(&self, elements: Vec<Element>) {
        self.dataplane.replace_policy(elements, Layout::default()).await.unwrap();
    }

    async fn change(&self, removed: Vec<Element>, added: Vec<Element>) {
        self.dataplane.change_policy(Change { removed, added }).await.unwrap();
    }

    /// Sends, and waits until it has arrived or is counted as dropped.
    async fn fate(&self, send: impl FnOnce(), mut arrived: impl FnMut() -> bool) -> Fate {
        let before = self.dataplane.policy_drops().await.unwrap();
        send();
        let start = Instant::now();
        loop {
            if arrived() {
                return Fate::Arrived;
            }
            for now in self.dataplane.policy_drops().await.unwrap() {
                let was = before
                    .iter()
                    .find(|was| was.ifname == now.ifname && was.direction == now.direction);
                if was.map_or(0, |was| was.packets) < now.packets {
                    return Fate::Dropped(now.ifname, now.direction);
                }
            }
            assert!(start.elapsed() < Duration::from_secs(10), "neither arrived nor dropped");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// A datagram from one pod to another's port.
    async fn datagram(&self, from: usize, to: usize, v6: bool, port: u16) -> Fate {
        let (from, to) = (&self.pods[from], &self.pods[to]);
        let target = SocketAddr::new(to.address(v6), port);
        let source = SocketAddr::new(from.address(v6), 0);
        let listener = to.space.within(move || UdpSocket::bind(target).unwrap());
        listener.set_nonblocking(true).unwrap();
        let send = || {
            from.space.within(move || {
                UdpSocket::bind(source).unwrap().send_to(b"hello", target).unwrap();
            });
        };
        self.fate(send, || listener.recv_from(&mut [0; 16]).is_ok()).await
    }

    /// The beginning of a connection.
    async fn connection(&self, from: usize, to: usize, v6: bool, port: u16) -> Fate {
        let (from, to) = (&self.pods[from], &self.pods[to]);
        let target = SocketAddr::new(to.address(v6), port);
        let listener = to.space.within(move || TcpListener::bind(target).unwrap());
        listener.set_nonblocking(true).unwrap();
        // Closed with the answer: no attempt of it comes later, when another is expected.
        let mut caller = None;
        let send = || {
            caller = Some(from.space.within(move || {
                let family = if v6 { AddressFamily::INET6 } else { AddressFamily::INET };
                let flags = SocketFlags::NONBLOCK;
                let socket = socket_with(family, SocketType::STREAM, flags, None).unwrap();
                let begun = rustix::net::connect(&socket, &target);
                assert_eq!(begun, Err(rustix::io::Errno::INPROGRESS));
                socket
            }));
        };
        self.fate(send, || listener.accept().is_ok()).await
    }

    /// An ICMP message of these first bytes, with or without sense.
    async fn icmp(&self, from: usize, to: usize, v6: bool, begins: [u8; 2]) -> Fate {
        let (from, to) = (&self.pods[from], &self.pods[to]);
        let target = SocketAddr::new(to.address(v6), 0);
        let raw = move || {
            let (family, protocol) = if v6 {
                (AddressFamily::INET6, ipproto::ICMPV6)
            } else {
                (AddressFamily::INET, ipproto::ICMP)
            };
            rustix::net::socket(family, SocketType::RAW, Some(protocol)).unwrap()
        };
        let listener = to.space.within(raw);
        // Another number each time, so that none is of a connection that is known.
        static NUMBER: AtomicU16 = AtomicU16::new(0);
        let [high, low] = NUMBER.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let mut message = vec![begins[0], begins[1], 0, 0, high, low, 5, 0];
        message.resize(64, 0x45);
        if !v6 {
            let sum = checksum(&message);
            message[2..4].copy_from_slice(&sum);
        }
        let send = || {
            from.space.within(move || {
                rustix::net::sendto(raw(), &message, SendFlags::empty(), &target).unwrap();
            });
        };
        let arrived = || {
            let mut bytes = [0u8; 256];
            while let Ok((length, _)) =
                rustix::net::recv(&listener, &mut bytes, RecvFlags::DONTWAIT)
            {
                let at = if v6 { 0 } else { 20 };
                // The pod itself sends and hears neighbour discovery.
                if bytes[..length].get(at..at + 2) == Some(&begins[..]) {
                    return true;
                }
            }
            false
        };
        self.fate(send, arrived).await
    }

    fn in_dropped(&self, pod: usize) -> Fate {
        Fate::Dropped(self.pods[pod].name().to_owned(), Direction::Ingress)
    }

    fn out_dropped(&self, pod: usize) -> Fate {
        Fate::Dropped(self.pods[pod].name().to_owned(), Direction::Egress)
    }
}

fn checksum(bytes: &[u8]) -> [u8; 2] {
    let words = bytes.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    (!u16::try_from(folded).unwrap()).to_be_bytes()
}

/// Both addresses of a pod are of a class.
fn members(pod: &Pod, class: u32) -> Vec<Element> {
    FAMILIES.map(|v6| member(&pod.address(v6).to_string(), class)).to_vec()
}

#[test]
fn who_is_isolated_is_sent_only_what_is_allowed() {
    on_node(|_node| async move {
        let net = Net::new().await;
        let [a, b, c] = &net.pods;
        for v6 in FAMILIES {
            assert_eq!(net.datagram(1, 0, v6, 80).await, Fate::Arrived, "without any policy");
        }
        // Nothing is allowed.
        net.policy(vec![ingress(a.name(), 1)]).await;
        for v6 in FAMILIES {
            assert_eq!(net.datagram(1, 0, v6, 80).await, net.in_dropped(0));
            assert_eq!(net.connection(1, 0, v6, 80).await, net.in_dropped(0));
            assert_eq!(
                net.icmp(1, 0, v6, if v6 { [128, 0] } else { [8, 0] }).await,
                net.in_dropped(0)
            );
            // The others are not concerned, nor what it sends.
            assert_eq!(net.datagram(1, 2, v6, 80).await, Fate::Arrived);
            assert_eq!(net.datagram(0, 2, v6, 80).await, Fate::Arrived);
        }
        // One class may one port of one protocol.
        let mut elements = vec![ingress(a.name(), 2), allowed(2, 7, Ports::One(UDP, 80))];
        elements.extend(members(b, 7));
        elements.extend(members(c, 8));
        net.policy(elements).await;
        for v6 in FAMILIES {
            assert_eq!(net.datagram(1, 0, v6, 80).await, Fate::Arrived);
            assert_eq!(net.datagram(1, 0, v6, 81).await, net.in_dropped(0));
            assert_eq!(net.connection(1, 0, v6, 80).await, net.in_dropped(0));
            assert_eq!(net.datagram(2, 0, v6, 80).await, net.in_dropped(0));
        }
        // The pod changes its class, and the link what it is held against, at once.
        let gone = members(b, 7).into_iter().chain([ingress(a.name(), 2)]).collect();
        let come = members(b, 8)
            .into_iter()
            .chain([ingress(a.name(), 3), allowed(3, 8, Ports::One(UDP, 81))]);
        let before = net.dataplane.policy_drops().await.unwrap();
        net.change(gone, come.collect()).await;
        assert_eq!(net.dataplane.policy_drops().await.unwrap(), before, "counters are kept");
        assert!(before[0].packets >= 6 && before[0].bytes > before[0].packets * 28, "{before:?}");
        for v6 in FAMILIES {
            assert_eq!(net.datagram(1, 0, v6, 80).await, net.in_dropped(0));
            assert_eq!(net.datagram(1, 0, v6, 81).await, Fate::Arrived);
            assert_eq!(net.datagram(2, 0, v6, 81).await, Fate::Arrived);
        }
        net.dataplane.remove_policy().await.unwrap();
        for v6 in FAMILIES {
            assert_eq!(net.datagram(1, 0, v6, 80).await, Fate::Arrived);
        }
    });
}

/// All that can be said of ports, for a pod, a block and anybody, in both directions.
#[test]
fn every_kind_of_ports_is_allowed_to_every_kind_of_peer() {
    on_node(|_node| async move {
        let net = Net::new().await;
        let [a, b, _] = &net.pods;
        let at = |v6| b.address(v6).to_string();
        let peers: [(&str, u32, Vec<Element>); 3] = [
            ("pod", 7, members(b, 7)),
            ("block", 7, FAMILIES.map(|v6| block(&at(v6), &at(v6), 7)).to_vec()),
            ("anybody", 0, vec![]),
        ];
        let ranges = [range(UDP, 80, 89, 5), range(UDP, 90, 99, 70_000), range(TCP, 80, 100, 6)];
        for direction in [Direction::Ingress, Direction::Egress] {
            let (from, to) = if direction == Direction::Ingress { (1, 0) } else { (0, 1) };
            let dropped = || Fate::Dropped(a.name().to_owned(), direction);
            for (who, class, elements) in &peers {
                for (ports, udp80, udp89, udp90, tcp80, ping) in [
                    (Ports::One(UDP, 80), true, false, false, false, false),
                    (Ports::Range(5), true, true, false, false, false),
                    (Ports::Range(70_000), false, false, true, false, false),
                    (Ports::Range(6), false, false, false, true, false),
                    (Ports::Protocol(UDP), true, true, true, false, false),
                    (Ports::Protocol(TCP), false, false, false, true, false),
                    (Ports::All, true, true, true, true, true),
                ] {
                    let mut all = elements.clone();
                    all.extend(ranges.iter().cloned());
                    all.extend([subject(direction, a.name(), 9), allowed(9, *class, ports)]);
                    net.policy(all).await;
                    for v6 in FAMILIES {
                        let is = |expected| if expected { Fate::Arrived } else { dropped() };
                        let what = format!("{direction:?} {who} {ports:?} v6 {v6}");
                        for (port, expected) in [(80, udp80), (89, udp89), (90, udp90)] {
                            let fate = net.datagram(from, to, v6, port).await;
                            assert_eq!(fate, is(expected), "{what} {port}");
                        }
                        assert_eq!(net.connection(from, to, v6, 80).await, is(tcp80), "{what}");
                        let echo = if v6 { [128, 0] } else { [8, 0] };
                        assert_eq!(net.icmp(from, to, v6, echo).await, is(ping), "{what}");
                    }
                }
            }
        }
    });
}

#[test]
fn both_ends_have_to_allow_and_answers_pass() {
    on_node(|_node| async move {
        let net = Net::new().await;
        let [a, b, _] = &net.pods;
        let mut elements = vec![
            egress(a.name(), 2),
            ingress(a.name(), 1),
            ingress(b.name(), 3),
            egress(b.name(), 1),
            allowed(2, 7, Ports::One(UDP, 80)),
        ];
        elements.extend(members(a, 6));
        elements.extend(members(b, 7));
        net.policy(elements).await;
        for v6 in FAMILIES {
            assert_eq!(net.datagram(0, 1, v6, 81).await, net.out_dropped(0));
            assert_eq!(net.datagram(0, 1, v6, 80).await, net.in_dropped(1));
        }
        net.change(vec![], vec![allowed(3, 6, Ports::One(UDP, 80))]).await;
        for v6 in FAMILIES {
            assert_eq!(net.datagram(0, 1, v6, 80).await, Fate::Arrived);
            // The answer, although b may send nothing and a may be sent nothing.
            let [near, far] = [a.address(v6), b.address(v6)];
            let asks = a.space.within(move || UdpSocket::bind(SocketAddr::new(near, 0)).unwrap());
            let answers =
                b.space.within(move || UdpSocket::bind(SocketAddr::new(far, 80)).unwrap());
            for socket in [&asks, &answers] {
                socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            }
            let question = SocketAddr::new(far, 80);
            asks.send_to(b"question", question).unwrap();
            let (_, asker) = answers.recv_from(&mut [0; 16]).unwrap();
            answers.send_to(b"answer", asker).unwrap();
            assert_eq!(asks.recv_from(&mut [0; 16]).unwrap().0, 6);
            // Which opens nothing else.
            assert_eq!(net.datagram(1, 0, v6, 80).await, net.out_dropped(1));
        }
    });
}

#[test]
fn what_tells_of_a_smaller_mtu_passes() {
    on_node(|_node| async move {
        let net = Net::new().await;
        let [a, b, _] = &net.pods;
        net.policy(vec![ingress(a.name(), 1), egress(b.name(), 1)]).await;
        // Of no connection that is known.
        assert_eq!(net.icmp(2, 0, true, [2, 0]).await, Fate::Arrived);
        assert_eq!(net.icmp(2, 0, false, [3, 4]).await, Fate::Arrived);
        // A pod that may send nothing may not send that: it could say anything with it.
        assert_eq!(net.icmp(1, 0, true, [2, 0]).await, net.out_dropped(1));
        assert_eq!(net.icmp(1, 0, false, [3, 4]).await, net.out_dropped(1));
        // Others of its kind do not.
        assert_eq!(net.icmp(1, 0, true, [1, 4]).await, net.out_dropped(1));
        assert_eq!(net.icmp(2, 0, true, [1, 4]).await, net.in_dropped(0));
        assert_eq!(net.icmp(2, 0, false, [3, 1]).await, net.in_dropped(0));
    });
}

/// A block ends where it ends, also where another begins, and at the last address of all.
#[test]
fn blocks_lie_side_by_side() {
    on_node(|_node| async move {
        let net = Net::new().await;
        let [a, _, _] = &net.pods;
        let blocks = |class3: u32, class4: u32| {
            vec![
                block("10.244.1.0", "10.244.1.2", 9),
                block("10.244.1.3", "10.244.1.3", class3),
                block("10.244.1.4", "255.255.255.255", class4),
                block("::", "2001:db8:a::2", 9),
                block("2001:db8:a::3", "2001:db8:a::3", class3),
                block("2001:db8:a::4", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", class4),
            ]
        };
        let rules = [ingress(a.name(), 2), allowed(2, 5, Ports::One(UDP, 80))];
        for (reversed, three, four) in [(false, 5, 6), (true, 5, 6), (false, 6, 5), (true, 6, 5)] {
            let mut elements: Vec<Element> = blocks(three, four);
            elements.extend(rules.iter().cloned());
            if reversed {
                elements.reverse();
            }
            net.policy(elements).await;
            for v6 in FAMILIES {
                let is = |class| if class == 5 { Fate::Arrived } else { net.in_dropped(0) };
                assert_eq!(net.datagram(1, 0, v6, 80).await, is(three), "{reversed}");
                assert_eq!(net.datagram(2, 0, v6, 80).await, is(four), "{reversed}");
            }
        }
        // They change places in one transaction.
        net.change(blocks(6, 5), blocks(5, 6)).await;
        for v6 in FAMILIES {
            assert_eq!(net.datagram(1, 0, v6, 80).await, Fate::Arrived);
            assert_eq!(net.datagram(2, 0, v6, 80).await, net.in_dropped(0));
        }
        // Gaps are nobody's; and a pod is what its class says, not what is around it.
        net.change(blocks(5, 6), vec![block("10.0.0.0", "10.244.1.2", 5)]).await;
        assert_eq!(net.datagram(1, 0, false, 80).await, net.in_dropped(0));
        net.change(vec![], vec![block("10.244.1.3", "10.244.1.255", 5)]).await;
        assert_eq!(net.datagram(1, 0, false, 80).await, Fate::Arrived);
        net.change(vec![], vec![member("10.244.1.3", 4)]).await;
        assert_eq!(net.datagram(1, 0, false, 80).await, net.in_dropped(0));
        assert_eq!(net.datagram(2, 0, false, 80).await, Fate::Arrived);
    });
}

/// By an address that the node leads back to the pod (a service of its own).
#[test]
fn a_pod_reaches_itself() {
    on_node(|node| async move {
        let net = Net::new().await;
        let pod = &net.pods[0];
        pod.space.nft(
            "table inet seen { chain seen { type filter hook prerouting priority -400;
             ip daddr 192.0.2.53 counter; ip6 daddr 2001:db8:ca::1 counter; }; }",
        );
        let own_addresses = [("192.0.2.53", false, 0), ("2001:db8:ca::1", true, 1)];
        for (to, v6, _) in own_addresses {
            node.ip(&format!("route add {to} via {} dev {} onlink", pod.address(v6), pod.name()));
        }
        let seen = |which: usize| {
            let listed = pod.space.nft("list table inet seen");
            let counters = listed.lines().filter(|line| line.contains("counter packets"));
            let line = counters.map(str::to_owned).nth(which).unwrap();
            !line.contains("packets 0")
        };
        let isolated = [ingress(pod.name(), 1), egress(pod.name(), 1)];
        for (to, v6, which) in own_addresses {
            let target = SocketAddr::new(address(to), 80);
            let from = pod.address(v6);
            let send = || {
                pod.space.within(move || {
                    let socket = UdpSocket::bind(SocketAddr::new(from, 0)).unwrap();
                    socket.send_to(b"hello", target).unwrap();
                });
            };
            net.policy(isolated.to_vec()).await;
            assert_eq!(net.fate(send, || seen(which)).await, net.out_dropped(0), "{to}");
            net.change(vec![], vec![own(&from.to_string(), to)]).await;
            assert_eq!(net.fate(send, || seen(which)).await, Fate::Arrived, "{to}");
        }
    });
}

/// Each link counts for itself, and each direction.
#[test]
fn drops_are_counted_where_they_happen() {
    on_node(|_node| async move {
        let net = Net::new().await;
        let [a, b, _] = &net.pods;
        net.policy(vec![ingress(a.name(), 1), egress(a.name(), 1), egress(b.name(), 1)]).await;
        for _ in 0..3 {
            assert_eq!(net.datagram(2, 0, false, 80).await, net.in_dropped(0));
        }
        for _ in 0..2 {
            assert_eq!(net.datagram(0, 2, true, 80).await, net.out_dropped(0));
        }
        // Where both would, the sender's is asked first.
        assert_eq!(net.datagram(1, 0, true, 80).await, net.out_dropped(1));
        let drops = net.dataplane.policy_drops().await.unwrap();
        let counted = |pod: &Pod, direction| {
            let found = drops.iter().find(|d| d.ifname == pod.name() && d.direction == direction);
            found.map(|found| (found.packets, found.bytes))
        };
        // Headers and five bytes: 33 in IPv4, 53 in IPv6.
        assert_eq!(counted(a, Direction::Ingress), Some((3, 3 * 33)));
        assert_eq!(counted(a, Direction::Egress), Some((2, 2 * 53)));
        assert_eq!(counted(b, Direction::Egress), Some((1, 53)));
        assert_eq!(drops.len(), 3);
    });
}

#[test]
fn some_of_what_is_dropped_is_told_of() {
    on_node(|node| async move {
        let net = Net::new().await;
        let [a, b, c] = &net.pods;
        let isolated = vec![ingress(a.name(), 1), egress(b.name(), 1)];
        let mut drops = net.dataplane.watch_drops().unwrap();
        // The group is one listener's.
        assert!(matches!(net.dataplane.watch_drops(), Err(Error::Kernel { .. })));
        // Not where it is not wanted.
        net.policy(isolated.clone()).await;
        assert_eq!(net.datagram(2, 0, false, 70).await, net.in_dropped(0));
        net.dataplane.replace_policy(isolated, Layout { log_drops: true }).await.unwrap();
        let mut next = async || {
            let next = tokio::time::timeout(Duration::from_secs(10), drops.recv());
            next.await.unwrap().unwrap()
        };
        for v6 in FAMILIES {
            let expected =
                |link: &Pod, direction, from: &Pod, to: &Pod, protocol, port| DroppedPacket {
                    ifname: link.name().to_owned(),
                    direction,
                    source: from.address(v6),
                    destination: to.address(v6),
                    protocol,
                    port,
                };
            assert_eq!(net.datagram(2, 0, v6, 80).await, net.in_dropped(0));
            assert_eq!(next().await, expected(a, Direction::Ingress, c, a, UDP, Some(80)));
            assert_eq!(net.connection(1, 2, v6, 443).await, net.out_dropped(1));
            assert_eq!(next().await, expected(b, Direction::Egress, b, c, TCP, Some(443)));
            let (echo, icmp) = if v6 { ([128, 0], 58) } else { ([8, 0], 1) };
            assert_eq!(net.icmp(2, 0, v6, echo).await, net.in_dropped(0));
            assert_eq!(next().await, expected(a, Direction::Ingress, c, a, icmp, None));
        }
        // A flood is a few lines: as many as at once, and ten in a second.
        let target = SocketAddr::new(a.address(false), 9);
        c.space.within(move || {
            let socket = UdpSocket::bind(("0.0.0.0", 0)).unwrap();
            for _ in 0..300 {
                socket.send_to(b"flood", target).unwrap();
            }
        });
        let mut told = 0;
        while tokio::time::timeout(Duration::from_millis(200), drops.recv()).await.is_ok() {
            told += 1;
        }
        let counted = net.dataplane.policy_drops().await.unwrap();
        let counted = counted.iter().find(|drop| drop.ifname == a.name()).unwrap().packets;
        assert!(told >= 1 && told < counted / 2, "{told} of {counted}");
        // Without a listener nothing changes but that nobody hears, and another may listen.
        drop(drops);
        assert_eq!(net.datagram(2, 0, false, 80).await, net.in_dropped(0));
        let start = Instant::now();
        while net.dataplane.watch_drops().is_err() {
            assert!(start.elapsed() < Duration::from_secs(10), "the group is never free again");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        node.nft("list ruleset");
    });
}
