//! What a person does: reads, searches, asks why, without a mouse.

use anyhow::ensure;
use rack::browser::{Browser, key};
use rack::wait::{PATIENCE, until};
use serde_json::json;

use crate::scene::{DNS, GATEWAY, Scene, TORS};

fn active(browser: &Browser) -> String {
    browser.text("document.activeElement.innerText ?? ''").unwrap()
}

/// Tabs on until something has the focus.
fn tab_to(browser: &Browser, wanted: &str) {
    for _ in 0..40 {
        browser.press(key::TAB).unwrap();
        if active(browser).trim() == wanted {
            let outline = "getComputedStyle(document.activeElement).outlineStyle";
            assert_eq!(browser.text(outline).unwrap(), "solid", "the focus on {wanted} is seen");
            return;
        }
    }
    panic!("no {wanted} to be reached by Tab:\n{}", browser.shown());
}

fn await_hash(browser: &Browser, wanted: &str) {
    browser
        .await_true(&format!("the view {wanted}"), &format!("location.hash === {}", json!(wanted)))
        .unwrap();
}

fn await_focus(browser: &Browser, wanted: &str) {
    until(&format!("the focus on {wanted}"), PATIENCE, || {
        let active = active(browser);
        ensure!(active.contains(wanted), "it is on {active:?}");
        Ok(())
    })
    .unwrap();
}

#[test]
fn sessions_routes_and_pods_are_read_with_the_keyboard_alone() {
    let scene = Scene::new();
    let browser = &scene.browser;
    scene.open("sessions");
    for tor in TORS {
        scene.await_row(tor, "Established");
    }
    let header = browser.text("document.querySelector('header').innerText").unwrap();
    for said in ["node-1", "AS 65001", "router ID", "in service", "2 of 2"] {
        assert!(header.contains(said), "{said}: {header}");
    }

    // One peer in full, and closed again.
    tab_to(browser, TORS[0]);
    browser.press(key::DOWN).unwrap();
    await_focus(browser, TORS[1]);
    browser.press(key::ENTER).unwrap();
    let detail = browser.await_text("tr.detail", "keepalive").unwrap();
    for said in ["Local address", "65000 (external), ours is 65001", "10.255.0.2", "ipv4-unicast"] {
        assert!(detail.contains(said), "{said}: {detail}");
    }
    await_focus(browser, TORS[1]);
    browser.press(key::ESCAPE).unwrap();
    browser.await_true("no detail", "!document.querySelector('tr.detail')").unwrap();

    // A search from anywhere, as one types; Enter goes to what was found, and then to why.
    browser.press("/").unwrap();
    browser.await_true("the search", "document.activeElement.matches('#routes-find')").unwrap();
    browser.press("dns-0").unwrap();
    scene.await_row(&format!("{}/32", DNS[1]), "this node");
    browser
        .await_true("only those", "!document.querySelector('main').innerText.includes('0.0.0.0/0')")
        .unwrap();
    await_hash(browser, "#/routes?find=dns-0");
    browser.press(key::ENTER).unwrap();
    await_focus(browser, DNS[1]);
    browser.press(key::ENTER).unwrap();
    await_hash(browser, &format!("#/explain/{}/32", DNS[1]));
    browser.await_text(".answer", "dns-0").unwrap();
    browser.press(key::ESCAPE).unwrap();
    await_hash(browser, "#/routes?find=dns-0");
    await_focus(browser, DNS[1]);
    browser.press(key::DOWN).unwrap();
    await_focus(browser, DNS[0]);

    // An address finds what holds it.
    browser.press("/").unwrap();
    browser.press(key::ESCAPE).unwrap();
    browser.press(key::ESCAPE).unwrap();
    browser.press("/10.244.2.9").unwrap();
    scene.await_row("10.244.2.0/24", "learned");
    scene.await_row("0.0.0.0/0", "best");

    // The pods, by the tabs.
    scene.open("sessions");
    tab_to(browser, "Pods");
    browser.press(key::ENTER).unwrap();
    scene.await_row("default/dns-1", "announced");
    scene.await_row("default/gateway", "not announced");
    scene.await_row("default/web-7c9d", "flock");
    let current = "document.querySelector('[aria-current=page]').innerText";
    assert_eq!(browser.text(current).unwrap(), "Pods");
    browser.press("/").unwrap();
    browser.press(GATEWAY).unwrap();
    browser.await_text("main .tally", "1 of 4 pods").unwrap();

    // The doctor, when asked.
    tab_to(browser, "Check");
    browser.press(key::ENTER).unwrap();
    scene.browser.await_text("main .tally", " well, ").unwrap();
    scene.await_row("sysctl", "ok");
    scene.end();
}

#[test]
fn tables_and_choices_are_what_they_say_to_those_who_listen() {
    let scene = Scene::new();
    let browser = &scene.browser;
    for view in ["sessions", "routes", "pods", "explain", "check"] {
        scene.open(view);
        browser.await_true("the view", "document.querySelector('main section') !== null").unwrap();
        let nameless = "[...document.querySelectorAll('input, select, button, a')].filter(one =>
            !(one.labels?.length || one.innerText?.trim() || one.ariaLabel)).map(one => one.outerHTML)";
        assert_eq!(browser.value(nameless).unwrap(), json!([]), "{view}");
        let headless = "[...document.querySelectorAll('table')].filter(one => !one.caption
            || [...one.querySelectorAll('th')].some(head => !head.scope)).length";
        assert_eq!(browser.value(headless).unwrap(), json!(0), "{view}");
        let title = browser.text("document.title").unwrap();
        assert!(title.to_lowercase().contains(view), "{title}");
    }
    scene.end();
}
