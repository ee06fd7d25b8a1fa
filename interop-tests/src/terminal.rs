//! A person's terminal: a real one, by tmux, of a given size, inside a namespace. Lines are typed, and
//! the screen is read as it would be seen: in letters, with its colours, and with what the terminal
//! itself had to break because a line did not fit.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::binaries::{flock_agent, run, tool};
use crate::netns::Netns;
use crate::node::Node;
use crate::wait::{PATIENCE, until};

/// The prompt begins with the exit code of the command before.
const PROMPT: &str = "[$?]> ";

/// A terminal with a shell in it. Dropping it ends both.
#[derive(Debug)]
pub struct Terminal {
    /// By name: whoever sits there does not keep others from the namespace.
    netns: Netns,
    dir: TempDir,
    /// How wide it is.
    pub columns: usize,
}

/// What a command left on the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// Its lines as they stand there.
    pub lines: Vec<String>,
    /// Its exit code.
    pub code: i32,
}

impl Shown {
    /// All of it.
    pub fn text(&self) -> String {
        self.lines.join("\n")
    }
}

impl Terminal {
    /// Opens one with this size and, for its shell, this environment beside the usual.
    pub fn open(
        netns: &Netns,
        (columns, rows): (usize, usize),
        environment: &[(&str, &str)],
    ) -> Result<Self> {
        let netns = Netns::of_someone_else(&netns.path())?;
        let terminal = Self { netns, dir: tempfile::tempdir()?, columns };
        let mut command = terminal.netns.command(tool("tmux")?)?;
        command
            .args(["-S".as_ref(), terminal.socket().as_os_str()])
            .args(["-f", "/dev/null", "new-session", "-d"])
            .args(["-x", &columns.to_string(), "-y", &rows.to_string()])
            .args(["bash", "--norc", "--noprofile"])
            .env_remove("TMUX")
            .env_remove("NO_COLOR")
            .env("PS1", PROMPT)
            .env("LC_ALL", "C.UTF-8")
            .envs(environment.iter().copied());
        run(&mut command)?;
        // All of the window is the shell's.
        terminal.tmux(&["set-option", "-g", "status", "off"])?;
        terminal.tmux(&["set-option", "-g", "history-limit", "100000"])?;
        terminal.await_prompt().context("the shell has no prompt")?;
        Ok(terminal)
    }

    /// One at a node, where `flock-agent` is at hand and knows the agent.
    pub fn for_operator(
        node: &Node,
        size: (usize, usize),
        environment: &[(&str, &str)],
    ) -> Result<Self> {
        let programs = flock_agent()?;
        let programs = programs.parent().unwrap_or(&programs).display().to_string();
        let path = format!("{programs}:/usr/sbin:/usr/bin:/sbin:/bin");
        let admin = node.admin_socket().display().to_string();
        let usual = [("PATH", path.as_str()), ("FLOCK_ADMIN_SOCKET", admin.as_str())];
        Self::open(node.netns(), size, &[&usual[..], environment].concat())
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("tmux")
    }

    fn tmux(&self, arguments: &[&str]) -> Result<String> {
        let mut command = self.netns.command(tool("tmux")?)?;
        run(command.arg("-S").arg(self.socket()).args(arguments).env_remove("TMUX"))
    }

    /// Types a line and Enter, and waits for nothing.
    pub fn enter(&self, line: &str) -> Result<()> {
        self.tmux(&["send-keys", "-l", line])?;
        self.keys(&["Enter"])
    }

    /// Presses keys by tmux's names, such as `C-c`.
    pub fn keys(&self, keys: &[&str]) -> Result<()> {
        self.tmux(&[&["send-keys"], keys].concat()).map(drop)
    }

    /// The screen as it is, without what is empty at its end.
    pub fn screen(&self) -> Result<String> {
        Ok(self.tmux(&["capture-pane", "-p"])?.trim_end().to_owned())
    }

    /// The same with its colours, as escape sequences.
    pub fn painted(&self) -> Result<String> {
        self.tmux(&["capture-pane", "-p", "-e"])
    }

    /// Makes it another size.
    pub fn resize(&self, columns: usize, rows: usize) -> Result<()> {
        let (columns, rows) = (columns.to_string(), rows.to_string());
        self.tmux(&["resize-window", "-x", &columns, "-y", &rows]).map(drop)
    }

    /// From now on every byte that programs write is kept, until [`Terminal::recorded`].
    pub fn record(&self) -> Result<()> {
        let file = self.dir.path().join("recorded");
        self.tmux(&["pipe-pane", &format!("cat > {}", file.display())]).map(drop)
    }

    /// Those bytes.
    pub fn recorded(&self) -> Result<String> {
        self.tmux(&["pipe-pane"])?;
        let bytes = fs::read(self.dir.path().join("recorded")).unwrap_or_default();
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Awaits a screen that pleases, and returns it.
    pub fn await_screen(&self, what: &str, pleases: impl Fn(&str) -> bool) -> Result<String> {
        until(&format!("{what} on the screen"), PATIENCE, || {
            let screen = self.screen()?;
            ensure!(pleases(&screen), "it shows:\n{screen}");
            Ok(screen)
        })
    }

    /// Whether the cursor is shown.
    pub fn has_cursor(&self) -> Result<bool> {
        Ok(self.tmux(&["display-message", "-p", "#{cursor_flag}"])?.trim() == "1")
    }

    /// The process id of the program that the shell runs.
    pub fn pid(&self) -> Result<i32> {
        let shell = self.tmux(&["display-message", "-p", "#{pane_pid}"])?;
        let shell = shell.trim();
        let children = fs::read_to_string(format!("/proc/{shell}/task/{shell}/children"))?;
        let first = children.split(' ').next().unwrap_or_default();
        first.parse().with_context(|| format!("the shell runs nothing: {children:?}"))
    }

    /// Awaits a prompt that nothing was typed at, and returns the exit code in it.
    pub fn await_prompt(&self) -> Result<i32> {
        until("a prompt", PATIENCE, || {
            let screen = self.screen()?;
            let last = screen.trim_end().lines().last().unwrap_or_default();
            code(last).with_context(|| format!("it shows:\n{screen}"))
        })
    }

    /// Runs a command on an empty screen and returns what it left there, however much it was.
    pub fn run(&self, line: &str) -> Result<Shown> {
        self.tmux(&["send-keys", "-R"])?;
        self.tmux(&["clear-history"])?;
        // The prompt of before went with the screen.
        self.keys(&["C-u", "Enter"])?;
        self.await_prompt()?;
        self.enter(line)?;
        until(&format!("the end of {line}"), PATIENCE, || self.finished(line))
    }

    fn finished(&self, line: &str) -> Result<Shown> {
        let all = self.tmux(&["capture-pane", "-p", "-S", "-"])?;
        let mut lines: Vec<&str> = all.trim_end().lines().collect();
        let last = lines.pop().unwrap_or_default();
        let code = code(last).with_context(|| format!("it shows:\n{all}"))?;
        let typed = lines.iter().position(|l| l.starts_with('[') && l.ends_with(line.trim_end()));
        let typed = typed.with_context(|| format!("{line} is not there yet:\n{all}"))?;
        let lines = lines.into_iter().skip(typed + 1).map(str::to_owned).collect();
        Ok(Shown { lines, code })
    }

    /// Lines that the terminal broke because they did not fit, each put together again.
    pub fn broken(&self) -> Result<Vec<String>> {
        let joined = self.tmux(&["capture-pane", "-p", "-J", "-S", "-"])?;
        let too_long = |line: &&str| line.trim_end().chars().count() > self.columns;
        Ok(joined.lines().filter(too_long).map(str::to_owned).collect())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _gone_already = self.tmux(&["kill-server"]);
    }
}

/// The exit code in a prompt at which nothing was typed.
fn code(line: &str) -> Option<i32> {
    line.trim_end().strip_prefix('[')?.strip_suffix("]>")?.parse().ok()
}
