//! Something that a command shows: what is asked for, what may be wrong with the answer, how it
//! looks. The same for an answer that is printed once and for one that is watched (`watch`).

use anyhow::Context;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Show;
use super::ask::ask;
use super::exit::Ended;
use super::output::{self, Form, Look, Size};
use super::watch;

/// Rows that can be watched by a pipe: all of them are compared with those before.
pub(super) const MOST_ROWS: u32 = 10_000;

type Render<'a, T> = Box<dyn Fn(&T, Look) -> anyhow::Result<String> + 'a>;
type Refuse<'a, T> = Box<dyn Fn(&T) -> anyhow::Result<()> + 'a>;

/// What is shown of an answer `T`.
pub(super) struct View<'a, T> {
    pub(super) op: &'static str,
    /// For a screen of this size; `None`: no screen.
    pub(super) args: Box<dyn Fn(Option<Size>) -> anyhow::Result<Value> + 'a>,
    /// For people.
    pub(super) render: Render<'a, T>,
    /// What makes an answer an error, in every form.
    pub(super) refuse: Refuse<'a, T>,
    /// Where rows that come in parts belong.
    pub(super) rows: Option<&'static str>,
    /// Rows may be missing at its end: as many were wanted as there are.
    pub(super) may_be_cut: bool,
    /// Keys of what changes by itself, which is no news.
    pub(super) clocks: &'static [&'static str],
}

impl<'a, T: Serialize + DeserializeOwned> View<'a, T> {
    /// This op without arguments, drawn so.
    pub(super) fn new(
        op: &'static str,
        render: impl Fn(&T, Look) -> anyhow::Result<String> + 'a,
    ) -> Self {
        Self {
            op,
            args: Box::new(|_| Ok(Value::Null)),
            render: Box::new(render),
            refuse: Box::new(|_| Ok(())),
            rows: None,
            may_be_cut: false,
            clocks: &[],
        }
    }

    /// With these arguments.
    pub(super) fn asking(self, args: &impl Serialize) -> anyhow::Result<Self> {
        let args = serde_json::to_value(args)?;
        Ok(Self { args: Box::new(move |_| Ok(args.clone())), ..self })
    }

    /// With an answer that is an error where this says so.
    pub(super) fn refusing(self, refuse: impl Fn(&T) -> anyhow::Result<()> + 'a) -> Self {
        Self { refuse: Box::new(refuse), ..self }
    }

    /// What is under these keys, at any depth, changes by itself: numbers, and numbers in texts.
    /// Who watches by a pipe is not told because of it.
    pub(super) fn with_clocks(self, clocks: &'static [&'static str]) -> Self {
        Self { clocks, ..self }
    }

    /// Once, or for as long as somebody watches.
    pub(super) fn show(&self, show: &Show) -> anyhow::Result<Ended> {
        if show.watch {
            return watch::run(self, show);
        }
        self.once(show).map(|_| Ended::Done)
    }

    /// Asks and prints; for those who want to know what it was.
    pub(super) fn once(&self, show: &Show) -> anyhow::Result<T> {
        let (answer, text) = self.asked(show, Look::of(show.output))?;
        output::print(&text)?;
        Ok(answer)
    }

    /// The answer, and its text.
    pub(super) fn asked(&self, show: &Show, look: Look) -> anyhow::Result<(T, String)> {
        let args = (self.args)(None)?;
        let answer: T = ask(&show.admin_socket, self.op, &args)?;
        let text = self.text(&answer, show.output, look)?;
        Ok((answer, text))
    }

    /// An answer as it is printed.
    pub(super) fn text(&self, answer: &T, form: Form, look: Look) -> anyhow::Result<String> {
        (self.refuse)(answer)?;
        match output::formal(form, answer)? {
            Some(text) => Ok(text),
            None => (self.render)(answer, look),
        }
    }

    /// An answer from what the agent said.
    pub(super) fn read(&self, said: Value) -> anyhow::Result<T> {
        serde_json::from_value(said).context("the answer is not one of the agent's")
    }
}
