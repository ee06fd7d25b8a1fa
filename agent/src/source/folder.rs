//! One folder of manifests as last read, each file with its last good content. Reading is per file, so
//! that one change costs one file, and a file that is bad or half written or empty never takes away what
//! a good one said before. Nor does a folder that cannot be listed: what is gone is what a listing shows
//! to be gone. What the manifests mean is others'.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::files::Texts;
use crate::notify::{Arrival, Touched};

/// Something that a manifest describes.
pub(super) trait Described: Clone {
    /// What it is called by; nothing else may have the same.
    type Key: Ord + Clone + Display;
    /// What it is, for people.
    const KIND: &'static str;
    /// Its name.
    fn key(&self) -> &Self::Key;
}

/// What a look found: what a name stands for from now on.
type Changes<T> = Vec<(<T as Described>::Key, Option<T>)>;

pub(super) struct Folder<T: Described> {
    name: &'static str,
    /// By the file that they came from (path relative to the root).
    files: BTreeMap<Arc<Path>, Vec<T>>,
    /// The files that use a name, sorted. The first counts. Nearly always there is one, and a thousand names
    /// have the same.
    named: BTreeMap<T::Key, Box<[Arc<Path>]>>,
    /// How many entries `named` has in all.
    namings: usize,
    /// What is wrong, by the file (or folder) that it is wrong with.
    problems: BTreeMap<PathBuf, String>,
}

impl<T: Described> Folder<T> {
    /// Not read yet.
    pub(super) fn new(name: &'static str) -> Self {
        Self {
            name,
            files: BTreeMap::new(),
            named: BTreeMap::new(),
            namings: 0,
            problems: BTreeMap::new(),
        }
    }

    /// Looks again at what may have changed.
    pub(super) fn look(
        &mut self,
        root: &Path,
        touched: &Touched,
        texts: &mut Texts<'_>,
        mut parse: impl FnMut(&str) -> Result<Vec<T>, String>,
    ) -> Changes<T> {
        let mut changes = Vec::new();
        if !touched.everything {
            let ours = touched.files.iter().filter(|(path, _)| self.is_manifest(path));
            for (path, arrival) in ours.collect::<Vec<_>>() {
                changes.extend(self.look_at(path, *arrival, texts, &mut parse));
            }
            return changes;
        }
        match self.listed(root) {
            Ok(listed) => {
                let gone = self.files.keys().filter(|path| !listed.contains(&***path));
                for path in gone.cloned().collect::<Vec<_>>() {
                    changes.extend(self.take(&path, None));
                }
                self.problems.retain(|path, _| listed.contains(path));
                for path in listed {
                    changes.extend(self.look_at(&path, Arrival::Settled, texts, &mut parse));
                }
            }
            Err(error) => self.tell(Path::new(self.name), format!("cannot be listed: {error}")),
        }
        changes
    }

    /// The manifests by name. A missing folder has none; a missing root says nothing.
    fn listed(&self, root: &Path) -> io::Result<BTreeSet<PathBuf>> {
        let entries = match std::fs::read_dir(root.join(self.name)) {
            Err(error) if error.kind() == ErrorKind::NotFound && root.is_dir() => {
                return Ok(BTreeSet::new());
            }
            entries => entries?,
        };
        let path = |entry: io::Result<std::fs::DirEntry>| {
            entry.map(|entry| Path::new(self.name).join(entry.file_name()))
        };
        let ours =
            |path: &io::Result<PathBuf>| path.as_ref().map_or(true, |path| self.is_manifest(path));
        entries.map(path).filter(ours).collect()
    }

    fn is_manifest(&self, path: &Path) -> bool {
        let hidden = path.file_name().and_then(|n| n.to_str()).is_none_or(|n| n.starts_with('.'));
        let known = path.extension().and_then(|e| e.to_str());
        path.parent() == Some(Path::new(self.name))
            && !hidden
            && matches!(known, Some("yaml" | "yml" | "json"))
    }

    fn look_at(
        &mut self,
        path: &Path,
        arrival: Arrival,
        texts: &mut Texts<'_>,
        parse: &mut impl FnMut(&str) -> Result<Vec<T>, String>,
    ) -> Changes<T> {
        let Some(read) = texts.of(path, arrival) else { return Vec::new() };
        match read.and_then(|text| text.map(|text| parse(&text)).transpose()) {
            Ok(described) => {
                self.problems.remove(path);
                self.take(path, described)
            }
            Err(problem) => {
                self.tell(path, problem);
                Vec::new()
            }
        }
    }

    /// Notes a problem, and logs it when it is news: a file may be looked at every second.
    fn tell(&mut self, path: &Path, problem: String) {
        if self.problems.get(path) != Some(&problem) {
            let file = path.display().to_string();
            tracing::warn!(file, reason = problem, "manifest refused; what it said before stays");
        }
        self.problems.insert(path.to_owned(), problem);
    }

    /// A file describes these from now on. Costs as much as the file says, not as there are files.
    fn take(&mut self, path: &Path, described: Option<Vec<T>>) -> Changes<T> {
        let known = self.files.get_key_value(path).map(|(known, _)| known.clone());
        let name = known.unwrap_or_else(|| path.into());
        let before = match described {
            Some(described) => self.files.insert(name.clone(), described),
            None => self.files.remove(path),
        };
        let now = self.files.get(path);
        let keys = before.iter().chain(now).flatten().map(|one| one.key().clone());
        let mut changes = Vec::new();
        for key in keys.collect::<BTreeSet<_>>() {
            let files = self.named.remove(&key).unwrap_or_default();
            self.namings -= files.len();
            let times = now.into_iter().flatten().filter(|one| *one.key() == key).count();
            let others = files.into_iter().filter(|file| *file != name);
            let mut files: Vec<Arc<Path>> =
                others.chain(std::iter::repeat_n(name.clone(), times)).collect();
            files.sort_unstable();
            self.namings += files.len();
            let first = files.first().and_then(|file| self.files.get(file));
            let counts = first.and_then(|all| all.iter().find(|one| *one.key() == key)).cloned();
            if !files.is_empty() {
                // Under the name that whatever counts has, so that it is in memory once.
                let key = counts.as_ref().map_or(&key, Described::key);
                self.named.insert(key.clone(), files.into());
            }
            changes.push((key, counts));
        }
        changes
    }

    /// What is wrong as of the last look. What uses a name once more is a problem that is told.
    pub(super) fn problems(&self) -> BTreeMap<String, String> {
        let shown =
            |(file, problem): (&PathBuf, &String)| (file.display().to_string(), problem.clone());
        let mut problems: BTreeMap<String, String> = self.problems.iter().map(shown).collect();
        if self.namings != self.named.len() {
            problems.extend(self.doubles());
        }
        problems
    }

    fn doubles(&self) -> impl Iterator<Item = (String, String)> + '_ {
        self.named.iter().flat_map(|(key, files)| {
            let mut files = files.iter();
            let first = files.next();
            files.filter_map(move |file| {
                let (kind, first) = (T::KIND, first?.display());
                Some((file.display().to_string(), format!("{kind} {key} is in {first} already")))
            })
        })
    }
}
