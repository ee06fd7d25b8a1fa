//! What may differ between what a document says and what comes out today: times, ages, counters of
//! messages, random addresses, numbers that kernels and routers hand out. This is the whole list.
//! All else has to agree to the letter, but for the width of columns: a random address makes them
//! wider or narrower.

/// A pattern and what stands for whatever it matches. In a pattern `#` is a number, `%` a hexadecimal
/// digit, `~` a group of an IPv6 address; everything else is itself.
const MASKS: &[(&str, &str)] = &[
    // An address that was drawn at random; its network stays, for that has to be right.
    (DRAWN, ""),
    ("%%:%%:%%:%%:%%:%%", "MAC"),
    // When, since when, how long.
    ("#-#-#T#:#:#.#Z", "TIME"),
    ("#-#-#T#:#:#Z", "TIME"),
    ("#:#:#.#", "CLOCK"),
    ("#:#:#", "CLOCK"),
    ("#s ago", "AGO"),
    ("#m ago", "AGO"),
    ("in #s", "SOON"),
    ("# s left", "LEFT"),
    ("#.# ms", "MS"),
    ("# ms", "MS"),
    ("#.# s", "SECONDS"),
    ("within #.#s", "SECONDS"),
    ("lasted=\"#s\"", "LASTED"),
    // Counted by the second.
    ("# received, # sent", "MESSAGES"),
    ("\"uptimeSeconds\": #", "JSON"),
    ("\"stateSeconds\": #", "JSON"),
    ("\"lastErrorSecondsAgo\": #", "JSON"),
    ("\"nextAttemptSeconds\": #", "JSON"),
    ("\"messagesSent\": #", "JSON"),
    ("\"messagesReceived\": #", "JSON"),
    ("# pings, # answered", "PINGS"),
    ("# node-#", "FLOWS"),
    ("meanwhile (#)", "SEGMENTS"),
    // Handed out.
    ("nhid #", "NHID"),
    ("if#", "IFINDEX"),
    ("flock%%%%%%%%", "VETH"),
    ("kill -9 #", "KILL"),
    // Of the machine.
    ("BIRD #.#.#", "BIRD"),
    ("FRRouting #.#.#", "FRR"),
    ("# GiB are free", "ROOM"),
];

const DRAWN: &str = "~:~:~:~:~:~:~:~";

/// A line with all that may differ masked.
pub fn masked(line: &str) -> String {
    let mut rest = line.trim_end();
    let mut before = None;
    let mut out = String::new();
    while let Some(first) = rest.chars().next() {
        let hit = MASKS.iter().find_map(|(pattern, stands)| {
            let found = rest.get(..matching(pattern, rest, before)?)?;
            let network =
                || found.split(':').take(4).fold(String::new(), |net, part| net + part + ":");
            let stands = if *pattern == DRAWN { network() } else { (*stands).to_owned() };
            Some((stands, found.len()))
        });
        let (text, length) = hit.unwrap_or_else(|| (first.to_string(), first.len_utf8()));
        out.push_str(&text);
        let (done, left) = rest.split_at_checked(length).unwrap_or((rest, ""));
        (before, rest) = (done.chars().last(), left);
    }
    narrowed(&out)
}

/// How much of `text` a pattern matches, where both ends stand alone.
fn matching(pattern: &str, text: &str, before: Option<char>) -> Option<usize> {
    if before.is_some_and(|c| c.is_alphanumeric() || c == ':' || c == '.') {
        return None;
    }
    let mut rest = text;
    for class in pattern.chars() {
        let length = match class {
            '#' => rest.chars().take_while(char::is_ascii_digit).count(),
            '~' => rest.chars().take(4).take_while(char::is_ascii_hexdigit).count(),
            '%' => rest.chars().take(1).take_while(char::is_ascii_hexdigit).count(),
            own => usize::from(rest.starts_with(own)),
        };
        rest = rest.get(length..).filter(|_| length > 0)?;
    }
    // What ends in a bracket ends there, whatever follows.
    let open = !pattern.ends_with(')');
    let joined = open && rest.starts_with(|c: char| c.is_alphanumeric() || c == ':');
    (!joined).then_some(text.len() - rest.len())
}

/// Columns at a distance of two spaces; what a line begins with is kept.
fn narrowed(line: &str) -> String {
    let words = line.trim_start_matches(' ');
    let indent = line.get(..line.len() - words.len()).unwrap_or_default();
    let columns = words.split("  ").map(str::trim).filter(|column| !column.is_empty());
    indent.to_owned() + &columns.collect::<Vec<_>>().join("  ")
}

/// Whether what came out is what a document says. A line of three dots in the document stands for
/// any number of lines.
pub fn agrees(document: &[String], came: &[String]) -> bool {
    match document.split_first() {
        None => came.is_empty(),
        Some((dots, rest)) if dots.trim() == "..." => {
            (0..=came.len()).any(|skipped| agrees(rest, came.get(skipped..).unwrap_or_default()))
        }
        Some((line, rest)) => came
            .split_first()
            .is_some_and(|(first, others)| masked(line) == masked(first) && agrees(rest, others)),
    }
}

/// The first line of an excerpt that is not to be found, in its order, in what came out.
pub fn absent<'a>(excerpt: &[&'a str], came: &str) -> Option<&'a str> {
    let mut lines = came.lines().map(masked);
    let mut worded = excerpt.iter().copied().filter(|line| !line.trim().is_empty());
    worded.find(|line| !lines.any(|one| one == masked(line)))
}

/// What is different, line by line, for people: `-` the document's, `+` what came out.
pub fn difference(document: &[String], came: &[String]) -> String {
    let mut text = String::new();
    let mut left = document.iter();
    for line in came {
        let mut ahead = left.clone();
        match ahead.position(|said| masked(said) == masked(line)) {
            Some(skipped) => {
                let gone = left.by_ref().take(skipped);
                text.extend(gone.map(|said| format!("  - {said}\n")));
                text.push_str(&format!("    {line}\n"));
                left = ahead;
            }
            None => text.push_str(&format!("  + {line}\n")),
        }
    }
    text.extend(left.map(|said| format!("  - {said}\n")));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_differ_is_masked_and_nothing_else() {
        for (line, seen) in [
            ("up 2001:db8:0:1:4ba1:4c8e:8dde:7151/128", "up 2001:db8:0:1:/128"),
            ("via 2001:db8:f1:1::2 dev node-1", "via 2001:db8:f1:1::2 dev node-1"),
            ("tor-a  Established  00:00:02    10", "tor-a  Established  CLOCK  10"),
            ("peer0  up     05:05:43.048  Established", "peer0  up  CLOCK  Established"),
            ("hold 30s, keepalive 10s", "hold 30s, keepalive 10s"),
            ("(5s ago, next attempt in 3s)", "(AGO, next attempt SOON)"),
            ("10.244.1.0/24 nhid 38 via 172.17.1.2", "10.244.1.0/24 NHID via 172.17.1.2"),
            ("router ID 85.196.51.131", "router ID 85.196.51.131"),
            ("Drain:      drained since 2026-11-17T05:05:54Z", "Drain:  drained since TIME"),
            ("ttl=61 time=0.056 ms", "ttl=61 time=MS"),
            ("flock1a2b3c4d@if4", "VETH@IFINDEX"),
            ("dropped meanwhile (4): has it", "dropped SEGMENTS: has it"),
            ("flock-agent, flocks", "flock-agent, flocks"),
            ("  \"uptimeSeconds\": 80,", "  JSON,"),
            ("  \"holdTimeSeconds\": 30,", "  \"holdTimeSeconds\": 30,"),
            ("    indented  x", "    indented  x"),
            ("✓ answers; 48 flows: 10 node-1, 8 node-2", "✓ answers; 48 flows: FLOWS, FLOWS"),
        ] {
            assert_eq!(masked(line), seen);
        }
    }

    #[test]
    fn three_dots_stand_for_any_lines() {
        let lines = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for (document, came, wanted) in [
            ("a b", "a b", true),
            ("a ... d", "a b c d", true),
            ("a ... d", "a d", true),
            ("a ... d", "a b c", false),
            ("a b", "a b c", false),
            ("a b c", "a b", false),
        ] {
            assert_eq!(agrees(&lines(document), &lines(came)), wanted, "{document}: {came}");
        }
        assert_eq!(absent(&["a", "", "c 5 ms"], "a\nb\nc 7 ms\n"), None);
        assert_eq!(absent(&["c", "a"], "a\nb\nc\n"), Some("a"));
        assert_eq!(difference(&lines("a b c"), &lines("a x c")), "    a\n  + x\n  - b\n    c\n");
    }
}
