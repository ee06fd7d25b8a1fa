//! What the kernel has for one prefix or address, as people are told it.
#![allow(clippy::unwrap_used, reason = "a test says what went wrong by ending there")]

mod lab;

use std::sync::Arc;

use flock_dataplane::{Dataplane, NextHop, NodeRoute, PodLink, StandingRoute};
use ipnet::IpNet;
use lab::{Space, Uplinks, address, dual, on_node};

fn text<'a>(routes: impl IntoIterator<Item = &'a StandingRoute>) -> String {
    let texts: Vec<String> = routes.into_iter().map(ToString::to_string).collect();
    texts.join(" | ")
}

#[test]
fn summaries_anycast_pods_and_what_hides_them() {
    on_node(|node| async move {
        let dataplane = Dataplane::start().unwrap();
        let _uplinks = Uplinks::new(&node);
        let pods = [Space::new("p"), Space::new("p")];
        let links: Vec<PodLink> = pods.iter().zip(2..).map(|(pod, n)| dual(pod, n)).collect();
        for link in &links {
            dataplane.attach(link.clone()).await.unwrap();
        }
        let of = async |prefix: &str| {
            dataplane.routes_of(prefix.parse::<IpNet>().unwrap()).await.unwrap()
        };
        let about = async |to: &str| dataplane.decides_about(address(to)).await.unwrap();

        // A summary is found although no lookup shows it.
        for prefix in ["10.77.0.0/24", "2001:db8:77::/64"] {
            assert_eq!(text(&of(prefix).await), "");
            let prefix: IpNet = prefix.parse().unwrap();
            dataplane.set_route(NodeRoute::Blackhole { prefix }).await.unwrap();
            let found = of(&prefix.to_string()).await;
            assert_eq!(text(&found), format!("unreachable {prefix}"));
            assert!(found.iter().all(StandingRoute::is_ours));
            assert_eq!(about(&prefix.addr().to_string()).await, None, "it answers");
        }

        // Anycast over two pods, and a pod's own.
        let via = |link: &PodLink| {
            Arc::new(NextHop { via: link.ip4.unwrap().into(), dev: link.host_ifname.clone() })
        };
        let [first, second] = links.as_slice() else { unreachable!() };
        let anycast = NodeRoute::Anycast {
            address: address("192.0.2.53"),
            next_hops: vec![via(first), via(second)],
        };
        dataplane.set_route(anycast).await.unwrap();
        let shown = text(&of("192.0.2.53/32").await);
        let hop = |link: &PodLink| format!("via {} dev {}", link.ip4.unwrap(), link.host_ifname);
        assert_eq!(shown, format!("192.0.2.53/32 {}, {}", hop(first), hop(second)));
        let own = format!("{}/32", first.ip4.unwrap());
        assert_eq!(text(&of(&own).await), format!("{own} dev {}", first.host_ifname));

        // Somebody else's.
        node.ip("route add 203.0.113.0/24 via 10.9.0.2 proto static");
        let found = of("203.0.113.0/24").await;
        assert_eq!(found.iter().map(|route| route.protocol).collect::<Vec<_>>(), [4]);
        assert!(text(&about("203.0.113.9").await).starts_with("203.0.113.0/24 via 10.9.0.2 dev "));
        assert_eq!(text(&of("203.0.113.0/25").await), "", "another length is another");

        // Everything has no last address of its own.
        for default in ["0.0.0.0/0", "::/0"] {
            let via = if default == "::/0" { "2001:db8:9::2" } else { "10.9.0.2" };
            node.ip(&format!("route add default via {via} metric 7"));
            let found = text(&of(default).await);
            assert!(found.starts_with(&format!("{default} via {via} dev ")), "{found}");
        }

        // Somebody else's before ours.
        node.ip("route add 10.77.0.0/24 via 10.9.0.2 proto static");
        let both = text(&of("10.77.0.0/24").await);
        let wanted = ["10.77.0.0/24 via 10.9.0.2 dev ", " | unreachable 10.77.0.0/24"];
        assert!(both.starts_with(wanted[0]) && both.ends_with(wanted[1]), "{both}");
    });
}
