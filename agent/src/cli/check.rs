//! `flock-agent check`: the doctor's findings, each with its remedy, and an exit code for scripts.
//!
//! Drawn for a person at three in the morning: what is wrong comes first, each with what to do right
//! under it, then one line for each thing that is well, and at the end how many there were.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Show;
use super::exit::Ended;
use super::output::{Look, Tone, fold, harmless, paint};
use super::view::View;
use crate::server::admin::op;

/// The end of `flock-agent check --help`.
pub(super) const HELP: &str = "\
What failed and what is worth a look is shown first, each with what to do about it. What is well
follows, one line for each kind of check; -o wide shows every finding in the order of looking, and
-o json has them all as {\"findings\":[{\"check\",\"status\",\"message\",\"remedy\"}]}.

Nothing is changed by looking.

Examples:
  flock-agent check
  flock-agent check -o wide
  flock-agent check --watch
  flock-agent check -o json | jq '.findings[] | select(.status != \"ok\")'

Exit status: 0 nothing failed, 1 something failed, 2 the agent cannot be asked";

/// The answer: `-o json` prints exactly this.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// In the order in which they were looked at.
    pub findings: Vec<Finding>,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// What was looked at: one of a fixed set of names.
    pub check: String,
    /// How it is.
    pub status: Status,
    /// What was found.
    pub message: String,
    /// What to do about it; empty when all is well.
    pub remedy: String,
}

/// How a finding is.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// All well.
    Ok,
    /// Works, but worth a look.
    Warn,
    /// Does not work.
    Fail,
}

impl Finding {
    /// All is well.
    pub fn ok(check: &str, message: impl Into<String>) -> Self {
        Self::new(check, Status::Ok, message, "")
    }

    /// It works, and is worth a look.
    pub fn warn(check: &str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(check, Status::Warn, message, remedy)
    }

    /// It does not work.
    pub fn fail(check: &str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(check, Status::Fail, message, remedy)
    }

    fn new(
        check: &str,
        status: Status,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { check: check.into(), status, message: message.into(), remedy: remedy.into() }
    }
}

impl Report {
    /// Whether anything failed.
    pub fn failed(&self) -> bool {
        self.findings.iter().any(|finding| finding.status == Status::Fail)
    }

    fn count(&self, status: Status) -> usize {
        self.findings.iter().filter(|finding| finding.status == status).count()
    }
}

/// Asks and prints, once or again and again.
pub fn run(show: &Show) -> anyhow::Result<Ended> {
    let view = View::new(op::CHECK, |report: &Report, look| Ok(render(report, look)));
    if show.watch {
        return view.show(show);
    }
    let report = view.once(show)?;
    Ok(if report.failed() { Ended::Wrong } else { Ended::Done })
}

/// A line of the table, and what to do about it.
struct Row<'a> {
    check: &'a str,
    status: Status,
    message: String,
    remedy: &'a str,
}

const HEADINGS: [&str; 3] = ["CHECK", "STATUS", "FOUND"];
const GAP: usize = 2;
const DO: &str = "do: ";

fn render(report: &Report, look: Look) -> String {
    let rows = if look.wide { everything(report) } else { condensed(report) };
    let [check, status, found] = HEADINGS;
    let longest = rows.iter().map(|row| row.check.chars().count()).max().unwrap_or(0);
    let (first, second) = (longest.max(check.len()) + GAP, status.len() + GAP);
    let indent = first + second;
    let mut text = format!("{check:first$}{status:second$}{found}\n");
    for row in &rows {
        let (word, tone) = match row.status {
            Status::Ok => ("ok", Tone::Good),
            Status::Warn => ("warn", Tone::Warning),
            Status::Fail => ("FAIL", Tone::Bad),
        };
        let fill = " ".repeat(second.saturating_sub(word.len()));
        let head = format!("{:first$}{}{fill}", row.check, paint(word, tone, look.colour));
        // What has lines of its own (several problems of a NodeConfig) keeps them, set in.
        let inside =
            |text: &str| harmless(text).replace('\n', &format!("\n{}", " ".repeat(indent)));
        let message = inside(&row.message);
        text.push_str(&fold(&format!("{head}{message}\n"), look.width, indent));
        if !row.remedy.is_empty() {
            let remedy = format!("{}{DO}{}\n", " ".repeat(indent), inside(row.remedy));
            text.push_str(&fold(&remedy, look.width, indent + DO.len()));
        }
    }
    text.push('\n');
    text.push_str(&total(report));
    text
}

/// Everything, in the order of looking.
fn everything(report: &Report) -> Vec<Row<'_>> {
    report.findings.iter().map(row).collect()
}

/// The worst first, and what is well in one line for each kind.
fn condensed(report: &Report) -> Vec<Row<'_>> {
    let of = |status: Status| report.findings.iter().filter(move |f| f.status == status);
    let mut rows: Vec<Row<'_>> = of(Status::Fail).chain(of(Status::Warn)).map(row).collect();
    let mut seen: Vec<&str> = Vec::new();
    for finding in of(Status::Ok) {
        let check = finding.check.as_str();
        if seen.contains(&check) {
            continue;
        }
        seen.push(check);
        let same = report.findings.iter().filter(|f| f.check == check);
        let well = of(Status::Ok).filter(|f| f.check == check).count();
        let message = match (well, same.count() - well) {
            (1, 0) => finding.message.clone(),
            (well, 0) => format!("all {well}"),
            (1, _) => "the other one".to_owned(),
            (well, _) => format!("the other {well}"),
        };
        rows.push(Row { check, status: Status::Ok, message, remedy: "" });
    }
    rows
}

fn row(finding: &Finding) -> Row<'_> {
    let Finding { check, status, message, remedy } = finding;
    Row { check, status: *status, message: message.clone(), remedy }
}

fn total(report: &Report) -> String {
    let (failed, warned) = (report.count(Status::Fail), report.count(Status::Warn));
    let well = report.count(Status::Ok);
    match (failed, warned) {
        (0, 0) => format!("All {well} checks are well.\n"),
        _ => format!("{failed} failed, {warned} worth a look, {well} well.\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Look = Look::PIPE;

    fn report() -> Report {
        Report {
            findings: vec![
                Finding::ok("NodeConfig", "a in force"),
                Finding::ok("sysctl", "x = 1"),
                Finding::fail("sysctl", "y = 0", "sysctl -w y=1"),
                Finding::ok("sysctl", "z = 1"),
                Finding::warn("BGP peer", "tor-a: Active: no answer within 4s", "ping it"),
                Finding::ok("BGP peer", "tor-b: Established"),
                Finding::ok("clock", "one"),
                Finding::ok("clock", "two"),
            ],
        }
    }

    #[test]
    fn what_is_wrong_comes_first_with_what_to_do() {
        assert!(report().failed());
        assert_eq!(
            render(&report(), PLAIN),
            "CHECK       STATUS  FOUND\n\
             sysctl      FAIL    y = 0\n\
             \x20                   do: sysctl -w y=1\n\
             BGP peer    warn    tor-a: Active: no answer within 4s\n\
             \x20                   do: ping it\n\
             NodeConfig  ok      a in force\n\
             sysctl      ok      the other 2\n\
             BGP peer    ok      the other one\n\
             clock       ok      all 2\n\
             \n1 failed, 1 worth a look, 6 well.\n"
        );
    }

    #[test]
    fn wide_shows_everything_in_the_order_of_looking() {
        let text = render(&report(), Look { wide: true, ..PLAIN });
        let words = ["a in force", "x = 1", "y = 0", "z = 1", "tor-a", "tor-b", "one", "two"];
        let places: Vec<usize> = words.iter().map(|word| text.find(word).unwrap()).collect();
        assert!(places.is_sorted(), "{text}");
        let well = Report { findings: vec![Finding::ok("x", "y")] };
        assert!(render(&well, PLAIN).ends_with("\n\nAll 1 checks are well.\n"));
        assert!(
            render(&report(), Look { colour: true, ..PLAIN }).contains("\x1b[31mFAIL\x1b[0m  ")
        );
    }

    #[test]
    fn a_terminal_obeys_no_finding() {
        let evil = "pods/\x1b[31m\u{9b}2J\nFAIL  forged.yaml";
        let report = Report { findings: vec![Finding::warn("pod manifest", evil, evil)] };
        let text = render(&report, PLAIN);
        assert!(!text.chars().any(|c| c != '\n' && c.is_control()), "{text:?}");
        assert!(text.lines().all(|line| !line.starts_with("FAIL")), "{text}");
    }

    #[test]
    fn a_terminal_breaks_no_words_and_a_pipe_no_lines() {
        let long = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu";
        let report = Report { findings: vec![Finding::warn("c", long, long)] };
        let text = render(&report, Look { width: Some(40), ..PLAIN });
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
        let words: Vec<&str> = text.split_whitespace().collect();
        assert_eq!(words.iter().filter(|word| **word == "lambda").count(), 2, "{text}");
        assert_eq!(render(&report, PLAIN).lines().filter(|line| line.contains(long)).count(), 2);
    }
}
