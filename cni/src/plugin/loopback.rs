//! The standard plugin `loopback`, for nodes that have none: containerd calls it
//! for every pod before the network's own plugins.
//!
//! Decides as the upstream plugin does, with two differences: DEL leaves `lo`
//! alone (its namespace is about to go, and other plugins' DELs may come after),
//! and addresses on `lo` that are not loopback ones (anycast) are no error.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::path::Path;

use flock_cni::error::{CHECK_FAILED, INTERNAL, INVALID_ENVIRONMENT};
use flock_cni::result::{Interface, IpConfig};
use flock_cni::{CniError, CniResult, NetnsId};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;

use super::Call;
use super::environment::Verb;
use super::rtnetlink::{LOOPBACK_INDEX, Rtnetlink};

pub(crate) fn carry_out(call: &Call) -> Result<Option<Value>, CniError> {
    match call.verb {
        Verb::Add => add(call).map(Some),
        Verb::Check => check(call).map(|()| None),
        Verb::Del | Verb::Gc | Verb::Status | Verb::Version => Ok(None),
    }
}

fn add(call: &Call) -> Result<Value, CniError> {
    let version = call.conf.cni_version;
    let earlier = call.conf.prev_result.as_ref();
    if let Some(earlier) = earlier {
        CniResult::from_prev_result(earlier)?;
    }
    enter(&call.environment.netns)?;
    let kernel = Rtnetlink::open().map_err(refused("netlink"))?;
    kernel.set_up(LOOPBACK_INDEX).map_err(refused("set lo up"))?;
    // As upstream: what an earlier plugin said is passed on as it is.
    if let Some(earlier) = earlier {
        return CniResult::default().append_to(earlier, version);
    }
    let addresses = kernel.addresses(LOOPBACK_INDEX).map_err(refused("read lo's addresses"))?;
    let lo = Interface {
        name: "lo".into(),
        mac: "00:00:00:00:00:00".into(),
        mtu: None,
        sandbox: Some(call.environment.netns.clone()),
    };
    let ips = addresses
        .into_iter()
        .filter(|address| address.address().is_loopback())
        .map(|address| IpConfig { address, gateway: None, interface: Some(0) })
        .collect();
    let result = CniResult { interfaces: vec![lo], ips, ..CniResult::default() };
    Ok(result.to_value(version))
}

fn check(call: &Call) -> Result<(), CniError> {
    enter(&call.environment.netns)?;
    let kernel = Rtnetlink::open().map_err(refused("netlink"))?;
    if kernel.is_up(LOOPBACK_INDEX).map_err(refused("read lo"))? {
        return Ok(());
    }
    let msg = format!("lo is down in {}", call.environment.netns);
    Err(CniError::new(CHECK_FAILED, msg))
}

/// Moves this thread, the only one, and for good: the process ends after this.
fn enter(netns: &str) -> Result<(), CniError> {
    let unusable = |reason: String| {
        CniError::new(INVALID_ENVIRONMENT, format!("CNI_NETNS {netns:?}: {reason}"))
    };
    NetnsId::of_path(Path::new(netns)).map_err(|error| unusable(error.to_string()))?;
    let file = File::open(netns).map_err(|error| unusable(error.to_string()))?;
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
        .map_err(|error| unusable(format!("enter: {error}")))
}

fn refused(act: &'static str) -> impl FnOnce(std::io::Error) -> CniError {
    move |error| CniError::new(INTERNAL, format!("loopback: {act}: {error}"))
}
