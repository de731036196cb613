//! Clients: the commands of a connection and the handling of the answers.

pub mod imap;
pub mod jmap;
pub mod smtp;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::io;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use sealpost_base::SeededRandom;
use tokio::sync::watch;
use tokio::time::timeout;

use super::notice::Announced;
use super::scenario::template::Values;
use super::shared::Shared;
use super::target::Endpoint;
use crate::result::Recorder;

/// How long the server may take to notify a waiting client of a delivery.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(10);
/// After so many deliveries in a row without a notification, the run stops waiting for them.
const MISSED_NOTIFICATIONS: u32 = 5;

/// Why a client cannot continue as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fail {
    /// The connection is lost or was never established.
    Closed(String),
    /// It exceeded the command timeout.
    Timeout,
    /// As `Timeout`, without any bytes received, on a port without implicit TLS: perhaps it needs
    /// it.
    Silent,
    /// The server does not speak the protocol, or not the required part.
    Protocol(String),
    /// The server has no resources now and says so: it may have later.
    Unavailable(String),
    /// The server failed to notify clients in IDLE so often that the run waits for notifications no
    /// more.
    NotNotified,
    /// The login was refused: a retry would only add another failed login to the account.
    Denied(String),
    /// The run is over.
    Stopped,
}

impl Fail {
    /// The failure if no greeting came from `endpoint`.
    fn of_greeting(self, endpoint: &Endpoint, anything: bool) -> Self {
        let encrypted = endpoint.tls.as_ref().is_some_and(|tls| tls.implicit);
        if self == Fail::Timeout && !anything && !encrypted { Fail::Silent } else { self }
    }

    /// Its name in reports.
    pub fn kind(&self) -> &'static str {
        match self {
            Fail::Closed(_) => "closed",
            Fail::Timeout | Fail::Silent | Fail::NotNotified => "timeout",
            Fail::Protocol(_) => "protocol",
            Fail::Unavailable(_) => "later",
            Fail::Denied(_) => "denied",
            Fail::Stopped => "stopped",
        }
    }
}

impl fmt::Display for Fail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fail::Closed(why) | Fail::Protocol(why) | Fail::Unavailable(why) | Fail::Denied(why) => {
                f.write_str(why)
            }
            Fail::Timeout => f.write_str("timeout (--timeout)"),
            Fail::Silent => f.write_str(
                "no greeting before the timeout (--timeout); is this a port with implicit TLS (--imaps, \
                 --smtps)?",
            ),
            Fail::NotNotified => f.write_str("the server repeatedly did not notify clients in IDLE"),
            Fail::Stopped => f.write_str("the run is over"),
        }
    }
}

impl From<io::Error> for Fail {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Fail::Closed("the server closed the connection".into()),
            _ => Fail::Closed(error.to_string()),
        }
    }
}

/// State shared by the clients of one thread.
pub struct Thread {
    /// State shared by all threads.
    pub shared: Arc<Shared>,
    /// Measurements of the present phase.
    pub recorder: RefCell<Recorder>,
}

impl Thread {
    /// The current time.
    pub fn now(&self) -> Duration {
        self.shared.clock.monotonic()
    }

    /// `name` succeeded; its time counts from `from`.
    pub fn ok(&self, name: &str, from: Duration, sent: u64, received: u64) {
        let latency = self.now().saturating_sub(from);
        self.recorder.borrow_mut().ok(name, latency, sent, received);
        self.shared.done.fetch_add(1, Ordering::Relaxed);
    }

    /// `name` was not sent: the server lacks a capability.
    pub fn leave_out(&self, name: &str, capability: &str) {
        let text = format!("{name} was left out: the server does not announce {capability}");
        self.shared.left_out.lock().unwrap_or_else(PoisonError::into_inner).insert(text);
    }

    /// `name` failed.
    pub fn error(&self, name: &str, kind: &str, example: impl FnOnce() -> String) {
        self.recorder.borrow_mut().error(name, kind, example);
        self.shared.errors.fetch_add(1, Ordering::Relaxed);
    }
}

/// Counts an open connection for as long as it lives.
pub struct OpenCount(Rc<Thread>);

impl OpenCount {
    /// Counts one more.
    pub fn new(thread: &Rc<Thread>) -> Self {
        let open = thread.shared.open.fetch_add(1, Ordering::Relaxed) + 1;
        thread.shared.most_open.fetch_max(open, Ordering::Relaxed);
        OpenCount(thread.clone())
    }
}

impl Drop for OpenCount {
    fn drop(&mut self) {
        self.0.shared.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The state of a client that outlives its connections.
pub struct Client {
    /// Its thread.
    pub thread: Rc<Thread>,
    /// The index of its connection in the phase, from 0.
    pub connection: usize,
    /// The index of its account.
    pub account: usize,
    /// Its random numbers.
    pub random: SeededRandom,
    /// Rounds it has begun.
    pub round: Cell<u64>,
    /// Messages it has sent.
    pub messages: Cell<u64>,
    /// For IMAP: UIDNEXT when it last asked for new messages; 0: never.
    pub uid_seen: Cell<u32>,
    /// For IMAP: the first and last message of the batch, in a step that goes through the mailbox.
    pub batch: Cell<(u32, u32)>,
    /// For IMAP: HIGHESTMODSEQ then.
    pub mod_seq: Cell<u64>,
    /// The time at which its phase begins no more rounds, and pauses end.
    pub deadline: Option<Duration>,
    /// Becomes true when it is to stop.
    pub stop: RefCell<watch::Receiver<bool>>,
    /// Called once it stays in IDLE.
    pub settled: Box<dyn Fn()>,
}

impl Client {
    /// Its account's name.
    pub fn user(&self) -> &str {
        self.thread.shared.target.users.get(self.account).map_or("", |user| &user.name)
    }

    /// The values of placeholders, for a session with so many messages.
    pub fn values(&self, exists: u32, uid_next: u32) -> Values<'_> {
        Values {
            random: &self.random,
            user: self.user(),
            connection: self.connection,
            round: self.round.get(),
            exists,
            uid_next,
            uid_seen: self.uid_seen.get(),
            batch: self.batch.get(),
            mod_seq: self.mod_seq.get(),
            names: self.thread.shared.names(),
        }
    }

    /// A pause, cut at the end of the phase.
    pub fn within_phase(&self, pause: Duration) -> Duration {
        let left = self.deadline.map(|deadline| deadline.saturating_sub(self.thread.now()));
        left.map_or(pause, |left| pause.min(left))
    }

    /// Whether it is to stop.
    pub fn is_stopped(&self) -> bool {
        *self.stop.borrow().borrow()
    }

    /// Waits for `time`, or until it is to stop: then `Stopped`.
    ///
    /// # Errors
    /// Only that.
    pub async fn pause(&self, time: Duration) -> Result<(), Fail> {
        if time.is_zero() {
            return Ok(());
        }
        tokio::select! {
            () = tokio::time::sleep(time) => Ok(()),
            () = self.stopped() => Err(Fail::Stopped),
        }
    }

    /// Returns when it is to stop.
    pub async fn stopped(&self) {
        let mut stop = self.stop.borrow().clone();
        // The sender is gone, and with it the run.
        let _ = stop.wait_for(|stop| *stop).await;
    }
}

/// Waits until all clients were notified of a delivery; returns whether they were.
async fn notified(thread: &Thread, announced: &[Announced]) -> bool {
    let mut all = true;
    for one in announced {
        if timeout(NOTICE_TIMEOUT, one.notified()).await.is_err() {
            all = false;
            let left = thread.shared.notices.retract(one);
            for _ in 0..left {
                thread.error("notification", "timeout", || {
                    format!("the server did not notify a waiting client within {NOTICE_TIMEOUT:?}")
                });
            }
        }
    }
    all
}

/// Counts bytes for the progress line.
pub(super) fn count(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}
