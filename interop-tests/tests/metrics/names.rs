//! Names: docs/metrics.md, the alerts and the dashboard against a scrape, by promtool where it can.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, io::Write};

use anyhow::{Result, ensure};
use rack::binaries;
use rack::manifests::Writing;
use serde_json::{Value, json};

use crate::page::{Page, curl};
use crate::running;

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn deploy(file: &str) -> PathBuf {
    root().join("deploy").join(file)
}

/// What promtool says; an error where it is not content.
fn promtool(arguments: &[&str], input: &str) -> Result<String> {
    let mut child = Command::new(binaries::tool("promtool")?)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    child.stdin.take().unwrap().write_all(input.as_bytes())?;
    let output = child.wait_with_output()?;
    let said = [output.stdout.as_slice(), &output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    ensure!(output.status.success(), "promtool {arguments:?}: {}\n{said}", output.status);
    Ok(said)
}

/// The names of metrics in a text: words that begin as ours do.
fn named(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let ours = |word: &&str| word.starts_with("flock_") || word.starts_with("process_");
    words.filter(ours).collect()
}

/// A row of docs/metrics.md: its type and labels.
type Row = (String, BTreeSet<String>);

fn documented() -> BTreeMap<String, Row> {
    let text = fs::read_to_string(root().join("docs/metrics.md")).unwrap();
    let mut rows = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("| `")) {
        let columns: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [name, kind, labels, meaning] = columns.as_slice() else { panic!("{line}") };
        assert!(!meaning.is_empty(), "{line}");
        let labels = labels.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        let row = ((*kind).to_owned(), labels);
        assert!(rows.insert(name.trim_matches('`').to_owned(), row).is_none(), "twice: {line}");
    }
    rows
}

#[test]
fn every_metric_is_documented_and_every_document_is_true() {
    let fabric = running();
    let node = fabric.node(1).unwrap();
    // One peer has a reason to be down, and a pod is isolated, so that every metric has a sample.
    let deny = json!({"metadata": {"name": "deny"}, "spec": {"podSelector": {}}});
    std::fs::create_dir_all(node.file("standalone/networkpolicies")).unwrap();
    node.write("networkpolicies/deny.yaml", &deny.to_string(), Writing::Renamed).unwrap();
    let _isolated = fabric.add_pod(1, "isolated", &[]).unwrap();
    let page = Page::awaited(node, "a reason, and a count", |page| {
        page.sum("flock_policy_dropped_packets_total", &["pod=\"isolated\""])?;
        page.sum("flock_bgp_session_last_error_info", &["peer=\"gone\""]).map(drop)
    });
    let lint = promtool(&["check", "metrics"], &page.text).unwrap();
    assert_eq!(lint, "", "promtool has something to say");
    let documented = documented();
    let scraped: BTreeMap<String, Row> = page
        .kinds
        .iter()
        .map(|(name, kind)| (name.clone(), (kind.clone(), page.labels(name))))
        .collect();
    for (name, row) in &scraped {
        assert_eq!(documented.get(name), Some(row), "{name}: docs/metrics.md, and a scrape");
    }
    for name in documented.keys() {
        assert!(scraped.contains_key(name), "{name} is documented and not scraped");
    }
    for name in page.samples.keys() {
        assert!(page.metric(name).is_some(), "{name} has no description");
    }
    for file in ["alerts.yaml", "alerts_test.yaml", "grafana-dashboard.json"] {
        let text = fs::read_to_string(deploy(file)).unwrap();
        let names = named(&text);
        assert!(names.len() > 20, "{file} names only {names:?}");
        for name in names {
            assert!(page.samples.contains_key(name), "{file}: nothing is called {name}");
        }
    }
    // What the dashboard does not show, nobody will look for.
    let dashboard = fs::read_to_string(deploy("grafana-dashboard.json")).unwrap();
    let shown: BTreeSet<&str> = named(&dashboard).iter().filter_map(|n| page.metric(n)).collect();
    let unseen: Vec<_> = scraped.keys().filter(|name| !shown.contains(name.as_str())).collect();
    assert!(unseen.len() < scraped.len() / 4, "not on the dashboard: {unseen:?}");
}

#[test]
fn whoever_asks_for_openmetrics_gets_it_and_others_the_older_text() {
    let fabric = running();
    let node = fabric.node(1).unwrap();
    let ask = |accept: &str| {
        let both = curl(node, "/metrics", &["-i", "-H", &format!("Accept: {accept}")]).unwrap();
        let (head, body) = both.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        let kind = head.lines().find_map(|line| line.strip_prefix("content-type: "));
        (kind.unwrap().to_owned(), body.to_owned())
    };
    let (kind, text) = ask("application/openmetrics-text;version=1.0.0,text/plain;q=0.5");
    assert_eq!(kind, "application/openmetrics-text; version=1.0.0; charset=utf-8");
    assert!(text.ends_with("\n# EOF\n") && text.contains("# TYPE flock_cni_calls counter\n"));
    let (kind, older) = ask("text/plain, */*");
    assert_eq!(kind, "text/plain; version=0.0.4; charset=utf-8");
    assert!(!older.contains("# EOF") && older.contains("# TYPE flock_cni_calls_total counter\n"));
    let series = |text: &str| {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let names = lines.filter_map(|line| Some(line.rsplit_once(' ')?.0.to_owned()));
        names.collect::<BTreeSet<String>>()
    };
    let differ = series(&text).symmetric_difference(&series(&older)).cloned().collect::<Vec<_>>();
    assert!(differ.iter().all(|one| one.contains("gone")), "{differ:?}");
}

/// The alerts of the rules file, with the annotations of each.
fn alerts() -> Vec<(String, Vec<String>)> {
    let text = fs::read_to_string(deploy("alerts.yaml")).unwrap();
    let mut alerts: Vec<(String, Vec<String>)> = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("- alert: ") {
            alerts.push((name.to_owned(), Vec::new()));
        } else if let Some((_, annotations)) = alerts.last_mut()
            && ["summary: ", "description: ", "runbook_url: "].iter().any(|k| line.starts_with(k))
        {
            annotations.push(line.to_owned());
        }
    }
    alerts
}

#[test]
fn the_alerts_are_valid_tell_what_to_do_and_fire_when_they_should() {
    let rules = deploy("alerts.yaml");
    promtool(&["check", "rules", rules.to_str().unwrap()], "").unwrap();
    let tests = deploy("alerts_test.yaml");
    let said = promtool(&["test", "rules", tests.to_str().unwrap()], "").unwrap();
    assert!(said.contains("SUCCESS"), "{said}");
    let alerts = alerts();
    assert!(alerts.len() >= 25, "{alerts:?}");
    let tests = fs::read_to_string(tests).unwrap();
    for (name, annotations) in alerts {
        let [summary, description, runbook] = annotations.as_slice() else {
            panic!("{name}: {annotations:?}")
        };
        assert!(summary.contains("$labels.instance"), "{name}: {summary}");
        assert!(description.len() > 20, "{name}: {description}");
        let section = format!("runbook_url: docs/operations.md#{}", name.to_lowercase());
        assert_eq!(*runbook, section);
        let silent = format!("alertname: {name}, exp_alerts: []");
        assert!(tests.contains(&silent), "{name}: no test that it is silent");
        let fires = format!("alertname: {name}\n    exp_alerts:\n    - exp_labels:");
        assert!(tests.contains(&fires), "{name}: no test that it fires");
    }
}

/// Every string under a key of this name, anywhere.
fn strings<'a>(value: &'a Value, key: &str, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(map) => {
            found.extend(map.get(key).and_then(Value::as_str));
            map.values().for_each(|value| strings(value, key, found));
        }
        Value::Array(list) => list.iter().for_each(|value| strings(value, key, found)),
        _ => {}
    }
}

#[test]
fn the_dashboard_is_valid_and_asks_what_prometheus_understands() {
    let text = fs::read_to_string(deploy("grafana-dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let list = |key: &str| dashboard.pointer(key).and_then(Value::as_array).unwrap().clone();
    let variables = list("/templating/list");
    let names: Vec<_> = variables.iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["datasource", "node", "peer"]);
    let panels = list("/panels");
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len(), "every panel has a number of its own");
    let mut cells = BTreeSet::new();
    for panel in &panels {
        let at = |key: &str| panel["gridPos"][key].as_u64().unwrap();
        let title = panel["title"].as_str().unwrap();
        assert!(at("x") + at("w") <= 24, "{title}");
        for cell in (at("y")..at("y") + at("h")).flat_map(|y| (0..at("w")).map(move |x| (y, x))) {
            assert!(cells.insert((cell.0, cell.1 + at("x"))), "{title} lies over another panel");
        }
    }
    let mut expressions = Vec::new();
    strings(&dashboard, "expr", &mut expressions);
    assert!(expressions.len() > 40, "{}", expressions.len());
    let rules = expressions.iter().enumerate().map(|(at, expression)| {
        let expression = expression.replace("$__rate_interval", "5m").replace('$', "");
        format!("  - {{ record: \"a:{at}\", expr: {} }}\n", Value::from(expression))
    });
    let rules = format!("groups:\n- name: all\n  rules:\n{}", rules.collect::<String>());
    let file = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    fs::write(file.path(), rules).unwrap();
    promtool(&["check", "rules", file.path().to_str().unwrap()], "").unwrap();
}
