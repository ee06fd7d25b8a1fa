//! The program in the pods of `make e2e`: a small HTTP server that says who it is, is Ready or not as it
//! is told, and goes on serving for a while when it is asked to end; and its own client.
//!
//! ```text
//! workload serve [--port N] [--linger SECONDS] [--unready]
//!     GET  /                  {"pod": NAME, "address": OURS, "client": THEIRS}
//!     GET  /healthz           200
//!     GET  /readyz            200 or 503
//!     POST /ready?value=false says what /readyz answers from now on
//! workload get URL            prints what the server answered; fails unless it is 200
//! workload post URL
//! ```
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "it prints what it was told")]

use std::env;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rack::cluster::workload::PORT;
use rack::{signals, wait};
use serde_json::json;

/// How long a connection may be silent.
const SILENCE: Duration = Duration::from_secs(10);

/// What `/readyz` answers.
static READY: AtomicBool = AtomicBool::new(true);

fn main() -> ExitCode {
    let words: Vec<_> = env::args().skip(1).collect();
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["serve", options @ ..] => serve(options),
        ["get", url] => ask("GET", url),
        ["post", url] => ask("POST", url),
        other => Err(anyhow::anyhow!("{other:?} is none of serve, get URL, post URL")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn serve(options: &[&str]) -> Result<()> {
    let (mut port, mut linger) = (PORT, 0);
    let mut words = options.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} without a value"));
        match *word {
            "--port" => port = value()?.parse()?,
            "--linger" => linger = value()?.parse()?,
            "--unready" => READY.store(false, Ordering::Relaxed),
            other => bail!("{other:?} is none of --port, --linger, --unready"),
        }
    }
    signals::listen()?;
    let listener = TcpListener::bind(("::", port)).with_context(|| format!("port {port}"))?;
    println!("serving at port {port}");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                if let Err(error) = answer(stream) {
                    eprintln!("{error:#}");
                }
            });
        }
    });
    while !wait::interrupted() {
        thread::sleep(Duration::from_millis(20));
    }
    println!("asked to end; serving for {linger} s more");
    thread::sleep(Duration::from_secs(linger));
    Ok(())
}

fn answer(mut stream: TcpStream) -> Result<()> {
    stream.set_read_timeout(Some(SILENCE))?;
    stream.set_write_timeout(Some(SILENCE))?;
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let request = lines.next().context("nothing was asked")??;
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }
    let (status, body) = reply(&request, &stream)?;
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    )?;
    Ok(())
}

fn reply(request: &str, stream: &TcpStream) -> Result<(&'static str, String)> {
    let mut words = request.split(' ');
    let asked = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let ready = || READY.load(Ordering::Relaxed);
    Ok(match asked {
        ("GET", "/") => {
            let pod = env::var("HOSTNAME").unwrap_or_default();
            let (ours, theirs) = (stream.local_addr()?.ip(), stream.peer_addr()?.ip());
            let (ours, theirs) = (ours.to_canonical(), theirs.to_canonical());
            ("200 OK", json!({ "pod": pod, "address": ours, "client": theirs }).to_string())
        }
        ("GET", "/healthz") => ("200 OK", "{}".to_owned()),
        ("GET", "/readyz") if ready() => ("200 OK", "{}".to_owned()),
        ("GET", "/readyz") => ("503 Service Unavailable", "{}".to_owned()),
        ("POST", path) if path.starts_with("/ready?value=") => {
            READY.store(path.ends_with("=true"), Ordering::Relaxed);
            ("200 OK", json!({ "ready": ready() }).to_string())
        }
        _ => ("404 Not Found", "{}".to_owned()),
    })
}

fn ask(method: &str, url: &str) -> Result<()> {
    let rest = url.strip_prefix("http://").with_context(|| format!("{url:?}: http:// alone"))?;
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let mut addresses = host.to_socket_addrs().with_context(|| format!("{host:?}: HOST:PORT"))?;
    let address = addresses.next().with_context(|| format!("{host} has no address"))?;
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(3))
        .with_context(|| format!("connecting to {address}"))?;
    stream.set_read_timeout(Some(SILENCE))?;
    write!(stream, "{method} /{path} HTTP/1.0\r\nHost: {host}\r\n\r\n")?;
    let mut said = String::new();
    stream.read_to_string(&mut said)?;
    let (head, body) = said.split_once("\r\n\r\n").with_context(|| format!("it said {said:?}"))?;
    println!("{body}");
    ensure!(head.starts_with("HTTP/1.1 200 "), "{}", head.lines().next().unwrap_or_default());
    Ok(())
}
