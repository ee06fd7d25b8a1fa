//! Addresses that stand for pods, as kube-proxy makes them: a packet is judged by where it really goes, and
//! a pod that is behind its own service reaches itself.

use std::net::{IpAddr, SocketAddr};

use rack::netns::Netns;
use rack::policy::people::{Home, policy};
use rack::policy::rig::Rig;
use rack::wait::{PATIENCE, until};

/// The address of the service, which nobody has.
const SERVICE: [&str; 2] = ["10.96.0.10", "2001:db8:96::10"];

/// Leads the service on a node to a pod, and hides who asked where they are the same, as kube-proxy does.
fn lead(node: &Netns, to: [IpAddr; 2]) {
    let table = |family: &str, service: &str, to: SocketAddr| {
        let ip = to.ip();
        format!(
            "table {family} service {{\n\
             chain before {{\n type nat hook prerouting priority dstnat\n \
             {family} daddr {service} tcp dport 80 dnat to {to}\n }}\n\
             chain after {{\n type nat hook postrouting priority srcnat\n \
             {family} saddr {ip} {family} daddr {ip} masquerade\n }}\n}}\n"
        )
    };
    let rules = table("ip", SERVICE[0], SocketAddr::new(to[0], 8080))
        + &table("ip6", SERVICE[1], SocketAddr::new(to[1], 8080));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), rules).unwrap();
    node.exec("nft", &["-f", file.path().to_str().unwrap()]).unwrap();
}

/// Whether somebody gets an answer from the service, in each family.
fn asks(from: &Netns) -> [bool; 2] {
    SERVICE.map(|service| {
        let to = SocketAddr::new(service.parse().unwrap(), 80);
        from.within(|| {
            let stream =
                std::net::TcpStream::connect_timeout(&to, std::time::Duration::from_secs(2));
            Ok(stream.is_ok())
        })
        .unwrap()
    })
}

#[test]
fn what_is_behind_a_service_is_what_counts() {
    let mut rig = Rig::start().unwrap();
    let db = rig.spot("back/db-1").unwrap().addresses;
    lead(rig.node(Home::A).netns(), db);
    let set = |rig: &mut Rig, policies: &[(&str, &str)]| {
        let policies: Vec<_> =
            policies.iter().map(|(name, spec)| policy(name, spec).unwrap()).collect();
        rig.set_policies(&policies).unwrap();
    };
    let ask = |rig: &Rig, pod: &str| asks(&rig.pod(pod).unwrap().netns);
    let awaits = |rig: &Rig, pod: &str, wanted: bool| {
        until(&format!("the service to be {wanted} for {pod}"), PATIENCE, || {
            let got = ask(rig, pod);
            anyhow::ensure!(got == [wanted; 2], "it is {got:?} for {pod}");
            Ok(())
        })
        .unwrap();
    };
    awaits(&rig, "front/web-1", true);
    awaits(&rig, "back/db-1", true);
    // The port of the service is nothing to a policy; the one of the pod is.
    let egress = "{ podSelector: {}, policyTypes: [Egress], egress: [{ ports: [{ port: 8080 }], \
                  to: [{ namespaceSelector: {}, podSelector: { matchLabels: { app: db } } }] }] }";
    set(&mut rig, &[("front/p", egress)]);
    awaits(&rig, "front/web-1", true);
    set(&mut rig, &[("front/p", &egress.replace("8080", "80"))]);
    awaits(&rig, "front/web-1", false);
    // Isolated from everybody, a pod is still not isolated from itself.
    set(&mut rig, &[("back/p", "{ podSelector: {}, policyTypes: [Ingress, Egress] }")]);
    awaits(&rig, "front/web-1", false);
    awaits(&rig, "back/db-1", true);
}
