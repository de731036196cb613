//! Waiting for a client without holding its account: a session that waits keeps what opens the account again, and what
//! its client knows of the selected mailbox; the account itself may be unloaded meanwhile.
//!
//! Asleep, a session has neither [`Session::account`] nor [`Session::view`], so nothing can use them by mistake. It wakes when
//! the client sends something, or when the log of an account that it listens to has grown; then it opens the accounts
//! again, reads on in their logs, and tells the client what changed, as if it had never let go of them
//! (`docs/decisions/0022-memory.md`).

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, select_all};
use sealpost_account::{Account, Bell, Ticket};
use sealpost_base::Error;
use sealpost_imap::server::Event;
use sealpost_imap::types::{Command, CommandBody, Status};
use tokio::time::{Instant, sleep, sleep_until};

use super::connection::End;
use super::reply::Failure;
use super::session::Session;
use super::view::View;

/// How long a session that could not be woken waits before it is tried again.
const RETRY: Duration = Duration::from_secs(2);

/// How long a session that waits keeps its accounts while many are loaded: a client that sends several commands in a row finds them
/// loaded.
const BRIEFLY: Duration = Duration::from_millis(50);

/// What a session keeps of its accounts.
pub(super) struct Asleep {
    account: Ticket,
    view: Option<View<Ticket>>,
}

/// The bells of the accounts that a session looks at, as they were before it looked.
pub(super) struct Bells(Vec<Bell>);

impl Bells {
    /// Ends when one of them rings.
    async fn rung(&self) {
        if self.0.is_empty() {
            std::future::pending::<()>().await;
        }
        select_all(self.0.iter().map(|bell| Box::pin(bell.rung()))).await;
    }
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
    /// The bells of all accounts that this session looks at. To be made before it looks, so that a change meanwhile rings.
    pub(super) fn bells(&self) -> Bells {
        let own = self.account.as_ref().map(|account| account.bell());
        let viewed = self.view.as_ref().map(|view| view.account().bell());
        let shared = self.watch.iter().flat_map(|watch| watch.shared_bells().cloned());
        Bells(own.into_iter().chain(viewed).chain(shared).collect())
    }

    /// The next input of somebody who is not told of anything meanwhile. The session may be asleep then.
    pub(super) async fn next_command(&mut self) -> Result<Event, End> {
        if self.account.is_some() && !self.connection.has_input() {
            self.connection.check_standing()?;
            let deadline = self.connection.idle_deadline();
            let let_go = let_go(self);
            if let Some(event) = self.connection.next_unless(deadline, let_go).await? {
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
        bells: Bells,
        mut keep_alive: Option<&mut KeepAlive>,
    ) -> Result<Option<Event>, End> {
        let mut retry = None;
        loop {
            let mut why = Why::Rung;
            let let_go = self.account.is_some().then(|| let_go(self));
            // Boxed, as what it waits for: each would be in the session's task several times over.
            let interrupt = Box::pin(async {
                // After a failure the bell has rung already.
                let rung = async {
                    match retry {
                        None => bells.rung().await,
                        Some(at) => sleep_until(at).await,
                    }
                };
                let silent = async {
                    match &keep_alive {
                        Some(keep_alive) => keep_alive.due().await,
                        None => std::future::pending().await,
                    }
                };
                let let_go = async {
                    match let_go {
                        Some(let_go) => let_go.await,
                        None => std::future::pending().await,
                    }
                };
                why = tokio::select! {
                    biased;
                    () = rung => Why::Rung,
                    () = silent => Why::Silent,
                    () = let_go => Why::LetGo,
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
        let viewed = self.view.as_ref().map(|view| view.account());
        if self.account.iter().chain(viewed).any(|account| account.is_leaving()) {
            self.fall_asleep();
        }
    }

    /// Lets go of the accounts.
    fn fall_asleep(&mut self) {
        self.note_usage();
        let Some(account) = self.account.take() else { return };
        let view = self.view.take().map(View::let_go);
        self.asleep = Some(Box::new(Asleep { account: account.ticket(), view }));
    }

    /// Holds the accounts again, with everything that this process knows to be in their logs.
    ///
    /// # Errors
    /// As [`sealpost_account::Accounts::reopen`]; the session is asleep still, or was awake and is.
    pub(super) async fn wake(&mut self) -> Result<(), Error> {
        let Some(asleep) = &self.asleep else { return self.read_on().await };
        let accounts = &self.ctx.accounts;
        let account = accounts.reopen_in_turn(&asleep.account).await?;
        let viewed = match &asleep.view {
            Some(view) => Some(accounts.reopen(view.ticket()).await?),
            None => None,
        };
        if let Some(asleep) = self.asleep.take() {
            self.account = Some(account);
            self.view = asleep.view.zip(viewed).map(|(view, account)| view.hold(account));
        }
        Ok(())
    }

    /// Counts what is kept of the selected mailbox, if that is much.
    pub(super) fn weigh_view(&mut self) -> Result<(), End> {
        let Some(view) = &mut self.view else { return Ok(()) };
        if view.weigh(&self.ctx.accounts) { Ok(()) } else { Err(End::Crowded) }
    }

    async fn read_on(&self) -> Result<(), Error> {
        if let Some(account) = &self.account {
            account.catch_up().await?;
        }
        if let Some(view) = &self.view {
            view.account().catch_up().await?;
        }
        Ok(())
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

/// Ends when a session that waits is to let go of its accounts: after a moment in which nothing happened, a shorter one if many
/// are loaded, at once if they take more than half of the room, and as soon as others need it.
fn let_go(session: &Session) -> BoxFuture<'static, ()> {
    let ctx = session.ctx.clone();
    let account = session.account.clone();
    let viewed = session.view.as_ref().map(|view| view.account().clone());
    Box::pin(async move {
        let mut moment = ctx.settings.timeouts.imap_hibernate;
        let accounts = &ctx.accounts;
        if moment.is_zero() || accounts.are_short() || accounts.have_little_room() {
            return;
        }
        if !accounts.have_ample_room() {
            moment = moment.min(BRIEFLY);
        }
        let wanted = |account: Option<Arc<Account>>| async move {
            match account {
                Some(account) => account.wanted().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = sleep(moment) => {}
            () = wanted(account) => {}
            () = wanted(viewed) => {}
        }
    })
}
