//! How a command ends, as scripts see it: one table for all commands.

use std::fmt;

/// Below the commands in `--help`.
pub(super) const HELP: &str = "\
Exit status of every command:
  0    all well
  1    something is wrong, refused, or not there
  2    wrong usage, or there is no agent that can be asked
  130  interrupted (Ctrl-C or SIGTERM), also the end of --watch";

const WRONG: u8 = 1;
const NOT_ASKED: u8 = 2;
const INTERRUPTED: u8 = 130;

/// How a command ended that could do what it was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// All well.
    Done,
    /// The answer is that something is wrong.
    Wrong,
    /// Somebody had seen enough.
    Interrupted,
}

/// Nothing was asked of the agent: it cannot be reached or understood, or the command is not meant
/// so.
#[derive(Debug)]
pub struct NotAsked(pub String);

impl fmt::Display for NotAsked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotAsked {}

/// The status to exit with.
pub fn code(outcome: &anyhow::Result<Ended>) -> u8 {
    match outcome {
        Ok(Ended::Done) => 0,
        Ok(Ended::Wrong) => WRONG,
        Ok(Ended::Interrupted) => INTERRUPTED,
        Err(error) if error.chain().any(|cause| cause.is::<NotAsked>()) => NOT_ASKED,
        Err(_) => WRONG,
    }
}

#[cfg(test)]
mod tests {
    use anyhow::{Context, anyhow};

    use super::*;

    #[test]
    fn every_end_has_its_code() {
        let not_asked = || Err::<Ended, _>(NotAsked("nobody there".into()));
        let table = [
            (Ok(Ended::Done), 0),
            (Ok(Ended::Wrong), 1),
            (Ok(Ended::Interrupted), 130),
            (Err(anyhow!("no such peer")), 1),
            (not_asked().map_err(Into::into), 2),
            (not_asked().context("while it was watched"), 2),
        ];
        for (outcome, wanted) in table {
            assert_eq!(code(&outcome), wanted, "{outcome:?}");
        }
    }
}
