//! What the kernel is given: decides when it is changed, when everything is made anew, what is in
//! force while not everything is known, and what is said when it refuses.

use std::sync::Arc;
use std::time::Duration;

use flock_dataplane::Error as KernelError;
use flock_dataplane::policy::{Change, Element, Layout, Profile};
use tokio::time::Instant;

use super::{Kernel, Task};
use crate::incidents::Incident;
use crate::policy::gate::Standing;

/// When what the kernel refused is tried again.
const RETRY: Duration = Duration::from_secs(5);
/// Between two times that everything is made anew because somebody changed it.
const PACE: Duration = Duration::from_secs(1);

impl Task {
    /// Gives the kernel what it lacks; `new` are links that come.
    pub(super) async fn settle(&mut self, new: &[Arc<str>]) {
        if !self.begun {
            return;
        }
        let began = Instant::now();
        // Pods of this node whose labels nobody told since the start would be taken for others.
        let outcome = if !self.cluster.complete || !self.heard {
            self.kernel = Kernel::Unsure;
            self.wait(new).await.map(|()| Standing::Waiting)
        } else if self.retry_at.is_some() && new.is_empty() {
            // It was refused just now, and is tried again when its time has come.
            return;
        } else {
            self.bring_in_step(began).await
        };
        match outcome {
            Ok(standing) => self.is_well(standing),
            Err(error) => self.is_refused(&error),
        }
    }

    async fn bring_in_step(&mut self, began: Instant) -> Result<Standing, KernelError> {
        let dataplane = &self.parts.dataplane;
        let active = self.engine.is_active();
        match self.kernel {
            Kernel::Absent if !active => self.engine.forget_changes(),
            _ if !active => {
                dataplane.remove_policy().await?;
                self.engine.forget_changes();
                self.kernel = Kernel::Absent;
            }
            Kernel::InStep => {
                let change = self.engine.take_change();
                if !change.is_empty() {
                    self.kernel = Kernel::Unsure;
                    match dataplane.change_policy(change).await {
                        Err(KernelError::PolicyGone) => self.replace().await?,
                        other => other?,
                    }
                    self.kernel = Kernel::InStep;
                    self.parts.metrics.policy.updated(began.elapsed());
                }
            }
            Kernel::Unsure | Kernel::Absent => {
                self.replace().await?;
                self.parts.metrics.policy.updated(began.elapsed());
            }
        }
        self.closed.clear();
        self.lost = false;
        Ok(match active {
            true => Standing::InForce {
                policies: self.cluster.policies.len(),
                isolated: self.engine.isolated(),
                crowded: self.engine.crowded().to_vec(),
            },
            false => Standing::Idle,
        })
    }

    async fn replace(&mut self) -> Result<(), KernelError> {
        self.kernel = Kernel::Unsure;
        let elements = self.engine.elements();
        self.engine.forget_changes();
        self.put(elements).await?;
        self.kernel = Kernel::InStep;
        Ok(())
    }

    /// A kernel that cannot log drops all the same.
    async fn put(&mut self, elements: Vec<Element>) -> Result<(), KernelError> {
        self.replaced_at = Some(Instant::now());
        let dataplane = &self.parts.dataplane;
        if !self.layout.log_drops {
            return dataplane.replace_policy(elements, self.layout).await;
        }
        let Err(error) = dataplane.replace_policy(elements.clone(), self.layout).await else {
            return Ok(());
        };
        let plain = Layout { log_drops: false };
        dataplane.replace_policy(elements, plain).await?;
        self.layout = plain;
        tracing::warn!(%error, "dropped packets cannot be logged");
        Ok(())
    }

    /// Somebody changed what is in the kernel. Made anew at once, but not again and again: another
    /// program may want it otherwise.
    pub(super) fn recheck(&mut self) {
        self.kernel = Kernel::Unsure;
        self.lost = true;
        let next = self.replaced_at.map(|at| at + PACE).filter(|next| *next > Instant::now());
        self.retry_at = self.retry_at.or(next);
    }

    /// Not everything is known: what is in the kernel stays, and whoever comes and is isolated by what
    /// is known gets nothing at all. Where the table is lost, that is true of everybody.
    async fn wait(&mut self, new: &[Arc<str>]) -> Result<(), KernelError> {
        if std::mem::take(&mut self.lost) && self.engine.is_active() {
            let dataplane = &self.parts.dataplane;
            if !dataplane.policy_present(self.layout).await? {
                let all: Vec<Arc<str>> = self.attached.keys().cloned().collect();
                let closed: Vec<Element> =
                    all.iter().flat_map(|link| self.closed_to(link)).collect();
                self.put(closed).await?;
                self.closed = all.into_iter().collect();
            }
        }
        for ifname in new {
            if self.closed.insert(ifname.clone()) {
                self.close(ifname).await.inspect_err(|_| self.closed.clear())?;
            }
        }
        Ok(())
    }

    /// What holds a pod that policies isolate to nothing at all.
    fn closed_to(&self, ifname: &Arc<str>) -> Vec<Element> {
        let subject = |direction| Element::Subject {
            direction,
            ifname: ifname.clone(),
            profile: Profile::CLOSED,
        };
        self.isolated(ifname).map(subject).collect()
    }

    async fn close(&mut self, ifname: &Arc<str>) -> Result<(), KernelError> {
        for element in self.closed_to(ifname) {
            let change = |removed| Change { removed, added: vec![element.clone()] };
            let dataplane = &self.parts.dataplane;
            match dataplane.change_policy(change(Vec::new())).await {
                Ok(()) => {}
                Err(KernelError::PolicyGone) => self.put(vec![element]).await?,
                // Another life, or another try, may have left one of the same name.
                Err(_) => dataplane.change_policy(change(vec![element.clone()])).await?,
            }
        }
        Ok(())
    }

    fn is_well(&mut self, standing: Standing) {
        self.retry_at = None;
        self.trouble.is_over();
        self.tell(standing);
    }

    fn is_refused(&mut self, error: &KernelError) {
        self.kernel = Kernel::Unsure;
        self.retry_at = Some(Instant::now() + RETRY);
        self.parts.metrics.policy.failed();
        let reason = error.to_string();
        if self.trouble.is_news(&reason) {
            tracing::error!(
                error = reason,
                "network policies cannot be put in force; what was in force stays, trying again"
            );
            self.parts.incidents.tell(Incident::PolicyFailed { reason: reason.clone() });
        }
        self.tell(Standing::Failing(reason));
    }
}
