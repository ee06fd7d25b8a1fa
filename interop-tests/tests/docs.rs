//! What the documents say of the sources is true, as far as it can be seen without running anything:
//! links lead somewhere, files and targets exist, and the runbook has every word that an operator can
//! be shown. `docs_run.rs` runs their commands; `agent/tests/docs/` parses what the agent reads.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rack::binaries::run;
use rack::docs::markdown::{anchors, fences, links, prose, quoted};
use rack::docs::session::steps;
use rack::docs::{documents, root};

/// What a reader types at home and no test runs, by how it begins; `make` is checked by its targets.
const AT_HOME: &[&str] = &[
    "make ",
    "cargo build --release",
    "cargo run --release -p ",
    "sudo install ",
    "kubectl ",
    "helm install ",
    "buildah push ",
    "ctr -n k8s.io images import ",
];

/// What fences hold. Only what is in this list is checked or known to need no check.
const LANGUAGES: &[&str] = &["console", "yaml", "json", "text"];

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn nothing_wrong(wrong: &[String]) {
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Where a link of a document leads, from the root.
fn target(document: &Path, link: &str) -> PathBuf {
    let mut path = document.parent().unwrap().to_owned();
    for part in link.split('/') {
        match part {
            "." | "" => {}
            ".." => assert!(path.pop(), "{link} leaves the repository"),
            part => path.push(part),
        }
    }
    path
}

#[test]
fn every_link_leads_somewhere() {
    let documents: BTreeMap<_, _> = documents().unwrap().into_iter().collect();
    let mut wrong = Vec::new();
    let mut reached = BTreeSet::new();
    for (path, text) in &documents {
        // A link may be broken into two lines.
        let lines: Vec<_> = prose(text).map(|(_, line)| line).collect();
        for link in links(&lines.join(" ")) {
            if link.contains("://") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link.as_str(), ""));
            let leads = if file.is_empty() { path.clone() } else { target(path, file) };
            if !root().join(&leads).exists() {
                wrong.push(format!("{}: {link}: there is no such file", path.display()));
            }
            let is_there = |text: &String| anchor.is_empty() || anchors(text).contains(anchor);
            if !documents.get(&leads).is_none_or(is_there) {
                wrong.push(format!("{}: {link}: there is no such heading", path.display()));
            }
            reached.insert(leads);
        }
    }
    for path in documents.keys().filter(|path| path.starts_with("docs")) {
        if !reached.contains(path) {
            wrong.push(format!("{}: no document links to it", path.display()));
        }
    }
    nothing_wrong(&wrong);
}

#[test]
fn every_file_that_is_named_is_there() {
    let folders = ["agent/", "bgp/", "cni/", "dataplane/", "deploy/", "docs/", "interop-tests/"];
    let mut wrong = Vec::new();
    for (path, text) in documents().unwrap() {
        for (number, line) in prose(&text) {
            // Also in the middle of a command.
            let words = quoted(line).flat_map(|code| code.split(' '));
            for word in words.filter(|word| folders.iter().any(|top| word.starts_with(top))) {
                let plain = !word.contains([' ', '*', '{', '<', ':']);
                if plain && !root().join(word).exists() {
                    wrong.push(format!("{}:{}: there is no {word}", path.display(), number + 1));
                }
            }
        }
    }
    nothing_wrong(&wrong);
}

#[test]
fn every_target_of_make_is_there() {
    let makefile = read("Makefile");
    let targets: BTreeSet<&str> =
        makefile.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name).collect();
    let mut wrong = Vec::new();
    for (path, text) in documents().unwrap() {
        let inline = prose(&text).flat_map(|(_, line)| quoted(line));
        let fenced = fences(&text).into_iter().flat_map(|fence| fence.lines);
        let fenced = fenced.map(|line| line.trim_start_matches("$ "));
        for command in inline.chain(fenced).filter(|code| code.starts_with("make ")) {
            let target = command.split_whitespace().nth(1).unwrap();
            if !targets.contains(target) {
                wrong.push(format!("{}: {command}: there is no such target", path.display()));
            }
        }
    }
    nothing_wrong(&wrong);
}

#[test]
fn every_fence_is_of_a_kind_that_is_checked() {
    let mut wrong = Vec::new();
    for (path, text) in documents().unwrap() {
        // The essays for those who work on it have drawings and sketches.
        let essay = ["ARCHITECTURE.md", "CONTRIBUTING.md"].contains(&path.to_str().unwrap());
        for fence in fences(&text).iter().filter(|_| !essay) {
            let place = format!("{}:{}", path.display(), fence.start);
            if !LANGUAGES.contains(&fence.language()) {
                wrong.push(format!("{place}: {:?} is none of {LANGUAGES:?}", fence.info));
            }
            if fence.language() == "json"
                && let Err(error) = serde_json::from_str::<serde_json::Value>(&fence.text())
            {
                wrong.push(format!("{place}: {error}"));
            }
        }
        if text.lines().any(|line| line.trim_start().starts_with("```") && line.starts_with(' ')) {
            wrong.push(format!("{}: a fence that is indented is not seen", path.display()));
        }
        for step in steps(&text).unwrap().iter().filter(|step| step.place.is_none()) {
            if !AT_HOME.iter().any(|known| step.command.starts_with(known)) {
                let (line, command) = (step.line + 1, &step.command);
                wrong.push(format!("{}:{line}: nobody runs {command:?}", path.display()));
            }
        }
    }
    nothing_wrong(&wrong);
}

/// The texts in a part of a source, without what is filled in: pieces that stand in them for good.
fn words(path: &str, from: &str) -> Vec<String> {
    let source = read(path);
    let (before, rest) =
        source.split_once(from).unwrap_or_else(|| panic!("{path} has no {from:?}"));
    // To the end of the item, which is where its own indentation ends.
    let indent = before.rsplit('\n').next().unwrap().len();
    let end = format!("\n{}}}\n", " ".repeat(indent));
    let (part, _) = rest.split_once(&end).unwrap_or_else(|| panic!("{path}: {from:?} has no end"));
    // A text that goes on in the next line begins there where its first word is.
    let joined = part.split("\\\n").map(str::trim_start).collect::<Vec<_>>().concat();
    let texts = joined.lines().filter(|line| !line.trim_start().starts_with("//"));
    let texts = texts.flat_map(|line| line.split('"').skip(1).step_by(2).map(str::to_owned));
    let pieces = texts.flat_map(|text| {
        let parts = text.split(['{', '}']).step_by(2).map(str::to_owned);
        parts.collect::<Vec<_>>()
    });
    pieces.map(|piece| piece.trim_matches([' ', ':', ';']).to_owned()).collect()
}

/// Where the words come from that `bgp show` has below its table and behind a route.
const SHOWN: &[(&str, &str)] = &[
    ("bgp/core/src/event.rs", "impl fmt::Display for DownReason"),
    ("bgp/core/src/speaker/drive.rs", "fn reason("),
    ("bgp/core/src/speaker/wishes.rs", "fn changed("),
    ("bgp/core/src/speaker/status.rs", "fn not_announced("),
    ("bgp/core/src/policy/mod.rs", "impl fmt::Display for Withheld"),
    ("bgp/core/src/policy/export.rs", "impl fmt::Display for Missing"),
    ("bgp/io/src/dial.rs", "pub(crate) enum DialError"),
    ("bgp/io/src/counters.rs", "pub(crate) fn suspicion("),
    ("agent/src/bgp/password.rs", "pub(super) fn read("),
    ("agent/src/bgp/password.rs", "fn bounded("),
    ("agent/src/bgp/peers.rs", "pub(super) fn plan("),
    ("agent/src/bgp/peers.rs", "fn wished("),
];

#[test]
fn the_runbook_has_every_word_that_a_peer_can_show() {
    let runbook = read("docs/operations.md").split_whitespace().collect::<Vec<_>>().join(" ");
    let mut wrong = Vec::new();
    let mut count = 0;
    for (path, from) in SHOWN {
        // Single words are everywhere, and those that only join others say nothing.
        for piece in words(path, from).iter().filter(|piece| piece.contains(' ')) {
            count += 1;
            if !runbook.contains(piece.as_str()) {
                wrong.push(format!("{path}, {from}: {piece:?} is not in docs/operations.md"));
            }
        }
    }
    assert!(count > 30, "only {count} texts were found");
    nothing_wrong(&wrong);
}

#[test]
fn the_runbook_has_every_notification() {
    let runbook = read("docs/operations.md");
    let source = read("bgp/wire/src/notification/words.rs");
    let mut names = BTreeMap::new();
    let mut wrong = Vec::new();
    for line in source.lines().map(str::trim) {
        let Some((code, name)) = line.split_once(" => \"") else { continue };
        let name = name.trim_end_matches("\",");
        let shown = match code.trim_matches(['(', ')']).split_once(", ") {
            None => {
                names.insert(code.to_owned(), name);
                format!("{name} ({code}/0)")
            }
            Some((code, sub)) => format!("`{}: {name} ({code}/{sub})`", names[code]),
        };
        if !runbook.contains(&shown) {
            wrong.push(format!("{shown} is not in docs/operations.md"));
        }
    }
    assert!(names.len() >= 8, "{names:?}");
    nothing_wrong(&wrong);
}

#[test]
fn the_runbook_has_every_alert_and_no_other() {
    let page = read("docs/operations.md");
    let rules = read("deploy/alerts.yaml");
    let named = |key: &str| {
        let lines = rules.lines().filter_map(|line| line.trim().strip_prefix(key));
        lines.map(str::to_owned).collect::<BTreeSet<String>>()
    };
    let sections = page.lines().filter_map(|line| line.strip_prefix("### Flock"));
    let sections: BTreeSet<String> = sections.map(|rest| format!("Flock{rest}")).collect();
    assert!(sections.len() > 25, "{sections:?}");
    assert_eq!(named("- alert: "), sections);
    let anchors = anchors(&page);
    for url in named("runbook_url: ") {
        let anchor = url.strip_prefix("docs/operations.md#").unwrap_or_else(|| panic!("{url}"));
        assert!(anchors.contains(anchor), "{url} leads nowhere");
    }
    for name in sections {
        let (_, rest) = page.split_once(&format!("\n### {name}\n")).unwrap();
        let section = rest.split("\n#").next().unwrap();
        for part in ["**Meaning:**", "**Look:**", "**Do:**"] {
            assert!(section.contains(part), "{name} has no {part}");
        }
    }
}

#[test]
fn prometheus_accepts_the_scrape_configuration() {
    let beside = tempfile::tempdir().unwrap();
    fs::copy(root().join("deploy/alerts.yaml"), beside.path().join("alerts.yaml")).unwrap();
    let mut count = 0;
    for (path, text) in documents().unwrap() {
        for fence in fences(&text).iter().filter(|fence| fence.info == "yaml prometheus") {
            count += 1;
            let file = beside.path().join("prometheus.yml");
            fs::write(&file, fence.text()).unwrap();
            let mut check = Command::new("promtool");
            let said = run(check.args(["check", "config"]).arg(file));
            said.unwrap_or_else(|error| panic!("{}: {error:#}", path.display()));
        }
    }
    assert!(count > 0, "no document has one");
}

#[test]
fn every_claim_about_a_standard_has_its_code_and_its_test() {
    let text = read("docs/rfc.md");
    let mut wrong = Vec::new();
    let mut tests = 0;
    for row in text.lines().filter(|line| line.starts_with('|') && line.contains('`')) {
        let columns: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        let [.., places, shown] = columns.as_slice() else { panic!("{row}") };
        for place in quoted(places).filter(|word| word.contains('/')) {
            if !root().join(place).exists() {
                wrong.push(format!("there is no {place}: {row}"));
            }
        }
        let mut source = String::new();
        for word in quoted(shown) {
            if word.contains('/') {
                source = fs::read_to_string(root().join(word)).unwrap_or_default();
                if source.is_empty() {
                    wrong.push(format!("there is no {word}: {row}"));
                }
            } else {
                tests += 1;
                let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
                if !source.split(|c| !is_part(c)).any(|part| part == word) {
                    wrong.push(format!("no test {word} where it should be: {row}"));
                }
            }
        }
    }
    assert!(tests > 60, "only {tests} tests are named");
    nothing_wrong(&wrong);
}
