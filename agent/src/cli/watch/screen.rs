//! A terminal that is drawn over without flickering: one write a frame, every line cleared behind
//! its end and nothing cleared before it is written. What was on the screen before scrolls away and
//! stays in the terminal's memory; the last frame stays on the screen.

use crate::cli::output::{self, Size, columns, crop};

const HOME: &str = "\x1b[H";
/// To the end of the line.
const CLEAR: &str = "\x1b[K";
/// To the end of the screen.
const CLEAR_BELOW: &str = "\x1b[J";
const HIDE_CURSOR: &str = "\x1b[?25l";
const SHOW_CURSOR: &str = "\x1b[?25h";

/// The screen, from the first frame on until it is dropped.
#[derive(Debug, Default)]
pub(super) struct Screen {
    /// Lines of the last frame.
    drawn: Option<usize>,
}

impl Screen {
    /// What to write so that this is on the screen.
    pub(super) fn frame(&mut self, heading: &str, text: &str, is_cut: bool, size: Size) -> String {
        let lines = lines(heading, text, is_cut, size);
        let mut frame = String::new();
        if self.drawn.replace(lines.len()).is_none() {
            frame.push_str(HIDE_CURSOR);
            frame.push_str(&"\n".repeat(size.rows));
        }
        frame.push_str(HOME);
        // Behind a line that fills its row the cursor is still on the last letter, and clearing takes
        // it: such a line is not cleared, and the last one, below which all is, does not fill its row.
        let last = lines.len().saturating_sub(1);
        let cleared = lines.iter().enumerate().map(|(at, line)| {
            let line =
                if at == last { crop(line, size.columns.saturating_sub(1)) } else { line.clone() };
            let clear = if columns(&line) < size.columns { CLEAR } else { "" };
            format!("{line}{clear}")
        });
        frame.push_str(&cleared.collect::<Vec<_>>().join("\r\n"));
        frame.push_str(CLEAR_BELOW);
        frame
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if let Some(drawn) = self.drawn {
            // Below the last frame.
            let _ = output::print(&format!("\x1b[{drawn};1H\r\n{SHOW_CURSOR}"));
        }
    }
}

/// The lines that fit; the last says what does not.
fn lines(heading: &str, text: &str, is_cut: bool, size: Size) -> Vec<String> {
    let all: Vec<&str> = text.lines().collect();
    let room = size.rows.saturating_sub(1);
    let fits = all.len() + usize::from(is_cut) <= room;
    let shown = if fits { all.len() } else { room.saturating_sub(1).min(all.len()) };
    let mut lines = vec![crop(heading, size.columns)];
    lines.extend(all.iter().take(shown).map(|line| crop(line, size.columns)));
    let rest = match (all.len() - shown, is_cut) {
        (0, false) => return lines,
        (_, true) => "... and more that is not shown".to_owned(),
        (1, false) => "... and 1 more line".to_owned(),
        (more, false) => format!("... and {more} more lines"),
    };
    lines.push(crop(&rest, size.columns));
    lines.truncate(size.rows.max(1));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(text: &str, is_cut: bool, columns: usize, rows: usize) -> Vec<String> {
        lines("12:00:00Z  flock-agent pods -w", text, is_cut, Size { columns, rows })
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        assert_eq!(drawn("a\nb\n", false, 80, 3)[1..], ["a", "b"]);
        assert_eq!(drawn("a\nb\nc\n", false, 80, 3)[1..], ["a", "... and 2 more lines"]);
        assert_eq!(drawn("a\nb\n", true, 80, 4)[1..], ["a", "b", "... and more that is not shown"]);
        assert_eq!(drawn("a\nb\n", true, 80, 3)[1..], ["a", "... and more that is not shown"]);
        assert_eq!(drawn("abcdefgh\n", false, 5, 9), ["12:00", "abcde"]);
        assert_eq!(drawn("a\nb\n", false, 80, 1).len(), 1);
        assert_eq!(drawn("", false, 80, 24).len(), 1);
    }

    #[test]
    fn a_frame_is_drawn_over_the_last_and_clears_only_what_is_left_of_it() {
        let mut screen = Screen::default();
        let size = Size { columns: 80, rows: 3 };
        let first = screen.frame("h", "a\n", false, size);
        assert_eq!(first, "\x1b[?25l\n\n\n\x1b[Hh\x1b[K\r\na\x1b[K\x1b[J");
        let second = screen.frame("h", "b\n", false, size);
        assert_eq!(second, "\x1b[Hh\x1b[K\r\nb\x1b[K\x1b[J");
        // A line that fills its row is whole.
        let full = screen.frame("h", "abc\nabc\n", false, Size { columns: 3, rows: 3 });
        assert_eq!(full, "\x1b[Hh\x1b[K\r\nabc\r\nab\x1b[K\x1b[J");
        screen.drawn = None; // a test has no screen to leave in order
    }
}
