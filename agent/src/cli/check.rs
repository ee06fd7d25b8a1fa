//! `flock-agent check`: the doctor's findings, each with its remedy, and an exit code for scripts.

use serde::{Deserialize, Serialize};

use super::Show;
use super::exit::Ended;
use super::output::{Look, Table, Tone, fold};
use super::view::View;
use crate::server::admin::op;

/// The answer: `-o json` prints exactly this.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// In the order in which they were looked at.
    pub findings: Vec<Finding>,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What was looked at.
    pub check: String,
    /// How it is.
    pub status: Status,
    /// What was found.
    pub message: String,
    /// What to do about it; empty when all is well.
    pub remedy: String,
}

/// How a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// All well.
    Ok,
    /// Works, but worth a look.
    Warn,
    /// Does not work.
    Fail,
}

impl Report {
    /// Whether anything failed.
    pub fn failed(&self) -> bool {
        self.findings.iter().any(|finding| finding.status == Status::Fail)
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

fn render(report: &Report, look: Look) -> String {
    let mut table = Table::new(vec!["CHECK", "STATUS", "FOUND"]);
    for finding in &report.findings {
        let (word, tone) = match finding.status {
            Status::Ok => ("ok", Tone::Good),
            Status::Warn => ("warn", Tone::Warning),
            Status::Fail => ("FAIL", Tone::Bad),
        };
        table.row(vec![
            (finding.check.clone(), Tone::Plain),
            (word.into(), tone),
            (finding.message.clone(), Tone::Plain),
        ]);
    }
    let mut text = table.draw(look);
    let remedies: Vec<_> = report.findings.iter().filter(|f| !f.remedy.is_empty()).collect();
    if !remedies.is_empty() {
        text.push_str("\nWhat to do:\n");
        for finding in remedies {
            let line = format!("  {}: {}\n", finding.check, finding.remedy);
            text.push_str(&fold(&line, look.width, 4));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remedies_follow_the_table() {
        let report = Report {
            findings: vec![
                Finding {
                    check: "store".into(),
                    status: Status::Ok,
                    message: "3 pods".into(),
                    remedy: String::new(),
                },
                Finding {
                    check: "sysctl".into(),
                    status: Status::Fail,
                    message: "off".into(),
                    remedy: "turn it on".into(),
                },
            ],
        };
        assert!(report.failed());
        assert_eq!(
            render(&report, Look::PIPE),
            "CHECK   STATUS  FOUND\nstore   ok      3 pods\nsysctl  FAIL    off\n\nWhat to do:\n  sysctl: turn it on\n"
        );
    }
}
