//! What is known of a connection while hyper owns its stream: what is at work, and since when the
//! client is waited for.

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
use crate::client::Transport;
use crate::takeover::Takeover;

/// One connection.
pub(crate) struct Connection {
    pub(crate) shared: Arc<HttpShared>,
    pub(crate) transport: Transport,
    /// HTTP/2: what is received while nothing is at work may be frames of no request.
    is_multiplexed: bool,
    admitted: Option<AdmittedHandle>,
    log: Mutex<SessionLog>,
    activity: Mutex<Activity>,
    changed: Notify,
    /// HTTP/1.1: the response that wants the connection for itself.
    takeover: Mutex<Option<Takeover>>,
    /// A write waits for the client.
    is_blocked: AtomicBool,
}

struct Activity {
    at_work: usize,
    /// When nothing was at work any more.
    idle_since: Instant,
    /// When the first byte of the next head came.
    head_since: Option<Instant>,
    /// Requests that their client gave up, in excess of those that were answered.
    abandoned: usize,
}

/// Why a connection is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overdue {
    /// No request came.
    Idle,
    /// The head of one did not come to its end.
    Head,
    /// Too many were given up.
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

    /// The client has logged in to that account. False if it has too many connections.
    pub(crate) fn logged_in(&self, account: AccountId, name: &str) -> bool {
        let is_admitted = self.admitted.as_ref().is_none_or(|admitted| admitted.logged_in(account));
        if is_admitted {
            let mut log = self.log();
            log.user(name, account);
            log.state(SessionState::Authenticated);
        }
        is_admitted
    }

    /// Whether a response may take the connection over.
    pub(crate) fn can_be_taken_over(&self) -> bool {
        !self.is_multiplexed
    }

    /// A response takes the connection over, as soon as what was sent before is on its way.
    pub(crate) fn take_over(&self, takeover: Takeover) {
        *self.takeover.lock().unwrap_or_else(PoisonError::into_inner) = Some(takeover);
    }

    /// That response. For the task that polls requests: nothing else wakes it.
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

    /// Whether a write waits for the client now.
    pub(crate) fn note_blocked(&self, is_blocked: bool) {
        self.is_blocked.store(is_blocked, Ordering::Relaxed);
    }

    /// The client sent something.
    pub(crate) fn received(&self) {
        let mut activity = self.activity();
        if activity.at_work == 0 && activity.head_since.is_none() && !self.is_multiplexed {
            activity.head_since = Some(Instant::now());
            drop(activity);
            self.changed.notify_one();
        }
    }

    /// The head of a request has come.
    pub(crate) fn begin_request(&self) {
        let mut activity = self.activity();
        activity.at_work += 1;
        activity.head_since = None;
    }

    /// A request is answered, or was given up; says whether no other is at work.
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

    /// Waits until the connection is to end. Cancel-safe.
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
