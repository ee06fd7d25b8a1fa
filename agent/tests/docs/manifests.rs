//! NodeConfigs and Pods, as examples and as what commands write.

use std::fs;
use std::path::PathBuf;

use flock_agent::annotations;
use flock_agent::config;
use flock_agent::policy;
use flock_agent::source::manifest;

use super::markdown::fences;
use super::{apiserver, documents, nothing_wrong, root};

const HEAD: &str =
    "apiVersion: flock.fritzlab.net/v1alpha1\nkind: NodeConfig\nmetadata: { name: node-1 }\n";

/// All YAML: fences, and what is written into files by commands.
fn texts(document: &str) -> Vec<String> {
    let mut found = Vec::new();
    for fence in fences(document) {
        match fence.language() {
            // With a second word it is somebody else's.
            "yaml" if fence.info == "yaml" => found.push(fence.text()),
            "console" => {
                let text = fence.text();
                let mut rest = text.as_str();
                while let Some((_, after)) = rest.split_once(".yaml <<'EOF'\n") {
                    let (manifest, left) = after.split_once("\nEOF\n").unwrap();
                    found.push(manifest.to_owned() + "\n");
                    rest = left;
                }
            }
            _ => {}
        }
    }
    found
}

/// Files for a cluster that hold a NodeConfig, perhaps beside other things.
fn examples() -> Vec<(String, Vec<String>)> {
    let files = fs::read_dir(root().join("deploy/examples")).into_iter().flatten();
    let paths = files.map(|file| file.unwrap().path());
    let paths = paths.filter(|path| path.extension().is_some_and(|end| end == "yaml"));
    let parts = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        let parts = text.split("\n---\n").filter(|part| part.contains("kind: NodeConfig"));
        (path.display().to_string(), parts.map(str::to_owned).collect())
    };
    paths.map(parts).collect()
}

/// Annotations of pods that a Deployment or the like makes.
#[test]
fn annotations_of_examples_are_understood() {
    let mut count = 0;
    for file in fs::read_dir(root().join("deploy/examples")).unwrap() {
        let path = file.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let all: Vec<serde_json::Value> = serde_saphyr::from_multiple(&text).unwrap();
        for found in all.iter().filter_map(|one| one.pointer("/spec/template/metadata/annotations"))
        {
            count += 1;
            let found = serde_json::from_value(found.clone()).unwrap();
            let wishes = annotations::parse(&found).unwrap();
            assert!(wishes.warnings.is_empty(), "{}: {:?}", path.display(), wishes.warnings);
        }
    }
    assert!(count > 0, "no example has any");
}

#[test]
fn every_manifest_is_accepted() {
    let mut wrong = Vec::new();
    let mut count = 0;
    let written = documents().into_iter().map(|(path, text)| (path, texts(&text)));
    for (path, manifests) in written.chain(examples()) {
        for manifest in manifests {
            count += 1;
            let is_config = manifest.contains("kind: NodeConfig") || manifest.starts_with("spec:");
            let outcome = if is_config {
                let head = if manifest.starts_with("spec:") { HEAD } else { "" };
                node_config(&format!("{head}{manifest}"))
            } else if manifest.contains("kind: NetworkPolicy") {
                policy::parse::from_manifest(&manifest).map(drop)
            } else {
                pod(&manifest)
            };
            if let Err(error) = outcome {
                wrong.push(format!("{path}: {error}\n{manifest}"));
            }
        }
    }
    assert!(count > 8, "only {count} manifests were found");
    nothing_wrong(&wrong);
}

fn node_config(text: &str) -> Result<(), String> {
    apiserver::accepts(text);
    let config = config::parse(text).map_err(|error| error.to_string())?;
    if config.warnings.is_empty() { Ok(()) } else { Err(config.warnings.join("; ")) }
}

fn pod(text: &str) -> Result<(), String> {
    for pod in manifest::parse(text)? {
        let wishes = annotations::parse(&pod.annotations).map_err(|error| error.to_string())?;
        if !wishes.warnings.is_empty() {
            return Err(wishes.warnings.join("; "));
        }
    }
    Ok(())
}
