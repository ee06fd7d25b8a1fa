//! `flock-agent`: parses the command line and turns an outcome into an exit code.
#![forbid(unsafe_code)]

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;
use flock_agent::cli::exit::{self, Ended};
use flock_agent::cli::{self, Cli, Command};
use flock_agent::{capabilities, install, run};

fn main() -> ExitCode {
    let outcome = match parsed().command {
        Command::Run(args) => run_daemon(args),
        Command::Pods(show) => cli::pods::run(&show),
        Command::Check(show) => cli::check::run(&show),
        Command::Bgp(args) => cli::bgp::run(&args),
        Command::Policy(args) => cli::policy::run(&args),
        Command::Drain(args) => cli::drain::run(&args),
        Command::LogLevel(args) => cli::log_level::run(&args),
        Command::Install(args) => install_once(&args),
        Command::Crd { output } => cli::crd::run(output),
        Command::Schema { name } => cli::schema::run(name.as_deref()),
        Command::Completions { shell } => cli::completions::run(shell),
    };
    if let Err(error) = &outcome {
        cli::output::complain(&format!("flock-agent: {error:#}\n"));
    }
    ExitCode::from(exit::code(&outcome))
}

/// What was asked for; help is printed, and what cannot be understood complained of, here.
fn parsed() -> Cli {
    Cli::try_parse().unwrap_or_else(|error| {
        if error.use_stderr() {
            let words = error.render();
            let colour = std::io::stderr().is_terminal()
                && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
            let text = if colour { words.ansi().to_string() } else { words.to_string() };
            cli::output::complain(&text);
            #[allow(clippy::exit, reason = "nothing has begun yet")]
            std::process::exit(error.exit_code());
        }
        error.exit()
    })
}

fn run_daemon(args: cli::Run) -> anyhow::Result<Ended> {
    capabilities::check()?;
    run::main(args)?;
    Ok(Ended::Done)
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
