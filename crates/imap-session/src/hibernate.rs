//! Waiting for a client without holding its account. A waiting session keeps the client's view of the
//! selected mailbox, and a lease ([`sealpost_mailbox::lease`]) that opens the account again. The account
//! itself may be evicted meanwhile.
//!
//! A hibernated session has neither [`Session::user`] nor [`Session::selected`], so no code can use them by
//! mistake. It wakes when the client sends input, or when the log of a watched account has grown. Then it
//! opens the accounts, catches up, and reports the changes as if it had never released them
//! (`docs/decisions/0022-memory.md`).

use std::time::Duration;

use futures::future::BoxFuture;
use sealpost_account::Ticket;
use sealpost_base::{Error, Kind, limits};
use sealpost_imap::server::Event;
use sealpost_imap::types::{Command, CommandBody, Status};
use sealpost_mailbox::lease::{Lease, LogWatchers};
use tokio::time::{Instant, sleep_until};

use super::connection::End;
use super::reply::Failure;
use super::selected::Selected;
use super::session::Session;
use super::updates::{self, UntaggedUpdates};
use super::user::User;

/// How long to wait before another attempt to wake a session.
const RETRY: Duration = Duration::from_secs(2);

/// What a session keeps of its accounts while it hibernates.
pub(super) struct Hibernated {
    accounts: Lease<Ticket>,
    pub(super) user: User<()>,
    selected: Option<Selected<()>>,
}

/// When to send an idle client a sign that the server is alive.
pub(super) struct KeepAlive {
    period: Duration,
    due: Instant,
}

impl KeepAlive {
    /// Every `period`; never if it is zero.
    pub(super) fn new(period: Duration) -> Self {
        KeepAlive { period, due: Instant::now() + period }
    }

    /// Notes that output was sent.
    pub(super) fn said(&mut self) {
        self.due = Instant::now() + self.period;
    }

    async fn due(&self) {
        if self.period.is_zero() {
            std::future::pending::<()>().await;
        }
        sleep_until(self.due).await;
    }
}

/// Why a wait ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    Notified,
    Silent,
    LetGo,
}

impl Session {
    /// Watchers of all logs that this session reads. Create them before reading, so that they report changes
    /// meanwhile.
    pub(super) fn watchers(&self) -> LogWatchers {
        let lease = self.lease();
        let shared = self.subscriptions.notify.iter().flat_map(|watch| watch.shared_watchers().cloned());
        LogWatchers::new(lease.iter().flat_map(Lease::watchers).chain(shared))
    }

    /// The next input. Reports changes meanwhile if the client requested that.
    pub(super) async fn next_input(&mut self) -> Result<Event, End> {
        if self.subscriptions.notify.is_none() {
            return self.next_command().await;
        }
        let deadline = self.responses.connection.idle_deadline();
        loop {
            let watchers = self.watchers();
            // RFC 5465 §6.1.2: a client that uses message numbers gets expunges when a command allows them.
            let delayed = self.subscriptions.notify.as_ref().is_some_and(|watch| watch.selected().delayed);
            Box::pin(
                self.report_updates(&UntaggedUpdates { expunges: !delayed, ..UntaggedUpdates::default() }),
            )
            .await?;
            if let Some(selected) = &mut self.selected {
                updates::report_modseq_alone(selected, &mut self.responses);
            }
            if let Some(event) = self.next_or_notified(deadline, watchers, None).await? {
                return Ok(event);
            }
        }
    }

    /// The next input of a client that gets no updates meanwhile. The session may hibernate.
    async fn next_command(&mut self) -> Result<Event, End> {
        let keeps = self.kept_bytes();
        self.responses.connection.may_rest(Some(keeps));
        let event = self.next_command_at_rest().await;
        self.responses.connection.may_rest(None);
        event
    }

    async fn next_command_at_rest(&mut self) -> Result<Event, End> {
        if self.user.is_some() && !self.responses.connection.has_input() {
            self.responses.connection.check_standing()?;
            let deadline = self.responses.connection.idle_deadline();
            let release = self.release_due();
            if let Some(event) = self.responses.connection.next_unless(deadline, release).await? {
                return Ok(event);
            }
            self.hibernate();
        }
        self.responses.connection.next().await
    }

    /// The next input before `deadline`; `None` if a watcher notified or `keep_alive` is due. With an input,
    /// the session may be hibernated; without, it is awake and has caught up.
    pub(super) async fn next_or_notified(
        &mut self,
        deadline: Instant,
        watchers: LogWatchers,
        mut keep_alive: Option<&mut KeepAlive>,
    ) -> Result<Option<Event>, End> {
        let mut retry = None;
        loop {
            let mut why = Why::Notified;
            let release = self.release_due();
            // Boxed, like the futures inside: otherwise each would be in the session's task several times.
            let interrupt = Box::pin(async {
                // After a failure the watcher has already notified.
                let notified = async {
                    match retry {
                        None => watchers.notified().await,
                        Some(at) => sleep_until(at).await,
                    }
                };
                let silent = async {
                    match &keep_alive {
                        Some(keep_alive) => keep_alive.due().await,
                        None => std::future::pending().await,
                    }
                };
                why = tokio::select! {
                    biased;
                    () = notified => Why::Notified,
                    () = silent => Why::Silent,
                    () = release => Why::LetGo,
                };
            });
            let keeps = self.kept_bytes();
            self.responses.connection.may_rest(Some(keeps));
            let event = self.responses.connection.next_unless(deadline, interrupt).await?;
            self.responses.connection.may_rest(None);
            if event.is_some() {
                return Ok(event);
            }
            if why != Why::LetGo {
                self.responses.connection.stir().await?;
            }
            match why {
                Why::LetGo => self.hibernate(),
                Why::Silent => {
                    // RFC 2177 §3: untagged responses may come at any time. Routers drop idle connections.
                    self.responses.connection.out().status(None, Status::Ok, None, "Still here");
                    if let Some(keep_alive) = &mut keep_alive {
                        keep_alive.said();
                    }
                }
                Why::Notified => match Box::pin(self.wake()).await {
                    Ok(()) => return Ok(None),
                    Err(error) if error.kind() == Kind::NotFound => return Err(End::MailboxGone),
                    Err(error) => {
                        let user = self.user_name();
                        tracing::warn!(user, %error, "cannot report changes to a waiting session yet");
                        retry = Some(Instant::now() + RETRY);
                    }
                },
            }
        }
    }

    /// Memory that the session keeps while it waits for its client, in bytes.
    pub(super) fn kept_bytes(&self) -> usize {
        let (awake, asleep) = (self.selected.as_ref(), self.hibernated.as_ref());
        let view =
            awake.map(Selected::kept_bytes).or_else(|| asleep?.selected.as_ref().map(Selected::kept_bytes));
        let notify = self.subscriptions.notify.as_ref().map(|watch| watch.kept_bytes());
        limits::RESTING_BYTES + view.unwrap_or(0) + notify.unwrap_or(0)
    }

    /// Between two commands: releases the accounts if others wait for the memory of one of them.
    pub(super) fn give_way(&mut self) {
        let lease = self.lease();
        if lease.is_some_and(|lease| lease.is_wanted()) {
            self.hibernate();
        }
    }

    /// Releases the accounts.
    fn hibernate(&mut self) {
        self.note_usage();
        let lease = self.lease();
        let (Some(lease), Some(user)) = (lease, self.user.take()) else { return };
        let (accounts, user) = (lease.release(), user.release());
        let selected = self.selected.take().map(Selected::release);
        self.hibernated = Some(Box::new(Hibernated { accounts, user, selected }));
    }

    /// Opens the accounts again, with all log entries that this process knows.
    ///
    /// # Errors
    /// As [`Lease::reopen`]; the session then stays hibernated, or awake as it was. `NotFound`: the selected
    /// mailbox is no longer shared with this user.
    pub(super) async fn wake(&mut self) -> Result<(), Error> {
        let Some(hibernated) = &self.hibernated else {
            let caught_up = match self.lease() {
                Some(lease) => lease.catch_up().await,
                None => Ok(()),
            };
            return match caught_up {
                // It has a new key that is not sealed to this user; the report of changes finds it missing.
                Err(error) if error.kind() == Kind::Denied => {
                    let is_gone = self.selected.as_ref().is_some_and(Selected::is_gone);
                    if is_gone { Ok(()) } else { Err(error) }
                }
                caught_up => caught_up,
            };
        };
        let Lease { own, others } = hibernated.accounts.reopen(&self.shared.ctx.accounts).await?;
        if let Some(hibernated) = self.hibernated.take() {
            let Hibernated { user, selected, .. } = *hibernated;
            self.user = Some(user.hold(own));
            self.selected = selected.zip(others.into_iter().next()).map(|(view, account)| view.hold(account));
        }
        Ok(())
    }

    /// Completes when a waiting session must release its accounts; never if it has none.
    fn release_due(&self) -> BoxFuture<'static, ()> {
        let lease = self.lease();
        let (accounts, keep) =
            (self.shared.ctx.accounts.clone(), self.shared.ctx.settings.timeouts.imap_hibernate);
        match lease {
            Some(lease) => Box::pin(lease.release_due(accounts, keep)),
            None => Box::pin(std::future::pending()),
        }
    }

    /// The accounts that the session holds: its user's own, and that of the selected mailbox.
    fn lease(&self) -> Option<Lease> {
        let own = self.user.as_ref()?.account().clone();
        Some(Lease::new(own, self.selected.as_ref().map(|view| view.account().clone())))
    }

    /// Responds to input while the account cannot be opened, and the session stays hibernated. `None` if it
    /// has responded.
    pub(super) fn answer_hibernated(&mut self, event: Event, error: Error) -> Result<Option<Event>, End> {
        if error.kind() == Kind::NotFound {
            return Err(End::MailboxGone);
        }
        let tag = match &event {
            Event::Command(Command { body: CommandBody::Logout, .. }) => return Ok(Some(event)),
            Event::Command(Command { tag, .. }) => tag.clone(),
            Event::AppendBegin(head) => {
                self.responses.connection.refuse_append();
                head.tag.clone()
            }
            _ => return Ok(Some(event)),
        };
        match Failure::from(error) {
            Failure::End(end) => Err(end),
            Failure::Reply(reply) => self.complete(&tag, reply).map(|()| None),
        }
    }
}
