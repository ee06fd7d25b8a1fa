//! DEL: withdraw, take the host routes away, delete the entry durably, answer. The link goes right
//! after, together with others; until then its name and addresses stay taken.

use flock_cni::error::CniError;
use flock_dataplane::fault;

use super::book::{self, Attachment, Phase};
use super::call::DelCall;
use super::{Pods, called, closed, failed, name_in_log};
use crate::store::Key;

impl Pods {
    /// Detaches a pod. One that is not known is already detached.
    pub async fn del(&self, call: DelCall) -> Result<(), CniError> {
        let _turn = self.turns.take(&call.key.container_id).await;
        self.detach(&call.key).await
    }

    /// As `del`, for a caller that has its turn.
    pub(super) async fn detach(&self, key: &Key) -> Result<(), CniError> {
        let wanted = key.clone();
        let leaving = self.ledger.ask(move |book| {
            book.set(&wanted, Phase::Leaving, None);
            book.get(&wanted).cloned()
        });
        let Some(attachment) = leaving.await.map_err(closed)? else { return Ok(()) };
        name_in_log(called(&attachment.record));
        fault::point("del.leaving").map_err(|error| failed("DEL", error))?;
        // Withdrawn first, and no next hop may point at a link that is going.
        if self.reconciler.concerns(&attachment.record) {
            self.reconciler.settle_pod().await;
        }
        self.take_away(&attachment).await?;
        self.reconciler.wake();
        Ok(())
    }

    /// Out of the kernel, off the disk, out of the book; the link follows.
    pub(super) async fn take_away(&self, attachment: &Attachment) -> Result<(), CniError> {
        let key = attachment.record.key();
        let own = book::own_addresses(&attachment.record);
        let anycast = attachment.record.anycast.clone();
        self.dataplane
            .retire(attachment.host_ifname(), own, anycast)
            .await
            .map_err(|error| failed("DEL, removing the pod's routes", error))?;
        fault::point("del.retired").map_err(|error| failed("DEL", error))?;
        self.store.remove(&key).await.map_err(|error| failed("DEL, writing the state", error))?;
        fault::point("del.removed").map_err(|error| failed("DEL", error))?;
        self.gate.release(attachment.host_ifname()).await;
        self.ledger.ask(move |book| book.doom(&key)).await.map_err(closed)?;
        self.chores.delete();
        Ok(())
    }
}
