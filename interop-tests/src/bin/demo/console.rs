//! How the routers are asked by hand. Where a router's socket is, its own command
//! line tells: what is printed here can be pasted.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};
use rack::binaries::{run, tool};
use rack::router::{Brand, Router};

/// The command that talks to a router, without what to say.
pub(crate) fn command(router: &Router) -> Result<Vec<String>> {
    let (program, option) = match router.brand() {
        Brand::Bird => ("birdc", "-s"),
        Brand::Frr => ("vtysh", "--vty_socket"),
        other => bail!("{} is not in this company", other.name()),
    };
    let line = fs::read_to_string(format!("/proc/{}/cmdline", router.pid()?))?;
    let mut words = line.split('\0').skip_while(|word| *word != option);
    let socket = words.nth(1).with_context(|| format!("no {option} in {line:?}"))?;
    Ok(vec![program.to_owned(), option.to_owned(), socket.to_owned()])
}

/// Asks a router, and returns what it says.
pub(crate) fn ask(router: &Router, question: &str) -> Result<String> {
    let words = command(router)?;
    let (program, options) = words.split_first().context("an empty command")?;
    let mut console = Command::new(tool(program)?);
    console.args(options);
    match router.brand() {
        Brand::Frr => console.args(["-c", question]),
        _ => console.args(question.split(' ')),
    };
    // BIRD greets first.
    let said = run(&mut console)?;
    let greeting = |line: &&str| line.starts_with("BIRD ") && line.ends_with(" ready.");
    let lines = said.lines().filter(|line| !greeting(line));
    Ok(lines.skip_while(|line| line.is_empty()).fold(String::new(), |all, line| all + line + "\n"))
}

/// How to ask it at its own place.
pub(crate) fn hint(router: &Router) -> &'static str {
    match router.brand() {
        Brand::Frr => "vtysh -c 'show bgp summary'",
        _ => "birdc show protocols",
    }
}

/// What a router calls itself.
pub(crate) fn version(router: &Router) -> Result<String> {
    let question = match router.brand() {
        Brand::Frr => "show version",
        _ => "show status",
    };
    let said = ask(router, question)?;
    let line = said.lines().next().context("it says nothing")?;
    let end = line.find(" (").unwrap_or(line.len());
    Ok(line.get(..end).unwrap_or(line).to_owned())
}
