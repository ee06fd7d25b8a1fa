//! A node and its pods as network namespaces, made and deleted by each test.
//!
//! Decides the isolation: names are unique to the process and the test, the
//! dataplane under test runs on a thread inside the node's namespace, and
//! everything is deleted when the test ends, well or not. Needs root and
//! `ip`; without them a test fails, it does not skip.
#![allow(dead_code, reason = "each test binary uses its own part of the lab")]

pub(crate) mod policy;

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use flock_dataplane::{Netns, PodLink, host_ifname};

static COUNTER: AtomicU32 = AtomicU32::new(0);

fn unique(kind: &str) -> String {
    format!("fdp{kind}{}x{}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed))
}

pub(crate) fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(
        output.status.success(),
        "{program} {}: {}{}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr),
        String::from_utf8_lossy(&output.stdout)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// A network namespace that goes away with it.
pub(crate) struct Space {
    pub(crate) name: String,
}

impl Space {
    pub(crate) fn new(kind: &str) -> Self {
        let name = unique(kind);
        run("ip", &["netns", "add", &name]);
        Self { name }
    }

    pub(crate) fn path(&self) -> String {
        format!("/run/netns/{}", self.name)
    }

    pub(crate) fn netns(&self) -> Netns {
        Netns::open(self.path()).unwrap()
    }

    /// Moves the calling thread into it.
    pub(crate) fn enter(&self) {
        let file = std::fs::File::open(self.path()).unwrap();
        let kind = rustix::thread::LinkNameSpaceType::Network;
        rustix::thread::move_into_link_name_space(file.as_fd(), Some(kind)).unwrap();
    }

    /// Runs `work` on a thread inside it.
    pub(crate) fn within<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let file = std::fs::File::open(self.path()).unwrap();
        std::thread::spawn(move || {
            let kind = rustix::thread::LinkNameSpaceType::Network;
            rustix::thread::move_into_link_name_space(file.as_fd(), Some(kind)).unwrap();
            work()
        })
        .join()
        .unwrap()
    }

    pub(crate) fn ip(&self, arguments: &str) -> String {
        let mut all = vec!["-n", self.name.as_str()];
        all.extend(arguments.split_whitespace());
        run("ip", &all)
    }

    pub(crate) fn exec(&self, command: &str) -> String {
        let mut all = vec!["netns", "exec", self.name.as_str()];
        all.extend(command.split_whitespace());
        run("ip", &all)
    }

    pub(crate) fn nft(&self, command: &str) -> String {
        run("ip", &["netns", "exec", &self.name, "nft", command])
    }

    pub(crate) fn sysctl(&self, name: &str, value: &str) {
        let (name, value) = (name.to_owned(), value.to_owned());
        self.within(move || std::fs::write(format!("/proc/sys/{name}"), value).unwrap());
    }

    /// Whether one packet to `to` (from `from`) is answered within a second.
    pub(crate) fn reaches_from(&self, to: IpAddr, from: Option<IpAddr>) -> bool {
        let mut command = Command::new("ip");
        // Until one is answered, or the time is over: a machine may be busy for a second.
        let ping = ["ping", "-n", "-c", "1", "-i", "0.3", "-w", "2"];
        command.args(["netns", "exec", &self.name]).args(ping);
        if let Some(from) = from {
            command.args(["-I", &from.to_string()]);
        }
        command.arg(to.to_string()).output().unwrap().status.success()
    }

    pub(crate) fn reaches(&self, to: impl Into<IpAddr>) -> bool {
        self.reaches_from(to.into(), None)
    }

    /// All there is to see in it, for "exactly as before".
    pub(crate) fn picture(&self) -> String {
        let mut picture = String::new();
        for what in [
            "-o -d link show",
            "-o address show",
            "-4 route show table all",
            "-6 route show table all",
            "rule show",
        ] {
            picture.push_str(&self.ip(what));
            picture.push('\n');
        }
        picture.lines().map(|line| format!("{}\n", stable(line))).collect()
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.name]).output();
    }
}

/// A line without what no undo can or need bring back: a loopback that was up
/// once keeps its queue, and a carrier comes when it comes.
fn stable(line: &str) -> String {
    let mut words = line.split_whitespace();
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        match word {
            "qdisc" | "state" => drop(words.next()),
            flags if flags.starts_with('<') => kept.push(flags.replace("NO-CARRIER,", "")),
            other => kept.push(other.to_owned()),
        }
    }
    kept.join(" ")
}

/// Runs an async test on a thread inside a fresh node.
pub(crate) fn on_node<F, Fut>(test: F)
where
    F: FnOnce(Space) -> Fut + Send + 'static,
    Fut: Future<Output = ()>,
{
    let node = Space::new("n");
    let thread = std::thread::spawn(move || {
        node.enter();
        node.ip("link set lo up");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(test(node));
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// Links of the node's to routers beyond it, up and with addresses: `up0` and
/// `alt0` on the node, `up1` and `alt1` beyond. At rest: the kernel makes no
/// addresses of its own on them, and the carrier is there.
pub(crate) struct Uplinks {
    pub(crate) beyond: Space,
    /// The indices of `up0` and `alt0`.
    pub(crate) up: u32,
    pub(crate) alt: u32,
}

impl Uplinks {
    pub(crate) fn new(node: &Space) -> Self {
        let beyond = Space::new("t");
        beyond.ip("link set lo up");
        for (link, n) in [("up", 9), ("alt", 8)] {
            let far = format!("peer name {link}1 netns {}", beyond.name);
            node.ip(&format!("link add {link}0 type veth {far}"));
            for (space, end, host) in [(node, 0, 1), (&beyond, 1, 2)] {
                space.ip(&format!("addr add 10.{n}.0.{host}/24 dev {link}{end}"));
                space.ip(&format!("addr add 2001:db8:{n}::{host}/64 dev {link}{end} nodad"));
                space.ip(&format!("addr add fe80::{host}/64 dev {link}{end} nodad"));
                space.ip(&format!("link set {link}{end} addrgenmode none"));
                space.ip(&format!("link set {link}{end} up"));
            }
        }
        for link in ["up0", "alt0"] {
            let tries = (0..1000).take_while(|_| {
                std::thread::sleep(std::time::Duration::from_millis(1));
                !node.ip(&format!("-o link show {link}")).contains("state UP")
            });
            assert!(tries.count() < 1000, "{link} has no carrier");
        }
        Self { beyond, up: index(node, "up0"), alt: index(node, "alt0") }
    }
}

pub(crate) fn index(space: &Space, link: &str) -> u32 {
    let link = link.to_owned();
    space.within(move || rustix::net::netdevice::name_to_index(socket(), &link).unwrap())
}

fn socket() -> std::os::fd::OwnedFd {
    use rustix::net::{AddressFamily, SocketType, socket};
    socket(AddressFamily::INET, SocketType::DGRAM, None).unwrap()
}

pub(crate) fn ip6(n: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0xa, 0, 0, 0, 0, n)
}

pub(crate) fn ip4(n: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 244, 1, n)
}

/// A dual-stack pod's link, number `n`.
pub(crate) fn dual(pod: &Space, n: u8) -> PodLink {
    PodLink {
        host_ifname: host_ifname(&pod.name),
        ifname: "eth0".to_owned(),
        netns: pod.netns(),
        mtu: 1500,
        host_mac: None,
        pod_mac: None,
        ip6: Some(ip6(u16::from(n))),
        ip4: Some(ip4(n)),
        addresses: Vec::new(),
        anycast: Vec::new(),
    }
}

pub(crate) fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}
