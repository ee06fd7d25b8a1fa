//! Watches the kernel for what others do to what is flock's.
//!
//! Decides which events matter and that none is ever silently missed: a full
//! channel or an overrun socket becomes [`Drift::Lost`], which means "look at
//! everything again". Telling a removal of our own from another's is left to
//! the agent, which knows its wishes.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use ipnet::IpNet;
use netlink_packet_core::{NLM_F_REPLACE, ParseableParametrized};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::protocols::{NETLINK_NETFILTER, NETLINK_ROUTE};
use netlink_sys::{AsyncSocket, SocketAddr, TokioSocket};
use rustix::io::Errno;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::channel::Channel;
use crate::error::Error;
use crate::names;
use crate::netns::Netns;
use crate::nftables::{self, NFT_MSG_DELCHAIN, NFT_MSG_DELRULE, NFT_MSG_DELTABLE, SUBSYSTEM};
use crate::reply::{Header, split};
use crate::request::{self, PROTOCOL};
use crate::rules;
use crate::view::{AddressView, LinkView, RouteView};

/// Events waiting for the agent; when full, they become one `Lost`.
const EVENTS: usize = 1024;
/// Room in the kernel for a burst; asked for, not insisted on.
const SOCKET_BUFFER: usize = 4 * 1024 * 1024;
const RECEIVE: usize = 64 * 1024;

/// LINK, IPV4_IFADDR, IPV4_ROUTE, IPV6_IFADDR and IPV6_ROUTE (rtnetlink.h).
const ROUTE_GROUPS: u32 = (1 << 0) | (1 << 4) | (1 << 6) | (1 << 8) | (1 << 10);
const NFNLGRP_NFTABLES: u32 = 7;

const RTM_NEWLINK: u16 = 16;
const RTM_NEWADDR: u16 = 20;
const RTM_NEWROUTE: u16 = 24;
const IFINFOMSG: usize = 16;
const IFLA_IFNAME: u16 = 3;
const IFF_UP: u32 = 1;

/// How long events gather before they are looked at: an ADD makes some thirty, and one wake-up
/// for all of them is enough. Repairs can wait that long.
const GATHER: Duration = Duration::from_millis(2);

/// Something of flock's that is no longer there.
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
    /// A route of flock's was removed, or a host route replaced by another's.
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
    /// Events were lost: everything may differ.
    Lost,
}

/// Opens the sockets in the node's namespace and starts the watch. The
/// runtime around the caller must have its I/O driver on.
pub(crate) fn start(home: &Netns) -> Result<mpsc::Receiver<Drift>, Error> {
    let runtime = Handle::try_current().map_err(|_| Error::NoRuntime)?;
    let opened = std::thread::spawn({
        let (home, runtime) = (home.clone(), runtime.clone());
        // On a thread of its own: the caller's may be anywhere.
        move || open(&home, &runtime)
    });
    let (route, netfilter, links) = opened.join().map_err(|_| Error::Stopped)??;
    let (sender, receiver) = mpsc::channel(EVENTS);
    let watch = Watch { sender, lost: false, rules_gone: false, links };
    runtime.spawn(watch.run(route, netfilter));
    Ok(receiver)
}

type Links = HashMap<u32, LinkState>;

#[derive(Clone, Debug)]
struct LinkState {
    name: String,
    up: bool,
}

fn open(home: &Netns, runtime: &Handle) -> Result<(TokioSocket, TokioSocket, Links), Error> {
    home.enter().map_err(|errno| Error::NamespaceOpen {
        path: home.path().to_path_buf(),
        source: errno.into(),
    })?;
    let _registers_here = runtime.enter();
    let failed = |source| Error::Socket { what: "subscribe to events", source };
    let mut route = TokioSocket::new(NETLINK_ROUTE).map_err(failed)?;
    route.socket_mut().bind(&SocketAddr::new(0, ROUTE_GROUPS)).map_err(failed)?;
    let mut netfilter = TokioSocket::new(NETLINK_NETFILTER).map_err(failed)?;
    netfilter.socket_mut().bind(&SocketAddr::new(0, 0)).map_err(failed)?;
    netfilter.socket_ref().add_membership(NFNLGRP_NFTABLES).map_err(failed)?;
    for socket in [route.socket_ref(), netfilter.socket_ref()] {
        let _ = rustix::net::sockopt::set_socket_recv_buffer_size_force(socket, SOCKET_BUFFER);
    }
    // Listed after subscribing, so that no change falls between the two.
    let messages = Channel::route()?.dump("list interfaces", &request::all_links())?;
    let views = messages.iter().filter_map(LinkView::of);
    let ours = views.filter(|view| names::is_host_ifname(&view.name));
    let links = ours.map(|view| (view.index, LinkState { name: view.name, up: view.up }));
    Ok((route, netfilter, links.collect()))
}

/// As much of a link's message as the watch needs, without reading the rest.
struct LinkGlance<'a> {
    index: u32,
    up: bool,
    name: &'a str,
}

impl<'a> LinkGlance<'a> {
    fn of(payload: &'a [u8]) -> Option<Self> {
        let (header, attributes) = payload.split_at_checked(IFINFOMSG)?;
        let number = |at: usize| Some(u32::from_ne_bytes(*header.get(at..)?.first_chunk::<4>()?));
        let (index, flags) = (number(4)?, number(8)?);
        // Walked by hand: the iterator of netlink-packet-core lends for its own life only.
        let mut rest = attributes;
        loop {
            let (length, after) = rest.split_first_chunk::<2>()?;
            let (kind, _) = after.split_first_chunk::<2>()?;
            let length = usize::from(u16::from_ne_bytes(*length));
            if u16::from_ne_bytes(*kind) == IFLA_IFNAME {
                let name = std::str::from_utf8(rest.get(4..length)?).ok()?;
                return Some(Self {
                    index,
                    up: flags & IFF_UP != 0,
                    name: name.trim_end_matches('\0'),
                });
            }
            rest = rest.get(length.max(4).next_multiple_of(4)..)?;
        }
    }
}

/// The watch's own state.
struct Watch {
    sender: mpsc::Sender<Drift>,
    lost: bool,
    /// Some of the rules went, and it is not told yet.
    rules_gone: bool,
    links: Links,
}

impl Watch {
    async fn run(mut self, route: TokioSocket, netfilter: TokioSocket) {
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
                    self.take(result, &buffer, Self::route_event);
                    while let Some(result) = receive_now(&route, &mut buffer) {
                        self.take(result, &buffer, Self::route_event);
                    }
                    tokio::time::sleep(GATHER).await;
                }
                result = receive(&netfilter, &mut rules_buffer) => {
                    self.take(result, &rules_buffer, Self::netfilter_event);
                    // One command of `nft` makes many events, and one repair answers them all.
                    tokio::time::sleep(GATHER).await;
                    while let Some(result) = receive_now(&netfilter, &mut rules_buffer) {
                        self.take(result, &rules_buffer, Self::netfilter_event);
                    }
                    if std::mem::take(&mut self.rules_gone) {
                        self.tell(Drift::RulesGone);
                    }
                }
            }
        }
    }

    fn take(
        &mut self,
        result: io::Result<()>,
        mut bytes: &[u8],
        event: fn(&mut Self, Header, &[u8]),
    ) {
        if let Err(error) = result {
            if error.raw_os_error() != Some(Errno::NOBUFS.raw_os_error()) {
                tracing::warn!(%error, "cannot read kernel events");
            }
            self.lost = true;
            return;
        }
        while let Some((header, payload, rest)) = split(bytes) {
            event(self, header, payload);
            bytes = rest;
        }
        // Cut off, and so unread.
        self.lost |= !bytes.is_empty();
    }

    fn tell(&mut self, drift: Drift) {
        // Once something is lost, the coming `Lost` covers all that follows.
        if !self.lost && self.sender.try_send(drift).is_err() {
            self.lost = true;
        }
    }

    fn route_event(&mut self, header: Header, payload: &[u8]) {
        match header.kind {
            // By far the most events are these, and of links only name and flags matter.
            RTM_NEWLINK => {
                if let Some(link) = LinkGlance::of(payload) {
                    self.link_changed(link);
                }
                return;
            }
            RTM_NEWADDR => return,
            RTM_NEWROUTE if header.flags & NLM_F_REPLACE == 0 => return,
            _ => {}
        }
        let Ok(message) = RouteNetlinkMessage::parse_with_param(payload, header.kind) else {
            // Of a kind unknown to us, and so not about anything of ours.
            return;
        };
        match message {
            RouteNetlinkMessage::DelLink(link) => {
                // A bridge or the like also says DELLINK when a port leaves.
                let index = link.header.index;
                if let Some(state) = self.links.remove(&index) {
                    self.tell(Drift::LinkGone { name: state.name });
                }
            }
            RouteNetlinkMessage::DelAddress(address) => {
                let Some(view) = AddressView::read(&address) else { return };
                if let Some(state) = self.links.get(&view.index) {
                    let ifname = state.name.clone();
                    self.tell(Drift::AddressGone { ifname, address: view.address });
                }
            }
            RouteNetlinkMessage::DelRoute(route) => {
                if let Some(view) = RouteView::read(&route).filter(|view| view.protocol == PROTOCOL)
                {
                    self.tell(Drift::RouteGone { destination: view.destination });
                }
            }
            RouteNetlinkMessage::NewRoute(route) => {
                let Some(view) = RouteView::read(&route) else { return };
                let host_route = view.destination.prefix_len() == view.destination.max_prefix_len();
                if host_route && view.protocol != PROTOCOL {
                    self.tell(Drift::RouteGone { destination: view.destination });
                }
            }
            _ => {}
        }
    }

    fn link_changed(&mut self, link: LinkGlance<'_>) {
        let before = self.links.remove(&link.index);
        if names::is_host_ifname(link.name) {
            let state = LinkState { name: link.name.to_owned(), up: link.up };
            self.links.insert(link.index, state);
        }
        match before {
            Some(before) if before.name != link.name => {
                self.tell(Drift::LinkGone { name: before.name });
            }
            Some(before) if before.up && !link.up => {
                self.tell(Drift::LinkDown { name: before.name });
            }
            _ => {}
        }
    }

    fn netfilter_event(&mut self, header: Header, payload: &[u8]) {
        if header.kind >> 8 != SUBSYSTEM || !nftables::is_inet(payload) {
            return;
        }
        let named = |kind, name: &str| {
            nftables::find(payload, kind)
                .is_some_and(|value| value.strip_suffix(&[0]) == Some(name.as_bytes()))
        };
        // The table's name is attribute 1 in all three; the chain's is 3 in
        // a chain's message and 2 in a rule's.
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

async fn receive(socket: &TokioSocket, buffer: &mut Vec<u8>) -> io::Result<()> {
    std::future::poll_fn(|context| {
        buffer.clear();
        socket.poll_recv(context, buffer)
    })
    .await
}

/// What is there already, without waiting; `None` when nothing is.
fn receive_now(socket: &TokioSocket, buffer: &mut Vec<u8>) -> Option<io::Result<()>> {
    buffer.clear();
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match socket.poll_recv(&mut context, buffer) {
        std::task::Poll::Ready(result) => Some(result),
        std::task::Poll::Pending => None,
    }
}
