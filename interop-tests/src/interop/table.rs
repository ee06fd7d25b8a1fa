//! The matrix as text: rows are cells, columns are routers, reasons are footnotes.

use crate::interop::{GROUPS, Outcome};
use crate::router::Brand;

/// One filled cell.
#[derive(Debug)]
pub struct Entry {
    /// With whom.
    pub brand: Brand,
    /// Which row.
    pub cell: &'static str,
    /// What became of it.
    pub outcome: Outcome,
}

/// Renders the matrix for these routers, with footnotes and failures below.
pub fn render(brands: &[Brand], entries: &[Entry]) -> String {
    let rows: Vec<&'static str> =
        GROUPS.iter().flat_map(|group| group.cells.iter().copied()).collect();
    let played = |cell: &str| entries.iter().any(|entry| entry.cell == cell);
    let width = rows.iter().map(|row| row.len()).max().unwrap_or(0);
    let mut reasons: Vec<&'static str> = Vec::new();
    let mut failures = Vec::new();
    let mut text = format!("{:width$}", "");
    for brand in brands {
        text.push_str(&format!("  {:>8}", brand.name()));
    }
    text.push('\n');
    for row in rows.into_iter().filter(|row| played(row)) {
        text.push_str(&format!("{row:width$}"));
        for brand in brands {
            let entry = entries.iter().find(|entry| entry.cell == row && entry.brand == *brand);
            let word = match entry.map(|entry| &entry.outcome) {
                None => "-".to_owned(),
                Some(Outcome::Works) => "ok".to_owned(),
                Some(Outcome::Fails(error)) => {
                    failures.push(format!("{} / {row}: {error:#}", brand.name()));
                    "FAIL".to_owned()
                }
                Some(Outcome::Cannot(reason)) => {
                    let at = reasons.iter().position(|there| there == reason);
                    let at = at.unwrap_or_else(|| {
                        reasons.push(reason);
                        reasons.len() - 1
                    });
                    format!("n/a({})", at + 1)
                }
            };
            text.push_str(&format!("  {word:>8}"));
        }
        text.push('\n');
    }
    for (number, reason) in reasons.iter().enumerate() {
        text.push_str(&format!("\n({}) {reason}", number + 1));
    }
    for failure in failures {
        text.push_str(&format!("\n\nFAIL {failure}"));
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn rows_are_aligned_and_reasons_are_numbered_once() {
        let cells = GROUPS[0].cells;
        let entry = |brand, cell, outcome| Entry { brand, cell, outcome };
        let entries = [
            entry(Brand::Bird, cells[0], Outcome::Works),
            entry(Brand::Frr, cells[0], Outcome::Cannot("it has none")),
            entry(Brand::Bird, cells[1], Outcome::Cannot("it has none")),
            entry(Brand::Frr, cells[1], Outcome::Fails(anyhow!("broken"))),
        ];
        let text = render(&[Brand::Bird, Brand::Frr], &entries);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0].len(), lines[1].len());
        assert!(lines[1].ends_with("ok    n/a(1)"), "{text}");
        assert!(lines[2].ends_with("n/a(1)      FAIL"), "{text}");
        assert_eq!(text.matches("it has none").count(), 1);
        assert!(text.contains("FAIL frr") && text.contains("broken"));
    }
}
