//! A terminal with somebody before it: tmux shows what a person would see, types
//! what they would type, and has the size that they would give it.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::binaries::{run, tool};
use crate::names;
use crate::wait::{PATIENCE, until};

/// All of the window is the program's.
const SETTINGS: &str = "set -g status off\nset -g default-terminal screen-256color\n";

/// A shell that stays when the program has ended, so that what it left can be looked at. It hears
/// Ctrl-C too, and goes on.
const SHELL: &str = r#"trap : INT; "$@"; printf '\n[exit %s]\n' "$?"; exec sleep 600"#;

/// A terminal in which a program runs; dropped, both are gone.
#[derive(Debug)]
pub struct Terminal {
    server: String,
    dir: TempDir,
}

impl Terminal {
    /// Runs a program with this environment in a terminal of this size.
    pub fn start(
        (columns, rows): (u16, u16),
        program: &Path,
        arguments: &[&str],
        environment: &[(&str, &OsStr)],
    ) -> Result<Self> {
        let server = names::unique("terminal");
        let dir = tempfile::Builder::new().prefix(&format!("{server}-")).tempdir()?;
        fs::write(dir.path().join("tmux.conf"), SETTINGS)?;
        let terminal = Self { server, dir };
        let mut command = terminal.tmux()?;
        command.args(["new-session", "-d", "-x", &columns.to_string(), "-y", &rows.to_string()]);
        for (name, value) in environment {
            let mut pair = OsStr::new(name).to_owned();
            pair.push("=");
            pair.push(value);
            command.arg("-e").arg(pair);
        }
        command.args(["--", "sh", "-c", SHELL, "sh"]).arg(program).args(arguments);
        run(&mut command)?;
        Ok(terminal)
    }

    fn tmux(&self) -> Result<Command> {
        let mut command = Command::new(tool("tmux")?);
        command.args(["-L", &self.server, "-f"]).arg(self.dir.path().join("tmux.conf"));
        command.env("TERM", "xterm-256color").env_remove("TMUX");
        Ok(command)
    }

    fn say(&self, words: &[&str]) -> Result<String> {
        run(self.tmux()?.args(words))
    }

    /// What is on the screen, without what is empty at its end.
    pub fn screen(&self) -> Result<String> {
        Ok(self.say(&["capture-pane", "-p"])?.trim_end().to_owned())
    }

    /// The same with its colours, as escape sequences.
    pub fn coloured(&self) -> Result<String> {
        self.say(&["capture-pane", "-p", "-e"])
    }

    /// Awaits a screen that pleases, and returns it.
    pub fn await_screen(&self, what: &str, pleases: impl Fn(&str) -> bool) -> Result<String> {
        until(what, PATIENCE, || {
            let screen = self.screen()?;
            ensure!(pleases(&screen), "the screen is\n{screen}");
            Ok(screen)
        })
    }

    /// Types keys, by tmux's names for them: `y`, `Enter`, `C-c`.
    pub fn press(&self, keys: &[&str]) -> Result<()> {
        self.say(&[&["send-keys"], keys].concat()).map(drop)
    }

    /// Gives it another size.
    pub fn resize(&self, columns: u16, rows: u16) -> Result<()> {
        self.say(&["resize-window", "-x", &columns.to_string(), "-y", &rows.to_string()]).map(drop)
    }

    /// Whether the cursor is shown.
    pub fn has_cursor(&self) -> Result<bool> {
        Ok(self.say(&["display-message", "-p", "#{cursor_flag}"])?.trim() == "1")
    }

    /// The process id of the program.
    pub fn pid(&self) -> Result<i32> {
        let shell = self.say(&["display-message", "-p", "#{pane_pid}"])?;
        let shell = shell.trim();
        let children = fs::read_to_string(format!("/proc/{shell}/task/{shell}/children"))?;
        let first = children.split(' ').next().unwrap_or_default();
        first.parse().with_context(|| format!("the shell runs nothing: {children:?}"))
    }

    /// Awaits that the program ends. Returns its exit status, and the screen that it left.
    pub fn await_end(&self) -> Result<(i32, String)> {
        until("the program in the terminal to end", PATIENCE, || {
            let screen = self.screen()?;
            let told = screen.rsplit_once("\n[exit ").and_then(|(left, status)| {
                Some((status.strip_suffix(']')?.parse().ok()?, left.trim_end().to_owned()))
            });
            told.with_context(|| format!("it runs, and the screen is\n{screen}"))
        })
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _gone_already = self.say(&["kill-server"]);
    }
}
