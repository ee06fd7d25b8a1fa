//! NetworkPolicy: what it costs a packet, how soon a packet obeys, and what is
//! resident of a large cluster.
//!
//! The node has the real agent in standalone mode and a few pods that the real
//! plugin attached; all others are only described by manifests, as pods of other
//! nodes are.
//!
//! | module | what it holds |
//! |---|---|
//! | [`files`] | policies, pods and namespaces as the agent reads them |
//! | [`place`] | a node with its agent and pods, and how many pods and policies it knows |
//! | [`packets`] | round trips and connections between two pods, without a scheduler between |
//! | [`stream`] | probes that tell from when on packets obey |
//! | [`floor`] | a plain router whose one rule is changed by `nft -f` |
//! | [`throughput`] | iperf3 between two pods |
//! | [`memory`] | what is resident with few and with very many pods |

pub mod files;
pub mod floor;
pub mod memory;
pub mod packets;
pub mod place;
pub mod stream;
pub mod throughput;
