#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that cannot go on ends"
)]
use rack::fabric::Fabric;
use rack::router::Brand;
fn show(fabric: &Fabric, what: &str) {
    let out = fabric.node(1).unwrap().cli(&["bgp", "explain", what]);
    println!("$ bgp explain {what}\n{}", out.unwrap_or_else(|e| format!("{e:#}")));
}
#[test]
fn scratch() {
    let mut fabric = Fabric::builder()
        .tor("tor-a", Brand::Bird)
        .tor("tor-b", Brand::Frr)
        .nodes(1)
        .build()
        .unwrap();
    fabric.start().unwrap();
    fabric.await_sessions().unwrap();
    std::thread::sleep(std::time::Duration::from_secs(2));
    let web = fabric.add_pod(1, "web", &[]).unwrap();
    let mut dns = fabric.add_pod(1, "dns", &[("anycast", "192.0.2.53")]).unwrap();
    let own = fabric.add_pod(1, "own", &[("addresses", "198.51.100.7")]).unwrap();
    std::thread::sleep(std::time::Duration::from_secs(1));
    show(&fabric, "10.244.1.0/24");
    show(&fabric, "2001:db8:0:1::/64");
    show(&fabric, &web.v4.unwrap().to_string());
    show(&fabric, "10.244.1.99");
    show(&fabric, "192.0.2.53");
    show(&fabric, "198.51.100.7");
    show(&fabric, "0.0.0.0/0");
    show(&fabric, "8.8.8.8");
    show(&fabric, "10.0.0.0/8");
    show(&fabric, "2001:db8:dead::/48");
    fabric.set_ready(&mut dns, false).unwrap();
    std::thread::sleep(std::time::Duration::from_secs(1));
    show(&fabric, "192.0.2.53");
    println!(
        "{}",
        fabric.node(1).unwrap().cli(&["bgp", "explain", "192.0.2.53", "-o", "json"]).unwrap()
    );
    fabric.remove_pod(own).unwrap();
    show(&fabric, "198.51.100.7");
    fabric.tor_mut("tor-b").unwrap().router.kill().unwrap();
    std::thread::sleep(std::time::Duration::from_secs(3));
    show(&fabric, "10.244.1.0/24");
    show(&fabric, "0.0.0.0/0");
}
