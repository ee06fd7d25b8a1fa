//! What the port says without a browser: the command line's own JSON, and refusals in words.

use std::process::Command;

use anyhow::ensure;
use rack::binaries::{self, tool};
use rack::netns::Netns;
use rack::node::Node;
use rack::process::Daemon;
use rack::wait::{PATIENCE, until};
use serde_json::{Value, json};

use crate::scene::PLACE;

/// What a request is answered: its status, its headers, its body.
struct Answer {
    status: u16,
    headers: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    fn error(&self) -> String {
        self.json()["error"].as_str().unwrap().to_owned()
    }
}

fn curl(netns: &Netns, arguments: &[&str]) -> Command {
    let mut command = netns.command(tool("curl").unwrap()).unwrap();
    command
        .args(["--silent", "--show-error", "--noproxy", "*", "--max-time", "30"])
        .args(arguments);
    command
}

fn ask(node: &Node, path: &str, more: &[&str]) -> Answer {
    let url = format!("http://{PLACE}{path}");
    let said = binaries::run(
        curl(node.netns(), &[&["--include", &url], more].concat()).args(["--globoff"]),
    )
    .unwrap();
    let (headers, body) = said.split_once("\r\n\r\n").unwrap();
    let status = headers.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, headers: headers.to_ascii_lowercase(), body: body.to_owned() }
}

fn node(environment: &[(&str, &str)]) -> Node {
    let mut node = Node::new().unwrap();
    node.start_with(&[&[("FLOCK_HTTP", PLACE)], environment].concat()).unwrap();
    node.await_ready().unwrap();
    node
}

/// Without what passes by itself.
fn timeless(mut value: Value) -> Value {
    match &mut value {
        Value::Object(object) => {
            object.retain(|key, _| {
                !key.to_ascii_lowercase().contains("seconds") && !key.starts_with("messages")
            });
            object.values_mut().for_each(|one| *one = timeless(one.take()));
        }
        Value::Array(list) => list.iter_mut().for_each(|one| *one = timeless(one.take())),
        _ => {}
    }
    value
}

#[test]
fn the_page_is_told_what_the_command_line_prints() {
    let scene = crate::scene::Scene::new();
    let node = scene.fabric.node(1).unwrap();
    let table: [(&str, &[&str]); 9] = [
        ("summary", &["bgp", "show"]),
        ("peers", &["bgp", "show", "peers"]),
        ("peers?name=tor-a", &["bgp", "show", "peers", "tor-a"]),
        ("routes", &["bgp", "show", "routes"]),
        (
            "routes?which=received&peer=tor-b",
            &["bgp", "show", "routes", "--received", "--peer", "tor-b"],
        ),
        ("routes?which=advertised", &["bgp", "show", "routes", "--advertised"]),
        ("routes?prefix=0.0.0.0%2F0", &["bgp", "show", "routes", "0.0.0.0/0"]),
        ("pods", &["pods"]),
        ("explain?prefix=192.0.2.53/32", &["bgp", "explain", "192.0.2.53/32"]),
    ];
    for (question, command) in table {
        until(&format!("{question} to be what {command:?} prints"), PATIENCE, || {
            let answer = ask(node, &format!("/api/v1/{question}"), &[]);
            let printed = node.cli_json(command)?;
            ensure!(answer.status == 200 && answer.headers.contains("application/json"));
            let mut said = answer.json();
            // Only a page of routes has others behind it.
            let more = said.as_object_mut().and_then(|answer| answer.remove("more"));
            ensure!(more.is_none() || more == Some(json!(false)), "{more:?}");
            let (said, printed) = (timeless(said), timeless(printed));
            ensure!(said == printed, "{said:#}\n{printed:#}");
            Ok(())
        })
        .unwrap();
    }
    let first = ask(node, "/api/v1/routes?limit=1", &[]).json();
    assert_eq!(first["more"], json!(true));
    let after = first["routes"][0]["prefix"].as_str().unwrap().to_owned();
    let second = ask(node, &format!("/api/v1/routes?limit=1&after={after}"), &[]).json();
    assert_ne!(second["routes"][0]["prefix"], json!(after));
}

#[test]
fn what_is_not_understood_is_refused_in_words() {
    let node = node(&[]);
    let table = [
        ("routes?which=some", 400, "which: unknown variant `some`"),
        ("routes?limit=many", 400, "limit: \"many\" is not a number"),
        ("routes?limit=-1", 400, "limit: \"-1\" is not a number"),
        ("routes?after=here", 400, "after: "),
        ("routes?colour=red", 400, "colour: unknown field"),
        ("routes?find=a&find=b", 400, "find: given twice"),
        ("routes?find=%ff", 400, "not UTF-8"),
        ("summary?x=1", 400, "x: unknown field"),
        ("peers?name=%zz", 400, "a % stands before two hexadecimal digits"),
        ("explain", 400, "prefix"),
        ("explain?prefix=10.0.0.1/8", 400, "bits are set beyond"),
        ("explain?prefix=10.0.0.0/8&peer=tor-z", 404, "no peer is called \"tor-z\""),
        ("", 404, "summary, peers, routes, explain, pods, check and events"),
        ("drain", 404, "summary, peers"),
        ("../../etc/passwd", 404, ""),
    ];
    for (question, status, words) in table {
        let answer = ask(&node, &format!("/api/v1/{question}"), &["--path-as-is"]);
        assert_eq!(answer.status, status, "{question}: {}", answer.body);
        assert!(answer.error().contains(words), "{question}: {}", answer.body);
    }
    let long = "x".repeat(2000);
    let answer = ask(&node, &format!("/api/v1/routes?find={long}"), &[]);
    assert_eq!((answer.status, answer.error().contains("write at most")), (400, true));
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
        for path in ["/", "/api/v1/summary", "/api/v1/check"] {
            assert_eq!(ask(&node, path, &["-X", method]).status, 405, "{method} {path}");
        }
    }
    let head = ask(&node, "/", &["--head"]);
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    assert!(
        head.headers.contains("content-security-policy: default-src 'none'; script-src 'self'")
    );
    for header in ["x-frame-options: deny", "referrer-policy: no-referrer", "nosniff"] {
        assert!(head.headers.contains(header), "{header}: {}", head.headers);
    }
    assert!(!head.headers.contains("access-control") && !head.headers.contains("set-cookie"));
}

#[test]
fn strangers_are_sent_away() {
    let mut node = node(&[]);
    for (host, status) in [
        ("127.0.0.1:9179", 200),
        ("localhost:8080", 200),
        ("[::1]:1", 200),
        ("evil.example", 403),
        ("localhost.evil.example:9179", 403),
    ] {
        let host = format!("Host: {host}");
        for path in ["/", "/page.js", "/api/v1/summary", "/api/v1/events"] {
            assert_eq!(ask(&node, path, &["-H", &host, "--head"]).status, status, "{host} {path}");
        }
        // Probes and metrics are for machines, which call the node as they like.
        assert_eq!(ask(&node, "/healthz", &["-H", &host]).status, 200, "{host}");
    }
    let refused = ask(&node, "/", &["-H", "Host: evil.example"]);
    assert!(refused.body.contains("ask for it by the address"), "{}", refused.body);
    let other_site = ["-H", "Sec-Fetch-Site: cross-site"];
    assert_eq!(ask(&node, "/api/v1/pods", &other_site).status, 403);
    assert_eq!(ask(&node, "/", &other_site).status, 200, "a link from a wiki");

    // Where it is not shown, nothing tells that there is one.
    node.restart_with(&[("FLOCK_HTTP", PLACE), ("FLOCK_HTTP_PAGE", "off")]).unwrap();
    let unknown = ask(&node, "/nothing", &[]);
    for path in ["/", "/page.js", "/api/v1/summary", "/api/v1/events"] {
        let answer = ask(&node, path, &[]);
        assert_eq!((answer.status, &answer.body), (404, &unknown.body), "{path}");
    }
    assert_eq!(ask(&node, "/healthz", &[]).status, 200);

    // On an address for others it is shown when asked for, by the node's name, too.
    let everywhere = ("FLOCK_HTTP", ":9179");
    node.restart_with(&[everywhere]).unwrap();
    assert_eq!(ask(&node, "/", &[]).status, 404);
    node.restart_with(&[everywhere, ("FLOCK_HTTP_PAGE", "on")]).unwrap();
    let own = format!("Host: {}:9179", node.name());
    assert_eq!(ask(&node, "/", &["-H", &own]).status, 200);
    assert_eq!(ask(&node, "/", &["-H", "Host: evil.example"]).status, 403);
}

#[test]
fn listeners_are_few_and_hear_of_pods() {
    let node = node(&[]);
    let url = format!("http://{PLACE}/api/v1/events");
    let heard =
        |at: usize| std::fs::read_to_string(node.file(&format!("events-{at}"))).unwrap_or_default();
    let mut listeners: Vec<Daemon> = (0..16)
        .map(|at| {
            let mut command = curl(node.netns(), &["--no-buffer", &url]);
            Daemon::start("curl", &mut command, &node.file(&format!("events-{at}"))).unwrap()
        })
        .collect();
    for at in 0..listeners.len() {
        until("the first signal", PATIENCE, || {
            ensure!(heard(at).starts_with("event: news\ndata:\n\n"), "{:?}", heard(at));
            Ok(())
        })
        .unwrap();
    }
    let refused = ask(&node, "/api/v1/events", &[]);
    assert_eq!(refused.status, 503);
    assert!(refused.error().contains("16 listen already"), "{}", refused.body);
    assert_eq!(
        ask(&node, "/api/v1/summary", &[]).status,
        200,
        "questions have places of their own"
    );

    let before = heard(0).len();
    let pod = rack::pod::Pod::new("pod").unwrap();
    node.plugin().unwrap().add(&pod).unwrap();
    until("the news of a pod", PATIENCE, || {
        ensure!(heard(0).len() > before, "{:?}", heard(0));
        Ok(())
    })
    .unwrap();

    listeners.pop().unwrap().kill().unwrap();
    until("a free place", PATIENCE, || {
        let answer = ask(&node, "/api/v1/events", &["--head"]);
        ensure!(answer.status == 200);
        let mut command = curl(node.netns(), &["--no-buffer", &url]);
        listeners.push(Daemon::start("curl", &mut command, &node.file("events-16"))?);
        until("a signal", std::time::Duration::from_secs(1), || {
            ensure!(heard(16).contains("event: news"), "{}", heard(16));
            Ok(())
        })
    })
    .unwrap();
}
