//! Peers up, down and restarted; prefixes; how fast they hear.

use anyhow::ensure;
use rack::fabric::Fabric;
use serde_json::json;

use crate::page::Page;
use crate::{peers, running};

fn page(fabric: &Fabric) -> Page {
    Page::of(fabric.node(1).unwrap()).unwrap()
}

fn await_page(fabric: &Fabric, what: &str, check: impl Fn(&Page) -> anyhow::Result<()>) -> Page {
    Page::awaited(fabric.node(1).unwrap(), what, check)
}

/// Both ToRs are up and have told, and were told, everything.
fn await_complete(fabric: &Fabric) -> Page {
    await_page(fabric, "both sessions complete", |page| {
        for peer in ["peer=\"tor-a\"", "peer=\"tor-b\""] {
            ensure!(page.sum("flock_bgp_session_up", &[peer])? == 1.0, "{peer} is down");
            ensure!(page.sum("flock_bgp_session_end_of_rib", &[peer])? == 4.0, "{peer}");
        }
        Ok(())
    })
}

#[test]
fn two_peers_up_and_one_down_with_its_reason() {
    let fabric = running();
    await_complete(&fabric);
    let page = await_page(&fabric, "the reason of the one that is down", |page| {
        let labels = ["peer=\"gone\"", "side=\"tcp\"", "code=\"0\"", "subcode=\"0\""];
        ensure!(page.sum("flock_bgp_session_last_error_info", &labels)? == 1.0);
        Ok(())
    });
    let sum = |name: &str, labels: &[&str]| page.sum(name, labels).unwrap();
    for peer in ["tor-a", "tor-b", "gone"] {
        let up = f64::from(u8::from(peer != "gone"));
        let peer = format!("peer=\"{peer}\"");
        assert_eq!(sum("flock_bgp_session_up", &[&peer]), up, "{peer}");
        let states = &page.samples["flock_bgp_session_state"];
        let own: Vec<_> = states.iter().filter(|(labels, _)| labels.contains(&peer)).collect();
        assert_eq!((own.len(), sum("flock_bgp_session_state", &[&peer])), (6, 1.0), "{peer}");
        let established = [peer.as_str(), "state=\"Established\""];
        assert_eq!(sum("flock_bgp_session_state", &established), up, "{peer}");
    }
    assert_eq!((sum("flock_bgp_peers", &[]), sum("flock_bgp_ready_sessions", &[])), (3.0, 2.0));
    let seconds = |name: &str, labels: &[&str]| sum(name, labels);
    let when = seconds("flock_bgp_session_last_error_timestamp_seconds", &["peer=\"gone\""]);
    let began = seconds("process_start_time_seconds", &[]);
    assert!((began - 1.0..began + 600.0).contains(&when), "{when}, the agent began at {began}");
    // Both ToRs tell a default route of each family, and get the node's two networks.
    for tor in ["peer=\"tor-a\"", "peer=\"tor-b\""] {
        for family in ["family=\"ipv4\"", "family=\"ipv6\""] {
            let of = |name: &str| sum(name, &[tor, family]);
            assert_eq!(of("flock_bgp_prefixes_accepted"), 1.0, "{tor} {family}");
            assert!(of("flock_bgp_prefixes_received") >= 1.0, "{tor} {family}");
            assert_eq!(of("flock_bgp_prefixes_advertised"), 1.0, "{tor} {family}");
            assert_eq!(of("flock_bgp_prefixes_pending"), 0.0, "{tor} {family}");
        }
        assert_eq!(sum("flock_bgp_prefix_limit", &[tor]), 1000.0);
        for direction in ["direction=\"sent\"", "direction=\"received\""] {
            let labels = [tor, direction, "type=\"update\""];
            assert!(sum("flock_bgp_messages_total", &labels) >= 2.0, "{tor} {direction}");
        }
    }
    for family in ["family=\"ipv4\"", "family=\"ipv6\""] {
        for name in ["flock_fib_learned_routes", "flock_fib_installed_routes"] {
            assert_eq!(sum(name, &[family]), 1.0, "{name} {family}");
        }
        let summary = ["kind=\"summary\"", family];
        assert_eq!(sum("flock_bgp_originated_prefixes", &summary), 1.0);
        assert_eq!(sum("flock_node_routes", &summary), 1.0);
    }
    assert!(sum("flock_bgp_bytes_total", &["direction=\"sent\""]) > 100.0);
}

#[test]
fn counters_only_grow_while_sessions_end_and_come_back() {
    let mut fabric = running();
    let first = await_complete(&fabric);
    let of_tor_b = |fabric: &mut Fabric, asn: u32| {
        let peer = peers(fabric).iter_mut().find(|peer| peer["name"] == "tor-b").unwrap();
        peer["asn"] = json!(asn);
        fabric.configure(1).unwrap();
    };
    of_tor_b(&mut fabric, 65009);
    let labels = ["peer=\"tor-b\"", "code=\"2\"", "subcode=\"2\"", "side=\"sent\""];
    let second = await_page(&fabric, "the wrong AS to be told", |page| {
        ensure!(page.sum("flock_bgp_session_last_error_info", &labels)? == 1.0);
        ensure!(page.sum("flock_bgp_session_up", &["peer=\"tor-b\""])? == 0.0);
        Ok(())
    });
    of_tor_b(&mut fabric, 65000);
    let third = await_complete(&fabric);
    let flaps = |page: &Page, peer| page.sum("flock_bgp_session_flaps_total", &[peer]).unwrap();
    let [before, after] = [&first, &third].map(|page| flaps(page, "peer=\"tor-b\""));
    assert!(after > before, "{after}, before {before}");
    assert_eq!(flaps(&first, "peer=\"tor-a\""), flaps(&third, "peer=\"tor-a\""));
    for (earlier, later) in [(&first, &second), (&second, &third)] {
        later.has_grown_from(earlier);
    }
}

#[test]
fn it_is_measured_how_long_peers_take_to_hear_of_a_pod() {
    let fabric = running();
    let count = "flock_bgp_update_latency_seconds_count";
    let before = await_complete(&fabric).sum(count, &[]).unwrap();
    let heard = |times: f64, what: &str| {
        await_page(&fabric, what, |page| {
            let now = page.sum(count, &[])?;
            ensure!(now == before + times, "{now} measured, {before} before");
            Ok(())
        });
    };
    // Within the summary: nobody is told anything.
    let plain = fabric.add_pod(1, "plain", &[]).unwrap();
    let mut pod = fabric.add_pod(1, "web", &[("anycast", "192.0.2.1")]).unwrap();
    heard(1.0, "the ADD to be measured");
    fabric.set_ready(&mut pod, false).unwrap();
    heard(2.0, "the withdrawal to be measured");
    fabric.set_ready(&mut pod, true).unwrap();
    heard(3.0, "the announcement to be measured");
    let now = page(&fabric);
    let anycast = ["kind=\"anycast\"", "family=\"ipv4\""];
    assert_eq!(now.sum("flock_bgp_originated_prefixes", &anycast).unwrap(), 1.0);
    assert_eq!(now.sum("flock_node_routes", &anycast).unwrap(), 1.0);
    fabric.remove_pod(pod).unwrap();
    heard(4.0, "the DEL to be measured");
    fabric.remove_pod(plain).unwrap();
    let now = page(&fabric);
    assert_eq!(now.sum(count, &[]).unwrap(), before + 4.0, "of the other nobody hears");
    assert!(now.sum("flock_bgp_update_latency_seconds_sum", &[]).unwrap() > 0.0);
    for never in ["timeouts", "dropped"] {
        let name = format!("flock_bgp_update_latency_{never}_total");
        assert_eq!(now.sum(&name, &[]).unwrap(), 0.0, "{name}");
    }
}
