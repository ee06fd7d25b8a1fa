//! The state file: its shape, what is taken over and what is refused, sharing writes, order.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test says that something is wrong by panicking"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use flock_agent::store::{Allocation, Key, State, Step, Store, StoreError};
use serde_json::{Value, json};

const GO: &str = include_str!("golden/allocations-go.json");

struct Dir(tempfile::TempDir);

impl Dir {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("allocations.json")
    }

    fn open(&self) -> (Store, Vec<Allocation>) {
        Store::open(&self.file(), "node-a").unwrap()
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn key(id: &str) -> Key {
    Key { container_id: id.into(), ifname: "eth0".into() }
}

fn entry(id: &str) -> Allocation {
    let mut entry = Allocation::new(&key(id), "2026-02-03T04:05:06.000000007Z".parse().unwrap());
    entry.pod_name = format!("pod-{id}");
    entry.ip4 = Some("10.0.0.2".parse().unwrap());
    entry
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn ids(path: &Path) -> Vec<String> {
    let file = read(path);
    let entries = file["allocations"].as_array().unwrap();
    entries.iter().map(|entry| entry["container_id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_round_trip_keeps_everything() {
    let dir = Dir::new();
    let (store, found) = dir.open();
    assert!(found.is_empty());
    assert!(!dir.file().exists(), "nothing is written before there is something to write");
    let mut full = entry("a");
    full.ifname = "net1".into();
    full.namespace = "ns".into();
    full.owner_uid = "uid".into();
    full.ip6 = Some("2001:db8::1".parse().unwrap());
    full.anycast = vec!["192.0.2.53".parse().unwrap()];
    full.addresses = vec!["2001:db8::1".parse().unwrap(), "192.0.2.1".parse().unwrap()];
    full.state = State::Committed;
    full.netns = Some("/var/run/netns/\"x\"\n".into());
    full.netns_dev = Some(4);
    full.netns_ino = Some(u64::MAX);
    full.host_ifname = Some("flock01234567".into());
    full.mtu = Some(9000);
    full.host_mac = Some("02:00:00:00:00:01".into());
    full.pod_mac = Some("02:00:00:00:00:02".into());
    full.extra.insert("theirs".into(), json!({"a": [1]}));
    let (first, second) = (store.put(full.clone()), store.put(entry("b")));
    first.await.unwrap();
    second.await.unwrap();
    let (_, found) = dir.open();
    assert_eq!(found, [full, entry("b")]);
    let mode = fs::metadata(dir.file()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let text = fs::read_to_string(dir.file()).unwrap();
    assert_eq!(text.lines().count(), 4, "one entry a line:\n{text}");
    assert_eq!(
        text.lines().nth(2).unwrap(),
        r#"{"container_id":"b","ifname":"eth0","namespace":"","pod_name":"pod-b","owner_uid":"","ip4":"10.0.0.2","state":"pending","allocated_at":"2026-02-03T04:05:06.000000007Z"}"#
    );
    assert_eq!(dir.names(), ["allocations.json"]);
}

#[tokio::test]
async fn the_go_agents_file_is_taken_over_with_all_its_keys() {
    let dir = Dir::new();
    fs::write(dir.file(), GO).unwrap();
    let (store, found) = dir.open();
    assert_eq!(fs::read_to_string(dir.file()).unwrap(), GO, "reading changes nothing");
    assert_eq!(found.len(), 4);
    assert_eq!(found[0].ip6, Some("2001:db8:a::8594:4af6".parse().unwrap()));
    assert_eq!(found[0].ifname, "eth0");
    assert_eq!(found[0].allocated_at.to_string(), "2026-02-03T04:05:06.123456789Z");
    assert_eq!((found[1].ip6, found[1].ip4), (Some("2001:db8:a::53".parse().unwrap()), None));
    assert_eq!(found[1].anycast.len(), 2);
    assert_eq!(found[1].allocated_at.to_string(), "2026-02-03T04:05:06.5Z");
    assert_eq!((found[2].ip6, found[2].ip4), (None, Some("10.244.1.3".parse().unwrap())));
    assert_eq!(found[2].addresses.len(), 2);
    assert_eq!(found[3].state, State::Pending);

    store.put(entry("new")).await.unwrap();
    let (before, after) = (serde_json::from_str::<Value>(GO).unwrap(), read(&dir.file()));
    assert_eq!(after["saved_at"], before["saved_at"]);
    let entries = after["allocations"].as_array().unwrap();
    assert_eq!(entries.len(), 5);
    for old in before["allocations"].as_array().unwrap() {
        let new = entries.iter().find(|e| e["container_id"] == old["container_id"]).unwrap();
        for (key, value) in old.as_object().unwrap() {
            match (key.as_str(), value) {
                // Absent in three ways becomes absent in one; times become UTC; one spelling.
                (_, Value::Null) => assert!(new.get(key).is_none(), "{key}"),
                ("ip4", Value::String(text)) if text.is_empty() => assert!(new.get(key).is_none()),
                ("allocated_at" | "anycast" | "ip6" | "ip4", _) => assert!(new.get(key).is_some()),
                _ => assert_eq!(&new[key], value, "{key}"),
            }
        }
    }
    let (_, again) = dir.open();
    assert_eq!(again.iter().filter(|e| e.container_id != "new").count(), 4);
    assert!(found.iter().all(|old| again.contains(old)));
}

#[test]
fn what_is_no_state_file_is_refused_and_left_alone() {
    let one = |fields: &str| {
        format!(
            r#"{{"version":1,"node":"node-a","allocations":[{{"container_id":"a","state":"pending","allocated_at":"2026-01-01T00:00:00Z"{fields}}}]}}"#
        )
    };
    let table = [
        (String::new(), "it is empty, which no agent writes"),
        ("\0\0\0\0".into(), "not readable as JSON: expected value at line 1 column 1"),
        ("{\"version\":1,".into(), "not readable as JSON: EOF while parsing a value at line 1 column 13"),
        ("{\"version\":1}x".into(), "not readable as JSON: trailing characters at line 1 column 14"),
        ("[]".into(), "not a JSON object"),
        ("{}".into(), "it has no version"),
        (r#"{"version":2}"#.into(), "version 2 is not known here, only version 1 is"),
        (r#"{"version":"1"}"#.into(), "version \"1\" is not known here, only version 1 is"),
        (r#"{"version":1,"node":7}"#.into(), "node: 7 is not a name"),
        (r#"{"version":1,"allocations":{}}"#.into(), "allocations: not a list"),
        (r#"{"version":1,"allocations":[7]}"#.into(), "allocations[0]: not an object"),
        (r#"{"version":1,"allocations":[{}]}"#.into(), "allocations[0].container_id: missing or empty"),
        (r#"{"version":1,"allocations":[{"container_id":"a"}]}"#.into(), "allocations[0].state: missing"),
        (one(r#","ip6":"10.0.0.1""#), "allocations[0].ip6: \"10.0.0.1\" is not an IPv6 address"),
        (one(r#","ip4":"10.0.0""#), "allocations[0].ip4: \"10.0.0\" is not an IPv4 address"),
        (one(r#","ip4":7"#), "allocations[0].ip4: 7 is not a text"),
        (one(r#","anycast":["10.0.0.1","x"]"#), "allocations[0].anycast[1]: \"x\" is not an IP address"),
        (one(r#","anycast":"10.0.0.1""#), "allocations[0].anycast: \"10.0.0.1\" is not a list"),
        (one(r#","mtu":4294967296"#), "allocations[0].mtu: 4294967296 is not a number of that size"),
        (one("").replace("pending", "done"), "allocations[0].state: \"done\" is not pending or committed"),
        (one("").replace("2026-01", "yesterday"), "allocations[0].allocated_at: \"yesterday-01T00:00:00Z\" is not a time of RFC 3339"),
        (one("").replace("}]", r#"},{"container_id":"a","ifname":"eth0","state":"pending","allocated_at":"2026-01-01T00:00:00Z"}]"#), "allocations[1]: a/eth0 is there twice, first in allocations[0]"),
    ];
    for (content, problem) in table {
        let dir = Dir::new();
        fs::write(dir.file(), &content).unwrap();
        let error = Store::open(&dir.file(), "node-a").expect_err(&content);
        let file = dir.file().display().to_string();
        let wanted = format!(
            "state file {file}: {problem}; repair it, or move it away to start with no pods known"
        );
        assert_eq!(error.to_string(), wanted);
        assert_eq!(fs::read_to_string(dir.file()).unwrap(), content);
    }
}

#[test]
fn an_older_file_without_a_node_or_entries_is_fine() {
    for content in [r#"{"version":1,"allocations":null}"#, r#"{"version":1,"node":""}"#] {
        let dir = Dir::new();
        fs::write(dir.file(), content).unwrap();
        assert!(dir.open().1.is_empty());
    }
}

#[tokio::test]
async fn a_file_of_another_name_is_taken_over_and_renamed_by_the_first_write() {
    let dir = Dir::new();
    fs::write(dir.file(), GO.replace("node-a", "node-b")).unwrap();
    let (store, found) = dir.open();
    assert_eq!(found.len(), 4);
    assert_eq!(read(&dir.file())["node"], "node-b");
    store.remove(&key("a0d1")).await.unwrap();
    assert_eq!(read(&dir.file())["node"], "node-a");
    assert_eq!(ids(&dir.file()).len(), 3);
}

#[tokio::test]
async fn what_a_crash_left_is_removed() {
    let dir = Dir::new();
    let temp = dir.0.path().join("allocations.json.tmp");
    fs::write(&temp, "half").unwrap();
    fs::set_permissions(&temp, fs::Permissions::from_mode(0o644)).unwrap();
    let (store, found) = dir.open();
    assert!(found.is_empty());
    assert!(!temp.exists());
    // And one that appears later is not reused.
    fs::write(&temp, "half").unwrap();
    fs::set_permissions(&temp, fs::Permissions::from_mode(0o644)).unwrap();
    store.put(entry("a")).await.unwrap();
    assert_eq!(dir.names(), ["allocations.json"]);
    assert_eq!(fs::metadata(dir.file()).unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn put_replaces_and_remove_removes() {
    let dir = Dir::new();
    let (store, _) = dir.open();
    store.put(entry("a")).await.unwrap();
    let mut again = entry("a");
    again.state = State::Committed;
    store.put(again).await.unwrap();
    let mut other = entry("a");
    other.ifname = "net1".into();
    store.put(other).await.unwrap();
    assert_eq!(ids(&dir.file()), ["a", "a"]);
    assert_eq!(read(&dir.file())["allocations"][0]["state"], "committed");
    store.remove(&key("a")).await.unwrap();
    store.remove(&key("unknown")).await.unwrap();
    assert_eq!(ids(&dir.file()), ["a"]);
    assert_eq!(read(&dir.file())["allocations"][0]["ifname"], "net1");
    assert_eq!(store.counters().entries, 1);
}

#[tokio::test]
async fn what_arrives_during_a_write_shares_the_next() {
    let dir = Dir::new();
    let (entered, has_entered) = mpsc::channel();
    let (open, opened) = mpsc::channel::<()>();
    let mut is_first = true;
    // The first write stops before its sync until fifty more changes have been handed over.
    let gate = Box::new(move |step| {
        if step == Step::Sync && std::mem::take(&mut is_first) {
            entered.send(()).unwrap();
            opened.recv().unwrap();
        }
        Ok(())
    });
    let (store, _) = Store::open_with(&dir.file(), "node-a", gate).unwrap();
    let first = store.put(entry("first"));
    has_entered.recv_timeout(Duration::from_secs(10)).unwrap();
    let rest: Vec<_> = (0..50).map(|i| store.put(entry(&format!("{i:02}")))).collect();
    assert_eq!(store.counters().writes, 0);
    open.send(()).unwrap();
    first.await.unwrap();
    for durable in rest {
        durable.await.unwrap();
    }
    assert_eq!(store.counters().writes, 2, "one for the first, one for all fifty");
    assert!(store.counters().last_write > Duration::ZERO);
    assert_eq!(ids(&dir.file()).len(), 51);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn durable_means_in_the_file() {
    let dir = Dir::new();
    let (store, _) = dir.open();
    let tasks: Vec<_> = (0..200)
        .map(|i| {
            let (store, path) = (store.clone(), dir.file());
            tokio::spawn(async move {
                let id = format!("{i:03}");
                store.put(entry(&id)).await.unwrap();
                assert!(ids(&path).contains(&id));
                if i % 2 == 0 {
                    store.remove(&key(&id)).await.unwrap();
                    assert!(!ids(&path).contains(&id));
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(ids(&dir.file()).len(), 100);
}

#[tokio::test]
async fn changes_of_one_key_keep_their_order() {
    let dir = Dir::new();
    let (store, _) = dir.open();
    let mut waiting = Vec::new();
    for i in 0..100 {
        let mut changed = entry("a");
        changed.pod_name = i.to_string();
        waiting.push(store.put(changed));
        if i % 7 == 0 {
            waiting.push(store.remove(&key("a")));
        }
    }
    for durable in waiting {
        durable.await.unwrap();
    }
    assert_eq!(read(&dir.file())["allocations"][0]["pod_name"], "99");
}

#[tokio::test]
async fn dropping_the_future_or_the_store_loses_nothing() {
    let dir = Dir::new();
    let (store, _) = dir.open();
    drop(store.put(entry("a")));
    let last = store.put(entry("b"));
    drop(store);
    last.await.unwrap();
    assert_eq!(ids(&dir.file()), ["a", "b"]);
}

#[tokio::test]
async fn a_slow_disk_refuses_at_once_and_never_blocks() {
    let dir = Dir::new();
    let (open, opened) = mpsc::channel::<()>();
    let gate = Box::new(move |_| {
        let _ = opened.recv();
        Ok(())
    });
    let (store, _) = Store::open_with(&dir.file(), "node-a", gate).unwrap();
    let mut waiting = Vec::new();
    // The channel and the group that the writer has already taken.
    for i in 0..3 * 4096 {
        waiting.push(store.put(entry(&i.to_string())));
    }
    drop(open);
    let mut refused = 0;
    for durable in waiting {
        match durable.await {
            Ok(()) => {}
            Err(error) => {
                assert_eq!(error, StoreError::Busy { waiting: 4096 });
                refused += 1;
            }
        }
    }
    assert!((4096..=2 * 4096).contains(&refused), "{refused}");
    assert_eq!(ids(&dir.file()).len(), 3 * 4096 - refused);
}

/// A large file is made from the one before it, and readers see one state or the other: what they
/// have open is not written to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_file_is_brought_forward_and_what_is_open_stays_as_it_is() {
    const PODS: usize = 600;
    let dir = Dir::new();
    let (store, _) = dir.open();
    let all: Vec<_> = (0..PODS).map(|i| store.put(entry(&format!("{i:03}")))).collect();
    for durable in all {
        durable.await.unwrap();
    }
    let inode = || {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(dir.file()).unwrap().ino()
    };
    let mut inodes = Vec::new();
    for i in 0..6 {
        store.put(entry(&format!("more-{i}"))).await.unwrap();
        inodes.push(inode());
    }
    assert!(inodes[2..].iter().zip(&inodes).all(|(now, before)| now == before), "{inodes:?}");
    assert_ne!(inodes[4], inodes[5], "two take turns");
    assert_eq!(dir.names(), ["allocations.json", "allocations.json.tmp"]);
    assert_eq!(ids(&dir.file()).len(), PODS + 6);

    // Held open from here on, by somebody who reads it slowly.
    let mut held = fs::File::open(dir.file()).unwrap();
    for i in 0..6 {
        store.remove(&key(&format!("more-{i}"))).await.unwrap();
        store.put(entry(&format!("later-{i}"))).await.unwrap();
    }
    let mut text = Vec::new();
    std::io::Read::read_to_end(&mut held, &mut text).unwrap();
    let seen: Value = serde_json::from_slice(&text).unwrap();
    let seen = seen["allocations"].as_array().unwrap().iter();
    let seen = seen.filter(|entry| entry["container_id"].as_str().unwrap().starts_with("more-"));
    assert_eq!(seen.count(), 6, "as it was when it was opened");

    // The next life takes it as it is, and clears the other away.
    drop(store);
    let (_, found) = dir.open();
    assert_eq!(found.len(), PODS + 6);
    assert_eq!(dir.names(), ["allocations.json"]);
}
