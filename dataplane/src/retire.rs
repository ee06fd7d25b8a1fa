//! A pod's link goes, in two acts: routes at once, the link with others.
//!
//! Decides that DEL does not wait for the kernel to unregister a device
//! (20 ms each, but 100 in 50 ms when asked for at once): the link is condemned,
//! and later all of them are given a group, which one request deletes. Only then,
//! because a link that is up and gets a group is news to the kernel, for which it
//! walks all IPv6 routes of the node. Absent is as asked.

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
    /// Whether it is retired and waits for [`crate::Dataplane::reap`], of this
    /// process or, once it has its group, of any.
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

/// Removes the pod's routes and condemns its link.
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
    let requests: Vec<Request> = own
        .iter()
        .map(|address| request::remove_link_route(link.index, IpNet::from(*address)))
        .collect();
    for answer in host.batch(&requests)? {
        match answer.verdict {
            Some(Err(refusal)) if refusal.is(Errno::SRCH) || refusal.is(Errno::NODEV) => {}
            Some(Err(refusal)) => {
                return Err(Error::Kernel { what: format!("retire {host_ifname}"), refusal });
            }
            _ => {}
        }
    }
    worker.condemn(host_ifname);
    fault::point("retire.after")?;
    Ok(())
}

/// Deletes every condemned link, and what a process before this one has left
/// of them; returns when the kernel has let go of them.
pub(crate) fn reap(worker: &mut Worker) -> Result<(), Error> {
    fault::point("reap.before")?;
    let condemned = worker.condemned();
    let mark = |name: &String| request::set_group_named(name, DOOMED_GROUP);
    let mut requests: Vec<Request> = condemned.iter().map(mark).collect();
    requests.push(request::delete_group(DOOMED_GROUP));
    for answer in worker.host()?.batch(&requests)? {
        match answer.verdict {
            Some(Err(refusal)) if !refusal.is(Errno::NODEV) => {
                return Err(Error::Kernel { what: "delete the retired links".to_owned(), refusal });
            }
            _ => {}
        }
    }
    for name in &condemned {
        worker.pardon(name);
    }
    fault::point("reap.after")?;
    Ok(())
}

/// Every link of flock's making.
pub(crate) fn links(worker: &mut Worker) -> Result<Vec<HostLink>, Error> {
    let messages = worker.host()?.dump("list interfaces", &request::all_links())?;
    let views = messages.iter().filter_map(LinkView::of);
    let ours = views.filter(|view| view.veth && names::is_host_ifname(&view.name));
    let told = |view: LinkView| {
        worker.indices().seen(view.index);
        let condemned = worker.is_condemned(&view.name);
        let link = HostLink::from(view);
        HostLink { doomed: link.doomed || condemned, ..link }
    };
    Ok(ours.map(told).collect())
}
