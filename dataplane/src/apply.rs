//! Carries a plan out: a pod's link comes to be, all of it or nothing.
//!
//! Decides the rounds (birth, inside the pod, on the node, IPv4 on the node and
//! readiness, and what nobody waits for) and which refusals are none. What the
//! steps are is the plan's; taking back what was done is undo's.

use std::net::IpAddr;

use ipnet::IpNet;
use netlink_packet_route::route::RouteType;
use rustix::io::Errno;

use crate::admission;
use crate::channel::{Channel, Request};
use crate::error::{Error, Refusal};
use crate::fault;
use crate::glance;
use crate::learned::{beneath, is_learned};
use crate::observe::first_route;
use crate::plan::{Ends, GATEWAY6, Inverse, LOOPBACK, Place, Plan, PodLink, Step};
use crate::readiness;
use crate::reply::Answer;
use crate::request::{self, Mode};
use crate::routes;
use crate::sysctl;
use crate::undo;
use crate::view::{LinkView, RouteView};
use crate::worker::Worker;

const RTM_NEWLINK: u16 = 16;

/// What the kernel gave to one end of a pod's link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkFacts {
    /// The interface's name.
    pub name: String,
    /// Its index.
    pub index: u32,
    /// Its hardware address.
    pub mac: [u8; 6],
    /// Its MTU.
    pub mtu: u32,
}

/// A pod's link that is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wired {
    /// The node's end.
    pub host: LinkFacts,
    /// The pod's end.
    pub pod: LinkFacts,
}

/// A link that is wired but for IPv4 on the node, and about to carry its first
/// packet: the rest is [`crate::Dataplane::awaken`]'s.
#[derive(Debug)]
pub struct Waking {
    pod: Channel,
    link: PodLink,
    ends: Ends,
}

impl From<LinkView> for LinkFacts {
    fn from(view: LinkView) -> Self {
        Self { name: view.name, index: view.index, mac: view.mac, mtu: view.mtu }
    }
}

/// Wires a pod and waits until the first packet may come. On an error
/// everything is as before.
pub(crate) fn attach(worker: &mut Worker, link: &PodLink, mode: Mode) -> Result<Wired, Error> {
    let (wired, _) = all_or_nothing(worker, link, |worker, pod, journal| {
        let (wired, ends) = worker.in_turn(|worker| wire(worker, pod, link, mode, journal))?;
        make_ready(worker, pod, link, ends, mode)?;
        Ok(wired)
    })?;
    finish(worker, wired.host.index)?;
    Ok(wired)
}

/// The same without the last rounds, for who has something to do meanwhile.
pub(crate) fn begin(worker: &mut Worker, link: &PodLink) -> Result<(Wired, Waking), Error> {
    let ((wired, ends), pod) = all_or_nothing(worker, link, |worker, pod, journal| {
        worker.in_turn(|worker| wire(worker, pod, link, Mode::Create, journal))
    })?;
    Ok((wired, Waking { pod, link: link.clone(), ends }))
}

/// And the last but one. On an error the link is as it was, if it is there at all.
pub(crate) fn awaken(worker: &mut Worker, waking: Waking) -> Result<(), Error> {
    let Waking { mut pod, link, ends } = waking;
    make_ready(worker, &mut pod, &link, ends, Mode::Create)
}

/// The last round, for which nobody waits. To ask for the link is to have the
/// kernel tell everybody that it has a carrier (see `indices.rs`),
/// at the cost of a walk over all IPv6 routes. And on a node that forwards, a
/// subnet has a router's anycast address (RFC 4291 §2.6.1), here `fe80::` on
/// every link: one more long list of routes to one prefix that each such walk
/// goes through, and that leads nobody anywhere. What is not there is well.
pub(crate) fn finish(worker: &mut Worker, index: u32) -> Result<(), Error> {
    let requests = [request::link_by_index(index), request::remove_gateway_anycast(index)];
    worker.host()?.batch(&requests).map(drop)
}

fn all_or_nothing<T>(
    worker: &mut Worker,
    link: &PodLink,
    work: impl FnOnce(&mut Worker, &mut Channel, &mut Vec<Inverse>) -> Result<T, Error>,
) -> Result<(T, Channel), Error> {
    link.check()?;
    let mut pod = worker.channel_inside(&link.netns)?;
    fault::point("attach.before-create")?;
    let mut journal = Vec::new();
    match work(worker, &mut pod, &mut journal) {
        Ok(done) => Ok((done, pod)),
        Err(error) => {
            undo::undo(worker, &mut pod, &link.host_ifname, journal);
            Err(error)
        }
    }
}

fn wire(
    worker: &mut Worker,
    pod: &mut Channel,
    link: &PodLink,
    mode: Mode,
    journal: &mut Vec<Inverse>,
) -> Result<(Wired, Ends), Error> {
    let plan = Plan::of(link);
    let (host, peer) = give_birth(worker, pod, link, mode, journal)?;
    let ends = Ends { host: host.index, pod: peer, host_mac: host.mac };
    fault::point("attach.after-create")?;
    let facts = inside_pod(worker, pod, link, &plan, ends, journal)?;
    fault::point("attach.after-pod")?;
    on_host(worker, link, &plan.host, ends, mode)?;
    if !link.anycast.is_empty() {
        journal.push(Inverse::Revoke(link.anycast.clone()));
        admission::admit(&link.host_ifname, &link.anycast)?;
    }
    fault::point("attach.after-host")?;
    Ok((Wired { host: host.into(), pod: facts.into() }, ends))
}

/// The pair is born, its far end in the pod: our end, and the far index. In the same round the
/// kernel is asked whether it already has a route for one of the addresses. Where the index that both
/// ends should have may be taken, it is born with those that the kernel chooses.
fn give_birth(
    worker: &mut Worker,
    pod: &mut Channel,
    link: &PodLink,
    mode: Mode,
    journal: &mut Vec<Inverse>,
) -> Result<(LinkView, u32), Error> {
    let index = worker.indices().next();
    match born_with(Some(index), worker, pod, link, mode, journal) {
        Err(Error::PodInterfaceTaken { .. }) => {}
        Err(Error::Kernel { refusal, .. }) if refusal.is(Errno::BUSY) => {}
        outcome => return outcome,
    }
    born_with(None, worker, pod, link, mode, journal)
}

fn born_with(
    index: Option<u32>,
    worker: &mut Worker,
    pod: &mut Channel,
    link: &PodLink,
    mode: Mode,
    journal: &mut Vec<Inverse>,
) -> Result<(LinkView, u32), Error> {
    let name = &link.host_ifname;
    let mut requests = vec![request::create_veth(link, index), request::link_by_name(name)];
    let asked: Vec<IpAddr> = match mode {
        Mode::Create => link.own_addresses().chain(link.anycast.iter().copied()).collect(),
        Mode::Ensure | Mode::Beside => Vec::new(),
    };
    requests.extend(asked.iter().map(|address| request::lookup(*address, true)));
    let answers = worker.host()?.batch(&requests);
    // The request may have arrived although the answer did not.
    let answers = answers.inspect_err(|_| undo::lost_birth(worker, pod, link))?;
    let mut answers = answers.into_iter();
    let (born, found) = (answers.next().unwrap_or_default(), answers.next().unwrap_or_default());
    let view = first_link(&found);
    match born.verdict {
        Some(Err(refusal)) if refusal.is(Errno::EXIST) => {
            // One errno for both ends; ours is taken if a link has its name.
            return Err(match view {
                Some(_) => Error::NameTaken { name: name.clone() },
                None => Error::PodInterfaceTaken {
                    ifname: link.ifname.clone(),
                    netns: link.netns.path().to_path_buf(),
                },
            });
        }
        Some(Err(refusal)) => {
            return Err(Error::Kernel { what: format!("create veth {name}"), refusal });
        }
        _ => journal.push(Inverse::DeleteLink),
    }
    let missing = || Error::Malformed {
        what: format!("create veth {name}"),
        detail: "no description of the new link".to_owned(),
    };
    let view = view.ok_or_else(missing)?;
    let peer = view.peer.ok_or_else(missing)?;
    for (address, answer) in asked.into_iter().zip(answers) {
        refuse_taken(worker.host()?, address, &answer, link.anycast.contains(&address))?;
    }
    Ok((view, peer))
}

fn refuse_taken(
    host: &mut Channel,
    address: IpAddr,
    answer: &Answer,
    anycast: bool,
) -> Result<(), Error> {
    let Some(entry) = first_route(answer) else { return Ok(()) };
    if is_taken(address, &entry, anycast) || anycast && is_taken_beneath(host, address, &entry)? {
        return Err(Error::AddressTaken { address });
    }
    Ok(())
}

/// Whether the table entry that decides about an address makes it somebody
/// else's. For a pod's own it is an entry for just that address: another pod,
/// the node itself, or what was learned. An anycast address may have one, if
/// it is ours and no pod's; but it must not be on a network that the node is
/// connected to, or a pod could take its router's packets.
fn is_taken(address: IpAddr, entry: &RouteView, anycast: bool) -> bool {
    let exact = entry.destination == IpNet::from(address);
    if !anycast {
        return exact;
    }
    if exact {
        return !routes::admits_anycast(entry);
    }
    let connected = entry.kind == RouteType::Unicast && entry.hops.iter().all(|h| h.via.is_none());
    connected && entry.destination.prefix_len() > 0
}

/// The same for an anycast address about which a learned route decides: what
/// was learned must not hide a network that the node is connected to. Nothing
/// is beneath a default route.
fn is_taken_beneath(host: &mut Channel, address: IpAddr, entry: &RouteView) -> Result<bool, Error> {
    if !is_learned(entry) || entry.destination.prefix_len() == 0 {
        return Ok(false);
    }
    Ok(beneath(host, address)?.is_some_and(|entry| is_taken(address, &entry, true)))
}

/// The second round. Also learns whether loopback was up before, because
/// only what we brought up is taken down again. The pair is new, so all on it
/// is created; a default route that exists leads out of another interface,
/// and taking it over would cut that one off. Returns the pod's end.
fn inside_pod(
    worker: &mut Worker,
    pod: &mut Channel,
    link: &PodLink,
    plan: &Plan,
    ends: Ends,
    journal: &mut Vec<Inverse>,
) -> Result<LinkView, Error> {
    let mode = Mode::Create;
    let mut requests = vec![request::link_by_index(LOOPBACK), request::link_by_index(ends.pod)];
    requests.extend(plan.pod.iter().map(|step| step.request(ends, mode)));
    let mut answers = pod.batch(&requests)?.into_iter();
    let loopback = answers.next().as_ref().and_then(first_link);
    let facts = answers.next().as_ref().and_then(first_link);
    let loopback_was_up = loopback.is_some_and(|view| view.up);
    let mut again = Vec::new();
    let mut refused = None;
    for (step, answer) in plan.pod.iter().zip(answers) {
        match settle(step, answer.verdict, link, mode) {
            Settled::Done if *step == Step::Up(Place::Loopback) && loopback_was_up => {}
            Settled::Done => journal.extend(step.inverse()),
            Settled::WasSo => {}
            Settled::Ipv6Disabled => again.push(step.clone()),
            Settled::Refused(error) => refused = refused.or(Some(error)),
        }
    }
    if let Some(error) = refused {
        return Err(error);
    }
    if !again.is_empty() {
        let root = worker.proc_sys().to_path_buf();
        worker.visit(&link.netns, || sysctl::enable_ipv6(&root, &["lo", &link.ifname]))?;
        retry(pod, &again, link, ends, mode, journal)?;
    }
    facts.ok_or_else(|| Error::NoSuchLink { name: link.ifname.clone() })
}

/// The fourth round, and the wait until the first packet may come. The node's end came up when the
/// pod's was, so that it has sent from the beginning; the pod's has to be noticed.
fn make_ready(
    worker: &mut Worker,
    pod: &mut Channel,
    link: &PodLink,
    ends: Ends,
    mode: Mode,
) -> Result<(), Error> {
    on_host(worker, link, &Plan::of(link).beside, ends, mode)?;
    readiness::carrier(pod, ends.pod)?;
    readiness::solicitations(pod, ends.pod, link.own_addresses())?;
    let gateway = link.ip6.map(|_| GATEWAY6.into());
    readiness::solicitations(worker.host()?, ends.host, gateway.into_iter())
}

/// The third round.
pub(crate) fn on_host(
    worker: &mut Worker,
    link: &PodLink,
    steps: &[Step],
    ends: Ends,
    mode: Mode,
) -> Result<(), Error> {
    let again = carry_out(worker.host()?, steps, link, ends, mode)?;
    if !again.is_empty() {
        sysctl::enable_ipv6(worker.proc_sys(), &[&link.host_ifname])?;
        // All of it dies with the link, so there is nothing to note.
        retry(worker.host()?, &again, link, ends, mode, &mut Vec::new())?;
    }
    Ok(())
}

/// Sends steps in one go; those that found IPv6 disabled come back.
pub(crate) fn carry_out(
    channel: &mut Channel,
    steps: &[Step],
    link: &PodLink,
    ends: Ends,
    mode: Mode,
) -> Result<Vec<Step>, Error> {
    let requests: Vec<Request> = steps.iter().map(|step| step.request(ends, mode)).collect();
    let answers = channel.batch(&requests)?;
    let mut again = Vec::new();
    for (step, answer) in steps.iter().zip(answers) {
        match settle(step, answer.verdict, link, mode) {
            Settled::Done | Settled::WasSo => {}
            Settled::Ipv6Disabled => again.push(step.clone()),
            Settled::Refused(error) => return Err(error),
        }
    }
    Ok(again)
}

fn retry(
    channel: &mut Channel,
    steps: &[Step],
    link: &PodLink,
    ends: Ends,
    mode: Mode,
    journal: &mut Vec<Inverse>,
) -> Result<(), Error> {
    journal.extend(steps.iter().filter_map(Step::inverse));
    let left = carry_out(channel, steps, link, ends, mode)?;
    match left.first() {
        None => Ok(()),
        Some(step) => Err(Error::Kernel {
            what: format!("{step}: IPv6 stays disabled"),
            refusal: Refusal { code: Errno::ACCESS.raw_os_error(), text: None },
        }),
    }
}

/// What a verdict means for the step that it answers.
enum Settled {
    Done,
    WasSo,
    Ipv6Disabled,
    Refused(Error),
}

fn settle(
    step: &Step,
    verdict: Option<Result<(), Refusal>>,
    link: &PodLink,
    mode: Mode,
) -> Settled {
    let Some(Err(refusal)) = verdict else { return Settled::Done };
    let exists = refusal.is(Errno::EXIST);
    match step {
        // The pod is free to have it there already.
        Step::Address(Place::Loopback, _) if exists => Settled::WasSo,
        // By another interface of the pod's.
        _ if exists && step.is_pod_default() => Settled::WasSo,
        _ if exists && mode == Mode::Ensure => Settled::WasSo,
        Step::Route { at: Place::Host, destination, .. } if exists => {
            Settled::Refused(Error::AddressTaken { address: destination.addr() })
        }
        // A kernel without IPv6 generates no address either.
        Step::NoAutomaticAddress(_) if link.ip6.is_none() => Settled::WasSo,
        Step::Address(_, IpNet::V6(_)) | Step::Route { destination: IpNet::V6(_), .. }
            if refusal.is(Errno::ACCESS) =>
        {
            Settled::Ipv6Disabled
        }
        // The same in the neighbour table's words.
        Step::Neighbour if refusal.is(Errno::INVAL) => Settled::Ipv6Disabled,
        _ => Settled::Refused(Error::Kernel {
            what: format!("{}: {step}", link.host_ifname),
            refusal,
        }),
    }
}

/// The link that an answer describes.
pub(crate) fn first_link(answer: &Answer) -> Option<LinkView> {
    let mut links = answer.replies.iter().filter(|reply| reply.kind == RTM_NEWLINK);
    links.find_map(|reply| glance::link(&reply.payload))
}
