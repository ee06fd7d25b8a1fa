//! The loop: what comes in is told to the speaker, and what the speaker then asks for is carried
//! out. Decides the order in which things are looked at. Bytes are `traffic`'s.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;

use bytes::BytesMut;
use flock_bgp::{
    Action, ConnId, Event, Farewell, Notice, Now, Refusal, RouteChange, Speaker, SpeakerConfig,
};
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::task::{AbortHandle, JoinError, JoinSet, yield_now};
use tokio::time::Instant;
use tracing::debug;

use crate::connection::Connection;
use crate::counters::Md5Counters;
use crate::dial::{self, DialError, Dialled, Finished, Wanted};
use crate::handle::{Command, ConnectionStatus, Handle, Heard, Status};
use crate::listener::{Arrived, Listeners};
use crate::pace::Limiter;
use crate::ready::{ReadyList, Who};
use crate::{Listen, Running, StartError, channels, traffic};

/// Commands that came together are told together, so that what they originate goes out together.
const COMMANDS_PER_TURN: usize = 64;

/// Owns the speaker and every socket.
#[derive(Debug)]
pub(crate) struct Driver {
    pub(crate) speaker: Speaker,
    pub(crate) began: Instant,
    pub(crate) connections: HashMap<ConnId, Connection>,
    dials: HashMap<ConnId, Dial>,
    /// The counters when a peer was last heard to be silent.
    suspects: HashMap<IpAddr, Md5Counters>,
    dial_limiter: Arc<Limiter>,
    listeners: Listeners,
    /// The next accepted connection's number, odd.
    next_accepted: u64,
    /// Dials, and connections that are ending.
    pub(crate) tasks: JoinSet<Finished>,
    ready: Arc<ReadyList>,
    /// Connections that have something to send.
    pub(crate) woken: Vec<ConnId>,
    /// What all connections are read into.
    pub(crate) input: Box<[u8]>,
    /// What all connections are written from.
    pub(crate) output: BytesMut,
    pub(crate) received: u64,
    pub(crate) sent: u64,
    /// Who waits until everything is told.
    waiting: Vec<oneshot::Sender<Heard>>,
    notices: broadcast::Sender<Notice>,
    routes: mpsc::Sender<RouteChange>,
}

#[derive(Debug)]
struct Dial {
    remote: SocketAddr,
    password: bool,
    task: AbortHandle,
}

pub(crate) fn start(config: SpeakerConfig, listen: &Listen) -> Result<Running, StartError> {
    let ready = Arc::new(ReadyList::default());
    let listeners = Listeners::open(listen, &ready)?;
    let (commands, inbox) = channels::commands();
    let (notices, notices_out) = channels::notices();
    let (routes, routes_out) = channels::routes();
    let began = Instant::now();
    let handle = Handle { commands, listening: listeners.addresses(), began };
    let driver = Driver {
        speaker: Speaker::new(config),
        began,
        connections: HashMap::new(),
        dials: HashMap::new(),
        suspects: HashMap::new(),
        dial_limiter: Arc::new(Limiter::new(listen.pace.dials)),
        listeners,
        next_accepted: 1,
        tasks: JoinSet::new(),
        ready,
        woken: Vec::new(),
        input: vec![0; traffic::INPUT].into_boxed_slice(),
        output: BytesMut::new(),
        received: 0,
        sent: 0,
        waiting: Vec::new(),
        notices,
        routes,
    };
    tokio::spawn(driver.run(inbox));
    Ok(Running { handle, notices: notices_out, routes: routes_out })
}

impl Driver {
    async fn run(mut self, mut inbox: mpsc::Receiver<Command>) {
        let ready = Arc::clone(&self.ready);
        let routes = self.routes.clone();
        let mut commands = Vec::with_capacity(COMMANDS_PER_TURN);
        let mut sleep = pin!(tokio::time::sleep_until(self.began));
        let answer = loop {
            let full = self.offer_routes();
            let alarm = self.alarm();
            if let Some(at) = alarm.filter(|&at| at != sleep.deadline()) {
                sleep.as_mut().reset(at);
            }
            tokio::select! {
                count = inbox.recv_many(&mut commands, COMMANDS_PER_TURN) => {
                    if count == 0 {
                        self.tell(Event::Farewell(Farewell::Silent));
                        break None;
                    }
                    if let Some(answer) = self.obey(&mut commands) {
                        break Some(answer);
                    }
                }
                who = ready.next() => self.attend(who),
                Some(finished) = self.tasks.join_next() => self.finish(finished),
                // There is room for routes again, or nobody who wants them.
                _ = routes.reserve(), if full => {}
                () = &mut sleep, if alarm.is_some() => {
                    self.catch_up(&ready).await;
                    self.wake_up();
                }
            }
            self.flush();
            self.answer_waiting();
            // The runtime looks at sockets and the clock only when we let it, and a peer that sends
            // without end keeps us ready.
            yield_now().await;
        };
        self.end(answer).await;
    }

    /// Commands, in order; a farewell is the last.
    fn obey(&mut self, commands: &mut Vec<Command>) -> Option<oneshot::Sender<()>> {
        for command in commands.drain(..) {
            match command {
                Command::Tell(event) => self.tell(event),
                Command::Query(question) => question(&self.speaker),
                Command::Status(answer) => {
                    let _ = answer.send(self.status());
                }
                Command::Settled(answer) => self.waiting.push(answer),
                Command::Farewell(farewell, answer) => {
                    self.tell(Event::Farewell(farewell));
                    return Some(answer);
                }
            }
        }
        None
    }

    /// Those who wait until everything is told, once it is.
    fn answer_waiting(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        // Whoever gave up is not waited with.
        self.waiting.retain(|answer| !answer.is_closed());
        let taken = self.connections.values().all(|connection| connection.unsent() == 0);
        if taken && self.speaker.settled() {
            let heard = Heard { at: Instant::now(), sessions: self.speaker.sessions() };
            for answer in self.waiting.drain(..) {
                let _ = answer.send(heard);
            }
        }
    }

    /// Everything has been said: closes what is open and waits until it is.
    async fn end(mut self, answer: Option<oneshot::Sender<()>>) {
        self.listeners.close();
        for conn in self.connections.keys().copied().collect::<Vec<_>>() {
            self.close(conn);
        }
        for dial in self.dials.values() {
            dial.task.abort();
        }
        while self.tasks.join_next().await.is_some() {}
        if let Some(answer) = answer {
            let _ = answer.send(());
        }
    }

    fn now(&self) -> Now {
        Now(self.began.elapsed())
    }

    pub(crate) fn tell(&mut self, event: Event<'_>) {
        self.speaker.handle(self.now(), event);
        self.carry_out();
    }

    /// What the speaker asks for.
    pub(crate) fn carry_out(&mut self) {
        while let Some(action) = self.speaker.poll() {
            match action {
                Action::Dial { conn, remote, local, transport, patience } => {
                    self.dial(Wanted { conn, remote, local, transport, patience });
                }
                Action::Admit { remote, transport } => self.listeners.admit(remote, transport),
                Action::Expel { remote } => {
                    self.suspects.remove(&remote);
                    self.listeners.expel(remote);
                }
                Action::Wake(conn) => self.woken.push(conn),
                Action::Close(conn) => match self.dials.remove(&conn) {
                    Some(dial) => dial.task.abort(),
                    None => self.close(conn),
                },
                // Nobody may be listening.
                Action::Notice(notice) => drop(self.notices.send(notice)),
            }
        }
    }

    fn attend(&mut self, who: Who) {
        match who {
            Who::Connection(conn) => self.serve(conn),
            Who::Listener(index) => {
                let mut taken = Vec::new();
                self.listeners.accept(index, &mut taken);
                for Arrived { stream, local, remote, seat } in taken {
                    let conn = ConnId(self.next_accepted);
                    self.next_accepted += 2;
                    debug!(%remote, conn = conn.0, "connection accepted");
                    let connection = Connection::new(conn, stream, remote, &self.ready, Some(seat));
                    self.open(conn, connection, Event::Accepted(conn, local, remote));
                }
            }
        }
    }

    fn open(&mut self, conn: ConnId, connection: Connection, event: Event<'_>) {
        // Once around, so that it is listed from now on when bytes come.
        connection.come_again();
        self.connections.insert(conn, connection);
        self.tell(event);
    }

    fn dial(&mut self, wanted: Wanted) {
        let Wanted { conn, remote, .. } = wanted;
        debug!(%remote, conn = conn.0, "dialling");
        self.suspects.entry(remote.ip()).or_insert_with(Md5Counters::read);
        let password = wanted.transport.md5.is_some();
        let task = self.tasks.spawn(dial::dial(wanted, Arc::clone(&self.dial_limiter)));
        self.dials.insert(conn, Dial { remote, password, task });
    }

    fn finish(&mut self, finished: Result<Finished, JoinError>) {
        // A dial that was given up while it came to something is of no use any more.
        let Ok(Finished::Dialled(conn, outcome)) = finished else { return };
        let Some(dial) = self.dials.remove(&conn) else { return };
        match outcome {
            Ok(Dialled { stream, local, remote }) => {
                debug!(%remote, conn = conn.0, "connection opened");
                self.suspects.remove(&remote.ip());
                let connection = Connection::new(conn, stream, remote, &self.ready, None);
                self.open(conn, connection, Event::Dialled(conn, local, remote));
            }
            Err(error) => {
                let what = self.in_words(&dial, &error);
                debug!(remote = %dial.remote, conn = conn.0, %what, "dial failed");
                self.tell(Event::Refused(conn, Refusal { what: what.into() }));
            }
        }
    }

    /// The system's words, with the kernel's about passwords where it was silence.
    fn in_words(&mut self, dial: &Dial, error: &DialError) -> String {
        if matches!(error, DialError::System(_)) {
            return error.to_string();
        }
        let now = Md5Counters::read();
        let before = self.suspects.insert(dial.remote.ip(), now).unwrap_or(now);
        match now.suspicion(&before, dial.password) {
            Some(suspicion) => format!("{error}; {suspicion}"),
            None => error.to_string(),
        }
    }

    /// Gives the owner what the kernel should know, while there is room. Returns whether there is
    /// none.
    fn offer_routes(&mut self) -> bool {
        loop {
            match self.routes.try_reserve() {
                Ok(permit) => match self.speaker.poll_route() {
                    Some(change) => permit.send(change),
                    None => return false,
                },
                Err(mpsc::error::TrySendError::Full(())) => return true,
                Err(mpsc::error::TrySendError::Closed(())) => return false,
            }
        }
    }

    fn alarm(&self) -> Option<Instant> {
        let speaker = self.speaker.next_deadline().map(|Now(at)| self.began + at);
        speaker.into_iter().chain(self.listeners.resume_at()).min()
    }

    /// What came in before the clock is looked at: after a pause (a starved machine, a frozen one)
    /// the KEEPALIVEs that say that a peer lives are in its socket, and its hold time is over.
    async fn catch_up(&mut self, ready: &ReadyList) {
        yield_now().await; // The runtime looks at the sockets.
        for _ in 0..=self.connections.len() {
            let Some(who) = ready.take() else { break };
            self.attend(who);
        }
        while let Some(finished) = self.tasks.try_join_next() {
            self.finish(finished);
        }
    }

    fn wake_up(&mut self) {
        self.listeners.resume(Instant::now());
        if self.speaker.next_deadline().is_some_and(|at| at <= self.now()) {
            self.tell(Event::Tick);
        }
    }

    fn status(&self) -> Status {
        let mut connections: Vec<_> = self
            .connections
            .iter()
            .map(|(&conn, connection)| ConnectionStatus {
                conn,
                remote: connection.remote(),
                unsent: connection.unsent(),
            })
            .collect();
        connections.sort_unstable_by_key(|connection| connection.conn);
        Status {
            connections,
            dialling: self.dials.len(),
            arrivals: self.listeners.arrivals,
            received: self.received,
            sent: self.sent,
        }
    }
}
