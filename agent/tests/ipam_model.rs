//! Properties of the IPAM against a model that looks at every address each time.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test says that something is wrong by panicking"
)]

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use flock_agent::ipam::{FamilyPlan, Ipam, PodIdentity};
use ipnet::Ipv4Net;
use proptest::prelude::*;
use rand::SeedableRng;
use rand::rngs::SmallRng;

const COOLDOWN: u64 = 20;
/// Pools that overlap: annotations narrow the node's.
const POOLS: [&str; 4] = ["10.0.0.0/27", "10.0.0.8/29", "10.0.0.0/28", "10.0.0.16/30"];

#[derive(Debug, Clone)]
enum Act {
    Allocate { pool: usize },
    Claim { host: u32 },
    Release { nth: usize },
    Unallocate { nth: usize },
    Wait { seconds: u64 },
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        5 => (0..POOLS.len()).prop_map(|pool| Act::Allocate { pool }),
        1 => (0..32u32).prop_map(|host| Act::Claim { host }),
        4 => any::<usize>().prop_map(|nth| Act::Release { nth }),
        1 => any::<usize>().prop_map(|nth| Act::Unallocate { nth }),
        2 => (0..15u64).prop_map(|seconds| Act::Wait { seconds }),
    ];
    proptest::collection::vec(act, 1..200)
}

/// The rules of 01-product, spelled out: no index, no memory but who holds what and since when
/// what rests (with the number of its release, for the order within one second).
#[derive(Default)]
struct Model {
    held: BTreeMap<Ipv4Addr, String>,
    resting: BTreeMap<Ipv4Addr, (u64, usize)>,
    releases: usize,
}

impl Model {
    fn allocate(&self, pool: Ipv4Net, now: u64) -> Option<Ipv4Addr> {
        let usable: Vec<Ipv4Addr> = (pool.network().to_bits() + 2..pool.broadcast().to_bits())
            .map(Ipv4Addr::from_bits)
            .filter(|addr| !self.held.contains_key(addr))
            .collect();
        let rested = |addr: &&Ipv4Addr| {
            self.resting.get(addr).is_none_or(|(since, _)| since + COOLDOWN <= now)
        };
        usable
            .iter()
            .find(rested)
            .or_else(|| usable.iter().min_by_key(|addr| self.resting.get(addr)))
            .copied()
    }
}

fn pod(holder: &str) -> PodIdentity {
    let (namespace, app, image) = (String::new(), String::new(), String::new());
    PodIdentity { namespace, app, image, holder: holder.into() }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn does_what_the_naive_model_does(acts in acts()) {
        let mut ipam = Ipam::new(Duration::from_secs(COOLDOWN));
        let mut model = Model::default();
        let mut rng = SmallRng::seed_from_u64(1);
        let mut now = 0;
        for (i, act) in acts.into_iter().enumerate() {
            let holder = i.to_string();
            match act {
                Act::Wait { seconds } => now += seconds,
                Act::Allocate { pool } => {
                    let net: Ipv4Net = POOLS[pool].parse().unwrap();
                    let plan = FamilyPlan::V4 { pools: vec![net] };
                    let wanted = model.allocate(net, now);
                    let found = ipam
                        .allocate(&plan, &pod(&holder), Duration::from_secs(now), &mut rng, &|_| false)
                        .ok()
                        .map(|granted| granted.addr);
                    prop_assert_eq!(found, wanted.map(IpAddr::V4));
                    if let Some(addr) = wanted {
                        model.resting.remove(&addr);
                        prop_assert!(model.held.insert(addr, holder).is_none(), "two holders");
                    }
                }
                Act::Claim { host } => {
                    let addr = Ipv4Addr::from_bits(0x0a00_0000 + host);
                    let claimed = ipam.claim(addr.into(), &holder).is_ok();
                    prop_assert_eq!(claimed, !model.held.contains_key(&addr));
                    if claimed {
                        model.resting.remove(&addr);
                        model.held.insert(addr, holder);
                    }
                }
                Act::Release { nth } | Act::Unallocate { nth } if model.held.is_empty() => {
                    let _ = nth;
                }
                Act::Release { nth } => {
                    let (addr, holder) = nth_held(&model, nth);
                    prop_assert!(ipam.release(addr.into(), &holder, Duration::from_secs(now)));
                    model.held.remove(&addr);
                    model.releases += 1;
                    model.resting.insert(addr, (now, model.releases));
                }
                Act::Unallocate { nth } => {
                    let (addr, holder) = nth_held(&model, nth);
                    prop_assert!(ipam.unallocate(addr.into(), &holder));
                    model.held.remove(&addr);
                }
            }
            for host in 0..32 {
                let addr = Ipv4Addr::from_bits(0x0a00_0000 + host);
                prop_assert_eq!(ipam.holder(addr.into()), model.held.get(&addr).map(String::as_str));
            }
        }
    }

    #[test]
    fn v6_never_gives_twice(seed: u64, len in 116u8..=124, algo in any::<bool>(), count in 1usize..300) {
        let pool: ipnet::Ipv6Net = format!("2001:db8::/{len}").parse().unwrap();
        let algo = algo.then(|| "namespace,app".parse().unwrap());
        let plan = FamilyPlan::V6 { pools: vec![pool], algo };
        let mut ipam = Ipam::new(Duration::from_secs(COOLDOWN));
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut seen = std::collections::BTreeSet::new();
        for i in 0..count {
            match ipam.allocate(&plan, &pod(&i.to_string()), Duration::ZERO, &mut rng, &|_| false) {
                Ok(granted) => {
                    prop_assert!(seen.insert(granted.addr));
                    prop_assert!(ipnet::IpNet::V6(pool).contains(&granted.addr));
                    prop_assert_ne!(granted.addr, IpAddr::V6(pool.network()));
                }
                // Not before the last one is gone.
                Err(_) => prop_assert_eq!(seen.len() + 1, 1 << (128 - len)),
            }
        }
    }
}

fn nth_held(model: &Model, nth: usize) -> (Ipv4Addr, String) {
    let (addr, holder) = model.held.iter().nth(nth % model.held.len()).unwrap();
    (*addr, holder.clone())
}
