//! `flock-agent crd`: the definition of the resource NodeConfig, for a cluster. The same is checked in as
//! `deploy/kustomize/base/crd.yaml`.

use clap::ValueEnum;

use super::exit::Ended;
use super::output::{self, Form};
use crate::kubernetes::crd;

/// Below the flags.
pub(super) const HELP: &str = "\
Of this very version of the agent. Nothing is asked: it needs neither a cluster nor a running agent.

Examples:
  flock-agent crd | kubectl apply -f -
  flock-agent crd | kubectl diff -f -
  flock-agent crd -o json | jq .spec.versions[].schema";

/// The form of the definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CrdForm {
    /// For a file.
    Yaml,
    /// The same as JSON.
    Json,
}

/// Prints it.
pub fn run(form: CrdForm) -> anyhow::Result<Ended> {
    output::print(&text(form)?)?;
    Ok(Ended::Done)
}

fn text(form: CrdForm) -> anyhow::Result<String> {
    let form = match form {
        CrdForm::Yaml => Form::Yaml,
        CrdForm::Json => Form::Json,
    };
    Ok(output::formal(form, &crd::document()?)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// `FLOCK_WRITE_CRD=1 cargo nextest run -p flock-agent --lib crd` writes it anew; the difference is
    /// what a cluster notices.
    #[test]
    fn the_definition_in_the_tree_is_what_is_printed() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/kustomize/base/crd.yaml");
        let printed = text(CrdForm::Yaml).unwrap();
        if std::env::var_os("FLOCK_WRITE_CRD").is_some() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, &printed).unwrap();
        }
        let there = fs::read_to_string(&path).unwrap();
        assert!(
            there == printed,
            "write deploy/kustomize/base/crd.yaml anew with FLOCK_WRITE_CRD=1"
        );
    }

    #[test]
    fn both_forms_say_the_same() {
        let json: serde_json::Value = serde_json::from_str(&text(CrdForm::Json).unwrap()).unwrap();
        let yaml = text(CrdForm::Yaml).unwrap();
        assert_eq!(serde_saphyr::from_str::<serde_json::Value>(&yaml).unwrap(), json);
        assert!(!yaml.contains("4294967295.0") && yaml.contains("maximum: 4294967295\n"), "{yaml}");
    }
}
