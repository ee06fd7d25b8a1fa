//! Who asks for what: attachments that changed, and what is not asked for any more.

use std::collections::BTreeSet;
use std::sync::Arc;

use ipnet::IpNet;

use super::super::desired;
use super::super::past::{self, Why};
use super::Task;
use crate::pods::book::Attachment;
use crate::pods::called;
use crate::store::Key;

impl Task {
    /// Takes in attachments that changed, or are gone.
    pub(super) fn claim(
        &mut self,
        changed: Vec<(Key, Option<Attachment>)>,
        dirty: &mut BTreeSet<IpNet>,
    ) {
        for (key, attachment) in changed {
            let before = self.claims.name(&key);
            let pod = attachment.as_ref().map(|attachment| self.pods.behind(&attachment.record));
            let (name, claims) = match attachment.as_ref().zip(pod) {
                Some((attachment, pod)) => {
                    let claims = desired::claims(attachment, pod, &self.rules);
                    (called(&attachment.record), claims)
                }
                None => (String::new(), Vec::new()),
            };
            let changed = self.claims.set(&key, &name, claims);
            if let Some(name) = before {
                let cause = past::cause(attachment.as_ref(), pod);
                let lost = changed.iter().filter(|prefix| !self.claims.serves(prefix, &key));
                self.left.extend(lost.map(|prefix| (*prefix, (Arc::clone(&name), cause))));
            }
            dirty.extend(changed);
        }
    }

    /// Why something that is announced is not to be any more.
    pub(super) fn why(&self, prefix: &IpNet) -> Why {
        if self.wants(prefix) {
            let words = self.refused.get(prefix).map(|words| words.as_str().into());
            return Why::Undelivered(words);
        }
        match self.left.get(prefix) {
            _ if self.hushed => Why::Drained,
            Some((pod, cause)) => Why::Pod(Arc::clone(pod), *cause),
            None => Why::NotConfigured,
        }
    }

    pub(super) fn tell_of_leftovers(&mut self, still_held: Vec<IpNet>) {
        for network in still_held.iter().filter(|network| !self.leftover.contains(network)) {
            tracing::warn!(%network, "not in the NodeConfig, but pods hold addresses of it: kept until they are gone");
        }
        self.leftover = still_held;
    }
}
