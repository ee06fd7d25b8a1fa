//! How answers look: aligned tables for people (colour only on a terminal), JSON and YAML for
//! machines. The JSON is the contract; a table is drawn from the same values.

use std::io::{self, IsTerminal, Write};

use clap::ValueEnum;
use serde::Serialize;

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// Columns for people.
    Table,
    /// More columns.
    Wide,
    /// The stable contract.
    Json,
    /// The same as YAML.
    Yaml,
}

/// How a table is to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// With more columns.
    pub wide: bool,
    /// In colour.
    pub colour: bool,
    /// For a person's eyes, not a pipe.
    pub terminal: bool,
}

impl Look {
    /// As asked for, and as standard output is.
    pub fn of(form: Form) -> Self {
        Self { wide: form == Form::Wide, colour: colour(), terminal: terminal() }
    }
}

/// Prints a value as JSON or YAML; false when a table is wanted instead.
pub fn machine(form: Form, value: &impl Serialize) -> anyhow::Result<bool> {
    let Some(text) = formal(form, value)? else { return Ok(false) };
    print(&text)?;
    Ok(true)
}

/// A value as JSON or YAML; `None` when a table is wanted instead.
pub fn formal(form: Form, value: &impl Serialize) -> anyhow::Result<Option<String>> {
    Ok(match form {
        Form::Json => Some(serde_json::to_string_pretty(value)? + "\n"),
        Form::Yaml => Some(serde_saphyr::to_string(value)?),
        Form::Table | Form::Wide => None,
    })
}

/// Writes to standard output; a reader that has gone (`| head`) is no failure.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    // Flushed: a line that is to be written over has no end.
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// How a cell is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// As it is.
    Plain,
    /// All well.
    Good,
    /// Worth a look.
    Warning,
    /// Wrong.
    Bad,
}

/// Between two columns.
const GAP: usize = 2;

/// A table under a line of headings.
pub struct Table {
    headings: Vec<&'static str>,
    numbers: Vec<&'static str>,
    rows: Vec<Vec<(String, Tone)>>,
}

impl Table {
    /// An empty table.
    pub fn new(headings: Vec<&'static str>) -> Self {
        Self { headings, numbers: Vec::new(), rows: Vec::new() }
    }

    /// The columns under these headings end flush.
    pub fn numbers(mut self, headings: &[&'static str]) -> Self {
        self.numbers.extend(headings);
        self
    }

    /// Adds a row; an empty cell is shown as a dash.
    pub fn row(&mut self, cells: Vec<(String, Tone)>) {
        self.rows.push(cells);
    }

    /// The text, with colours if asked for.
    pub fn render(&self, colour: bool) -> String {
        let width = |column: usize| {
            let heading = self.headings.get(column).map_or(0, |heading| heading.len());
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|(text, _)| text.chars().count().max(1)).fold(heading, usize::max)
        };
        let columns: Vec<Column> = self
            .headings
            .iter()
            .enumerate()
            .map(|(at, heading)| Column {
                width: width(at),
                is_number: self.numbers.contains(heading),
            })
            .collect();
        let headings: Vec<_> =
            self.headings.iter().map(|heading| ((*heading).to_owned(), Tone::Plain)).collect();
        std::iter::once(&headings)
            .chain(&self.rows)
            .map(|row| render_row(row, &columns, colour))
            .collect()
    }
}

struct Column {
    width: usize,
    is_number: bool,
}

fn render_row(row: &[(String, Tone)], columns: &[Column], colour: bool) -> String {
    let mut line = String::new();
    for ((text, tone), column) in row.iter().zip(columns) {
        let text = if text.is_empty() { "-" } else { text };
        let fill = column.width.saturating_sub(text.chars().count());
        let (before, after) = if column.is_number { (fill, 0) } else { (0, fill) };
        line.extend(std::iter::repeat_n(' ', before));
        line.push_str(&paint(text, *tone, colour));
        line.extend(std::iter::repeat_n(' ', after + GAP));
    }
    line.truncate(line.trim_end().len());
    line.push('\n');
    line
}

/// Lines of `Label:  value`, the values under each other.
pub fn labelled(lines: &[(&str, String, Tone)], colour: bool) -> String {
    let width = lines.iter().map(|(label, ..)| label.chars().count()).max().unwrap_or(0);
    let line = |(label, value, tone): &(&str, String, Tone)| {
        let fill = " ".repeat(width.saturating_sub(label.chars().count()) + GAP);
        format!("{label}:{fill}{}\n", paint(value, *tone, colour))
    };
    lines.iter().map(line).collect()
}

/// A text in its tone.
pub fn paint(text: &str, tone: Tone, colour: bool) -> String {
    let code = match tone {
        _ if !colour => return text.to_owned(),
        Tone::Plain => return text.to_owned(),
        Tone::Good => 32,
        Tone::Warning => 33,
        Tone::Bad => 31,
    };
    format!("\x1b[{code}m{text}\x1b[0m")
}

/// Whether standard output is a terminal that wants colour (<https://no-color.org>).
pub fn colour() -> bool {
    terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}

/// Whether standard output is a terminal.
pub fn terminal() -> bool {
    io::stdout().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_and_lines_end_clean() {
        let mut table = Table::new(vec!["NAME", "STATE"]);
        table.row(vec![("a".into(), Tone::Plain), ("up".into(), Tone::Good)]);
        table.row(vec![("longer".into(), Tone::Plain), (String::new(), Tone::Plain)]);
        assert_eq!(table.render(false), "NAME    STATE\na       up\nlonger  -\n");
        assert!(table.render(true).contains("\x1b[32mup\x1b[0m"));
    }

    #[test]
    fn numbers_end_flush() {
        let mut table = Table::new(vec!["N", "NAME"]).numbers(&["N"]);
        table.row(vec![("7".into(), Tone::Good), ("a".into(), Tone::Plain)]);
        table.row(vec![("1234".into(), Tone::Plain), ("b".into(), Tone::Plain)]);
        assert_eq!(table.render(false), "   N  NAME\n   7  a\n1234  b\n");
        assert!(table.render(true).contains("   \x1b[32m7\x1b[0m  a\n"));
    }

    #[test]
    fn labelled_values_stand_under_each_other() {
        let lines = [("A", "1".into(), Tone::Plain), ("Long", "2".into(), Tone::Bad)];
        assert_eq!(labelled(&lines, false), "A:     1\nLong:  2\n");
        assert!(labelled(&lines, true).contains("\x1b[31m2\x1b[0m"));
    }

    #[test]
    fn a_table_is_not_for_machines() {
        let value = serde_json::json!({ "a": 1 });
        assert_eq!(formal(Form::Json, &value).unwrap().unwrap(), "{\n  \"a\": 1\n}\n");
        assert_eq!(formal(Form::Yaml, &value).unwrap().unwrap(), "a: 1\n");
        assert_eq!(formal(Form::Wide, &value).unwrap(), None);
    }
}
