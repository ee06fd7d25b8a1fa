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

/// Prints a value as JSON or YAML; false when a table is wanted instead.
pub fn machine(form: Form, value: &impl Serialize) -> anyhow::Result<bool> {
    let text = match form {
        Form::Json => serde_json::to_string_pretty(value)? + "\n",
        Form::Yaml => serde_saphyr::to_string(value)?,
        Form::Table | Form::Wide => return Ok(false),
    };
    print(&text)?;
    Ok(true)
}

/// Writes to standard output; a reader that has gone (`| head`) is no failure.
pub fn print(text: &str) -> anyhow::Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()) {
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

/// A table under a line of headings.
pub struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<(String, Tone)>>,
}

impl Table {
    /// An empty table.
    pub fn new(headings: Vec<&'static str>) -> Self {
        Self { headings, rows: Vec::new() }
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
        let widths: Vec<usize> = (0..self.headings.len()).map(width).collect();
        let headings: Vec<_> =
            self.headings.iter().map(|heading| ((*heading).to_owned(), Tone::Plain)).collect();
        std::iter::once(&headings)
            .chain(&self.rows)
            .map(|row| render_row(row, &widths, colour))
            .collect()
    }
}

fn render_row(row: &[(String, Tone)], widths: &[usize], colour: bool) -> String {
    let mut line = String::new();
    for ((text, tone), width) in row.iter().zip(widths) {
        let text = if text.is_empty() { "-" } else { text };
        let fill = width.saturating_sub(text.chars().count()) + 2;
        line.push_str(&paint(text, *tone, colour));
        line.extend(std::iter::repeat_n(' ', fill));
    }
    line.truncate(line.trim_end().len());
    line.push('\n');
    line
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
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
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
}
