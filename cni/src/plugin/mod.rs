//! One execution of the plugin, from the environment to the exit status.
//!
//! Decides the order of the checks (as libcni's own plugins have it: variables,
//! config, names, version), under which name the binary does what, and that an
//! error is always JSON on standard output with exit status 1. Leaves the work
//! to [`calls`] (flock) and [`loopback`] (the plugin of that name).

mod about;
mod calls;
mod environment;
mod loopback;
mod rtnetlink;

use std::env;
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

use flock_cni::error::{INCOMPATIBLE_VERSION, INVALID_CONFIG, IO_FAILURE};
use flock_cni::netconf;
use flock_cni::words::MAX_MESSAGE;
use flock_cni::{CniError, CniVersion, NetConf, names};
use serde_json::Value;

use environment::{Environment, Verb};

/// For an answer that cannot be written as JSON, which no answer is.
const LAST_WORDS: &str = r#"{"cniVersion":"1.0.0","code":100,"msg":"answer not encodable"}"#;

/// What this process is, by the name that it was executed under.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Flock,
    Loopback,
}

/// A checked call.
struct Call {
    verb: Verb,
    environment: Environment,
    conf: NetConf,
    stdin: Vec<u8>,
}

/// An error and the version to write it in.
struct Failure {
    error: CniError,
    cni_version: String,
}

impl From<CniError> for Failure {
    fn from(error: CniError) -> Self {
        Self { error, cni_version: CniVersion::FALLBACK.as_str().to_owned() }
    }
}

pub(crate) fn run() -> ExitCode {
    let mut arguments = env::args_os();
    let role = match arguments.next() {
        Some(name) if Path::new(&name).file_name().is_some_and(|n| n == "loopback") => {
            Role::Loopback
        }
        _ => Role::Flock,
    };
    if let Some(text) = about::asked_for(role, arguments.next().as_deref(), is_somebody_there()) {
        return print(text.into_bytes(), ExitCode::SUCCESS);
    }
    let (value, status) = match answer(role) {
        Ok(None) => return ExitCode::SUCCESS,
        Ok(Some(value)) => (value, ExitCode::SUCCESS),
        Err(Failure { error, cni_version }) => (error.to_value(&cni_version), ExitCode::FAILURE),
    };
    // Not `to_string`: it would bring a second writer of JSON into the binary.
    match serde_json::to_vec(&value) {
        Ok(json) => print(json, status),
        Err(_) => print(LAST_WORDS.into(), ExitCode::FAILURE),
    }
}

/// A person, not a runtime: no command in the environment, a terminal around.
fn is_somebody_there() -> bool {
    env::var_os("CNI_COMMAND").is_none_or(|command| command.is_empty())
        && io::stdin().is_terminal()
        && io::stdout().is_terminal()
}

fn answer(role: Role) -> Result<Option<Value>, Failure> {
    let (verb, environment) = Environment::read()?;
    if verb == Verb::Version {
        return Ok(Some(about::versions()));
    }
    environment.check_required(verb)?;
    let stdin = read_stdin()?;
    carry_out(role, verb, environment, &stdin).map_err(|error| {
        let stated = netconf::stated_version(&stdin);
        let cni_version = stated.unwrap_or_else(|| CniVersion::FALLBACK.as_str().to_owned());
        Failure { error, cni_version }
    })
}

fn carry_out(
    role: Role,
    verb: Verb,
    environment: Environment,
    stdin: &[u8],
) -> Result<Option<Value>, CniError> {
    let conf = NetConf::parse(stdin)?;
    if verb.is_about_a_container() {
        names::check_container_id(&environment.container_id)?;
        names::check_ifname(&environment.ifname)?;
    }
    check_version_allows(verb, conf.cni_version)?;
    let call = Call { verb, environment, conf, stdin: stdin.to_vec() };
    match role {
        Role::Flock => calls::carry_out(call),
        Role::Loopback => loopback::carry_out(&call),
    }
}

/// CNI spec: a runtime must not make a call that the config's version lacks.
fn check_version_allows(verb: Verb, version: CniVersion) -> Result<(), CniError> {
    let (allowed, since) = match verb {
        Verb::Check => (version.has_check(), CniVersion::V0_4_0),
        Verb::Gc | Verb::Status => (version.has_gc_and_status(), CniVersion::V1_1_0),
        Verb::Add | Verb::Del | Verb::Version => return Ok(()),
    };
    if allowed {
        return Ok(());
    }
    let msg = format!("cniVersion {version} of the config does not allow {}", verb.as_str());
    Err(CniError::new(INCOMPATIBLE_VERSION, msg)
        .with_details(format!("{} exists since {since}", verb.as_str())))
}

fn read_stdin() -> Result<Vec<u8>, CniError> {
    let mut bytes = Vec::new();
    let limit = MAX_MESSAGE as u64;
    io::stdin()
        .lock()
        .take(limit + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| CniError::new(IO_FAILURE, format!("standard input: {error}")))?;
    if bytes.len() > MAX_MESSAGE {
        let msg = format!("the network config on standard input exceeds {MAX_MESSAGE} bytes");
        return Err(CniError::new(INVALID_CONFIG, msg));
    }
    Ok(bytes)
}

/// A result that nobody could read is a failure, whatever was done.
fn print(mut text: Vec<u8>, status: ExitCode) -> ExitCode {
    text.push(b'\n');
    let mut out = io::stdout().lock();
    match out.write_all(&text).and_then(|()| out.flush()) {
        Ok(()) => status,
        Err(_) => ExitCode::FAILURE,
    }
}
