//! One line a figure: flock, a peer measured in the same run, their ratio, and what it must be.
//!
//! A ratio is always flock's figure to the peer's. A target is about that ratio, or about flock's
//! figure, or about how much more than the peer's it is: the words of the target say which. What the
//! lines mean together (tables, charts, regressions) is decided elsewhere, from the same lines.

use serde::{Deserialize, Serialize};

use super::chart::Chart;
use super::samples::Samples;

/// Which of two figures a reader would rather have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Times, bytes, instructions.
    Less,
    /// Rates.
    More,
}

/// What a line must show.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Goal {
    RatioAtMost(f64),
    RatioAtLeast(f64),
    FigureAtMost(f64),
    MoreAtMost(f64),
}

/// One line, as it stands in the JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// Which part of the suite measured it.
    #[serde(default)]
    pub area: String,
    /// What was measured; together with the peer's name it is the only line so called.
    pub name: String,
    /// What both figures are in.
    pub unit: String,
    /// flock's figure, a median.
    pub flock: Option<f64>,
    /// Beside whom.
    pub peer_name: Option<String>,
    /// The peer's figure, a median.
    pub peer: Option<f64>,
    /// flock's to the peer's.
    pub ratio: Option<f64>,
    /// What is asked for, in words.
    pub target: Option<String>,
    /// Whether it is so.
    pub met: Option<bool>,
    /// Which way is forward.
    pub better: Better,
    /// A tenth of flock's measurements lies below the first, a tenth above the second.
    pub flock_spread: Option<(f64, f64)>,
    /// The peer's.
    pub peer_spread: Option<(f64, f64)>,
    #[serde(skip)]
    goal: Option<Goal>,
}

impl Row {
    /// flock beside a peer, in milliseconds: less is better.
    pub fn beside(name: &str, ours: &Samples, peer: &str, theirs: &Samples) -> Self {
        let mut row = Self::own(name, ours);
        row.peer_name = Some(peer.to_owned());
        row.peer = theirs.figure();
        row.peer_spread = theirs.spread();
        row.with_ratio()
    }

    /// A figure of flock's with nobody beside it.
    pub fn own(name: &str, ours: &Samples) -> Self {
        Self {
            area: String::new(),
            name: name.to_owned(),
            unit: "ms".to_owned(),
            flock: ours.figure(),
            peer_name: None,
            peer: None,
            ratio: None,
            target: None,
            met: None,
            better: Better::Less,
            flock_spread: ours.spread(),
            peer_spread: None,
            goal: None,
        }
    }

    /// A figure that is nobody's: what the machine takes for it at the least.
    pub fn floor(name: &str, what: &str, theirs: &Samples) -> Self {
        Self::beside(name, &Samples::default(), what, theirs)
    }

    /// What the figures are in, where it is not milliseconds.
    pub fn unit(self, unit: &str) -> Self {
        Self { unit: unit.to_owned(), ..self }
    }

    /// A rate: more is better.
    pub fn rate(self, unit: &str) -> Self {
        Self { better: Better::More, ..self.unit(unit) }
    }

    /// Takes what both pay alike off both figures.
    pub fn net_of(mut self, floor: &Samples) -> Self {
        let floor = floor.median();
        self.name.push_str(", net of exec");
        for figure in [&mut self.flock, &mut self.peer] {
            *figure = figure.map(|figure| figure - floor);
        }
        for spread in [&mut self.flock_spread, &mut self.peer_spread] {
            *spread = spread.map(|(low, high)| (low - floor, high - floor));
        }
        self.with_ratio()
    }

    /// The ratio must not be more.
    pub fn at_most(self, limit: f64) -> Self {
        Self { goal: Some(Goal::RatioAtMost(limit)), ..self }
    }

    /// The ratio must not be less.
    pub fn at_least(self, limit: f64) -> Self {
        Self { goal: Some(Goal::RatioAtLeast(limit)), ..self }
    }

    /// flock's figure must not be more, whatever the peer's.
    pub fn figure_at_most(self, limit: f64) -> Self {
        Self { goal: Some(Goal::FigureAtMost(limit)), ..self }
    }

    /// flock's figure must not be more than the peer's by more than this.
    pub fn more_at_most(self, limit: f64) -> Self {
        Self { goal: Some(Goal::MoreAtMost(limit)), ..self }
    }

    fn with_ratio(mut self) -> Self {
        let both = self.flock.zip(self.peer).filter(|(_, peer)| *peer != 0.0);
        self.ratio = both.map(|(flock, peer)| flock / peer);
        self
    }

    fn judge(mut self) -> Self {
        let unit = &self.unit;
        let difference = self.flock.zip(self.peer).map(|(flock, peer)| flock - peer);
        let (words, met) = match self.goal {
            None => return self,
            Some(Goal::RatioAtMost(limit)) => {
                (format!("<= {}", share(limit)), self.ratio.map(|ratio| ratio <= limit))
            }
            Some(Goal::RatioAtLeast(limit)) => {
                (format!(">= {}", share(limit)), self.ratio.map(|ratio| ratio >= limit))
            }
            Some(Goal::FigureAtMost(limit)) => {
                (format!("<= {limit} {unit}"), self.flock.map(|figure| figure <= limit))
            }
            Some(Goal::MoreAtMost(limit)) => {
                (format!("<= {limit} {unit} more"), difference.map(|more| more <= limit))
            }
        };
        self.target = Some(words);
        self.met = met;
        self
    }
}

/// Everything that a run found.
#[derive(Debug, Default)]
pub struct Report {
    area: String,
    /// The lines, in the order in which they were measured.
    pub rows: Vec<Row>,
    /// What is to be drawn of them.
    pub charts: Vec<Chart>,
    /// What the figures do not say, such as who was left out and why.
    pub notes: Vec<String>,
}

impl Report {
    /// What comes now is of this part of the suite.
    pub fn begin(&mut self, area: &str) {
        area.clone_into(&mut self.area);
    }

    /// Adds a line.
    pub fn add(&mut self, row: Row) {
        self.rows.push(Row { area: self.area.clone(), ..row.judge() });
    }

    /// Adds a picture.
    pub fn draw(&mut self, chart: Chart) {
        self.charts.push(chart);
    }

    /// Adds something that the figures do not say.
    pub fn note(&mut self, note: String) {
        eprintln!("note: {note}");
        self.notes.push(format!("{}: {note}", self.area));
    }
}

/// A limit as people write it.
fn share(limit: f64) -> String {
    let one_of = 1.0 / limit;
    if limit < 1.0 && (one_of - one_of.round()).abs() < 1e-9 {
        format!("1/{}", one_of.round())
    } else {
        limit.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(all: &[f64]) -> Samples {
        let mut samples = Samples::default();
        samples.extend(all.to_vec());
        samples
    }

    fn added(row: Row) -> Row {
        let mut report = Report::default();
        report.begin("area");
        report.add(row);
        report.rows.remove(0)
    }

    #[test]
    fn a_target_is_about_what_its_words_say() {
        let row = || Row::beside("x", &samples(&[3.0]), "y", &samples(&[2.0]));
        let cases = [
            (row().at_most(1.5), "<= 1.5", true),
            (row().at_most(1.0 / 3.0), "<= 1/3", false),
            (row().at_least(2.0), ">= 2", false),
            (row().unit("MB").figure_at_most(3.0), "<= 3 MB", true),
            (row().more_at_most(0.5), "<= 0.5 ms more", false),
        ];
        for (row, words, met) in cases {
            let row = added(row);
            assert_eq!((row.target.as_deref(), row.met), (Some(words), Some(met)));
            assert_eq!((row.ratio, row.area.as_str()), (Some(1.5), "area"));
        }
    }

    #[test]
    fn what_is_not_there_has_no_ratio_and_meets_nothing() {
        let nobody = Samples::default();
        let missing = added(Row::beside("x", &nobody, "y", &samples(&[2.0])).at_most(1.0));
        assert_eq!((missing.flock, missing.ratio, missing.met), (None, None, None));
        let nothing = added(Row::beside("x", &samples(&[1.0]), "y", &samples(&[0.0])));
        assert_eq!(nothing.ratio, None);
    }

    #[test]
    fn what_both_pay_is_taken_off_both() {
        let row = Row::beside("x", &samples(&[3.0]), "y", &samples(&[7.0]));
        let row = added(row.net_of(&samples(&[1.0])));
        assert_eq!((row.flock, row.peer), (Some(2.0), Some(6.0)));
        assert_eq!(row.name, "x, net of exec");
        assert!((row.ratio.unwrap() - 1.0 / 3.0).abs() < 1e-9);
    }
}
