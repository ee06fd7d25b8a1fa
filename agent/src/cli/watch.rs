//! `--watch`: an answer shown again whenever it changed, until somebody has seen enough. Decides what
//! is drawn when; how a screen is drawn is `screen`'s, what is asked and how it looks is the view's.
//!
//! On a terminal the screen is drawn over, once a second at least, because uptimes go on. In a pipe
//! an answer is printed when something other than such clocks changed: JSON as an object a line,
//! YAML as documents, tables with an empty line between them.
//!
//! An agent that goes away is asked again until it is back; only one that was not there at the
//! beginning ends the command.

mod screen;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use anyhow::bail;
use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::Show;
use super::ask::{self, MAX_LINE};
use super::exit::Ended;
use super::output::{self, Form, Look, Size};
use super::view::{MOST_ROWS, View};
use crate::server::admin::{Closing, Response};
use screen::Screen;

/// Between two attempts to reach an agent that went away.
const PAUSE: Duration = Duration::from_secs(1);

/// Watches until Ctrl-C, or until nobody reads any more.
pub(super) fn run<T: Serialize + DeserializeOwned>(
    view: &View<'_, T>,
    show: &Show,
) -> anyhow::Result<Ended> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut quit = signal(SignalKind::quit())?;
        // Drawn on when there is something to draw, and left in order whatever happens.
        let paper: Box<dyn Paper<T>> = match output::size() {
            Some(_) => Box::new(OnScreen { view, show, screen: Screen::default(), shown: None }),
            None => Box::new(InPipe { view, form: show.output, said: None, is_away: false }),
        };
        tokio::select! {
            outcome = watch(view, &show.admin_socket, paper) => outcome.map(|()| Ended::Done),
            _ = interrupt.recv() => Ok(Ended::Interrupted),
            _ = terminate.recv() => Ok(Ended::Interrupted),
            _ = quit.recv() => Ok(Ended::Interrupted),
        }
    })
}

/// What answers are shown on.
trait Paper<T> {
    /// Its size, where it has one.
    fn size(&self) -> Option<Size>;
    /// An answer came; `Break`: nobody reads any more.
    fn answered(&mut self, told: Told<T>) -> anyhow::Result<ControlFlow<()>>;
    /// The agent cannot be asked now.
    fn away(&mut self, why: &anyhow::Error) -> anyhow::Result<()>;
    /// The terminal has another size.
    fn resized(&mut self) -> anyhow::Result<()>;
}

/// One answer.
struct Told<T> {
    answer: T,
    /// As it was said.
    said: Value,
    /// There are rows that were not asked for.
    more: bool,
}

async fn watch<T: Serialize + DeserializeOwned>(
    view: &View<'_, T>,
    socket: &Path,
    mut paper: Box<dyn Paper<T> + '_>,
) -> anyhow::Result<()> {
    let mut resizes = signal(SignalKind::window_change())?;
    let mut has_answered = false;
    loop {
        let outcome = converse(view, socket, &mut *paper, &mut resizes, &mut has_answered).await;
        match outcome {
            Ok(End::Reader) => return Ok(()),
            Ok(End::Failed(error)) => return Err(error),
            Ok(End::Size) => continue,
            Err(error) if !has_answered => return Err(error),
            Err(error) => paper.away(&error)?,
        }
        let back = tokio::time::sleep(PAUSE);
        tokio::pin!(back);
        loop {
            tokio::select! {
                () = &mut back => break,
                _ = resizes.recv() => paper.resized()?,
            }
        }
    }
}

/// Why a conversation is over.
enum End {
    /// Nobody reads what is shown.
    Reader,
    /// Something else is to be asked, for a screen of another size.
    Size,
    /// The answer cannot be shown.
    Failed(anyhow::Error),
}

/// One connection, for as long as it lasts; the error is the agent's.
async fn converse<T: Serialize + DeserializeOwned>(
    view: &View<'_, T>,
    socket: &Path,
    paper: &mut (dyn Paper<T> + '_),
    resizes: &mut Signal,
    has_answered: &mut bool,
) -> anyhow::Result<End> {
    let args = (view.args)(paper.size())?;
    let mut agent = Agent::open(socket, &ask::question(view.op, &args, true)?).await?;
    loop {
        tokio::select! {
            said = agent.answer(view.rows) => {
                let (said, more) = said?;
                let answer = view.read(said.clone())?;
                match paper.answered(Told { answer, said, more }) {
                    Ok(ControlFlow::Continue(())) => *has_answered = true,
                    Ok(ControlFlow::Break(())) => return Ok(End::Reader),
                    Err(error) => return Ok(End::Failed(error)),
                }
            }
            _ = resizes.recv() => {
                if let Err(error) = paper.resized() {
                    return Ok(End::Failed(error));
                }
                if (view.args)(paper.size())? != args {
                    return Ok(End::Size);
                }
            }
        }
    }
}

/// The agent's end of a conversation.
struct Agent {
    shown: String,
    lines: BufReader<UnixStream>,
    /// What was read of a line, and of an answer: a reader that is interrupted goes on.
    line: Vec<u8>,
    rows: Vec<Value>,
}

impl Agent {
    async fn open(socket: &Path, question: &[u8]) -> anyhow::Result<Self> {
        let shown = socket.display().to_string();
        let connected = UnixStream::connect(socket).await;
        let mut stream = connected.map_err(|error| ask::unreachable(socket, &error))?;
        // One that refuses to listen has something to say about it.
        let _ = stream.write_all(question).await;
        Ok(Self { shown, lines: BufReader::new(stream), line: Vec::new(), rows: Vec::new() })
    }

    /// The next answer; rows that come in parts are under `rows`. May be cancelled.
    async fn answer(&mut self, rows: Option<&str>) -> anyhow::Result<(Value, bool)> {
        loop {
            let left = MAX_LINE.saturating_sub(self.line.len() as u64);
            (&mut self.lines).take(left).read_until(b'\n', &mut self.line).await?;
            let Response { part, ok, .. } =
                ask::understood::<Value>(&std::mem::take(&mut self.line), &self.shown)?;
            match (part, ok, rows) {
                (Some(part), _, _) => self.rows.extend(part),
                (None, Some(closing), Some(key)) => {
                    let Closing { more, .. } = serde_json::from_value(closing)?;
                    let rows = Value::Array(std::mem::take(&mut self.rows));
                    return Ok((
                        Value::Object([(key.to_owned(), rows)].into_iter().collect()),
                        more,
                    ));
                }
                (None, Some(answer), None) => return Ok((answer, false)),
                (None, None, _) => bail!("{}: the agent gave an empty answer", self.shown),
            }
        }
    }
}

/// A terminal.
struct OnScreen<'a, 'v, T> {
    view: &'a View<'v, T>,
    show: &'a Show,
    screen: Screen,
    /// The last answer, and whether there is more of it.
    shown: Option<(T, bool)>,
}

impl<T: Serialize + DeserializeOwned> OnScreen<'_, '_, T> {
    fn draw(&mut self, status: &str) -> anyhow::Result<ControlFlow<()>> {
        let (Some(size), Some((answer, more))) = (output::size(), &self.shown) else {
            return Ok(ControlFlow::Continue(()));
        };
        let text = self.view.text(answer, self.show.output, Look::of(self.show.output));
        // What was there and is not any more is no reason to stop looking.
        let text = text.unwrap_or_else(|error| format!("{error:#}\n"));
        output::write(&self.screen.frame(&heading(status), &text, *more, size))
    }
}

impl<T: Serialize + DeserializeOwned> Paper<T> for OnScreen<'_, '_, T> {
    fn size(&self) -> Option<Size> {
        output::size()
    }

    fn answered(&mut self, told: Told<T>) -> anyhow::Result<ControlFlow<()>> {
        if self.shown.is_none() {
            (self.view.refuse)(&told.answer)?;
        }
        self.shown = Some((told.answer, told.more));
        self.draw("")
    }

    fn away(&mut self, why: &anyhow::Error) -> anyhow::Result<()> {
        let why = why.to_string();
        let why = why.lines().next().unwrap_or_default();
        self.draw(&format!("no answer, trying again: {why}")).map(|_| ())
    }

    fn resized(&mut self) -> anyhow::Result<()> {
        self.draw("").map(|_| ())
    }
}

/// When it is, and what was typed.
fn heading(status: &str) -> String {
    let now = Timestamp::now().strftime("%H:%M:%SZ").to_string();
    let mut words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let program = words.next().unwrap_or_default();
    let program = program.rsplit('/').next().unwrap_or_default().to_owned();
    let command = std::iter::once(program).chain(words).collect::<Vec<_>>().join(" ");
    let heading = match status {
        "" => format!("{now}  {command}"),
        _ => format!("{now}  {status}  ({command})"),
    };
    output::harmless(&heading).replace('\n', " ")
}

/// A pipe or a file.
struct InPipe<'a, 'v, T> {
    view: &'a View<'v, T>,
    form: Form,
    /// What was printed last, without clocks.
    said: Option<Value>,
    is_away: bool,
}

impl<T: Serialize + DeserializeOwned> Paper<T> for InPipe<'_, '_, T> {
    fn size(&self) -> Option<Size> {
        None
    }

    fn answered(&mut self, told: Told<T>) -> anyhow::Result<ControlFlow<()>> {
        self.is_away = false;
        // Nothing may be written for hours: a reader that left is not to be waited for as long.
        if output::is_abandoned() {
            return Ok(ControlFlow::Break(()));
        }
        match document(self.view, self.form, &mut self.said, told)? {
            Some(text) => output::write(&text),
            None => Ok(ControlFlow::Continue(())),
        }
    }

    fn away(&mut self, why: &anyhow::Error) -> anyhow::Result<()> {
        // Said once; not among the answers.
        if !std::mem::replace(&mut self.is_away, true) {
            eprintln!("flock-agent: no answer, trying again: {why:#}");
        }
        Ok(())
    }

    fn resized(&mut self) -> anyhow::Result<()> {
        Ok(())
    }
}

/// What is printed of an answer; `None`: it is the one that was `said` before.
fn document<T: Serialize + DeserializeOwned>(
    view: &View<'_, T>,
    form: Form,
    said: &mut Option<Value>,
    told: Told<T>,
) -> anyhow::Result<Option<String>> {
    if told.more && !view.may_be_cut {
        bail!(
            "more than {MOST_ROWS} rows cannot be watched in a pipe; narrow it by a prefix, --peer or --limit"
        );
    }
    let mut still = told.said;
    stop_clocks(&mut still, view.clocks, false);
    if said.as_ref() == Some(&still) {
        return Ok(None);
    }
    let is_first = said.replace(still).is_none();
    // What was there and is not any more is no reason to stop looking.
    if is_first {
        (view.refuse)(&told.answer)?;
    }
    let before = match form {
        _ if is_first => "",
        Form::Json => "",
        Form::Yaml => "---\n",
        Form::Table | Form::Wide => "\n",
    };
    let text = match form {
        Form::Json => serde_json::to_string(&told.answer)? + "\n",
        _ => view.text(&told.answer, form, Look { wide: form == Form::Wide, ..Look::PIPE })?,
    };
    Ok(Some(format!("{before}{text}")))
}

/// An answer in which no time passes: what is under these keys counts only by being there.
fn stop_clocks(value: &mut Value, clocks: &[&str], inside: bool) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                stop_clocks(value, clocks, inside || clocks.contains(&key.as_str()));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| stop_clocks(item, clocks, inside)),
        Value::Number(number) if inside => *number = 0.into(),
        Value::String(text) if inside => text.retain(|character| !character.is_ascii_digit()),
        _ => {}
    }
}
