//! What these tests share: asking the doctor, and awaiting a finding.

use anyhow::{Context, Result, ensure};
use rack::binaries;
use rack::node::Node;
use rack::wait::{PATIENCE, until};
use serde_json::Value;

/// The exit status, and the findings.
pub(crate) fn check(node: &Node) -> Result<(i32, Vec<Value>)> {
    let mut command = node.netns().command(binaries::flock_agent()?)?;
    command.args(["check", "-o", "json"]).env("FLOCK_ADMIN_SOCKET", node.admin_socket());
    let output = command.output()?;
    let report: Value =
        serde_json::from_slice(&output.stdout).with_context(|| format!("not JSON: {output:?}"))?;
    let findings = report["findings"].as_array().cloned().context("no findings")?;
    Ok((output.status.code().context("no exit status")?, findings))
}

/// Awaits that nothing is worth a word, and that every finding has its four keys.
pub(crate) fn await_well(node: &Node) {
    until("a doctor without a word", PATIENCE, || {
        let (code, findings) = check(node)?;
        let bad: Vec<_> = findings.iter().filter(|one| one["status"] != "ok").collect();
        ensure!(bad.is_empty(), "{bad:#?}");
        ensure!(code == 0, "it exits with {code}");
        for finding in &findings {
            ensure!(finding.as_object().is_some_and(|keys| keys.len() == 4), "{finding}");
            ensure!(finding["remedy"] == "", "{finding}");
        }
        Ok(())
    })
    .unwrap();
}

/// Awaits a finding of one kind with these words, and with what to do in those.
pub(crate) fn await_found(node: &Node, name: &str, status: &str, message: &str, remedy: &str) {
    until(&format!("{name} to be {status}: {message}"), PATIENCE, || {
        let (code, findings) = check(node)?;
        let text =
            |finding: &Value, key: &str| finding[key].as_str().unwrap_or_default().to_owned();
        let found = findings.iter().any(|finding| {
            finding["check"] == name
                && finding["status"] == status
                && text(finding, "message").contains(message)
                && text(finding, "remedy").contains(remedy)
        });
        let bad: Vec<_> = findings.iter().filter(|one| one["status"] != "ok").collect();
        ensure!(found, "{bad:#?}");
        for finding in &bad {
            ensure!(!text(finding, "remedy").is_empty(), "nothing to do: {finding}");
        }
        let failed = bad.iter().any(|finding| finding["status"] == "fail");
        ensure!(code == i32::from(failed), "it exits with {code}: {bad:#?}");
        Ok(())
    })
    .unwrap();
}
