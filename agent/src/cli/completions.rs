//! `flock-agent completions`: scripts that make a shell complete this command line.

use clap::CommandFactory;
use clap_complete::Shell;

use super::exit::Ended;
use super::{Cli, output};

/// Below the flags.
pub(super) const HELP: &str = "\
Examples:
  flock-agent completions bash > /etc/bash_completion.d/flock-agent
  flock-agent completions zsh > /usr/share/zsh/site-functions/_flock-agent
  flock-agent completions fish > /etc/fish/completions/flock-agent.fish
  source <(flock-agent completions bash)";

/// Prints a script.
pub fn run(shell: Shell) -> anyhow::Result<Ended> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "flock-agent", &mut script);
    let script = String::from_utf8(script)?;
    // clap_complete calls a program with a hyphen by two names in its script for bash, and then does
    // not find its commands.
    output::print(&script.replace("flock__subcmd__agent", "flock__agent"))?;
    Ok(Ended::Done)
}
