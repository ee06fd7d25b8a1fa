//! What is kept over a restart of the agent, so that one that starts while the API server is away
//! announces what the last one did: the NodeConfig in force, the Node's networks and the pods with
//! their readiness in the state directory; passwords beside the socket, and only where that is a
//! file system in memory, so that they never reach a disk and are gone with a reboot.
//!
//! It is a memory and no promise: one that cannot be read is told and forgotten, and the API server
//! is asked in any case. Written by a thread of its own, at most once a second, the newest always.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use flock_bgp::Secret;
use rustix::fs::statfs;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;

use super::picture::Past;
use crate::log::Lasting;
use crate::source::{PodFacts, Pods, SecretSeen, Secrets};
use crate::store::Keepsake;

const WORLD: &str = "kubernetes.json";
const SECRETS: &str = "secrets.json";
const VERSION: u32 = 1;
/// Between two writes.
const SPACING: Duration = Duration::from_secs(1);
/// linux/magic.h.
const TMPFS: i64 = 0x0102_1994;
const RAMFS: i64 = 0x8584_58f6;

/// `kubernetes.json`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kept {
    version: u32,
    node: String,
    node_config: Option<Value>,
    deleted: bool,
    pod_cidrs: Option<Vec<String>>,
    pods: Vec<PodFacts>,
}

/// `secrets.json`.
#[derive(Default, Serialize, Deserialize)]
struct KeptSecrets {
    version: u32,
    /// By name and key; `None`: the Secret does not exist.
    secrets: BTreeMap<String, Option<BTreeMap<String, Vec<u8>>>>,
}

/// Both files.
#[derive(Clone)]
pub(super) struct Cache {
    node: String,
    world: Keepsake,
    secrets: Option<Keepsake>,
}

impl Cache {
    /// In the state directory, and in that of the socket.
    pub(super) fn new(node: &str, state_dir: &Path, run_dir: &Path) -> Self {
        // It is the socket's, which is opened later; that it cannot be made is said there.
        let _ = std::fs::create_dir_all(run_dir);
        let in_memory = in_memory(run_dir);
        if !in_memory {
            tracing::debug!(directory = %run_dir.display(), "not in memory: passwords are not kept over a restart");
        }
        Self {
            node: node.to_owned(),
            world: Keepsake::new(&state_dir.join(WORLD)),
            secrets: in_memory.then(|| Keepsake::new(&run_dir.join(SECRETS))),
        }
    }

    /// What the last agent of this node knew.
    pub(super) fn read(&self) -> Option<Past> {
        let kept: Kept = decoded(&self.world)?;
        if kept.version != VERSION || kept.node != self.node {
            let (version, node) = (kept.version, kept.node);
            tracing::warn!(file = %self.world.path().display(), version, node, "not what this agent knew; it is not used");
            return None;
        }
        let mut pods = Pods::complete();
        for pod in kept.pods {
            pods.set(&pod.key.clone(), Some(pod.into()));
        }
        let Kept { node_config, deleted, pod_cidrs, .. } = kept;
        Some(Past { good: node_config, deleted, pod_cidrs, pods })
    }

    /// The Secrets that the last agent of this node saw.
    pub(super) fn read_secrets(&self) -> Vec<(String, SecretSeen)> {
        let kept: Option<KeptSecrets> = self.secrets.as_ref().and_then(decoded);
        let secrets = kept.filter(|kept| kept.version == VERSION).unwrap_or_default().secrets;
        let seen = |keys: Option<BTreeMap<String, Vec<u8>>>| match keys {
            None => SecretSeen::Missing,
            Some(keys) => SecretSeen::There(
                keys.into_iter().map(|(key, value)| (key, Secret(value.into()))).collect(),
            ),
        };
        secrets.into_iter().map(|(name, keys)| (name, seen(keys))).collect()
    }

    /// Writes what is shown from now on, whenever it is another.
    pub(super) async fn keep(self, shown: watch::Receiver<Option<Shown>>) {
        keep_newest(shown, move |now: &Shown, before: Option<&Shown>| self.write(now, before))
            .await;
    }

    fn write(&self, now: &Shown, before: Option<&Shown>) -> Result<(), String> {
        if before.is_none_or(|before| before.past != now.past) {
            let Past { good, deleted, pod_cidrs, pods } = &*now.past;
            let kept = Kept {
                version: VERSION,
                node: self.node.clone(),
                node_config: good.clone(),
                deleted: *deleted,
                pod_cidrs: pod_cidrs.clone(),
                pods: pods.iter().map(|pod| PodFacts::clone(pod)).collect(),
            };
            put(&self.world, &kept)?;
        }
        if let Some(file) = &self.secrets
            && before.is_none_or(|before| before.secrets != now.secrets)
        {
            put(file, &kept_secrets(&now.secrets))?;
        }
        Ok(())
    }
}

/// What there is to keep.
#[derive(Clone)]
pub(super) struct Shown {
    pub(super) past: Arc<Past>,
    pub(super) secrets: Secrets,
}

/// Writes what is shown, at most once a second and the newest always; `write` gets what it wrote last.
pub(super) async fn keep_newest<T, W>(mut shown: watch::Receiver<Option<T>>, write: W)
where
    T: Clone + Send + Sync + 'static,
    W: Fn(&T, Option<&T>) -> Result<(), String> + Send + Sync + 'static,
{
    let write = Arc::new(write);
    let mut written: Option<T> = None;
    let mut trouble = Lasting::default();
    let mut again = false;
    while again || shown.changed().await.is_ok() {
        let Some(now) = shown.borrow_and_update().clone() else { continue };
        let (write, before) = (write.clone(), written.take());
        let job = tokio::task::spawn_blocking(move || {
            let outcome = write(&now, before.as_ref());
            (now, outcome)
        });
        match job.await {
            Ok((now, Ok(()))) => {
                again = false;
                trouble.is_over();
                written = Some(now);
            }
            Ok((_, Err(error))) => {
                // A disk that is full now may have room in a second.
                again = true;
                if trouble.is_news(&error) {
                    tracing::error!(error, "what the API server told cannot be kept for a restart");
                }
            }
            Err(_) => return,
        }
        tokio::time::sleep(SPACING).await;
    }
}

fn kept_secrets(secrets: &Secrets) -> KeptSecrets {
    let mut kept = KeptSecrets { version: VERSION, secrets: BTreeMap::new() };
    for (name, seen) in secrets.seen() {
        let keys = match seen {
            SecretSeen::There(keys) => {
                let value = |(key, value): (&String, &Secret)| (key.clone(), value.0.to_vec());
                Some(keys.iter().map(value).collect())
            }
            SecretSeen::Missing => None,
            SecretSeen::Untold(_) => continue,
        };
        kept.secrets.insert(name.clone(), keys);
    }
    kept
}

pub(super) fn put(file: &Keepsake, content: &impl Serialize) -> Result<(), String> {
    let bytes = serde_json::to_vec(content).map_err(|error| error.to_string())?;
    file.write(&bytes).map_err(|error| error.to_string())
}

/// The content of a file; one that cannot be used is told, and is as good as none.
pub(super) fn decoded<T: for<'de> Deserialize<'de>>(file: &Keepsake) -> Option<T> {
    let unusable = |error: String| {
        tracing::warn!(file = %file.path().display(), error, "cannot be used; the API server is asked");
    };
    let bytes = file.read().map_err(|error| unusable(error.to_string())).ok()??;
    // Not the error's own words: they may quote what is in the file.
    let known = serde_json::from_slice(&bytes).map_err(|error| {
        unusable(format!(
            "not what an agent writes (line {}, column {})",
            error.line(),
            error.column()
        ));
    });
    known.ok()
}

fn in_memory(directory: &Path) -> bool {
    let kind = statfs(directory).map(|found| found.f_type);
    kind.is_ok_and(|kind| [TMPFS, RAMFS].contains(&kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(name: &str) -> Arc<PodFacts> {
        let text = format!(
            "metadata: {{name: {name}, uid: u, labels: {{app: web}}}}\n\
             spec: {{containers: [{{ports: [{{name: http, containerPort: 80}}]}}]}}\n"
        );
        Arc::new(crate::source::manifest::parse(&text).unwrap().remove(0))
    }

    fn past(names: &[&str]) -> Past {
        let mut pods = Pods::complete();
        for name in names {
            pods.set(&facts(name).key, Some(facts(name)));
        }
        let good = Some(serde_json::json!({"spec": {}}));
        Past { good, deleted: true, pod_cidrs: Some(vec!["10.0.0.0/24".into()]), pods }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::new("a", dir.path(), dir.path());
        assert!(cache.read().is_none());
        let shown = Shown { past: Arc::new(past(&["p", "q"])), secrets: Secrets::of("flock") };
        cache.write(&shown, None).unwrap();
        assert!(cache.read().unwrap() == *shown.past);
        assert!(Cache::new("b", dir.path(), dir.path()).read().is_none(), "another node's");
        std::fs::write(dir.path().join(WORLD), "{").unwrap();
        assert!(cache.read().is_none(), "half a file");
    }

    #[test]
    fn what_was_written_before_pods_had_labels_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let old = r#"{"version":1,"node":"a","nodeConfig":null,"deleted":false,"podCidrs":null,"pods":[
            {"key":{"namespace":"d","name":"p"},"uid":"u","static_uid":null,"annotations":{},"app":"p",
             "image":"i","ready":true,"terminating":false}]}"#;
        std::fs::write(dir.path().join(WORLD), old).unwrap();
        let past = Cache::new("a", dir.path(), dir.path()).read().unwrap();
        let pod = past.pods.iter().next().unwrap();
        assert!(pod.ready && pod.labels.is_empty() && pod.ports.is_empty());
    }

    #[test]
    fn passwords_are_kept_in_memory_only() {
        use std::os::unix::fs::PermissionsExt;
        let (disk, memory) =
            (tempfile::tempdir().unwrap(), tempfile::tempdir_in("/dev/shm").unwrap());
        let mut secrets = Secrets::of("flock");
        let keys = BTreeMap::from([("password".to_owned(), Secret(b"geheim".as_slice().into()))]);
        secrets.set("tor-a", Some(SecretSeen::There(keys)));
        secrets.set("tor-b", Some(SecretSeen::Missing));
        let shown = Shown { past: Arc::new(past(&[])), secrets: secrets.clone() };
        let on_disk = Cache::new("a", disk.path(), Path::new("/"));
        assert!(on_disk.secrets.is_none());
        let cache = Cache::new("a", disk.path(), memory.path());
        cache.write(&shown, None).unwrap();
        let read: BTreeMap<String, SecretSeen> = cache.read_secrets().into_iter().collect();
        assert_eq!(read, *secrets.seen());
        let file = memory.path().join(SECRETS);
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let state = std::fs::read_to_string(disk.path().join(WORLD)).unwrap();
        assert!(!state.contains("geheim") && !state.contains("tor-a"));
    }
}
