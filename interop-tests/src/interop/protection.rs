//! What keeps strangers and floods out: TCP-MD5, GTSM, limits on prefixes.

use anyhow::{Result, ensure};
use serde_json::json;

use super::Tally;
use super::session::code;
use super::stage::{OUR4, Stage, Transport, US4, US6};
use crate::netns::Netns;
use crate::router::{Brand, Route, Router};
use crate::speaker::Speaker;
use crate::story::Telling;
use crate::wait::{PATIENCE, until};

pub(super) const MD5_CELLS: &[&str] =
    &["MD5, wrong password", "MD5, right password", "MD5 over IPv6, they dial"];
pub(super) const GTSM_CELLS: &[&str] = &[
    "GTSM",
    "GTSM: they drop what is too far",
    "GTSM over IPv6, they dial",
    "GTSM: we drop what is too far",
];
pub(super) const LIMIT_CELLS: &[&str] = &["max-prefix: their limit", "max-prefix: our limit"];

/// Counters of the kernel that tell of a segment dropped for its signature.
const MD5_COUNTERS: [&str; 3] = ["TCPMD5NotFound", "TCPMD5Unexpected", "TCPMD5Failure"];

/// The one that tells of a segment dropped for its TTL.
const MIN_TTL: &[&str] = &["TCPMinTTLDrop"];

pub(super) fn md5(brand: Brand, tally: &mut Tally) -> Result<()> {
    let mut stage = Stage::new(brand, Transport::Ipv4)?;
    stage.their_peer(|peer| peer.password = Some("right-horse".to_owned()));
    let router = stage.start_router()?;
    tally.cell("MD5, wrong password", || {
        stage.our_peer("password", json!("wrong-horse"))?;
        let mut speaker = stage.start_speaker()?;
        await_counter(&stage.them, &MD5_COUNTERS, 0)?;
        not_established(&router, &mut speaker)
    });
    tally.cell("MD5, right password", || {
        stage.our_peer("password", json!("right-horse"))?;
        let mut speaker = stage.start_speaker()?;
        speaker.await_up(0).telling(|| router.log_tail())?;
        router.await_established(US4.into())
    });
    drop(router);
    tally.cell("MD5 over IPv6, they dial", || {
        let mut stage = Stage::new(brand, Transport::Ipv6)?;
        stage.their_peer(|peer| {
            peer.password = Some("right-horse".to_owned());
            peer.passive = false;
        });
        stage.our_peer("password", json!("right-horse"))?;
        stage.our_peer("passive", json!(true))?;
        let mut speaker = stage.start_speaker()?;
        let router = stage.start_router()?;
        speaker.await_up(0).telling(|| router.log_tail())?;
        router.await_established(US6.into())
    });
    Ok(())
}

pub(super) fn gtsm(brand: Brand, tally: &mut Tally) -> Result<()> {
    let mut stage = Stage::new(brand, Transport::Ipv4)?;
    stage.their_peer(|peer| peer.ttl_security = true);
    stage.our_peer("ttlSecurity", json!(true))?;
    stage.ours("originate", json!([{ "prefix": OUR4 }]))?;
    let router = stage.start_router()?;
    tally.cell("GTSM", || {
        let mut speaker = stage.start_speaker()?;
        speaker.await_up(0).telling(|| router.log_tail())?;
        router.await_established(US4.into())
    });
    router.await_state(US4.into(), |state| state != "Established")?;
    tally.cell("GTSM: they drop what is too far", || {
        // A plain external session is sent with TTL 1, as from 254 hops away.
        stage.our_peer("ttlSecurity", json!(false))?;
        let before = counted(&stage.them, MIN_TTL)?;
        let _speaker = stage.start_speaker()?;
        await_counter(&stage.them, MIN_TTL, before)?;
        // We may believe in a session: some look at the TTL only after they have
        // accepted, and our OPEN comes before that. They do not.
        let state = router.state(US4.into())?;
        ensure!(state != "Established", "the router says Established");
        ensure!(router.paths(OUR4)?.is_empty(), "the router learned from far away");
        Ok(())
    });
    drop(router);
    tally.cell("GTSM over IPv6, they dial", || {
        let mut stage = Stage::new(brand, Transport::Ipv6)?;
        stage.their_peer(|peer| {
            peer.ttl_security = true;
            peer.passive = false;
        });
        stage.our_peer("ttlSecurity", json!(true))?;
        stage.our_peer("passive", json!(true))?;
        let mut speaker = stage.start_speaker()?;
        let router = stage.start_router()?;
        speaker.await_up(0).telling(|| router.log_tail())?;
        router.await_established(US6.into())
    });
    tally.cell("GTSM: we drop what is too far", || {
        stage.their_peer(|peer| peer.ttl_security = false);
        stage.our_peer("ttlSecurity", json!(true))?;
        let router = stage.start_router()?;
        let before = counted(&stage.us, MIN_TTL)?;
        let mut speaker = stage.start_speaker()?;
        await_counter(&stage.us, MIN_TTL, before)?;
        not_established(&router, &mut speaker)
    });
    Ok(())
}

fn not_established(router: &Router, speaker: &mut Speaker) -> Result<()> {
    let state = router.state(US4.into())?;
    ensure!(state != "Established", "the router says Established");
    ensure!(speaker.events(0, "up").is_empty(), "we say Established\n{}", speaker.story());
    Ok(())
}

/// Awaits that the sum of these counters of a namespace grows.
fn await_counter(netns: &Netns, names: &[&str], before: u64) -> Result<()> {
    until(&format!("one of {names:?} to count"), PATIENCE, || {
        let now = counted(netns, names)?;
        ensure!(now > before, "they stand at {now}");
        Ok(())
    })
}

/// The sum of these counters: pairs of lines, names above numbers.
fn counted(netns: &Netns, names: &[&str]) -> Result<u64> {
    let text = netns.exec("cat", &["/proc/net/netstat"])?;
    let lines: Vec<_> = text.lines().collect();
    let pairs = lines.chunks_exact(2).filter_map(|pair| Some((pair.first()?, pair.last()?)));
    let fields = pairs.flat_map(|(keys, values)| keys.split(' ').zip(values.split(' ')));
    let wanted = fields.filter(|(key, _)| names.contains(key));
    Ok(wanted.filter_map(|(_, value)| value.parse::<u64>().ok()).sum())
}

pub(super) fn max_prefixes(brand: Brand, tally: &mut Tally) -> Result<()> {
    tally.cell("max-prefix: their limit", || {
        let mut stage = Stage::new(brand, Transport::Ipv4)?;
        stage.their_peer(|peer| peer.max_prefixes = Some(2));
        let routes: Vec<_> =
            (0..4).map(|third| json!({ "prefix": format!("10.1.{third}.0/24") })).collect();
        let (router, mut speaker) = stage.establish()?;
        let mark = speaker.mark();
        speaker.originate(&json!(routes))?;
        let down = speaker.await_down(mark).telling(|| router.log_tail())?;
        code(&down, 6, 1)?;
        ensure!(down.get("sent") == Some(&json!(false)), "it was we who ended it: {down}");
        Ok(())
    });
    tally.cell("max-prefix: our limit", || {
        let mut stage = Stage::new(brand, Transport::Ipv4)?;
        stage.our_peer("import", json!({ "accept": ["0.0.0.0/0 le 32"], "maxPrefixes": 2 }))?;
        stage.router.routes =
            (0..4).map(|third| Route::new(&format!("10.2.{third}.0/24"))).collect();
        let router = stage.start_router()?;
        let mut speaker = stage.start_speaker()?;
        let down = speaker.await_down(0).telling(|| router.log_tail())?;
        code(&down, 6, 1)?;
        ensure!(down.get("sent") == Some(&json!(true)), "it was not we who ended it: {down}");
        Ok(())
    });
    Ok(())
}
