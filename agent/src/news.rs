//! That something changed which people look at: sessions, routes, pods, a drain. A signal without
//! content: whoever hears it asks again. Ringing costs a counter and nothing where nobody listens;
//! how often a listener asks is its own to bound.

use std::sync::Arc;

use tokio::sync::watch;

/// The bell. Cheap to clone; all clones are one.
#[derive(Debug, Clone, Default)]
pub struct News(Arc<watch::Sender<u64>>);

impl News {
    /// Something changed.
    pub fn ring(&self) {
        self.0.send_modify(|rung| *rung = rung.wrapping_add(1));
    }

    /// Hears everything from now on.
    pub fn listen(&self) -> Listener {
        Listener(self.0.subscribe())
    }
}

/// One who listens.
#[derive(Debug)]
pub struct Listener(watch::Receiver<u64>);

impl Listener {
    /// Returns when it rang since the last call, however often. May be cancelled.
    pub async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            // Nobody is left who could ring.
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_rang_before_is_heard_once_and_silence_is_silence() {
        let news = News::default();
        news.ring();
        let mut listener = news.listen();
        let mut hears = async || timeout(Duration::from_secs(1), listener.next()).await.is_ok();
        assert!(!hears().await, "that was before");
        news.ring();
        news.clone().ring();
        assert!(hears().await);
        assert!(!hears().await, "two rings are one");
        drop(news);
        assert!(!hears().await, "the end of the bell is no news");
    }
}
