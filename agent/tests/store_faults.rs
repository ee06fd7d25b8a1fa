//! The state file when the disk fails: who hears of it, and that memory stays what the file is.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test says that something is wrong by panicking"
)]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use flock_agent::store::{Allocation, Key, Step, Store, StoreError};

fn key(id: &str) -> Key {
    Key { container_id: id.into(), ifname: "eth0".into() }
}

fn entry(id: &str) -> Allocation {
    Allocation::new(&key(id), "2026-02-03T04:05:06Z".parse().unwrap())
}

fn changed(id: &str) -> Allocation {
    Allocation { pod_name: "changed".into(), ..entry(id) }
}

fn ids(path: &Path) -> Vec<String> {
    // Not by way of the store: opening one clears away what these tests look for.
    let file: serde_json::Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let entries = file["allocations"].as_array().unwrap();
    entries.iter().map(|entry| entry["container_id"].as_str().unwrap().to_owned()).collect()
}

/// A filesystem of its own, gone with the value. Needs root, and fails without.
struct Tmpfs(tempfile::TempDir);

impl Tmpfs {
    fn new(size: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let option = format!("size={size}");
        run(Command::new("mount")
            .args(["-t", "tmpfs", "-o", &option, "flock-test"])
            .arg(dir.path()));
        Self(dir)
    }

    fn remount(&self, how: &str) {
        run(Command::new("mount").args(["-o", &format!("remount,{how}")]).arg(self.0.path()));
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("allocations.json")
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

fn run(command: &mut Command) {
    let output = command.output().expect("mount is part of util-linux");
    assert!(output.status.success(), "{command:?} (needs root): {output:?}");
}

#[tokio::test]
async fn a_full_disk() {
    let disk = Tmpfs::new("256k");
    let (store, _) = Store::open(&disk.file(), "node-a").unwrap();
    store.put(entry("a")).await.unwrap();
    let ballast = disk.0.path().join("ballast");
    let filled = fs::write(&ballast, vec![0; 1 << 20]).unwrap_err();
    assert_eq!(filled.raw_os_error(), Some(28), "the test's own file fills the disk");

    let error = store.put(entry("b")).await.unwrap_err();
    let file = disk.file().display().to_string();
    assert_eq!(
        error.to_string(),
        format!(
            "state file {file}: writing: No space left on device (os error 28); free space on that filesystem"
        )
    );
    assert!(store.remove(&key("a")).await.is_err());
    assert_eq!(ids(&disk.file()), ["a"], "the old file is whole");
    assert!(!disk.0.path().join("allocations.json.tmp").exists(), "and no half one beside it");
    assert_eq!((store.counters().failures, store.counters().entries), (2, 1));

    fs::remove_file(&ballast).unwrap();
    store.put(entry("c")).await.unwrap();
    assert_eq!(ids(&disk.file()), ["a", "c"], "what failed did not slip in");
}

#[tokio::test]
async fn a_disk_that_turns_read_only() {
    let disk = Tmpfs::new("256k");
    let (store, _) = Store::open(&disk.file(), "node-a").unwrap();
    store.put(entry("a")).await.unwrap();
    disk.remount("ro");
    let error = store.put(entry("b")).await.unwrap_err();
    let file = disk.file().display().to_string();
    assert_eq!(
        error.to_string(),
        format!(
            "state file {file}: creating the temporary file: Read-only file system (os error 30); mount it read-write, or choose another --state-dir"
        )
    );
    // Reading it is possible all the same.
    assert_eq!(ids(&disk.file()), ["a"]);
    disk.remount("rw");
    store.put(entry("b")).await.unwrap();
    assert_eq!(ids(&disk.file()), ["a", "b"]);
}

#[test]
fn a_directory_that_cannot_be() {
    let dir = tempfile::tempdir().unwrap();
    let blocker = dir.path().join("flock");
    fs::write(&blocker, "").unwrap();
    let path = blocker.join("allocations.json");
    let error = Store::open(&path, "node-a").unwrap_err();
    let StoreError::System { path, step, .. } = &error else { panic!("{error:?}") };
    assert_eq!((path, *step), (&blocker, Step::MakeDirectory));
    // And a file that is a directory.
    let path = dir.path().join("allocations.json");
    fs::create_dir(&path).unwrap();
    let error = Store::open(&path, "node-a").unwrap_err().to_string();
    let place = path.display();
    assert_eq!(
        error,
        format!(
            "state file {place}: reading: Is a directory (os error 21); something else stands there: move it away, or choose another --state-dir"
        )
    );
}

#[tokio::test]
async fn a_missing_directory_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lib/flock/allocations.json");
    let (store, _) = Store::open(&path, "node-a").unwrap();
    store.put(entry("a")).await.unwrap();
    assert_eq!(ids(&path), ["a"]);
}

/// Fails one step while `broken` is set; the write before it can be held up.
fn breakable(at: Step, broken: &Arc<AtomicBool>) -> flock_agent::store::Gate {
    let broken = Arc::clone(broken);
    Box::new(move |step| {
        if step == at && broken.load(Ordering::SeqCst) {
            return Err(io::Error::from_raw_os_error(5));
        }
        Ok(())
    })
}

#[tokio::test]
async fn a_failure_at_each_step_leaves_the_old_state() {
    for step in [Step::Create, Step::Write, Step::Sync, Step::Rename, Step::SyncDirectory] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("allocations.json");
        let broken = Arc::new(AtomicBool::new(false));
        let (store, _) = Store::open_with(&path, "node-a", breakable(step, &broken)).unwrap();
        store.put(entry("a")).await.unwrap();
        broken.store(true, Ordering::SeqCst);
        let error = store.put(entry("b")).await.unwrap_err();
        let StoreError::System { step: at, errno, .. } = &error else { panic!("{error:?}") };
        assert_eq!((*at, *errno), (step, Some(5)));
        assert!(error.to_string().contains("Input/output error"), "{error}");
        assert!(store.remove(&key("a")).await.is_err());
        assert_eq!(ids(&path), ["a"], "{step:?}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "{step:?}: no temporary file");
        broken.store(false, Ordering::SeqCst);
        store.put(entry("c")).await.unwrap();
        assert_eq!(ids(&path), ["a", "c"], "{step:?}");
    }
}

/// The same where the file is large, and is made from the one before it.
#[tokio::test]
async fn a_failure_at_each_step_of_a_large_file_leaves_the_old_state() {
    for step in [Step::Write, Step::Sync, Step::Rename, Step::SyncDirectory] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("allocations.json");
        let broken = Arc::new(AtomicBool::new(false));
        let (store, _) = Store::open_with(&path, "node-a", breakable(step, &broken)).unwrap();
        let all: Vec<_> = (0..700).map(|i| store.put(entry(&format!("{i:03}")))).collect();
        for durable in all {
            durable.await.unwrap();
        }
        for i in 0..3 {
            store.put(changed(&format!("{i:03}"))).await.unwrap();
        }
        let before = fs::read(&path).unwrap();
        broken.store(true, Ordering::SeqCst);
        assert!(store.put(entry("b")).await.is_err());
        assert!(store.remove(&key("005")).await.is_err());
        assert!(!ids(&path).contains(&"b".to_owned()), "{step:?}");
        assert!(ids(&path).contains(&"005".to_owned()), "{step:?}");
        if step != Step::SyncDirectory {
            assert!(fs::read(&path).unwrap() == before, "{step:?}: not touched");
        }
        broken.store(false, Ordering::SeqCst);
        for i in 0..4 {
            store.put(entry(&format!("c{i}"))).await.unwrap();
        }
        drop(store);
        let (_, found) = Store::open(&path, "node-a").unwrap();
        assert_eq!(found.len(), 704, "{step:?}");
        assert!(found.contains(&changed("000")) && found.contains(&entry("c3")), "{step:?}");
    }
}

/// One group with several changes of one key fails as a whole and is undone as a whole; the next
/// group, handed over before the failure was known, goes through.
#[tokio::test]
async fn a_failed_group_is_undone_and_the_next_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("allocations.json");
    let (entered, has_entered) = mpsc::channel();
    let (open, opened) = mpsc::channel::<bool>();
    // Each write tells that it has begun and is told whether it fails.
    let gate = Box::new(move |step| {
        if step != Step::Sync {
            return Ok(());
        }
        entered.send(()).unwrap();
        match opened.recv() {
            Ok(true) | Err(_) => Ok(()),
            Ok(false) => Err(io::Error::from_raw_os_error(28)),
        }
    });
    let (store, _) = Store::open_with(&path, "node-a", gate).unwrap();
    let begun = || has_entered.recv_timeout(Duration::from_secs(10)).unwrap();
    let kept = store.put(entry("kept"));
    begun();
    let group = [
        store.put(entry("new")),
        store.put(changed("new")),
        store.put(changed("kept")),
        store.remove(&key("kept")),
        store.put(changed("kept")),
        store.put(entry("brief")),
        store.remove(&key("brief")),
    ];
    open.send(true).unwrap();
    kept.await.unwrap();
    begun();
    let next = store.put(entry("next"));
    open.send(false).unwrap();
    for durable in group {
        let error = durable.await.unwrap_err();
        assert!(matches!(error, StoreError::System { step: Step::Sync, errno: Some(28), .. }));
    }
    begun();
    open.send(true).unwrap();
    next.await.unwrap();
    assert_eq!(ids(&path), ["kept", "next"]);
    let (_, found) = Store::open(&path, "node-a").unwrap();
    assert_eq!(found, [entry("kept"), entry("next")], "as before the group, not as within it");
    assert_eq!((store.counters().writes, store.counters().failures), (2, 1));
}
