//! A pod's link goes, in two acts: routes at once, the link with others.
//!
//! Decides that DEL does not wait for the kernel to unregister a device
//! (20 ms each, but 100 in 50 ms when asked for at once): the link is marked
//! with a group, and one request deletes the group. Absent is as asked.

use std::net::IpAddr;

use ipnet::IpNet;
use rustix::io::Errno;

use crate::admission;
use crate::channel::Request;
use crate::error::Error;
use crate::fault;
use crate::names;
use crate::observe::find_link;
use crate::request::{self, DOOMED_GROUP};
use crate::view::LinkView;
use crate::worker::Worker;

/// A link of flock's on the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostLink {
    /// Its name.
    pub name: String,
    /// Its index.
    pub index: u32,
    /// Its hardware address.
    pub mac: [u8; 6],
    /// Its MTU.
    pub mtu: u32,
    /// Whether it is up.
    pub up: bool,
    /// Whether it is retired and waits for [`crate::Dataplane::reap`].
    pub doomed: bool,
    /// The index of its peer, in the pod's namespace.
    pub peer: Option<u32>,
}

impl From<LinkView> for HostLink {
    fn from(view: LinkView) -> Self {
        Self {
            name: view.name,
            index: view.index,
            mac: view.mac,
            mtu: view.mtu,
            up: view.up,
            doomed: view.group == DOOMED_GROUP,
            peer: view.peer,
        }
    }
}

/// Removes the pod's routes and marks its link.
pub(crate) fn retire(
    worker: &mut Worker,
    host_ifname: &str,
    own: &[IpAddr],
    anycast: &[IpAddr],
) -> Result<(), Error> {
    if !names::is_host_ifname(host_ifname) {
        let what = format!("retire {host_ifname}: not an interface of flock's");
        return Err(Error::BadRequest { what });
    }
    fault::point("retire.before")?;
    admission::revoke(host_ifname, anycast)?;
    let host = worker.host()?;
    let Some(link) = find_link(host, host_ifname)? else { return Ok(()) };
    let mut requests: Vec<Request> = own
        .iter()
        .map(|address| request::remove_link_route(link.index, IpNet::from(*address)))
        .collect();
    requests.push(request::set_group(link.index, DOOMED_GROUP));
    for answer in host.batch(&requests)? {
        match answer.verdict {
            Some(Err(refusal)) if refusal.is(Errno::SRCH) || refusal.is(Errno::NODEV) => {}
            Some(Err(refusal)) => {
                return Err(Error::Kernel { what: format!("retire {host_ifname}"), refusal });
            }
            _ => {}
        }
    }
    fault::point("retire.after")?;
    Ok(())
}

/// Deletes every marked link; returns when the kernel has let go of them.
pub(crate) fn reap(worker: &mut Worker) -> Result<(), Error> {
    fault::point("reap.before")?;
    match worker.host()?.ask("delete the retired links", request::delete_group(DOOMED_GROUP)) {
        Ok(_) => {}
        Err(Error::Kernel { refusal, .. }) if refusal.is(Errno::NODEV) => {}
        Err(error) => return Err(error),
    }
    fault::point("reap.after")?;
    Ok(())
}

/// Every link of flock's making.
pub(crate) fn links(worker: &mut Worker) -> Result<Vec<HostLink>, Error> {
    let messages = worker.host()?.dump("list interfaces", &request::all_links())?;
    let views = messages.iter().filter_map(LinkView::of);
    let ours = views.filter(|view| view.veth && names::is_host_ifname(&view.name));
    Ok(ours.map(HostLink::from).collect())
}
