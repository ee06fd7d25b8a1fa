//! DELs that the plugin left on disk while the agent was away: carried out before the socket opens
//! and whenever a file appears. An entry never touches a newer attachment: one made after the DEL
//! was spooled, or one of another namespace, is not the one that was meant.

use std::collections::BTreeSet;
use std::path::Path;

use flock_cni::spool::{self, SpoolEntry, SpoolError};
use tracing::Instrument;

use super::Pods;
use crate::store::{Allocation, Key};

impl Pods {
    /// Carries out everything in the spool; what fails stays for the next time. True when nothing
    /// did.
    pub async fn empty_spool(&self, dir: &Path) -> bool {
        let folder = dir.to_owned();
        let contents = match off_the_runtime(move || spool::read_all(&folder)).await {
            Ok(contents) => contents,
            Err(error) => {
                tracing::error!(error, "cannot read the spool");
                return false;
            }
        };
        for unreadable in contents.unreadable {
            self.metrics.spool.unreadable();
            set_aside(dir, &unreadable.path, &unreadable.reason);
        }
        for left in contents.abandoned {
            // A plugin died over it; it counts against the spool's bound.
            let _ = std::fs::remove_file(left);
        }
        // What somebody else took out of the spool is told of again if it comes back.
        let names: BTreeSet<String> = contents.entries.iter().map(spooled).collect();
        self.spool_failures.send_if_modified(|told| {
            told.retain(|name, _| names.contains(name));
            false
        });
        let mut failed = 0;
        for entry in contents.entries {
            let (container, pod) = (&entry.container_id, tracing::field::Empty);
            let span = tracing::error_span!("spool", container, pod);
            let carried_out = async {
                let outcome = self.carry_out(dir, &entry).await;
                // It is tried again every few seconds; that is told once.
                if let Err(error) = &outcome
                    && self.is_news(&entry, error)
                {
                    tracing::error!(error, "a spooled DEL failed; it stays in the spool");
                }
                outcome.is_ok()
            };
            let well = carried_out.instrument(span).await;
            self.metrics.spool.carried_out(well);
            failed += usize::from(!well);
        }
        self.metrics.spool.left(failed);
        failed == 0
    }

    fn is_news(&self, entry: &SpoolEntry, error: &str) -> bool {
        self.spool_failures.send_if_modified(|told| {
            let before = told.insert(spooled(entry), error.to_owned());
            before.as_deref() != Some(error)
        })
    }

    async fn carry_out(&self, dir: &Path, entry: &SpoolEntry) -> Result<(), String> {
        let key = Key { container_id: entry.container_id.clone(), ifname: entry.ifname.clone() };
        {
            let _turn = self.turns.take(&key.container_id).await;
            let wanted = key.clone();
            let found = self.ledger.ask(move |book| book.get(&wanted).cloned()).await;
            match found.map_err(|error| error.to_string())? {
                Some(attachment) if is_meant(entry, &attachment.record) => {
                    self.detach(&key).await.map_err(|error| error.msg)?;
                    tracing::info!("carried out a spooled DEL");
                }
                Some(_) => {
                    tracing::info!("a spooled DEL is older than the attachment; dropped");
                }
                None => {}
            }
        }
        let (folder, name) = (dir.to_owned(), spooled(entry));
        let entry = entry.clone();
        off_the_runtime(move || spool::remove(&folder, &entry)).await?;
        self.spool_failures.send_if_modified(|told| told.remove(&name).is_some());
        Ok(())
    }
}

/// What a spooled DEL is about.
fn spooled(entry: &SpoolEntry) -> String {
    format!("{}/{}", entry.container_id, entry.ifname)
}

/// The spool waits for the plugin's lock and for the disk; the agent's only thread must not.
async fn off_the_runtime<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SpoolError> + Send + 'static,
) -> Result<T, String> {
    let outcome = tokio::task::spawn_blocking(work).await;
    outcome.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
}

/// Whether the DEL is about this very attachment.
fn is_meant(entry: &SpoolEntry, record: &Allocation) -> bool {
    let made = u64::try_from(record.allocated_at.as_millisecond()).unwrap_or(0);
    if made > entry.spooled_at_unix_ms {
        return false;
    }
    match (entry.netns, record.netns_dev, record.netns_ino) {
        (Some(netns), Some(dev), Some(ino)) => (netns.dev, netns.ino) == (dev, ino),
        // A runtime that has taken the namespace away already sends DEL without it.
        _ => true,
    }
}

/// A file that is not a spool entry is kept for people, out of the way: the spool passes over
/// directories.
fn set_aside(dir: &Path, path: &Path, reason: &str) {
    let aside = dir.join("unreadable");
    tracing::error!(file = %path.display(), reason, aside = %aside.display(), "not a spool entry; set aside");
    let _ = std::fs::create_dir(&aside);
    if let Some(name) = path.file_name() {
        let _ = std::fs::rename(path, aside.join(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flock_cni::netns::NetnsId;

    fn entry(netns: Option<NetnsId>, at: u64) -> SpoolEntry {
        SpoolEntry {
            container_id: "c".into(),
            ifname: "eth0".into(),
            netns,
            netns_path: String::new(),
            spooled_at_unix_ms: at,
        }
    }

    #[test]
    fn a_spooled_del_never_touches_a_newer_attachment() {
        let key = Key { container_id: "c".into(), ifname: "eth0".into() };
        let made = jiff::Timestamp::from_millisecond(1000).unwrap();
        let mut record = Allocation::new(&key, made);
        record.netns_dev = Some(4);
        record.netns_ino = Some(77);
        let same = Some(NetnsId { dev: 4, ino: 77 });
        let other = Some(NetnsId { dev: 4, ino: 78 });
        for (netns, at, meant) in [
            (same, 2000, true),
            (same, 1000, true),
            (None, 2000, true),
            (same, 999, false),
            (None, 999, false),
            (other, 2000, false),
        ] {
            assert_eq!(is_meant(&entry(netns, at), &record), meant, "{netns:?} {at}");
        }
    }
}
