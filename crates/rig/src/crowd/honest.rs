//! The honest client among thousands of hostile ones: its visits, and their durations.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use sealpost_base::{Clock, SystemClock};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::imap::Imap;
use crate::server::PASSWORD;

/// Its account.
pub(super) const HONEST: &str = "honest@localhost";
/// Its pause between two rounds.
const PAUSE: Duration = Duration::from_millis(20);

/// The honest client's thread.
pub(super) struct Visitor {
    visits: UnboundedSender<Visits>,
}

/// A request to visit a server for some time, with the channel for the results.
struct Visits {
    imap: SocketAddr,
    during: Duration,
    fared: oneshot::Sender<Honest>,
}

impl Visitor {
    /// Starts it with the present priority of this thread.
    pub(super) fn start(timeout_each: Duration) -> Result<Self> {
        let (visits, mut wanted) = unbounded_channel::<Visits>();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::Builder::new().name("honest".into()).spawn(move || {
            runtime.block_on(async {
                while let Some(Visits { imap, during, fared }) = wanted.recv().await {
                    let _ = fared.send(Honest::watched(imap, timeout_each, during).await);
                }
            });
        })?;
        Ok(Visitor { visits })
    }

    /// Measures its visits for this time.
    pub(super) async fn watch(&self, imap: SocketAddr, during: Duration) -> Result<Honest> {
        let (fared, how) = oneshot::channel();
        let gone = "the honest client's thread is gone";
        self.visits.send(Visits { imap, during, fared }).context(gone)?;
        how.await.context(gone)
    }
}

/// The results of its visits.
#[derive(Default)]
pub(super) struct Honest {
    /// The durations of completed visits.
    pub(super) took: Vec<Duration>,
    /// The number of failed visits.
    pub(super) failed: usize,
    /// The error of the last failed one.
    pub(super) last_error: Option<String>,
}

impl Honest {
    async fn watched(imap: SocketAddr, timeout_each: Duration, during: Duration) -> Self {
        let clock = SystemClock::new();
        let (start, mut honest) = (clock.monotonic(), Honest::default());
        while clock.monotonic() - start < during {
            honest.round(imap, timeout_each).await;
        }
        honest
    }

    async fn round(&mut self, imap: SocketAddr, timeout_each: Duration) {
        let clock = SystemClock::new();
        let start = clock.monotonic();
        let work = async {
            let mut imap = Imap::login(imap, HONEST, PASSWORD).await?;
            imap.ok("SELECT INBOX").await?;
            imap.ok("FETCH 1:5 (FLAGS ENVELOPE BODY.PEEK[HEADER])").await?;
            imap.ok("LOGOUT").await
        };
        match timeout(timeout_each, work).await.context("not served in time").and_then(|result| result) {
            Ok(_) => self.took.push(clock.monotonic() - start),
            Err(error) => {
                self.failed += 1;
                self.last_error = Some(format!("{error:#}"));
            }
        }
        tokio::time::sleep(PAUSE).await;
    }

    /// Counts `other`'s visits too.
    pub(super) fn add(&mut self, other: Honest) {
        self.took.extend(other.took);
        self.failed += other.failed;
        self.last_error = other.last_error.or(self.last_error.take());
    }

    /// The ratio of their 99th percentiles.
    pub(super) fn times_as_long_as(&self, other: &Honest) -> f64 {
        self.percentile(99).as_secs_f64() / other.percentile(99).as_secs_f64()
    }

    fn percentile(&self, percent: usize) -> Duration {
        let mut took = self.took.clone();
        took.sort_unstable();
        took.get((took.len() * percent / 100).min(took.len().saturating_sub(1))).copied().unwrap_or_default()
    }

    pub(super) fn summary(&self) -> String {
        let (p50, p99) = (self.percentile(50), self.percentile(99));
        format!("honest p50 {p50:.1?}, p99 {p99:.1?} of {}, {} failed", self.took.len(), self.failed)
    }
}
