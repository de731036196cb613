//! An honest client beside others that load the server: its visits, and their durations.
//!
//! In reality it is on a machine of its own. Here it has its own thread with the highest priority; then comes
//! the server, and the other clients last ([`give_way`]).

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
pub(crate) const HONEST: &str = "honest@localhost";
/// By how much the server's priority is below the honest client's, and the other clients' below the
/// server's.
pub(crate) const SERVER_NICER: i32 = 5;
pub(crate) const OTHERS_NICER: i32 = 14;
/// Its pause between two rounds.
const PAUSE: Duration = Duration::from_millis(20);

/// The honest client's thread.
pub(crate) struct Visitor {
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
    pub(crate) fn start(timeout_each: Duration) -> Result<Self> {
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
    pub(crate) async fn watch(&self, imap: SocketAddr, during: Duration) -> Result<Honest> {
        let (fared, how) = oneshot::channel();
        let gone = "the honest client's thread is gone";
        self.visits.send(Visits { imap, during, fared }).context(gone)?;
        how.await.context(gone)
    }
}

/// The results of its visits.
#[derive(Default)]
pub(crate) struct Honest {
    /// The durations of completed visits.
    pub(crate) took: Vec<Duration>,
    /// The number of failed visits.
    pub(crate) failed: usize,
    /// The error of the last failed one.
    pub(crate) last_error: Option<String>,
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
    pub(crate) fn add(&mut self, other: Honest) {
        self.took.extend(other.took);
        self.failed += other.failed;
        self.last_error = other.last_error.or(self.last_error.take());
    }

    /// The ratio of their 99th percentiles.
    pub(crate) fn times_as_long_as(&self, other: &Honest) -> f64 {
        self.percentile(99).as_secs_f64() / other.percentile(99).as_secs_f64()
    }

    fn percentile(&self, percent: usize) -> Duration {
        let mut took = self.took.clone();
        took.sort_unstable();
        took.get((took.len() * percent / 100).min(took.len().saturating_sub(1))).copied().unwrap_or_default()
    }

    pub(crate) fn summary(&self) -> String {
        let (p50, p99) = (self.percentile(50), self.percentile(99));
        format!("honest p50 {p50:.1?}, p99 {p99:.1?} of {}, {} failed", self.took.len(), self.failed)
    }
}

/// Lowers the priority of this thread, and of those that it starts from now on.
pub(crate) fn give_way(by: i32) -> Result<()> {
    let now = rustix::process::getpriority_process(None)?;
    Ok(rustix::process::setpriority_process(None, now + by)?)
}
