//! Policies and namespaces over a restart of the agent: one that starts while the API server is away
//! isolates whom the last one did. Pods are not kept: who runs elsewhere is the API server's to tell.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;

use super::super::cache;
use super::picture::Past;
use crate::policy::{Labels, PolicyKey};
use crate::store::Keepsake;

const FILE: &str = "policies.json";
const VERSION: u32 = 1;

/// `policies.json`.
#[derive(Serialize, Deserialize)]
struct Kept {
    version: u32,
    policies: Vec<KeptPolicy>,
    namespaces: BTreeMap<String, Labels>,
}

#[derive(Serialize, Deserialize)]
struct KeptPolicy {
    #[serde(flatten)]
    key: PolicyKey,
    /// As the API server has it.
    spec: Value,
}

#[derive(Clone)]
pub(in super::super) struct Cache {
    file: Keepsake,
}

impl Cache {
    pub(in super::super) fn new(state_dir: &Path) -> Self {
        Self { file: Keepsake::new(&state_dir.join(FILE)) }
    }

    /// What the last agent of this node knew.
    pub(super) fn read(&self) -> Past {
        let kept: Option<Kept> = cache::decoded(&self.file);
        let Some(kept) = kept.filter(|kept| kept.version == VERSION) else {
            return Past::default();
        };
        let specs = kept.policies.into_iter();
        let specs = specs.map(|one| (one.key, Arc::from(one.spec.to_string())));
        let namespaces = kept.namespaces.into_iter().map(|(name, labels)| (name, Arc::new(labels)));
        Past { specs: specs.collect(), namespaces: Arc::new(namespaces.collect()) }
    }

    /// Writes what is shown from now on, whenever it is another.
    pub(super) async fn keep(self, shown: watch::Receiver<Option<Past>>) {
        let write = move |now: &Past, before: Option<&Past>| match before {
            Some(before) if before == now => Ok(()),
            _ => cache::put(&self.file, &kept(now)),
        };
        cache::keep_newest(shown, write).await;
    }
}

fn kept(past: &Past) -> Kept {
    let policy = |(key, spec): (PolicyKey, Arc<str>)| KeptPolicy {
        key,
        // It was written from a value.
        spec: serde_json::from_str(&spec).unwrap_or_default(),
    };
    let labels = |(name, labels): (&String, &Arc<Labels>)| (name.clone(), Labels::clone(labels));
    Kept {
        version: VERSION,
        policies: past.specs.in_order().into_iter().map(policy).collect(),
        namespaces: past.namespaces.iter().map(labels).collect(),
    }
}
