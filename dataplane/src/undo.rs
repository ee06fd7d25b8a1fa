//! Takes back what an attach did, in reverse.
//!
//! Decides that nothing stops it: an error is told and the rest still goes.

use ipnet::{IpNet, Ipv4Net};
use rustix::io::Errno;

use crate::admission;
use crate::channel::{Channel, Request};
use crate::error::Error;
use crate::observe::{addresses, find_link};
use crate::plan::{Inverse, LOOPBACK, PodLink};
use crate::request;
use crate::verify::are_peers;
use crate::view::LinkView;
use crate::worker::Worker;

/// Undoes the journal, the last entry first.
pub(crate) fn undo(
    worker: &mut Worker,
    pod: &mut Channel,
    host_ifname: &str,
    journal: Vec<Inverse>,
) {
    for inverse in journal.into_iter().rev() {
        let result = match &inverse {
            Inverse::DeleteLink => {
                worker.host().and_then(|host| run(host, &[request::delete_link_named(host_ifname)]))
            }
            Inverse::Revoke(addresses) => admission::revoke(host_ifname, addresses),
            Inverse::LoopbackDown => run(pod, &loopback_as_born()),
            Inverse::RemoveFromLoopback(address) => {
                run(pod, &[request::remove_address(LOOPBACK, *address)])
            }
        };
        if let Err(error) = result {
            tracing::error!(%error, interface = host_ifname, ?inverse, "could not undo a step");
        }
    }
}

/// Deletes the pair whose birth was asked for but never answered, if there is
/// one. Any doubt and it stays: the name may have been another's before.
pub(crate) fn lost_birth(worker: &mut Worker, pod: &mut Channel, link: &PodLink) {
    let result = worker.host().and_then(|host| match newborn(host, pod, link)? {
        Some(index) => run(host, &[request::delete_link(index)]),
        None => Ok(()),
    });
    if let Err(error) = result {
        let interface = &link.host_ifname;
        tracing::error!(%error, interface, "could not look after a birth without an answer");
    }
}

/// The index of a pair of these names, between this node and this pod, to
/// which nothing has been done yet.
fn newborn(host: &mut Channel, pod: &mut Channel, link: &PodLink) -> Result<Option<u32>, Error> {
    let near = find_link(host, &link.host_ifname)?;
    let far = find_link(pod, &link.ifname)?;
    let (Some(near), Some(far)) = (near, far) else { return Ok(None) };
    let untouched = |view: &LinkView| view.veth && !view.up && view.group == 0 && !view.enslaved;
    if !untouched(&near) || !untouched(&far) || !are_peers(&near, &far) {
        return Ok(None);
    }
    let bare = addresses(host, near.index)?.is_empty() && addresses(pod, far.index)?.is_empty();
    Ok(bare.then_some(near.index))
}

/// Up gave it 127.0.0.1/8, which down would leave; ::1 goes by itself.
fn loopback_as_born() -> Vec<Request> {
    let own = Ipv4Net::new(std::net::Ipv4Addr::LOCALHOST, 8).map(IpNet::V4);
    let mut requests: Vec<Request> =
        own.iter().map(|own| request::remove_address(LOOPBACK, *own)).collect();
    requests.push(request::set_up(LOOPBACK, false));
    requests
}

fn run(channel: &mut Channel, requests: &[Request]) -> Result<(), Error> {
    for answer in channel.batch(requests)? {
        if let Some(Err(refusal)) = answer.verdict {
            let gone = [Errno::NODEV, Errno::ADDRNOTAVAIL, Errno::SRCH];
            if !gone.into_iter().any(|errno| refusal.is(errno)) {
                return Err(Error::Kernel { what: "undo".to_owned(), refusal });
            }
        }
    }
    Ok(())
}
