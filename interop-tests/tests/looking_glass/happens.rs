//! What happens while somebody looks: it is seen without a reload, and the page stays where it is.

use anyhow::ensure;
use rack::wait::{PATIENCE, until};
use serde_json::json;

use crate::scene::{DNS, GATEWAY, Scene, TORS, start_agent};

/// The page was not loaded anew.
fn mark(scene: &Scene) {
    scene.browser.script("window.marked = true;", &[]).unwrap();
}

fn ensure_marked(scene: &Scene) {
    assert_eq!(scene.browser.value("window.marked === true").unwrap(), json!(true));
}

#[test]
fn a_session_goes_down_and_comes_back_before_ones_eyes() {
    let mut scene = Scene::new();
    scene.open("sessions");
    scene.await_row(TORS[1], "Established");
    mark(&scene);
    // Its details are open, and stay so.
    scene.browser.click("tr[data-key='tor-b'] button").unwrap();
    scene.browser.await_text("tr.detail", "Local address").unwrap();

    scene.fabric.tor_mut(TORS[1]).unwrap().router.kill().unwrap();
    scene.await_row(TORS[1], "connection");
    let gone =
        "document.querySelector(\"tr[data-key='tor-b'] .state\").innerText !== 'Established'";
    scene.browser.await_true("another state", gone).unwrap();
    scene.browser.await_text("#figures", "1 of 2").unwrap();
    scene.browser.await_text(".history", "tor-b went down").unwrap();
    assert!(scene.browser.text("document.title").unwrap().starts_with("1 down"));
    let said = scene.browser.text("document.querySelector('#said').textContent").unwrap();
    assert!(said.contains("tor-b went down"), "also to those who listen: {said}");
    // It says when it is tried again, and with what outcome.
    scene.browser.await_text("tr.detail", "Sessions ended").unwrap();

    scene.fabric.tor_mut(TORS[1]).unwrap().router.start_again().unwrap();
    scene.await_row(TORS[1], "Established");
    scene.browser.await_text(".history", "tor-b is Established").unwrap();
    scene.browser.await_text("#figures", "2 of 2").unwrap();
    ensure_marked(&scene);
    scene.end();
}

#[test]
fn a_pod_stops_being_ready_and_its_address_is_withdrawn_before_ones_eyes() {
    let mut scene = Scene::new();
    scene.open("pods");
    scene.await_row("default/dns-0", "announced");
    mark(&scene);
    // What was typed and where the focus is stays, whatever changes around it.
    scene.browser.press("/default/").unwrap();
    scene.browser.await_text("main .tally", "4 of 4 pods, 3 Ready").unwrap();

    scene.fabric.set_ready(&mut scene.dns[0], false).unwrap();
    scene.await_row("default/dns-0", "announced for another pod");
    scene.fabric.set_ready(&mut scene.dns[1], false).unwrap();
    scene.await_row("default/dns-1", "not announced");
    scene.fabric.set_ready(&mut scene.gateway, true).unwrap();
    scene.await_row("default/gateway", "\nannounced");
    scene.browser.await_text("main .tally", "4 of 4 pods, 2 Ready").unwrap();
    let typed = "document.activeElement.matches('#pods-find') && document.activeElement.value";
    assert_eq!(scene.browser.value(typed).unwrap(), json!("default/"));

    // The routes follow, too.
    scene.open("routes?which=originated");
    scene.await_row(&format!("{GATEWAY}/32"), "best");
    let shown = scene.browser.shown();
    assert!(!shown.contains(DNS[1]), "{shown}");
    mark(&scene);
    scene.fabric.set_ready(&mut scene.dns[0], true).unwrap();
    scene.await_row(&format!("{}/32", DNS[1]), "dns-0");
    ensure_marked(&scene);
    scene.end();
}

#[test]
fn the_agent_goes_away_and_comes_back() {
    let mut scene = Scene::new();
    scene.open("sessions");
    scene.await_row(TORS[0], "Established");
    mark(&scene);
    scene.end();

    scene.fabric.node_mut(1).unwrap().kill().unwrap();
    scene.browser.await_text("#live", "agent away since").unwrap();
    scene.browser.await_text("#banner", "does not answer since").unwrap();
    // What was known is still shown, and time stands still.
    let uptime = "document.querySelector('[data-kind=span]').innerText";
    let before = scene.browser.text(uptime).unwrap();
    scene.await_row(TORS[0], "Established");
    until("some time to pass", PATIENCE, || {
        let passed =
            scene.browser.value("performance.now() - (window.since ??= performance.now())")?;
        ensure!(passed.as_f64() > Some(2500.0), "{passed}");
        Ok(())
    })
    .unwrap();
    assert_eq!(scene.browser.text(uptime).unwrap(), before);

    start_agent(&mut scene.fabric);
    scene.await_live();
    scene.browser.await_true("no banner", "document.querySelector('#banner').hidden").unwrap();
    scene.fabric.await_sessions().unwrap();
    scene.browser.await_text("#figures", "2 of 2").unwrap();
    ensure_marked(&scene);
    // A browser complains of an agent that is away, and of nothing else.
    let complaints = scene.browser.console().unwrap();
    let others: Vec<_> = complaints.iter().filter(|said| !said.contains("net::ERR_")).collect();
    assert!(others.is_empty(), "{others:#?}");
    scene.ensure_requests_stay_here();
}
