//! What is known of a connection while hyper owns its stream: what is at work, and since when the
//! client is waited for.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sealpost_base::AccountId;
use sealpost_base::limits::HTTP_ABANDONED_REQUESTS;
use sealpost_session::admission::AdmittedHandle;
use sealpost_session::session_log::SessionLog;
use sealpost_session::sessions::SessionState;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::HttpShared;
use crate::client::Transport;

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
        Connection { shared, transport, is_multiplexed, admitted, log, activity, changed }
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
