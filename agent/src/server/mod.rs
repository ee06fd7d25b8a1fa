//! Where the agent is asked: `cni` is kubelet's socket, `admin` the command line's, `http` the port
//! for probes, metrics and the page. The sockets are root's alone and appear by rename once they can
//! be served; all three are bounded in size, time and number.

pub mod admin;
pub mod cni;
pub mod desk;
pub mod http;
mod line;
pub mod socket;
