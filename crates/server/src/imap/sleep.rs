//! Waiting for a client without holding its account: a session that waits keeps what opens the account again, and what
//! its client knows of the selected mailbox; the account itself may be unloaded meanwhile. What is kept is a lease
//! ([`sealpost_mailbox::lease`]).
//!
//! Asleep, a session has neither [`Session::account`] nor [`Session::view`], so nothing can use them by mistake. It wakes when
//! the client sends something, or when the log of an account that it listens to has grown; then it opens the accounts
//! again, reads on in their logs, and tells the client what changed, as if it had never let go of them
//! (`docs/decisions/0022-memory.md`).

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use sealpost_account::{Account, Ticket};
use sealpost_base::Error;
use sealpost_imap::server::Event;
use sealpost_imap::types::{Command, CommandBody, Status};
use sealpost_mailbox::lease::{Lease, LogWatchers};
use tokio::time::{Instant, sleep_until};

use super::connection::End;
use super::reply::Failure;
use super::session::Session;
use super::view::View;

/// How long a session that could not be woken waits before it is tried again.
const RETRY: Duration = Duration::from_secs(2);

/// What a session keeps of its accounts.
pub(super) struct Asleep {
    accounts: Lease<Ticket>,
    view: Option<View<()>>,
}

/// When a client that hears nothing is told that the server is still there.
pub(super) struct KeepAlive {
    period: Duration,
    due: Instant,
}

impl KeepAlive {
    /// Every `period`; never if that is zero.
    pub(super) fn new(period: Duration) -> Self {
        KeepAlive { period, due: Instant::now() + period }
    }

    /// Something was said.
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

/// Why waiting ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    Rung,
    Silent,
    LetGo,
}

impl Session {
    /// What tells of changes in all logs that this session looks at. To be made before it looks, so that a change meanwhile
    /// is told.
    pub(super) fn watchers(&self) -> LogWatchers {
        let lease = lease_on(self.account.as_ref(), self.view.as_ref());
        let shared = self.watch.iter().flat_map(|watch| watch.shared_bells().cloned());
        LogWatchers::new(lease.iter().flat_map(Lease::watchers).chain(shared))
    }

    /// The next input of somebody who is not told of anything meanwhile. The session may be asleep then.
    pub(super) async fn next_command(&mut self) -> Result<Event, End> {
        if self.account.is_some() && !self.connection.has_input() {
            self.connection.check_standing()?;
            let deadline = self.connection.idle_deadline();
            let release = self.release_due();
            if let Some(event) = self.connection.next_unless(deadline, release).await? {
                return Ok(event);
            }
            self.fall_asleep();
        }
        self.connection.next().await
    }

    /// The next input before `deadline`, or `None` if a bell has rung or `keep_alive` is due. With an input the session may
    /// be asleep; without, it is awake and has read on.
    pub(super) async fn next_or_rung(
        &mut self,
        deadline: Instant,
        watchers: LogWatchers,
        mut keep_alive: Option<&mut KeepAlive>,
    ) -> Result<Option<Event>, End> {
        let mut retry = None;
        loop {
            let mut why = Why::Rung;
            let release = self.release_due();
            // Boxed, as what it waits for: each would be in the session's task several times over.
            let interrupt = Box::pin(async {
                // After a failure the bell has rung already.
                let rung = async {
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
                    () = rung => Why::Rung,
                    () = silent => Why::Silent,
                    () = release => Why::LetGo,
                };
            });
            if let Some(event) = self.connection.next_unless(deadline, interrupt).await? {
                return Ok(Some(event));
            }
            match why {
                Why::LetGo => self.fall_asleep(),
                Why::Silent => {
                    // RFC 2177 §3: untagged responses may come at any time. Routers forget connections that say nothing.
                    self.connection.out().status(None, Status::Ok, None, "Still here");
                    if let Some(keep_alive) = &mut keep_alive {
                        keep_alive.said();
                    }
                }
                Why::Rung => match Box::pin(self.wake()).await {
                    Ok(()) => return Ok(None),
                    Err(error) => {
                        tracing::warn!(user = %self.user, %error, "cannot report changes to a waiting session \
                            yet");
                        retry = Some(Instant::now() + RETRY);
                    }
                },
            }
        }
    }

    /// Between two commands: lets go of the accounts if others wait for the room of one of them.
    pub(super) fn give_way(&mut self) {
        let lease = lease_on(self.account.as_ref(), self.view.as_ref());
        if lease.is_some_and(|lease| lease.is_wanted()) {
            self.fall_asleep();
        }
    }

    /// Lets go of the accounts.
    fn fall_asleep(&mut self) {
        self.note_usage();
        let lease = lease_on(self.account.as_ref(), self.view.as_ref());
        let Some(accounts) = lease.map(Lease::release) else { return };
        self.account = None;
        let view = self.view.take().map(View::let_go);
        self.asleep = Some(Box::new(Asleep { accounts, view }));
    }

    /// Holds the accounts again, with everything that this process knows to be in their logs.
    ///
    /// # Errors
    /// As [`Lease::reopen`]; the session is asleep still, or was awake and is.
    pub(super) async fn wake(&mut self) -> Result<(), Error> {
        let Some(asleep) = &self.asleep else {
            return match lease_on(self.account.as_ref(), self.view.as_ref()) {
                Some(lease) => lease.catch_up().await,
                None => Ok(()),
            };
        };
        let Lease { own, others } = asleep.accounts.reopen(&self.ctx.accounts).await?;
        if let Some(asleep) = self.asleep.take() {
            self.account = Some(own);
            self.view = asleep.view.zip(others.into_iter().next()).map(|(view, account)| view.hold(account));
        }
        Ok(())
    }

    /// Ends when a session that waits is to let go of its accounts; never if it has none.
    fn release_due(&self) -> BoxFuture<'static, ()> {
        let lease = lease_on(self.account.as_ref(), self.view.as_ref());
        let (accounts, keep) = (self.ctx.accounts.clone(), self.ctx.settings.timeouts.imap_hibernate);
        match lease {
            Some(lease) => Box::pin(lease.release_due(accounts, keep)),
            None => Box::pin(std::future::pending()),
        }
    }

    /// Counts what is kept of the selected mailbox, if that is much.
    pub(super) fn weigh_view(&mut self) -> Result<(), End> {
        let Some(view) = &mut self.view else { return Ok(()) };
        if view.weigh(&self.ctx.accounts) { Ok(()) } else { Err(End::Crowded) }
    }

    /// What came while the session was asleep, which it still is: the account cannot be opened. `None`: it was answered.
    pub(super) fn answer_asleep(&mut self, event: Event, error: Error) -> Result<Option<Event>, End> {
        let tag = match &event {
            Event::Command(Command { body: CommandBody::Logout, .. }) => return Ok(Some(event)),
            Event::Command(Command { tag, .. }) => tag.clone(),
            Event::AppendBegin(head) => {
                self.connection.refuse_append();
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

/// The accounts that a session holds: its user's own, and that of the selected mailbox.
fn lease_on(account: Option<&Arc<Account>>, view: Option<&View>) -> Option<Lease> {
    Some(Lease::new(account?.clone(), view.map(|view| view.account().clone())))
}
