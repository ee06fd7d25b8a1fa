//! What the tests read of a Markdown document: its fences, its prose, the code, links and anchors in
//! it. Pure, and nothing of the standard library's but collections, because the agent's tests read
//! documents with this very file.

use std::collections::BTreeSet;

/// A fenced block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence<'a> {
    /// What follows the opening backticks: a language, and perhaps more.
    pub info: &'a str,
    /// The number of its first line of content, from 0.
    pub start: usize,
    /// Its content.
    pub lines: Vec<&'a str>,
}

impl Fence<'_> {
    /// The first word of the info string.
    pub fn language(&self) -> &str {
        self.info.split_whitespace().next().unwrap_or_default()
    }

    /// Its content as it is.
    pub fn text(&self) -> String {
        self.lines.iter().fold(String::new(), |text, line| text + line + "\n")
    }
}

/// All fenced blocks that begin at the start of a line.
pub fn fences(document: &str) -> Vec<Fence<'_>> {
    let mut found: Vec<Fence<'_>> = Vec::new();
    let mut open: Option<Fence<'_>> = None;
    for (number, line) in document.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (Some(_), Some("")) => found.extend(open.take()),
            (Some(fence), _) => fence.lines.push(line),
            (None, Some(info)) => {
                open = Some(Fence { info: info.trim(), start: number + 1, lines: Vec::new() });
            }
            (None, None) => {}
        }
    }
    found.extend(open);
    found
}

/// The lines outside of fences, with their numbers from 0.
pub fn prose(document: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    document.lines().enumerate().filter(move |(_, line)| {
        let fence = line.starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// What stands between backticks in a line of prose.
pub fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The targets of the links and pictures in a line of prose.
pub fn links(line: &str) -> Vec<String> {
    // What looks like a link in code is none.
    let plain: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
    let written = plain.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let quoted = plain.split("src=\"").skip(1).filter_map(|rest| rest.split_once('"'));
    let sets = plain.split("srcset=\"").skip(1).filter_map(|rest| rest.split_once('"'));
    written.chain(quoted).chain(sets).map(|(target, _)| target.trim().to_owned()).collect()
}

/// The anchors that headings make, as GitHub names them.
pub fn anchors(document: &str) -> BTreeSet<String> {
    let headings = prose(document).filter(|(_, line)| line.starts_with('#'));
    let mut found = BTreeSet::new();
    for (_, heading) in headings {
        let slug = slug(heading.trim_start_matches('#').trim());
        let again = (1..).map(|n| format!("{slug}-{n}")).find(|other| !found.contains(other));
        let free = if found.contains(&slug) { again.unwrap_or_default() } else { slug };
        found.insert(free);
    }
    found
}

fn slug(heading: &str) -> String {
    let kept = |c: char| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
        _ => None,
    };
    heading.to_lowercase().chars().filter_map(kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# A title\n\nSee [there](other.md#x) and `[not](this)`.\n\
                        ```console\n$ one\n# no heading\n```\n## `a b`: c/d?\n## A title\n";

    #[test]
    fn fences_have_their_place_and_their_language() {
        let found = fences(TEXT);
        let lines = vec!["$ one", "# no heading"];
        assert_eq!(found, [Fence { info: "console", start: 4, lines }]);
        assert_eq!(found[0].text(), "$ one\n# no heading\n");
        assert_eq!(fences("```yaml more\na\n")[0].language(), "yaml", "also one that has no end");
    }

    #[test]
    fn prose_is_what_is_not_fenced() {
        let lines: Vec<_> = prose(TEXT).map(|(number, _)| number).collect();
        assert_eq!(lines, [0, 1, 2, 7, 8]);
        assert_eq!(quoted("a `b` c `d e`").collect::<Vec<_>>(), ["b", "d e"]);
        assert_eq!(links("See [there](other.md#x) and `[not](this)`."), ["other.md#x"]);
        assert_eq!(links("<img alt=\"a\" src=\"a.svg\">"), ["a.svg"]);
    }

    #[test]
    fn headings_make_anchors() {
        let wanted = ["a-b-cd", "a-title", "a-title-1"].map(str::to_owned);
        assert_eq!(anchors(TEXT), BTreeSet::from(wanted));
    }
}
