//! The lines as one aligned table on a terminal, and as tables of a document.

use super::report::Row;

const HEAD: [&str; 9] =
    ["", "flock", "p10..p90", "peer", "its", "p10..p90", "ratio", "target", "met"];

/// For a terminal: a heading for each part of the suite.
pub fn text(rows: &[Row]) -> String {
    let cells: Vec<_> = rows.iter().map(|row| (row.area.as_str(), cells(row))).collect();
    let width = |column: usize| {
        let all = cells.iter().filter_map(|(_, line)| line.get(column));
        let head = HEAD.get(column).map_or(0, |head| head.len());
        all.map(|cell| cell.chars().count()).max().unwrap_or(0).max(head)
    };
    let widths: Vec<_> = (0..HEAD.len()).map(width).collect();
    let mut text = line(&HEAD.map(str::to_owned), &widths);
    let mut area = "";
    for (of, cells) in &cells {
        if *of != area {
            area = of;
            text.push_str(&format!("\n{}\n", area.to_uppercase()));
        }
        text.push_str(&line(cells, &widths));
    }
    text
}

fn line(cells: &[String; 9], widths: &[usize]) -> String {
    let mut text = String::new();
    for (column, (cell, width)) in cells.iter().zip(widths).enumerate() {
        // Names to the left, figures to the right.
        let left = matches!(column, 0 | 3 | 7 | 8);
        let cell = if left { format!("{cell:<width$}  ") } else { format!("{cell:>width$}  ") };
        text.push_str(&cell);
    }
    text.trim_end().to_owned() + "\n"
}

/// For a document: the lines of one part.
pub fn markdown(rows: &[Row], area: &str) -> String {
    let mut text = String::from(
        "| | flock | peer | its | ratio | target | met |\n|---|--:|---|--:|--:|---|---|\n",
    );
    for row in rows.iter().filter(|row| row.area == area) {
        let [name, flock, spread, peer, its, peer_spread, ratio, target, met] = cells(row);
        let with = |figure: String, spread: String| {
            if spread.is_empty() { figure } else { format!("{figure} ({spread})") }
        };
        let met = if met == "NO" { "**no**".to_owned() } else { met };
        let (flock, its) = (with(flock, spread), with(its, peer_spread));
        text.push_str(&format!(
            "| {name} | {flock} | {peer} | {its} | {ratio} | {target} | {met} |\n"
        ));
    }
    text
}

fn cells(row: &Row) -> [String; 9] {
    let range = |spread: Option<(f64, f64)>| {
        let spread = spread.filter(|(low, high)| low < high);
        spread.map(|(low, high)| format!("{}..{}", short(low), short(high))).unwrap_or_default()
    };
    let figure =
        |at: Option<f64>| at.map(|at| format!("{} {}", short(at), row.unit)).unwrap_or_default();
    [
        row.name.clone(),
        figure(row.flock),
        range(row.flock_spread),
        row.peer_name.clone().unwrap_or_default(),
        figure(row.peer),
        range(row.peer_spread),
        row.ratio.map(short).unwrap_or_default(),
        row.target.clone().unwrap_or_default(),
        row.met.map(|met| if met { "yes" } else { "NO" }.to_owned()).unwrap_or_default(),
    ]
}

/// The digits that count.
pub fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        large if large >= 10_000.0 => grouped(value),
        large if large >= 100.0 => format!("{value:.0}"),
        medium if medium >= 10.0 => format!("{value:.1}"),
        small if small >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// 1,234,567.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 && !text.ends_with('-') {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::report::Report;
    use super::super::samples::Samples;
    use super::*;

    fn rows() -> Vec<Row> {
        let mut report = Report::default();
        report.begin("cni");
        let row = Row::beside("ADD", &Samples::one(2.5), "ptp", &Samples::one(7.0));
        report.add(row.at_most(1.0 / 3.0));
        report.begin("footprint");
        report.add(Row::own("image", &Samples::one(20.0)).unit("MB").figure_at_most(25.0));
        report.rows
    }

    #[test]
    fn every_column_begins_where_its_head_does() {
        let said = text(&rows());
        let lines: Vec<_> = said.lines().collect();
        let [head, _, "CNI", add, _, "FOOTPRINT", image] = lines[..] else { panic!("{said}") };
        for (heading, cell) in [("peer", "ptp"), ("target", "<= 1/3"), ("met", "NO")] {
            assert_eq!(head.find(heading), add.find(cell), "{said}");
        }
        assert_eq!(head.find("target"), image.find("<= 25 MB"), "{said}");
        assert_eq!(head.find("flock").map(|at| at + 5), add.find(" ms").map(|at| at + 3), "{said}");
    }

    #[test]
    fn a_document_shows_one_part_and_what_was_missed() {
        let said = markdown(&rows(), "cni");
        assert!(said.ends_with("| ADD | 2.50 ms | ptp | 7.00 ms | 0.36 | <= 1/3 | **no** |\n"));
        assert!(!said.contains("image"));
    }

    #[test]
    fn figures_are_as_long_as_they_need_be() {
        let cases = [(0.0, "0"), (0.01234, "0.0123"), (1.234, "1.23"), (123.4, "123")];
        for (figure, said) in cases {
            assert_eq!(short(figure), said);
        }
        assert_eq!((short(1_234_567.0), short(12_345.6)), ("1,234,567".into(), "12,346".into()));
    }
}
