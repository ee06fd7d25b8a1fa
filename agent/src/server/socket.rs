//! A unix socket that appears complete: bound aside, made root only, then renamed into place, so
//! that whoever finds the path can be served. A path that a live agent answers on is refused; one
//! that a dead agent left is replaced.

use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};

/// Who does not take a call for so long is busy, not dead.
const PATIENCE: Duration = Duration::from_secs(1);

/// Why a socket cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Somebody answers there.
    #[error("{0} is in use by a running agent; stop it, or choose another path")]
    InUse(String),
    /// Something that is not a socket is in the way.
    #[error("{0} exists and is not a socket; remove it, or choose another path")]
    NotASocket(String),
    /// The file system says no.
    #[error("cannot open the socket {0}: {1}")]
    Io(String, std::io::Error),
}

/// A listening socket and the file that it is known by.
pub struct Socket {
    /// Accepts connections.
    pub listener: UnixListener,
    path: PathBuf,
    inode: u64,
}

/// Refuses when a live agent listens at the path. To be asked before anything is changed.
pub async fn ensure_free(path: &Path) -> Result<(), SocketError> {
    let shown = path.display().to_string();
    match path.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(SocketError::Io(shown, error)),
        Ok(meta) if !meta.file_type().is_socket() => Err(SocketError::NotASocket(shown)),
        Ok(_) => ensure_silent(path, shown).await,
    }
}

/// Only a socket that nobody holds any more refuses the connection: one whose queue is full has a
/// listener that is behind.
async fn ensure_silent(path: &Path, shown: String) -> Result<(), SocketError> {
    let Ok(connected) = tokio::time::timeout(PATIENCE, UnixStream::connect(path)).await else {
        return Err(SocketError::InUse(shown));
    };
    match connected.map_err(|error| (error.kind(), error)) {
        Err((ErrorKind::ConnectionRefused | ErrorKind::NotFound, _)) => Ok(()),
        Ok(_) | Err((ErrorKind::WouldBlock, _)) => Err(SocketError::InUse(shown)),
        Err((_, error)) => Err(SocketError::Io(shown, error)),
    }
}

impl Socket {
    /// Binds and publishes the socket.
    pub async fn open(path: &Path) -> Result<Self, SocketError> {
        ensure_free(path).await?;
        let failed = |error| SocketError::Io(path.display().to_string(), error);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        let mut aside = path.as_os_str().to_owned();
        aside.push(format!(".{}", std::process::id()));
        let aside = PathBuf::from(aside);
        match std::fs::remove_file(&aside) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(failed(error));
            }
            _ => {}
        }
        let listener = UnixListener::bind(&aside).map_err(failed)?;
        std::fs::set_permissions(&aside, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
        let inode = aside.symlink_metadata().map_err(failed)?.ino();
        std::fs::rename(&aside, path).map_err(failed)?;
        Ok(Self { listener, path: path.to_owned(), inode })
    }
}

impl Drop for Socket {
    /// Takes the file away, unless a successor has already put its own there.
    fn drop(&mut self) {
        if self.path.symlink_metadata().is_ok_and(|meta| meta.ino() == self.inode) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Whether the other end may speak: root, or whoever the agent itself runs as.
pub fn peer_may_speak(stream: &UnixStream) -> Result<(), String> {
    let us = rustix::process::geteuid().as_raw();
    match stream.peer_cred() {
        Ok(peer) if peer.uid() == 0 || peer.uid() == us => Ok(()),
        Ok(peer) => Err(format!("uid {} may not speak to the agent: only root may", peer.uid())),
        Err(error) => Err(format!("cannot tell who is calling: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener as Listener, UnixStream as Stream};

    use super::*;

    fn path() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        (dir, path)
    }

    #[tokio::test]
    async fn what_nobody_holds_is_free() {
        let (_dir, path) = path();
        ensure_free(&path).await.unwrap();
        drop(Listener::bind(&path).unwrap());
        assert!(path.exists());
        ensure_free(&path).await.unwrap();
    }

    #[tokio::test]
    async fn what_somebody_holds_is_in_use() {
        let (_dir, path) = path();
        let _listener = Listener::bind(&path).unwrap();
        let refused = ensure_free(&path).await.unwrap_err();
        assert!(matches!(refused, SocketError::InUse(_)), "{refused}");
    }

    #[tokio::test]
    async fn a_listener_with_a_full_queue_is_alive() {
        let (_dir, path) = path();
        let listener = Listener::bind(&path).unwrap();
        // Listening again shortens the queue to one.
        rustix::net::listen(&listener, 0).unwrap();
        let _waiting = Stream::connect(&path).unwrap();
        let refused = ensure_free(&path).await.unwrap_err();
        assert!(matches!(refused, SocketError::InUse(_)), "{refused}");
    }

    #[tokio::test]
    async fn what_is_no_stream_is_not_taken_for_dead() {
        let (_dir, path) = path();
        let _datagrams = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
        let refused = ensure_free(&path).await.unwrap_err();
        assert!(matches!(refused, SocketError::Io(..)), "{refused}");
    }
}
