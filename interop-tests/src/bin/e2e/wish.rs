//! What the user asked for on the command line.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::scenarios::SCENARIOS;

const USAGE: &str = "usage: e2e [--only NAME[,NAME]] [--list] [--keep] [--outage SECONDS]
  --only    these scenarios alone
  --list    what scenarios there are
  --keep    leave the cluster standing until Ctrl-C, with how to use it; `--only none` plays nothing before
  --outage  how long the API server is away in the scenario of that name (120)";

/// How long the API server is away.
const OUTAGE: Duration = Duration::from_secs(120);

/// What was asked for.
#[derive(Debug)]
pub(crate) struct Wish {
    only: Option<Vec<String>>,
    pub(crate) list: bool,
    pub(crate) keep: bool,
    pub(crate) outage: Duration,
}

impl Wish {
    /// Reads the command line.
    pub(crate) fn read(arguments: impl Iterator<Item = String>) -> Result<Self> {
        let mut wish = Self { only: None, list: false, keep: false, outage: OUTAGE };
        let mut arguments = arguments;
        while let Some(argument) = arguments.next() {
            let mut value =
                || arguments.next().with_context(|| format!("{argument} without a value\n{USAGE}"));
            match argument.as_str() {
                "--only" => wish.only = Some(value()?.split(',').map(str::to_owned).collect()),
                "--list" => wish.list = true,
                "--keep" => wish.keep = true,
                "--outage" => wish.outage = Duration::from_secs(value()?.parse()?),
                other => bail!("{other:?} is not understood\n{USAGE}"),
            }
        }
        for name in wish.only.iter().flatten().filter(|name| *name != "none") {
            let known = SCENARIOS.iter().any(|one| one.name == name);
            ensure!(known, "no scenario {name:?}; --list tells what there is");
        }
        Ok(wish)
    }

    /// Whether a scenario is asked for.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.iter().any(|one| one == name))
    }
}
