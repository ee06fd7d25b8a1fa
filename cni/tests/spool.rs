//! The spool: names, bounds, replacing, removing, and what is no entry.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests: a failure should be loud"
)]

mod support;

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use flock_cni::error::CniError;
use flock_cni::spool::{self, MAX_ENTRIES, MAX_ENTRY_BYTES, SpoolEntry, SpoolError};
use flock_cni::{NetnsId, names};
use support::Place;

fn entry(container: &str, ifname: &str, at: u64) -> SpoolEntry {
    SpoolEntry {
        container_id: container.into(),
        ifname: ifname.into(),
        netns: Some(NetnsId { dev: 4, ino: 4_026_531_840 }),
        netns_path: "/run/netns/a".into(),
        spooled_at_unix_ms: at,
    }
}

fn names_in(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn entries_come_back_oldest_first_and_leave_nothing_else() {
    let place = Place::new();
    let dir = place.spool();
    assert!(spool::read_all(&dir).unwrap().entries.is_empty(), "no directory, no entries");
    let (old, middle, new) = (entry("b", "eth0", 1), entry("a", "eth0", 2), entry("a", "net1", 3));
    for entry in [&new, &old, &middle] {
        spool::write(&dir, entry).unwrap();
    }
    let contents = spool::read_all(&dir).unwrap();
    assert_eq!(contents.entries, [old, middle, new]);
    assert!(contents.unreadable.is_empty() && contents.abandoned.is_empty());
    assert_eq!(names_in(&dir), ["a:eth0.json", "a:net1.json", "b:eth0.json"]);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&dir), 0o700);
    assert_eq!(mode(&dir.join("a:eth0.json")), 0o600);
}

#[test]
fn removing_spares_a_newer_entry() {
    let place = Place::new();
    let dir = place.spool();
    let (first, second) = (entry("a", "eth0", 1), entry("a", "eth0", 2));
    assert!(!spool::remove(&dir, &first).unwrap(), "no directory yet");
    spool::write(&dir, &first).unwrap();
    spool::write(&dir, &second).unwrap();
    assert!(!spool::remove(&dir, &first).unwrap(), "replaced meanwhile");
    assert_eq!(spool::read_all(&dir).unwrap().entries, std::slice::from_ref(&second));
    assert!(spool::remove(&dir, &second).unwrap());
    assert!(!spool::remove(&dir, &second).unwrap(), "gone already");
    assert!(names_in(&dir).is_empty());
}

#[test]
fn what_is_no_entry_is_told_and_left() {
    let place = Place::new();
    let dir = place.spool();
    spool::write(&dir, &entry("good", "eth0", 1)).unwrap();
    fs::write(dir.join("half.json"), "{\"container_id\":").unwrap();
    fs::write(dir.join("huge.json"), vec![b' '; MAX_ENTRY_BYTES + 1]).unwrap();
    fs::copy(dir.join("good:eth0.json"), dir.join("other:eth0.json")).unwrap();
    symlink("/etc/hostname", dir.join("link.json")).unwrap();
    fs::write(dir.join(".new:eth0.json.77"), "being written").unwrap();
    fs::create_dir(dir.join("aside")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        dir.join("fifo.json"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let contents = spool::read_all(&dir).unwrap();
    assert_eq!(contents.entries, [entry("good", "eth0", 1)]);
    let mut told: Vec<_> = contents
        .unreadable
        .iter()
        .map(|file| file.path.file_name().unwrap().to_str().unwrap())
        .collect();
    told.sort_unstable();
    assert_eq!(told, ["fifo.json", "half.json", "huge.json", "link.json", "other:eth0.json"]);
    assert!(contents.unreadable.iter().all(|file| !file.reason.is_empty()));
    assert!(contents.abandoned.is_empty(), "it may still be written");
    let temporary = fs::File::options().write(true).open(dir.join(".new:eth0.json.77")).unwrap();
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(7200);
    temporary.set_modified(long_ago).unwrap();
    assert_eq!(spool::read_all(&dir).unwrap().abandoned, [dir.join(".new:eth0.json.77")]);
}

#[test]
fn a_full_spool_takes_no_more_but_still_replaces() {
    let place = Place::new();
    let dir = place.spool();
    spool::write(&dir, &entry("a", "eth0", 1)).unwrap();
    for number in 1..MAX_ENTRIES {
        fs::File::create(dir.join(format!("filler{number}"))).unwrap();
    }
    let refused = spool::write(&dir, &entry("b", "eth0", 2)).unwrap_err();
    assert!(matches!(refused, SpoolError::Full(_)));
    let error = CniError::from(refused);
    assert_eq!(error.code, 11);
    assert!(error.msg.contains(dir.to_str().unwrap()) && error.details.contains("flock-agent"));
    spool::write(&dir, &entry("a", "eth0", 3)).unwrap();
    assert_eq!(names_in(&dir).len(), MAX_ENTRIES, "and no temporary file is left");
    let error = place.plugin("DEL", "1.0.0").run().assert_code(11);
    assert!(error["msg"].as_str().unwrap().contains("full"), "{error}");
    fs::remove_file(dir.join("filler1")).unwrap();
    place.plugin("DEL", "1.0.0").run().assert_silent();
}

#[test]
fn names_are_bounded_and_never_meet() {
    let long = |last: &str| format!("{}{last}", "x".repeat(1000));
    let pairs = [
        ("a", "b.c"),
        ("a.b", "c"),
        ("a-b", "c"),
        ("a", "b-c"),
        (&long("1"), "eth0"),
        (&long("2"), "eth0"),
        (&long("2"), "eth1"),
        (&"x".repeat(128), "eth0"),
        (&"x".repeat(129), "eth0"),
        ("A", "eth0"),
        ("a", "eth0"),
        ("a", "ünïcöde"),
    ];
    let place = Place::new();
    let mut seen = std::collections::BTreeSet::new();
    for (container, ifname) in pairs {
        let entry = entry(container, ifname, 1);
        let name = entry.file_name().unwrap();
        assert!(name.len() <= 200 && !name.starts_with('.') && !name.contains('/'), "{name}");
        spool::write(&place.spool(), &entry).unwrap();
        assert!(seen.insert(name));
    }
    let contents = spool::read_all(&place.spool()).unwrap();
    assert_eq!((contents.entries.len(), contents.unreadable.len()), (pairs.len(), 0));
}

#[test]
fn a_name_that_leads_elsewhere_is_refused() {
    let place = Place::new();
    for (container, ifname) in [("../a", "eth0"), ("a", "../eth0"), (".a", "eth0"), ("a", "..")] {
        let refused = spool::write(&place.spool(), &entry(container, ifname, 1)).unwrap_err();
        assert!(matches!(refused, SpoolError::BadName(_)), "{container} {ifname}: {refused}");
        assert!(spool::remove(&place.spool(), &entry(container, ifname, 1)).is_err());
    }
    assert!(!place.spool().exists());
    assert!(names::check_ifname("fifteen-bytes-x").is_ok());
}

#[test]
fn an_entry_is_bounded_at_the_cost_of_its_path_only() {
    let place = Place::new();
    let mut long = entry("a", "eth0", 1);
    long.netns_path = format!("/{}", "p".repeat(2 * MAX_ENTRY_BYTES));
    spool::write(&place.spool(), &long).unwrap();
    let there = spool::read_all(&place.spool()).unwrap().entries.remove(0);
    assert_eq!(there, SpoolEntry { netns_path: String::new(), ..long });
}

#[test]
fn the_longest_container_id_fits_beside_the_longest_path() {
    let place = Place::new();
    let id = "x".repeat(names::LONGEST_CONTAINER_ID);
    let mut longest = entry(&id, "fifteen-bytes-x", u64::MAX);
    longest.netns = Some(NetnsId { dev: u64::MAX, ino: u64::MAX });
    longest.netns_path = format!("/{}", "p".repeat(4094));
    spool::write(&place.spool(), &longest).unwrap();
    assert_eq!(spool::read_all(&place.spool()).unwrap().entries, std::slice::from_ref(&longest));
    // Each byte is six in JSON.
    let escaped = SpoolEntry { netns_path: "\u{1}".repeat(4095), ..longest.clone() };
    spool::write(&place.spool(), &escaped).unwrap();
    let there = spool::read_all(&place.spool()).unwrap().entries.remove(0);
    assert_eq!(there, SpoolEntry { netns_path: String::new(), ..longest });
    let endless = entry(&format!("{id}x"), "eth0", 1);
    let refused = spool::write(&place.spool(), &endless).unwrap_err();
    assert!(matches!(refused, SpoolError::BadName(_)), "{refused}");
}

#[test]
fn what_only_looks_like_a_namespace_has_no_identity() {
    let place = Place::new();
    let file = place.path().join("ns");
    fs::write(&file, "").unwrap();
    assert!(NetnsId::of_path(&file).is_err(), "an unmounted namespace leaves such a file");
    assert!(NetnsId::of_path(Path::new("")).is_err());
    let here = NetnsId::of_path(Path::new("/proc/self/ns/net")).unwrap();
    assert_eq!(NetnsId::of_path(Path::new("/proc/thread-self/ns/net")).unwrap(), here);
    assert_eq!(SpoolEntry::now("a", "eth0", "").netns, None);
}

#[test]
fn many_writers_of_one_attachment_leave_one_whole_entry() {
    let place = Place::new();
    let children: Vec<_> = (0..8)
        .map(|_| {
            let plugin = place.plugin("DEL", "1.0.0");
            std::thread::spawn(move || plugin.run())
        })
        .collect();
    for child in children {
        child.join().unwrap().assert_silent();
    }
    let contents = spool::read_all(&place.spool()).unwrap();
    assert_eq!((contents.entries.len(), contents.unreadable.len()), (1, 0));
    assert_eq!(names_in(&place.spool()), ["c0ffee:eth0.json"]);
}
