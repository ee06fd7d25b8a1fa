//! How it looks: legible in light and dark, whole on narrow and wide screens, and with names that would
//! rather be something else.

use std::fs;
use std::path::Path;

use rack::browser::Browser;
use rack::netns::Netns;
use rack::pod::Pod;
use serde_json::{Value, json};

use crate::scene::{Scene, TORS};

const VIEWS: [&str; 6] = [
    "sessions/tor-a",
    "routes",
    "routes?which=advertised",
    "pods",
    "explain/192.0.2.53/32",
    "check",
];

/// Every piece of text whose colour is too near to that of what is behind it (WCAG 2.1, AA).
const FAINT: &str = "
    const channel = value => {
        const part = value / 255;
        return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    };
    const parts = colour => colour.match(/[\\d.]+/g).map(Number);
    const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
    const behind = one => {
        for (; one; one = one.parentElement) {
            const colour = parts(getComputedStyle(one).backgroundColor);
            if (colour.length === 3 || colour[3] === 1) return colour;
        }
        return [255, 255, 255];
    };
    const faint = [];
    let looked = 0;
    const look = (one, colour, words) => {
        const [a, b] = [light(parts(colour)), light(behind(one))];
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        looked += 1;
        if (ratio < 4.5) faint.push(`${ratio.toFixed(2)} ${one.tagName}.${one.className}: ${words}`);
    };
    for (const one of document.querySelectorAll('body *')) {
        if (!one.checkVisibility() || one.closest('.unseen, .skip, noscript')) continue;
        const words = [...one.childNodes].filter(node => node.nodeType === 3).map(node => node.data).join('').trim();
        if (words) look(one, getComputedStyle(one).color, words);
        if (one.placeholder) look(one, getComputedStyle(one, '::placeholder').color, one.placeholder);
    }
    return { faint, looked };
";

fn ensure_legible(browser: &Browser, what: &str) {
    // What changed a moment ago is still being marked.
    browser.await_true("nothing to be marked", "document.getAnimations().length === 0").unwrap();
    let found = browser.script(FAINT, &[]).unwrap();
    assert_eq!(found["faint"], json!([]), "{what}");
    assert!(found["looked"].as_u64() > Some(15), "{what}: {found}");
}

fn ensure_whole(browser: &Browser, what: &str) {
    let width = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]";
    let found = browser.value(width).unwrap();
    assert!(found[0].as_u64() <= found[1].as_u64(), "{what}: {found}");
}

#[test]
fn legible_in_light_and_dark_and_whole_on_every_screen() {
    let mut scene = Scene::new();
    // Every tone is to be seen: one session is down, for a reason.
    scene.fabric.tor_mut(TORS[1]).unwrap().router.kill().unwrap();
    for mode in ["light", "dark"] {
        scene.browser.prefer(&[("prefers-color-scheme", mode)]).unwrap();
        for view in VIEWS {
            scene.open(view);
            scene
                .browser
                .await_true(
                    "something to see",
                    "document.querySelectorAll('main tbody tr, .answer li').length > 0",
                )
                .unwrap();
            for width in [1400, 360] {
                scene.browser.resize(width, 820).unwrap();
                let what = format!("{view} in {mode} at {width}");
                ensure_legible(&scene.browser, &what);
                ensure_whole(&scene.browser, &what);
            }
            scene.browser.resize(1400, 820).unwrap();
        }
        let ground = scene.browser.text("getComputedStyle(document.body).backgroundColor").unwrap();
        assert_eq!(ground == "rgb(244, 246, 248)", mode == "light", "{ground}");
    }
    scene.browser.prefer(&[("prefers-reduced-motion", "reduce")]).unwrap();
    let moves = "[...document.querySelectorAll('body *')].filter(one => {
        one.classList.add('changed', 'arrived');
        return getComputedStyle(one).animationName !== 'none'; }).length";
    assert_eq!(scene.browser.value(moves).unwrap(), json!(0));
    scene.end();
}

#[test]
fn names_that_would_be_markup_are_text() {
    let evil = "<img src=x onerror=\"document.title='owned'\">\u{1b}[31mred\u{202e}";
    let scene = Scene::with(|config| {
        let peers = &mut config["spec"]["bgp"]["peers"];
        let mut peer: Value = peers[0].clone();
        peer["name"] = json!(evil);
        peer["address"] = json!("2001:db8:f1:1::66");
        peers.as_array_mut().unwrap().push(peer);
        // Who dials hears of a closed door, and no longer what was said at the end.
        peers[0]["passive"] = json!(true);
    });
    let node = scene.fabric.node(1).unwrap();
    let name = "<script>document.title='owned'</script>\u{1b}[2J";
    let pod = Pod::in_netns(name, Netns::new("evil").unwrap());
    node.plugin().unwrap().add(&pod).unwrap();
    // What a peer says at its end.
    let tor = scene.fabric.tor(TORS[0]).unwrap();
    let near = scene.fabric.session_addresses(1, TORS[0]).unwrap()[0];
    tor.router.shutdown(near, "<b>bye</b><script>document.title='owned'</script>").unwrap();

    let seen = "<img src=x onerror=\"document.title='owned'\">␛[31mred\u{fffd}";
    let script = "<script>document.title='owned'</script>␛[2J";
    scene.open("sessions");
    scene.await_row(seen, "Active");
    scene.await_row(TORS[0], "<b>bye</b><script>");
    for opener in [0, 1] {
        let open = format!("document.querySelectorAll('.opener')[{opener}].click() ?? true");
        scene.browser.value(&open).unwrap();
    }
    scene
        .browser
        .await_true("details", "document.querySelectorAll('tr.detail').length === 2")
        .unwrap();
    scene.open("pods");
    scene.await_row(script, "eth0");
    scene.open(&format!("routes?find={}", "%3Cscript%3E"));
    scene.browser.await_text("main .empty", "No route").unwrap();
    scene.open("explain/%3Cscript%3Edocument.title%3D1%3C%2Fscript%3E");
    scene.browser.await_text("main", "neither a prefix nor an address").unwrap();
    scene.open("check");
    scene.await_row("<img src=x", "warning");
    for made in ["main img", "main script", "main b"] {
        let count = format!("document.querySelectorAll('{made}').length");
        assert_eq!(scene.browser.value(&count).unwrap(), json!(0), "{made}");
    }
    let title = scene.browser.text("document.title").unwrap();
    assert!(!title.contains("owned"), "{title}");
    // The question about <script> was refused, and the browser says so.
    let complaints = scene.browser.console().unwrap();
    let others: Vec<_> =
        complaints.iter().filter(|said| !said.contains("400 (Bad Request)")).collect();
    assert!(others.is_empty(), "{others:#?}");
    scene.ensure_requests_stay_here();
}

/// For the README; written when FLOCK_WRITE_DOCS=1 is set.
#[test]
fn pictures_for_the_readme() {
    let mut scene = Scene::new();
    scene.browser.resize(1280, 600).unwrap();
    for mode in ["light", "dark"] {
        scene.browser.prefer(&[("prefers-color-scheme", mode)]).unwrap();
        scene.open("sessions");
        for tor in TORS {
            scene.await_row(tor, "Established");
        }
        let tor = scene.fabric.tor_mut(TORS[1]).unwrap();
        tor.router.kill().unwrap();
        scene.browser.await_text(".history", "tor-b went down").unwrap();
        scene.browser.click("tr[data-key='tor-a'] button").unwrap();
        scene.browser.await_text("tr.detail", "Local address").unwrap();
        scene.browser.script("document.activeElement.blur();", &[]).unwrap();
        scene
            .browser
            .await_true("nothing to be marked", "document.getAnimations().length === 0")
            .unwrap();
        let picture = scene.browser.screenshot().unwrap();
        assert!(picture.starts_with(b"\x89PNG") && picture.len() < 200_000, "{}", picture.len());
        if std::env::var_os("FLOCK_WRITE_DOCS").is_some() {
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
            fs::create_dir_all(root.join("docs/images")).unwrap();
            fs::write(root.join(format!("docs/images/looking-glass-{mode}.png")), picture).unwrap();
        }
        scene.fabric.tor_mut(TORS[1]).unwrap().router.start_again().unwrap();
        scene.fabric.await_sessions().unwrap();
    }
    scene.end();
}
