//! What flock does with a call: put it to the agent, and make do without one.
//!
//! Decides how long each operation waits, what an absent agent means for it, and
//! that a DEL always ends: heard by the agent, or durable in the spool. Leaves
//! the doing to the agent.

use std::time::Duration;

use flock_cni::client::{self, CallError, Limits};
use flock_cni::error::{CHECK_FAILED, INTERNAL, NOT_AVAILABLE, TRY_AGAIN_LATER};
use flock_cni::spool::{self, SpoolEntry};
use flock_cni::{CniError, CniResult, Request};
use serde_json::Value;

use super::Call;
use super::environment::Verb;

/// An agent that does not take a connection in this time is away.
const CONNECT: Duration = Duration::from_secs(1);
/// The agent waits for the pod to appear, and for its own disk and kernel.
const WORK: Duration = Duration::from_secs(60);
/// STATUS is asked every few seconds, and only reads.
const STATUS: Duration = Duration::from_secs(5);
/// A DEL has 1.5 s in all; the rest is for the spool.
const DEL: Duration = Duration::from_secs(1);

pub(crate) fn carry_out(call: Call) -> Result<Option<Value>, CniError> {
    match call.verb {
        Verb::Add => add(call).map(Some),
        Verb::Del => del(call).map(|()| None),
        Verb::Check => check(call).map(|()| None),
        Verb::Gc => gc(call).map(|()| None),
        Verb::Status => ask(call, STATUS, NOT_AVAILABLE).map(|_| None),
        Verb::Version => Ok(None),
    }
}

fn add(mut call: Call) -> Result<Value, CniError> {
    let version = call.conf.cni_version;
    let earlier = call.conf.prev_result.take();
    // Before the agent is asked: what cannot be answered must not be attached.
    if let Some(earlier) = &earlier {
        CniResult::from_prev_result(earlier)?;
    }
    let Some(ours) = ask(call, WORK, TRY_AGAIN_LATER)? else {
        return Err(CniError::new(INTERNAL, "the flock agent answered ADD without a result"));
    };
    match earlier {
        Some(earlier) => ours.append_to(&earlier, version),
        None => Ok(ours.to_value(version)),
    }
}

fn check(mut call: Call) -> Result<(), CniError> {
    // The agent's record says what should be there, and it compares the kernel
    // with it; prevResult, where the runtime kept it, must not contradict.
    let last = call.conf.prev_result.take();
    let last = last.as_ref().map(CniResult::from_prev_result).transpose()?;
    let recorded = ask(call, WORK, TRY_AGAIN_LATER)?;
    let (Some(recorded), Some(last)) = (recorded, last) else {
        return Ok(());
    };
    let missing = recorded.missing_from(&last);
    if missing.is_empty() {
        return Ok(());
    }
    Err(CniError::new(CHECK_FAILED, missing.join("; "))
        .with_details("the result that the runtime kept is not of this attachment"))
}

fn gc(call: Call) -> Result<(), CniError> {
    call.conf.required_valid_attachments()?;
    ask(call, WORK, TRY_AGAIN_LATER).map(|_| ())
}

fn del(call: Call) -> Result<(), CniError> {
    let spool = call.conf.spool.clone();
    // Taken before the agent is asked: while it hangs, the namespace may go.
    let environment = &call.environment;
    let entry = SpoolEntry::now(&environment.container_id, &environment.ifname, &environment.netns);
    let socket = call.conf.socket.clone();
    let limits = Limits { connect: DEL, answer: DEL };
    let why = match client::call(&socket, &request(call), limits) {
        Ok(response) => match response.into_outcome() {
            Err(error) if error.code == TRY_AGAIN_LATER => error,
            outcome => return outcome.map(|_| ()),
        },
        Err(error @ (CallError::Away(_) | CallError::Garbled(_))) => {
            error.into_cni(&socket, TRY_AGAIN_LATER)
        }
        Err(error) => return Err(error.into_cni(&socket, TRY_AGAIN_LATER)),
    };
    spool::write(&spool, &entry).map_err(|error| {
        // Both halves of the trouble: the spool is only needed for want of an agent.
        let mut error = CniError::from(error);
        if !error.details.is_empty() {
            error.details.push_str("; ");
        }
        error.details.push_str(&why.msg);
        error
    })
}

fn ask(call: Call, answer: Duration, away: u32) -> Result<Option<CniResult>, CniError> {
    let socket = call.conf.socket.clone();
    let limits = Limits { connect: CONNECT, answer };
    client::call(&socket, &request(call), limits)
        .map_err(|error| error.into_cni(&socket, away))?
        .into_outcome()
}

fn request(call: Call) -> Request {
    Request {
        op: call.verb.as_str().to_owned(),
        container_id: call.environment.container_id,
        netns: call.environment.netns,
        ifname: call.environment.ifname,
        args: call.environment.args,
        path: call.environment.path,
        stdin_data: call.stdin,
    }
}
