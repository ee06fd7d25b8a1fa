//! The rack: nodes, pods and what lies beyond the uplink, all of it in network
//! namespaces of one machine, with the real binaries inside.
//!
//! The rack decides nothing about flock. It starts the real `flock-agent` and
//! executes the real `flock` as a container runtime would, asks the kernel
//! (through `ip -j`) what became of it, and takes everything down again. Tests,
//! the demo and the benchmark are written on top.
//!
//! | module | what it holds |
//! |---|---|
//! | [`binaries`] | where the programs are, and what to say when one is missing |
//! | [`wait`], [`signals`] | awaiting a condition, and giving up when the user interrupts |
//! | [`netns`], [`link`] | namespaces, and the cables between them with their faults |
//! | [`story`], [`remains`] | failures that end with what the parties said; what stays behind |
//! | [`facts`] | what the kernel says: links, addresses, routes, leftovers |
//! | [`monitor`] | what happened to its routes meanwhile |
//! | [`probe`] | ping, and TCP from one namespace to another |
//! | [`storm`] | a thousand pings a second, with an account of each |
//! | [`process`] | a daemon with a log, stopped by its process id |
//! | [`place`] | a host to be in: its own files and processes over a namespace |
//! | [`docs`] | the documents, read, played and compared |
//! | [`node`], [`manifests`] | a node with its agent, and the files that steer it |
//! | [`pod`], [`plugin`] | a pod's namespace, and one CNI call as a runtime makes it |
//! | [`network`], [`chain`] | network configurations, and conflists run as libcni runs them |
//! | [`browser`] | a real browser in a namespace, driven by hand |
//! | [`terminal`] | a person's terminal: what stands on it, and what did not fit |
//! | [`raw`] | the CNI socket spoken directly, also badly |
//! | [`recorder`] | what a runtime really passed to the plugin |
//! | [`router`] | real routers: BIRD, FRR, GoBGP, OpenBGPD, ExaBGP |
//! | [`fabric`] | a whole topology: ToRs, nodes, their cables, sessions and pods |
//! | [`speaker`] | flock's own speaker, alone |
//! | [`capture`], [`sniffer`] | BGP on the wire: played by hand, and overheard |
//! | [`interop`] | the matrix: our speaker with each router |
//! | [`podman`], [`containerd`], [`cri`], [`image`], [`pause`] | real runtimes, and images for them |
//! | [`shipped`], [`container`] | what `deploy/` ships, and the agent in the container that it describes |
//! | [`policy`] | NetworkPolicy: an oracle, and packets to hold against it |
//! | [`cluster`] | a real Kubernetes: control plane, nodes, a ToR |
//! | [`bench`] | what the benchmarks share, and the one of the speaker |
//!
//! Every function returns a `Result`, so that a program that stops halfway
//! still runs its destructors, and those clean up.
#![forbid(unsafe_code)]

pub mod bench;
pub mod binaries;
pub mod browser;
pub mod capture;
pub mod chain;
pub mod cluster;
pub mod container;
pub mod containerd;
pub mod cri;
pub mod docs;
pub mod fabric;
pub mod facts;
pub mod image;
pub mod interop;
pub mod link;
pub mod manifests;
pub mod monitor;
pub mod names;
pub mod netns;
pub mod network;
pub mod node;
pub mod pause;
pub mod place;
pub mod plugin;
pub mod pod;
pub mod podman;
pub mod policy;
pub mod probe;
pub mod process;
pub mod raw;
pub mod recorder;
pub mod remains;
pub mod router;
pub mod schema;
pub mod shipped;
pub mod signals;
pub mod sniffer;
pub mod speaker;
pub mod storm;
pub mod story;
mod sweep;
pub mod terminal;
pub mod wait;
