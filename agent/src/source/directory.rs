//! The standalone directory as last read: `nodeconfig.yaml` and `pods/*.yaml`, each with its last
//! good content. Reading is per file, so that one change costs one file, and a file that is bad or
//! half written or empty never takes away what a good one said before. Nor does a folder that cannot
//! be listed: what is gone is what a listing shows to be gone.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::OFlags;

use super::{NodeState, PodFacts, PodKey, Pods, Secrets, World, manifest};
use crate::config::{NodeConfig, validate};
use crate::notify::{Arrival, Touched};

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
    /// The files that name a pod, sorted. The first counts.
    named: BTreeMap<PodKey, Vec<PathBuf>>,
    /// How many entries `named` has in all.
    namings: usize,
    pods: Pods,
    /// What is wrong, by the file (or folder) that it is wrong with.
    problems: BTreeMap<PathBuf, String>,
}

impl Directory {
    pub(super) fn read(root: &Path) -> Self {
        let reason = not_there(&root.join(NODE_CONFIG));
        let mut directory = Self {
            root: root.to_owned(),
            node: NodeState::Unknown { reason },
            files: BTreeMap::new(),
            named: BTreeMap::new(),
            namings: 0,
            pods: Pods::default(),
            problems: BTreeMap::new(),
        };
        directory.look_at_everything();
        directory
    }

    /// Looks again at what may have changed.
    pub(super) fn look(&mut self, touched: &Touched) {
        if touched.everything {
            return self.look_at_everything();
        }
        for (path, arrival) in &touched.files {
            self.look_at(path, *arrival);
        }
    }

    /// Looks again at one file (path relative to the root). Other names are ignored.
    fn look_at(&mut self, path: &Path, arrival: Arrival) {
        if path == Path::new(NODE_CONFIG) {
            self.look_at_node_config(arrival);
        } else if is_manifest(path) {
            self.look_at_manifest(path, arrival);
        }
    }

    fn look_at_everything(&mut self) {
        self.look_at_node_config(Arrival::Settled);
        match self.listed() {
            Ok(listed) => {
                let gone: Vec<_> =
                    self.files.keys().filter(|path| !listed.contains(*path)).cloned().collect();
                for path in gone {
                    self.take_pods(&path, None);
                }
                self.problems.retain(|path, _| listed.contains(path));
                for path in listed {
                    self.look_at_manifest(&path, Arrival::Settled);
                }
            }
            Err(error) => self.tell(Path::new(PODS), format!("cannot be listed: {error}")),
        }
    }

    /// The manifests by name. A missing folder has none; a missing root says nothing.
    fn listed(&self) -> io::Result<BTreeSet<PathBuf>> {
        let entries = match std::fs::read_dir(self.root.join(PODS)) {
            Err(error) if error.kind() == ErrorKind::NotFound && self.root.is_dir() => {
                return Ok(BTreeSet::new());
            }
            entries => entries?,
        };
        let path = |entry: io::Result<std::fs::DirEntry>| {
            entry.map(|entry| Path::new(PODS).join(entry.file_name()))
        };
        entries.map(path).filter(|path| path.as_deref().map_or(true, is_manifest)).collect()
    }

    fn look_at_node_config(&mut self, arrival: Arrival) {
        let path = self.root.join(NODE_CONFIG);
        let read = read_bounded(&path);
        if awaits_its_writer(&read, arrival) {
            return;
        }
        let found = read.and_then(|text| text.map(|text| node_config(&text)).transpose());
        self.node.take(found, &path.display().to_string(), || not_there(&path));
    }

    fn look_at_manifest(&mut self, path: &Path, arrival: Arrival) {
        let read = read_bounded(&self.root.join(path));
        if awaits_its_writer(&read, arrival) {
            return;
        }
        match read.and_then(|text| text.map(|text| manifest::parse(&text)).transpose()) {
            Ok(Some(pods)) => {
                self.problems.remove(path);
                self.take_pods(path, Some(pods.into_iter().map(Arc::new).collect()));
            }
            Ok(None) => {
                self.problems.remove(path);
                self.take_pods(path, None);
            }
            Err(problem) => self.tell(path, problem),
        }
    }

    /// Notes a problem, and logs it when it is news: a file may be looked at every second.
    fn tell(&mut self, path: &Path, problem: String) {
        if self.problems.get(path) != Some(&problem) {
            let file = path.display().to_string();
            tracing::warn!(
                file,
                reason = problem,
                "pod manifest refused; what it said before stays"
            );
        }
        self.problems.insert(path.to_owned(), problem);
    }

    /// A file names these pods from now on. Costs as much as the file says, not as there are files.
    fn take_pods(&mut self, path: &Path, pods: Option<Vec<Arc<PodFacts>>>) {
        let before = match pods {
            Some(pods) => self.files.insert(path.to_owned(), pods),
            None => self.files.remove(path),
        };
        let now = self.files.get(path);
        let keys = before.iter().chain(now).flatten().map(|pod| pod.key.clone());
        for key in keys.collect::<BTreeSet<PodKey>>() {
            let files = self.named.entry(key.clone()).or_default();
            self.namings -= files.len();
            files.retain(|file| file != path);
            let times = now.into_iter().flatten().filter(|pod| pod.key == key).count();
            files.extend(std::iter::repeat_n(path.to_owned(), times));
            files.sort_unstable();
            self.namings += files.len();
            let first = files.first().and_then(|file| self.files.get(file));
            let facts = first.and_then(|pods| pods.iter().find(|pod| pod.key == key)).cloned();
            if files.is_empty() {
                self.named.remove(&key);
            }
            self.pods.set(&key, facts);
        }
    }

    /// The picture as of the last looks. What names a pod once more is a problem that is told.
    pub(super) fn world(&self) -> World {
        let shown =
            |(file, problem): (&PathBuf, &String)| (file.display().to_string(), problem.clone());
        let mut problems: BTreeMap<String, String> = self.problems.iter().map(shown).collect();
        if self.namings != self.named.len() {
            problems.extend(self.doubles());
        }
        World {
            node: self.node.clone(),
            pods: self.pods.clone(),
            problems: Arc::new(problems),
            secrets: Secrets::default(),
            object: None,
            away: None,
        }
    }

    fn doubles(&self) -> impl Iterator<Item = (String, String)> + '_ {
        self.named.iter().flat_map(|(key, files)| {
            let mut files = files.iter();
            let first = files.next();
            files.filter_map(move |file| {
                let first = first?.display();
                Some((file.display().to_string(), format!("pod {key} is in {first} already")))
            })
        })
    }
}

fn is_manifest(path: &Path) -> bool {
    let hidden = path.file_name().and_then(|n| n.to_str()).is_none_or(|n| n.starts_with('.'));
    let known = path.extension().and_then(|e| e.to_str());
    path.parent() == Some(Path::new(PODS))
        && !hidden
        && matches!(known, Some("yaml" | "yml" | "json"))
}

fn not_there(path: &Path) -> String {
    format!("{} is not there yet", path.display())
}

fn node_config(text: &str) -> Result<NodeConfig, String> {
    if text.trim().is_empty() {
        return Err("is empty".into());
    }
    validate::parse(text).map_err(|error| error.to_string())
}

/// Whether a file has a name and nothing else yet: its writer is about to fill and close it.
fn awaits_its_writer(read: &Result<Option<String>, String>, arrival: Arrival) -> bool {
    arrival == Arrival::Created && matches!(read, Ok(Some(text)) if text.trim().is_empty())
}

/// The text of a file, `None` when it is not there.
fn read_bounded(path: &Path) -> Result<Option<String>, String> {
    // Whatever lies there: a FIFO is not waited for.
    let flags = (OFlags::NONBLOCK | OFlags::CLOEXEC).bits().cast_signed();
    let file = match File::options().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("cannot be opened: {error}")),
    };
    if !file.metadata().is_ok_and(|meta| meta.is_file()) {
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::source::Standing;

    const GOOD: &str = "apiVersion: flock.fritzlab.net/v1alpha1\nkind: NodeConfig\n\
                        metadata: {name: n}\nspec: {cidr4: [10.1.0.0/24]}\n";
    const POD: &str = "metadata: {name: a}\n";

    fn place() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        fs::create_dir_all(root.join(PODS)).unwrap();
        (dir, root)
    }

    fn touch(directory: &mut Directory, path: &str, arrival: Arrival) -> World {
        let files = BTreeMap::from([(path.into(), arrival)]);
        directory.look(&Touched { files, everything: false });
        directory.world()
    }

    fn standing(world: &World) -> &Standing {
        match &world.node {
            NodeState::Known { standing, .. } => standing,
            NodeState::Unknown { reason } => panic!("{reason}"),
        }
    }

    fn fifo(path: &Path) {
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, path, kind, rustix::fs::Mode::RUSR, 0).unwrap();
    }

    #[test]
    fn a_fifo_is_refused_and_not_waited_for() {
        let (_dir, root) = place();
        fifo(&root.join("nodeconfig.yaml"));
        fifo(&root.join("pods/x.yaml"));
        // Aside, so that waiting for ever is a failure and no hanging test.
        let (done, looked) = std::sync::mpsc::channel();
        std::thread::spawn(move || done.send(Box::new(Directory::read(&root).world())));
        let world = looked.recv_timeout(std::time::Duration::from_secs(20)).expect("it hangs");
        assert_eq!(world.problems["pods/x.yaml"], "is not a regular file");
        let NodeState::Unknown { reason } = world.node else { panic!("{world:?}") };
        assert!(reason.ends_with("nodeconfig.yaml: is not a regular file"), "{reason}");
    }

    #[test]
    fn an_empty_manifest_takes_nothing_away_and_is_told_once_closed() {
        let (_dir, root) = place();
        let file = root.join("pods/a.yaml");
        fs::write(&file, POD).unwrap();
        let mut directory = Directory::read(&root);
        for empty in ["", " \n", "# nothing\n", "---\n---\n"] {
            fs::write(&file, empty).unwrap();
            if empty.trim().is_empty() {
                let world = touch(&mut directory, "pods/a.yaml", Arrival::Created);
                assert_eq!((world.pods.len(), world.problems.len()), (1, 0), "{empty:?}");
            }
            let world = touch(&mut directory, "pods/a.yaml", Arrival::Settled);
            assert_eq!(world.pods.len(), 1, "{empty:?}");
            assert!(world.problems["pods/a.yaml"].contains("is empty"), "{empty:?} {world:?}");
            fs::write(&file, POD).unwrap();
            let world = touch(&mut directory, "pods/a.yaml", Arrival::Created);
            assert_eq!((world.pods.len(), world.problems.len()), (1, 0), "complete as it came");
        }
        fs::remove_file(&file).unwrap();
        assert!(touch(&mut directory, "pods/a.yaml", Arrival::Settled).pods.is_empty());
    }

    #[test]
    fn of_two_that_name_one_pod_the_first_counts_and_the_other_is_told() {
        let (_dir, root) = place();
        let manifest = |image: &str| {
            format!("metadata: {{name: a}}\nspec: {{containers: [{{name: m, image: {image}}}]}}\n")
        };
        for (file, image) in [("b", "second"), ("a", "first")] {
            fs::write(root.join(format!("pods/{file}.yaml")), manifest(image)).unwrap();
        }
        let key = PodKey { namespace: "default".into(), name: "a".into() };
        let mut directory = Directory::read(&root);
        let world = directory.world();
        assert_eq!(world.pods.get(&key).unwrap().image, "first");
        assert_eq!(world.problems["pods/b.yaml"], "pod default/a is in pods/a.yaml already");
        fs::remove_file(root.join("pods/a.yaml")).unwrap();
        let world = touch(&mut directory, "pods/a.yaml", Arrival::Settled);
        assert_eq!(world.pods.get(&key).unwrap().image, "second");
        assert!(world.problems.is_empty(), "{world:?}");
        fs::remove_file(root.join("pods/b.yaml")).unwrap();
        let world = touch(&mut directory, "pods/b.yaml", Arrival::Settled);
        assert!(world.pods.is_empty() && directory.named.is_empty());
    }

    #[test]
    fn a_nodeconfig_has_one_standing() {
        let (_dir, root) = place();
        let file = root.join(NODE_CONFIG);
        let mut directory = Directory::read(&root);
        let mut settled = |text: Option<&str>| {
            match text {
                Some(text) => fs::write(&file, text).unwrap(),
                None => fs::remove_file(&file).unwrap(),
            }
            touch(&mut directory, NODE_CONFIG, Arrival::Settled)
        };
        let world = settled(Some(""));
        let NodeState::Unknown { reason } = world.node else { panic!("{world:?}") };
        assert!(reason.ends_with("nodeconfig.yaml: is empty"), "{reason}");
        assert_eq!(*standing(&settled(Some(GOOD))), Standing::InForce);
        assert_eq!(*standing(&settled(None)), Standing::Deleted);
        assert_eq!(*standing(&settled(Some(" "))), Standing::Refused("is empty".into()));
        assert_eq!(*standing(&settled(None)), Standing::Deleted);
        assert_eq!(*standing(&settled(Some(GOOD))), Standing::InForce);
        assert!(matches!(standing(&settled(Some("kind: x"))), Standing::Refused(_)));
        fs::write(&file, "").unwrap();
        fs::remove_file(&file).unwrap();
        touch(&mut directory, NODE_CONFIG, Arrival::Settled);
        fs::write(&file, "").unwrap();
        let world = touch(&mut directory, NODE_CONFIG, Arrival::Created);
        assert_eq!(*standing(&world), Standing::Deleted, "not written yet");
    }

    #[test]
    fn what_cannot_be_listed_takes_nothing_away() {
        let (dir, root) = place();
        fs::write(root.join(NODE_CONFIG), GOOD).unwrap();
        fs::write(root.join("pods/a.yaml"), POD).unwrap();
        let mut directory = Directory::read(&root);
        let all = Touched { everything: true, ..Touched::default() };
        fs::rename(&root, dir.path().join("away")).unwrap();
        directory.look(&all);
        let world = directory.world();
        assert_eq!((world.pods.len(), standing(&world)), (1, &Standing::Deleted));
        assert!(world.problems[PODS].contains("cannot be listed"), "{world:?}");
        fs::create_dir(&root).unwrap();
        directory.look(&all);
        assert!(directory.world().pods.is_empty(), "a root without the folder has no pods");
        assert!(directory.world().problems.is_empty());
    }
}
