//! The state of a connection while hyper owns its stream: the requests in progress, and since when the server
//! has been waiting for the client.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use sealpost_base::AccountId;
use sealpost_base::limits::HTTP_ABANDONED_REQUESTS;
use sealpost_session::admission::AdmittedHandle;
use sealpost_session::session_log::SessionLog;
use sealpost_session::sessions::SessionState;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::HttpShared;
use crate::takeover::Takeover;
use crate::transport::Transport;

/// One connection.
pub(crate) struct Connection {
    pub(crate) shared: Arc<HttpShared>,
    pub(crate) transport: Transport,
    /// HTTP/2: bytes received without a request in progress may be frames that belong to no request.
    is_multiplexed: bool,
    admitted: Option<AdmittedHandle>,
    log: Mutex<SessionLog>,
    activity: Mutex<Activity>,
    changed: Notify,
    /// HTTP/1.1: the response that takes over the connection.
    takeover: Mutex<Option<Takeover>>,
    /// Whether a write is waiting for the client.
    is_blocked: AtomicBool,
}

struct Activity {
    at_work: usize,
    /// When the last request ended.
    idle_since: Instant,
    /// When the first byte of the next head arrived.
    head_since: Option<Instant>,
    /// The number of requests that the client cancelled, minus those that completed.
    abandoned: usize,
}

/// Why the server closes a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overdue {
    /// The client sent no request in time.
    Idle,
    /// The client did not complete the head of a request in time.
    Head,
    /// The client cancelled too many requests.
    Abandoned,
}

impl Connection {
    pub(crate) fn new(
        shared: Arc<HttpShared>,
        transport: Transport,
        is_multiplexed: bool,
        admitted: Option<AdmittedHandle>,
        log: SessionLog,
    ) -> Self {
        let activity = Activity { at_work: 0, idle_since: Instant::now(), head_since: None, abandoned: 0 };
        let (log, activity, changed) = (Mutex::new(log), Mutex::new(activity), Notify::new());
        Connection {
            shared,
            transport,
            is_multiplexed,
            admitted,
            log,
            activity,
            changed,
            takeover: Mutex::default(),
            is_blocked: AtomicBool::new(false),
        }
    }

    pub(crate) fn log(&self) -> MutexGuard<'_, SessionLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Assigns the connection to an account after a login. False if the account has too many connections.
    pub(crate) fn logged_in(&self, account: AccountId, name: &str) -> bool {
        let is_admitted = self.admitted.as_ref().is_none_or(|admitted| admitted.logged_in(account));
        if is_admitted {
            let mut log = self.log();
            log.user(name, account);
            log.state(SessionState::Authenticated);
        }
        is_admitted
    }

    /// Whether a response may take over the connection.
    pub(crate) fn can_be_taken_over(&self) -> bool {
        !self.is_multiplexed
    }

    /// Lets a response take over the connection once hyper has sent everything before it.
    pub(crate) fn take_over(&self, takeover: Takeover) {
        *self.takeover.lock().unwrap_or_else(PoisonError::into_inner) = Some(takeover);
    }

    /// Waits for that response. Call it from the task that polls requests: nothing else wakes it.
    pub(crate) async fn taken_over(&self) -> Takeover {
        poll_fn(|_| {
            if self.is_blocked.load(Ordering::Relaxed) {
                return Poll::Pending;
            }
            let takeover = self.takeover.lock().unwrap_or_else(PoisonError::into_inner).take();
            takeover.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Notes whether a write is waiting for the client.
    pub(crate) fn note_blocked(&self, is_blocked: bool) {
        self.is_blocked.store(is_blocked, Ordering::Relaxed);
    }

    /// Notes that bytes arrived from the client.
    pub(crate) fn received(&self) {
        let mut activity = self.activity();
        if activity.at_work == 0 && activity.head_since.is_none() && !self.is_multiplexed {
            activity.head_since = Some(Instant::now());
            drop(activity);
            self.changed.notify_one();
        }
    }

    /// Notes that the head of a request is complete.
    pub(crate) fn begin_request(&self) {
        let mut activity = self.activity();
        activity.at_work += 1;
        activity.head_since = None;
    }

    /// Notes that a request completed, or that the client cancelled it. Returns whether no other is in
    /// progress.
    pub(crate) fn finish_request(&self, is_complete: bool) -> bool {
        let mut activity = self.activity();
        activity.at_work = activity.at_work.saturating_sub(1);
        activity.abandoned = match is_complete {
            true => activity.abandoned.saturating_sub(1),
            false => activity.abandoned + 1,
        };
        if activity.at_work == 0 {
            activity.idle_since = Instant::now();
        }
        let is_last = activity.at_work == 0;
        drop(activity);
        self.changed.notify_one();
        is_last
    }

    /// Waits until the server must close the connection. Cancel-safe.
    pub(crate) async fn overdue(&self) -> Overdue {
        loop {
            let deadline = {
                let activity = self.activity();
                if activity.abandoned > HTTP_ABANDONED_REQUESTS {
                    return Overdue::Abandoned;
                }
                let timeouts = self.shared.timeouts;
                match (activity.at_work, activity.head_since) {
                    (0, None) => Some((activity.idle_since + timeouts.idle, Overdue::Idle)),
                    (0, Some(since)) => Some((since + timeouts.request, Overdue::Head)),
                    _ => None,
                }
            };
            match deadline {
                Some((deadline, overdue)) => tokio::select! {
                    () = self.changed.notified() => {}
                    () = sleep_until(deadline) => return overdue,
                },
                None => self.changed.notified().await,
            }
        }
    }

    fn activity(&self) -> MutexGuard<'_, Activity> {
        self.activity.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
