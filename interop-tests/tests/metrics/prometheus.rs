//! A real Prometheus in the node's namespace, with the alerts loaded.

use std::fs;

use anyhow::{Context, Result, ensure};
use rack::binaries;
use rack::node::Node;
use rack::process::Daemon;
use rack::wait::{PATIENCE, until};
use serde_json::Value;

use crate::names::root;
use crate::page::PORT;
use crate::running;

const LISTEN: &str = "127.0.0.1:9090";

fn api(node: &Node, path: &str, query: &[(&str, &str)]) -> Result<Value> {
    let url = format!("http://{LISTEN}/api/v1/{path}");
    let mut arguments = vec!["-sS".to_owned(), "-G".to_owned(), url];
    for (key, value) in query {
        arguments.extend(["--data-urlencode".to_owned(), format!("{key}={value}")]);
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let answer: Value = serde_json::from_str(&node.netns().exec("curl", &arguments)?)?;
    ensure!(answer["status"] == "success", "{answer}");
    Ok(answer["data"].clone())
}

/// The one figure that a query comes to.
fn figure(node: &Node, query: &str) -> Result<f64> {
    let data = api(node, "query", &[("query", query)])?;
    let one = data.pointer("/result/0/value/1").and_then(Value::as_str);
    Ok(one.with_context(|| format!("{query}: {data}"))?.parse()?)
}

#[test]
fn a_real_prometheus_scrapes_the_agent_and_evaluates_the_alerts() {
    let fabric = running();
    let pod = fabric.add_pod(1, "web", &[("anycast", "192.0.2.1")]).unwrap();
    let node = fabric.node(1).unwrap();
    let config = format!(
        "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\nrule_files: [{}]\n\
         scrape_configs:\n- job_name: flock\n  static_configs: [{{ targets: [\"{PORT}\"] }}]\n",
        root().join("deploy/alerts.yaml").display()
    );
    fs::write(node.file("prometheus.yml"), config).unwrap();
    let mut command = node.netns().command(binaries::tool("prometheus").unwrap()).unwrap();
    command
        .arg(format!("--config.file={}", node.file("prometheus.yml").display()))
        .arg(format!("--storage.tsdb.path={}", node.file("tsdb").display()))
        .arg(format!("--web.listen-address={LISTEN}"));
    let log = node.file("prometheus.log");
    let mut daemon = Daemon::start("prometheus", &mut command, &log).unwrap();
    let asked = until("a scrape", PATIENCE, || {
        daemon.ensure_alive()?;
        for (query, wanted) in [
            ("up{job=\"flock\"}", 1.0),
            ("sum(flock_bgp_session_up)", 2.0),
            ("flock_bgp_session_state{peer=\"tor-a\",state=\"Established\"}", 1.0),
            ("sum(flock_cni_calls_total{op=\"ADD\",result=\"ok\"})", 1.0),
            ("flock_bgp_update_latency_seconds_count", 1.0),
            ("sum(flock_bgp_originated_prefixes)", 3.0),
        ] {
            let found = figure(node, query)?;
            ensure!(found == wanted, "{query} is {found}, not {wanted}");
        }
        Ok(())
    });
    asked.with_context(|| daemon.log_tail()).unwrap();
    let targets = api(node, "targets", &[]).unwrap();
    let target = &targets["activeTargets"][0];
    assert_eq!((&target["health"], &target["lastError"]), (&"up".into(), &"".into()), "{target}");
    until("the alerts to be evaluated", PATIENCE, || {
        let rules = api(node, "rules", &[])?;
        let groups = rules["groups"].as_array().context("no groups")?;
        let all = groups.iter().flat_map(|group| group["rules"].as_array().into_iter().flatten());
        let all: Vec<_> = all.collect();
        ensure!(all.len() >= 25, "{} rules", all.len());
        for rule in all {
            ensure!(rule["health"] == "ok", "{rule}");
            // Both ToRs are well, and the one where nobody is has two minutes left.
            ensure!(rule["state"] != "firing", "{rule}");
        }
        Ok(())
    })
    .unwrap();
    daemon.terminate().unwrap();
    fabric.remove_pod(pod).unwrap();
}
