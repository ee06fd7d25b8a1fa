//! What a runtime really passed: a wrapper in the place of the plugin writes the
//! call down and then becomes the plugin.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::plugin::Call;

/// A recording of calls.
#[derive(Debug)]
pub struct Recorder {
    log: PathBuf,
}

impl Recorder {
    /// Replaces `plugin` (a link or a file in a runtime's plugin directory).
    pub fn wrap(plugin: &Path) -> Result<Self> {
        let real = fs::canonicalize(plugin).with_context(|| plugin.display().to_string())?;
        let log = plugin.with_extension("calls");
        // Written in one go, so that calls at the same time do not mix.
        let script = format!(
            "#!/bin/sh\nprintf '%s\\t%s\\t%s\\t%s\\t%s\\t%s\\n' \"$CNI_COMMAND\" \
             \"$CNI_CONTAINERID\" \"$CNI_NETNS\" \"$CNI_IFNAME\" \"$CNI_ARGS\" \"$CNI_PATH\" \
             >> '{}'\nexec '{}' \"$@\"\n",
            log.display(),
            real.display(),
        );
        fs::remove_file(plugin)?;
        fs::write(plugin, script)?;
        fs::set_permissions(plugin, fs::Permissions::from_mode(0o755))?;
        Ok(Self { log })
    }

    /// The calls with this command so far, oldest first.
    pub fn calls(&self, command: &str) -> Result<Vec<Call>> {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let calls = text.lines().filter_map(|line| {
            let mut fields = line.split('\t').map(str::to_owned);
            let mut next = || fields.next().unwrap_or_default();
            let call = Call {
                command: next(),
                container_id: next(),
                netns: next(),
                ifname: next(),
                args: next(),
                path: next(),
            };
            (call.command == command).then_some(call)
        });
        Ok(calls.collect())
    }
}
