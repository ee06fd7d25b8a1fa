//! Plays a document: its commands in their order, each compared with what the document says. With
//! `FLOCK_WRITE_DOCS=1` what came out is written into the document instead; what agrees already is
//! left as it is, so that a difference of the file is a difference of the product.

use std::env;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};

use super::mask::{agrees, difference, masked};
use super::scene::{Beginning, Scene};
use super::session::{Step, steps};
use crate::story::Telling;
use crate::wait::PATIENCE;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(200);
/// What says the same for so long is worth writing down.
const SETTLED: Duration = Duration::from_secs(3);

/// Plays a document in a rack of its own. Returns how many commands were run.
pub fn play(path: &Path) -> Result<usize> {
    let write = env::var_os("FLOCK_WRITE_DOCS").is_some_and(|value| !value.is_empty());
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let steps = steps(&text).map_err(|error| anyhow!("{}: {error}", path.display()))?;
    let steps: Vec<_> = steps.iter().filter(|step| step.place.is_some()).collect();
    let beginning = Beginning::of(&text);
    let beginning = beginning.context("no `<!-- rack: bare -->` or standing at its head")?;
    let scene = Scene::build(beginning)?;
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    // From the end, so that line numbers stay true.
    let mut changes = Vec::new();
    for step in &steps {
        let place = step.place.as_deref().unwrap_or_default();
        let told = || {
            let line = step.line + 1;
            format!("{}:{line}: {place}$ {}", path.display(), step.command)
        };
        let came = perform(&scene, place, step, write).with_context(told);
        let came = came.telling(|| scene.story())?;
        if !agrees(&step.said, &came) {
            ensure!(write, "{}\n{}", told(), difference(&step.said, &came));
            changes.push((step.output(), came));
        }
    }
    for (range, came) in changes.into_iter().rev() {
        lines.splice(range, came);
    }
    if write {
        fs::write(path, lines.join("\n") + "\n")?;
    }
    Ok(steps.len())
}

/// Runs one command, and returns what it said: the words of the document, if it ever says them.
fn perform(scene: &Scene, place: &str, step: &Step, write: bool) -> Result<Vec<String>> {
    let begun = Instant::now();
    let mut same_since: Option<(Vec<String>, Instant)> = None;
    loop {
        let said = scene.run(place, &step.command, step.stays())?;
        let came = said.text.lines().map(|line| line.replace('\t', "    ").trim_end().to_owned());
        let came: Vec<String> = came.collect();
        if step.stays() {
            ensure!(said.status.success(), "it ended with {}", said.status);
            ensure!(step.said.is_empty(), "what is left running says nothing in a document");
            return Ok(Vec::new());
        }
        let succeeded = said.status.success();
        if succeeded && (!step.looks() || agrees(&step.said, &came)) {
            return Ok(came);
        }
        let told = || format!("it ended with {}\n{}", said.status, difference(&step.said, &came));
        if !step.looks() {
            bail!("{}", told());
        }
        let settled = match &same_since {
            Some((before, at)) if masks(before) == masks(&came) => at.elapsed() > SETTLED,
            _ => {
                same_since = Some((came.clone(), Instant::now()));
                false
            }
        };
        if succeeded && write && settled {
            return Ok(came);
        }
        if begun.elapsed() > PATIENCE {
            ensure!(succeeded, "{}", told());
            return Ok(came);
        }
        thread::sleep(PAUSE);
    }
}

fn masks(lines: &[String]) -> Vec<String> {
    lines.iter().map(|line| masked(line)).collect()
}
