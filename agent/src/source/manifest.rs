//! Pod manifests as far as flock reads them: the shape of `v1/Pod` with all else ignored, and the
//! rules that turn one into `PodFacts` (who owns it, is it Ready, is it going) and, where it says an
//! address, into a `PeerPod`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use super::once::Once;
use super::peer::{self, PodAddress};
use super::ports::{self, Container};
use super::{PeerPod, PodFacts, PodKey};
use crate::annotations;
use crate::ipam;
use crate::policy::Labels;
use crate::yaml;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodManifest {
    #[serde(default)]
    kind: Option<String>,
    metadata: Metadata,
    #[serde(default)]
    spec: Option<Spec>,
    #[serde(default)]
    status: Option<Status>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    #[serde(default)]
    namespace: Option<String>,
    #[serde(default)]
    uid: Option<String>,
    #[serde(default)]
    annotations: Option<Once>,
    #[serde(default)]
    labels: Option<Once>,
    #[serde(default)]
    owner_references: Option<Vec<Owner>>,
    #[serde(default)]
    deletion_timestamp: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Owner {
    #[serde(default)]
    kind: String,
    name: String,
    #[serde(default)]
    controller: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    host_network: Option<bool>,
    containers: Option<Vec<Container>>,
    init_containers: Option<Vec<Container>>,
}

#[derive(Debug, Default, Deserialize)]
struct Status {
    #[serde(default)]
    phase: Option<String>,
    #[serde(default, rename = "podIP")]
    pod_ip: Option<String>,
    #[serde(default, rename = "podIPs")]
    pod_ips: Option<Vec<PodAddress>>,
    #[serde(default)]
    conditions: Option<Vec<Condition>>,
}

#[derive(Debug, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

/// Reads every pod of a manifest file; several documents are allowed, none is an error (a file that
/// is about to be written looks like that), and so are kinds other than Pod (a NodeConfig in
/// `pods/` is a mistake that should be heard of).
pub fn parse(text: &str) -> Result<Vec<PodFacts>, String> {
    Ok(described(text)?.into_iter().map(|(facts, _)| facts).collect())
}

/// The same, with what each pod is to selectors of NetworkPolicies.
pub(super) fn described(text: &str) -> Result<Vec<(PodFacts, Option<PeerPod>)>, String> {
    let manifests = match json(text) {
        Some(manifest) => vec![manifest],
        None => serde_saphyr::from_multiple_with_options::<PodManifest>(text, yaml::options())
            .map_err(|error| first_line(&error.to_string()))?,
    };
    if manifests.is_empty() {
        return Err("is empty: it has no pod; remove the file if none is meant".into());
    }
    manifests.into_iter().map(facts).collect()
}

/// One pod in JSON, which is YAML, too: the YAML reader takes 68 us for a small one, more than everything
/// else that the source does. What is not quite JSON is left to it, and so are the words about it.
fn json(text: &str) -> Option<PodManifest> {
    let text = text.trim_start();
    text.starts_with('{').then(|| serde_json::from_str(text).ok()).flatten()
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim().to_owned()
}

fn facts(pod: PodManifest) -> Result<(PodFacts, Option<PeerPod>), String> {
    if let Some(kind) = pod.kind.as_deref().filter(|kind| *kind != "Pod") {
        return Err(format!("kind is {kind:?}, expected \"Pod\""));
    }
    if pod.metadata.name.is_empty() {
        return Err("metadata.name is empty".into());
    }
    let app = app_of(&pod.metadata);
    let spec = pod.spec.unwrap_or_default();
    let containers = spec.containers.unwrap_or_default();
    let ports = ports::named(&containers, &spec.init_containers.unwrap_or_default());
    let annotations: BTreeMap<String, String> = said(pod.metadata.annotations)
        .filter(|(name, _)| name.starts_with(annotations::PREFIX))
        .collect();
    let facts = PodFacts {
        ready: is_ready(pod.status.as_ref(), &annotations)?,
        key: PodKey {
            namespace: pod
                .metadata
                .namespace
                .as_deref()
                .filter(|namespace| !namespace.is_empty())
                .unwrap_or("default")
                .into(),
            name: pod.metadata.name.into(),
        },
        uid: pod.metadata.uid.unwrap_or_default(),
        static_uid: None,
        annotations,
        app: app.into(),
        image: containers
            .first()
            .and_then(|first| first.image.as_deref())
            .unwrap_or_default()
            .into(),
        terminating: pod.metadata.deletion_timestamp.is_some(),
        labels: Arc::new(Labels::new(&said(pod.metadata.labels).collect())),
        ports: ports.into(),
    };
    let status = pod.status.unwrap_or_default();
    let several = status.pod_ips.unwrap_or_default();
    let addresses = peer::addresses(&several, status.pod_ip.as_deref().unwrap_or_default());
    let described = (!spec.host_network.unwrap_or_default())
        .then(|| peer::Described {
            labels: &facts.labels,
            ports: &facts.ports,
            annotations: &facts.annotations,
            phase: status.phase.as_deref().unwrap_or_default(),
            addresses,
        })
        .and_then(peer::Described::peer);
    Ok((facts, described))
}

/// In YAML a value may be left out; the key is there nevertheless.
fn said(all: Option<Once>) -> impl Iterator<Item = (String, String)> {
    all.unwrap_or_default().0.into_iter().map(|(name, value)| (name, value.unwrap_or_default()))
}

/// The `app` of `ip-algo`; the rule is IPAM's.
fn app_of(metadata: &Metadata) -> String {
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    let controller = owners.iter().find(|owner| owner.controller == Some(true));
    let hash = metadata.labels.as_ref().and_then(|labels| labels.0.get("pod-template-hash"));
    let controller = controller.map(|owner| (owner.kind.as_str(), owner.name.as_str()));
    ipam::app_name(controller, hash.and_then(Option::as_deref), &metadata.name).to_owned()
}

/// Ready unless something says otherwise: a Ready condition that is not True, a phase that is
/// over, or the annotation.
fn is_ready(
    status: Option<&Status>,
    annotations: &BTreeMap<String, String>,
) -> Result<bool, String> {
    let annotated = annotations::ready(annotations).map_err(|error| error.to_string())?;
    let Some(status) = status else { return Ok(annotated) };
    let over = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
    let condition = status
        .conditions
        .as_deref()
        .unwrap_or_default()
        .iter()
        .find(|condition| condition.kind == "Ready")
        .is_none_or(|condition| condition.status == "True");
    Ok(annotated && condition && !over)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> PodFacts {
        parse(text).unwrap().remove(0)
    }

    #[test]
    fn a_bare_manifest_is_ready_in_the_default_namespace() {
        let pod = one("metadata: {name: a}\n");
        assert_eq!(pod.key.to_string(), "default/a");
        assert!(pod.ready && !pod.terminating);
        assert_eq!(&*pod.app, "a");
    }

    #[test]
    fn json_says_the_same_as_yaml_and_what_is_not_quite_json_is_yaml() {
        let text = r#" {"kind": "Pod", "metadata": {"name": "a", "uid": "u", "labels": {"app": "web", "x": null},
            "annotations": {"flock.fritzlab.net/ready": "false", "other": "y"}, "unknown": [1, {"a": 2.5}]},
            "spec": {"containers": [{"image": "x:1", "ports": [{"name": "http", "containerPort": 80}]}]},
            "status": {"podIP": "10.0.0.9", "conditions": [{"type": "Ready", "status": "True"}]}}"#;
        assert!(json(text).is_some());
        let yaml = format!("---\n{text}");
        assert!(json(&yaml).is_none());
        assert_eq!(described(text).unwrap(), described(&yaml).unwrap());
        assert!(!one(text).ready);
        for flow in [
            "{metadata: {name: a}}",
            "{\"metadata\": {\"name\": \"a\"}} # so",
            "{'metadata': {'name': 'a'}}",
        ] {
            assert!(json(flow).is_none());
            assert_eq!(&*one(flow).key.name, "a", "{flow}");
        }
        assert!(parse(r#"{"metadata": {"name": "a"}"#).is_err() && parse("{}").is_err());
    }

    #[test]
    fn a_key_that_stands_twice_is_refused_in_json_as_in_yaml() {
        for twice in [
            r#"{"metadata": {"name": "a", "annotations": {"k": "1", "k": "2"}}}"#,
            r#"{"metadata": {"name": "a", "labels": {"k": "1", "k": "2"}}}"#,
            r#"{"metadata": {"name": "a", "name": "b"}}"#,
        ] {
            let yaml = described(&format!("---\n{twice}"));
            assert_eq!(described(twice).is_err(), yaml.is_err(), "{twice}: {yaml:?}");
        }
    }

    #[test]
    fn readiness_table() {
        let cases = [
            ("metadata: {name: a}\nstatus: {conditions: [{type: Ready, status: 'True'}]}", true),
            ("metadata: {name: a}\nstatus: {conditions: [{type: Ready, status: 'False'}]}", false),
            ("metadata: {name: a}\nstatus: {conditions: [{type: Ready, status: Unknown}]}", false),
            ("metadata: {name: a}\nstatus: {conditions: []}", true),
            ("metadata: {name: a}\nstatus: {phase: Succeeded}", false),
            ("metadata: {name: a, annotations: {flock.fritzlab.net/ready: 'false'}}", false),
            ("metadata: {name: a, annotations: {flock.fritzlab.net/ready: 'true'}}", true),
            ("metadata: {name: a, annotations: {flock.fritzlab.net/ready: 'False'}}", false),
            ("metadata: {name: a, annotations: {flock.fritzlab.net/ready: '0'}}", false),
        ];
        for (text, ready) in cases {
            assert_eq!(one(text).ready, ready, "{text}");
        }
    }

    #[test]
    fn the_app_is_the_controller_without_the_template_hash() {
        let text = "metadata: {name: p, labels: {pod-template-hash: 7d9f}, ownerReferences: [{kind: Node, name: n}, {kind: ReplicaSet, name: web-7d9f, controller: true}]}";
        assert_eq!(&*one(text).app, "web");
    }

    #[test]
    fn labels_and_named_ports_are_for_selectors() {
        let pod = one("metadata: {name: a, labels: {app: web, empty: }}\nspec:\n  containers:\n  \
                       - {image: x, ports: [{name: http, containerPort: 80}, {name: bad}]}\n  \
                       initContainers:\n  - {restartPolicy: Always, ports: [{name: side, containerPort: 81, protocol: UDP}]}\n");
        assert_eq!(pod.labels.iter().collect::<Vec<_>>(), [("app", "web"), ("empty", "")]);
        let ports: Vec<_> = pod.ports.iter().map(|port| (&*port.name, port.port)).collect();
        assert_eq!(ports, [("http", 80), ("side", 81)]);
        assert_eq!(&*pod.image, "x");
    }

    #[test]
    fn a_pod_of_another_node_is_described_by_its_addresses() {
        let peer = |more: &str| {
            let text = format!("metadata: {{name: a, labels: {{app: web}}}}\n{more}");
            described(&text).unwrap().remove(0).1
        };
        let there =
            peer("status: {podIP: 10.0.0.9, podIPs: [{ip: 10.0.0.9}, {ip: '2001:db8::9'}]}");
        let there = there.unwrap();
        assert_eq!(there.labels.get("app"), Some("web"));
        let shown: Vec<_> = there.addresses.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["10.0.0.9", "2001:db8::9"]);
        assert_eq!(peer("status: {podIP: 10.0.0.9}").unwrap().addresses.len(), 1);
        for none in [
            "",
            "status: {podIP: x}",
            "spec: {hostNetwork: true}\nstatus: {podIP: 10.0.0.9}",
            "status: {podIP: 10.0.0.9, phase: Succeeded}",
        ] {
            assert!(peer(none).is_none(), "{none}");
        }
    }

    #[test]
    fn what_is_not_a_pod_is_an_error_that_says_so() {
        assert!(parse("kind: NodeConfig\nmetadata: {name: a}").unwrap_err().contains("NodeConfig"));
        assert!(parse("metadata: {}").is_err());
        assert!(parse("- - -").is_err());
        assert_eq!(parse("metadata: {name: a}\n---\nmetadata: {name: b}\n").unwrap().len(), 2);
    }

    #[test]
    fn a_bad_ready_is_named_in_the_words_of_all_annotations() {
        let text = "metadata: {name: a, annotations: {flock.fritzlab.net/ready: 'no'}}";
        assert_eq!(
            parse(text).unwrap_err(),
            "annotation flock.fritzlab.net/ready: \"no\": not a boolean; write \"true\" or \"false\""
        );
    }

    #[test]
    fn no_documents_are_an_error() {
        for text in ["", " \n\t\n", "# a comment\n", "---\n---\n", "null\n"] {
            assert!(parse(text).unwrap_err().contains("is empty"), "{text:?}");
        }
    }

    #[test]
    fn aliases_may_save_writing_but_not_unfold_without_end() {
        let few = "metadata: {name: &n a, uid: *n, labels: {x: *n}}";
        assert_eq!(one(few).uid, "a");
        let mut bomb = String::from("metadata: {name: a}\nx0: &x0 [a,a,a,a,a,a,a,a,a,a]\n");
        for n in 1..5 {
            let all = vec![format!("*x{}", n - 1); 10].join(",");
            bomb.push_str(&format!("x{n}: &x{n} [{all}]\n"));
        }
        assert!(bomb.len() < 400, "{}", bomb.len());
        parse(&bomb).expect_err("a hundred thousand nodes");
        let (long, often) = (vec!["a"; 1000].join(","), vec!["*x"; 20].join(","));
        let wide = format!("metadata: {{name: a}}\nx: &x [{long}]\ny: [{often}]\n");
        parse(&wide).expect_err("twenty thousand, of which a thousand are written");
    }
}
