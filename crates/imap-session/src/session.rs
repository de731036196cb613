//! The session: one command after another, in the states of RFC 3501 §3.

use std::sync::Arc;

use sealpost_base::{Kind, limits};
use sealpost_imap::server::Event;
use sealpost_imap::types::{Command, CommandBody, Status, Store, Tag};

use super::connection::{Connection, End};
use super::greeting::Greeted;
use super::hibernate::Hibernated;
use super::own_entries::OwnEntries;
use super::progress::Progress;
use super::reply::{Failure, Outcome, Reply};
use super::responses::Responses;
use super::selected::Selected;
use super::shared::ImapShared;
use super::subscriptions::Subscriptions;
use super::uid_only;
use super::updates::{self, UntaggedUpdates};
use super::user::User;
use sealpost_auth::fair_scheduler::QueueHandle;
use sealpost_session::metrics::Verdict;
use sealpost_session::session_log::SessionLog;
use sealpost_session::sessions::SessionState;

/// One client's session; each command gets the parts that it needs.
pub(super) struct Session {
    pub(super) shared: Arc<ImapShared>,
    pub(super) log: SessionLog,
    /// The queue in which it waits for its share of the CPUs.
    pub(super) queue: QueueHandle,
    /// The output to the client.
    pub(super) responses: Responses,
    /// `None` in the not authenticated state.
    pub(super) user: Option<User>,
    /// `Some` in the selected state.
    pub(super) selected: Option<Selected>,
    /// The kept parts of both while the session is hibernated; `None` otherwise.
    pub(super) hibernated: Option<Box<Hibernated>>,
    /// What to report to the client in addition to the replies to its commands.
    pub(super) subscriptions: Subscriptions,
    /// Log entries that only the current command has appended, which need not be reported in full.
    pub(super) own: OwnEntries,
    /// Whether this session itself has replaced the selected mailbox: only BYE is left to send.
    pub(super) moved: bool,
    /// Whether the login has ended but not the connection.
    pub(super) over: bool,
    errors: usize,
}

impl Session {
    /// A session in the not authenticated state.
    pub(super) fn new(greeted: Greeted, shared: Arc<ImapShared>, queue: QueueHandle) -> Self {
        let Greeted { stream, log, at } = greeted;
        let connection = Connection::new(stream, &shared, at);
        Session::over(shared, connection, log, queue)
    }

    /// A session for another user on the same connection. Resets all other state (RFC 8437 §4.1); only these
    /// five fields are kept.
    fn anew(self) -> Self {
        let Session { shared, responses, log, queue, errors, .. } = self;
        queue.leave();
        Session { errors, ..Session::over(shared, responses.connection, log, queue) }
    }

    fn over(shared: Arc<ImapShared>, connection: Connection, log: SessionLog, queue: QueueHandle) -> Self {
        Session {
            shared,
            log,
            queue,
            responses: Responses::new(connection),
            user: None,
            selected: None,
            hibernated: None,
            subscriptions: Subscriptions::default(),
            own: OwnEntries::default(),
            moved: false,
            over: false,
            errors: 0,
        }
    }

    /// Serves the client, and sends BYE.
    pub(super) async fn run(mut self: Box<Self>) {
        let end = loop {
            if let Err(end) = self.step().await {
                break end;
            }
            if self.over {
                self.note_usage();
                *self = (*self).anew();
            }
        };
        self.note_usage();
        self.log.end(end.reason());
        if let Some(stream) = self.responses.connection.stream() {
            self.log.observe(stream);
        }
        let Session { responses, log, user, selected, hibernated, .. } = *self;
        // Not needed while it waits for the client to disconnect.
        drop((user, selected, hibernated));
        Box::pin(responses.connection.close(&end)).await;
        drop(log);
    }

    /// Called before the session releases its account.
    pub(super) fn note_usage(&mut self) {
        if let Some(user) = &mut self.user {
            user.note_usage();
        }
    }

    /// Takes the next event and responds to it.
    async fn step(&mut self) -> Result<(), End> {
        let mut event = self.next_input().await?;
        self.give_way();
        if self.hibernated.is_some()
            && let Err(error) = Box::pin(self.wake()).await
        {
            event = match self.answer_hibernated(event, error)? {
                Some(event) => event,
                None => return self.responses.connection.relieve().await,
            };
        }
        match event {
            Event::Command(command) => self.command(command).await?,
            Event::NeedContinuation => {
                self.responses.connection.out().continuation("go on");
            }
            Event::AppendBegin(head) => {
                let tag = head.tag.clone();
                let takes_out = head.replaces.is_some();
                self.log.count("commands", 1);
                self.log.begin_command(if takes_out { "REPLACE" } else { "APPEND" });
                self.responses.progress = Progress::of(&tag);
                Box::pin(self.report_others()).await?;
                let outcome = Box::pin(self.append(head)).await;
                self.responses.connection.set_bulk(false);
                self.finish(
                    &tag,
                    outcome,
                    UntaggedUpdates { takes_out, own: true, ..UntaggedUpdates::everything() },
                )
                .await?;
            }
            Event::Bad { tag, code, reason } => {
                self.responses.connection.out().status(tag.as_ref(), Status::Bad, code.as_ref(), &reason);
                self.misbehaved()?;
            }
            Event::No { tag, code, reason } => {
                self.complete(&tag, Reply { status: Status::No, code, text: reason })?;
            }
            Event::Http => {
                self.log.spoke_http();
                return Err(End::Http);
            }
            Event::Fatal { reason } => return Err(End::Fatal(reason)),
            // These events occur only where the session expects them.
            Event::AppendMessage(_)
            | Event::AppendUrl(_)
            | Event::AppendLiteral(_)
            | Event::AppendData(_)
            | Event::AppendEnd
            | Event::Line(_) => {}
        }
        if self.responses.connection.has_input() {
            // Let other tasks run between the commands of a client that sends thousands at once.
            tokio::task::yield_now().await;
        }
        self.responses.connection.relieve().await
    }

    async fn command(&mut self, Command { tag, body }: Command) -> Result<(), End> {
        self.log.count("commands", 1);
        self.log.begin_command(body.name());
        // These reply before they act.
        match body {
            CommandBody::StartTls => return Box::pin(self.start_tls(&tag)).await,
            CommandBody::Compress(algorithm) => return Box::pin(self.compress(&tag, &algorithm)).await,
            CommandBody::Unauthenticate => return Box::pin(self.unauthenticate(&tag)).await,
            _ => {}
        }
        self.responses.progress = Progress::of(&tag);
        let mut updates = UntaggedUpdates::after(&body);
        let outcome = self.execute(&tag, body, &mut updates).await;
        self.finish(&tag, outcome, updates).await
    }

    /// Reports other changes to the client, then the result of its command.
    async fn finish(&mut self, tag: &Tag, outcome: Outcome, updates: UntaggedUpdates) -> Result<(), End> {
        let mut reply = match outcome {
            Ok(reply) | Err(Failure::Reply(reply)) => reply,
            Err(Failure::End(end)) => return Err(end),
        };
        self.report_updates(&updates).await?;
        if let Some(selected) = &mut self.selected {
            updates::report_modseq(selected, &mut self.responses, &mut reply);
        }
        self.own.clear();
        // Later output is between commands.
        self.responses.progress = Progress::none();
        self.complete(tag, reply)?;
        // The client would continue with invalid UIDs.
        if self.moved { Err(End::MailboxGone) } else { Ok(()) }
    }

    pub(super) fn complete(&mut self, tag: &Tag, reply: Reply) -> Result<(), End> {
        self.responses.connection.out().status(Some(tag), reply.status, reply.code.as_ref(), &reply.text);
        self.measure(reply.status);
        match reply.status {
            Status::Bad => return self.misbehaved(),
            // A successful command after login resets the count of bad ones.
            Status::Ok if self.user.is_some() => self.errors = 0,
            _ => {}
        }
        Ok(())
    }

    /// Records the duration of the completed command.
    fn measure(&mut self, status: Status) {
        self.log.end_command(match status {
            Status::No => Verdict::No,
            Status::Bad => Verdict::Bad,
            _ => Verdict::Ok,
        });
        self.log.state(match (&self.user, &self.selected) {
            (None, _) => SessionState::Anonymous,
            (Some(_), None) => SessionState::Authenticated,
            (Some(_), Some(_)) => SessionState::Selected,
        });
    }

    fn misbehaved(&mut self) -> Result<(), End> {
        self.log.count("errors", 1);
        self.errors += 1;
        if self.errors > limits::IMAP_ERRORS { Err(End::Errors) } else { Ok(()) }
    }

    /// The user's name, awake or hibernated; empty without a user.
    pub(super) fn user_name(&self) -> &str {
        let hibernated = || self.hibernated.as_ref().map(|hibernated| hibernated.user.name());
        self.user.as_ref().map(User::name).or_else(hibernated).unwrap_or_default()
    }

    /// Catches up with log entries that this process knows.
    pub(super) async fn catch_up(&self) -> Result<(), Failure> {
        match &self.user {
            Some(user) => user.catch_up().await?,
            None => return Ok(()),
        }
        // The selected mailbox may be in another log.
        match &self.selected {
            Some(view) => match view.account().catch_up().await {
                // It has a new key that is not sealed to this user.
                Err(error) if error.kind() == Kind::Denied && view.is_gone() => {
                    Err(Failure::End(End::MailboxGone))
                }
                caught_up => Ok(caught_up?),
            },
            None => Ok(()),
        }
    }

    /// Catches up with the account's own log up to its end, where that is cheap: LIST then has the mailbox
    /// that another process has just created.
    pub(super) async fn catch_up_with_names(&self) -> Result<(), Failure> {
        match &self.user {
            Some(user) if self.shared.ctx.store.notices_commits() => Ok(user.account().refresh().await?),
            _ => Ok(()),
        }
    }
}

impl UntaggedUpdates {
    /// The updates allowed at the end of that command. FETCH, STORE and SEARCH allow no expunges, which would
    /// invalidate their sequence numbers; their UID forms are other commands (RFC 3501 §7.4.1).
    fn after(body: &CommandBody) -> Self {
        let numbered = match body {
            CommandBody::Fetch { uid, .. } | CommandBody::Store(Store { uid, .. }) => !uid,
            // RFC 7162 §3.2.10.2: nor does a UID SEARCH with message numbers among its keys. SORT and THREAD
            // are searches too (RFC 5256 §3).
            _ => body.search().is_some_and(|search| !search.uid || uid_only::searches_numbers(&search.keys)),
        };
        let uid = match body {
            CommandBody::Fetch { uid, .. } | CommandBody::Store(Store { uid, .. }) => *uid,
            _ => false,
        };
        let own = matches!(
            body,
            CommandBody::Create { .. }
                | CommandBody::Delete(_)
                | CommandBody::Rename { .. }
                | CommandBody::Subscribe(_)
                | CommandBody::Unsubscribe(_)
                | CommandBody::Store(_)
                | CommandBody::Copy { .. }
                | CommandBody::Move { .. }
                | CommandBody::Expunge { .. }
                | CommandBody::SetMetadata(_)
                | CommandBody::Close
        );
        let takes_out = matches!(body, CommandBody::Expunge { .. } | CommandBody::Move { .. });
        let nothing = matches!(body, CommandBody::Select { .. });
        UntaggedUpdates { nothing, takes_out, expunges: !numbered, uid, own, ..UntaggedUpdates::default() }
    }
}
