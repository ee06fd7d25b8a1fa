//! `flock-agent`: parses the command line and turns an outcome into an exit code.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use flock_agent::cli::drain::Ended;
use flock_agent::cli::{self, Cli, Command};
use flock_agent::{install, run};

/// The agent cannot be asked, as opposed to: it was asked and found something wrong.
const CANNOT_ASK: u8 = 2;
/// As shells have it for a command that SIGINT ended.
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Run(args) => run::main(args).map(|()| ExitCode::SUCCESS),
        Command::Pods(show) => cli::pods::run(&show).map(|()| ExitCode::SUCCESS),
        Command::Check(show) => match cli::check::run(&show) {
            Ok(true) => Ok(ExitCode::SUCCESS),
            Ok(false) => Ok(ExitCode::FAILURE),
            Err(error) => {
                eprintln!("flock-agent: {error:#}");
                return ExitCode::from(CANNOT_ASK);
            }
        },
        Command::Bgp(args) => cli::bgp::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Drain(args) => cli::drain::run(&args).map(|ended| match ended {
            Ended::Done => ExitCode::SUCCESS,
            Ended::Interrupted => ExitCode::from(INTERRUPTED),
        }),
        Command::LogLevel(args) => cli::log_level::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Install(args) => install_once(&args),
        Command::Completions { shell } => {
            clap_complete::generate(
                shell,
                &mut Cli::command(),
                "flock-agent",
                &mut std::io::stdout(),
            );
            Ok(ExitCode::SUCCESS)
        }
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("flock-agent: {error:#}");
        ExitCode::FAILURE
    })
}

fn install_once(args: &cli::Install) -> anyhow::Result<ExitCode> {
    let mut written = install::plugins(&args.places)?;
    written.extend(install::conflist(&args.places, &args.socket, &args.spool)?);
    if written.is_empty() {
        cli::output::print("Everything is installed already.\n")?;
    }
    for path in written {
        cli::output::print(&format!("installed {}\n", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}
