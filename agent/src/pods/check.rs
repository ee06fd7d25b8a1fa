//! CHECK: compares the kernel with the record and names each difference. It changes nothing.

use flock_cni::error::{self, CniError};
use flock_cni::result::CniResult;
use flock_dataplane::Netns;

use super::book::Phase;
use super::call::Call;
use super::{Pods, answer, called, closed, failed, link, name_in_log};
use crate::store::Allocation;

impl Pods {
    /// Succeeds when everything is as the ADD left it.
    pub async fn check(&self, call: Call) -> Result<(), CniError> {
        let _turn = self.turns.take(&call.key.container_id).await;
        let key = call.key.clone();
        let known = self.ledger.ask(move |book| book.get(&key).cloned()).await.map_err(closed)?;
        let there = |phase| matches!(phase, Phase::Serving | Phase::Orphaned);
        let Some(attachment) = known.filter(|attachment| there(attachment.phase)) else {
            return Err(CniError::new(
                error::UNKNOWN_CONTAINER,
                format!(
                    "container {} has no attachment {} on this node",
                    call.key.container_id, call.key.ifname
                ),
            ));
        };
        name_in_log(called(&attachment.record));
        let netns = Netns::open(&call.netns).map_err(|error| {
            CniError::new(error::INVALID_ENVIRONMENT, format!("CNI_NETNS: {error}"))
        })?;
        let mut differences = other_namespace(&attachment.record, &netns);
        differences.extend(told_otherwise(&attachment.record, &call)?);
        let kernel = self
            .dataplane
            .verify(link(&attachment.record, netns))
            .await
            .map_err(|error| failed("CHECK", error))?;
        differences.extend(kernel.iter().map(ToString::to_string));
        differences.extend(self.reconciler.missing_for(&attachment).await);
        if differences.is_empty() {
            return Ok(());
        }
        Err(CniError::new(
            error::CHECK_FAILED,
            format!(
                "{} difference(s) from what was attached: {}",
                differences.len(),
                differences.join("; ")
            ),
        ))
    }
}

fn other_namespace(record: &Allocation, netns: &Netns) -> Vec<String> {
    match (record.netns_dev, record.netns_ino) {
        (Some(dev), Some(ino)) if (dev, ino) != (netns.id().dev, netns.id().ino) => {
            vec![format!(
                "CNI_NETNS {} is not the namespace that was attached",
                netns.path().display()
            )]
        }
        _ => Vec::new(),
    }
}

/// What the runtime was told at ADD, as it hands it back, against the record.
fn told_otherwise(record: &Allocation, call: &Call) -> Result<Vec<String>, CniError> {
    let Some(previous) = &call.conf.prev_result else { return Ok(Vec::new()) };
    let told = CniResult::from_value(previous)?;
    let ours = answer::result(record, &call.netns, &call.conf.dns);
    Ok(ours.missing_from(&told))
}
