//! One line in, bounded in size and time. Shared by both sockets; what a line means is theirs.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};

/// Why no line could be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum LineError {
    #[error("request is larger than {0} bytes")]
    TooLong(usize),
    #[error("request was not complete within {0:?}")]
    TooSlow(Duration),
    #[error("connection closed after {0} bytes, before the end of the line")]
    Truncated(usize),
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

/// Reads up to and including a newline and returns what stands before it.
pub(super) async fn read(
    stream: &mut (impl AsyncRead + Unpin),
    limit: usize,
    patience: Duration,
) -> Result<Vec<u8>, LineError> {
    tokio::time::timeout(patience, read_unhurried(stream, limit))
        .await
        .unwrap_or(Err(LineError::TooSlow(patience)))
}

async fn read_unhurried(
    stream: &mut (impl AsyncRead + Unpin),
    limit: usize,
) -> Result<Vec<u8>, LineError> {
    let mut line = Vec::with_capacity(4096);
    loop {
        let seen = line.len();
        if stream.read_buf(&mut line).await? == 0 {
            return Err(LineError::Truncated(line.len()));
        }
        let end = line.iter().skip(seen).position(|byte| *byte == b'\n').map(|at| seen + at);
        if end.unwrap_or(line.len()) > limit {
            return Err(LineError::TooLong(limit));
        }
        if let Some(end) = end {
            line.truncate(end);
            return Ok(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;

    const PATIENCE: Duration = Duration::from_secs(60);

    async fn feed(bytes: &[u8], limit: usize) -> Result<Vec<u8>, LineError> {
        let (mut near, mut far) = tokio::io::duplex(1 << 16);
        far.write_all(bytes).await.unwrap();
        drop(far);
        read(&mut near, limit, PATIENCE).await
    }

    #[tokio::test]
    async fn a_line_ends_at_its_newline() {
        assert_eq!(feed(b"{}\nrest", 100).await.unwrap(), b"{}");
        assert_eq!(feed(b"\n", 100).await.unwrap(), b"");
    }

    #[tokio::test]
    async fn a_line_is_bounded_and_must_end() {
        assert!(matches!(feed(b"abc", 100).await, Err(LineError::Truncated(3))));
        assert!(matches!(feed(&[b'x'; 9000], 100).await, Err(LineError::TooLong(100))));
        let mut ended = [b'x'; 102];
        ended[101] = b'\n';
        assert!(matches!(feed(&ended, 100).await, Err(LineError::TooLong(100))));
        assert_eq!(feed(&ended[1..], 100).await.unwrap().len(), 100);
    }

    #[tokio::test(start_paused = true)]
    async fn a_line_that_never_ends_is_given_up() {
        let (mut near, _far) = tokio::io::duplex(64);
        assert!(matches!(read(&mut near, 100, PATIENCE).await, Err(LineError::TooSlow(_))));
    }
}
