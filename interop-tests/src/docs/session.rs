//! What a `console` block says: who types what, and what comes out. Pure; CONTRIBUTING.md tells
//! writers the convention.
//!
//! `node-1$ command` is typed at that place, `$ command` by the reader at home. A command goes on
//! behind a backslash or a pipe, and until the end of its here-document. All other lines are what came out.

use std::ops::Range;

use super::markdown::{Fence, fences};

/// A command of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Where; `None`: at the reader's, where nothing is run.
    pub place: Option<String>,
    /// What, as it is written.
    pub command: String,
    /// The number of its first line, from 0.
    pub line: usize,
    /// What comes out of it, as the document has it.
    pub said: Vec<String>,
}

/// Commands that only look, by how they begin. They may be run again until what they say agrees.
/// Everything else is done once.
const LOOKS: &[&str] = &[
    "flock-agent bgp show",
    "flock-agent policy",
    "flock-agent bgp explain",
    "flock-agent pods",
    "flock-agent check",
    "flock-agent drain --status",
    "birdc show",
    "vtysh -c 'show",
    "ping ",
    "cat /",
    "ls ",
    "jq ",
    "curl ",
    "nft list",
    "pgrep ",
];

impl Step {
    /// Whether it may be run again.
    pub fn looks(&self) -> bool {
        let command = self.command.as_str();
        let shows = command.contains(" show") || command.contains(" get");
        command.starts_with("ip ") && shows || LOOKS.iter().any(|look| command.starts_with(look))
    }

    /// Whether it is left running.
    pub fn stays(&self) -> bool {
        self.command.trim_end().ends_with('&')
    }

    /// The lines of the document that its output has.
    pub fn output(&self) -> Range<usize> {
        let start = self.line + self.command.lines().count();
        start..start + self.said.len()
    }
}

/// The commands of all `console` blocks of a document, in their order. An error names the line.
pub fn steps(document: &str) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    for fence in fences(document).iter().filter(|fence| fence.language() == "console") {
        steps.extend(block(fence)?);
    }
    Ok(steps)
}

fn block(fence: &Fence<'_>) -> Result<Vec<Step>, String> {
    let mut steps: Vec<Step> = Vec::new();
    let mut lines = (fence.start..).zip(fence.lines.iter().copied());
    while let Some((line, text)) = lines.next() {
        let told = |what: &str| format!("line {}: {what}: {text}", line + 1);
        let Some((place, first)) = prompt(text) else {
            let step = steps.last_mut().ok_or_else(|| told("output before any command"))?;
            step.said.push(text.to_owned());
            continue;
        };
        let mut command = first.to_owned();
        let mut end = document_end(first);
        let mut last = first;
        while end.is_some() || last.ends_with(['\\', '|']) {
            let (_, more) = lines.next().ok_or_else(|| told("a command without an end"))?;
            command.push('\n');
            command.push_str(more);
            last = more;
            end = match end {
                Some(word) => Some(word).filter(|word| *word != more),
                None => document_end(more),
            };
        }
        steps.push(Step { place: place.map(str::to_owned), command, line, said: Vec::new() });
    }
    Ok(steps)
}

/// The place and the command of a line that has a prompt.
fn prompt(line: &str) -> Option<(Option<&str>, &str)> {
    let (place, command) = line.split_once("$ ")?;
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    match place {
        "" => Some((None, command)),
        name if is_name(name) => Some((Some(name), command)),
        _ => None,
    }
}

/// The word that ends the here-document of a command, if it has one.
fn document_end(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("<<")?;
    rest.trim_start().trim_start_matches('\'').split(['\'', ' ', '>']).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
```console
node-1$ cat > /a <<'END'
x: $ y
END
node-1$ flock-agent bgp show \\
    -o wide
PEER  STATE
tor   up
$ make demo
```
```yaml
node-1$ not: this
```
```console
tor-a$ birdc show protocols
```
";

    #[test]
    fn commands_have_places_and_outputs() {
        let steps = steps(TEXT).unwrap();
        let seen: Vec<_> = steps
            .iter()
            .map(|step| (step.place.as_deref(), step.command.as_str(), step.output()))
            .collect();
        assert_eq!(
            seen,
            [
                (Some("node-1"), "cat > /a <<'END'\nx: $ y\nEND", 4..4),
                (Some("node-1"), "flock-agent bgp show \\\n    -o wide", 6..8),
                (None, "make demo", 9..9),
                (Some("tor-a"), "birdc show protocols", 15..15),
            ]
        );
        assert_eq!(steps[1].said, ["PEER  STATE", "tor   up"]);
    }

    #[test]
    fn a_pipe_goes_on_in_the_next_line() {
        let steps = steps("```console\na$ echo x |\n  wc -c\n2\n```\n").unwrap();
        assert_eq!(steps[0].command, "echo x |\n  wc -c");
        assert_eq!(steps[0].said, ["2"]);
    }

    #[test]
    fn what_has_no_command_or_no_end_is_named() {
        let told = |text: &str| steps(&format!("```console\n{text}\n```\n")).unwrap_err();
        assert_eq!(told("nobody asked"), "line 2: output before any command: nobody asked");
        for endless in ["a$ cat <<END\nx", "a$ one \\"] {
            assert!(told(endless).contains("without an end"), "{endless}");
        }
    }

    #[test]
    fn looks_are_told_from_acts() {
        let step = |command: &str| Step {
            place: None,
            command: command.to_owned(),
            line: 0,
            said: Vec::new(),
        };
        for look in ["flock-agent bgp show peers", "ip -6 route show", "ping -c 1 ::1"] {
            assert!(step(look).looks(), "{look}");
        }
        for act in ["flock-agent drain --undo", "ip link set x down", "kill 1", "cat > /x <<END"] {
            assert!(!step(act).looks(), "{act}");
        }
        assert!(step("flock-agent run &").stays() && !step("true && false").stays());
    }
}
