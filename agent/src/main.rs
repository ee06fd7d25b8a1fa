//! `flock-agent`: parses the command line and turns an outcome into an exit code.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use flock_agent::cli::exit::{self, Ended};
use flock_agent::cli::{self, Cli, Command};
use flock_agent::{install, run};

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Run(args) => run::main(args).map(|()| Ended::Done),
        Command::Pods(show) => cli::pods::run(&show),
        Command::Check(show) => cli::check::run(&show),
        Command::Bgp(args) => cli::bgp::run(&args),
        Command::Drain(args) => cli::drain::run(&args),
        Command::Install(args) => install_once(&args),
        Command::Completions { shell } => {
            clap_complete::generate(
                shell,
                &mut Cli::command(),
                "flock-agent",
                &mut std::io::stdout(),
            );
            Ok(Ended::Done)
        }
    };
    if let Err(error) = &outcome {
        eprintln!("flock-agent: {error:#}");
    }
    ExitCode::from(exit::code(&outcome))
}

fn install_once(args: &cli::Install) -> anyhow::Result<Ended> {
    let mut written = install::plugins(&args.places)?;
    written.extend(install::conflist(&args.places, &args.socket, &args.spool)?);
    if written.is_empty() {
        cli::output::print("Everything is installed already.\n")?;
    }
    for path in written {
        cli::output::print(&format!("installed {}\n", path.display()))?;
    }
    Ok(Ended::Done)
}
