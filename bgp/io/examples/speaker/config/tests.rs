//! What can be said, what is meant where nothing is, and what is refused.

use super::*;

fn peer(json: &str) -> Result<PeerConfig> {
    let text = format!(r#"{{"name":"tor","address":"10.0.0.2","asn":65000{json}}}"#);
    let peer: Peer = serde_json::from_str(&text)?;
    peer.config(65001)
}

#[test]
fn a_peer_that_says_nothing_has_the_defaults() {
    let peer = peer("").unwrap();
    assert_eq!(peer.port, 179);
    assert_eq!(peer.families, Family::ALL);
    assert_eq!(peer.hold_time, Some(Duration::from_secs(30)));
    assert_eq!(peer.connect_retry, Duration::from_secs(5));
    assert_eq!(peer.transport, Transport { md5: None, ttl: Ttl::Hops(1) });
    assert_eq!(peer.graceful_restart.unwrap().time, Duration::from_secs(120));
    assert_eq!(peer.import, None);
    assert!(peer.extended_messages && !peer.passive && peer.shutdown.is_none());
}

#[test]
fn everything_can_be_said() {
    let peer = peer(
        r#","port":1179,"localAddress":"10.0.0.1","families":["ipv6-unicast"],"holdTime":0,
        "keepalive":1,"connectRetry":0.5,"password":"p","ttlSecurity":true,"passive":true,
        "gracefulRestart":null,"import":{"accept":["10.0.0.0/8 ge 16 le 24"],"maxPrefixes":7},
        "export":{"communities":["1:2","1:2:3"],"localPref":1,"med":2,"prepend":3},"role":"customer",
        "nextHop":{"ipv4":"10.9.9.9"},"addPathReceive":true,"extendedMessages":false,"shutdown":"bye""#,
    )
    .unwrap();
    assert_eq!(peer.hold_time, None);
    assert_eq!(peer.connect_retry, Duration::from_millis(500));
    assert_eq!(peer.transport.ttl, Ttl::Security);
    assert_eq!(peer.transport.md5, Some(Secret(Arc::from(&b"p"[..]))));
    assert_eq!(peer.graceful_restart, None);
    let import = peer.import.unwrap();
    assert_eq!((import.accept[0].min, import.accept[0].max, import.max_prefixes), (16, 24, 7));
    assert_eq!(peer.export.communities, [Community(1 << 16 | 2)]);
    assert_eq!(peer.export.large_communities, [LargeCommunity(1, 2, 3)]);
    assert_eq!(peer.role, Some(Role::Customer));
    assert_eq!(peer.next_hops.ipv4, Some(Ipv4Addr::new(10, 9, 9, 9)));
    assert_eq!(peer.shutdown.as_deref(), Some("bye"));
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    for (json, word) in [
        (r#","holdTime":2"#, "holdTime"),
        (r#","families":[]"#, "families"),
        (r#","families":["ipv4-unicast","ipv4-unicast"]"#, "twice"),
        (r#","families":["vpn"]"#, "vpn"),
        (r#","ttlSecurity":true,"multihop":3"#, "exclude"),
        (r#","multihop":0"#, "multihop"),
        (r#","password":"""#, "password"),
        (r#","role":"boss""#, "boss"),
        (r#","connectRetry":-1"#, "connectRetry"),
        (r#","localAddress":"::1""#, "localAddress"),
        (r#","gracefulRestart":{"time":4096}"#, "4095"),
        (r#","colour":"red""#, "colour"),
        (r#","export":{"communities":["70000:1"]}"#, "70000:1"),
    ] {
        let error = format!("{:#}", peer(json).unwrap_err());
        assert!(error.contains(word), "{json}: {error}");
    }
}

#[test]
fn rules_of_import() {
    let bounds = |text: &str| rule_of(text).map(|rule| (rule.min, rule.max)).ok();
    assert_eq!(bounds("0.0.0.0/0 le 32"), Some((0, 32)));
    assert_eq!(bounds("::/0 le 128"), Some((0, 128)));
    assert_eq!(bounds("10.0.0.0/8"), Some((8, 8)));
    assert_eq!(bounds("10.0.0.0/8 ge 16"), Some((16, 32)));
    for wrong in [
        "",
        "10.0.0.0",
        "10.0.0.0/8 le",
        "10.0.0.0/8 le 33",
        "10.0.0.0/8 ge 4",
        "10.0.0.0/8 eq 9",
        "10.0.0.0/8 ge 9 ge 9",
    ] {
        assert_eq!(bounds(wrong), None, "{wrong}");
    }
}

#[test]
fn names_and_addresses_are_unique() {
    let text = r#"{"asn":1,"routerId":"1.1.1.1","peers":[
        {"name":"a","address":"10.0.0.2","asn":2},{"name":"b","address":"10.0.0.2","asn":2}]}"#;
    let config = parse(text).unwrap();
    assert!(peers(&config.peers, 1).unwrap_err().to_string().contains("10.0.0.2"));
}

#[test]
fn a_file_is_refused_with_the_path_to_what_is_wrong() {
    let error = parse(r#"{"asn":1,"routerId":"1.1.1.1","peers":[{"name":7}]}"#).unwrap_err();
    assert!(error.to_string().contains("peers[0].name"), "{error}");
    assert!(parse(r#"{"asn":0,"routerId":"1.1.1.1"}"#).is_err());
    assert!(parse(r#"{"asn":1,"routerId":"0.0.0.0"}"#).is_err());
    let own = |connected| {
        parse(&format!(r#"{{"asn":1,"routerId":"1.1.1.1",{connected}"own":["10.1.0.0/24"]}}"#))
    };
    assert!(own("").unwrap_err().to_string().contains("connected"));
    assert!(own(r#""connected":[],"#).is_ok());
}

#[test]
fn routes_carry_everyones_communities_and_their_own() {
    let route: Route =
        serde_json::from_str(r#"{"prefix":"10.1.2.3/24","communities":["65001:100"]}"#).unwrap();
    let (net, origination) = route.origination(&["1:2:3".to_owned()]).unwrap();
    assert_eq!(net, "10.1.2.0/24".parse::<IpNet>().unwrap());
    assert_eq!(origination.communities.len() + origination.large_communities.len(), 2);
}
