//! How answers look: aligned tables for people, JSON and YAML for machines. The JSON is the
//! contract; a table is drawn from the same values.
//!
//! On a terminal there are colours (unless `NO_COLOR` is set) and what is too long is folded at
//! words. What goes into a pipe or a file is neither coloured nor folded.

mod fold;
mod table;

use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;
use std::os::fd::AsFd;

use clap::ValueEnum;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;

use crate::log::is_harmful;

pub use fold::{columns, crop, fold};
use table::GAP;
pub use table::Table;

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
    /// Columns that there are; `None`: as many as it takes.
    pub width: Option<usize>,
}

impl Look {
    /// For whatever reads, not for eyes.
    pub const PIPE: Self = Self { wide: false, colour: false, terminal: false, width: None };

    /// As asked for, and as standard output is.
    pub fn of(form: Form) -> Self {
        Self {
            wide: form == Form::Wide,
            colour: colour(),
            terminal: terminal(),
            width: size().map(|size| size.columns),
        }
    }
}

/// What a terminal has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Characters in a line.
    pub columns: usize,
    /// Lines.
    pub rows: usize,
}

/// The size of the terminal that standard output is; `None`: it is none. One that does not say its
/// size has that of `COLUMNS` and `LINES`, or 80 by 24. In a pipe these variables mean nothing.
pub fn size() -> Option<Size> {
    size_of(&io::stdout())
}

fn size_of(stream: &(impl IsTerminal + AsFd)) -> Option<Size> {
    if !stream.is_terminal() {
        return None;
    }
    let told = rustix::termios::tcgetwinsize(stream).ok();
    let or_variable = |told: Option<u16>, name: &str, usual: usize| {
        let told = told.map(usize::from).filter(|told| *told > 0);
        let variable = || std::env::var(name).ok()?.parse().ok().filter(|given| *given > 0);
        told.or_else(variable).unwrap_or(usual)
    };
    Some(Size {
        columns: or_variable(told.map(|size| size.ws_col), "COLUMNS", 80),
        rows: or_variable(told.map(|size| size.ws_row), "LINES", 24),
    })
}

/// Says what went wrong, on standard error, folded where that is a terminal.
pub fn complain(text: &str) {
    let width = size_of(&io::stderr()).map(|size| size.columns);
    eprint!("{}", fold(text, width, 2));
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
    write(text).map(|_| ())
}

/// The same, and says whether anybody still reads.
pub fn write(text: &str) -> anyhow::Result<ControlFlow<()>> {
    let mut stdout = io::stdout().lock();
    // Flushed: a line that is to be written over has no end.
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ControlFlow::Break(())),
        other => Ok(ControlFlow::Continue(other?)),
    }
}

/// Whether nobody will ever read standard output again: the other end of its pipe is closed.
pub fn is_abandoned() -> bool {
    let stdout = io::stdout();
    let mut asked = [PollFd::new(&stdout, PollFlags::empty())];
    // What cannot be asked is taken to be read; writing will tell.
    let answered = poll(&mut asked, Some(&Timespec::default()));
    let closed = |asked: &PollFd<'_>| asked.revents().contains(PollFlags::ERR);
    answered.is_ok() && asked.iter().any(closed)
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

/// Lines of `Label:  value`, the values under each other.
pub fn labelled(lines: &[(&str, String, Tone)], look: Look) -> String {
    let widest = lines.iter().map(|(label, ..)| label.chars().count()).max().unwrap_or(0);
    let line = |(label, value, tone): &(&str, String, Tone)| {
        let fill = " ".repeat(widest.saturating_sub(label.chars().count()) + GAP);
        let line = format!("{label}:{fill}{}\n", paint(value, *tone, look.colour));
        fold(&line, look.width, widest + 1 + GAP)
    };
    lines.iter().map(line).collect()
}

/// A text that no terminal obeys: names of files and words of peers may hold anything. Ends of lines
/// stay.
pub fn harmless(text: &str) -> String {
    text.chars().map(|c| if c != '\n' && is_harmful(c) { '\u{fffd}' } else { c }).collect()
}

/// A text in its tone.
pub fn paint(text: &str, tone: Tone, colour: bool) -> String {
    let text = harmless(text);
    let code = match tone {
        _ if !colour => return text,
        Tone::Plain => return text,
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
    fn labelled_values_stand_under_each_other() {
        let lines = [("A", "1".into(), Tone::Plain), ("Long", "2".into(), Tone::Bad)];
        assert_eq!(labelled(&lines, Look::PIPE), "A:     1\nLong:  2\n");
        let coloured = Look { colour: true, ..Look::PIPE };
        assert!(labelled(&lines, coloured).contains("\x1b[31m2\x1b[0m"));
        let long = [("Last error", "the connection closed unexpectedly".into(), Tone::Plain)];
        let narrow = Look { width: Some(36), ..Look::PIPE };
        let folded = "Last error:  the connection closed\n             unexpectedly\n";
        assert_eq!(labelled(&long, narrow), folded);
    }

    #[test]
    fn a_table_is_not_for_machines() {
        let value = serde_json::json!({ "a": 1 });
        assert_eq!(formal(Form::Json, &value).unwrap().unwrap(), "{\n  \"a\": 1\n}\n");
        assert_eq!(formal(Form::Yaml, &value).unwrap().unwrap(), "a: 1\n");
        assert_eq!(formal(Form::Wide, &value).unwrap(), None);
    }
}
