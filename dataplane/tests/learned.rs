//! Learned routes: what is asked for is there, and nobody else's is touched.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test says what went wrong by ending there"
)]

mod lab;

use std::future::Future;
use std::net::IpAddr;

use flock_dataplane::{
    Dataplane, Error, LEARNED_HOST6_METRIC, LEARNED_METRIC, LearnedHop, LearnedRoute,
};
use ipnet::IpNet;
use lab::{Space, Uplinks, address, on_node};

fn hop(via: &str, dev: u32) -> LearnedHop {
    LearnedHop { via: address(via), dev }
}

fn route(prefix: &str, next_hops: &[LearnedHop]) -> LearnedRoute {
    LearnedRoute { prefix: prefix.parse().unwrap(), next_hops: next_hops.into() }
}

/// Sets one and insists.
async fn set(dataplane: &Dataplane, route: LearnedRoute) {
    let verdicts = dataplane.set_learned(vec![route]).await.unwrap();
    assert_eq!(verdicts.len(), 1);
    verdicts.into_iter().next().unwrap().unwrap();
}

/// All that `ip` shows of flock's in that prefix's family.
fn shown(node: &Space, prefix: &str) -> String {
    node.ip(&format!("{} route show proto 241", if prefix.contains(':') { "-6" } else { "-4" }))
}

#[test]
fn one_next_hop_becomes_several_and_back() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        let links = Uplinks::new(&node);
        let four =
            [hop("10.8.0.2", links.alt), hop("10.9.0.2", links.up), hop("10.9.0.3", links.up)];
        let six = [
            hop("2001:db8:8::2", links.alt),
            hop("2001:db8:9::2", links.up),
            hop("fe80::3", links.up),
        ];
        // An IPv4 prefix by IPv6 routers (RFC 8950), and by one of each.
        let mixed = [four[1], six[0], six[2]];
        for (prefix, hops, metric) in [
            ("203.0.113.0/24", four, LEARNED_METRIC),
            ("0.0.0.0/0", four, LEARNED_METRIC),
            ("203.0.113.7/32", four, LEARNED_METRIC),
            ("198.51.100.0/24", six, LEARNED_METRIC),
            ("198.51.100.0/24", mixed, LEARNED_METRIC),
            ("2001:db8:f::/48", six, LEARNED_METRIC),
            ("::/0", six, LEARNED_METRIC),
            ("2001:db8:f::7/128", six, LEARNED_HOST6_METRIC),
        ] {
            for count in [1, 3, 2, 3, 1, 2, 1, 1] {
                let wanted = route(prefix, &hops[3 - count..]);
                set(&dataplane, wanted.clone()).await;
                assert_eq!(dataplane.learned_routes().await.unwrap(), vec![wanted], "{count}");
                let shown = shown(&node, prefix);
                assert_eq!(shown.matches(" via ").count(), count, "{shown}");
                assert!(shown.contains(&format!("metric {metric} ")), "{shown}");
            }
            for _ in 0..2 {
                set(&dataplane, route(prefix, &[])).await;
                assert_eq!(dataplane.learned_routes().await.unwrap(), vec![]);
            }
        }
    });
}

#[test]
fn packets_follow_it_also_by_a_router_of_the_other_family() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        let links = Uplinks::new(&node);
        for far in ["203.0.113.1", "2001:db8:f::1"] {
            links.beyond.ip(&format!("addr add {far} dev lo"));
        }
        for (prefix, far, via) in [
            ("203.0.113.0/24", "203.0.113.1", "10.9.0.2"),
            ("203.0.113.0/24", "203.0.113.1", "2001:db8:9::2"),
            ("2001:db8:f::/48", "2001:db8:f::1", "2001:db8:9::2"),
        ] {
            assert!(!node.reaches(address(far)), "{far} before");
            set(&dataplane, route(prefix, &[hop(via, links.up)])).await;
            // The first packets may wait for the kernel to find the router.
            until(|| async { node.reaches(address(far)) }).await;
            set(&dataplane, route(prefix, &[])).await;
        }
    });
}

#[test]
fn a_foreign_route_of_another_metric_stays_beside() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        let links = Uplinks::new(&node);
        for foreign in [
            "route add default via 10.8.0.2 proto dhcp metric 100",
            "route add 203.0.113.0/24 via 10.8.0.2 proto static",
            "-6 route add default via 2001:db8:8::2 proto ra",
            "-6 route add 2001:db8:f::/48 via 2001:db8:8::2 proto static metric 31",
        ] {
            node.ip(foreign);
        }
        let before = node.picture();
        let (four, six) = ([hop("10.9.0.2", links.up)], [hop("2001:db8:9::2", links.up)]);
        let routes = [
            route("0.0.0.0/0", &four),
            route("203.0.113.0/24", &four),
            route("::/0", &six),
            route("2001:db8:f::/48", &six),
        ];
        for _ in 0..2 {
            for wanted in &routes {
                set(&dataplane, wanted.clone()).await;
            }
        }
        let added = node.picture().lines().count() - before.lines().count();
        assert_eq!(added, routes.len(), "{}", node.picture());
        for gone in routes {
            set(&dataplane, LearnedRoute { next_hops: [].into(), ..gone }).await;
        }
        assert_eq!(node.picture(), before);
    });
}

#[test]
fn a_foreign_route_in_its_place_is_neither_replaced_nor_removed() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        let links = Uplinks::new(&node);
        for foreign in [
            "route add 203.0.113.0/24 via 10.8.0.2 proto static metric 32",
            "route add 198.51.100.0/24 dev alt0 proto static metric 32",
            "route add unreachable 192.0.2.0/24 proto static metric 32",
            "-6 route add 2001:db8:f::/48 via 2001:db8:8::2 proto static metric 32",
            "-6 route add 2001:db8:e::/48 dev alt0 proto static metric 32",
            "-6 route add unreachable 2001:db8:d::/48 proto static metric 32",
            "-6 route add 2001:db8:c::7/128 via 2001:db8:8::2 proto static metric 1056",
        ] {
            node.ip(foreign);
        }
        let before = node.picture();
        let prefixes = [
            "203.0.113.0/24",
            "198.51.100.0/24",
            "192.0.2.0/24",
            "2001:db8:f::/48",
            "2001:db8:e::/48",
            "2001:db8:d::/48",
            "2001:db8:c::7/128",
        ];
        for several in [false, true] {
            let wish = |prefix: &&str| {
                let v4 = [hop("10.9.0.2", links.up), hop("10.9.0.3", links.up)];
                let v6 = [hop("2001:db8:9::2", links.up), hop("2001:db8:9::3", links.up)];
                let hops = if prefix.contains(':') { v6 } else { v4 };
                route(prefix, &hops[..1 + usize::from(several)])
            };
            let wishes: Vec<LearnedRoute> = prefixes.iter().map(wish).collect();
            let verdicts = dataplane.set_learned(wishes).await.unwrap();
            for (taken, verdict) in prefixes.iter().zip(verdicts) {
                let error = verdict.unwrap_err();
                let named = matches!(
                    &error,
                    Error::RouteTaken { prefix, metric: 32 | 1056, protocol: 4 }
                        if prefix.to_string() == *taken
                );
                assert!(named, "{taken}: {error}");
            }
            assert_eq!(node.picture(), before);
        }
        let gone: Vec<LearnedRoute> = prefixes.iter().map(|prefix| route(prefix, &[])).collect();
        for verdict in dataplane.set_learned(gone).await.unwrap() {
            verdict.unwrap();
        }
        assert_eq!(node.picture(), before);
        assert_eq!(dataplane.learned_routes().await.unwrap(), vec![]);
    });
}

/// For some packets only, and so in nobody's way.
#[test]
fn a_route_for_some_packets_is_not_in_its_place() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        let links = Uplinks::new(&node);
        node.ip("route add 203.0.113.0/24 tos 0x10 via 10.8.0.2 proto static metric 32");
        for via in ["10.9.0.2", "10.9.0.3"] {
            let wanted = route("203.0.113.0/24", &[hop(via, links.up)]);
            set(&dataplane, wanted.clone()).await;
            assert_eq!(dataplane.learned_routes().await.unwrap(), vec![wanted]);
        }
        assert!(node.ip("route show proto static").contains("203.0.113.0/24 tos"));
    });
}

#[test]
fn each_has_a_verdict_of_its_own() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        let links = Uplinks::new(&node);
        node.ip("route add 192.0.2.0/24 via 10.8.0.2 proto static metric 32");
        let (four, six) = (hop("10.9.0.2", links.up), hop("2001:db8:9::2", links.up));
        let crowd: Vec<LearnedHop> =
            (0..300).map(|n| hop(&format!("10.9.{}.{}", n / 200, n % 200 + 3), links.up)).collect();
        let verdicts = dataplane
            .set_learned(vec![
                route("203.0.113.0/24", &[four]),
                route("2001:db8:f::/48", &[four]),
                route("192.0.2.0/24", &[four]),
                route("198.51.100.0/24", &[hop("10.9.0.2", 4_000_000)]),
                route("198.51.100.0/25", &crowd),
                // With host bits, unsorted, and twice the same.
                route("2001:db8:f::77/48", &[six, hop("2001:db8:8::2", links.alt), six]),
                route("10.77.0.0/16", &[]),
            ])
            .await
            .unwrap();
        let word = |verdict: &Result<(), Error>| match verdict {
            Ok(()) => "done".to_owned(),
            Err(error) => error.to_string(),
        };
        let words: Vec<String> = verdicts.iter().map(word).collect();
        assert_eq!(words[0], "done");
        assert_eq!(
            words[1],
            "route 2001:db8:f::/48 via 10.9.0.2: an IPv6 route needs an IPv6 router"
        );
        assert_eq!(
            words[2],
            "route 192.0.2.0/24 metric 32 is another program's (protocol 4) and stays; for flock's \
             to take its place: ip route del 192.0.2.0/24 metric 32 proto 4"
        );
        assert!(
            words[3]
                .starts_with("install learned route 198.51.100.0/24 via 10.9.0.2 dev 4000000: "),
            "{}",
            words[3]
        );
        assert_eq!(words[4], "route 198.51.100.0/25: 300 next hops, at most 256 fit");
        assert_eq!(words[5..], ["done", "done"]);
        let mut there = dataplane.learned_routes().await.unwrap();
        there.sort();
        let both = [hop("2001:db8:8::2", links.alt), six];
        assert_eq!(there, vec![route("203.0.113.0/24", &[four]), route("2001:db8:f::/48", &both)]);
    });
}

#[test]
fn what_is_said_later_happens_later() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        let links = Uplinks::new(&node);
        let (one, other) = (hop("10.9.0.2", links.up), hop("10.8.0.2", links.alt));
        let prefix = "203.0.113.0/24";
        let wishes = [&[one][..], &[other, one], &[], &[other], &[], &[one]];
        for last in 1..=wishes.len() {
            let routes: Vec<LearnedRoute> =
                wishes[..last].iter().map(|hops| route(prefix, hops)).collect();
            for verdict in dataplane.set_learned(routes).await.unwrap() {
                verdict.unwrap();
            }
            let there = dataplane.learned_routes().await.unwrap();
            let wanted = Some(route(prefix, wishes[last - 1])).filter(|r| !r.next_hops.is_empty());
            assert_eq!(there, wanted.into_iter().collect::<Vec<_>>(), "{last}");
        }
    });
}

#[test]
fn a_next_hop_that_cannot_be_used_is_listed_until_it_is_replaced() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        let links = Uplinks::new(&node);
        let prefixes = ["203.0.113.0/24", "198.51.100.0/24", "2001:db8:f::/48", "2001:db8:e::/48"];
        let up = |prefix: &str| match prefix.contains(':') {
            true => hop("2001:db8:9::2", links.up),
            false => hop("10.9.0.2", links.up),
        };
        let alt = |prefix: &str| match prefix.contains(':') {
            true => hop("2001:db8:8::2", links.alt),
            false => hop("10.8.0.2", links.alt),
        };
        let two = |prefix: &str| route(prefix, &[alt(prefix), up(prefix)]);
        let one = |prefix: &str| route(prefix, &[up(prefix)]);
        let wishes = vec![two(prefixes[0]), one(prefixes[1]), two(prefixes[2]), one(prefixes[3])];
        let install = || async {
            for verdict in dataplane.set_learned(wishes.clone()).await.unwrap() {
                verdict.unwrap();
            }
        };
        let there = || async {
            let mut there = dataplane.learned_routes().await.unwrap();
            there.sort_by_key(|route| wishes.iter().position(|wish| wish.prefix == route.prefix));
            there
        };
        install().await;
        assert_eq!(there().await, wishes);
        // Without a carrier the routes stay, and the kernel goes on to send there.
        let lame = |prefix: &str| {
            let family = if prefix.contains(':') { "-6" } else { "-4" };
            node.ip(&format!("{family} route show {prefix}")).contains("linkdown")
        };
        links.beyond.ip("link set up1 down");
        until(|| async { prefixes.iter().all(|prefix| lame(prefix)) }).await;
        assert_eq!(there().await, wishes);
        // What is replaced does not come back with the carrier.
        let only_alt = |prefix: &str| route(prefix, &[alt(prefix)]);
        let left = vec![only_alt(prefixes[0]), only_alt(prefixes[2])];
        let gone = [prefixes[1], prefixes[3]].map(|prefix| route(prefix, &[]));
        for verdict in dataplane.set_learned([&left[..], &gone].concat()).await.unwrap() {
            verdict.unwrap();
        }
        assert_eq!(there().await, left);
        links.beyond.ip("link set up1 up");
        install().await;
        until(|| async { !prefixes.iter().any(|prefix| lame(prefix)) }).await;
        assert_eq!(there().await, wishes);
        // With the link down those of one next hop are gone, the others dead in part.
        node.ip("link set up0 down");
        assert_eq!(there().await, vec![two(prefixes[0]), two(prefixes[2])]);
        for verdict in dataplane.set_learned(left.clone()).await.unwrap() {
            verdict.unwrap();
        }
        node.ip("link set up0 up");
        node.ip("addr add 2001:db8:9::1/64 dev up0 nodad");
        assert_eq!(there().await, left);
        install().await;
        until(|| async { there().await == wishes }).await;
        // With the link itself the kernel takes what it likes; the rest can be replaced.
        node.ip("link del up0");
        for verdict in dataplane.set_learned(left.clone()).await.unwrap() {
            verdict.unwrap();
        }
        assert_eq!(there().await, left);
    });
}

/// Awaits what the kernel does a moment after it was asked.
async fn until<F: Future<Output = bool>>(holds: impl Fn() -> F) {
    let wait = async {
        while !holds().await {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(5), wait).await.unwrap();
}

#[test]
fn thousands_are_installed_replaced_and_removed() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        let links = Uplinks::new(&node);
        let mut prefixes: Vec<IpNet> = (0..3000u32)
            .flat_map(|n| {
                let (high, low) = (n / 256, n % 256);
                [format!("100.{high}.{low}.0/24"), format!("2001:db8:1:{n:x}::/64")]
            })
            .map(|text| text.parse().unwrap())
            .collect();
        prefixes.sort();
        let hops = |prefix: &IpNet, count: usize| -> Vec<LearnedHop> {
            let both = match prefix.addr() {
                IpAddr::V4(_) => [hop("10.8.0.2", links.alt), hop("10.9.0.2", links.up)],
                IpAddr::V6(_) => [hop("2001:db8:8::2", links.alt), hop("2001:db8:9::2", links.up)],
            };
            both[..count].to_vec()
        };
        for count in [2, 1, 2, 0] {
            let routes: Vec<LearnedRoute> = prefixes
                .iter()
                .map(|prefix| LearnedRoute {
                    prefix: *prefix,
                    next_hops: hops(prefix, count).into(),
                })
                .collect();
            let verdicts = dataplane.set_learned(routes.clone()).await.unwrap();
            assert_eq!(verdicts.len(), routes.len());
            for verdict in verdicts {
                verdict.unwrap();
            }
            let mut there = dataplane.learned_routes().await.unwrap();
            there.sort();
            assert_eq!(there, if count == 0 { vec![] } else { routes }, "{count} next hops");
        }
    });
}
