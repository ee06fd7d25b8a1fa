//! How the daemon holds memory: as much as it has in use, and not the most that it ever had.
//!
//! The C library gives every thread that allocates a region of its own, and what is freed there stays
//! there: after a start with 10,000 routes the threads that read the kernel and the disk kept 14 MB
//! that nobody used. Here nearly everything happens on one thread, so all share one region, and what
//! a start or a burst of changes leaves behind is given back once it is over.
//!
//! So is, once, the code that only a start needs: of the program's text the kernel maps sixteen pages
//! around each that is used, 10 MB in all, of which a node that goes about its work uses some 4. What is
//! let go is still in the page cache, and what is needed again is mapped again, a microsecond for each
//! 64 KB. That is done when the start is over and never again: a node at work keeps what it works with.
//!
//! Decides when; how is the C library's and the kernel's. One of the two files of the workspace with
//! `unsafe` in them.
#![allow(unsafe_code, reason = "mallopt(3), malloc_trim(3) and madvise(2) on our own text")]

use std::ops::Range;
use std::time::Duration;

use crate::news::Listener;

/// When a start is over: what it took is free again. Peers have been told by then.
const STARTED: Duration = Duration::from_secs(1);
/// How long after something happened. While nothing happens nobody is woken, and while much does it
/// is done no more often than this.
const QUIET: Duration = Duration::from_secs(10);

/// Larger pieces are the system's own, and go back to it at once. Named, so that the library does not
/// raise it as it goes (to 32 MB), and with it what is kept.
#[cfg(target_env = "gnu")]
const OWN_MAPPING: libc::c_int = 256 * 1024;

/// Before the first thread is started.
pub fn share() {
    #[cfg(target_env = "gnu")]
    // SAFETY: two numbers; no other thread is there yet.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_MMAP_THRESHOLD, OWN_MAPPING);
    }
}

/// Gives back what is free, now and then. Some milliseconds for a large heap, on a thread of its own.
pub async fn keep(mut news: Listener) {
    tokio::time::sleep(STARTED).await;
    let_go_of_the_start();
    loop {
        // It cannot fail, and if it did, nothing would be lost by it.
        let _ = tokio::task::spawn_blocking(give_back).await;
        news.next().await;
        tokio::time::sleep(QUIET).await;
    }
}

fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes the library's own lock, and touches only what nobody has.
    unsafe {
        libc::malloc_trim(0);
    }
}

fn let_go_of_the_start() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    for text in texts(&maps) {
        let length = text.end - text.start;
        // SAFETY: pages of a file, mapped to be executed and never written: they read the same
        // whenever they are mapped again, this function's own among them.
        unsafe {
            libc::madvise(
                std::ptr::without_provenance_mut(text.start),
                length,
                libc::MADV_DONTNEED,
            );
        }
    }
}

/// Where programs and libraries are mapped to be executed: of a file, private, not to be written. Of
/// their other parts some were changed when the program was loaded, and only we have them so.
fn texts(maps: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    maps.lines().filter_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let (place, mode, path) = (fields.next()?, fields.next()?, fields.nth(3)?);
        let (start, end) = place.split_once('-')?;
        let address = |text| usize::from_str_radix(text, 16).ok();
        let text = address(start)?..address(end)?;
        (mode == "r-xp" && path.starts_with('/') && text.start < text.end).then_some(text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_executed_and_of_a_file_is_let_go() {
        let maps = "7f69-7f6a r--p 00000000 fd:00 77 /usr/bin/flock-agent\n\
                    7f6a-7f70 r-xp 00001000 fd:00 77 /usr/bin/flock-agent\n\
                    7f70-7f71 r--p 00007000 fd:00 77 /usr/bin/flock-agent\n\
                    7f71-7f72 rwxp 00008000 fd:00 77 /usr/bin/flock-agent\n\
                    7f73-7f74 r-xp 00000000 00:00 0\n\
                    7f75-7f76 r-xp 00000000 00:00 0 [vdso]\n";
        let found: Vec<_> = texts(maps).map(|text| (text.start, text.end)).collect();
        assert_eq!(found, [(0x7f6a, 0x7f70)]);
    }

    #[test]
    fn life_goes_on_without_it() {
        share();
        let kept: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
        give_back();
        let_go_of_the_start();
        assert_eq!(kept.iter().map(String::len).sum::<usize>(), 10 + 2 * 90 + 3 * 900);
    }
}
