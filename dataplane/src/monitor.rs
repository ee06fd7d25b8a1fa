//! Watches the kernel for what others do to what is flock's, and for changes
//! of the node's own networks.
//!
//! Decides which events matter and that none is ever silently missed: a full
//! channel or an overrun socket becomes [`Drift::Lost`], which means "look at
//! everything again" (and that of nftables what it tells of). A route that this
//! dataplane made or removed itself is passed over, and mostly the kernel does
//! not even tell (`hearing`). So is what it does to the policy. Otherwise telling a
//! removal of our own from another's is left to the agent, which knows its
//! wishes.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use netlink_packet_core::{DecodeError, NLM_F_REPLACE, ParseableParametrized};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::protocols::{NETLINK_NETFILTER, NETLINK_ROUTE};
use netlink_sys::{AsyncSocket, SocketAddr, TokioSocket};
use rustix::io::Errno;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::channel::{Channel, write_dump};
use crate::error::Error;
use crate::glance::{AddressGlance, LinkGlance, LinkState, RouteGlance};
use crate::learned::has_the_place_of_learned;
use crate::netns::Netns;
use crate::nftables::{self, NFT_MSG_DELCHAIN, NFT_MSG_DELRULE, NFT_MSG_DELTABLE, SUBSYSTEM};
use crate::policy;
use crate::reply::{Header, split};
use crate::request;
use crate::rules;
use crate::view::{AddressView, LinkView, RouteView};
use crate::worker::Ports;

/// Events waiting for the agent; when full, they become one `Lost`.
const EVENTS: usize = 1024;
/// Room in the kernel for a burst; asked for, not insisted on.
const ROUTE_BUFFER: usize = 4 * 1024 * 1024;
/// A new policy is an event for each of its elements, all at once: some 15 MB for a hundred
/// thousand. Taken only where it is needed, and until it is read.
const NETFILTER_BUFFER: usize = 64 * 1024 * 1024;
const RECEIVE: usize = 64 * 1024;

/// LINK, IPV4_IFADDR, IPV4_ROUTE, IPV6_IFADDR and IPV6_ROUTE (rtnetlink.h).
const ROUTE_GROUPS: u32 = (1 << 0) | (1 << 4) | (1 << 6) | (1 << 8) | (1 << 10);
const NFNLGRP_NFTABLES: u32 = 7;

const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const RTM_NEWADDR: u16 = 20;
const RTM_DELADDR: u16 = 21;
const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;

/// How long events gather before they are looked at: an ADD makes some thirty, and one wake-up
/// for all of them is enough. Repairs can wait that long.
const GATHER: Duration = Duration::from_millis(2);

/// Events that are looked at before others have their turn.
const AT_ONCE: usize = 1024;

/// Something of flock's that is no longer there, or around it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Drift {
    /// A host interface was deleted or renamed.
    LinkGone {
        /// Its name.
        name: String,
    },
    /// A host interface was taken down; its routes went with it.
    LinkDown {
        /// Its name.
        name: String,
    },
    /// A route of flock's was removed by another, or by the kernel, or a host
    /// or learned route replaced by another.
    RouteGone {
        /// Its destination.
        destination: IpNet,
    },
    /// An address was removed from a host interface.
    AddressGone {
        /// The interface.
        ifname: String,
        /// The address.
        address: IpNet,
    },
    /// The nftables table, a chain or a rule was removed; what it let
    /// through for anycast may be gone too, so pods want a repair.
    RulesGone,
    /// Something was done to the policy's table by another, or may have been:
    /// its elements, too, may be others now.
    PolicyGone,
    /// Something of the node's own networks changed: an interface that is not
    /// a pod's, an address on one, or a route of the main table that is not
    /// flock's. Routes may have gone with it: when a link goes down IPv4 drops
    /// them without a word. Told once for what happens at a time, and perhaps
    /// also when an address was only confirmed (DHCP, router advertisements).
    NetworksChanged,
    /// Events were lost: everything may differ.
    Lost,
}

/// Opens the sockets in the node's namespace and starts the watch. The
/// runtime around the caller must have its I/O driver on.
pub(crate) fn start(home: &Netns, own: Arc<Ports>) -> Result<mpsc::Receiver<Drift>, Error> {
    let runtime = Handle::try_current().map_err(|_| Error::NoRuntime)?;
    let (route, netfilter, links) = home.within({
        let runtime = runtime.clone();
        move || open(&runtime)
    })?;
    let route = Arc::new(route);
    own.listen(Arc::downgrade(&route));
    let (sender, receiver) = mpsc::channel(EVENTS);
    let watch = Watch {
        sender,
        own,
        lost: false,
        rules_gone: false,
        policy_gone: false,
        networks_changed: false,
        links,
    };
    runtime.spawn(watch.run(route, netfilter));
    Ok(receiver)
}

type Links = HashMap<u32, LinkState>;

fn open(runtime: &Handle) -> Result<(TokioSocket, TokioSocket, Links), Error> {
    let _registers_here = runtime.enter();
    let failed = |source| Error::Socket { what: "subscribe to events", source };
    let mut route = TokioSocket::new(NETLINK_ROUTE).map_err(failed)?;
    route.socket_mut().bind(&SocketAddr::new(0, ROUTE_GROUPS)).map_err(failed)?;
    let mut netfilter = TokioSocket::new(NETLINK_NETFILTER).map_err(failed)?;
    netfilter.socket_mut().bind(&SocketAddr::new(0, 0)).map_err(failed)?;
    netfilter.socket_ref().add_membership(NFNLGRP_NFTABLES).map_err(failed)?;
    let rooms = [(route.socket_ref(), ROUTE_BUFFER), (netfilter.socket_ref(), NETFILTER_BUFFER)];
    for (socket, room) in rooms {
        let _ = rustix::net::sockopt::set_socket_recv_buffer_size_force(socket, room);
    }
    // Listed after subscribing, so that no change falls between the two.
    let messages = Channel::route()?.dump("list interfaces", &request::all_links())?;
    let views = messages.iter().filter_map(LinkView::of);
    let links = views.map(|view| (view.index, LinkState::from(view)));
    Ok((route, netfilter, links.collect()))
}

/// What takes one event.
type Taker = fn(&mut Watch, Header, &[u8]);

/// The watch's own state.
struct Watch {
    sender: mpsc::Sender<Drift>,
    /// The sockets by which this dataplane asks.
    own: Arc<Ports>,
    lost: bool,
    /// Some of the rules went, and it is not told yet.
    rules_gone: bool,
    /// Somebody was at the policy, and it is not told yet.
    policy_gone: bool,
    /// The node's networks changed, and it is not told yet.
    networks_changed: bool,
    links: Links,
}

impl Watch {
    async fn run(mut self, route: Arc<TokioSocket>, netfilter: TokioSocket) {
        let mut buffer = Vec::with_capacity(RECEIVE);
        let mut rules_buffer = Vec::with_capacity(RECEIVE);
        loop {
            let sender = self.sender.clone();
            tokio::select! {
                () = sender.closed() => return,
                permit = sender.reserve(), if self.lost => {
                    let Ok(permit) = permit else { return };
                    permit.send(Drift::Lost);
                    self.lost = false;
                }
                result = receive(&route, &mut buffer) => {
                    let mut whole = self.take(result, &buffer, Self::route_event);
                    whole &= self.take_waiting(&route, &mut buffer, Self::route_event);
                    tokio::time::sleep(GATHER).await;
                    whole &= self.take_waiting(&route, &mut buffer, Self::route_event);
                    if !whole {
                        self.lost = true;
                        ask_for_links(&route);
                    }
                    if std::mem::take(&mut self.networks_changed) {
                        self.tell(Drift::NetworksChanged);
                    }
                }
                result = receive(&netfilter, &mut rules_buffer) => {
                    // Of what is lost here nothing else can be wrong.
                    let mut whole = self.take(result, &rules_buffer, Self::netfilter_event);
                    // One command of `nft` makes many events, and one repair answers them all.
                    tokio::time::sleep(GATHER).await;
                    whole &= self.take_waiting(&netfilter, &mut rules_buffer, Self::netfilter_event);
                    if std::mem::take(&mut self.policy_gone) || !whole {
                        self.tell(Drift::PolicyGone);
                    }
                    if std::mem::take(&mut self.rules_gone) || !whole {
                        self.tell(Drift::RulesGone);
                    }
                }
            }
        }
    }

    /// Takes what is there already; false where some of it was lost.
    fn take_waiting(&mut self, socket: &TokioSocket, buffer: &mut Vec<u8>, event: Taker) -> bool {
        let mut whole = true;
        for _ in 0..AT_ONCE {
            let Some(result) = receive_now(socket, buffer) else { break };
            whole &= self.take(result, buffer, event);
        }
        whole
    }

    /// Takes what was received; false where some of it was lost.
    fn take(&mut self, result: io::Result<()>, mut bytes: &[u8], event: Taker) -> bool {
        if let Err(error) = result {
            if error.raw_os_error() != Some(Errno::NOBUFS.raw_os_error()) {
                tracing::warn!(%error, "cannot read kernel events");
            }
            return false;
        }
        while let Some((header, payload, rest)) = split(bytes) {
            event(self, header, payload);
            bytes = rest;
        }
        // The rest is cut off, and so unread.
        bytes.is_empty()
    }

    fn tell(&mut self, drift: Drift) {
        // Once something is lost, the coming `Lost` covers all that follows.
        if !self.lost && self.sender.try_send(drift).is_err() {
            self.lost = true;
        }
    }

    fn route_event(&mut self, header: Header, payload: &[u8]) {
        match header.kind {
            // By far the most events are these.
            RTM_NEWLINK => {
                if let Some(link) = LinkGlance::of(payload) {
                    self.link_changed(link);
                }
            }
            RTM_DELLINK => {
                // A bridge also says so, in its own family, of a port that leaves it.
                if let Some(link) = LinkGlance::of(payload).filter(|link| link.family == 0) {
                    self.link_gone(&link);
                }
            }
            RTM_NEWADDR | RTM_DELADDR => {
                if let Some(address) = AddressGlance::of(payload) {
                    self.address_event(&header, address, payload);
                }
            }
            RTM_NEWROUTE | RTM_DELROUTE => {
                if let Some(route) = RouteGlance::of(payload) {
                    self.networks_changed |= !route.ours && route.in_main_table;
                    self.path_event(&header, route, payload);
                }
            }
            _ => {}
        }
    }

    fn link_changed(&mut self, link: LinkGlance<'_>) {
        let after = LinkState::from(link);
        let before = self.links.insert(link.index, after.clone());
        if before.as_ref() == Some(&after) {
            return;
        }
        let nodes = |state: &LinkState| !state.is_pods();
        self.networks_changed |= before.as_ref().is_some_and(nodes) || nodes(&after);
        match before.filter(LinkState::is_pods) {
            Some(before) if before.name != after.name => {
                self.tell(Drift::LinkGone { name: before.name });
            }
            Some(before) if before.up && !after.up => {
                self.tell(Drift::LinkDown { name: before.name });
            }
            _ => {}
        }
    }

    fn link_gone(&mut self, link: &LinkGlance<'_>) {
        let state = self.links.remove(&link.index).unwrap_or_else(|| (*link).into());
        if state.is_pods() {
            self.tell(Drift::LinkGone { name: state.name });
        } else {
            self.networks_changed = true;
        }
    }

    fn address_event(&mut self, header: &Header, address: AddressGlance, payload: &[u8]) {
        let gone = header.kind == RTM_DELADDR;
        let state = self.links.get(&address.index).filter(|state| state.is_pods());
        let Some(state) = state else {
            // One that is tentative was not there yet.
            self.networks_changed |= gone || !address.tentative;
            return;
        };
        let ifname = state.name.clone();
        if gone
            && let Ok(RouteNetlinkMessage::DelAddress(message)) = parse(header, payload)
            && let Some(view) = AddressView::read(&message)
        {
            self.tell(Drift::AddressGone { ifname, address: view.address });
        }
    }

    /// Read whole only where a route of ours may have gone.
    fn path_event(&mut self, header: &Header, glance: RouteGlance, payload: &[u8]) {
        let removed = header.kind == RTM_DELROUTE && glance.ours;
        // Also by one that bears our number: whoever wrote it, it is not what was promised.
        let replaced = header.kind == RTM_NEWROUTE && header.flags & NLM_F_REPLACE != 0;
        if !(removed || replaced) || self.own.route.contain(header.port) {
            return;
        }
        let view = match parse(header, payload) {
            Ok(RouteNetlinkMessage::NewRoute(route) | RouteNetlinkMessage::DelRoute(route)) => {
                RouteView::read(&route)
            }
            _ => None,
        };
        let Some(view) = view else { return };
        let host_route = view.destination.prefix_len() == view.destination.max_prefix_len();
        if removed || host_route || has_the_place_of_learned(&view) {
            self.tell(Drift::RouteGone { destination: view.destination });
        }
    }

    fn netfilter_event(&mut self, header: Header, payload: &[u8]) {
        // Of our own there may be a hundred thousand at once.
        if header.kind >> 8 != SUBSYSTEM
            || !nftables::is_inet(payload)
            || self.own.netfilter.contain(header.port)
        {
            return;
        }
        let named = |kind, name: &str| {
            nftables::find(payload, kind)
                .is_some_and(|value| value.strip_suffix(&[0]) == Some(name.as_bytes()))
        };
        // The table's name is attribute 1 in all of them; the chain's is 3 in
        // a chain's message and 2 in a rule's.
        self.policy_gone |= named(1, policy::TABLE);
        let gone = named(1, rules::TABLE)
            && match header.kind & 0xff {
                NFT_MSG_DELTABLE => true,
                NFT_MSG_DELCHAIN => rules::CHAINS.iter().any(|chain| named(3, chain)),
                NFT_MSG_DELRULE => rules::CHAINS.iter().any(|chain| named(2, chain)),
                _ => false,
            };
        self.rules_gone |= gone;
    }
}

fn parse(header: &Header, payload: &[u8]) -> Result<RouteNetlinkMessage, DecodeError> {
    RouteNetlinkMessage::parse_with_param(payload, header.kind)
}

async fn receive(socket: &TokioSocket, buffer: &mut Vec<u8>) -> io::Result<()> {
    std::future::poll_fn(|context| {
        buffer.clear();
        socket.poll_recv(context, buffer)
    })
    .await
}

/// What is there already, without waiting; `None` when nothing is. Not by
/// tokio, which lets a task have a hundred at a time: less than the kernel
/// makes in the time between.
fn receive_now(socket: &TokioSocket, buffer: &mut Vec<u8>) -> Option<io::Result<()>> {
    buffer.clear();
    match socket.socket_ref().recv(buffer, 0) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
        result => Some(result.map(drop)),
    }
}

/// After an overrun, links may have come of which the watch knows nothing.
/// The answer comes as events do, and is taken like them.
fn ask_for_links(socket: &TokioSocket) {
    let mut request = Vec::with_capacity(64);
    write_dump(&mut request, &request::all_links(), 0);
    if let Err(error) = socket.socket_ref().send_to(&request, &SocketAddr::new(0, 0), 0) {
        tracing::warn!(%error, "cannot list interfaces after kernel events were lost");
    }
}
