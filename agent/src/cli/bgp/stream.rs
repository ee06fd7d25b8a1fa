//! Routes as they come: printed a few at a time in any form, and never all in memory. What is
//! printed is what a whole list would look like.

use std::ops::ControlFlow;

use super::answer::{RouteList, RouteRow};
use super::question::Which;
use super::routes::RouteTable;
use crate::cli::output::{Form, Look, formal};

/// So many rows say how wide the columns of a table are.
const TELLING: usize = 1_000;

/// What is being printed, and where: whoever takes the text says whether anybody still reads.
pub(super) struct Printer<Out> {
    form: Form,
    out: Out,
    table: RouteTable,
    /// Waits for its columns to be known.
    held: Vec<RouteRow>,
    has_begun: bool,
}

impl<Out: FnMut(&str) -> anyhow::Result<ControlFlow<()>>> Printer<Out> {
    pub(super) fn new(form: Form, which: Which, look: Look, out: Out) -> Self {
        let table = RouteTable::new(which, look);
        Self { form, out, table, held: Vec::new(), has_begun: false }
    }

    pub(super) fn add(&mut self, rows: Vec<RouteRow>) -> anyhow::Result<ControlFlow<()>> {
        self.held.extend(rows);
        match self.held.len() {
            0 => Ok(ControlFlow::Continue(())),
            few if !self.has_begun && few < TELLING => Ok(ControlFlow::Continue(())),
            _ => self.print_held(),
        }
    }

    /// Whether there is anything at all.
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty() && !self.has_begun
    }

    /// What is left, and whatever closes it.
    pub(super) fn end(mut self) -> anyhow::Result<()> {
        if !self.held.is_empty() && self.print_held()?.is_break() {
            return Ok(());
        }
        let [_, _, end] = around(self.form);
        let end = format!("{end}{}", self.table.legend());
        (self.out)(&end).map(|_| ())
    }

    fn print_held(&mut self) -> anyhow::Result<ControlFlow<()>> {
        let list = RouteList { routes: std::mem::take(&mut self.held) };
        let begins = !std::mem::replace(&mut self.has_begun, true);
        let Some(text) = formal(self.form, &list)? else {
            return (self.out)(&self.table.flow(&list.routes));
        };
        let [begin, between, end] = around(self.form);
        let rows = text.strip_prefix(begin).and_then(|text| text.strip_suffix(end));
        let before = if begins { begin } else { between };
        let rows = rows.unwrap_or(&text);
        (self.out)(&format!("{before}{rows}"))
    }
}

/// What stands before the rows of a list, between two of them and behind them.
fn around(form: Form) -> [&'static str; 3] {
    match form {
        Form::Json => ["{\n  \"routes\": [\n", ",\n", "\n  ]\n}\n"],
        Form::Yaml => ["routes:\n", "", ""],
        Form::Table | Form::Wide => [""; 3],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::bgp::sample;

    fn streamed(form: Form, rows: &[RouteRow], at_once: usize) -> String {
        let mut text = String::new();
        let mut out = |more: &str| {
            text.push_str(more);
            Ok(ControlFlow::Continue(()))
        };
        let look = Look { wide: form == Form::Wide, ..Look::PIPE };
        let mut printer = Printer::new(form, Which::All, look, &mut out);
        for some in rows.chunks(at_once) {
            assert!(printer.add(some.to_vec()).unwrap().is_continue());
        }
        printer.end().unwrap();
        text
    }

    #[test]
    fn however_they_come_it_is_the_text_of_the_whole_list() {
        let six = sample::routes();
        let many: Vec<RouteRow> = six.iter().cycle().take(5_003).cloned().collect();
        for rows in [&six[..1], &six, &many] {
            for form in [Form::Json, Form::Yaml] {
                let list = RouteList { routes: rows.to_vec() };
                let whole = formal(form, &list).unwrap().unwrap();
                for at_once in [1, 7, 999, 5_003] {
                    assert!(streamed(form, rows, at_once) == whole, "{form:?} {at_once}");
                }
            }
            for form in [Form::Table, Form::Wide] {
                let look = Look { wide: form == Form::Wide, ..Look::PIPE };
                let whole = super::super::routes::render(rows, Which::All, look);
                assert_eq!(streamed(form, rows, 500), whole, "{form:?}");
            }
        }
    }

    #[test]
    fn a_reader_that_goes_ends_it() {
        let mut prints = 0;
        let mut out = |_: &str| {
            prints += 1;
            Ok(ControlFlow::Break(()))
        };
        let mut printer = Printer::new(Form::Json, Which::All, Look::PIPE, &mut out);
        let rows: Vec<RouteRow> = sample::routes().into_iter().cycle().take(TELLING).collect();
        assert!(printer.add(rows).unwrap().is_break());
        assert_eq!(prints, 1);
    }
}
