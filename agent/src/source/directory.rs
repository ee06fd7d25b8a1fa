//! The standalone directory as last read: `nodeconfig.yaml` and `pods/*.yaml`, each with its last
//! good content. Reading is per file, so that one change costs one file, and a file that is bad or
//! half written never takes away what a good one said before.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{NodeState, PodFacts, Pods, World, manifest};
use crate::config::validate;

/// The NodeConfig's file.
pub(super) const NODE_CONFIG: &str = "nodeconfig.yaml";
/// The folder of the pod manifests.
pub(super) const PODS: &str = "pods";

/// No manifest is larger; a bigger file is refused unread.
const MAX_FILE: u64 = 1 << 20;

pub(super) struct Directory {
    root: PathBuf,
    node: NodeState,
    /// Pods by the file that they came from (path relative to the root).
    files: BTreeMap<PathBuf, Vec<Arc<PodFacts>>>,
    problems: BTreeMap<String, String>,
}

impl Directory {
    pub(super) fn read(root: &Path) -> Self {
        let missing = root.join(NODE_CONFIG).display().to_string();
        let mut directory = Self {
            root: root.to_owned(),
            node: NodeState::Unknown { reason: format!("{missing} is not there yet") },
            files: BTreeMap::new(),
            problems: BTreeMap::new(),
        };
        directory.look_at_everything();
        directory
    }

    /// Looks again at one file (path relative to the root). Other names are ignored.
    pub(super) fn look_at(&mut self, path: &Path) {
        if path == Path::new(NODE_CONFIG) {
            self.look_at_node_config();
        } else if is_manifest(path) {
            self.look_at_manifest(path);
        }
    }

    pub(super) fn look_at_everything(&mut self) {
        self.look_at_node_config();
        let listed: Vec<PathBuf> = std::fs::read_dir(self.root.join(PODS))
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| Path::new(PODS).join(entry.file_name()))
            .filter(|path| is_manifest(path))
            .collect();
        self.files.retain(|path, _| listed.contains(path));
        self.problems.retain(|path, _| listed.iter().any(|l| l.display().to_string() == *path));
        for path in listed {
            self.look_at_manifest(&path);
        }
    }

    fn look_at_node_config(&mut self) {
        let path = self.root.join(NODE_CONFIG);
        let read = read_bounded(&path).map(|text| text.map(|text| validate::parse(&text)));
        let outcome = match read {
            Ok(Some(Ok(config))) => {
                for warning in &config.warnings {
                    tracing::warn!(file = %path.display(), warning, "NodeConfig");
                }
                self.node =
                    NodeState::Known { config: Arc::new(config), refused: None, deleted: false };
                return;
            }
            Ok(Some(Err(error))) => Some(error.to_string()),
            Ok(None) => None,
            Err(error) => Some(error),
        };
        let file = path.display().to_string();
        match (&mut self.node, outcome) {
            (NodeState::Known { refused, .. }, Some(problem)) => {
                tracing::error!(file, problem, "NodeConfig refused; the last good one stays");
                *refused = Some(problem);
            }
            (NodeState::Known { deleted, .. }, None) => {
                if !*deleted {
                    tracing::warn!(file, "NodeConfig deleted: pods are kept, new ones refused");
                }
                *deleted = true;
            }
            (NodeState::Unknown { reason }, Some(problem)) => {
                tracing::error!(file, problem, "NodeConfig refused");
                *reason = format!("{file}: {problem}");
            }
            (NodeState::Unknown { reason }, None) => *reason = format!("{file} is not there yet"),
        }
    }

    fn look_at_manifest(&mut self, path: &Path) {
        let name = path.display().to_string();
        match read_bounded(&self.root.join(path)).and_then(|text| match text {
            Some(text) => manifest::parse(&text).map(Some),
            None => Ok(None),
        }) {
            Ok(Some(pods)) => {
                self.problems.remove(&name);
                self.files.insert(path.to_owned(), pods.into_iter().map(Arc::new).collect());
            }
            Ok(None) => {
                self.problems.remove(&name);
                self.files.remove(path);
            }
            Err(problem) => {
                tracing::warn!(
                    file = name,
                    problem,
                    "pod manifest refused; what it said before stays"
                );
                self.problems.insert(name, problem);
            }
        }
    }

    /// The picture as of the last looks. Two files that name one pod: the first by file name
    /// counts, and the other is a problem that is told.
    pub(super) fn world(&mut self) -> World {
        let mut pods = Pods::new();
        let mut owners: BTreeMap<_, &PathBuf> = BTreeMap::new();
        let mut problems = self.problems.clone();
        for (file, facts) in &self.files {
            for pod in facts {
                if let Some(first) = owners.get(&pod.key) {
                    problems.insert(
                        file.display().to_string(),
                        format!("pod {} is in {} already", pod.key, first.display()),
                    );
                    continue;
                }
                owners.insert(pod.key.clone(), file);
                pods.insert(pod.key.clone(), pod.clone());
            }
        }
        World { node: self.node.clone(), pods: Arc::new(pods), problems: Arc::new(problems) }
    }
}

fn is_manifest(path: &Path) -> bool {
    let hidden = path.file_name().and_then(|n| n.to_str()).is_none_or(|n| n.starts_with('.'));
    let known = path.extension().and_then(|e| e.to_str());
    path.parent() == Some(Path::new(PODS))
        && !hidden
        && matches!(known, Some("yaml" | "yml" | "json"))
}

/// The text of a file, `None` when it is not there.
fn read_bounded(path: &Path) -> Result<Option<String>, String> {
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("cannot be opened: {error}")),
    };
    if file.metadata().is_ok_and(|meta| !meta.is_file()) {
        return Err("is not a regular file".into());
    }
    let mut text = String::new();
    file.take(MAX_FILE + 1)
        .read_to_string(&mut text)
        .map_err(|error| format!("cannot be read: {error}"))?;
    if text.len() as u64 > MAX_FILE {
        return Err(format!("is larger than {MAX_FILE} bytes"));
    }
    Ok(Some(text))
}
