//! What `deploy/` ships agrees with itself and with what is said about it: kustomize's base and the Helm
//! chart are one, roles allow what they should and nothing else, and the document has every permission,
//! capability and directory that the manifests have, and no other.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use rack::docs::markdown::{fences, quoted};
use rack::docs::root;
use rack::schema;
use rack::shipped::{
    Container, NAMESPACE, documents, identity, kustomized, list, path, read, rendered, text, texts,
};
use serde_json::{Value, json};

type Objects = BTreeMap<String, Value>;

fn by_name(all: Vec<Value>) -> Objects {
    let count = all.len();
    let named: Objects = all.into_iter().map(|object| (identity(&object), object)).collect();
    assert_eq!(named.len(), count, "two objects of one name");
    named
}

fn base() -> Objects {
    by_name(kustomized(&path("kustomize/base")).unwrap())
}

#[test]
fn the_base_is_complete() {
    let base = base();
    let names: Vec<_> = base.keys().map(String::as_str).collect();
    let wanted = [
        "ClusterRole -/flock",
        "ClusterRoleBinding -/flock",
        "CustomResourceDefinition -/nodeconfigs.flock.fritzlab.net",
        "DaemonSet flock-system/flock",
        "Namespace -/flock-system",
        "Role default/flock-events",
        "Role flock-system/flock",
        "RoleBinding default/flock-events",
        "RoleBinding flock-system/flock",
        "ServiceAccount flock-system/flock",
    ];
    assert_eq!(names, wanted);
    for (name, object) in base.iter().filter(|(name, _)| !name.starts_with("CustomRes")) {
        assert_eq!(object["metadata"]["labels"]["app.kubernetes.io/name"], "flock", "{name}");
    }
    let daemonset = &base["DaemonSet flock-system/flock"]["spec"];
    let labels = daemonset["template"]["metadata"]["labels"].as_object().unwrap();
    for (key, value) in daemonset["selector"]["matchLabels"].as_object().unwrap() {
        assert_eq!(labels.get(key), Some(value), "{key}");
    }
}

#[test]
fn the_overlays_change_what_they_say_and_nothing_else() {
    let plain = base();
    let mut moved = by_name(kustomized(&path("kustomize/overlays/api-server-address")).unwrap());
    let place = "/spec/template/spec/containers/0/env";
    let daemonset = moved.get_mut("DaemonSet flock-system/flock").unwrap();
    let variables = daemonset.pointer_mut(place).unwrap().as_array_mut().unwrap();
    let added: Vec<Value> = variables
        .extract_if(.., |entry| entry["name"].as_str().unwrap().starts_with("KUBERNETES_SERVICE_"))
        .collect();
    assert_eq!(added.len(), 2, "{added:?}");
    assert_eq!(moved, plain);

    let mut watched = by_name(kustomized(&path("kustomize/overlays/monitoring")).unwrap());
    assert!(watched.remove("PodMonitor flock-system/flock").is_some());
    assert!(watched.remove("PrometheusRule flock-system/flock").is_some());
    assert_eq!(watched, plain);
}

/// Every rule: its role, API group and resource, and the verbs.
fn permissions() -> BTreeMap<(String, String), BTreeSet<String>> {
    let mut found = BTreeMap::new();
    for role in read("kustomize/base/rbac.yaml").unwrap() {
        let namespace = text(&role, "/metadata/namespace").unwrap_or_default();
        for rule in list(&role, "/rules") {
            for group in texts(&rule, "/apiGroups") {
                for resource in texts(&rule, "/resources") {
                    let what =
                        if group.is_empty() { resource } else { format!("{resource}.{group}") };
                    let verbs = texts(&rule, "/verbs").into_iter().collect();
                    let repeated = found.insert((namespace.clone(), what), verbs);
                    assert!(repeated.is_none(), "a rule twice: {rule}");
                }
            }
        }
    }
    found
}

#[test]
fn roles_allow_little() {
    let permissions = permissions();
    for ((namespace, resource), verbs) in &permissions {
        assert!(!resource.contains('*') && !verbs.contains("*"), "{resource}: {verbs:?}");
        let changing = ["create", "update", "delete", "deletecollection", "bind", "escalate"];
        let changes = verbs.iter().any(|verb| changing.contains(&verb.as_str()));
        assert!(!changes || resource.starts_with("events"), "{resource}: {verbs:?}");
        if verbs.contains("patch") {
            assert!(resource.contains("/status") || resource.starts_with("events"), "{resource}");
        }
        if resource == "secrets" {
            assert_eq!(namespace, NAMESPACE, "Secrets of others can be read");
        }
    }
    let subjects = read("kustomize/base/rbac.yaml").unwrap();
    let subjects = subjects.iter().flat_map(|object| list(object, "/subjects"));
    let wanted = json!({ "kind": "ServiceAccount", "name": "flock", "namespace": NAMESPACE });
    assert!(subjects.into_iter().all(|subject| subject == wanted));
}

/// The cells of the table rows below a heading of the document; code is without its quotes.
fn rows(heading: &str) -> Vec<Vec<String>> {
    let page = fs::read_to_string(root().join("docs/kubernetes.md")).unwrap();
    let part = page.split(&format!("\n{heading}\n")).nth(1);
    let part = part.unwrap_or_else(|| panic!("no {heading}")).split("\n## ").next().unwrap();
    let rows = part.lines().filter(|line| line.starts_with("| `"));
    rows.map(|line| line.trim_matches('|').split(" | ").map(|c| c.trim().to_owned()).collect())
        .collect()
}

fn code(cell: &str) -> Vec<String> {
    quoted(cell).map(str::to_owned).collect()
}

#[test]
fn the_document_has_every_permission_and_no_other() {
    let mut told = BTreeMap::new();
    for row in rows("## What it may do, and why") {
        let [resource, verbs, place, why] = row.as_slice() else { continue };
        let namespace = code(place).first().cloned().unwrap_or_default();
        assert!(!why.is_empty(), "{resource}");
        for resource in code(resource) {
            let verbs = code(verbs).into_iter().collect();
            assert!(told.insert((namespace.clone(), resource), verbs).is_none());
        }
    }
    assert_eq!(told, permissions());
}

#[test]
fn the_document_has_every_capability_and_directory_and_no_other() {
    let container = Container::of_the_daemonset().unwrap();
    let (mut capabilities, mut directories) = (BTreeSet::new(), BTreeSet::new());
    for row in rows("## What it may do, and why") {
        match row.as_slice() {
            [name, why] if name.starts_with("`/") => {
                assert!(!why.is_empty(), "{name}");
                directories.extend(code(name));
            }
            [name, why] => {
                assert!(!why.is_empty(), "{name}");
                capabilities.extend(code(name));
            }
            _ => {}
        }
    }
    assert_eq!(capabilities, container.capabilities.iter().cloned().collect());
    let mounted: BTreeSet<_> = container.mounts.iter().map(|mount| mount.host.clone()).collect();
    assert_eq!(directories, mounted);
}

#[test]
fn the_daemonset_tells_the_agent_where_its_directories_are() {
    let container = Container::of_the_daemonset().unwrap();
    let inside: BTreeMap<_, _> =
        container.mounts.iter().map(|mount| (mount.inside.as_str(), mount)).collect();
    let variables: BTreeMap<_, _> = container.environment.iter().cloned().collect();
    let (bin, conf) = variables["FLOCK_INSTALL_CNI"].split_once(':').unwrap();
    assert_eq!(inside[bin].host, "/opt/cni/bin");
    assert_eq!(inside[conf].host, "/etc/cni/net.d");
    // The plugin is executed on the node and goes by the paths of the conflist, which are the agent's.
    for same in ["/run/flock", "/var/lib/flock"] {
        assert_eq!(inside[same].host, same);
    }
    for name in ["/run/netns", "/var/run/netns"] {
        assert!(inside[name].follows && inside[name].host == "/run/netns", "{name}");
    }
    let port = variables["FLOCK_HTTP"].trim_start_matches(':').parse::<u64>().unwrap();
    assert_eq!(container.manifest["ports"][0]["containerPort"], port);
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        let path = if probe == "readinessProbe" { "/readyz" } else { "/healthz" };
        assert_eq!(container.manifest[probe]["httpGet"]["path"], path);
        assert_eq!(container.manifest[probe]["httpGet"]["port"], "http");
    }
}

/// What the document has for a user's own kustomization is the base with another image.
#[test]
fn the_documents_kustomization_works() {
    let page = fs::read_to_string(root().join("docs/kubernetes.md")).unwrap();
    let fences = fences(&page);
    let mut written = fences.iter().filter(|fence| fence.info == "yaml kustomize");
    let user = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(root(), user.path().join("flock")).unwrap();
    let file = user.path().join("kustomization.yaml");
    fs::write(file, written.next().unwrap().text()).unwrap();
    assert!(written.next().is_none(), "another one is not checked");
    let mut objects = by_name(kustomized(user.path()).unwrap());
    let daemonset = objects.get_mut("DaemonSet flock-system/flock").unwrap();
    let image = daemonset.pointer_mut("/spec/template/spec/containers/0/image").unwrap();
    assert_eq!(*image, "registry.example.org/flock:0.1.0");
    *image = json!("flock:dev");
    assert_eq!(objects, base());
}

#[test]
fn the_helm_chart_is_the_base() {
    let mut wanted = base();
    // Helm makes namespaces by itself, and takes definitions from crds/ as they are.
    assert!(wanted.remove("Namespace -/flock-system").is_some());
    let definition = wanted.remove("CustomResourceDefinition -/nodeconfigs.flock.fritzlab.net");
    assert_eq!(read("helm/flock/crds/crd.yaml").unwrap(), [definition.unwrap()]);
    assert_eq!(by_name(rendered(&json!({})).unwrap()), wanted);
}

#[test]
fn the_helm_charts_values_do_what_the_overlays_do() {
    let without = |mut objects: Objects| {
        objects.retain(|name, _| !name.starts_with("Namespace") && !name.starts_with("CustomRes"));
        // Whether variables of the API server come first or last is nobody's business.
        let daemonset = objects.get_mut("DaemonSet flock-system/flock").unwrap();
        let variables = daemonset.pointer_mut("/spec/template/spec/containers/0/env").unwrap();
        let variables = variables.as_array_mut().unwrap();
        variables.sort_by_key(|entry| entry["name"].as_str().unwrap().to_owned());
        objects
    };
    let api = json!({ "host": "2001:db8:ffff::10", "port": 6443 });
    let moved = by_name(rendered(&json!({ "apiServer": api })).unwrap());
    let overlay = by_name(kustomized(&path("kustomize/overlays/api-server-address")).unwrap());
    assert_eq!(without(moved), without(overlay));
    let monitoring = json!({ "podMonitor": true, "prometheusRule": true });
    let watched = by_name(rendered(&json!({ "monitoring": monitoring })).unwrap());
    let overlay = by_name(kustomized(&path("kustomize/overlays/monitoring")).unwrap());
    assert_eq!(without(watched), without(overlay));
    // And the others arrive where they belong.
    let values = json!({
        "image": { "repository": "example.org/flock", "tag": "1" },
        "extraCapabilities": ["DAC_OVERRIDE"], "extraEnv": [{ "name": "RUST_LOG", "value": "debug" }],
        "http": { "loopbackOnly": true }, "cni": { "binDir": "/srv/cni" },
        "podLabels": { "a": "b" }, "podAnnotations": { "c": "d" }, "tolerations": [],
    });
    let daemonset = &by_name(rendered(&values).unwrap())["DaemonSet flock-system/flock"];
    let pod = &daemonset["spec"]["template"];
    assert_eq!(pod["metadata"]["labels"]["a"], "b");
    assert_eq!(pod["metadata"]["annotations"]["c"], "d");
    assert_eq!(pod["spec"].get("tolerations"), None);
    let container = &pod["spec"]["containers"][0];
    assert_eq!(container["image"], "example.org/flock:1");
    let capabilities = texts(container, "/securityContext/capabilities/add");
    assert_eq!(capabilities.last().unwrap(), "DAC_OVERRIDE");
    let variables = list(container, "/env");
    assert!(variables.contains(&json!({ "name": "RUST_LOG", "value": "debug" })));
    assert!(variables.contains(&json!({ "name": "FLOCK_HTTP", "value": "127.0.0.1:9179" })));
    assert!(list(pod, "/spec/volumes").iter().any(|one| one["hostPath"]["path"] == "/srv/cni"));
    let failed = rendered(&json!({ "apiServer": { "host": "192.0.2.1" } })).unwrap_err();
    assert!(format!("{failed:#}").contains("apiServer.port"), "{failed:#}");
}

#[test]
fn the_helm_charts_values_are_described() {
    let contract = fs::read_to_string(path("helm/flock/values.schema.json")).unwrap();
    let contract: Value = serde_json::from_str(&contract).unwrap();
    let values = read("helm/flock/values.yaml").unwrap().remove(0);
    schema::check(&contract, &values).unwrap();
    // What is described is there, but for what a parent chart hands down.
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
    let mut described = keys(&contract["properties"]);
    assert!(described.remove("global"));
    assert_eq!(described, keys(&values));
    let mut misspelt = values.clone();
    misspelt["image"]["repo"] = json!("x");
    let mut of_wrong_type = values;
    of_wrong_type["http"]["port"] = json!("http");
    for bad in [misspelt, of_wrong_type] {
        assert!(schema::check(&contract, &bad).is_err(), "{bad}");
    }
    let chart = read("helm/flock/Chart.yaml").unwrap().remove(0);
    for field in ["version", "appVersion"] {
        assert_eq!(chart[field], env!("CARGO_PKG_VERSION"), "{field}");
    }
}

const RULE: &str = "kustomize/overlays/monitoring/prometheus-rule.yaml";

/// Kustomize takes no file from outside its directory: a copy, written by this test.
#[test]
fn the_alerts_of_the_overlay_are_the_alerts() {
    let file = path(RULE);
    let there = fs::read_to_string(&file).unwrap();
    let (head, _) = there.split_once("\nspec:\n").unwrap();
    let alerts = fs::read_to_string(path("alerts.yaml")).unwrap();
    let (_, groups) = alerts.split_once("\ngroups:\n").unwrap();
    let indented = groups.lines().map(|line| match line {
        "" => "\n".to_owned(),
        line => format!("  {line}\n"),
    });
    let wanted = format!("{head}\nspec:\n  groups:\n{}", indented.collect::<String>());
    if std::env::var_os("FLOCK_WRITE_DEPLOY").is_some() {
        fs::write(&file, &wanted).unwrap();
    }
    let there = fs::read_to_string(&file).unwrap();
    assert!(there == wanted, "FLOCK_WRITE_DEPLOY=1 writes {} anew", file.display());
    let (rule, alerts) = (documents(&there).unwrap(), documents(&alerts).unwrap());
    assert_eq!(rule[0]["spec"], alerts[0]);
}
