//! Anycast sources come and go in transactions, however many they are.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test says what went wrong by ending there"
)]

mod lab;

use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::{Child, ChildStdout, Command, Stdio};

use flock_dataplane::{Dataplane, NodeSettings, PodLink};
use lab::{Space, dual, on_node};

fn anycast(pod: &Space, count: u16) -> PodLink {
    let mut link = dual(pod, 2);
    link.anycast = (0..count)
        .flat_map(|n| {
            let [high, low] = n.to_be_bytes();
            [
                IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0xca, 0, 0, 0, 0, n)),
                IpAddr::V4(Ipv4Addr::new(198, 18, high, low)),
            ]
        })
        .collect();
    link
}

/// `nft monitor` in a node's namespace, read up to marks of the test's own.
struct Watch {
    monitor: Child,
    lines: BufReader<ChildStdout>,
}

impl Watch {
    fn start(node: &Space) -> Self {
        let mut monitor = Command::new("ip")
            .args(["netns", "exec", &node.name, "stdbuf", "-oL", "nft", "monitor"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(monitor.stdout.take().unwrap());
        let mut watch = Self { monitor, lines };
        // It says nothing when it is ready, so it is spoken to until it answers.
        let (name, heard) = (node.name.clone(), std::sync::Arc::new(()));
        let speaking = std::thread::spawn({
            let heard = std::sync::Arc::downgrade(&heard);
            move || {
                while heard.upgrade().is_some() {
                    for command in ["add table ip spoken", "delete table ip spoken"] {
                        lab::run("ip", &["netns", "exec", &name, "nft", command]);
                    }
                }
            }
        });
        watch.until("add table ip spoken");
        drop(heard);
        speaking.join().unwrap();
        watch.transactions(node);
        watch
    }

    fn until(&mut self, mark: &str) -> Vec<String> {
        let mut seen = Vec::new();
        loop {
            let mut line = String::new();
            assert_ne!(self.lines.read_line(&mut line).unwrap(), 0, "nft monitor ended");
            if line.contains(mark) {
                return seen;
            }
            seen.push(line);
        }
    }

    /// How many there were since the last time.
    fn transactions(&mut self, node: &Space) -> usize {
        node.nft("add table ip end");
        let seen = self.until("add table ip end");
        self.until("new generation");
        node.nft("delete table ip end");
        self.until("delete table ip end");
        self.until("new generation");
        seen.iter().filter(|line| line.contains("new generation")).count()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.monitor.kill();
        let _ = self.monitor.wait();
    }
}

#[test]
fn thousands_are_let_through_and_no_longer() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        let settings = NodeSettings::default();
        dataplane.prepare_node(&settings).await.unwrap();
        let pod = Space::new("p");
        let link = anycast(&pod, 2000);
        let admitted = || {
            let table = node.nft("list table inet flock");
            table.matches(link.host_ifname.as_str()).count()
        };
        dataplane.attach(link.clone()).await.unwrap();
        assert_eq!(admitted(), 4000);
        assert_eq!(dataplane.verify(link.clone()).await.unwrap(), vec![]);
        dataplane.retire(&link.host_ifname, vec![], link.anycast.clone()).await.unwrap();
        assert_eq!(admitted(), 0);
        // And where a link went without being retired.
        dataplane.repair(link.clone()).await.unwrap();
        assert_eq!(admitted(), 4000);
        node.ip(&format!("link del {}", link.host_ifname));
        dataplane.prepare_node(&settings).await.unwrap();
        assert_eq!(admitted(), 0);
    });
}

#[test]
fn a_pods_sources_go_in_one_transaction() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        dataplane.prepare_node(&NodeSettings::default()).await.unwrap();
        let pod = Space::new("p");
        let link = anycast(&pod, 32);
        let mut watch = Watch::start(&node);
        dataplane.attach(link.clone()).await.unwrap();
        assert_eq!(watch.transactions(&node), 1);
        dataplane.retire(&link.host_ifname, vec![], link.anycast.clone()).await.unwrap();
        assert_eq!(watch.transactions(&node), 1);
        assert!(!node.nft("list table inet flock").contains(&link.host_ifname));
        // One that is not there does not keep the others.
        dataplane.repair(link.clone()).await.unwrap();
        let gone = format!("{{ \"{}\" . 198.18.0.7 }}", link.host_ifname);
        node.nft(&format!("delete element inet flock anycast4 {gone}"));
        dataplane.retire(&link.host_ifname, vec![], link.anycast.clone()).await.unwrap();
        assert!(!node.nft("list table inet flock").contains(&link.host_ifname));
        // Nor does it matter that nothing is there at all.
        node.nft("delete table inet flock");
        dataplane.retire(&link.host_ifname, vec![], link.anycast.clone()).await.unwrap();
    });
}
