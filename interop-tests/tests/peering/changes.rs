//! Ten thousand changes of NodeConfig, pods and readiness, and not one reset: what the protocol lets
//! change, changes live. And what it does not: only the peer concerned begins anew, gracefully.

use std::collections::BTreeMap;
use std::net::IpAddr;

use anyhow::{Context, Result, ensure};
use rack::fabric::{Fabric, PodOnNode, TOR_ASN};
use rack::router::Path;
use rack::wait::{PATIENCE, until};
use serde_json::{Value, json};

use super::scene::{
    DEFAULTS, Lasting, TORS, await_complete, await_defaults, await_learned, await_peer, last_error,
    log, pair, peer, peer_config, start,
};

const CHANGES: u32 = 10_000;
/// So often the first ToR is awaited: whoever only writes would see most changes merged into one.
const LOOK: u32 = 50;
/// And so often everything is compared.
const AUDIT: u32 = 2_500;
const SEED: u64 = 0x5eed_0fc4_a4e5_0001;

const SUMMARIES: [&str; 2] = ["2001:db8:0:1::/64", "10.244.1.0/24"];
const EXTRA: [&str; 2] = ["2001:db8:0:101::/64", "10.244.101.0/24"];
const ANYCAST: [&str; 2] = ["2001:db8:cafe::1", "192.0.2.1"];
const MOST_PODS: usize = 3;

/// xorshift64*: the same numbers in every run.
struct Dice(u64);

impl Dice {
    /// One of so many.
    fn of(&mut self, count: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % count
    }

    fn coin(&mut self) -> bool {
        self.of(2) == 1
    }
}

/// What the NodeConfig says, as far as it is changed here.
struct Wish {
    communities: Vec<String>,
    export: Value,
    import: Value,
    announce_pods: bool,
    mtu: u64,
    keepalive: u64,
    extra: bool,
    second: bool,
}

impl Wish {
    /// Changes one thing.
    fn change(&mut self, dice: &mut Dice) {
        match dice.of(10) {
            0 => {
                let all = ["65001:1", "65001:2", "65001:3:4"];
                let chosen = all.iter().filter(|_| dice.coin());
                self.communities = chosen.map(|one| (*one).to_owned()).collect();
            }
            1 => self.export["med"] = json!(dice.of(1000)),
            2 => self.export["prepend"] = json!(dice.of(4)),
            3 => self.export["localPref"] = json!(dice.of(1000)),
            4 => {
                self.export["communities"] =
                    if dice.coin() { json!(["65001:77"]) } else { json!([]) };
            }
            5 => {
                let wide = json!(["::/0", "0.0.0.0/0", "2001:db8::/32 le 48"]);
                let rules = [json!(["::/0", "0.0.0.0/0"]), json!(["::/0"]), wide, json!([])];
                self.import["accept"] = rules[usize::try_from(dice.of(4)).unwrap()].clone();
            }
            6 => self.import["maxPrefixes"] = json!(100 + dice.of(1000)),
            7 => self.announce_pods = dice.coin(),
            8 => self.extra = dice.coin(),
            _ => match dice.of(4) {
                0 => self.second = dice.coin(),
                1 => self.mtu = 1400 + dice.of(100),
                _ => self.keepalive = 3 + dice.of(6),
            },
        }
    }

    fn write(&self, fabric: &Fabric, template: &Value) {
        let mut config = template.clone();
        let spec = &mut config["spec"];
        if self.extra {
            for (key, net) in ["cidr6", "cidr4"].into_iter().zip(EXTRA) {
                spec[key].as_array_mut().unwrap().push(json!(net));
            }
        }
        spec["mtu"] = json!(self.mtu);
        spec["bgp"]["communities"] = json!(self.communities);
        spec["bgp"]["announcePods"] = json!(self.announce_pods);
        let peers = spec["bgp"]["peers"].as_array_mut().unwrap();
        if !self.second {
            peers.truncate(1);
        }
        peers[0]["keepalive"] = json!(format!("{}s", self.keepalive));
        peers[0]["import"] = self.import.clone();
        for peer in peers {
            peer["export"] = self.export.clone();
        }
        fabric.node(1).unwrap().configure(&config).unwrap();
    }

    /// Whether a path is what this says.
    fn check(&self, path: &Path) -> Result<()> {
        let own = self.export["communities"].as_array().into_iter().flatten();
        let own = own.filter_map(Value::as_str).map(str::to_owned);
        let (mut large, mut plain): (Vec<String>, Vec<String>) = self
            .communities
            .iter()
            .cloned()
            .chain(own)
            .partition(|one| one.matches(':').count() == 2);
        large.sort();
        plain.sort();
        ensure!(path.communities == plain, "communities {plain:?}: {path:?}");
        ensure!(path.large_communities == large, "large communities {large:?}: {path:?}");
        let med = self.export["med"].as_u64().map(|med| u32::try_from(med).unwrap());
        ensure!(path.med == med, "MED {med:?}: {path:?}");
        let hops = 1 + self.export["prepend"].as_u64().unwrap_or(0);
        ensure!(path.as_path == vec![65_001; usize::try_from(hops)?], "{hops} hops: {path:?}");
        Ok(())
    }
}

/// A node, what it is told, and its pods.
struct Scene {
    fabric: Fabric,
    template: Value,
    wish: Wish,
    /// Those with the anycast addresses, and whether they are Ready.
    anycast: Vec<(PodOnNode, bool)>,
    pods: Vec<PodOnNode>,
    /// Addresses of pods that were there.
    former: Vec<IpAddr>,
}

impl Scene {
    fn new() -> Self {
        let mut fabric = pair().nodes(1).hold_time(90).build().unwrap();
        let template = fabric.node_config_mut(1).unwrap().clone();
        let wish = Wish {
            communities: Vec::new(),
            export: json!({}),
            import: json!({ "accept": ["::/0", "0.0.0.0/0"] }),
            announce_pods: false,
            mtu: 1500,
            keepalive: 30,
            extra: false,
            second: true,
        };
        wish.write(&fabric, &template);
        start(&mut fabric);
        let served = ANYCAST.join(",");
        let anycast = ["first", "second"]
            .map(|name| (fabric.add_pod(1, name, &[("anycast", &served)]).unwrap(), true));
        let anycast = anycast.into_iter().collect();
        Self { fabric, template, wish, anycast, pods: Vec::new(), former: Vec::new() }
    }

    fn change(&mut self, dice: &mut Dice) {
        match dice.of(100) {
            0 if dice.coin() && self.pods.len() < MOST_PODS => {
                self.pods.push(self.fabric.add_pod(1, "passing", &[]).unwrap());
            }
            0 => {
                if !self.pods.is_empty() {
                    let pod = self.pods.remove(0);
                    self.former.extend(pod.addresses());
                    self.fabric.remove_pod(pod).unwrap();
                }
            }
            1..=25 => {
                let at = usize::from(dice.coin());
                let (pod, ready) = &mut self.anycast[at];
                *ready = !*ready;
                self.fabric.set_ready(pod, *ready).unwrap();
            }
            _ => {
                self.wish.change(dice);
                self.wish.write(&self.fabric, &self.template);
            }
        }
    }

    /// All that may ever be announced, and whether it is to be now.
    fn expected(&self) -> BTreeMap<String, bool> {
        let mut all: BTreeMap<String, bool> =
            SUMMARIES.iter().map(|net| ((*net).to_owned(), true)).collect();
        all.extend(EXTRA.iter().map(|net| ((*net).to_owned(), self.wish.extra)));
        let served = self.anycast.iter().any(|(_, ready)| *ready);
        all.extend(ANYCAST.map(|address| (host(address.parse().unwrap()), served)));
        all.extend(self.former.iter().map(|address| (host(*address), false)));
        let pods = self.anycast.iter().map(|(pod, _)| pod).chain(&self.pods);
        let own = pods.flat_map(PodOnNode::addresses);
        all.extend(own.map(|address| (host(address), self.wish.announce_pods)));
        all
    }

    /// Awaits that a ToR has heard of the last change of the NodeConfig.
    fn await_heard(&self, tor: &str) {
        let router = &self.fabric.tor(tor).unwrap().router;
        until(&format!("the last change at {tor}"), PATIENCE, || {
            self.wish.check(&direct(router.paths(SUMMARIES[1])?)?)
        })
        .unwrap_or_else(|error| panic!("{error:#}\n{}", log(self.fabric.node(1).unwrap())));
    }

    /// Awaits that a ToR has exactly what is expected, and that the agent says the same.
    fn audit(&self, tor: &str) {
        let (router, expected) = (&self.fabric.tor(tor).unwrap().router, self.expected());
        until(&format!("everything at {tor}"), PATIENCE, || {
            for (prefix, there) in &expected {
                let paths = router.paths(prefix)?;
                if *there {
                    self.wish.check(&direct(paths)?).with_context(|| prefix.clone())?;
                } else {
                    ensure!(paths.is_empty(), "{prefix}: {paths:?}");
                }
            }
            let told = ["bgp", "show", "routes", "--advertised", "--peer", tor];
            let told = self.fabric.node(1)?.cli_json(&told)?;
            let told = told["routes"].as_array().context("no routes")?;
            let mut told: Vec<_> = told.iter().filter_map(|row| row["prefix"].as_str()).collect();
            told.sort_unstable();
            let wanted: Vec<_> =
                expected.iter().filter(|(_, there)| **there).map(|(net, _)| net.as_str()).collect();
            ensure!(told == wanted, "it tells {told:?}, not {wanted:?}");
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error:#}\n{}", log(self.fabric.node(1).unwrap())));
    }
}

/// The path by way of the node itself; the ToRs also tell each other.
fn direct(paths: Vec<Path>) -> Result<Path> {
    let own = |path: &&Path| path.next_hops.iter().any(|hop| is_cable(*hop));
    paths.iter().find(own).cloned().with_context(|| format!("none of the node's: {paths:?}"))
}

/// Whether an address is node 1's on one of its cables.
fn is_cable(address: IpAddr) -> bool {
    match address {
        IpAddr::V6(v6) => matches!(v6.segments(), [0x2001, 0xdb8, 0xf1 | 0xf2, 1, 0, 0, 0, 2]),
        IpAddr::V4(v4) => matches!(v4.octets(), [172, 16 | 17, 1, 2]),
    }
}

/// An address as a prefix.
fn host(address: IpAddr) -> String {
    format!("{address}/{}", if address.is_ipv6() { 128 } else { 32 })
}

/// How often a ToR saw a session with the node come up.
fn sessions_seen(fabric: &Fabric, tor: &str) -> usize {
    let address = fabric.session_addresses(1, tor).unwrap()[0];
    let router = &fabric.tor(tor).unwrap().router;
    let at = router.config().peers.iter().position(|peer| peer.address == address).unwrap();
    router.log().matches(&format!("peer{at}: BGP session established")).count()
}

#[test]
fn ten_thousand_changes_and_no_reset() {
    let mut scene = Scene::new();
    assert_eq!(sessions_seen(&scene.fabric, TORS[0]), 1);
    let session = Lasting::new(&scene.fabric, 1, TORS[0]);
    let mut dice = Dice(SEED);
    for number in 1..=CHANGES {
        scene.change(&mut dice);
        if number % LOOK == 0 {
            scene.await_heard(TORS[0]);
        }
        if number % AUDIT == 0 {
            scene.audit(TORS[0]);
            session.check(&scene.fabric);
        }
    }
    // A bad one at the end is refused as a whole, and the last good one stays in force.
    let mut bad = scene.template.clone();
    bad["spec"]["bgp"]["communities"] = json!(["65001:666"]);
    bad["spec"]["bgp"]["peers"] = json!([{ "name": "nobody", "address": "2001:db8::1" }]);
    scene.fabric.node(1).unwrap().configure(&bad).unwrap();
    await_refusal(&scene.fabric);
    scene.audit(TORS[0]);
    session.check(&scene.fabric);
    // And now everything at both.
    scene.wish.second = true;
    scene.wish.write(&scene.fabric, &scene.template);
    TORS.iter().for_each(|tor| scene.audit(tor));
    session.check(&scene.fabric);
    assert_eq!(sessions_seen(&scene.fabric, TORS[0]), 1, "the ToR saw another session");
}

/// Awaits that the doctor names what is wrong with the NodeConfig.
fn await_refusal(fabric: &Fabric) {
    until("the NodeConfig to be refused", PATIENCE, || {
        // check exits 1 when something failed; the report is printed all the same.
        let node = fabric.node(1)?;
        let mut command = node.netns().command(rack::binaries::flock_agent()?)?;
        command.args(["check", "-o", "json"]).env("FLOCK_ADMIN_SOCKET", node.admin_socket());
        let report: Value = serde_json::from_slice(&command.output()?.stdout)?;
        let findings = report["findings"].as_array().context("no findings")?;
        let finding = findings.iter().find(|one| one["check"] == "NodeConfig");
        let finding = finding.context("no such finding")?;
        ensure!(finding["status"] == "fail", "{finding}");
        ensure!(finding.to_string().contains("peers[0].asn"), "{finding}");
        Ok(())
    })
    .unwrap();
}

#[test]
fn what_the_protocol_has_fixed_resets_bird_alone() {
    reset_alone(TORS[0], TORS[1]);
}

#[test]
fn what_the_protocol_has_fixed_resets_frr_alone() {
    reset_alone(TORS[1], TORS[0]);
}

fn reset_alone(tor: &str, other: &str) {
    let mut fabric = pair().nodes(1).build().unwrap();
    start(&mut fabric);
    await_defaults(&fabric, 1, &TORS);
    let pod = fabric.add_pod(1, "pod", &[]).unwrap();
    let stays = Lasting::new(&fabric, 1, other);
    // From the ToR to the pod: the ToR is a helper, and keeps the way there.
    let storm = fabric.storm(tor, &[pod.v6.unwrap().into()], 500).unwrap();
    storm.await_answers(20).unwrap();
    // By which ToRs the IPv4 default is learned then.
    let (both, one) = (&TORS[..], &[other][..]);
    for (key, value, four) in [
        ("asn", json!("external"), both),
        ("families", json!(["ipv6-unicast"]), one),
        ("families", json!(["ipv6-unicast", "ipv4-unicast"]), both),
        ("asn", json!(TOR_ASN), both),
    ] {
        let what = format!("{key} {value}");
        let before = peer(&fabric, 1, tor).unwrap()["flaps"].as_u64();
        peer_config(&mut fabric, 1, tor)[key] = value;
        fabric.configure(1).unwrap();
        // Both dial at once, so that a collision may cost one more.
        await_peer(&fabric, 1, tor, &what, |row| {
            row["flaps"].as_u64() > before && row["state"] == "Established"
        });
        await_complete(&fabric, 1, tor);
        await_learned(&fabric, 1, &[(DEFAULTS[0], both), (DEFAULTS[1], four)]);
        stays.check(&fabric);
    }
    storm.await_answers(20).unwrap();
    storm.stop().unwrap().ensure_perfect().unwrap();

    // Another router is awaited there: it gets no session, and its routes go.
    peer_config(&mut fabric, 1, tor)["asn"] = json!(TOR_ASN + 999);
    fabric.configure(1).unwrap();
    await_peer(&fabric, 1, tor, "a wrong AS number", |row| last_error(row).contains("(2/2)"));
    await_defaults(&fabric, 1, one);
    stays.check(&fabric);
    peer_config(&mut fabric, 1, tor)["asn"] = json!(TOR_ASN);
    fabric.configure(1).unwrap();
    await_complete(&fabric, 1, tor);
    await_defaults(&fabric, 1, both);
    stays.check(&fabric);
}
