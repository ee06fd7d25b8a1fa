//! The `CNI_*` environment variables.
//!
//! Decides which operations there are and which variables each of them needs
//! (CNI spec 1.1.0, "CNI operations"). Leaves the values' own rules to
//! [`flock_cni::names`].

use std::env;

use flock_cni::CniError;
use flock_cni::error::INVALID_ENVIRONMENT;
use flock_cni::words;

/// What a runtime asks for, `CNI_COMMAND`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Add,
    Del,
    Check,
    Gc,
    Status,
    Version,
}

/// The variables, empty where they are not set.
#[derive(Debug, Default)]
pub(crate) struct Environment {
    pub(crate) container_id: String,
    pub(crate) netns: String,
    pub(crate) ifname: String,
    pub(crate) args: String,
    pub(crate) path: String,
}

impl Verb {
    const ALL: [Self; 6] =
        [Self::Add, Self::Del, Self::Check, Self::Gc, Self::Status, Self::Version];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Add => words::ADD,
            Self::Del => words::DEL,
            Self::Check => words::CHECK,
            Self::Gc => words::GC,
            Self::Status => words::STATUS,
            Self::Version => "VERSION",
        }
    }

    /// GC and STATUS are about the node.
    pub(crate) fn is_about_a_container(self) -> bool {
        matches!(self, Self::Add | Self::Del | Self::Check)
    }
}

impl Environment {
    /// Reads them all and tells the operation.
    pub(crate) fn read() -> Result<(Verb, Self), CniError> {
        let command = variable("CNI_COMMAND")?;
        if command.is_empty() {
            return Err(missing("CNI_COMMAND", "every operation"));
        }
        let Some(verb) = Verb::ALL.into_iter().find(|verb| verb.as_str() == command) else {
            let known = Verb::ALL.map(Verb::as_str).join(", ");
            let msg = format!("CNI_COMMAND {command:?} is not an operation");
            return Err(CniError::new(INVALID_ENVIRONMENT, msg)
                .with_details(format!("it is one of {known}")));
        };
        if verb == Verb::Version {
            return Ok((verb, Self::default()));
        }
        let environment = Self {
            container_id: variable("CNI_CONTAINERID")?,
            netns: variable("CNI_NETNS")?,
            ifname: variable("CNI_IFNAME")?,
            args: variable("CNI_ARGS")?,
            path: variable("CNI_PATH")?,
        };
        Ok((verb, environment))
    }

    /// All that is missing is named at once.
    pub(crate) fn check_required(&self, verb: Verb) -> Result<(), CniError> {
        let container = verb.is_about_a_container();
        // After a reboot the namespace is gone, and DEL must work all the same.
        let netns = matches!(verb, Verb::Add | Verb::Check);
        let missing_ones: Vec<&str> = [
            ("CNI_CONTAINERID", &self.container_id, container),
            ("CNI_NETNS", &self.netns, netns),
            ("CNI_IFNAME", &self.ifname, container),
            ("CNI_PATH", &self.path, verb == Verb::Gc),
        ]
        .into_iter()
        .filter(|(_, value, required)| *required && value.is_empty())
        .map(|(name, ..)| name)
        .collect();
        if missing_ones.is_empty() {
            return Ok(());
        }
        Err(missing(&missing_ones.join(", "), verb.as_str()))
    }
}

fn variable(name: &str) -> Result<String, CniError> {
    match env::var_os(name).unwrap_or_default().into_string() {
        Ok(value) => Ok(value),
        Err(_) => Err(CniError::new(INVALID_ENVIRONMENT, format!("{name} is not UTF-8"))),
    }
}

fn missing(names: &str, verb: &str) -> CniError {
    CniError::new(INVALID_ENVIRONMENT, format!("{names}: required for {verb}, and not set"))
        .with_details("flock is a CNI plugin: a container runtime executes it")
}
