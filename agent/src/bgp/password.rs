//! The passwords of peers, from files and Secrets. Decides when a password cannot be used: then
//! its peer stays down with that as its last error, and never speaks without.
//!
//! The folders of the files are watched, so that a password that is put there or replaced is taken
//! up at once; a folder may come later, too.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flock_bgp::Secret;
use rustix::fs::OFlags;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::config::{Bgp, Password};
use crate::notify::Watcher;
use crate::source::Secrets;

/// TCP_MD5SIG_MAXKEYLEN of linux/tcp.h.
const LONGEST: usize = 80;

/// The password, or why the peer has to stay down.
pub(super) fn read(password: &Password, secrets: &Secrets) -> Result<Secret, String> {
    match password {
        Password::File(file) => {
            let shown = file.display().to_string();
            let text = bounded(file).map_err(|error| format!("password: {shown}: {error}"))?;
            usable(&text, &shown)
        }
        Password::Secret { name, key } => {
            let value = secrets.value(name, key).map_err(|why| format!("password: {why}"))?;
            usable(&value.0, &format!("the key {key} of the Secret {name}"))
        }
    }
}

fn usable(text: &[u8], shown: &str) -> Result<Secret, String> {
    // An editor ends the last line; the newline is nobody's password.
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    let text = text.strip_suffix(b"\r").unwrap_or(text);
    match text.len() {
        0 => Err(format!("password: {shown} is empty; write the password into it")),
        1..=LONGEST => Ok(Secret(text.into())),
        _ => Err(format!(
            "password: {shown} is longer than the {LONGEST} bytes that TCP-MD5 takes; choose a shorter one"
        )),
    }
}

fn bounded(path: &Path) -> std::io::Result<Vec<u8>> {
    // Whatever lies there: a FIFO is not waited for.
    let flags = (OFlags::NONBLOCK | OFlags::CLOEXEC).bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::other("is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(LONGEST as u64 + 3).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Watches the folders in which passwords lie.
#[derive(Default)]
pub(super) struct Folders {
    watched: BTreeSet<PathBuf>,
    watchers: JoinSet<()>,
}

impl Folders {
    /// Watches those of this configuration from now on, and wakes whoever waits for `changed`. A
    /// folder that cannot be watched is told; its passwords are read at each other change.
    pub(super) fn follow(&mut self, bgp: &Bgp, changed: &Arc<Notify>) {
        let folder = |password: &Password| match password {
            Password::File(file) => file.parent().map(Path::to_path_buf),
            Password::Secret { .. } => None,
        };
        let passwords = bgp.peers.iter().filter_map(|peer| peer.password.as_ref());
        let wanted: BTreeSet<PathBuf> = passwords.filter_map(folder).collect();
        if wanted == self.watched {
            return;
        }
        // Dropped, the old ones end.
        self.watchers = JoinSet::new();
        for folder in &wanted {
            match Watcher::patient(folder, &[]) {
                Ok(watcher) => {
                    self.watchers.spawn(watch(watcher, changed.clone()));
                }
                Err(error) => tracing::warn!(
                    file = %folder.display(), %error,
                    "the folder of a password cannot be watched; a password that comes later is seen only with the next change of the NodeConfig"
                ),
            }
        }
        self.watched = wanted;
    }
}

async fn watch(mut watcher: Watcher, changed: Arc<Notify>) {
    loop {
        watcher.wait().await;
        if !watcher.take().is_nothing() {
            changed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::SecretSeen;

    #[test]
    fn what_is_a_password_and_what_keeps_a_peer_down() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tor-a");
        let asked = Password::File(file.clone());
        let none = Secrets::default();
        assert!(read(&asked, &none).unwrap_err().contains("tor-a: No such file"), "missing");
        for (text, password) in [
            ("secret", Some("secret")),
            ("secret\n", Some("secret")),
            ("secret\r\n", Some("secret")),
            (" two words \n", Some(" two words ")),
            ("a\n\n", Some("a\n")),
            ("", None),
            ("\n", None),
        ] {
            std::fs::write(&file, text).unwrap();
            let found = read(&asked, &none).map(|secret| secret.0.to_vec());
            assert_eq!(found.ok().as_deref(), password.map(str::as_bytes), "{text:?}");
        }
        std::fs::write(&file, "x".repeat(LONGEST)).unwrap();
        assert!(read(&asked, &none).is_ok());
        std::fs::write(&file, "x".repeat(LONGEST + 1)).unwrap();
        assert!(read(&asked, &none).unwrap_err().contains("longer than the 80 bytes"));
        std::fs::write(&file, "x".repeat(1 << 20)).unwrap();
        assert!(read(&asked, &none).is_err(), "not read to its end");
        assert!(read(&Password::File(dir.path().into()), &none).unwrap_err().contains("regular"));
        let secret = Password::Secret { name: "tor".into(), key: "password".into() };
        assert!(read(&secret, &none).unwrap_err().contains("Kubernetes"));
    }

    #[test]
    fn a_secret_that_is_not_there_keeps_a_peer_down() {
        let asked = Password::Secret { name: "tor".into(), key: "password".into() };
        let mut secrets = Secrets::of("flock-system");
        let why = |secrets: &Secrets| read(&asked, secrets).unwrap_err();
        assert!(why(&secrets).contains("flock-system/tor is not known yet"));
        secrets.set("tor", Some(SecretSeen::Missing));
        assert!(why(&secrets).contains("does not exist; create it, with the key password"));
        let there = |key: &str, value: &[u8]| {
            Some(SecretSeen::There([(key.to_owned(), Secret(value.into()))].into()))
        };
        secrets.set("tor", there("other", b"x"));
        assert!(why(&secrets).contains("has no key password"));
        secrets.set("tor", there("password", b""));
        assert!(why(&secrets).contains("is empty"), "{}", why(&secrets));
        secrets.set("tor", there("password", b"secret\n"));
        assert_eq!(&*read(&asked, &secrets).unwrap().0, b"secret");
    }
}
