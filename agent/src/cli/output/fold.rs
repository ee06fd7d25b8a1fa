//! Where lines end: folded at words for a terminal's width, cropped for a screen. Pure. Colours have
//! no width.

/// Words are not folded into less room than this: a ribbon of single words reads worse than a line
/// that the terminal breaks.
const NARROWEST: usize = 20;

/// A text of which no line is longer than `width`, where words allow it: a line that is too long
/// goes on below, `indent` columns to the right. `None`: as it is.
pub fn fold(text: &str, width: Option<usize>, indent: usize) -> String {
    let Some(width) = width else { return text.to_owned() };
    let mut folded = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (line, end) = match line.strip_suffix('\n') {
            Some(line) => (line, "\n"),
            None => (line, ""),
        };
        folded.push_str(&fold_line(line, width, indent));
        folded.push_str(end);
    }
    folded
}

fn fold_line(line: &str, width: usize, indent: usize) -> String {
    if columns(line) <= width || width < indent + NARROWEST {
        return line.to_owned();
    }
    let lines = wrap(line, width, width - indent);
    lines.join(&format!("\n{}", " ".repeat(indent)))
}

/// A line as lines: room for the first and for each that follows. A word that has no room is not
/// broken.
pub(super) fn wrap(text: &str, first: usize, then: usize) -> Vec<String> {
    let (mut lines, mut line, mut used) = (Vec::new(), String::new(), 0);
    let mut room = first;
    for word in text.split_inclusive(' ') {
        let ends = columns(word.trim_end());
        if used > 0 && used + ends > room {
            lines.push(std::mem::take(&mut line).trim_end().to_owned());
            (used, room) = (0, then);
        }
        line.push_str(word);
        used += columns(word);
    }
    lines.push(line);
    lines
}

/// How many columns a text takes.
pub fn columns(text: &str) -> usize {
    let mut inside = false;
    let is_seen = |character: char| {
        let seen = !inside && character != '\x1b';
        inside = match character {
            '\x1b' => true,
            'm' if inside => false,
            _ => inside,
        };
        seen
    };
    text.chars().map(is_seen).filter(|seen| *seen).count()
}

/// A line without what does not fit; its colour ends with it.
pub fn crop(line: &str, width: usize) -> String {
    if columns(line) <= width {
        return line.to_owned();
    }
    let (mut cropped, mut used, mut inside) = (String::new(), 0, false);
    for character in line.chars() {
        if character == '\x1b' {
            inside = true;
        } else if inside {
            inside = character != 'm';
        } else if used == width {
            break;
        } else {
            used += 1;
        }
        cropped.push(character);
    }
    if cropped.contains('\x1b') {
        cropped.push_str("\x1b[0m");
    }
    cropped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_at_words_and_go_on_to_the_right() {
        let text = "tor-a: the connection closed and nobody knows why\nshort\n";
        let folded = "tor-a: the connection\n  closed and nobody knows\n  why\nshort\n";
        assert_eq!(fold(text, Some(25), 2), folded);
        assert_eq!(fold(text, None, 2), text);
        assert_eq!(fold(text, Some(10), 2), text, "too narrow for words");
        let address = "see 2001:db8:ffff:ffff:ffff:ffff:ffff:ffff/128 there";
        assert_eq!(
            fold(address, Some(24), 1),
            "see\n 2001:db8:ffff:ffff:ffff:ffff:ffff:ffff/128\n there",
            "a word is not broken"
        );
        assert_eq!(fold("", Some(80), 0), "");
    }

    #[test]
    fn colours_have_no_width() {
        assert_eq!(columns("\x1b[32mup\x1b[0m and so"), 9);
        assert_eq!(crop("\x1b[32mEstablished\x1b[0m", 5), "\x1b[32mEstab\x1b[0m");
        assert_eq!(crop("plain", 3), "pla");
        assert_eq!(crop("äöü", 3), "äöü");
        assert_eq!(crop("\x1b[32mup\x1b[0m", 2), "\x1b[32mup\x1b[0m");
    }
}
