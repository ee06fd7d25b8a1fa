//! A rack to look at, and a browser on one of its nodes.

use rack::browser::Browser;
use rack::fabric::{Fabric, PodOnNode};
use rack::router::Brand;
use serde_json::{Value, json};

/// Each node has a namespace of its own, and so a port of its own.
pub(crate) const PLACE: &str = "127.0.0.1:9179";
pub(crate) const TORS: [&str; 2] = ["tor-a", "tor-b"];
/// Announced as long as one of its pods is Ready.
pub(crate) const DNS: [&str; 2] = ["2001:db8:53::53", "192.0.2.53"];
pub(crate) const GATEWAY: &str = "192.0.2.80";

/// The page looks again from time to time, should a signal be lost. Here none may be.
const NO_ROUNDS: &str = "const interval = window.setInterval;
    window.setInterval = (act, every) => every < 10000 ? interval(act, every) : 0;";

/// BIRD and FRR, two nodes, pods on the first, whose agent serves the page.
pub(crate) struct Scene {
    pub(crate) browser: Browser,
    pub(crate) dns: [PodOnNode; 2],
    /// A pod that is not Ready at first.
    pub(crate) gateway: PodOnNode,
    _web: PodOnNode,
    // Last: the browser is inside one of its nodes.
    pub(crate) fabric: Fabric,
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self::with(|_| ())
    }

    /// With another NodeConfig for the first node.
    pub(crate) fn with(change: impl FnOnce(&mut Value)) -> Self {
        let builder = Fabric::builder().tor(TORS[0], Brand::Bird).tor(TORS[1], Brand::Frr);
        let mut fabric = builder.nodes(2).own_asns().build().unwrap();
        let config = fabric.node_config_mut(1).unwrap();
        config["spec"]["bgp"]["communities"] = json!(["65001:100", "65001:1:7"]);
        for peer in config["spec"]["bgp"]["peers"].as_array_mut().unwrap() {
            peer["import"]["accept"] =
                json!(["::/0", "0.0.0.0/0", "2001:db8::/32 le 64", "10.244.0.0/16 le 24"]);
        }
        change(config);
        fabric.configure(1).unwrap();
        fabric.node_mut(2).unwrap().start().unwrap();
        start_agent(&mut fabric);
        fabric.node_mut(2).unwrap().await_ready().unwrap();
        fabric.await_sessions().unwrap();
        let served = DNS.join(",");
        let dns = ["dns-0", "dns-1"]
            .map(|name| fabric.add_pod(1, name, &[("anycast", served.as_str())]).unwrap());
        let not_ready = [("anycast", GATEWAY), ("ready", "false")];
        let gateway = fabric.add_pod(1, "gateway", &not_ready).unwrap();
        let web = fabric.add_pod(1, "web-7c9d", &[]).unwrap();
        let browser = Browser::start(fabric.node(1).unwrap().netns()).unwrap();
        browser.resize(1400, 820).unwrap();
        browser.prepare_pages(NO_ROUNDS).unwrap();
        Self { browser, dns, gateway, _web: web, fabric }
    }

    /// Opens a view and awaits that it follows the agent.
    pub(crate) fn open(&self, view: &str) {
        // Another address than before, so that the whole page is loaded.
        self.browser.open("about:blank").unwrap();
        self.browser.open(&format!("http://{PLACE}/#/{view}")).unwrap();
        self.await_live();
    }

    pub(crate) fn await_live(&self) {
        self.browser
            .await_true(
                "the page to be live",
                "document.querySelector('#live')?.dataset.state === 'live'",
            )
            .unwrap();
    }

    /// Awaits that a row of the table that is shown, found by a text in it, has another one as well.
    pub(crate) fn await_row(&self, of: &str, says: &str) {
        let row = format!(
            "[...document.querySelectorAll('main .grid tbody tr:not(.detail)')]\
             .some(row => row.innerText.includes({}) && row.innerText.includes({}))",
            json!(of),
            json!(says)
        );
        self.browser.await_true(&format!("a row of {of} with {says:?}"), &row).unwrap();
    }

    /// Nothing was complained about, and nobody else was asked.
    pub(crate) fn end(&self) {
        let complaints = self.browser.console().unwrap();
        assert!(complaints.is_empty(), "{complaints:#?}");
        self.ensure_requests_stay_here();
    }

    pub(crate) fn ensure_requests_stay_here(&self) {
        let requests = self.browser.requests().unwrap();
        let origin = format!("http://{PLACE}/");
        let elsewhere = |url: &&String| !url.starts_with(&origin) && !is_blank(url);
        let others: Vec<_> = requests.iter().filter(elsewhere).collect();
        assert!(others.is_empty(), "{others:?}");
        assert!(requests.iter().any(|url| url.contains("/api/v1/summary")), "{requests:?}");
    }
}

/// The page before the first one.
fn is_blank(url: &str) -> bool {
    url == "about:blank" || url == "data:,"
}

/// Starts the first node's agent with its port.
pub(crate) fn start_agent(fabric: &mut Fabric) {
    let node = fabric.node_mut(1).unwrap();
    node.start_with(&[("FLOCK_HTTP", PLACE)]).unwrap();
    node.await_ready().unwrap();
}
