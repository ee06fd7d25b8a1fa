//! The socket options that no safe crate sets: TCP-MD5 (RFC 2385), the least TTL that is taken
//! (RFC 5082 §3) and the most that may wait unsent. Decides how they are laid out for the kernel;
//! who gets which is `transport`.
//!
//! One of the two files of the workspace with `unsafe` in them: one system call that reads a slice.
#![allow(unsafe_code, reason = "setsockopt(2) for options that rustix does not know")]

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use libc::{c_int, socklen_t};

/// What the kernel takes at most.
const MD5_KEY_MAX: usize = libc::TCP_MD5SIG_MAXKEYLEN;

/// Sets the TCP-MD5 key for segments from and to `remote`; `None` removes it, and it is no error
/// if there was none.
pub(crate) fn set_md5(fd: impl AsFd, remote: IpAddr, key: Option<&[u8]>) -> io::Result<()> {
    let key = key.unwrap_or_default();
    let value = md5sig(remote, key).ok_or_else(|| {
        let what = format!("a TCP-MD5 password has at most {MD5_KEY_MAX} bytes, not {}", key.len());
        io::Error::new(io::ErrorKind::InvalidInput, what)
    })?;
    match set(fd.as_fd(), libc::IPPROTO_TCP, libc::TCP_MD5SIG, &value) {
        Err(error) if key.is_empty() && error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
        other => other,
    }
}

/// Segments with a smaller TTL (IPv6: hop limit) are dropped by the kernel.
pub(crate) fn set_least_ttl(fd: impl AsFd, remote: IpAddr, least: u8) -> io::Result<()> {
    let (level, name) = match remote {
        IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MINTTL),
        IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MINHOPCOUNT),
    };
    set(fd.as_fd(), level, name, &c_int::from(least).to_ne_bytes())
}

/// The socket takes no more while this many bytes wait in it that were not sent yet.
pub(crate) fn set_most_unsent(fd: impl AsFd, bytes: u32) -> io::Result<()> {
    set(fd.as_fd(), libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, &bytes.to_ne_bytes())
}

/// `struct tcp_md5sig` of linux/tcp.h: a `sockaddr_storage` (128 bytes), flags, prefix length, key
/// length (2), interface index (4), key (80). `None` where the key does not fit.
fn md5sig(remote: IpAddr, key: &[u8]) -> Option<Vec<u8>> {
    if key.len() > MD5_KEY_MAX {
        return None;
    }
    let mut value = Vec::with_capacity(136 + MD5_KEY_MAX);
    match remote {
        // struct sockaddr_in: family, port, address
        IpAddr::V4(address) => {
            value.extend(u16::try_from(libc::AF_INET).ok()?.to_ne_bytes());
            value.extend([0; 2]);
            value.extend(address.octets());
        }
        // struct sockaddr_in6: family, port, flow, address, scope
        IpAddr::V6(address) => {
            value.extend(u16::try_from(libc::AF_INET6).ok()?.to_ne_bytes());
            value.extend([0; 6]);
            value.extend(address.octets());
        }
    }
    value.resize(128, 0);
    value.extend([0; 2]);
    value.extend(u16::try_from(key.len()).ok()?.to_ne_bytes());
    value.extend([0; 4]);
    value.extend(key);
    value.resize(136 + MD5_KEY_MAX, 0);
    Some(value)
}

fn set(fd: BorrowedFd<'_>, level: c_int, name: c_int, value: &[u8]) -> io::Result<()> {
    let len = socklen_t::try_from(value.len()).map_err(io::Error::other)?;
    // SAFETY: the descriptor is open for the length of the borrow; the kernel reads `len` bytes
    // from `value`, which has as many, writes nothing, and keeps no pointer.
    let outcome =
        unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, value.as_ptr().cast(), len) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
