//! GC (CNI 1.1): the runtime lists what it still has; every other attachment of that network is
//! detached as by DEL. A call without a list removes nothing: absence of evidence is not evidence.

use std::collections::BTreeSet;

use flock_cni::error::{self, CniError};
use flock_cni::netconf::NetConf;
use tracing::Instrument;

use super::book::Phase;
use super::{Pods, closed};
use crate::store::Allocation;

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
        let stale: Vec<Allocation> = self
            .ledger
            .ask(move |book| {
                book.all()
                    // An ADD under way cannot be in a list that was made before it.
                    .filter(|attachment| attachment.phase != Phase::Wiring)
                    .map(|attachment| &attachment.record)
                    .filter(|record| record.network.as_ref().is_none_or(|name| *name == network))
                    .filter(|record| {
                        !valid.contains(&(record.container_id.clone(), record.ifname.clone()))
                    })
                    .cloned()
                    .collect()
            })
            .await
            .map_err(closed)?;
        let mut failures = Vec::new();
        for seen in stale {
            let key = seen.key();
            let _turn = self.turns.take(&key.container_id).await;
            if !self.is_still(&seen).await? {
                continue;
            }
            let (container, interface) = (&key.container_id, &key.ifname);
            let pod = tracing::field::Empty;
            let span = tracing::error_span!("detach", container, interface, pod);
            let detached = async {
                self.detach(&key).await?;
                tracing::info!("GC detached a pod that the runtime does not list");
                Ok::<(), CniError>(())
            };
            if let Err(failure) = detached.instrument(span).await {
                failures.push(format!("{}/{}: {}", key.container_id, key.ifname, failure.msg));
            }
        }
        if failures.is_empty() {
            return Ok(());
        }
        Err(CniError::new(error::IO_FAILURE, format!("GC: {}", failures.join("; "))))
    }

    /// Whether the attachment is the one that was looked at, and not one that came in its place.
    async fn is_still(&self, seen: &Allocation) -> Result<bool, CniError> {
        let (key, made) = (seen.key(), seen.allocated_at);
        let found =
            self.ledger.ask(move |book| book.get(&key).map(|found| found.record.allocated_at));
        Ok(found.await.map_err(closed)? == Some(made))
    }
}
