//! Command lines and flags.

use std::collections::{BTreeMap, BTreeSet};

use clap::{CommandFactory, Parser};
use flock_agent::cli::Cli;

use super::markdown::{fences, prose, quoted};
use super::{documents, nothing_wrong, read, rows};

/// What stands for a word in capitals, so that a synopsis is a command.
fn example(word: &str) -> String {
    let known = [
        ("ADDR:PORT", "127.0.0.1:9179"),
        ("BIN_DIR:CONF_DIR", "/opt/cni/bin:/etc/cni/net.d"),
        ("PREFIX", "2001:db8::/64"),
        ("ADDRESS", "2001:db8::1"),
        ("DIR", "/etc/flock"),
        ("NAME", "tor-a"),
        ("PEER", "tor-a"),
        ("TIME", "30s"),
        ("SHELL", "bash"),
        ("LEVEL", "info"),
    ];
    let found = known.iter().find(|(name, _)| *name == word);
    found.map_or(word, |(_, value)| value).to_owned()
}

/// All commands that a synopsis stands for: `[a|b]` is a, b, or neither.
fn meant(synopsis: &str) -> Vec<Vec<String>> {
    let mut all = vec![Vec::new()];
    let mut rest = synopsis.trim();
    while !rest.is_empty() {
        let optional = rest.starts_with('[');
        let end = if optional { rest.find(']').map(|at| at + 1) } else { rest.find(' ') };
        let (part, left) = rest.split_at(end.unwrap_or(rest.len()));
        rest = left.trim_start();
        let part = part.trim_matches(['[', ']']);
        let mut longer: Vec<Vec<String>> = if optional { all.clone() } else { Vec::new() };
        for choice in part.split('|') {
            for before in &all {
                let words = choice.split(' ').map(example);
                longer.push(before.iter().cloned().chain(words).collect());
            }
        }
        all = longer;
    }
    all
}

/// What a shell takes of a line for one command; what is quoted is one word, whatever it says.
fn typed(line: &str) -> String {
    let ends = [" | ", " > ", " 2>", " # ", "; ", " &", " ||", " <"];
    let end = ends.iter().filter_map(|end| line.find(end)).min();
    let command = line.get(..end.unwrap_or(line.len())).unwrap();
    let parts = command.split('\'').enumerate();
    parts.map(|(at, part)| if at % 2 == 1 { "words" } else { part }).collect()
}

#[test]
fn every_command_line_parses() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for (path, text) in documents() {
        let inline = prose(&text).flat_map(|(_, line)| quoted(line)).map(str::to_owned);
        let fenced = fences(&text).into_iter().filter(|fence| fence.language() == "console");
        // A line that is continued is one.
        let fenced = fenced.map(|fence| fence.text().replace("\\\n", ""));
        let fenced = fenced.flat_map(|text| {
            let lines = text.lines().filter_map(|line| line.split_once("$ "));
            lines.map(|(_, command)| command.to_owned()).collect::<Vec<_>>()
        });
        for code in inline.chain(fenced).filter(|code| code.starts_with("flock-agent ")) {
            let command = typed(&code);
            // In running text the rest of a list of commands, and placeholders.
            if command.contains("...") {
                continue;
            }
            for words in meant(&command) {
                count += 1;
                if let Err(error) = Cli::try_parse_from(&words) {
                    let first = error.to_string();
                    let first = first.lines().next().unwrap_or_default().to_owned();
                    if !error.use_stderr() {
                        continue;
                    }
                    wrong.push(format!("{path}: {}: {first}", words.join(" ")));
                }
            }
        }
    }
    assert!(count > 40, "only {count} commands were found");
    nothing_wrong(&wrong);
}

#[test]
fn a_synopsis_is_all_that_it_stands_for() {
    let seen: Vec<_> = meant("x [--a|--b N] PREFIX").iter().map(|all| all.join(" ")).collect();
    let wanted = ["x 2001:db8::/64", "x --a 2001:db8::/64", "x --b N 2001:db8::/64"];
    assert_eq!(seen, wanted);
    assert_eq!(typed("flock-agent run --x &"), "flock-agent run --x");
    assert_eq!(typed("a --message 'in two words' | tail -1"), "a --message words");
}

#[test]
fn every_flag_of_run_is_in_the_table() {
    let page = read("docs/operations.md");
    let told: BTreeMap<_, _> = rows(&page, "## Flags").into_iter().collect();
    let mut command = Cli::command();
    let run = command.find_subcommand_mut("run").unwrap();
    let mut flags = BTreeSet::new();
    for flag in run.get_arguments().filter(|flag| !flag.is_global_set()) {
        let Some(long) = flag.get_long().filter(|long| *long != "help") else { continue };
        let name = format!("--{long}");
        let row = told.get(name.as_str()).unwrap_or_else(|| panic!("{name} is missing"));
        let variable = flag.get_env().unwrap().to_str().unwrap();
        assert_eq!(row[0], format!("`{variable}`"), "{name}");
        let default = flag.get_default_values().first().and_then(|value| value.to_str());
        if let Some(default) = default {
            assert_eq!(row[1], format!("`{default}`"), "{name}");
        }
        flags.insert(name);
    }
    let strange: Vec<_> = told.keys().filter(|name| !flags.contains(**name)).collect();
    assert!(strange.is_empty(), "there are no such flags: {strange:?}");
}
