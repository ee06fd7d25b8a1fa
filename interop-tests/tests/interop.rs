//! The interop matrix, one test for each router and group of cells; see
//! `rack::interop` for what they do, and `make interop` for the whole matrix.
#![allow(clippy::panic, reason = "a test fails by panicking")]

use rack::interop::{GROUPS, Outcome};
use rack::router::Brand;

/// Plays a group and fails with the names of the cells that do.
fn play(brand: Brand, name: &str) {
    let Some(group) = GROUPS.iter().find(|group| group.name == name) else {
        panic!("there is no group {name}");
    };
    let failures: Vec<_> = group
        .play(brand)
        .into_iter()
        .filter_map(|(cell, outcome)| match outcome {
            Outcome::Fails(error) => Some(format!("{} / {cell}: {error:#}", brand.name())),
            Outcome::Works | Outcome::Cannot(_) => None,
        })
        .collect();
    assert!(failures.is_empty(), "\n{}", failures.join("\n\n"));
}

macro_rules! matrix {
    ($($router:ident: $brand:ident),+ $(,)?; $groups:tt) => {
        $(matrix!(@router $router $brand $groups);)+
    };
    (@router $router:ident $brand:ident [$($group:ident),+ $(,)?]) => {
        mod $router {
            $(#[test]
            fn $group() {
                super::play(super::Brand::$brand, stringify!($group));
            })+

            /// The groups that have a test.
            pub(super) const TESTED: &[&str] = &[$(stringify!($group)),+];
        }
    };
}

matrix!(
    bird: Bird, frr: Frr, gobgp: Gobgp, openbgpd: Openbgpd, exabgp: Exabgp;
    [
        exchange, over_ipv6, internal, long_messages, two_bytes, roles, dialling, collision, hold_timer, shutdown, md5, gtsm,
        max_prefixes, our_restart, their_restart,
    ]
);

#[test]
fn every_group_has_a_test_with_every_router() {
    let groups: Vec<_> = GROUPS.iter().map(|group| group.name).collect();
    for tested in [bird::TESTED, frr::TESTED, gobgp::TESTED, openbgpd::TESTED, exabgp::TESTED] {
        assert_eq!(tested, groups);
    }
}
