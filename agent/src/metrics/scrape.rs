//! One look at everything, for whoever asks. Decides how often that happens: one look at a time, and
//! all who asked before it began share it, so that a crowd costs two looks and holds one text.

use std::sync::Arc;

use hyper::body::Bytes;
use prometheus_client::encoding::text::{encode, encode_registry};
use prometheus_client::registry::Registry;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::Metrics;
use super::figures::Figures;
use super::text::{Form, classic};
use crate::bgp::Bgp;
use crate::pods::Pods;

/// A look: when it began, and what it saw, in both forms.
struct Look {
    began: Instant,
    openmetrics: Bytes,
    classic: Bytes,
}

/// Everything that is looked at.
pub struct Scrape {
    metrics: Arc<Metrics>,
    pods: Arc<Pods>,
    bgp: Bgp,
    last: Mutex<Option<Look>>,
}

impl Scrape {
    /// Of this agent.
    pub fn new(metrics: Arc<Metrics>, pods: Arc<Pods>, bgp: Bgp) -> Self {
        Self { metrics, pods, bgp, last: Mutex::const_new(None) }
    }

    /// All metrics as they are now.
    pub async fn text(&self, form: Form) -> Bytes {
        let asked = Instant::now();
        let mut last = self.last.lock().await;
        let look = match last.take().filter(|look| look.began >= asked) {
            Some(look) => look,
            None => self.look().await,
        };
        let text = match form {
            Form::OpenMetrics => look.openmetrics.clone(),
            Form::Classic => look.classic.clone(),
        };
        *last = Some(look);
        text
    }

    async fn look(&self) -> Look {
        let began = Instant::now();
        let figures = Figures::gather(&self.metrics, &self.pods, &self.bgp).await;
        let mut read = Registry::default();
        read.register_collector(Box::new(figures));
        let mut text = String::new();
        // Writing to a text never fails; what would, is a defect that the end mark shows.
        let _ = encode_registry(&mut text, &self.metrics.registry)
            .and_then(|()| encode(&mut text, &read));
        Look { began, classic: classic(&text).into(), openmetrics: text.into() }
    }
}
