//! Graceful restart in both roles (RFC 4724): who restarts comes back without a
//! word, and the other keeps the routes meanwhile.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::Tally;
use super::stage::{OUR4, Stage, THEIR4, THEM4, Transport, US4, US6};
use crate::binaries::tool;
use crate::process::Daemon;
use crate::router::{Brand, Path, Route};
use crate::speaker::Speaker;
use crate::story::Telling;
use crate::wait::{PATIENCE, until};

pub(super) const OUR_CELLS: &[&str] = &[
    "our restart: their table",
    "our restart: swept",
    "our restart: by farewell",
    "our restart: their kernel",
];
pub(super) const THEIR_CELLS: &[&str] = &["their restart: we keep", "their restart: confirmed"];

/// Ours before the restart, not after it.
const FORGOTTEN: &str = "10.1.9.0/24";

fn stage(brand: Brand) -> Result<Stage> {
    let mut stage = Stage::new(brand, Transport::Ipv4)?;
    stage.their_peer(|peer| peer.graceful_restart = Some(120));
    stage.our_peer("gracefulRestart", json!({ "time": 120, "notification": false }))?;
    stage.our_peer("nextHop", json!({ "ipv6": US6 }))?;
    stage.router.routes = vec![Route::new(THEIR4)];
    Ok(stage)
}

pub(super) fn ours(brand: Brand, tally: &mut Tally) -> Result<()> {
    let mut stage = stage(brand)?;
    stage.ours("originate", json!([{ "prefix": OUR4 }, { "prefix": FORGOTTEN }]))?;
    let (router, speaker) = stage.establish()?;
    router.await_path(OUR4, |_| true)?;
    router.await_path(FORGOTTEN, |_| true)?;
    if brand.has_kernel_routes() {
        router.await_kernel(OUR4, Some(&[US4.into()]))?;
    }
    let log = tempfile::NamedTempFile::new()?;
    let mut monitor = stage.them.command(tool("ip")?)?;
    let _monitor =
        Daemon::start("ip monitor", monitor.args(["-4", "monitor", "route"]), log.path())?;
    // The monitor listens once it has told of a change that we make.
    until("ip monitor to listen", PATIENCE, || {
        stage.them.ip("-4 route replace 10.9.9.0/24 dev eth0")?;
        stage.them.ip("-4 route delete 10.9.9.0/24")?;
        let told = std::fs::read_to_string(log.path())?;
        ensure!(told.contains("10.9.9.0/24"), "it told {told:?}");
        Ok(())
    })?;

    speaker.kill()?;
    tally.cell("our restart: their table", || {
        router.await_state(US4.into(), |state| state != "Established")?;
        for prefix in [OUR4, FORGOTTEN] {
            let paths = router.paths(prefix)?;
            ensure!(!paths.is_empty(), "{prefix} was not kept\n{}", router.log_tail());
            ensure!(!tells_stale(brand) || paths.iter().all(|path| path.stale), "{paths:?}");
        }
        Ok(())
    });
    stage.ours("restarting", json!(true))?;
    stage.ours("originate", json!([{ "prefix": OUR4 }]))?;
    let mut speaker = stage.start_speaker()?;
    speaker.await_up(0).telling(|| router.log_tail())?;
    tally.cell("our restart: swept", || {
        router.await_path(OUR4, |path: &Path| !path.stale)?;
        router.await_no_path(FORGOTTEN).telling(|| speaker.story())
    });
    tally.cell("our restart: by farewell", || {
        // As the agent leaves for an upgrade: no NOTIFICATION.
        speaker.farewell(&json!("silent"))?;
        router.await_state(US4.into(), |state| state != "Established")?;
        ensure!(!router.paths(OUR4)?.is_empty(), "it was not kept\n{}", router.log_tail());
        speaker = stage.start_speaker()?;
        speaker.await_up(0).telling(|| router.log_tail())?;
        router.await_path(OUR4, |path: &Path| !path.stale).map(drop)
    });
    tally.cell("our restart: their kernel", || {
        router.await_kernel(FORGOTTEN, None)?;
        router.await_kernel(OUR4, Some(&[US4.into()]))?;
        let told = until("the monitor to tell", PATIENCE, || {
            let told = std::fs::read_to_string(log.path())?;
            ensure!(told.contains(&format!("Deleted {FORGOTTEN}")), "it told {told}");
            Ok(told)
        })?;
        ensure!(!told.contains(&format!("Deleted {OUR4}")), "the route was gone meanwhile: {told}");
        Ok(())
    });
    Ok(())
}

/// Whether its table shows which routes are stale.
fn tells_stale(brand: Brand) -> bool {
    matches!(brand, Brand::Frr | Brand::Gobgp)
}

pub(super) fn theirs(brand: Brand, tally: &mut Tally) -> Result<()> {
    let stage = stage(brand)?;
    let (mut router, mut speaker) = stage.establish()?;
    speaker.await_route(THEIR4, &[&THEM4.to_string()])?;
    let mark = speaker.mark();
    tally.cell("their restart: we keep", || {
        router.kill()?;
        speaker.await_down(mark)?;
        ensure!(stale(&mut speaker)? == Some(true), "it is not stale\n{}", speaker.story());
        Ok(())
    });
    // Held back until the router knows its routes again, so that its End-of-RIB
    // is true.
    speaker.freeze()?;
    router.start_again()?;
    speaker.thaw()?;
    tally.cell("their restart: confirmed", || {
        speaker.await_up(mark).telling(|| router.log_tail())?;
        until("the route to be confirmed", PATIENCE, || {
            ensure!(stale(&mut speaker)? == Some(false), "it is not");
            Ok(())
        })
        .telling(|| speaker.story())?;
        let mut changes = speaker.events(mark, "route");
        changes.retain(|event| event.get("nextHops") != Some(&json!([THEM4])));
        ensure!(changes.is_empty(), "the route was not kept throughout: {changes:?}");
        Ok(())
    });
    Ok(())
}

/// Whether what we learned is stale; none when we have it no more.
fn stale(speaker: &mut Speaker) -> Result<Option<bool>> {
    let routes = speaker.learned(THEIR4)?;
    Ok(routes.first().map(|route| route.get("stale").and_then(Value::as_bool).unwrap_or(false)))
}
