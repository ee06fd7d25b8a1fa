//! A CNI call after validation: from here on names are names and a namespace was given.

use flock_cni::args::PodArgs;
use flock_cni::error::{self, CniError};
use flock_cni::names;
use flock_cni::netconf::NetConf;
use flock_cni::words::Request;

use crate::store::Key;

/// An ADD or CHECK.
#[derive(Debug, Clone)]
pub struct Call {
    /// Container and interface.
    pub key: Key,
    /// The namespace's path.
    pub netns: String,
    /// Who the pod is.
    pub args: PodArgs,
    /// The network configuration.
    pub conf: NetConf,
}

/// A DEL: it must succeed with as little as a container id.
#[derive(Debug, Clone)]
pub struct DelCall {
    /// Container and interface.
    pub key: Key,
}

impl Call {
    /// Checks everything that an ADD or CHECK needs.
    pub fn parse(request: &Request) -> Result<Self, CniError> {
        if request.netns.is_empty() {
            return Err(CniError::new(
                error::INVALID_ENVIRONMENT,
                format!("CNI_NETNS is empty; {} needs the pod's network namespace", request.op),
            ));
        }
        Ok(Self {
            key: key(request)?,
            netns: request.netns.clone(),
            args: PodArgs::parse(&request.args)?,
            conf: NetConf::parse(&request.stdin_data)?,
        })
    }

    /// Checks what a DEL needs; arguments, namespace and configuration may be gone by now.
    pub fn parse_del(request: &Request) -> Result<DelCall, CniError> {
        Ok(DelCall { key: key(request)? })
    }
}

fn key(request: &Request) -> Result<Key, CniError> {
    names::check_container_id(&request.container_id)?;
    names::check_ifname(&request.ifname)?;
    Ok(Key { container_id: request.container_id.clone(), ifname: request.ifname.clone() })
}
