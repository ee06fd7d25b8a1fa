//! The interop matrix: what flock's speaker and each real router have to do
//! together, cell by cell.
//!
//! A [`Group`] is played on one stage (two namespaces, a cable, a router in its
//! container, our speaker) and fills one or more cells of the matrix; cells that
//! need the same stage share it. The tests run one group each, so that a failure
//! names router and cell and the groups run side by side; `make interop` runs all
//! of them and prints the matrix.
//!
//! What a router cannot do is said, with its reason, in [`limits`] and nowhere
//! else.

mod capabilities;
mod exchange;
pub mod limits;
mod protection;
mod restart;
mod session;
mod stage;
pub mod table;

use anyhow::{Error, Result, anyhow};

use crate::router::Brand;

/// Cells that are filled together.
#[derive(Debug, Clone, Copy)]
pub struct Group {
    /// Its name, which is part of the test's name.
    pub name: &'static str,
    /// The cells that it fills, in the order of the matrix.
    pub cells: &'static [&'static str],
    play: fn(Brand, &mut Tally) -> Result<()>,
}

/// All groups, in the order of the matrix.
pub const GROUPS: &[Group] = &[
    Group { name: "exchange", cells: exchange::CELLS, play: exchange::play },
    Group { name: "over_ipv6", cells: exchange::IPV6_CELLS, play: exchange::over_ipv6 },
    Group { name: "internal", cells: exchange::INTERNAL_CELLS, play: exchange::internal },
    Group { name: "long_messages", cells: capabilities::LONG_CELLS, play: capabilities::long },
    Group { name: "two_bytes", cells: capabilities::TWO_BYTE_CELLS, play: capabilities::two_bytes },
    Group { name: "roles", cells: capabilities::ROLE_CELLS, play: capabilities::roles },
    Group { name: "dialling", cells: session::DIALLING_CELLS, play: session::dialling },
    Group { name: "collision", cells: session::COLLISION_CELLS, play: session::collision },
    Group { name: "hold_timer", cells: session::HOLD_CELLS, play: session::hold_timer },
    Group { name: "shutdown", cells: session::SHUTDOWN_CELLS, play: session::shutdown },
    Group { name: "md5", cells: protection::MD5_CELLS, play: protection::md5 },
    Group { name: "gtsm", cells: protection::GTSM_CELLS, play: protection::gtsm },
    Group { name: "max_prefixes", cells: protection::LIMIT_CELLS, play: protection::max_prefixes },
    Group { name: "our_restart", cells: restart::OUR_CELLS, play: restart::ours },
    Group { name: "their_restart", cells: restart::THEIR_CELLS, play: restart::theirs },
];

/// What became of a cell.
#[derive(Debug)]
pub enum Outcome {
    /// It works.
    Works,
    /// It does not.
    Fails(Error),
    /// The router cannot do it, for this reason.
    Cannot(&'static str),
}

/// The outcomes of one group with one router.
#[derive(Debug)]
pub struct Tally {
    brand: Brand,
    outcomes: Vec<(&'static str, Outcome)>,
}

impl Tally {
    /// Plays a cell, unless the router cannot do it. A failure is noted, and the
    /// next cell is played.
    fn cell(&mut self, name: &'static str, play: impl FnOnce() -> Result<()>) {
        let outcome = match limits::reason(self.brand, name) {
            Some(reason) => Outcome::Cannot(reason),
            None => play().map_or_else(Outcome::Fails, |()| Outcome::Works),
        };
        self.outcomes.push((name, outcome));
    }

    /// Whether a cell is to be played at all.
    fn can(&self, name: &str) -> bool {
        limits::reason(self.brand, name).is_none()
    }
}

impl Group {
    /// Plays the group with a router; every cell of it has an outcome.
    pub fn play(&self, brand: Brand) -> Vec<(&'static str, Outcome)> {
        let mut tally = Tally { brand, outcomes: Vec::new() };
        let all_limited = self.cells.iter().all(|cell| !tally.can(cell));
        let ended = if all_limited { Ok(()) } else { (self.play)(brand, &mut tally) };
        let mut why = ended.err();
        for cell in self.cells {
            if tally.outcomes.iter().any(|(there, _)| there == cell) {
                continue;
            }
            let outcome = match limits::reason(brand, cell) {
                Some(reason) => Outcome::Cannot(reason),
                // The first cell that was not reached carries the cause.
                None => Outcome::Fails(
                    why.take().unwrap_or_else(|| anyhow!("not reached: an earlier step failed")),
                ),
            };
            tally.outcomes.push((cell, outcome));
        }
        if let (Some(error), Some((_, outcome))) = (why, tally.outcomes.last_mut())
            && matches!(outcome, Outcome::Works)
        {
            *outcome = Outcome::Fails(error);
        }
        tally.outcomes
    }
}
