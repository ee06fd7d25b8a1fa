//! What the two sides agree on in their OPENs, beyond the families: long messages
//! (RFC 8654), two-byte AS numbers (RFC 6793), roles (RFC 9234).

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::Tally;
use super::session::code;
use super::stage::{OUR4, Stage, THEIR4, THEM4, Transport, US4};
use crate::capture::Message;
use crate::router::{Brand, Role, Route};
use crate::sniffer::Sniffer;
use crate::story::Telling;

pub(super) const LONG_CELLS: &[&str] =
    &["UPDATE over 4096 bytes, by us", "UPDATE over 4096 bytes, by them"];
pub(super) const TWO_BYTE_CELLS: &[&str] =
    &["two-byte session: AS path seen as sent", "two-byte session: chosen by us"];
pub(super) const ROLE_CELLS: &[&str] = &["roles agree", "roles disagree"];

/// As many communities as do not fit into 4096 bytes.
fn many(asn: u32) -> Vec<String> {
    (0..1200).map(|number| format!("{asn}:{number}")).collect()
}

pub(super) fn long(brand: Brand, tally: &mut Tally) -> Result<()> {
    let mut stage = Stage::new(brand, Transport::Ipv4)?;
    stage.their_peer(|peer| peer.extended_messages = true);
    if tally.can("UPDATE over 4096 bytes, by them") {
        let communities = many(65_002);
        let communities: Vec<_> = communities.iter().map(String::as_str).collect();
        stage.router.routes = vec![Route::new(THEIR4).with_communities(&communities)];
    }
    stage.ours("originate", json!([{ "prefix": OUR4, "communities": many(65_001) }]))?;
    let sniffer = Sniffer::start(&stage.us, "eth0")?;
    let (router, mut speaker) = stage.establish()?;
    tally.cell("UPDATE over 4096 bytes, by us", || {
        let path = router.await_path(OUR4, |_| true).telling(|| speaker.story())?;
        let count = path.communities.len();
        // BIRD shows the first few of so many.
        let all = if brand == Brand::Bird { count > 0 } else { count == 1200 };
        ensure!(all, "they see {count} communities");
        let long = |message: &Message| message.bytes().len() > 4096;
        sniffer.await_said(US4.into(), 0, "a long message", long).map(drop)
    });
    tally.cell("UPDATE over 4096 bytes, by them", || {
        speaker.await_route(THEIR4, &[&THEM4.to_string()]).telling(|| router.log_tail())?;
        let routes = speaker.learned(THEIR4)?;
        let route = routes.first().context("it is not among the routes")?;
        let communities = route.get("communities").and_then(|list| list.as_array());
        let count = communities.map_or(0, Vec::len);
        ensure!(count == 1200, "we see {count} communities");
        Ok(())
    });
    Ok(())
}

/// A router that does not offer four-byte AS numbers. Where we have such a number,
/// our AS_PATH holds AS_TRANS, and AS4_PATH says who that is.
pub(super) fn two_bytes(brand: Brand, tally: &mut Tally) -> Result<()> {
    const AS_TRANS: u32 = 23_456;
    // BIRD takes no peer with a number that it does not offer itself.
    let (ours, on_the_wire) =
        if brand == Brand::Bird { (65_001, [0xfd, 0xe9]) } else { (4_200_000_001, [0x5b, 0xa0]) };
    let mut stage = Stage::with_asns(brand, Transport::Ipv4, ours, 65_002)?;
    stage.their_peer(|peer| {
        peer.four_byte_asns = false;
        if brand == Brand::Exabgp {
            // It looks at nothing but the old field of the OPEN.
            peer.asn = AS_TRANS;
        }
    });
    stage.router.routes = vec![Route::new(THEIR4)];
    stage.ours("originate", json!([{ "prefix": OUR4 }]))?;
    let sniffer = Sniffer::start(&stage.us, "eth0")?;
    let (router, mut speaker) = stage.establish()?;
    tally.cell("two-byte session: AS path seen as sent", || {
        let path = router.await_path(OUR4, |_| true)?;
        ensure!(path.as_path == [ours], "they see {path:?}");
        // AS_PATH: a sequence of one, in two bytes.
        let aspath = [&[0x40, 2, 4, 2, 1], &on_the_wire[..]].concat();
        sniffer.await_said(US4.into(), 0, "AS_PATH", |message| message.contains(&aspath))?;
        Ok(())
    });
    tally.cell("two-byte session: chosen by us", || {
        speaker.await_route(THEIR4, &[&THEM4.to_string()]).telling(|| router.log_tail())?;
        let routes = speaker.learned(THEIR4)?;
        let told = routes.first().context("it is not among the routes")?.to_string();
        ensure!(told.contains("65002"), "the AS path is not theirs: {told}");
        Ok(())
    });
    Ok(())
}

pub(super) fn roles(brand: Brand, tally: &mut Tally) -> Result<()> {
    let mut stage = Stage::new(brand, Transport::Ipv4)?;
    stage.their_peer(|peer| peer.role = Some(Role::Provider));
    stage.our_peer("role", json!("customer"))?;
    stage.router.routes = vec![Route::new(THEIR4)];
    stage.ours("originate", json!([{ "prefix": OUR4 }]))?;
    let (router, speaker) = stage.establish()?;
    tally.cell("roles agree", || {
        router.await_path(OUR4, |_| true)?;
        speaker.await_route(THEIR4, &[&THEM4.to_string()]).telling(|| router.log_tail())
    });
    drop(speaker);
    router.await_state(US4.into(), |state| state != "Established")?;
    tally.cell("roles disagree", || {
        stage.our_peer("role", json!("provider"))?;
        let mut speaker = stage.start_speaker()?;
        // Whoever sees the other's OPEN first says so.
        let told = |event: &serde_json::Value| code(event, 2, 11).is_ok();
        speaker.await_event(0, "down", told).telling(|| router.log_tail())?;
        ensure!(speaker.events(0, "up").is_empty(), "we say Established");
        Ok(())
    });
    Ok(())
}
