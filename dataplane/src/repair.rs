//! Makes a pod's link as recorded again, with as little as that takes.
//!
//! Decides between mending what is on the link and a new link, which only a
//! missing or wrong pair needs: it cuts the pod's connections for a moment,
//! mending does not. What differs is verify's to say.

use crate::admission;
use crate::apply::{attach, carry_out, on_host};
use crate::difference::Difference;
use crate::error::Error;
use crate::observe::find_link;
use crate::plan::{Ends, Place, Plan, PodLink, Step};
use crate::request::{self, Mode};
use crate::verify::verify;
use crate::worker::Worker;

/// Repairs, and says what there was to repair.
pub(crate) fn repair(worker: &mut Worker, link: &PodLink) -> Result<Vec<Difference>, Error> {
    let before = verify(worker, link)?;
    if before.is_empty() {
        return Ok(before);
    }
    if before.iter().any(|one| matches!(one, Difference::HostLinkForeign { .. })) {
        return Err(Error::NameTaken { name: link.host_ifname.clone() });
    }
    let mut left = before.clone();
    if left.iter().any(Difference::needs_new_link) {
        replace(worker, link)?;
        left = verify(worker, link)?;
    }
    if !left.is_empty() {
        mend(worker, link, &left)?;
        left = verify(worker, link)?;
    }
    if left.is_empty() {
        Ok(before)
    } else {
        Err(Error::NotRepaired { ifname: link.host_ifname.clone(), left })
    }
}

fn replace(worker: &mut Worker, link: &PodLink) -> Result<(), Error> {
    let host = worker.host()?;
    if let Some(remnant) = find_link(host, &link.host_ifname)? {
        host.ask("delete the remnant of a pod's link", request::delete_link(remnant.index))?;
    }
    attach(worker, link, Mode::Ensure).map(drop)
}

/// Every step once more, in the way that takes "already so" for an answer.
/// Except where the pod may have its own way: a smaller MTU, and a default
/// route out of another interface, are touched only if they differ.
fn mend(worker: &mut Worker, link: &PodLink, differences: &[Difference]) -> Result<(), Error> {
    let gone = || Error::NoSuchLink { name: link.host_ifname.clone() };
    let host = find_link(worker.host()?, &link.host_ifname)?.ok_or_else(gone)?;
    let pod = host.peer.ok_or_else(gone)?;
    let ends = Ends { host: host.index, pod, host_mac: host.mac };
    let mut plan = Plan::of(link);
    plan.pod.retain(|step| !step.is_pod_default() || is_missing(step, differences));
    if differences.iter().any(|one| matches!(one, Difference::PodMtu { .. })) {
        plan.pod.insert(0, Step::Mtu(Place::Pod, link.mtu));
    }
    let mut on_node = vec![Step::NotDoomed, Step::Mtu(Place::Host, link.mtu)];
    on_node.extend(plan.on_node().cloned());
    let mut pod = worker.channel_inside(&link.netns)?;
    let again = carry_out(&mut pod, &plan.pod, link, ends, Mode::Ensure)?;
    if !again.is_empty() {
        let root = worker.proc_sys().to_path_buf();
        worker.visit(&link.netns, || crate::sysctl::enable_ipv6(&root, &["lo", &link.ifname]))?;
        carry_out(&mut pod, &again, link, ends, Mode::Ensure)?;
    }
    on_host(worker, link, &on_node, ends, Mode::Ensure)?;
    worker.pardon(&link.host_ifname);
    admission::admit(&link.host_ifname, &link.anycast)
}

fn is_missing(step: &Step, differences: &[Difference]) -> bool {
    let Step::Route { destination: wanted, .. } = step else { return false };
    differences.iter().any(|one| {
        matches!(one, Difference::PodRouteMissing { destination, .. } if destination == wanted)
    })
}
