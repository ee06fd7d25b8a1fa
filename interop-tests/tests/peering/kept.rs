//! Learned routes outlive the agent: they stay in the kernel while it is away and while it comes
//! back, and what the ToRs do not tell again goes once they have told everything.

use std::fs;
use std::path::PathBuf;

use anyhow::ensure;
use rack::binaries::tool;
use rack::fabric::{BEYOND_V4, BEYOND_V6, Fabric};
use rack::process::Daemon;
use rack::router::{Brand, Route};
use rack::storm::Storm;
use rack::wait::{PATIENCE, until};
use serde_json::json;

use super::scene::{
    DEFAULTS, TORS, accept, await_complete, await_defaults, await_learned, ip, learned, pair,
    peer_config, start,
};

/// What goes while the agent is away, once for each way of going.
const FLEETING: [&str; 2] = ["198.51.100.0/24", "2001:db8:77::/48"];

/// What the kernel says of a node's routes, as it happens.
struct Witness {
    _monitor: Daemon,
    file: PathBuf,
}

impl Witness {
    fn new(fabric: &Fabric, name: &str) -> Self {
        let node = fabric.node(1).unwrap();
        let file = node.file(name);
        let mut command = node.netns().command(tool("ip").unwrap()).unwrap();
        command.args(["-o", "monitor", "route"]);
        let monitor = Daemon::start("ip monitor", &mut command, &file).unwrap();
        // It listens once it has told of something.
        let mut mark = 0_u32;
        until("ip monitor to listen", PATIENCE, || {
            mark += 1;
            node.netns().ip(&format!("route add 203.0.113.200/32 dev lo metric {mark}"))?;
            let said = fs::read_to_string(&file)?;
            ensure!(said.contains("203.0.113.200"), "it says {said:?}");
            Ok(())
        })
        .unwrap();
        Self { _monitor: monitor, file }
    }

    /// The prefixes of learned routes that were deleted so far.
    fn deleted(&self) -> Vec<String> {
        let said = fs::read_to_string(&self.file).unwrap();
        let lines = said.lines().filter_map(|line| line.strip_prefix("Deleted "));
        let learned = lines.filter(|line| line.contains("proto 241") && line.contains("metric 32"));
        let mut all: Vec<_> =
            learned.filter_map(|line| Some(line.split_whitespace().next()?.to_owned())).collect();
        all.sort();
        all.dedup();
        all
    }

    /// Awaits that these were deleted and no others; it may be a moment behind.
    fn await_deleted(&self, wanted: &[String]) {
        until("what was deleted", PATIENCE, || {
            let deleted = self.deleted();
            ensure!(deleted == wanted, "{} were deleted: {deleted:?}", deleted.len());
            Ok(())
        })
        .unwrap();
    }
}

#[test]
fn learned_routes_stay_while_the_agent_is_away_and_what_is_not_told_again_goes() {
    let mut fabric = pair().nodes(1).build().unwrap();
    fabric.tor_mut(TORS[0]).unwrap().router.announce(&FLEETING.map(Route::new)).unwrap();
    accept(&mut fabric, 1, &json!([DEFAULTS, FLEETING].concat()));
    start(&mut fabric);
    let everything = [DEFAULTS, FLEETING].concat();
    let by_both: Vec<_> = everything.iter().map(|prefix| (*prefix, &TORS[..])).collect();
    await_learned(&fabric, 1, &by_both);
    let pod = fabric.add_pod(1, "pod", &[]).unwrap();
    let storm = Storm::start(&pod.pod.netns, &[BEYOND_V6, BEYOND_V4].map(ip), 500).unwrap();
    storm.await_answers(20).unwrap();
    let witness = Witness::new(&fabric, "routes");

    let mut gone = Vec::new();
    for (way, fleeting) in ["kill", "terminate"].into_iter().zip(FLEETING) {
        let node = fabric.node_mut(1).unwrap();
        match way {
            "kill" => node.kill().unwrap(),
            _ => node.terminate().unwrap(),
        }
        let there = learned(fabric.node(1).unwrap().netns()).unwrap();
        assert!(there.contains_key(fleeting), "{way}: {there:?}");
        // Nobody hears it; the other ToR takes it back as well.
        fabric.tor_mut(TORS[0]).unwrap().router.withdraw(fleeting).unwrap();
        fabric.tor(TORS[1]).unwrap().router.await_no_path(fleeting).unwrap();
        assert_eq!(learned(fabric.node(1).unwrap().netns()).unwrap(), there, "{way}");
        assert_eq!(witness.deleted(), gone, "{way}: while the agent is away");
        fabric.node_mut(1).unwrap().start().unwrap();
        fabric.node_mut(1).unwrap().await_ready().unwrap();
        TORS.iter().for_each(|tor| await_complete(&fabric, 1, tor));
        gone.push(fleeting.to_owned());
        gone.sort();
        let left: Vec<_> = by_both
            .iter()
            .filter(|(prefix, _)| !gone.contains(&(*prefix).to_owned()))
            .copied()
            .collect();
        await_learned(&fabric, 1, &left);
        witness.await_deleted(&gone);
    }
    await_defaults(&fabric, 1, &TORS);
    storm.await_answers(20).unwrap();
    storm.stop().unwrap().ensure_perfect().unwrap();
}

#[test]
fn a_long_table_is_not_swept_before_it_was_told_again() {
    const COUNT: usize = 8_000;
    let prefix = |n: usize| format!("100.{}.{}.0/24", 64 + n / 256, n % 256);
    // One ToR: its End-of-RIB comes right behind the last route.
    let tor = TORS[0];
    let builder = Fabric::builder().tor(tor, Brand::Bird).nodes(1);
    let builder = builder.adjust(move |_, config| {
        config.routes.extend((0..COUNT).map(|n| Route::new(&prefix(n))));
    });
    let mut fabric = builder.build().unwrap();
    let import = json!({ "accept": ["100.64.0.0/10 le 24"], "maxPrefixes": 2 * COUNT });
    peer_config(&mut fabric, 1, tor)["import"] = import;
    fabric.configure(1).unwrap();
    fabric.start().unwrap();
    await_count(&fabric, COUNT);
    let witness = Witness::new(&fabric, "routes");
    fabric.node_mut(1).unwrap().kill().unwrap();
    fabric.tor_mut(tor).unwrap().router.withdraw(&prefix(7)).unwrap();
    fabric.node_mut(1).unwrap().start().unwrap();
    await_complete(&fabric, 1, tor);
    await_count(&fabric, COUNT - 1);
    witness.await_deleted(&[prefix(7)]);
}

fn await_count(fabric: &Fabric, count: usize) {
    until(&format!("{count} learned routes"), PATIENCE, || {
        let there = learned(fabric.node(1)?.netns())?.len();
        ensure!(there == count, "{there} are there");
        Ok(())
    })
    .unwrap();
}
