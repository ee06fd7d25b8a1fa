//! GC (CNI 1.1): the runtime lists what it still has; every other attachment of that network is
//! detached as by DEL. A call without a list removes nothing: absence of evidence is not evidence.

use std::collections::BTreeSet;

use flock_cni::error::{self, CniError};
use flock_cni::netconf::NetConf;

use super::{Pods, closed};
use crate::store::Key;

impl Pods {
    /// Detaches what is not in the list; goes on after a failure and tells them all.
    pub async fn gc(&self, stdin_data: &[u8]) -> Result<(), CniError> {
        let conf = NetConf::parse(stdin_data)?;
        let valid: BTreeSet<(String, String)> = conf
            .required_valid_attachments()?
            .iter()
            .map(|valid| (valid.container_id.clone(), valid.ifname.clone()))
            .collect();
        let network = conf.name;
        let stale: Vec<Key> = self
            .ledger
            .ask(move |book| {
                book.all()
                    .filter(|a| a.record.network.as_ref().is_none_or(|name| *name == network))
                    .map(|attachment| attachment.record.key())
                    .filter(|key| !valid.contains(&(key.container_id.clone(), key.ifname.clone())))
                    .collect()
            })
            .await
            .map_err(closed)?;
        let mut failures = Vec::new();
        for key in stale {
            let _turn = self.turns.take(&key.container_id).await;
            tracing::info!(container = key.container_id, ifname = key.ifname, "GC detaches");
            if let Err(failure) = self.detach(&key).await {
                failures.push(format!("{}/{}: {}", key.container_id, key.ifname, failure.msg));
            }
        }
        if failures.is_empty() {
            return Ok(());
        }
        Err(CniError::new(error::IO_FAILURE, format!("GC: {}", failures.join("; "))))
    }
}
