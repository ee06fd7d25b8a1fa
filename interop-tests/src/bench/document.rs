//! The figures in a document: what stands between two marks is a table of the recorded run, and
//! nobody's hand wrote it.
//!
//! `<!-- bench: AREA -->` begins one, `<!-- bench: end -->` ends it; `facts` is the machine.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::results::Results;
use super::table::{markdown, short};

const BEGIN: &str = "<!-- bench: ";
const END: &str = "<!-- bench: end -->";

/// The document with every table of this run in its place.
pub fn filled(document: &str, run: &Results) -> Result<String> {
    let mut text = String::new();
    let mut rest = document;
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (area, after) = after.split_once(" -->").context("a mark that is not closed")?;
        let (_, after) = after.split_once(END).with_context(|| format!("no end of {area}"))?;
        let table = if area == "facts" { facts(run) } else { markdown(&run.results, area) };
        ensure!(table.lines().count() > 2, "nothing was measured of {area}");
        text.push_str(&format!("{before}{BEGIN}{area} -->\n{table}{END}"));
        rest = after;
    }
    Ok(text + rest)
}

fn facts(run: &Results) -> String {
    let mut text = String::from("| | |\n|---|---|\n");
    let (targets, met) = run.targets();
    let minutes = short(run.seconds as f64 / 60.0);
    let mut line = |name: &str, value: &str| text.push_str(&format!("| {name} | {value} |\n"));
    let extent = if run.quick { "a quick run" } else { "a full run" };
    line("taken", &format!("{}, {extent} of {minutes} minutes, commit {}", run.taken, run.commit));
    line("targets", &format!("{met} of {targets} met"));
    for facts in [&run.machine, &run.versions] {
        for (name, value) in facts.as_object().into_iter().flatten() {
            match value {
                Value::String(value) => line(name, value),
                value => line(name, &value.to_string()),
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::report::{Report, Row};
    use super::super::samples::Samples;
    use super::*;

    fn run() -> Results {
        let mut report = Report::default();
        report.begin("cni");
        report.add(Row::own("ADD", &Samples::one(2.5)).figure_at_most(2.0));
        Results {
            taken: "2026-01-31T00:00:00Z".to_owned(),
            commit: "abc".to_owned(),
            quick: false,
            seconds: 90,
            machine: serde_json::json!({ "processors": 2 }),
            versions: serde_json::json!({ "BIRD": "2.0.12" }),
            results: report.rows,
            charts: Vec::new(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn what_stands_between_the_marks_is_replaced_and_nothing_else() {
        let document = "head\n<!-- bench: cni -->\nold\n<!-- bench: end -->\nfoot\n";
        let said = filled(document, &run()).unwrap();
        assert!(said.starts_with("head\n<!-- bench: cni -->\n| |"), "{said}");
        assert!(said.contains("| ADD | 2.50 ms |") && !said.contains("old"), "{said}");
        assert!(said.ends_with("<!-- bench: end -->\nfoot\n"), "{said}");
        assert_eq!(filled(&said, &run()).unwrap(), said);
    }

    #[test]
    fn the_machine_is_told() {
        let said = filled("<!-- bench: facts --><!-- bench: end -->", &run()).unwrap();
        assert!(said.contains("| targets | 0 of 1 met |"), "{said}");
        assert!(said.contains("| processors | 2 |\n| BIRD | 2.0.12 |"), "{said}");
    }

    #[test]
    fn a_table_of_nothing_is_an_error() {
        filled("<!-- bench: policy --><!-- bench: end -->", &run()).unwrap_err();
        filled("<!-- bench: cni -->", &run()).unwrap_err();
    }
}
