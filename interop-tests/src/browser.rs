//! A real browser inside a namespace: Chromium without a screen, driven by chromedriver as a person
//! would (WebDriver), with what it logged and which requests it made.
//!
//! It sees what that namespace sees: a page on the node's own loopback address, and nothing of the
//! machine's network.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::binaries::tool;
use crate::netns::Netns;
use crate::process::Daemon;
use crate::wait::until;

/// A browser is slow where others build beside it.
const SLOW: Duration = Duration::from_secs(120);

/// Root has no sandbox to be in, and nothing is to be asked of the world.
const FLAGS: &[&str] = &[
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-dev-shm-usage",
    "--disable-domain-reliability",
    "--disable-extensions",
    "--disable-sync",
    "--no-proxy-server",
    "--force-device-scale-factor=1",
    "--lang=en",
];

/// Keys that are no letters, in WebDriver's writing.
pub mod key {
    /// Enter.
    pub const ENTER: &str = "\u{e007}";
    /// Tab.
    pub const TAB: &str = "\u{e004}";
    /// Escape.
    pub const ESCAPE: &str = "\u{e00c}";
    /// Arrow down.
    pub const DOWN: &str = "\u{e015}";
    /// Arrow up.
    pub const UP: &str = "\u{e013}";
}

/// A browser with one window. Dropping it ends it.
#[derive(Debug)]
pub struct Browser {
    netns: Netns,
    port: u16,
    session: String,
    driver: Daemon,
    // After the driver, which holds files open in it.
    _home: TempDir,
}

impl Browser {
    /// Starts one inside a namespace, whose loopback interface is up.
    pub fn start(netns: &Netns) -> Result<Self> {
        let home = tempfile::Builder::new().prefix("browser-").tempdir()?;
        let log = home.path().join("driver.log");
        let mut command = netns.command(tool("chromedriver")?)?;
        command.arg("--port=0").env("HOME", home.path()).env("TMPDIR", home.path());
        let mut driver = Daemon::start("chromedriver", &mut command, &log)?;
        let port = until("chromedriver to listen", SLOW, || {
            driver.ensure_alive()?;
            let said = std::fs::read_to_string(&log)?;
            let at = said.split("successfully on port ").nth(1).context("not yet")?;
            Ok(at.split('.').next().unwrap_or_default().trim().parse::<u16>()?)
        })?;
        let netns = Netns::of_someone_else(&netns.path())?;
        let mut browser = Self { netns, port, session: String::new(), driver, _home: home };
        let profile = format!("--user-data-dir={}", browser._home.path().join("profile").display());
        let flags: Vec<&str> = FLAGS.iter().copied().chain([profile.as_str()]).collect();
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": { "binary": tool("chromium")?, "args": flags },
            "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
        } } });
        let made = browser.call("POST", "/session", &wanted)?;
        let id = made.get("sessionId").and_then(Value::as_str).context("no session")?;
        browser.session = format!("/session/{id}");
        // What it asked for its own first page is none of ours.
        browser.open("about:blank")?;
        browser.requests()?;
        browser.console()?;
        Ok(browser)
    }

    /// One call of the WebDriver protocol; its value.
    fn call(&self, method: &str, path: &str, body: &Value) -> Result<Value> {
        let request = format!("{method} {path}");
        let answer = self.netns.within(|| exchange(self.port, method, path, body));
        let answer = answer.with_context(|| format!("asking chromedriver: {request}"))?;
        let value = answer.get("value").cloned().unwrap_or_default();
        if let Some(error) = value.get("error") {
            let words = value.get("message").and_then(Value::as_str).unwrap_or_default();
            bail!("{request} {body}: {error}: {words}");
        }
        Ok(value)
    }

    fn post(&self, path: &str, body: &Value) -> Result<Value> {
        self.call("POST", &format!("{}{path}", self.session), body)
    }

    /// Opens an address.
    pub fn open(&self, url: &str) -> Result<()> {
        self.post("/url", &json!({ "url": url })).map(drop)
    }

    /// Runs the body of a function in the page and returns what it returns.
    pub fn script(&self, body: &str, args: &[Value]) -> Result<Value> {
        self.post("/execute/sync", &json!({ "script": body, "args": args }))
    }

    /// The value of an expression in the page.
    pub fn value(&self, expression: &str) -> Result<Value> {
        self.script(&format!("return {expression};"), &[])
    }

    /// The same, where it is text.
    pub fn text(&self, expression: &str) -> Result<String> {
        let value = self.value(expression)?;
        Ok(value.as_str().with_context(|| format!("{expression} is {value}"))?.to_owned())
    }

    /// Awaits that an expression in the page is true.
    pub fn await_true(&self, what: &str, expression: &str) -> Result<()> {
        until(what, SLOW, || {
            let value = self.value(expression)?;
            ensure!(value == json!(true), "{expression} is {value}");
            Ok(())
        })
        .with_context(|| format!("the page shows:\n{}", self.shown()))
    }

    /// Awaits that the text of an element has something in it, and returns all of it.
    pub fn await_text(&self, selector: &str, wanted: &str) -> Result<String> {
        let text = format!("document.querySelector({})?.innerText ?? ''", json!(selector));
        until(&format!("{wanted:?} in {selector}"), SLOW, || {
            let said = self.text(&text)?;
            ensure!(said.contains(wanted), "{selector} says {said:?}");
            Ok(said)
        })
        .with_context(|| format!("the page shows:\n{}", self.shown()))
    }

    /// All that a person reads.
    pub fn shown(&self) -> String {
        self.text("document.body.innerText").unwrap_or_else(|error| format!("{error:#}"))
    }

    /// Presses keys one after the other, whatever has the focus.
    pub fn press(&self, keys: &str) -> Result<()> {
        let strokes: Vec<Value> = keys
            .chars()
            .flat_map(|key| ["keyDown", "keyUp"].map(|kind| json!({ "type": kind, "value": key })))
            .collect();
        let keyboard = json!({ "type": "key", "id": "keyboard", "actions": strokes });
        self.post("/actions", &json!({ "actions": [keyboard] })).map(drop)
    }

    /// Clicks in the middle of an element.
    pub fn click(&self, selector: &str) -> Result<()> {
        let found =
            self.post("/element", &json!({ "using": "css selector", "value": selector }))?;
        let id = found.as_object().and_then(|one| one.values().next()).and_then(Value::as_str);
        let id = id.with_context(|| format!("{selector}: {found}"))?;
        self.post(&format!("/element/{id}/click"), &json!({})).map(drop)
    }

    /// One command of the DevTools protocol.
    pub fn devtools(&self, command: &str, params: &Value) -> Result<Value> {
        self.post("/goog/cdp/execute", &json!({ "cmd": command, "params": params }))
    }

    /// Runs this in every page before the page's own scripts.
    pub fn prepare_pages(&self, script: &str) -> Result<()> {
        let source = json!({ "source": script });
        self.devtools("Page.addScriptToEvaluateOnNewDocument", &source).map(drop)
    }

    /// Makes the page so large.
    pub fn resize(&self, width: u32, height: u32) -> Result<()> {
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.devtools("Emulation.setDeviceMetricsOverride", &size).map(drop)
    }

    /// What the person prefers, such as `("prefers-color-scheme", "dark")`.
    pub fn prefer(&self, features: &[(&str, &str)]) -> Result<()> {
        let features: Vec<Value> =
            features.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect();
        self.devtools("Emulation.setEmulatedMedia", &json!({ "features": features })).map(drop)
    }

    /// What is in the window, as PNG.
    pub fn screenshot(&self) -> Result<Vec<u8>> {
        let picture = self.call("GET", &format!("{}/screenshot", self.session), &Value::Null)?;
        let picture = picture.as_str().context("no picture")?;
        STANDARD.decode(picture).map_err(|error| anyhow!("{error}"))
    }

    /// What the console said since it was last asked, with its levels.
    pub fn console(&self) -> Result<Vec<String>> {
        let entries = self.log("browser")?;
        let part =
            |entry: &Value, key: &str| entry.get(key).and_then(Value::as_str).map(str::to_owned);
        let line =
            |entry: &Value| Some(format!("{} {}", part(entry, "level")?, part(entry, "message")?));
        Ok(entries.iter().filter_map(line).collect())
    }

    /// Where it sent requests since it was last asked, of whichever kind.
    pub fn requests(&self) -> Result<Vec<String>> {
        let mut urls = Vec::new();
        for entry in self.log("performance")? {
            let text = entry.get("message").and_then(Value::as_str).context("no message")?;
            let event: Value = serde_json::from_str(text)?;
            let method = event.pointer("/message/method").and_then(Value::as_str);
            let url = match method {
                Some("Network.requestWillBeSent") => "/message/params/request/url",
                Some("Network.webSocketCreated") => "/message/params/url",
                _ => continue,
            };
            urls.extend(event.pointer(url).and_then(Value::as_str).map(str::to_owned));
        }
        Ok(urls)
    }

    fn log(&self, kind: &str) -> Result<Vec<Value>> {
        let entries = self.post("/se/log", &json!({ "type": kind }))?;
        Ok(entries.as_array().cloned().unwrap_or_default())
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The driver ends the browser's processes, which are not its own children's alone.
        if self.driver.ensure_alive().is_ok() && !self.session.is_empty() {
            let _gone_already = self.call("DELETE", &self.session, &Value::Null);
        }
    }
}

/// One HTTP exchange with whoever listens on a port of this thread's loopback address.
fn exchange(port: u16, method: &str, path: &str, body: &Value) -> Result<Value> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(SLOW))?;
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = Vec::new();
    let mut piece = [0; 16384];
    loop {
        if let Some(whole) = content(&answer)? {
            return Ok(serde_json::from_slice(whole)?);
        }
        let count = stream.read(&mut piece)?;
        ensure!(count > 0, "it broke off after {} bytes", answer.len());
        answer.extend(piece.iter().take(count));
    }
}

/// The body of an answer, once all of it is there.
fn content(answer: &[u8]) -> Result<Option<&[u8]>> {
    let Some(end) = answer.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Ok(None);
    };
    let (head, rest) = answer.split_at(end + 4);
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let length = head.split("content-length:").nth(1).and_then(|rest| rest.lines().next());
    let length: usize = length.context("an answer without a length")?.trim().parse()?;
    Ok(rest.get(..length))
}
