//! How values look in a line: whatever a peer, a runtime or a file says, it is one line, and no
//! terminal obeys it. Text and JSON have a way each; the words of the agent itself pass unchanged.

use std::fmt::{self, Write as _};
use std::io;

use tracing::field::Field;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;

/// Longer values are cut: a line is to be read.
const LONGEST: usize = 4096;

/// Writes a field of a text line.
pub(super) fn field(writer: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    match field.name() {
        "message" => {}
        // What the `log` crate's records bring along.
        name if name.starts_with("log.") => return Ok(()),
        name if writer.has_ansi_escapes() => write!(writer, "\x1b[3m{name}\x1b[0m\x1b[2m=\x1b[0m")?,
        name => write!(writer, "{name}=")?,
    }
    write!(Harmless { into: writer, left: LONGEST }, "{value:?}")
}

/// Passes on what cannot do harm, and escapes the rest.
struct Harmless<'a, 'b> {
    into: &'a mut Writer<'b>,
    left: usize,
}

impl fmt::Write for Harmless<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            match self.left {
                0 => return Ok(()),
                1 => self.into.write_str("…")?,
                _ if is_harmful(c) => write!(self.into, "{}", c.escape_default())?,
                _ => self.into.write_char(c)?,
            }
            self.left -= 1;
        }
        Ok(())
    }
}

/// Ends a line, steers a terminal, or turns the order of letters around.
pub(crate) fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{061c}' | '\u{200e}' | '\u{200f}')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Standard error, for lines of JSON.
#[derive(Debug, Clone, Copy)]
pub(super) struct JsonLines;

impl<'a> MakeWriter<'a> for JsonLines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        *self
    }
}

impl io::Write for JsonLines {
    /// A whole line at a time, as the subscriber hands it over.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut stderr = io::stderr().lock();
        match std::str::from_utf8(line).ok().and_then(escaped) {
            Some(text) => stderr.write_all(text.as_bytes())?,
            None => stderr.write_all(line)?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().lock().flush()
    }
}

/// JSON escapes what ends a line, but not all that a terminal obeys; all of it is inside of strings.
/// `None`: as it is.
fn escaped(line: &str) -> Option<String> {
    let body = line.strip_suffix('\n').unwrap_or(line);
    if !body.chars().any(is_harmful) {
        return None;
    }
    let mut text = String::with_capacity(line.len() + 16);
    for c in body.chars() {
        if is_harmful(c) {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                let _ = write!(text, "\\u{unit:04x}");
            }
        } else {
            text.push(c);
        }
    }
    text.push('\n');
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn harmless(text: &str) -> String {
        let mut out = String::new();
        let mut writer = Writer::new(&mut out);
        write!(Harmless { into: &mut writer, left: LONGEST }, "{text}").unwrap();
        out
    }

    #[test]
    fn a_value_is_one_line_and_steers_nothing() {
        for (text, wanted) in [
            ("plain Größe 日本", "plain Größe 日本"),
            ("a\nb\r\tc", "a\\nb\\r\\tc"),
            ("\x1b[31mred\x07\x7f", "\\u{1b}[31mred\\u{7}\\u{7f}"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("user\u{202e}gpj", "user\\u{202e}gpj"),
            ("a\u{2028}b", "a\\u{2028}b"),
        ] {
            assert_eq!(harmless(text), wanted);
        }
        let long = harmless(&"x".repeat(LONGEST * 2));
        assert!(long.ends_with("x…") && long.chars().count() == LONGEST, "{}", long.len());
    }

    #[test]
    fn json_stays_json() {
        let hostile = "a\u{9b}31m\x7f\u{202e}";
        let line = format!("{}\n", serde_json::json!({ "reason": hostile }));
        let text = escaped(&line).unwrap();
        assert!(text.ends_with('\n') && text.is_ascii(), "{text:?}");
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["reason"], hostile);
        assert_eq!(escaped("{\"a\":\"b\"}\n"), None);
    }
}
