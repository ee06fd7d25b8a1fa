//! The scenes that are played with each router, each with a router of its own.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rack::capture::{Kind, Message, Open, Wire, message, refresh};
use rack::router::{Brand, Peer, Role, Route};

use crate::golden::{Album, Context};
use crate::refusals;
use crate::stage::{Stage, THEIR_ASN, THEM4, THEM6, US4, V4, V6, config, open, peer4, peer6};

/// One scene.
type Scene = fn(&mut Album) -> Result<()>;

/// All of them, with their names.
pub(crate) const ALL: [(&str, Scene); 14] = [
    ("a session over IPv4", session),
    ("a session over IPv6", over_ipv6),
    ("IPv4 with an IPv6 next hop", extended_next_hop),
    ("two-byte AS numbers", two_bytes),
    ("an internal session", internal),
    ("a graceful restart", restart),
    ("an OPEN that is refused", refusals::refused_opens),
    ("headers that are refused", refusals::refused_headers),
    ("UPDATEs that are refused", refusals::refused_updates),
    ("silence", refusals::silence),
    ("too many prefixes", refusals::too_many),
    ("a session that is cleared", refusals::cleared),
    ("extended messages", extended_messages),
    ("roles", roles),
];

fn nlri4(message: &Message) -> bool {
    message.kind() == Kind::Update && message.contains(&[24, 198, 51, 100])
}

fn nlri6(message: &Message) -> bool {
    let prefix = [48, 0x20, 0x01, 0x0d, 0xb8, 0x01, 0x00];
    message.kind() == Kind::Update && message.contains(&prefix)
}

/// Collects what comes until both routes and both End-of-RIBs are there, or the
/// router has nothing more to say.
fn first_updates(wire: &mut Wire) -> Result<Vec<Message>> {
    // Whoever restarted waits for ours before it says anything.
    wire.send(&message(2, &[0, 0, 0, 0]))?;
    wire.send(&message(2, &[0, 0, 0, 6, 0x80, 15, 3, 0, 2, 1]))?;
    let mut all = Vec::new();
    let complete = |all: &[Message]| {
        all.iter().any(nlri4)
            && all.iter().any(nlri6)
            && all.iter().filter(|one| one.is_end_of_rib()).count() >= 2
    };
    while !complete(&all) {
        match wire.receive_within(Duration::from_secs(4))? {
            Some(message) if message.kind() == Kind::Keepalive => {}
            Some(message) => all.push(message),
            None => break,
        }
    }
    Ok(all)
}

fn keep_updates(
    album: &Album,
    tag: &str,
    how: &str,
    context: Context,
    all: &[Message],
) -> Result<()> {
    let v4 = "UPDATE: 198.51.100.0/24 with two communities, two large communities and MED 50";
    let v6 = "UPDATE: 2001:db8:100::/48 in MP_REACH_NLRI with community 65002:600";
    let mut found = 0;
    for message in all {
        let (name, expect) = match message {
            one if nlri4(one) => ("update-ipv4", v4),
            one if nlri6(one) => ("update-ipv6", v6),
            one if one.is_end_of_rib() && one.body().len() == 4 => {
                ("end-of-rib-ipv4", "UPDATE: End-of-RIB for IPv4 unicast")
            }
            one if one.is_end_of_rib() && one.body().ends_with(&[0, 2, 1]) => {
                ("end-of-rib-ipv6", "UPDATE: End-of-RIB for IPv6 unicast")
            }
            one if one.is_end_of_rib() => {
                ("end-of-rib-ipv4-mp", "UPDATE: End-of-RIB for IPv4 unicast, in MP_UNREACH_NLRI")
            }
            other => {
                eprintln!("{}: unexpected {other:?}", album.brand.name());
                continue;
            }
        };
        found += 1;
        album.keep(&format!("{name}{tag}"), how, context, expect, message)?;
    }
    ensure!(found >= 2, "the router sent only {all:?}");
    Ok(())
}

fn session(album: &mut Album) -> Result<()> {
    let how = "its session over IPv4 with a passive configuration";
    let context = Context::PLAIN;
    let stage = Stage::new()?;
    let mut peer = peer4();
    peer.graceful_restart = Some(120);
    let mut router = stage.start(album, config(peer))?;
    let mut ours = open().with(64, &[0, 120, 0, 1, 1, 0, 0, 2, 1, 0]);
    if album.brand == Brand::Exabgp {
        // It trips over its own enhanced refresh and ends the connection.
        ours.capabilities.retain(|(code, _)| *code != 70);
    }
    let (mut wire, theirs, alive) = stage.session(THEM4.into(), &ours.bytes())?;
    let expect = "OPEN: AS 4200000002, hold time 90, identifier 192.0.2.2, graceful restart";
    album.keep("open", how, context, expect, &theirs)?;
    album.keep("keepalive", how, context, "KEEPALIVE", &alive)?;
    keep_updates(album, "", how, context, &first_updates(&mut wire)?)?;

    let mut passed = Vec::new();
    asked_to_refresh(album, &mut wire)?;
    router.announce(&[Route::new(V4).with_communities(&["65002:300"])])?;
    let replaced = wire.receive_until(&mut passed, nlri4)?;
    let expect = "UPDATE: 198.51.100.0/24 with community 65002:300 only";
    album.keep("update-ipv4-replaced", how, context, expect, &replaced)?;

    router.withdraw(V4)?;
    let withdrawn = wire.receive_until(&mut passed, nlri4)?;
    album.keep("withdraw-ipv4", how, context, "UPDATE: 198.51.100.0/24 withdrawn", &withdrawn)?;
    router.withdraw(V6)?;
    let withdrawn = wire.receive_until(&mut passed, nlri6)?;
    let expect = "UPDATE: 2001:db8:100::/48 withdrawn in MP_UNREACH_NLRI";
    album.keep("withdraw-ipv6", how, context, expect, &withdrawn)?;

    router.refresh(US4.into())?;
    let mut asked = 0;
    while let Some(message) = wire.receive_within(Duration::from_secs(3))? {
        if message.kind() == Kind::Refresh {
            asked += 1;
            let family = if message.body().get(1) == Some(&2) { "ipv6" } else { "ipv4" };
            let expect = format!("ROUTE-REFRESH: {family} unicast");
            album.keep(&format!("refresh-{family}"), how, context, &expect, &message)?;
        }
        if asked == 2 {
            break;
        }
    }
    router.shutdown(US4.into(), "maintenance, back at 17:00 é")?;
    let last = wire.receive_until(&mut passed, |one| one.kind() == Kind::Notification)?;
    let expect = match album.brand {
        Brand::Exabgp => "NOTIFICATION: Cease / Administrative Shutdown",
        _ => "NOTIFICATION: Cease / Administrative Shutdown, \"maintenance, back at 17:00 é\"",
    };
    album.keep("notification-shutdown", how, context, expect, &last)
}

/// We ask for a refresh; the router may bracket its answer (RFC 7313).
fn asked_to_refresh(album: &Album, wire: &mut Wire) -> Result<()> {
    let how = "its answer to ROUTE-REFRESH, enhanced refresh offered";
    for (afi, family) in [(1, "ipv4"), (2, "ipv6")] {
        wire.send(&refresh(afi, 0))?;
        while let Some(message) = wire.receive_within(Duration::from_secs(3))? {
            let subtype = message.body().get(2).copied();
            let (name, what) = match (message.kind(), subtype) {
                (Kind::Refresh, Some(1)) => ("borr", "beginning of"),
                (Kind::Refresh, Some(2)) => ("eorr", "end of"),
                _ => continue,
            };
            let expect = format!("ROUTE-REFRESH: {what} route refresh, {family} unicast");
            album.keep(
                &format!("refresh-{name}-{family}"),
                how,
                Context::PLAIN,
                &expect,
                &message,
            )?;
            if name == "eorr" {
                break;
            }
        }
    }
    Ok(())
}

fn over_ipv6(album: &mut Album) -> Result<()> {
    let how = "its session over IPv6, on a shared subnet";
    let stage = Stage::new()?;
    let _router = stage.start(album, config(peer6()))?;
    let (mut wire, theirs, _) = stage.session(THEM6.into(), &open().bytes())?;
    let expect = "OPEN: AS 4200000002, hold time 90, identifier 192.0.2.2";
    album.keep("open-over-ipv6", how, Context::PLAIN, expect, &theirs)?;
    let all = first_updates(&mut wire)?;
    let found = all.iter().find(|one| nlri6(one)).with_context(|| format!("only {all:?}"))?;
    let length = next_hop_length(found).unwrap_or(0);
    let expect = format!("UPDATE: 2001:db8:100::/48 with a next hop of {length} bytes");
    album.keep("update-ipv6-over-ipv6", how, Context::PLAIN, &expect, found)
}

/// The length byte of the next hop in MP_REACH_NLRI for IPv6 unicast.
fn next_hop_length(message: &Message) -> Option<u8> {
    let at = message.bytes().windows(4).position(|window| matches!(window, [0, 2, 1, 16 | 32]))?;
    message.bytes().get(at + 3).copied()
}

fn extended_next_hop(album: &mut Album) -> Result<()> {
    let how = "its session over IPv6 with extended next hop";
    let context = Context { extended_next_hop: true, ..Context::PLAIN };
    let stage = Stage::new()?;
    let _router = stage.start(album, config(Peer { extended_next_hop: true, ..peer6() }))?;
    let (mut wire, theirs, _) =
        stage.session(THEM6.into(), &open().with(5, &[0, 1, 0, 1, 0, 2]).bytes())?;
    ensure!(theirs.contains(&[5, 6, 0, 1, 0, 1, 0, 2]), "it does not offer it: {theirs:?}");
    let expect = "OPEN: extended next hop for IPv4 unicast over IPv6";
    album.keep("open-ext-next-hop", how, context, expect, &theirs)?;
    let all = first_updates(&mut wire)?;
    let found = all.iter().find(|one| nlri4(one)).with_context(|| format!("only {all:?}"))?;
    let expect = "UPDATE: 198.51.100.0/24 in MP_REACH_NLRI with an IPv6 next hop (RFC 8950)";
    album.keep("update-ipv4-ext-next-hop", how, context, expect, found)
}

fn two_bytes(album: &mut Album) -> Result<()> {
    let how = "its session with a peer without four-byte AS numbers";
    let context = Context { as4: false, ..Context::PLAIN };
    let stage = Stage::new()?;
    let _router = stage.start(album, config(peer4()))?;
    let (mut wire, _, _) = stage.session(THEM4.into(), &Open { as4: false, ..open() }.bytes())?;
    let all = first_updates(&mut wire)?;
    let found = all.iter().find(|one| nlri4(one)).with_context(|| format!("only {all:?}"))?;
    let expect = "UPDATE: 198.51.100.0/24, AS_PATH 23456, AS4_PATH 4200000002";
    album.keep("update-ipv4-two-byte-as", how, context, expect, found)
}

fn internal(album: &mut Album) -> Result<()> {
    let how = "its internal session over IPv4";
    let context = Context { internal: true, ..Context::PLAIN };
    let stage = Stage::new()?;
    let _router = stage.start(album, config(Peer { asn: THEIR_ASN, ..peer4() }))?;
    let (mut wire, _, _) = stage.session(THEM4.into(), &Open::new(THEIR_ASN, US4).bytes())?;
    let all = first_updates(&mut wire)?;
    let found = all.iter().find(|one| nlri4(one)).with_context(|| format!("only {all:?}"))?;
    let expect = "UPDATE: 198.51.100.0/24, empty AS_PATH, LOCAL_PREF 100, MED 50";
    album.keep("update-ipv4-internal", how, context, expect, found)
}

fn restart(album: &mut Album) -> Result<()> {
    let how = "its OPEN after it was killed and started again";
    let stage = Stage::new()?;
    let mut router = stage.start(album, config(Peer { graceful_restart: Some(120), ..peer4() }))?;
    let ours = open().with(64, &[0, 120, 0, 1, 1, 0, 0, 2, 1, 0]).bytes();
    let (mut wire, _, _) = stage.session(THEM4.into(), &ours)?;
    first_updates(&mut wire)?;
    router.kill()?;
    router.start_again()?;
    let (_wire, theirs, _) = stage.session(THEM4.into(), &ours)?;
    let capability = theirs.capabilities().into_iter().find(|(code, _)| *code == 64);
    let (_, value) = capability.context("it does not offer graceful restart")?;
    let restarted = value.first().is_some_and(|flags| flags & 0x80 != 0);
    let bit = if restarted { "with" } else { "without" };
    let expect = format!("OPEN: graceful restart {bit} the restart bit");
    album.keep("open-restarted", how, Context::PLAIN, &expect, &theirs)
}

fn extended_messages(album: &mut Album) -> Result<()> {
    let how = "a route with 1200 communities, extended messages offered";
    let context = Context { extended_messages: true, ..Context::PLAIN };
    let stage = Stage::new()?;
    let mut config = config(Peer { extended_messages: true, ..peer4() });
    let communities: Vec<_> = (0..1200).map(|number| format!("65002:{number}")).collect();
    let communities: Vec<_> = communities.iter().map(String::as_str).collect();
    config.routes = vec![Route::new(V4).with_communities(&communities)];
    let _router = stage.start(album, config)?;
    let (mut wire, theirs, _) = stage.session(THEM4.into(), &open().with(6, &[]).bytes())?;
    let expect = "OPEN: AS 4200000002, extended messages";
    let offered = theirs.capabilities().iter().any(|(code, _)| *code == 6);
    ensure!(offered, "it does not offer them");
    album.keep("open-ext-messages", how, context, expect, &theirs)?;
    let mut passed = Vec::new();
    let found = wire.receive_until(&mut passed, nlri4)?;
    let expect = "UPDATE: 198.51.100.0/24 with 1200 communities, longer than 4096 bytes";
    ensure!(found.bytes().len() > 4096, "it is only {} bytes", found.bytes().len());
    album.keep("update-ipv4-ext-messages", how, context, expect, &found)
}

/// It is our provider, and marks its routes as ours only (RFC 9234 §5).
fn roles(album: &mut Album) -> Result<()> {
    let how = "its session with the role of a provider";
    let stage = Stage::new()?;
    let _router = stage.start(album, config(Peer { role: Some(Role::Provider), ..peer4() }))?;
    // We are the customer: 3.
    let (mut wire, theirs, _) = stage.session(THEM4.into(), &open().with(9, &[3]).bytes())?;
    let offered = theirs.capabilities().contains(&(9, vec![0]));
    ensure!(offered, "it does not offer a role");
    album.keep("open-role", how, Context::PLAIN, "OPEN: the role of a provider", &theirs)?;
    let all = first_updates(&mut wire)?;
    let found = all.iter().find(|one| nlri4(one)).with_context(|| format!("only {all:?}"))?;
    // ONLY_TO_CUSTOMER: type 35, four bytes.
    let marked = found.contains(&[&[35, 4], &THEIR_ASN.to_be_bytes()[..]].concat());
    ensure!(marked, "it does not mark its routes: {found:?}");
    let expect = "UPDATE: 198.51.100.0/24 with ONLY_TO_CUSTOMER 4200000002";
    album.keep("update-ipv4-otc", how, Context::PLAIN, expect, found)
}
