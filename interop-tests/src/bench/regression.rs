//! Whether a run is worse than the recorded one.
//!
//! Times differ from machine to machine, so only ratios and counts of instructions are compared. A
//! ratio may be worse by half before it counts: noise of a small machine. Instructions repeat, but
//! for what another processor's `memcpy` takes: a tenth.

use super::report::{Better, Row};

/// The unit of figures that are the same whatever else the machine does.
pub const INSTRUCTIONS: &str = "instructions";
const RATIO_SLACK: f64 = 1.5;
const COUNT_SLACK: f64 = 1.1;
/// Below this a ratio is so good that its noise means nothing.
const FAR_AHEAD: f64 = 0.05;

/// A line that is worse than it was.
#[derive(Debug, PartialEq)]
pub struct Regression {
    /// Which line.
    pub name: String,
    /// What it was.
    pub before: f64,
    /// What it is.
    pub now: f64,
}

/// Compares line by line; who is in one run only is not compared.
pub fn regressions(recorded: &[Row], now: &[Row]) -> Vec<Regression> {
    let mut found = Vec::new();
    for row in now {
        let same = |other: &&Row| (&other.name, &other.peer_name) == (&row.name, &row.peer_name);
        let Some(before) = recorded.iter().find(same) else { continue };
        let (before, now, slack) = match (row.unit == INSTRUCTIONS, figures(before), figures(row)) {
            (true, (Some(before), _), (Some(now), _)) => (before, now, COUNT_SLACK),
            (false, (_, Some(before)), (_, Some(now))) => (before, now, RATIO_SLACK),
            _ => continue,
        };
        let worse = match row.better {
            Better::Less => now > before.max(FAR_AHEAD) * slack,
            Better::More => now < before / slack,
        };
        if worse {
            let peer = row.peer_name.as_ref().map(|peer| format!(" : {peer}")).unwrap_or_default();
            found.push(Regression { name: format!("{}{peer}", row.name), before, now });
        }
    }
    found
}

fn figures(row: &Row) -> (Option<f64>, Option<f64>) {
    (row.flock, row.ratio)
}

#[cfg(test)]
mod tests {
    use super::super::samples::Samples;
    use super::*;

    fn beside(ours: f64, theirs: f64) -> Row {
        Row::beside("x", &Samples::one(ours), "y", &Samples::one(theirs))
    }

    fn counted(count: f64) -> Row {
        Row::own("z", &Samples::one(count)).unit(INSTRUCTIONS)
    }

    #[test]
    fn a_ratio_may_be_worse_by_half_and_a_count_by_a_tenth() {
        let recorded = [beside(1.0, 1.0), counted(1000.0)];
        assert_eq!(regressions(&recorded, &[beside(14.0, 10.0), counted(1090.0)]), []);
        let worse = regressions(&recorded, &[beside(16.0, 10.0), counted(1110.0)]);
        let names: Vec<_> = worse.iter().map(|found| found.name.as_str()).collect();
        assert_eq!(names, ["x : y", "z"]);
    }

    #[test]
    fn a_rate_is_worse_when_it_is_less() {
        let rate = |ours| beside(ours, 1.0).rate("/s");
        assert_eq!(regressions(&[rate(6.0)], &[rate(5.0)]), []);
        assert_eq!(regressions(&[rate(6.0)], &[rate(3.9)]).len(), 1);
    }

    #[test]
    fn noise_far_ahead_and_new_lines_are_nothing() {
        assert_eq!(regressions(&[beside(0.001, 1.0)], &[beside(0.04, 1.0)]), []);
        assert_eq!(regressions(&[], &[beside(9.0, 1.0)]), []);
    }
}
