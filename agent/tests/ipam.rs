//! Which address a pod gets: known answers, the order, the cool-down, the words of a failure.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test says that something is wrong by panicking"
)]

use std::net::IpAddr;
use std::time::Duration;

use flock_agent::ipam::{FamilyPlan, Granted, Ipam, IpamError, Note, PodIdentity, app_name};
use rand::SeedableRng;
use rand::rngs::SmallRng;

const COOLDOWN: Duration = Duration::from_secs(60);

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn rng() -> SmallRng {
    SmallRng::seed_from_u64(7)
}

fn nowhere(_: IpAddr) -> bool {
    false
}

fn who(holder: &str) -> PodIdentity {
    PodIdentity {
        namespace: "foobar".into(),
        app: "a".into(),
        image: String::new(),
        holder: holder.into(),
    }
}

fn v4(pools: &[&str]) -> FamilyPlan {
    FamilyPlan::V4 { pools: pools.iter().map(|pool| pool.parse().unwrap()).collect() }
}

fn take(ipam: &mut Ipam, plan: &FamilyPlan, holder: &str, now: u64) -> Result<Granted, IpamError> {
    ipam.allocate(plan, &who(holder), secs(now), &mut rng(), &nowhere)
}

fn text(ipam: &mut Ipam, plan: &FamilyPlan, holder: &str, now: u64) -> String {
    take(ipam, plan, holder, now).unwrap().addr.to_string()
}

fn addr(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn v4_lowest_first_without_the_edges() {
    let mut ipam = Ipam::new(COOLDOWN);
    let plan = v4(&["10.244.1.0/29"]);
    let all: Vec<String> = (0..5).map(|i| text(&mut ipam, &plan, &i.to_string(), 0)).collect();
    assert_eq!(all, ["10.244.1.2", "10.244.1.3", "10.244.1.4", "10.244.1.5", "10.244.1.6"]);
    assert_eq!(
        take(&mut ipam, &plan, "f", 0).unwrap_err().to_string(),
        "pool 10.244.1.0/29: all 5 usable addresses are held (5 pods), 0 cooling; delete pods, \
         widen the pod's cidr annotation, or add a network to the NodeConfig"
    );
    assert_eq!(text(&mut ipam, &v4(&["10.244.1.0/29", "10.1.0.0/30"]), "g", 0), "10.1.0.2");
    let error = take(&mut ipam, &v4(&["10.1.0.0/30", "10.244.1.0/29"]), "h", 0).unwrap_err();
    assert!(error.to_string().starts_with(
        "pool 10.1.0.0/30: all 1 usable addresses are held (1 pod), 0 cooling; pool 10.244.1.0/29:"
    ));
    assert_eq!(take(&mut ipam, &v4(&[]), "h", 0), Err(IpamError::NoPool));
}

#[test]
fn a_released_address_rests_and_the_oldest_is_used_before_failing() {
    let mut ipam = Ipam::new(COOLDOWN);
    let plan = v4(&["10.0.0.0/29"]);
    for i in 0..4 {
        take(&mut ipam, &plan, &i.to_string(), 0).unwrap();
    }
    assert!(ipam.release(addr("10.0.0.4"), "2", secs(1)));
    assert!(ipam.release(addr("10.0.0.2"), "0", secs(2)));
    assert_eq!(text(&mut ipam, &plan, "a", 3), "10.0.0.6", "a fresh one before a resting one");
    let counters = ipam.counters("10.0.0.0/29".parse().unwrap());
    assert_eq!((counters.size, counters.held, counters.cooling), (5, 3, 2));
    let granted = take(&mut ipam, &plan, "b", 10).unwrap();
    assert_eq!(granted.addr, addr("10.0.0.4"), "released first, not lowest");
    assert_eq!(granted.note, Some(Note::StillCooling(secs(9))));
    assert_eq!(text(&mut ipam, &plan, "c", 62), "10.0.0.2");
    assert!(ipam.release(addr("10.0.0.5"), "3", secs(100)));
    assert!(ipam.release(addr("10.0.0.3"), "1", secs(101)));
    let rested = take(&mut ipam, &plan, "d", 161).unwrap();
    assert_eq!(rested, Granted { addr: addr("10.0.0.3"), note: None }, "lowest of the rested");
}

#[test]
fn only_the_holder_releases() {
    let mut ipam = Ipam::new(COOLDOWN);
    let plan = v4(&["10.0.0.0/24"]);
    let first = take(&mut ipam, &plan, "a", 0).unwrap().addr;
    assert!(!ipam.release(first, "b", secs(1)));
    assert!(!ipam.release(addr("10.0.0.9"), "a", secs(1)));
    assert_eq!(ipam.holder(first), Some("a"));
    // The pod is gone and its link is not: the address stays held, by the deletion.
    ipam.hold(first, "link flock12345678 of a");
    assert!(!ipam.release(first, "a", secs(1)));
    assert!(ipam.release(first, "link flock12345678 of a", secs(2)));
    assert_eq!(ipam.holder(first), None);
}

#[test]
fn claims() {
    let mut ipam = Ipam::new(COOLDOWN);
    let plan = v4(&["10.0.0.0/29"]);
    ipam.claim(addr("10.0.0.2"), "a").unwrap();
    ipam.claim(addr("10.0.0.2"), "a").unwrap();
    let conflict = ipam.claim(addr("10.0.0.2"), "b").unwrap_err();
    assert_eq!(
        conflict.to_string(),
        "address 10.0.0.2 is held by a; choose another one or remove that pod first"
    );
    ipam.claim(addr("10.0.0.4"), "c").unwrap();
    assert_eq!(text(&mut ipam, &plan, "d", 0), "10.0.0.3");
    assert_eq!(text(&mut ipam, &plan, "e", 0), "10.0.0.5");
    assert!(ipam.release(addr("10.0.0.4"), "c", secs(1)));
    ipam.claim(addr("10.0.0.4"), "f").unwrap();
    assert_eq!(ipam.holder(addr("10.0.0.4")), Some("f"), "a claim need not wait");
    assert!(ipam.unallocate(addr("10.0.0.5"), "e"));
    assert_eq!(text(&mut ipam, &plan, "g", 1), "10.0.0.5", "taken back, no cool-down");
}

#[test]
fn what_the_kernel_routes_is_left_alone_and_looked_at_again() {
    let mut ipam = Ipam::new(COOLDOWN);
    let plan = v4(&["10.0.0.0/29"]);
    let routed = |a: IpAddr| a == addr("10.0.0.2") || a == addr("10.0.0.3");
    let grant = |ipam: &mut Ipam, now: u64, routed: &dyn Fn(IpAddr) -> bool| {
        ipam.allocate(&plan, &who(&now.to_string()), secs(now), &mut rng(), routed)
            .map(|granted| granted.addr.to_string())
    };
    assert_eq!(grant(&mut ipam, 1, &routed).unwrap(), "10.0.0.4");
    let asked = std::cell::Cell::new(0);
    let counting = |a: IpAddr| {
        asked.set(asked.get() + 1);
        routed(a)
    };
    assert_eq!(grant(&mut ipam, 2, &counting).unwrap(), "10.0.0.5");
    assert_eq!(asked.get(), 1, "the two are not asked for again");
    assert_eq!(grant(&mut ipam, 3, &routed).unwrap(), "10.0.0.6");
    assert_eq!(
        grant(&mut ipam, 4, &routed).unwrap_err().to_string(),
        "pool 10.0.0.0/29: none of 5 usable addresses is free (3 pods), 0 cooling, 2 already \
         routed elsewhere; delete pods, widen the pod's cidr annotation, or add a network to the \
         NodeConfig"
    );
    assert_eq!(grant(&mut ipam, 100, &nowhere).unwrap(), "10.0.0.2");
}

#[test]
fn pools_that_overlap_do_not_give_twice() {
    let mut ipam = Ipam::new(COOLDOWN);
    let (wide, narrow) = (v4(&["10.0.0.0/24"]), v4(&["10.0.0.0/29"]));
    assert_eq!(text(&mut ipam, &wide, "a", 0), "10.0.0.2");
    assert_eq!(text(&mut ipam, &narrow, "b", 0), "10.0.0.3");
    assert_eq!(text(&mut ipam, &wide, "c", 0), "10.0.0.4");
    ipam.release(addr("10.0.0.3"), "b", secs(0));
    assert_eq!(text(&mut ipam, &wide, "d", 60), "10.0.0.3", "back in the other pool too");
    assert_eq!(text(&mut ipam, &narrow, "e", 60), "10.0.0.5");
}

#[test]
fn the_app_of_a_pod() {
    let table = [
        (None, None, "lone-pod", "lone-pod"),
        (Some(("StatefulSet", "db")), None, "db-0", "db"),
        (Some(("DaemonSet", "agent")), Some("x"), "agent-x2z7k", "agent"),
        (Some(("ReplicaSet", "web-5d59d67564")), Some("5d59d67564"), "web-5d59d67564-abcde", "web"),
        (Some(("ReplicaSet", "web-front-5d59d67564")), None, "p", "web-front"),
        (Some(("ReplicaSet", "my-app")), None, "p", "my-app"),
        (Some(("ReplicaSet", "web-7f9c")), Some("other"), "p", "web-7f9c"),
        (Some(("ReplicaSet", "single")), None, "p", "single"),
        (Some(("ReplicaSet", "-5d59d67564")), None, "p", "-5d59d67564"),
    ];
    for (controller, hash, pod, wanted) in table {
        assert_eq!(app_name(controller, hash, pod), wanted, "{controller:?}");
    }
}

/// Cost by counting: what an allocation looks at must not grow with what is held.
#[test]
fn cost_does_not_grow_with_what_is_held() {
    let mut ipam = Ipam::new(secs(1));
    let plan = v4(&["10.0.0.0/16"]);
    for i in 0..60_000u64 {
        take(&mut ipam, &plan, &i.to_string(), 0).unwrap();
    }
    assert_eq!(ipam.examined(), 60_000, "one look each");
    let before = ipam.examined();
    for i in 0..1000u64 {
        let now = 10 + 2 * i;
        assert!(ipam.release(
            addr("10.0.100.7"),
            if i == 0 { "25605" } else { "again" },
            secs(now)
        ));
        assert_eq!(text(&mut ipam, &plan, "again", now + 2), "10.0.100.7");
    }
    // One look for waking it, one for taking it.
    assert_eq!(ipam.examined() - before, 2000);

    // After a restart: claimed addresses are passed once, by the first allocation, not by each.
    let mut ipam = Ipam::new(secs(1));
    for i in 0..5000u32 {
        ipam.claim(std::net::Ipv4Addr::from_bits(0x0a00_0002 + i).into(), "old").unwrap();
    }
    take(&mut ipam, &plan, "a", 0).unwrap();
    assert_eq!(ipam.examined(), 5001);
    take(&mut ipam, &plan, "b", 0).unwrap();
    assert_eq!(ipam.examined(), 5002);
}

#[test]
fn any_number_of_pools_is_remembered_boundedly_and_rightly() {
    let mut ipam = Ipam::new(COOLDOWN);
    for round in 0..2 {
        for i in 0..200u8 {
            let plan = v4(&[&format!("10.0.{i}.0/29")]);
            let found = text(&mut ipam, &plan, &format!("{round}/{i}"), 0);
            assert_eq!(found, format!("10.0.{i}.{}", 2 + round));
        }
    }
}
