//! Routes in both directions: announced, replaced, withdrawn, learned, asked for
//! again; over IPv4, over IPv6, externally and internally.

use std::net::IpAddr;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::Tally;
use super::stage::{OUR4, OUR6, Stage, THEIR4, THEIR6, THEM4, THEM6, Transport, US4, US6};
use crate::capture::{Kind, Message};
use crate::router::{Brand, Path, Route, Router};
use crate::sniffer::Sniffer;
use crate::speaker::Speaker;
use crate::story::Telling;
use crate::wait::{PATIENCE, until};

pub(super) const CELLS: &[&str] = &[
    "Established over IPv4",
    "we dial, they wait",
    "four-byte AS numbers",
    "both families in one session",
    "announce: their table",
    "announce: their kernel",
    "communities seen as sent",
    "large communities seen as sent",
    "learn: chosen by us",
    "learn: IPv6 over an IPv4 session",
    "learn: communities seen as sent",
    "refresh: they ask us",
    "refresh: we ask them",
    "replace: their table",
    "drain: GRACEFUL_SHUTDOWN seen",
    "withdraw: their table",
    "withdraw: their kernel",
    "learn: withdrawn by them",
];

pub(super) const IPV6_CELLS: &[&str] = &[
    "Established over IPv6",
    "IPv6 routes over IPv6",
    "IPv4 over IPv6 next hop",
    "IPv4 over IPv6 next hop: kernel",
];

pub(super) const INTERNAL_CELLS: &[&str] =
    &["Established internally", "LOCAL_PREF seen as sent", "learn: internal route chosen by us"];

const OUR_ASN: u32 = 4_200_000_001;
const THEIR_ASN: u32 = 4_200_000_002;

/// A prefix of each family, ours.
fn our_routes() -> Value {
    json!([
        { "prefix": OUR4, "communities": ["65001:100", "65001:200", "4200000001:1:2"] },
        { "prefix": OUR6, "communities": ["65001:600", "4200000001:6:4294967295"] },
    ])
}

fn their_routes() -> Vec<Route> {
    vec![
        Route::new(THEIR4).with_communities(&["65002:100", "4200000002:1:2"]).with_med(50),
        Route::new(THEIR6).with_communities(&["65002:600"]),
    ]
}

pub(super) fn play(brand: Brand, tally: &mut Tally) -> Result<()> {
    let mut stage = Stage::with_asns(brand, Transport::Ipv4, OUR_ASN, THEIR_ASN)?;
    stage.router.routes = their_routes();
    stage.our_peer("nextHop", json!({ "ipv6": US6 }))?;
    stage.ours("originate", our_routes())?;
    let sniffer = Sniffer::start(&stage.us, "eth0")?;
    let (mut router, mut speaker) = stage.establish()?;
    tally.cell("Established over IPv4", || Ok(()));
    tally.cell("we dial, they wait", || {
        let streams = sniffer.streams()?;
        let last = streams.iter().rfind(|stream| stream.from.ip() == US4).context("no stream")?;
        ensure!(last.to.port() == 179, "the connection is {} to {}", last.from, last.to);
        Ok(())
    });
    announced(tally, &router);
    learned(tally, &mut speaker, &router);
    refreshed(tally, &router, &mut speaker, &sniffer);
    tally.cell("replace: their table", || {
        speaker.originate(&json!([{ "prefix": OUR4, "communities": ["65001:300"] }]))?;
        router.await_path(OUR4, |path| {
            path.communities == ["65001:300"] && path.large_communities.is_empty()
        })?;
        Ok(())
    });
    tally.cell("drain: GRACEFUL_SHUTDOWN seen", || {
        let drained = |path: &Path| path.communities.iter().any(|one| one == "65535:0");
        speaker.command(&json!({ "drain": true }))?;
        router.await_path(OUR4, drained)?;
        speaker.command(&json!({ "drain": false }))?;
        router.await_path(OUR4, |path| !drained(path)).map(drop)
    });
    speaker.withdraw(OUR4)?;
    speaker.withdraw(OUR6)?;
    tally.cell("withdraw: their table", || {
        router.await_no_path(OUR4)?;
        router.await_no_path(OUR6)
    });
    tally.cell("withdraw: their kernel", || {
        router.await_kernel(OUR4, None)?;
        router.await_kernel(OUR6, None)
    });
    tally.cell("learn: withdrawn by them", || {
        router.withdraw(THEIR4)?;
        router.withdraw(THEIR6)?;
        speaker.await_route(THEIR4, &[])?;
        speaker.await_route(THEIR6, &[])?;
        ensure!(speaker.events(0, "down").is_empty(), "the session went down meanwhile");
        Ok(())
    });
    Ok(())
}

/// What we announced, as they see it.
fn announced(tally: &mut Tally, router: &Router) {
    let of = |prefix: &str| router.await_path(prefix, |_| true);
    tally.cell("four-byte AS numbers", || {
        router.await_path(OUR4, |path| path.as_path == [OUR_ASN]).map(drop)
    });
    tally.cell("both families in one session", || {
        of(OUR4)?;
        of(OUR6).map(drop)
    });
    tally.cell("announce: their table", || {
        via(&of(OUR4)?, US4.into())?;
        via(&of(OUR6)?, US6.into())
    });
    tally.cell("announce: their kernel", || {
        router.await_kernel(OUR4, Some(&[US4.into()]))?;
        let six = until("the IPv6 route in the kernel", PATIENCE, || {
            router.kernel_next_hops(OUR6)?.context("there is none")
        })?;
        // Over the link-local address, if we sent one.
        ensure!(!six.is_empty(), "{OUR6} has no gateway");
        Ok(())
    });
    tally.cell("communities seen as sent", || {
        is(&of(OUR4)?.communities, &["65001:100", "65001:200"])?;
        is(&of(OUR6)?.communities, &["65001:600"])
    });
    tally.cell("large communities seen as sent", || {
        is(&of(OUR4)?.large_communities, &["4200000001:1:2"])?;
        is(&of(OUR6)?.large_communities, &["4200000001:6:4294967295"])
    });
}

fn learned(tally: &mut Tally, speaker: &mut Speaker, router: &Router) {
    tally.cell("learn: chosen by us", || {
        speaker.await_route(THEIR4, &[&THEM4.to_string()]).telling(|| router.log_tail())
    });
    tally.cell("learn: IPv6 over an IPv4 session", || {
        speaker.await_route(THEIR6, &[&THEM6.to_string()]).telling(|| router.log_tail())
    });
    tally.cell("learn: communities seen as sent", || {
        let routes = speaker.learned(THEIR4)?;
        let route = routes.first().context("it is not among the routes")?;
        holds(route, "communities", &json!(["65002:100"]))?;
        holds(route, "largeCommunities", &json!(["4200000002:1:2"]))?;
        holds(route, "med", &json!(50))
    });
}

/// Seen on the wire: the request, and the route once more.
fn refreshed(tally: &mut Tally, router: &Router, speaker: &mut Speaker, sniffer: &Sniffer) {
    let asks =
        |message: &Message| message.kind() == Kind::Refresh && message.body().get(2) == Some(&0);
    tally.cell("refresh: they ask us", || {
        let (ours, theirs) = (said(sniffer, US4.into())?, said(sniffer, THEM4.into())?);
        router.refresh(US4.into())?;
        sniffer.await_said(THEM4.into(), theirs, "ROUTE-REFRESH", asks)?;
        sniffer.await_said(US4.into(), ours, "our IPv4 route", |m| update(m, &[24, 10, 1, 0]))?;
        let six = [48, 0xfd, 0x01, 0, 0, 0, 0];
        sniffer.await_said(US4.into(), ours, "our IPv6 route", |m| update(m, &six))?;
        Ok(())
    });
    tally.cell("refresh: we ask them", || {
        let (ours, theirs) = (said(sniffer, US4.into())?, said(sniffer, THEM4.into())?);
        speaker.command(&json!({ "refresh": "them" }))?;
        sniffer.await_said(US4.into(), ours, "ROUTE-REFRESH", asks)?;
        sniffer.await_said(THEM4.into(), theirs, "their route", |m| update(m, &[24, 10, 2, 0]))?;
        // It is the same route still, and nothing was lost on the way.
        speaker.await_route(THEIR4, &[&THEM4.to_string()])?;
        ensure!(speaker.events(0, "down").is_empty(), "the session went down meanwhile");
        Ok(())
    });
}

fn said(sniffer: &Sniffer, speaker: IpAddr) -> Result<usize> {
    Ok(sniffer.said_by(speaker)?.len())
}

fn update(message: &Message, nlri: &[u8]) -> bool {
    message.kind() == Kind::Update && message.contains(nlri)
}

pub(super) fn over_ipv6(brand: Brand, tally: &mut Tally) -> Result<()> {
    let mut stage = Stage::new(brand, Transport::Ipv6)?;
    let extended = tally.can("IPv4 over IPv6 next hop");
    stage.router.routes = their_routes();
    stage.their_peer(|peer| peer.extended_next_hop = extended);
    let ours = if extended { json!(null) } else { json!(US4) };
    stage.our_peer("nextHop", json!({ "ipv4": ours }))?;
    stage.ours("originate", our_routes())?;
    let (router, speaker) = stage.establish()?;
    tally.cell("Established over IPv6", || Ok(()));
    tally.cell("IPv6 routes over IPv6", || {
        via(&router.await_path(OUR6, |_| true)?, US6.into())?;
        speaker.await_route(THEIR6, &[&THEM6.to_string()]).telling(|| router.log_tail())
    });
    tally.cell("IPv4 over IPv6 next hop", || {
        via(&router.await_path(OUR4, |_| true)?, US6.into())?;
        speaker.await_route(THEIR4, &[&THEM6.to_string()]).telling(|| router.log_tail())
    });
    tally.cell("IPv4 over IPv6 next hop: kernel", || {
        let hops = until("the IPv4 route in the kernel", PATIENCE, || {
            router.kernel_next_hops(OUR4)?.context("there is none")
        })?;
        ensure!(hops.iter().all(IpAddr::is_ipv6) && !hops.is_empty(), "its gateways are {hops:?}");
        Ok(())
    });
    Ok(())
}

pub(super) fn internal(brand: Brand, tally: &mut Tally) -> Result<()> {
    let mut stage = Stage::with_asns(brand, Transport::Ipv4, 65_001, 65_001)?;
    stage.our_peer("asn", json!("internal"))?;
    stage.router.routes = their_routes();
    stage.our_peer("nextHop", json!({ "ipv6": US6 }))?;
    stage.ours("originate", json!([{ "prefix": OUR4, "localPref": 150 }]))?;
    let (router, mut speaker) = stage.establish()?;
    tally.cell("Established internally", || Ok(()));
    tally.cell("LOCAL_PREF seen as sent", || {
        let path = router.await_path(OUR4, |_| true)?;
        ensure!(path.local_pref == Some(150), "it sees {path:?}");
        ensure!(path.as_path.is_empty(), "the AS path is not empty: {path:?}");
        Ok(())
    });
    tally.cell("learn: internal route chosen by us", || {
        speaker.await_route(THEIR4, &[&THEM4.to_string()]).telling(|| router.log_tail())?;
        let routes = speaker.learned(THEIR4)?;
        holds(routes.first().context("it is not among the routes")?, "localPref", &json!(100))
    });
    Ok(())
}

fn via(path: &Path, hop: IpAddr) -> Result<()> {
    ensure!(path.next_hops.first() == Some(&hop), "the next hop is not {hop}: {path:?}");
    Ok(())
}

fn is(there: &[String], wanted: &[&str]) -> Result<()> {
    ensure!(there == wanted, "they see {there:?}, not {wanted:?}");
    Ok(())
}

fn holds(route: &Value, key: &str, wanted: &Value) -> Result<()> {
    ensure!(route.get(key) == Some(wanted), "{key} is not {wanted}: {route}");
    Ok(())
}
