//! Files that come, go and are bad, and what the pictures say then.

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
    let touched = Touched { files, everything: false };
    let at_once = directory.look_at_once(&touched).then(|| directory.world());
    directory.look(&touched);
    let world = directory.world();
    assert!(at_once.is_none_or(|at_once| at_once == world), "{path}: read in another way");
    world
}

/// Whether reads from these can be asked not to wait: ext4, XFS, btrfs.
fn reads_without_waiting(path: &Path) -> bool {
    let kind = rustix::fs::statfs(path).unwrap().f_type;
    [0xef53, 0x5846_5342, 0x9123_683e].contains(&kind)
}

#[test]
fn what_is_small_and_in_memory_is_read_at_once_and_all_else_in_peace() {
    let (_dir, root) = place();
    let mut directory = Directory::read(&root);
    let mut at_once = |paths: &[&str], everything| {
        let files = paths.iter().map(|path| ((*path).into(), Arrival::Settled)).collect();
        directory.look_at_once(&Touched { files, everything }).then(|| directory.world().pods.len())
    };
    let small = root.join("pods/a.yaml");
    fs::write(root.join(".new"), POD).unwrap();
    fs::rename(root.join(".new"), &small).unwrap();
    if reads_without_waiting(&root) {
        assert_eq!(at_once(&["pods/a.yaml"], false), Some(1));
    }
    assert_eq!(at_once(&["pods/a.yaml"], true), None, "everything may be much");
    fifo(&root.join("pods/fifo.yaml"));
    assert_eq!(at_once(&["pods/fifo.yaml"], false), None);
    fs::write(root.join("pods/large.yaml"), format!("{POD}#{}", "x".repeat(20_000))).unwrap();
    assert_eq!(at_once(&["pods/large.yaml"], false), None);
    let many: Vec<String> = (0..20).map(|n| format!("pods/{n}.yaml")).collect();
    many.iter().for_each(|path| fs::write(root.join(path), POD).unwrap());
    assert_eq!(at_once(&many.iter().map(String::as_str).collect::<Vec<_>>(), false), None);
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
    assert_eq!(world.pods.get(&key).unwrap().image.as_ref(), "first");
    assert_eq!(world.problems["pods/b.yaml"], "pod default/a is in pods/a.yaml already");
    fs::remove_file(root.join("pods/a.yaml")).unwrap();
    let world = touch(&mut directory, "pods/a.yaml", Arrival::Settled);
    assert_eq!(world.pods.get(&key).unwrap().image.as_ref(), "second");
    assert!(world.problems.is_empty(), "{world:?}");
    fs::remove_file(root.join("pods/b.yaml")).unwrap();
    let world = touch(&mut directory, "pods/b.yaml", Arrival::Settled);
    assert!(world.pods.is_empty() && world.problems.is_empty());
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

const POLICY: &str = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n\
                      metadata: {name: closed, namespace: shop}\nspec: {podSelector: {}}\n";
const NAMESPACE: &str =
    "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {team: a}}\n";

fn touch_cluster(directory: &mut Directory, path: &str, arrival: Arrival) -> Cluster {
    touch(directory, path, arrival);
    directory.cluster()
}

#[test]
fn policies_and_namespaces_follow_their_files() {
    let (_dir, root) = place();
    let mut directory = Directory::read(&root);
    assert_eq!(directory.cluster(), Cluster { complete: true, ..Cluster::default() });
    for folder in [POLICIES, NAMESPACES] {
        fs::create_dir(root.join(folder)).unwrap();
    }
    fs::write(root.join("networkpolicies/.hidden.yaml"), POLICY).unwrap();
    fs::write(root.join("networkpolicies/x.txt"), POLICY).unwrap();
    fs::write(root.join("namespaces/shop.yaml"), NAMESPACE).unwrap();
    directory.look(&Touched { everything: true, ..Touched::default() });
    let cluster = directory.cluster();
    assert!(cluster.policies.is_empty() && cluster.problems.is_empty(), "{cluster:?}");
    let labels: Vec<_> = cluster.namespaces["shop"].iter().collect();
    assert_eq!(labels, [("kubernetes.io/metadata.name", "shop"), ("team", "a")]);

    let file = root.join("networkpolicies/a.yaml");
    let path = "networkpolicies/a.yaml";
    fs::write(&file, POLICY).unwrap();
    let cluster = touch_cluster(&mut directory, path, Arrival::Settled);
    let names: Vec<_> = cluster.policies.iter().map(|(key, _)| key.to_string()).collect();
    assert_eq!(names, ["shop/closed"]);
    for (bad, word) in
        [("", "is empty"), ("kind: Pod\nmetadata: {name: a}\n", "expected"), ("{", "")]
    {
        fs::write(&file, bad).unwrap();
        let now = touch_cluster(&mut directory, path, Arrival::Settled);
        assert_eq!(now.policies, cluster.policies, "{bad:?}");
        assert!(now.problems[path].contains(word), "{now:?}");
        assert_eq!(directory.world().problems[path], now.problems[path], "people look there");
    }
    fs::write(&file, "").unwrap();
    fs::write(&file, POLICY).unwrap();
    assert!(touch_cluster(&mut directory, path, Arrival::Settled).problems.is_empty());
    fs::write(root.join("networkpolicies/b.yml"), POLICY).unwrap();
    let now = touch_cluster(&mut directory, "networkpolicies/b.yml", Arrival::Settled);
    assert_eq!(
        now.problems["networkpolicies/b.yml"],
        "NetworkPolicy shop/closed is in networkpolicies/a.yaml already"
    );
    fs::remove_file(&file).unwrap();
    assert_eq!(
        touch_cluster(&mut directory, path, Arrival::Settled).policies.len(),
        1,
        "the other"
    );
    fs::remove_dir_all(root.join(POLICIES)).unwrap();
    fs::remove_dir_all(root.join(NAMESPACES)).unwrap();
    directory.look(&Touched { everything: true, ..Touched::default() });
    assert_eq!(directory.cluster(), Cluster { complete: true, ..Cluster::default() });
}

#[test]
fn peers_are_there_while_there_is_a_policy() {
    let (_dir, root) = place();
    fs::create_dir(root.join(POLICIES)).unwrap();
    let pod = "metadata: {name: a, labels: {app: web}}\nstatus: {podIP: 10.0.0.9}\n";
    fs::write(root.join("pods/a.yaml"), pod).unwrap();
    fs::write(root.join("pods/b.yaml"), pod.replace("name: a", "name: b")).unwrap();
    let mut directory = Directory::read(&root);
    assert!(directory.cluster().peers.is_empty(), "nobody asks");
    fs::write(root.join("networkpolicies/a.yaml"), POLICY).unwrap();
    let path = "networkpolicies/a.yaml";
    let cluster = touch_cluster(&mut directory, path, Arrival::Settled);
    let key = |name: &str| PodKey { namespace: "default".into(), name: name.into() };
    let (a, b) = (cluster.peers.get(&key("a")).unwrap(), cluster.peers.get(&key("b")).unwrap());
    assert!(Arc::ptr_eq(&a.labels, &b.labels), "equal labels are shared");
    let world = directory.world();
    assert!(Arc::ptr_eq(&a.labels, &world.pods.get(&key("a")).unwrap().labels));
    fs::write(root.join("pods/a.yaml"), POD).unwrap();
    assert_eq!(touch_cluster(&mut directory, "pods/a.yaml", Arrival::Settled).peers.len(), 1);
    fs::remove_file(root.join(path)).unwrap();
    assert!(touch_cluster(&mut directory, path, Arrival::Settled).peers.is_empty());
}
