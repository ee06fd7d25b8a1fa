//! The kernel's counters of TCP-MD5 (RFC 2385): how a password that does not match is told apart
//! from a peer that is silent, since the kernel drops such segments without a word. Decides the
//! words; they are a guess, for the counters are the whole namespace's.

use std::fs;

/// Segments that the kernel dropped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Md5Counters {
    /// Without a signature, where we have a password.
    not_found: u64,
    /// With a signature, where we have no password.
    unexpected: u64,
    /// With a wrong signature.
    failure: u64,
}

impl Md5Counters {
    /// As they are now; all zero where the kernel does not tell.
    pub(crate) fn read() -> Self {
        // The thread's own namespace, which may differ from the process's.
        fs::read_to_string("/proc/thread-self/net/netstat")
            .map_or_else(|_| Self::default(), |text| parse(&text))
    }

    /// What may be wrong with a peer that did not answer since `before`, if anything.
    pub(crate) fn suspicion(&self, before: &Self, password: bool) -> Option<String> {
        let wrong = self.failure.saturating_sub(before.failure);
        let without = self.not_found.saturating_sub(before.not_found);
        let with = self.unexpected.saturating_sub(before.unexpected);
        if password && wrong > 0 {
            Some(format!(
                "segments with a wrong TCP-MD5 signature were dropped meanwhile ({wrong}): does the password match?"
            ))
        } else if password && without > 0 {
            Some(format!(
                "segments without a TCP-MD5 signature were dropped meanwhile ({without}): has the peer a password?"
            ))
        } else if !password && with > 0 {
            Some(format!(
                "segments with a TCP-MD5 signature were dropped meanwhile ({with}): does the peer want a password?"
            ))
        } else {
            None
        }
    }
}

/// A line of names and a line of numbers, both beginning with `TcpExt:`.
fn parse(text: &str) -> Md5Counters {
    let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else {
        return Md5Counters::default();
    };
    let mut counters = Md5Counters::default();
    for (name, value) in names.split_whitespace().zip(values.split_whitespace()) {
        let value = value.parse().unwrap_or(0);
        match name {
            "TCPMD5NotFound" => counters.not_found = value,
            "TCPMD5Unexpected" => counters.unexpected = value,
            "TCPMD5Failure" => counters.failure = value,
            _ => {}
        }
    }
    counters
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "TcpExt: SyncookiesSent TCPMD5NotFound TCPMD5Unexpected TCPMD5Failure X\n\
                        TcpExt: 9 1 2 3 9\nIpExt: TCPMD5Failure\nIpExt: 77\n";

    #[test]
    fn counters_are_read_by_name() {
        assert_eq!(parse(TEXT), Md5Counters { not_found: 1, unexpected: 2, failure: 3 });
        assert_eq!(parse("garbage"), Md5Counters::default());
        assert_eq!(parse("TcpExt: TCPMD5Failure\nTcpExt: -\n"), Md5Counters::default());
    }

    #[test]
    fn only_what_grew_is_suspected() {
        let before = parse(TEXT);
        assert_eq!(before.suspicion(&before, true), None);
        let failed = Md5Counters { failure: 5, ..before };
        assert!(
            failed
                .suspicion(&before, true)
                .unwrap()
                .contains("wrong TCP-MD5 signature were dropped meanwhile (2)")
        );
        assert_eq!(failed.suspicion(&before, false), None);
        let without = Md5Counters { not_found: 2, ..before };
        assert!(without.suspicion(&before, true).unwrap().contains("without"));
        let with = Md5Counters { unexpected: 3, ..before };
        assert!(with.suspicion(&before, false).unwrap().contains("want a password"));
        assert_eq!(with.suspicion(&before, true), None);
    }
}
