//! Pods, routes and rules in the kernel, by netlink.
//!
//! Decides how a wish ("this pod is wired", "this anycast address goes to
//! these pods") looks in the kernel, and nothing about which wishes there
//! are: that is the agent's. A plan is pure data, carried out all or nothing,
//! undone in reverse, and the same plan is what CHECK compares with.
//!
//! All netlink runs on a few OS threads of our own ([`worker`]), because a
//! visit to a pod's namespace changes the thread. The channel to them holds
//! 256 jobs; when it is full, callers wait. [`Dataplane::monitor`]'s channel
//! holds 1024 events; when it is full, they become one [`Drift::Lost`].
//! [`Dataplane::watch_drops`]'s holds 256 packets; others are thrown away.
#![forbid(unsafe_code)]

mod admission;
mod apply;
mod channel;
mod difference;
mod error;
mod expression;
pub mod fault;
mod glance;
mod hearing;
mod indices;
mod interfaces;
mod jobs;
mod laying;
mod learned;
mod monitor;
mod names;
mod netns;
mod nftables;
mod observe;
mod plan;
pub mod policy;
mod readiness;
mod repair;
pub mod reply;
mod request;
mod retire;
mod routes;
mod rules;
mod standing;
mod sysctl;
mod undo;
mod verify;
mod view;
mod worker;

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use policy::{Change, Dropped, DroppedPacket, Element, Layout};
use tokio::sync::mpsc;

pub use apply::{LinkFacts, Waking, Wired};
pub use difference::Difference;
pub use error::{Error, Refusal};
pub use interfaces::{Interface, InterfaceAddress, Way};
pub use laying::RouteWish;
pub use learned::{LEARNED_HOST6_METRIC, LEARNED_METRIC, LearnedHop, LearnedRoute};
pub use monitor::Drift;
pub use names::{host_ifname, host_ifname_nth};
pub use netns::{Netns, NetnsId};
pub use plan::{GATEWAY4, GATEWAY6, PodLink};
pub use request::{DOOMED_GROUP, PROTOCOL};
pub use retire::HostLink;
pub use routes::{NextHop, NodeRoute, Path, PodRoute, RouteKey, Uplink};
pub use standing::{StandingHop, StandingRoute};
pub use sysctl::NodeSettings;

/// A handle on the node's kernel. Cheap to clone; the threads behind it end
/// with the last clone. No call is undone by dropping its future: what was
/// begun is finished, or taken back, on its thread.
#[derive(Clone, Debug)]
pub struct Dataplane {
    pool: worker::Pool,
}

impl Dataplane {
    /// Starts the threads in the namespace of the calling thread: the node's.
    pub fn start() -> Result<Self, Error> {
        Ok(Self { pool: worker::Pool::start()? })
    }

    /// Makes the node forward for pods, and drop what they send from
    /// addresses that are not theirs. Idempotent.
    pub async fn prepare_node(&self, node: &NodeSettings) -> Result<(), Error> {
        let root = node.proc_sys.clone();
        self.pool
            .run(move |worker| {
                worker.set_proc_sys(&root);
                let advertised = routes::by_advertisement(worker.host()?)?;
                sysctl::prepare(&root, &advertised)?;
                rules::install()?;
                let kept = retire::links(worker)?.into_iter().map(|link| link.name).collect();
                admission::prune(&kept)
            })
            .await
    }

    /// Whether the anti-spoofing rules are in place, as prepare_node leaves them.
    pub async fn rules_present(&self) -> Result<bool, Error> {
        self.pool.run(|_| rules::present()).await
    }

    /// Wires a pod; returns when its first packet may come. On an error the
    /// kernel is as before.
    pub async fn attach(&self, link: PodLink) -> Result<Wired, Error> {
        self.pool.run(move |worker| apply::attach(worker, &link, request::Mode::Create)).await
    }

    /// Wires a pod; its first packet may come when [`Self::awaken`] has
    /// returned. On an error the kernel is as before.
    pub async fn begin_attach(&self, link: PodLink) -> Result<(Wired, Waking), Error> {
        self.pool.run(move |worker| apply::begin(worker, &link)).await
    }

    /// Does what is left to do, and waits for what the kernel does a moment after
    /// it has said yes. An error undoes nothing.
    pub async fn awaken(&self, waking: Waking) -> Result<(), Error> {
        self.pool.run(move |worker| apply::awaken(worker, waking)).await
    }

    /// What can be done when the pod is already served: the kernel is made to
    /// notice the link (by its index), which takes longer the more pods there
    /// are. A link that is gone is success.
    pub async fn finish_attach(&self, index: u32) -> Result<(), Error> {
        self.pool.run(move |worker| apply::finish(worker, index)).await
    }

    /// Compares the kernel with what should be; empty means as it should.
    pub async fn verify(&self, link: PodLink) -> Result<Vec<Difference>, Error> {
        self.pool.run(move |worker| verify::verify(worker, &link)).await
    }

    /// Makes it so again; returns what there was to repair.
    pub async fn repair(&self, link: PodLink) -> Result<Vec<Difference>, Error> {
        self.pool.run(move |worker| repair::repair(worker, &link)).await
    }

    /// Removes the routes to the pod's own addresses now, no longer lets its
    /// anycast sources through, and condemns its link, for [`Self::reap`]. A link
    /// that is gone already is success. Anycast routes are the caller's: one
    /// of several next hops cannot be taken out of them from here.
    pub async fn retire(
        &self,
        host_ifname: &str,
        own: Vec<IpAddr>,
        anycast: Vec<IpAddr>,
    ) -> Result<(), Error> {
        let name = host_ifname.to_owned();
        self.pool.run(move |worker| retire::retire(worker, &name, &own, &anycast)).await
    }

    /// Deletes all retired links at once; returns when the kernel is done.
    pub async fn reap(&self) -> Result<(), Error> {
        self.pool.run(retire::reap).await
    }

    /// Every link of flock's on the node, retired ones included.
    pub async fn links(&self) -> Result<Vec<HostLink>, Error> {
        self.pool.run(retire::links).await
    }

    /// Every route straight into a pod.
    pub async fn pod_routes(&self) -> Result<Vec<PodRoute>, Error> {
        self.pool.run(routes::pod_routes).await
    }

    /// Makes each route of the node's so, in as few rounds with the kernel as
    /// it takes, however many they are. A verdict for each, in order: one that
    /// is refused keeps none of the others from being done. An error of the
    /// whole means that the kernel could not be spoken to, and that some may
    /// be done.
    ///
    /// Next hops whose link is gone or retired are left out;
    /// [`Error::NoSuchLink`] if none is left. An anycast address that has a
    /// route of another kind, a pod's own or somebody else's, is
    /// [`Error::AddressTaken`]. To remove what is not there is success.
    pub async fn lay(&self, wishes: Vec<RouteWish>) -> Result<Vec<Result<(), Error>>, Error> {
        laying::lay_all(&self.pool, wishes).await
    }

    /// The same for one that should be there.
    pub async fn set_route(&self, route: NodeRoute) -> Result<(), Error> {
        self.lay_one(RouteWish::Set(route)).await
    }

    /// The same for one that should not.
    pub async fn remove_route(&self, key: RouteKey) -> Result<(), Error> {
        self.lay_one(RouteWish::Remove(key)).await
    }

    async fn lay_one(&self, wish: RouteWish) -> Result<(), Error> {
        self.lay(vec![wish]).await?.into_iter().next().unwrap_or(Ok(()))
    }

    /// Flock's summaries and anycast routes.
    pub async fn our_routes(&self) -> Result<Vec<NodeRoute>, Error> {
        self.pool.run(routes::our_routes).await
    }

    /// Of these addresses, flock's anycast routes as the kernel has them, at a
    /// cost that does not grow with what else it has.
    pub async fn anycast_routes(&self, addresses: Vec<IpAddr>) -> Result<Vec<NodeRoute>, Error> {
        self.pool.run(move |worker| routes::anycast_routes(worker, &addresses)).await
    }

    /// Makes each route so: created, replaced, or removed where it has no next
    /// hops; absent is success. A verdict for each, in order: one that is
    /// refused, as [`Error::RouteTaken`] where another program has its place,
    /// keeps none of the others from being done. Of many, those not yet begun
    /// are left when the future is dropped.
    pub async fn set_learned(
        &self,
        routes: impl Into<Arc<[LearnedRoute]>>,
    ) -> Result<Vec<Result<(), Error>>, Error> {
        learned::set_all(&self.pool, routes.into()).await
    }

    /// The learned routes that the kernel has, also with next hops whose link
    /// is down or has no carrier.
    pub async fn learned_routes(&self) -> Result<Vec<LearnedRoute>, Error> {
        self.pool.run(learned::learned_routes).await
    }

    /// The main table's routes for exactly that prefix: flock's, and before it
    /// another's that packets take instead.
    pub async fn routes_of(&self, prefix: IpNet) -> Result<Vec<StandingRoute>, Error> {
        self.pool.run(move |worker| standing::routes_of(worker, prefix)).await
    }

    /// The route by which packets for an address go; `None` where there is
    /// none, or one that answers "unreachable".
    pub async fn decides_about(&self, address: IpAddr) -> Result<Option<StandingRoute>, Error> {
        self.pool.run(move |worker| standing::decides_about(worker, address)).await
    }

    /// Every interface of the node that is not a pod's.
    pub async fn interfaces(&self) -> Result<Vec<Interface>, Error> {
        self.pool.run(interfaces::interfaces).await
    }

    /// How the node reaches an address without what it learned, so that no
    /// next hop is resolved through itself. `None` where only learned routes
    /// lead there, or none, or where it is the node's own or link-local.
    pub async fn way_to(&self, address: IpAddr) -> Result<Option<Way>, Error> {
        self.pool.run(move |worker| interfaces::way_to(worker, address)).await
    }

    /// The interface by which the node reaches an address.
    pub async fn uplink_towards(&self, address: IpAddr) -> Result<Option<Uplink>, Error> {
        self.pool.run(move |worker| routes::uplink_towards(worker, address)).await
    }

    /// The same with what is known of how much passes there.
    pub async fn path_towards(&self, address: IpAddr) -> Result<Option<Path>, Error> {
        self.pool.run(move |worker| routes::path_towards(worker, address)).await
    }

    /// The interfaces whose IPv6 default route a router advertised, sorted.
    pub async fn advertised_uplinks(&self) -> Result<Vec<String>, Error> {
        self.pool.run(|worker| routes::by_advertisement(worker.host()?)).await
    }

    /// An interface by its name.
    pub async fn uplink_named(&self, name: &str) -> Result<Option<Uplink>, Error> {
        let name = name.to_owned();
        self.pool.run(move |worker| routes::uplink_named(worker, &name)).await
    }

    /// The interface of the default route.
    pub async fn default_uplink(&self) -> Result<Option<Uplink>, Error> {
        self.pool.run(routes::default_uplink).await
    }

    /// Makes the policy's table anew with exactly these elements, in one
    /// transaction, whatever was there. On an error the kernel is as before.
    pub async fn replace_policy(
        &self,
        elements: Vec<Element>,
        layout: Layout,
    ) -> Result<(), Error> {
        self.pool.run(move |worker| policy::replace(worker.netfilter()?, layout, &elements)).await
    }

    /// Changes elements of the policy, in one transaction. On an error nothing
    /// has changed; [`Error::PolicyGone`] where there is no such table to change.
    pub async fn change_policy(&self, change: Change) -> Result<(), Error> {
        self.pool.run(move |worker| policy::change(worker.netfilter()?, &change)).await
    }

    /// Removes the policy's table: everything is allowed. Absent is success.
    pub async fn remove_policy(&self) -> Result<(), Error> {
        self.pool.run(|worker| policy::remove(worker.netfilter()?)).await
    }

    /// Whether the policy's table is as [`Self::replace_policy`] leaves it.
    /// Elements are not compared.
    pub async fn policy_present(&self, layout: Layout) -> Result<bool, Error> {
        self.pool.run(move |worker| policy::present(worker.netfilter()?, layout)).await
    }

    /// What was dropped for each isolated pod since it became that.
    pub async fn policy_drops(&self) -> Result<Vec<Dropped>, Error> {
        self.pool.run(|worker| policy::drops(worker.netfilter()?)).await
    }

    /// Some of the packets that are dropped, where the policy's layout wants
    /// them told; what is not taken in time is thrown away. Ends when the
    /// receiver is dropped. An error where another has its NFLOG group.
    pub fn watch_drops(&self) -> Result<mpsc::Receiver<DroppedPacket>, Error> {
        policy::watch(self.pool.home())
    }

    /// Tells what of flock's is removed and not by [`Self::remove_route`] and
    /// the like, and when the node's own networks change: the caller compares
    /// with its wishes. Ends when the receiver is dropped.
    pub fn monitor(&self) -> Result<mpsc::Receiver<Drift>, Error> {
        monitor::start(self.pool.home(), self.pool.ports())
    }

    /// How many calls failed for the kernel's reasons, or on the way to it, since the start.
    pub fn failures(&self) -> u64 {
        self.pool.failures()
    }

    /// The node's own namespace.
    pub fn home(&self) -> &Netns {
        self.pool.home()
    }
}
