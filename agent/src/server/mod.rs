//! The agent's two unix sockets: `cni` for kubelet's calls, `admin` for the command line. Both are
//! root only, bounded in size, time and number, and appear by rename once they can be served.

pub mod admin;
pub mod cni;
pub mod desk;
mod line;
pub mod socket;
