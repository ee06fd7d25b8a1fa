//! What the container runtime reads and executes: its network configuration and the plugins that it
//! names. Deciding is pure; `look` reads both directories.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::name::{CONFLIST, PLUGIN};
use crate::cli::check::Finding;
use crate::install::{self, Places};

/// No configuration is larger; a bigger file is not read.
const MOST: u64 = 1 << 20;
const LOOPBACK: &str = "loopback";
const PORTMAP: &str = "portmap";

/// What was found.
pub(super) struct Facts {
    pub(super) conf_dir: PathBuf,
    pub(super) bin_dir: PathBuf,
    /// The configurations that a runtime would see, by name.
    pub(super) names: BTreeSet<String>,
    /// Ours, where it is there and can be read.
    pub(super) ours: Option<Result<Value, String>>,
    /// The plugins, and whether they can be executed.
    pub(super) plugins: BTreeMap<String, bool>,
    /// Whether the installed plugin is the one beside the agent; `None`: there is none beside it.
    pub(super) same: Option<bool>,
}

/// What the runtime should be told.
pub(super) struct Wanted<'a> {
    pub(super) socket: &'a Path,
    pub(super) spool: &'a Path,
}

/// Reads both directories.
pub(super) fn look(places: &Places) -> Facts {
    let names = |dir: &Path| {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned())
    };
    let config = |name: &String| [".conf", ".conflist", ".json"].iter().any(|e| name.ends_with(e));
    let executable = |name: String| {
        let meta = places.bin_dir.join(&name).metadata();
        let yes = meta.is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
        (name, yes)
    };
    Facts {
        conf_dir: places.conf_dir.clone(),
        bin_dir: places.bin_dir.clone(),
        names: names(&places.conf_dir).filter(config).collect(),
        ours: read(&places.conf_dir.join(install::CONFLIST)),
        plugins: names(&places.bin_dir).map(executable).collect(),
        same: install::is_current(places),
    }
}

fn read(path: &Path) -> Option<Result<Value, String>> {
    let meta = path.metadata().ok()?;
    if !meta.is_file() || meta.len() > MOST {
        return Some(Err("not a file of that kind".into()));
    }
    let text = fs::read(path).map_err(|error| error.to_string());
    Some(text.and_then(|text| serde_json::from_slice(&text).map_err(|error| error.to_string())))
}

/// All that is to be said about it.
pub(super) fn judge(facts: &Facts, wanted: &Wanted<'_>) -> Vec<Finding> {
    let mut findings = vec![order(facts)];
    match &facts.ours {
        None => {}
        Some(Err(error)) => findings.push(Finding::fail(
            CONFLIST,
            format!("{} cannot be read: {error}", shown(facts)),
            write_anew(facts),
        )),
        Some(Ok(list)) => findings.extend(content(facts, list, wanted)),
    }
    findings.extend(plugin(facts));
    findings
}

/// A runtime takes the first configuration by name.
fn order(facts: &Facts) -> Finding {
    let first = facts.names.first();
    if !facts.names.contains(install::CONFLIST) {
        return Finding::warn(
            CONFLIST,
            format!("{} is not there", shown(facts)),
            "the agent writes it once it serves: see NodeConfig and serving above. Where it served \
             already, somebody removed it: restart the agent",
        );
    }
    match first.filter(|first| *first != install::CONFLIST) {
        None => Finding::ok(CONFLIST, format!("{} is the first", shown(facts))),
        Some(first) => {
            let path = facts.conf_dir.join(first);
            let path = path.display();
            Finding::fail(
                CONFLIST,
                format!("{path} comes before {}: new pods get that network", install::CONFLIST),
                format!("remove {path}, or rename it so that it sorts behind"),
            )
        }
    }
}

fn content(facts: &Facts, list: &Value, wanted: &Wanted<'_>) -> Vec<Finding> {
    let plugins = list.get("plugins").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let kind = |plugin: &Value| plugin.get("type").and_then(Value::as_str).map(str::to_owned);
    let kinds: Vec<String> = plugins.iter().filter_map(kind).collect();
    let mut findings = Vec::new();
    let mut wrong = |message: String| {
        findings.push(Finding::fail(CONFLIST, message, write_anew(facts)));
    };
    if kinds.first().map(String::as_str) != Some(install::PLUGIN) {
        wrong(format!("{} does not begin with the plugin {}", shown(facts), install::PLUGIN));
    } else if let Some(ours) = plugins.first() {
        for (key, path) in [("socket", wanted.socket), ("spool", wanted.spool)] {
            let named = ours.get(key).and_then(Value::as_str).unwrap_or_default();
            if Path::new(named) != path {
                wrong(format!(
                    "{} names the {key} {named:?}, and this agent has {}",
                    shown(facts),
                    path.display()
                ));
            }
        }
    }
    for missing in kinds.iter().filter(|kind| !facts.plugins.contains_key(*kind)) {
        findings.push(Finding::fail(
            CONFLIST,
            format!("{} names the plugin {missing}, which is not there", shown(facts)),
            format!("put {missing} into {}, or restart the agent", facts.bin_dir.display()),
        ));
    }
    if facts.plugins.contains_key(PORTMAP) && !kinds.iter().any(|kind| kind == PORTMAP) {
        findings.push(Finding::warn(
            CONFLIST,
            format!("{PORTMAP} is installed and not chained: a pod's hostPort has no effect"),
            write_anew(facts),
        ));
    }
    if findings.is_empty() {
        findings.push(Finding::ok(CONFLIST, format!("{} is this agent's", shown(facts))));
    }
    findings
}

fn plugin(facts: &Facts) -> Vec<Finding> {
    let bin = facts.bin_dir.display();
    let again = "flock-agent install, or restart the agent with --install-cni";
    let mut findings = Vec::new();
    for name in [install::PLUGIN, LOOPBACK] {
        match facts.plugins.get(name) {
            Some(true) => {}
            Some(false) => findings.push(Finding::fail(
                PLUGIN,
                format!("{bin}/{name} cannot be executed"),
                format!("chmod 0755 {bin}/{name}"),
            )),
            None => findings.push(Finding::fail(
                PLUGIN,
                format!("{bin}/{name} is not there: the runtime cannot start a pod"),
                again,
            )),
        }
    }
    if facts.same == Some(false) && facts.plugins.contains_key(install::PLUGIN) {
        findings.push(Finding::warn(
            PLUGIN,
            format!("{bin}/{} is another version than this agent's", install::PLUGIN),
            again,
        ));
    }
    if findings.is_empty() {
        let words = match facts.same {
            Some(_) => "of this agent's version",
            None => "its version cannot be told: none lies beside the agent",
        };
        findings.push(Finding::ok(PLUGIN, format!("{bin}/{}: {words}", install::PLUGIN)));
    }
    findings
}

fn shown(facts: &Facts) -> String {
    facts.conf_dir.join(install::CONFLIST).display().to_string()
}

fn write_anew(facts: &Facts) -> String {
    format!("restart the agent with --install-cni, which writes {} anew", shown(facts))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::check::Status;

    const SOCKET: &str = "/run/flock/flock.sock";
    const SPOOL: &str = "/var/lib/flock/spool";

    fn well() -> Facts {
        let names = ["01-flock.conflist", "10-other.conflist"];
        let plugins = ["flock", "loopback", "portmap"];
        Facts {
            conf_dir: "/conf".into(),
            bin_dir: "/bin".into(),
            names: names.map(str::to_owned).into(),
            ours: Some(Ok(json!({ "plugins": [
                { "type": "flock", "socket": SOCKET, "spool": SPOOL },
                { "type": "portmap", "capabilities": { "portMappings": true } },
            ]}))),
            plugins: plugins.map(|name| (name.to_owned(), true)).into(),
            same: Some(true),
        }
    }

    fn ours(facts: &mut Facts) -> &mut Value {
        facts.ours.as_mut().unwrap().as_mut().unwrap()
    }

    #[test]
    fn each_trouble_of_the_runtimes_files_is_told() {
        type Change = fn(&mut Facts);
        let table: [(Change, &[(Status, &str)]); 14] = [
            (|_| {}, &[]),
            (|facts| facts.same = None, &[]),
            (
                |facts| facts.names.extend(["00-first.conf".to_owned()]),
                &[(Status::Fail, "/conf/00-first.conf comes before")],
            ),
            (
                |facts| {
                    facts.names.remove("01-flock.conflist");
                    facts.ours = None;
                },
                &[(Status::Warn, "01-flock.conflist is not there")],
            ),
            (
                |facts| facts.ours = Some(Err("expected value".into())),
                &[(Status::Fail, "cannot be read: expected value")],
            ),
            (
                |facts| ours(facts)["plugins"][0]["socket"] = json!("/other.sock"),
                &[(Status::Fail, "names the socket \"/other.sock\"")],
            ),
            (
                |facts| ours(facts)["plugins"][0]["spool"] = json!(7),
                &[(Status::Fail, "names the spool \"\"")],
            ),
            (
                |facts| ours(facts)["plugins"] = json!([{ "type": "portmap" }]),
                &[(Status::Fail, "does not begin with the plugin flock")],
            ),
            (
                |facts| drop(ours(facts)["plugins"].as_array_mut().unwrap().pop()),
                &[(Status::Warn, "hostPort has no effect")],
            ),
            (
                |facts| facts.plugins.retain(|name, _| name != "portmap"),
                &[(Status::Fail, "names the plugin portmap, which is not there")],
            ),
            (
                |facts| facts.plugins.retain(|name, _| name != "loopback"),
                &[(Status::Fail, "/bin/loopback is not there")],
            ),
            (
                |facts| facts.plugins.extend([("flock".to_owned(), false)]),
                &[(Status::Fail, "/bin/flock cannot be executed")],
            ),
            (|facts| facts.same = Some(false), &[(Status::Warn, "another version")]),
            (
                |facts| facts.plugins.clear(),
                &[
                    (Status::Fail, "names the plugin flock"),
                    (Status::Fail, "names the plugin portmap"),
                    (Status::Fail, "/bin/flock is not there"),
                    (Status::Fail, "/bin/loopback is not there"),
                ],
            ),
        ];
        for (change, wanted) in table {
            let mut facts = well();
            change(&mut facts);
            let wish = Wanted { socket: Path::new(SOCKET), spool: Path::new(SPOOL) };
            let findings = judge(&facts, &wish);
            let bad: Vec<_> = findings.iter().filter(|f| f.status != Status::Ok).collect();
            assert_eq!(bad.len(), wanted.len(), "{findings:?}");
            for (finding, (status, words)) in bad.iter().zip(wanted) {
                assert_eq!(finding.status, *status, "{finding:?}");
                assert!(finding.message.contains(words), "{finding:?}");
                assert!(!finding.remedy.is_empty());
            }
        }
    }
}
