//! IPv6 addresses: `ip-algo` with known answers, random ones, and pools that run out.
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

use flock_agent::ipam::{FamilyPlan, Granted, IpAlgo, Ipam, IpamError, Note, PodIdentity};
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

fn v6(pools: &[&str], algo: &str) -> FamilyPlan {
    let pools = pools.iter().map(|pool| pool.parse().unwrap()).collect();
    FamilyPlan::V6 { pools, algo: algo.parse().ok() }
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

/// Published FNV-1a-64 values: "" cbf29ce484222325, "a" af63dc4c8601ec8c,
/// "foobar" 85944171f73967e8 (draft-eastlake-fnv, test vectors).
#[test]
fn ip_algo_known_answers() {
    let digest = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    let table = [
        ("2001:db8:1:2::/64", "namespace,app,image", "", "2001:db8:1:2:8594:4af6:3dcb:f290/124"),
        ("2001:db8:1:2::/64", "image,app,namespace", "", "2001:db8:1:2:cbf2:9af6:3d85:9440/124"),
        ("2001:db8:1:2::/64", "namespace", "", "2001:db8:1:2:8594:4171:f739:67e0/124"),
        // 15 nibbles for two fields: the first has one more.
        ("2001:db8:1:2::/64", "namespace,app", "", "2001:db8:1:2:8594:4171:af63:dc40/124"),
        ("2001:db8:1:2::/64", "app,image", digest, "2001:db8:1:2:af63:dc4c:0123:4560/124"),
        // 23 nibbles: the hash has 16 and starts over.
        ("2001:db8::/32", "app", "", "2001:db8:af63:dc4c:8601:ec8c:af63:dc40/124"),
        ("2001:db8::/32", "image", digest, "2001:db8:0123:4567:89ab:cdef:0123:4560/124"),
        // 7 nibbles for three: 3+2+2.
        ("2001:db8::/96", "namespace,app,image", "", "2001:db8::859a:fcb0/124"),
        // One nibble for three: 1+0+0.
        ("2001:db8::/120", "namespace,app,image", "", "2001:db8::80/124"),
    ];
    for (pool, algo, image, wanted) in table {
        let wanted: ipnet::Ipv6Net = wanted.parse().unwrap();
        let who = PodIdentity { image: image.to_owned(), ..who("a") };
        let mut ipam = Ipam::new(COOLDOWN);
        let granted =
            ipam.allocate(&v6(&[pool], algo), &who, secs(0), &mut rng(), &nowhere).unwrap();
        let IpAddr::V6(found) = granted.addr else { panic!("{granted:?}") };
        assert!(wanted.contains(&found), "{pool} {algo} {image}: {found} not in {wanted}");
        assert_eq!(granted.note, None);
    }
}

#[test]
fn an_image_that_is_no_digest_is_hashed() {
    // 63 and 65 digits, one that is no digit, and a digest with more around it.
    let hex = "0123456789abcdef".repeat(4);
    for image in
        [&hex[1..], &format!("{hex}0"), &hex.replace('0', "g"), &format!("name@sha256:{hex}")]
    {
        let who = PodIdentity { image: image.to_owned(), ..who("a") };
        let mut ipam = Ipam::new(COOLDOWN);
        let plan = v6(&["2001:db8::/64"], "image");
        let IpAddr::V6(found) =
            ipam.allocate(&plan, &who, secs(0), &mut rng(), &nowhere).unwrap().addr
        else {
            panic!("not IPv6")
        };
        // FNV-1a by its definition over wide integers, apart from the code under test.
        let mut hash: u128 = 14_695_981_039_346_656_037;
        for byte in image.bytes() {
            hash = (hash ^ u128::from(byte)) * 1_099_511_628_211 % (1 << 64);
        }
        assert_eq!(found.to_bits() & u128::from(u64::MAX) & !0xf, hash & !0xf);
    }
}

#[test]
fn sixteen_of_a_kind_then_random() {
    let mut ipam = Ipam::new(COOLDOWN);
    let plan = v6(&["2001:db8::/64"], "app");
    let mut found: Vec<IpAddr> = Vec::new();
    for i in 0..16 {
        let granted = take(&mut ipam, &plan, &i.to_string(), 0).unwrap();
        assert_eq!(granted.note, None);
        assert!(granted.addr.to_string().starts_with("2001:db8::af63:dc4c:8601:ec8"));
        assert!(!found.contains(&granted.addr));
        found.push(granted.addr);
    }
    let more = take(&mut ipam, &plan, "17", 0).unwrap();
    assert_eq!(more.note, Some(Note::AlgoFull("2001:db8::/64".parse().unwrap())));
    assert!(!more.addr.to_string().starts_with("2001:db8::af63:dc4c:8601:ec8"));
    // The workload's own resting address is better than a random one.
    ipam.release(found[3], "3", secs(5));
    let again = take(&mut ipam, &plan, "18", 6).unwrap();
    assert_eq!(again, Granted { addr: found[3], note: Some(Note::StillCooling(secs(1))) });
}

#[test]
fn a_pool_that_does_not_fit_is_random_with_a_note() {
    let mut ipam = Ipam::new(COOLDOWN);
    let plan = v6(&["2001:db8::/62"], "app");
    let granted = take(&mut ipam, &plan, "a", 0).unwrap();
    assert_eq!(granted.note, Some(Note::AlgoDoesNotFit("2001:db8::/62".parse().unwrap())));
    assert!("2001:db8::/62".parse::<ipnet::IpNet>().unwrap().contains(&granted.addr));
    assert!(!IpAlgo::fits("2001:db8::/63".parse().unwrap()));
}

#[test]
fn a_small_v6_pool_is_used_to_the_last() {
    for algo in ["", "namespace,app"] {
        let mut ipam = Ipam::new(COOLDOWN);
        let plan = v6(&["2001:db8::/124"], algo);
        for i in 0..15 {
            let found = text(&mut ipam, &plan, &i.to_string(), 0);
            assert_ne!(found, "2001:db8::", "the subnet-router anycast address");
        }
        let error = take(&mut ipam, &plan, "x", 0).unwrap_err().to_string();
        assert!(
            error.starts_with(
                "pool 2001:db8::/124: all 15 usable addresses are held (15 pods), 0 cooling; "
            ),
            "{error}"
        );
        let holder = ipam.holder(addr("2001:db8::7")).unwrap().to_owned();
        assert!(ipam.release(addr("2001:db8::7"), &holder, secs(1)));
        assert_eq!(text(&mut ipam, &plan, "x", 2), "2001:db8::7");
    }
}

#[test]
fn random_is_random_and_inside() {
    let mut ipam = Ipam::new(COOLDOWN);
    let plan = v6(&["2001:db8:a::/64"], "");
    let mut rng = rng();
    let mut seen = std::collections::BTreeSet::new();
    for i in 0..1000 {
        let granted =
            ipam.allocate(&plan, &who(&i.to_string()), secs(0), &mut rng, &nowhere).unwrap();
        assert!("2001:db8:a::/64".parse::<ipnet::IpNet>().unwrap().contains(&granted.addr));
        assert!(seen.insert(granted.addr));
    }
}

#[test]
fn routed_v6_everywhere_fails_with_words() {
    let mut ipam = Ipam::new(COOLDOWN);
    let plan = v6(&["2001:db8::/64"], "app");
    let error = ipam.allocate(&plan, &who("a"), secs(0), &mut rng(), &|_| true).unwrap_err();
    assert!(error.to_string().starts_with(
        "pool 2001:db8::/64: no free address found in 16 tries (0 pods of 18446744073709551615 usable addresses), 0 cooling; "
    ));
}
