//! Aligned columns under headings. A long table need not be there as a whole: it flows, its columns
//! as wide as what came first, and wider where something longer follows.

use super::fold::{columns, wrap};
use super::{Look, Tone, paint};

/// Between two columns.
pub(super) const GAP: usize = 2;
/// Into less room than this the last column is not folded.
const NARROWEST: usize = 20;

/// How far what stands under a row is set in.
const UNDER: usize = 4;

/// A row, and what stands under it.
#[derive(Default)]
struct Row {
    cells: Vec<(String, Tone)>,
    under: Option<(String, Tone)>,
}

/// A table under a line of headings.
pub struct Table {
    headings: Vec<&'static str>,
    numbers: Vec<&'static str>,
    rows: Vec<Row>,
    /// Of the columns, so far.
    widths: Vec<usize>,
    has_begun: bool,
}

impl Table {
    /// An empty table.
    pub fn new(headings: Vec<&'static str>) -> Self {
        let widths = headings.iter().map(|heading| heading.chars().count()).collect();
        Self { headings, numbers: Vec::new(), rows: Vec::new(), widths, has_begun: false }
    }

    /// The columns under these headings end flush.
    pub fn numbers(mut self, headings: &[&'static str]) -> Self {
        self.numbers.extend(headings);
        self
    }

    /// Adds a row; an empty cell is shown as a dash.
    pub fn row(&mut self, cells: Vec<(String, Tone)>) {
        for (at, (text, _)) in cells.iter().enumerate() {
            let width = text.chars().count().max(1);
            match self.widths.get_mut(at) {
                Some(known) => *known = width.max(*known),
                None => self.widths.push(width),
            }
        }
        self.rows.push(Row { cells, under: None });
    }

    /// Under the last row: words for which no column has room.
    pub fn under(&mut self, words: String, tone: Tone) {
        if let Some(row) = self.rows.last_mut() {
            row.under = Some((words, tone));
        }
    }

    /// How wide it is with what was added so far, but for its last column.
    pub fn width_before_last(&self) -> usize {
        let before = self.widths.len().saturating_sub(1);
        self.widths.iter().take(before).map(|width| width + GAP).sum()
    }

    /// How wide it is with what was added so far.
    pub fn width(&self) -> usize {
        self.width_before_last() + self.widths.last().copied().unwrap_or_default()
    }

    /// The text, with colours if asked for, however wide it is.
    pub fn render(&self, colour: bool) -> String {
        self.draw(Look { colour, ..Look::PIPE })
    }

    /// The text as it is to look. The last column is folded at words where the table is wider than
    /// the terminal.
    pub fn draw(&self, look: Look) -> String {
        let mut text = self.line(&self.heading(), look);
        text.extend(self.rows.iter().map(|row| self.line(row, look)));
        text
    }

    /// The text of what was added since the last call, below headings at the first. Of all columns
    /// only the last may have no heading: what is rare need not be foreseen.
    pub fn flow(&mut self, look: Look) -> String {
        let rows = std::mem::take(&mut self.rows);
        let heading = (!std::mem::replace(&mut self.has_begun, true)).then(|| self.heading());
        heading.iter().chain(&rows).map(|row| self.line(row, look)).collect()
    }

    fn heading(&self) -> Row {
        let cells = self.headings.iter().map(|heading| ((*heading).to_owned(), Tone::Plain));
        Row { cells: cells.collect(), under: None }
    }

    fn line(&self, row: &Row, look: Look) -> String {
        let (mut line, mut used) = (String::new(), 0);
        for (at, ((text, tone), width)) in row.cells.iter().zip(&self.widths).enumerate() {
            let text = if text.is_empty() { "-" } else { text };
            let is_last = at + 1 == self.widths.len();
            if is_last && let Some(lines) = folded(text, used, look.width) {
                let lines = lines.iter().map(|line| paint(line, *tone, look.colour));
                line.push_str(&lines.collect::<Vec<_>>().join(&format!("\n{}", " ".repeat(used))));
                break;
            }
            let fill = width.saturating_sub(columns(text));
            let is_number = self.headings.get(at).is_some_and(|name| self.numbers.contains(name));
            let (before, after) = if is_number { (fill, 0) } else { (0, fill) };
            line.extend(std::iter::repeat_n(' ', before));
            line.push_str(&paint(text, *tone, look.colour));
            line.extend(std::iter::repeat_n(' ', after + GAP));
            used += width + GAP;
        }
        line.truncate(line.trim_end().len());
        line.push('\n');
        if let Some((words, tone)) = &row.under {
            let indent = " ".repeat(UNDER);
            let room = look.width.map_or(usize::MAX, |width| width.saturating_sub(UNDER));
            for words in wrap(words, room.max(NARROWEST), room.max(NARROWEST)) {
                line.push_str(&format!("{indent}{}\n", paint(&words, *tone, look.colour)));
            }
        }
        line
    }
}

/// A cell that begins at a column, as lines; `None`: it fits, or there is no room for words.
fn folded(text: &str, from: usize, width: Option<usize>) -> Option<Vec<String>> {
    let room = width?.checked_sub(from).filter(|room| *room >= NARROWEST)?;
    (columns(text) > room).then(|| wrap(text, room, room))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(texts: [&str; 2]) -> Vec<(String, Tone)> {
        texts.map(|text| (text.to_owned(), Tone::Plain)).into()
    }

    #[test]
    fn columns_align_and_lines_end_clean() {
        let mut table = Table::new(vec!["NAME", "STATE"]);
        table.row(vec![("a".into(), Tone::Plain), ("up".into(), Tone::Good)]);
        table.row(plain(["longer", ""]));
        assert_eq!(table.render(false), "NAME    STATE\na       up\nlonger  -\n");
        assert!(table.render(true).contains("\x1b[32mup\x1b[0m"));
    }

    #[test]
    fn numbers_end_flush() {
        let mut table = Table::new(vec!["N", "NAME"]).numbers(&["N"]);
        table.row(vec![("7".into(), Tone::Good), ("a".into(), Tone::Plain)]);
        table.row(plain(["1234", "b"]));
        assert_eq!(table.render(false), "   N  NAME\n   7  a\n1234  b\n");
        assert!(table.render(true).contains("   \x1b[32m7\x1b[0m  a\n"));
    }

    #[test]
    fn the_last_column_is_folded_for_a_terminal_only() {
        let mut table = Table::new(vec!["CHECK", "FOUND"]);
        table.row(vec![
            ("sysctl".into(), Tone::Plain),
            ("net.ipv4.ip_forward is off and should be on".into(), Tone::Bad),
        ]);
        let folded = "\
CHECK   FOUND
sysctl  net.ipv4.ip_forward is
        off and should be on
";
        let narrow = Look { width: Some(32), ..Look::PIPE };
        assert_eq!(table.draw(narrow), folded);
        let coloured = table.draw(Look { colour: true, ..narrow });
        assert!(coloured.contains("\x1b[31mnet.ipv4.ip_forward is\x1b[0m\n"), "{coloured:?}");
        assert!(table.render(false).ends_with("off and should be on\n"));
        assert_eq!(table.draw(Look { width: Some(12), ..narrow }), table.render(false));
    }

    #[test]
    fn words_without_room_stand_under_their_row() {
        let mut table = Table::new(vec!["A", "B"]);
        table.row(plain(["1", "2"]));
        table.under("something that is to be said of it".into(), Tone::Warning);
        table.row(plain(["3", "4444"]));
        assert_eq!((table.width_before_last(), table.width()), (3, 7));
        let narrow = Look { width: Some(24), ..Look::PIPE };
        assert_eq!(
            table.draw(narrow),
            "A  B\n1  2\n    something that is to\n    be said of it\n3  4444\n"
        );
        assert!(table.render(true).contains("    \x1b[33msomething that is to be said of it"));
    }

    #[test]
    fn a_table_that_flows_has_one_heading_and_columns_that_only_grow() {
        let mut table = Table::new(vec!["A", "B"]);
        table.row(plain(["1", "2"]));
        assert_eq!(table.flow(Look::PIPE), "A  B\n1  2\n");
        table.row(plain(["1234", "2"]));
        table.row(plain(["1", "2"]));
        assert_eq!(table.flow(Look::PIPE), "1234  2\n1     2\n");
        let mut more = plain(["1", "2"]);
        more.push(("rare".into(), Tone::Warning));
        table.row(more);
        assert_eq!(table.flow(Look::PIPE), "1     2  rare\n");
        assert_eq!(table.flow(Look::PIPE), "");
    }
}
