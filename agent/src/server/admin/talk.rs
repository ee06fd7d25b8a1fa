//! One conversation on the admin socket. Decides how much a client may cost: who, how long, how
//! large, how many, how often. What is answered is the desk's.
//!
//! Nothing is made before it can be sent: rows are asked for when those before them were taken, so
//! that a client that does not read costs a part and a place, for as long as our patience lasts.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until, timeout};

use super::{Answer, Answers, Closing, Request, Response, Rows, VERSION, op};
use crate::news::Listener;
use crate::server::line;
use crate::server::socket::{Socket, peer_may_speak};

/// A client has this long to ask.
const TO_ASK: Duration = Duration::from_secs(5);
/// One that takes nothing of its answer for so long has gone to sleep.
const TO_TAKE: Duration = Duration::from_secs(30);
const MAX_REQUEST: usize = 64 << 10;
const CONNECTIONS: usize = 32;
/// Of those; the rest stays for who asks once.
const WATCHERS: usize = 16;
/// A part is sent when it has so many rows,
const PART_ROWS: u64 = 2_000;
/// or is so long.
const PART_BYTES: usize = 1 << 20;
/// Between the beginnings of two answers to one who watches, however much happens.
const SHORTEST: Duration = Duration::from_millis(200);
/// However little does: uptimes go on.
const LONGEST: Duration = Duration::from_secs(1);
/// And a rest of so many times what the answer took, so that who watches what is costly to tell
/// takes but a part of the agent's time.
const REST: u32 = 4;
/// But never longer than this.
const LONGEST_REST: Duration = Duration::from_secs(10);

/// Serves requests until the task is dropped.
pub async fn serve(socket: Arc<Socket>, desk: Arc<impl Answers>) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    let watchers = Arc::new(Semaphore::new(WATCHERS));
    loop {
        let Ok(slot) = slots.clone().acquire_owned().await else { return };
        let Ok((stream, _)) = socket.listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (desk, watchers) = (desk.clone(), watchers.clone());
        tokio::spawn(async move {
            // A client that has gone, or does not read, hears no more.
            let _ = talk(stream, &*desk, &watchers).await;
            drop(slot);
        });
    }
}

/// Why a conversation ends before its end.
enum Ended {
    /// The client has gone, or takes nothing.
    Gone,
    /// In words for it.
    Refused(String),
}

impl From<String> for Ended {
    fn from(why: String) -> Self {
        Self::Refused(why)
    }
}

impl From<io::Error> for Ended {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

pub(super) async fn talk(
    mut stream: UnixStream,
    desk: &impl Answers,
    watchers: &Semaphore,
) -> io::Result<()> {
    match serve_one(&mut stream, desk, watchers).await {
        Ok(()) | Err(Ended::Gone) => Ok(()),
        Err(Ended::Refused(why)) => {
            say(&mut stream, &Response { error: Some(why), ..nothing() }).await
        }
    }
}

async fn serve_one(
    stream: &mut UnixStream,
    desk: &impl Answers,
    watchers: &Semaphore,
) -> Result<(), Ended> {
    peer_may_speak(stream)?;
    let line = line::read(stream, MAX_REQUEST, TO_ASK).await.map_err(|error| error.to_string())?;
    let request = read(&line)?;
    if !request.watch {
        return answer(stream, desk, &request).await;
    }
    let _place = watchers.try_acquire().map_err(|_| {
        format!("{WATCHERS} others watch already; end one of them, or ask without watching")
    })?;
    // Before the first answer, so that nothing falls between the two.
    let mut news = desk.news();
    loop {
        let began = Instant::now();
        answer(stream, desk, &request).await?;
        // A slow reader is not to wait for minutes because of it.
        let rest = Instant::now() + (began.elapsed() * REST).min(LONGEST_REST);
        wait(stream, &mut news, rest.max(began + SHORTEST), rest.max(began + LONGEST)).await?;
    }
}

pub(super) fn read(line: &[u8]) -> Result<Request, String> {
    let request: Request =
        serde_json::from_slice(line).map_err(|error| format!("decode: {error}"))?;
    if request.v != VERSION {
        return Err(format!(
            "the agent speaks version {VERSION} of the admin protocol, not {}; use the flock-agent that belongs to it",
            request.v
        ));
    }
    if request.watch && !op::WATCHABLE.contains(&request.op.as_str()) {
        return Err(format!(
            "{:?} cannot be watched: it changes something, or is none of ours; watch one of {}",
            request.op,
            op::WATCHABLE.join(", ")
        ));
    }
    Ok(request)
}

/// Returns when there may be something new to tell, not before `soonest`.
async fn wait(
    stream: &mut UnixStream,
    news: &mut Listener,
    soonest: Instant,
    latest: Instant,
) -> Result<(), Ended> {
    let rings = async {
        sleep_until(soonest).await;
        // What rang during the last answer counts.
        let _ = tokio::time::timeout_at(latest, news.next()).await;
    };
    let mut more = [0; 64];
    tokio::select! {
        () = rings => Ok(()),
        read = stream.read(&mut more) => match read? {
            0 => Err(Ended::Gone),
            _ => Err(Ended::Refused("a connection is for one request; open another".into())),
        },
    }
}

async fn answer(
    stream: &mut UnixStream,
    desk: &impl Answers,
    request: &Request,
) -> Result<(), Ended> {
    let outcome = try_answer(stream, desk, request).await;
    // One that has gone was not refused anything.
    desk.answered(&request.op, !matches!(outcome, Err(Ended::Refused(_))));
    outcome
}

async fn try_answer(
    stream: &mut UnixStream,
    desk: &impl Answers,
    request: &Request,
) -> Result<(), Ended> {
    let closing = match desk.answer(&request.op, &request.args).await? {
        Answer::Whole(value) => value,
        Answer::Parts(mut rows) => {
            let mut sent = 0;
            while let Some(some) = rows.next().await? {
                sent += send(stream, some).await?;
            }
            let closing = Closing { rows: sent, more: rows.is_cut() };
            serde_json::to_value(closing).map_err(|error| error.to_string())?
        }
    };
    Ok(say(stream, &Response { ok: Some(closing), ..nothing() }).await?)
}

/// Sends rows in as many parts as it takes.
async fn send(stream: &mut UnixStream, rows: Vec<impl Serialize>) -> Result<u64, Ended> {
    let (mut part, mut held, mut sent) = (Vec::new(), 0, 0);
    for row in rows {
        match held {
            0 => part.extend_from_slice(format!(r#"{{"v":{VERSION},"part":["#).as_bytes()),
            _ => part.push(b','),
        }
        serde_json::to_writer(&mut part, &row).map_err(|error| error.to_string())?;
        held += 1;
        if held >= PART_ROWS || part.len() >= PART_BYTES {
            sent += std::mem::take(&mut held);
            end_part(stream, &mut part).await?;
        }
    }
    if held > 0 {
        end_part(stream, &mut part).await?;
    }
    Ok(sent + held)
}

async fn end_part(stream: &mut UnixStream, part: &mut Vec<u8>) -> io::Result<()> {
    part.extend_from_slice(b"]}\n");
    write(stream, part).await?;
    part.clear();
    Ok(())
}

fn nothing() -> Response {
    Response { v: VERSION, part: None, ok: None, error: None }
}

async fn say(stream: &mut UnixStream, response: &Response<Value>) -> io::Result<()> {
    let mut text = serde_json::to_vec(response)?;
    text.push(b'\n');
    write(stream, &text).await
}

/// Writes it all, as long as some of it is taken now and then.
async fn write(stream: &mut UnixStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let taken = timeout(TO_TAKE, stream.write(bytes)).await??;
        if taken == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = bytes.get(taken..).unwrap_or_default();
    }
    Ok(())
}
