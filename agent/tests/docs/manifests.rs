//! NodeConfigs and Pods, as examples and as what commands write.

use flock_agent::annotations;
use flock_agent::config;
use flock_agent::source::manifest;

use super::markdown::fences;
use super::{documents, nothing_wrong};

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

#[test]
fn every_manifest_is_accepted() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for (path, text) in documents() {
        for manifest in texts(&text) {
            count += 1;
            let is_config = manifest.contains("kind: NodeConfig") || manifest.starts_with("spec:");
            let outcome = if is_config {
                let head = if manifest.starts_with("spec:") { HEAD } else { "" };
                node_config(&format!("{head}{manifest}"))
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
