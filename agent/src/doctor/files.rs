//! Files and directories of the agent: who may read and write them, and whether there is room for
//! more. Deciding is pure; `look` and `room` look.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use super::name::SPACE;
use crate::cli::check::Finding;

/// Less free than this, and the next state may not fit.
const LEAST_FREE: u64 = 16 << 20;
const LEAST_FREE_PERCENT: u64 = 1;

/// What is to be looked at, and how it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A socket of ours: root's alone.
    Socket,
    /// A file of ours: root's alone.
    Private,
    /// A directory of ours: nobody else writes there.
    Directory,
    /// Somebody's secret: not everybody's to read.
    Secret,
}

/// A file as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    /// Permission bits.
    pub(super) mode: u32,
    /// Whose it is.
    pub(super) uid: u32,
    /// What it is.
    pub(super) is: Is,
}

/// What lies there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Is {
    Socket,
    Directory,
    Other,
}

/// `Ok(None)`: it is not there.
pub(super) fn look(path: &Path, kind: Kind) -> Result<Option<Seen>, String> {
    // A link to a socket of ours would be somebody else's doing; a secret may well be a link.
    let found = match kind {
        Kind::Socket | Kind::Private => path.symlink_metadata(),
        Kind::Directory | Kind::Secret => path.metadata(),
    };
    match found {
        Ok(meta) => {
            let is = match meta.file_type() {
                kind if kind.is_socket() => Is::Socket,
                kind if kind.is_dir() => Is::Directory,
                _ => Is::Other,
            };
            Ok(Some(Seen { mode: meta.mode() & 0o7777, uid: meta.uid(), is }))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

/// How a file is that is there.
pub(super) fn judge(check: &str, path: &Path, kind: Kind, seen: Seen, us: u32) -> Finding {
    let shown = path.display();
    let wanted = match kind {
        Kind::Socket => Is::Socket,
        Kind::Directory => Is::Directory,
        Kind::Private | Kind::Secret => Is::Other,
    };
    if seen.is != wanted {
        let what = match kind {
            Kind::Socket => "socket",
            Kind::Directory => "directory",
            Kind::Private | Kind::Secret => "file",
        };
        return Finding::fail(
            check,
            format!("{shown} is not a {what}"),
            "find out what put it there, remove it, and restart the agent",
        );
    }
    if seen.uid != 0 && seen.uid != us {
        let message = format!("{shown} belongs to uid {}", seen.uid);
        let remedy = format!("chown 0:0 {shown}, and find out what changed it");
        return match kind {
            Kind::Secret => Finding::warn(check, message, remedy),
            _ => Finding::fail(check, message, remedy),
        };
    }
    let (refused, mode) = match kind {
        Kind::Socket | Kind::Private => (0o077, 0o600),
        // The sticky bit keeps nobody from adding files.
        Kind::Directory => (0o022, 0o700),
        Kind::Secret => (0o007, 0o600),
    };
    if seen.mode & refused == 0 {
        return Finding::ok(check, format!("{shown} has mode {:04o}", seen.mode));
    }
    let message = format!("{shown} has mode {:04o}", seen.mode);
    let remedy = format!("chmod {mode:04o} {shown}, and find out what changed it");
    match kind {
        Kind::Secret => Finding::warn(check, format!("{message}: everybody may read it"), remedy),
        _ => Finding::fail(check, message, remedy),
    }
}

/// Room on a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Room {
    /// Bytes in all.
    pub(super) total: u64,
    /// Bytes that are free for us.
    pub(super) free: u64,
    /// Files that can still be made; `None`: as many as fit.
    pub(super) files: Option<u64>,
}

/// How much room there is.
pub(super) fn room(path: &Path) -> Result<Room, String> {
    let found = rustix::fs::statvfs(path).map_err(|error| error.to_string())?;
    Ok(Room {
        total: found.f_blocks.saturating_mul(found.f_frsize),
        free: found.f_bavail.saturating_mul(found.f_frsize),
        files: (found.f_files > 0).then_some(found.f_favail),
    })
}

/// Whether that is enough.
pub(super) fn judge_room(path: &Path, room: Room) -> Finding {
    let (shown, free) = (path.display(), size(room.free));
    let remedy =
        format!("free space on the file system of {shown}; without it no pod can come or go");
    if room.files == Some(0) {
        return Finding::warn(SPACE, format!("no file can be made on that of {shown}"), remedy);
    }
    if room.free < LEAST_FREE || room.free < room.total / 100 * LEAST_FREE_PERCENT {
        return Finding::warn(
            SPACE,
            format!("{free} of {} are free for {shown}", size(room.total)),
            remedy,
        );
    }
    Finding::ok(SPACE, format!("{free} are free for {shown}"))
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..0x10_0000 => format!("{} KiB", bytes >> 10),
        0x10_0000..0x4000_0000 => format!("{} MiB", bytes >> 20),
        _ => format!("{} GiB", bytes >> 30),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::check::Status::{self, Fail, Ok as Well, Warn};

    #[test]
    fn who_may_read_and_write() {
        let table = [
            (Kind::Socket, 0o600, 0, Is::Socket, Well, ""),
            (Kind::Socket, 0o660, 0, Is::Socket, Fail, "chmod 0600 /x"),
            (Kind::Socket, 0o600, 1000, Is::Socket, Fail, "chown 0:0 /x"),
            (Kind::Socket, 0o600, 7, Is::Socket, Well, ""),
            (Kind::Socket, 0o600, 0, Is::Other, Fail, "remove it"),
            (Kind::Private, 0o644, 0, Is::Other, Fail, "chmod 0600 /x"),
            (Kind::Private, 0o400, 0, Is::Other, Well, ""),
            (Kind::Directory, 0o755, 0, Is::Directory, Well, ""),
            (Kind::Directory, 0o1777, 0, Is::Directory, Fail, "chmod 0700 /x"),
            (Kind::Directory, 0o770, 0, Is::Directory, Fail, "chmod 0700 /x"),
            (Kind::Secret, 0o640, 0, Is::Other, Well, ""),
            (Kind::Secret, 0o644, 0, Is::Other, Warn, "chmod 0600 /x"),
            (Kind::Secret, 0o600, 1000, Is::Other, Warn, "chown"),
        ];
        for (kind, mode, uid, is, status, remedy) in table {
            let finding = judge("x", Path::new("/x"), kind, Seen { mode, uid, is }, 7);
            assert_eq!(finding.status, status, "{finding:?}");
            assert!(finding.remedy.contains(remedy), "{finding:?}");
            assert_eq!(finding.status == Well, finding.remedy.is_empty());
        }
    }

    #[test]
    fn a_file_is_seen_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("f"), dir.path().join("l"));
        std::fs::write(&file, "x").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert_eq!(look(&dir.path().join("no"), Kind::Private), Ok(None));
        assert_eq!(look(&file, Kind::Private).unwrap().unwrap().is, Is::Other);
        assert_eq!(look(dir.path(), Kind::Directory).unwrap().unwrap().is, Is::Directory);
        assert!(look(&file.join("below"), Kind::Private).is_err());
        assert_eq!(look(&link, Kind::Secret).unwrap().unwrap().mode & 0o777, 0o644);
    }

    #[test]
    fn room_is_enough_or_not() {
        let (mib, gib) = (1 << 20, 1 << 30);
        let table: [(Room, Status); 6] = [
            (Room { total: 100 * gib, free: 50 * gib, files: Some(9) }, Well),
            (Room { total: 100 * gib, free: gib, files: None }, Well),
            (Room { total: 100 * gib, free: gib - mib, files: None }, Warn),
            (Room { total: 64 * mib, free: 20 * mib, files: None }, Well),
            (Room { total: 64 * mib, free: 15 * mib, files: None }, Warn),
            (Room { total: 100 * gib, free: 50 * gib, files: Some(0) }, Warn),
        ];
        for (room, status) in table {
            let finding = judge_room(Path::new("/x"), room);
            assert_eq!(finding.status, status, "{room:?} {finding:?}");
        }
        assert!(room(Path::new("/")).unwrap().total > 0);
        assert_eq!((size(7), size(5 << 10)), ("7 bytes".into(), "5 KiB".into()));
    }
}
