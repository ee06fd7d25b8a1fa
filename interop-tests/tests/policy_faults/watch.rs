//! Packets that nobody stops sending, and a count of those that come where none should.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rack::netns::Netns;
use rack::policy::rig::{Rig, Spot};
use rack::wait::{PATIENCE, until};
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
use serde_json::Value;

/// Somebody who sends datagrams of one flow and asks for one connection after another, all the time.
pub(crate) struct Hammer {
    over: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    worker: Option<JoinHandle<()>>,
}

impl Hammer {
    pub(crate) fn start(rig: &Rig, from: &Spot, targets: [IpAddr; 2]) -> Self {
        let (over, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let netns = Netns::of_someone_else(&rig.station(from).unwrap().netns().path()).unwrap();
        let (told, counted, sources) = (Arc::clone(&over), Arc::clone(&sent), from.addresses);
        let worker = thread::spawn(move || {
            netns.enter().unwrap();
            let flows = sources.map(|source| UdpSocket::bind((source, 0)).unwrap());
            while !told.load(Ordering::Relaxed) {
                for (flow, target) in flows.iter().zip(targets) {
                    let _may_find_no_way = flow.send_to(b"let me in", (target, 80));
                    knock(SocketAddr::new(target, 80));
                }
                counted.fetch_add(1, Ordering::Relaxed);
                thread::sleep(Duration::from_millis(1));
            }
        });
        Self { over, sent, worker: Some(worker) }
    }

    /// Awaits so many more of everything.
    pub(crate) fn await_more(&self, more: u64) {
        let before = self.sent.load(Ordering::Relaxed);
        until("more packets", PATIENCE, || {
            let sent = self.sent.load(Ordering::Relaxed) - before;
            anyhow::ensure!(sent >= more, "{sent} were sent");
            Ok(())
        })
        .unwrap();
    }
}

impl Drop for Hammer {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ended = self.worker.take().map(JoinHandle::join);
    }
}

/// Asks for a connection, and does not wait for it.
fn knock(to: SocketAddr) {
    let family = if to.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None).unwrap();
    let _not_yet = connect(&socket, &to);
}

/// Counts, inside of a pod, what comes from these.
pub(crate) fn watch(pod: &Netns, from: &[&Spot]) {
    let of = |family: usize| {
        let all: Vec<_> = from.iter().map(|spot| spot.addresses[family].to_string()).collect();
        all.join(", ")
    };
    let rules = format!(
        "table inet watch {{\n counter leaked {{\n }}\n chain arriving {{\n \
         type filter hook prerouting priority raw\n \
         ip saddr {{ {} }} counter name leaked\n ip6 saddr {{ {} }} counter name leaked\n }}\n}}\n",
        of(0),
        of(1)
    );
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), rules).unwrap();
    pod.exec("nft", &["-f", file.path().to_str().unwrap()]).unwrap();
}

/// How many came.
pub(crate) fn leaked(pod: &Netns) -> u64 {
    let said = pod.exec("nft", &["-j", "list", "counter", "inet", "watch", "leaked"]).unwrap();
    let said: Value = serde_json::from_str(&said).unwrap();
    let counters = said["nftables"].as_array().unwrap();
    counters.iter().find_map(|one| one.pointer("/counter/packets")?.as_u64()).unwrap()
}
