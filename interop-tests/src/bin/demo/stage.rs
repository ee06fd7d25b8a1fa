//! How the demo looks: numbered acts, ticks, and colour only where a person
//! watches and has not asked for none (<https://no-color.org>).

use std::env;
use std::io::{self, IsTerminal, Write};
use std::thread;
use std::time::{Duration, Instant};

use rack::wait::interrupted;

/// How long a person looks at an act.
const PAUSE: Duration = Duration::from_millis(2500);

/// The stage.
pub(crate) struct Stage {
    colour: bool,
    /// Between the acts, so that a person can follow; none where nobody watches.
    pause: Duration,
    acts: usize,
}

/// A way to write.
#[derive(Clone, Copy)]
pub(crate) enum Tone {
    /// As headlines are.
    Bold,
    /// As asides are.
    Faint,
    /// As successes are.
    Green,
    /// As failures are.
    Red,
}

impl Stage {
    /// A stage on standard output.
    pub(crate) fn new(hurried: bool) -> Self {
        let watched = io::stdout().is_terminal();
        let refused = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = env::var_os("TERM").is_none_or(|term| term == "dumb");
        Self {
            colour: watched && !refused && !dumb,
            pause: if watched && !hurried { PAUSE } else { Duration::ZERO },
            acts: 0,
        }
    }

    /// Text in a tone, where there is colour.
    pub(crate) fn paint(&self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Bold => 1,
            Tone::Faint => 2,
            Tone::Green => 32,
            Tone::Red => 31,
        };
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// What the demo is about.
    pub(crate) fn title(&self, name: &str, about: &str) {
        self.line(&format!("\n{}  {about}", self.paint(Tone::Bold, name)));
    }

    /// The header of the next act.
    pub(crate) fn act(&mut self, about: &str) {
        let until = Instant::now() + self.pause;
        while self.acts > 0 && Instant::now() < until && !interrupted() {
            thread::sleep(Duration::from_millis(20));
        }
        self.acts += 1;
        let header = format!("{}  {about}", self.acts);
        self.line(&format!("\n{}", self.paint(Tone::Bold, &header)));
    }

    /// Something that was done and found good.
    pub(crate) fn tick(&self, text: &str) {
        self.line(&format!("   {} {text}", self.paint(Tone::Green, "✓")));
    }

    /// A command as one would type it, and where.
    pub(crate) fn command(&self, place: &str, text: &str) {
        self.line(&format!("   {}", self.paint(Tone::Faint, &format!("{place}$ {text}"))));
    }

    /// What a command said.
    pub(crate) fn output(&self, text: &str) {
        for line in text.trim_end().lines() {
            self.line(format!("     {}", line.replace('\t', "    ")).trim_end());
        }
    }

    /// Something that is drawn.
    pub(crate) fn picture(&self, lines: &[&str]) {
        for line in lines {
            self.line(&self.paint(Tone::Faint, &format!("   {line}")));
        }
    }

    /// A name with what it has of both families, and a remark, in columns.
    pub(crate) fn place(&self, name: &str, v6: &str, v4: &str, remark: &str) {
        let remark = self.paint(Tone::Faint, remark);
        self.tick(&format!("{name:<6} {v6:<34} {v4:<14} {remark}"));
    }

    /// Plain text, indented.
    pub(crate) fn line(&self, text: &str) {
        let mut out = io::stdout().lock();
        // A reader that has gone away is no reason to stop cleaning up.
        let _nobody_reads = writeln!(out, "{text}").and_then(|()| out.flush());
    }

    /// A happy end.
    pub(crate) fn finale(&self, text: &str) {
        self.line(&format!(
            "\n{} {}\n",
            self.paint(Tone::Green, "✓"),
            self.paint(Tone::Bold, text)
        ));
    }

    /// Another end.
    pub(crate) fn regret(&self, text: &str) {
        self.line(&format!("\n{} {text}\n", self.paint(Tone::Red, "✗")));
    }
}
