//! The session: one command after the other, in the states of RFC 3501 §3.

use std::sync::Arc;

use sealpost_account::Account;
use sealpost_base::{AccountId, Position, limits};
use sealpost_imap::server::Event;
use sealpost_imap::types::{AString, Command, CommandBody, Response, Status, Store, Tag};

use super::capability::{self, Stage};
use super::connection::{Connection, End};
use super::dialect::Dialect;
use super::metadata;
use super::notify;
use super::progress::Progress;
use super::quota::Quota;
use super::reply::{Failure, Outcome, Reply};
use super::sleep::Asleep;
use super::tell::Telling;
use super::uid_only;
use super::view::View;
use crate::context::Context;
use crate::metrics::{Protocol, Verdict};
use crate::net::Stream;
use crate::session_log::SessionLog;
use crate::sessions::State;
use crate::turns::Seat;

/// One client's session.
pub(super) struct Session {
    pub(super) ctx: Arc<Context>,
    pub(super) connection: Connection,
    pub(super) log: SessionLog,
    /// Where it takes its turns.
    pub(super) seat: Seat,
    /// Not authenticated state while `None`.
    pub(super) account: Option<Arc<Account>>,
    /// Selected state while `Some`.
    pub(super) view: Option<View>,
    /// What is kept of both while the session waits without them; `None` while it is awake.
    pub(super) asleep: Option<Box<Asleep>>,
    /// What ENABLE switched on.
    pub(super) dialect: Dialect,
    /// `Some` if the client is to be told of metadata that others change.
    pub(super) metadata: Option<metadata::Watch>,
    /// What NOTIFY asked for; `None` until it is used.
    pub(super) watch: Option<Box<notify::Watch>>,
    /// The account's name.
    pub(super) user: String,
    /// The mailbox that was selected is another one now, by this session's own doing: what is still to be said is BYE.
    pub(super) moved: bool,
    /// What the account may hold; `Some` after login.
    pub(super) quota: Option<Quota>,
    /// How often the mailbox access key of the selected mailbox was reset, as far as the client knows.
    pub(super) key_resets: Option<u32>,
    /// Log entries that the command at hand made, and nobody else had a part in: what of them need not be told.
    pub(super) own: Vec<(AccountId, Position)>,
    /// How far the command at hand is.
    pub(super) progress: Progress,
    /// The login is over, but not the connection.
    pub(super) over: bool,
    errors: usize,
}

impl Session {
    /// A session in the not authenticated state.
    pub(super) fn new(mut stream: Stream, ctx: Arc<Context>, seat: Seat) -> Self {
        let log = SessionLog::begin(Protocol::Imap, &mut stream, &ctx);
        let connection = Connection::new(stream, &ctx);
        Session::over(ctx, connection, log, seat)
    }

    /// The same for another user. Whatever else a session remembers is forgotten: it is in fields that are begun anew
    /// (RFC 8437 §4.1), and only these five go on.
    fn anew(self) -> Self {
        let Session { ctx, connection, log, seat, errors, .. } = self;
        seat.leave();
        Session { errors, ..Session::over(ctx, connection, log, seat) }
    }

    fn over(ctx: Arc<Context>, connection: Connection, log: SessionLog, seat: Seat) -> Self {
        Session {
            ctx,
            connection,
            log,
            seat,
            account: None,
            view: None,
            asleep: None,
            dialect: Dialect::default(),
            metadata: None,
            watch: None,
            user: String::new(),
            moved: false,
            quota: None,
            key_resets: None,
            own: Vec::new(),
            progress: Progress::none(),
            over: false,
            errors: 0,
        }
    }

    /// Greets, serves, says goodbye.
    pub(super) async fn run(mut self: Box<Self>) {
        self.greet();
        let end = loop {
            if let Err(end) = self.step().await {
                break end;
            }
            if self.over {
                self.end_quota();
                *self = (*self).anew();
            }
        };
        self.end_quota();
        self.log.end(end.reason());
        if let Some(stream) = self.connection.stream() {
            self.log.observe(stream);
        }
        let Session { connection, log, account, view, asleep, .. } = *self;
        // Whoever waits for the client to hang up needs none of these.
        drop((account, view, asleep));
        Box::pin(connection.close(&end)).await;
        drop(log);
    }

    fn greet(&mut self) {
        let greeting = format!("{} IMAP server ready", self.ctx.settings.hostname);
        let code = capability::code(self.stage());
        self.connection.out().status(None, Status::Ok, Some(&code), &greeting);
    }

    /// Takes the next event and answers it.
    async fn step(&mut self) -> Result<(), End> {
        let mut event = self.next_input().await?;
        self.give_way();
        if self.asleep.is_some()
            && let Err(error) = Box::pin(self.wake()).await
        {
            event = match self.answer_asleep(event, error)? {
                Some(event) => event,
                None => return self.connection.relieve().await,
            };
        }
        match event {
            Event::Command(command) => self.command(command).await?,
            Event::NeedContinuation => {
                self.connection.out().continuation("go on");
            }
            Event::AppendBegin(head) => {
                let tag = head.tag.clone();
                let takes_out = head.replaces.is_some();
                self.log.count("commands", 1);
                self.log.begin_command(if takes_out { "REPLACE" } else { "APPEND" });
                self.progress = Progress::of(&tag);
                Box::pin(self.tell_others()).await?;
                let outcome = Box::pin(self.append(head)).await;
                self.connection.set_bulk(false);
                self.finish(&tag, outcome, Telling { takes_out, own: true, ..Telling::everything() }).await?;
            }
            Event::Bad { tag, code, reason } => {
                self.connection.out().status(tag.as_ref(), Status::Bad, code.as_ref(), &reason);
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
            // These come only where they were asked for.
            Event::AppendMessage(_)
            | Event::AppendUrl(_)
            | Event::AppendLiteral(_)
            | Event::AppendData(_)
            | Event::AppendEnd
            | Event::Line(_) => {}
        }
        if self.connection.has_input() {
            // Others have their turn between the commands of a client that sends thousands at once.
            tokio::task::yield_now().await;
        }
        self.connection.relieve().await
    }

    async fn command(&mut self, Command { tag, body }: Command) -> Result<(), End> {
        self.log.count("commands", 1);
        self.log.begin_command(body.name());
        // These answer before they act.
        match body {
            CommandBody::StartTls => return Box::pin(self.start_tls(&tag)).await,
            CommandBody::Compress(algorithm) => return Box::pin(self.compress(&tag, &algorithm)).await,
            CommandBody::Unauthenticate => return Box::pin(self.unauthenticate(&tag)).await,
            _ => {}
        }
        self.progress = Progress::of(&tag);
        let mut telling = Telling::after(&body);
        let outcome = self.execute(&tag, body, &mut telling).await;
        self.finish(&tag, outcome, telling).await
    }

    /// Runs one command. What the client learns beside its answer is up to `telling`.
    async fn execute(&mut self, tag: &Tag, body: CommandBody, telling: &mut Telling) -> Outcome {
        // RFC 3501 §6.1: in any state.
        match body {
            CommandBody::Capability => {
                let response = capability::response(self.stage());
                self.connection.out().response(&response);
                return Ok(Reply::ok("CAPABILITY completed"));
            }
            CommandBody::Noop => {
                Box::pin(self.catch_up()).await?;
                return Ok(Reply::ok("NOOP completed"));
            }
            CommandBody::Logout => return Box::pin(self.logout(tag)).await,
            CommandBody::Id(_) => return Ok(self.id()),
            // RFC 3501 §6.2: in the not authenticated state.
            CommandBody::Login { user, password } => return Box::pin(self.login(&user, &password)).await,
            CommandBody::Authenticate { mechanism, initial } => {
                return Box::pin(self.authenticate(&mechanism, initial)).await;
            }
            _ => {}
        }
        // RFC 3501 §6.3 and §6.4: the others need a login, and see what was acknowledged before they came.
        self.account()?;
        self.check_numbers(&body)?;
        Box::pin(self.catch_up()).await?;
        if lists_names(&body) {
            Box::pin(self.catch_up_with_names()).await?;
        }
        self.forget_expunged();
        self.enable_condstore(&body);
        if telling.own {
            // What others did before is told: what is new afterwards is this client's own doing.
            Box::pin(self.tell_others()).await?;
        }
        // All but IDLE, which sessions spend their lives in, have boxes of their own: what a session takes while it waits
        // is not what its largest command takes.
        match body {
            CommandBody::Enable(names) => self.enable(&names),
            CommandBody::Select { mailbox, read_only, parameters } => {
                Box::pin(self.select(&mailbox, read_only, &parameters)).await
            }
            CommandBody::Create { mailbox, special_use } => {
                Box::pin(self.create(&mailbox, &special_use)).await
            }
            CommandBody::Delete(mailbox) => Box::pin(self.delete(&mailbox)).await,
            CommandBody::Rename { from, to } => Box::pin(self.rename(&from, &to)).await,
            CommandBody::Subscribe(mailbox) => Box::pin(self.subscribe(&mailbox, true)).await,
            CommandBody::Unsubscribe(mailbox) => Box::pin(self.subscribe(&mailbox, false)).await,
            CommandBody::List(list) => Box::pin(self.list(&list)).await,
            CommandBody::Lsub { reference, pattern } => Box::pin(self.lsub(&reference, &pattern)).await,
            CommandBody::Namespace => Ok(self.namespace()),
            CommandBody::Acl(command) => Box::pin(self.acl(&command)).await,
            CommandBody::Url(command) => Box::pin(self.authorized_urls(&command)).await,
            CommandBody::Status { mailbox, items } => Box::pin(self.status(&mailbox, &items)).await,
            CommandBody::GetMetadata(get) => Box::pin(self.get_metadata(&get)).await,
            CommandBody::SetMetadata(set) => Box::pin(self.set_metadata(&set)).await,
            CommandBody::Notify(notify) => Box::pin(self.notify(notify)).await,
            CommandBody::GetQuota(root) => Box::pin(self.get_quota(&root)).await,
            CommandBody::GetQuotaRoot(mailbox) => Box::pin(self.get_quota_root(&mailbox)).await,
            CommandBody::SetQuota { root, limits } => Box::pin(self.set_quota(&root, &limits)).await,
            CommandBody::Idle => self.idle().await,
            CommandBody::Check => {
                self.view()?;
                Ok(Reply::ok("CHECK completed"))
            }
            CommandBody::Close => Box::pin(self.close_mailbox()).await,
            CommandBody::Unselect => self.unselect(),
            CommandBody::Expunge { uids } => Box::pin(self.expunge(uids.as_ref())).await,
            CommandBody::Search(search) => Box::pin(self.search(tag, search)).await,
            CommandBody::Sort(sort) => Box::pin(self.sort(tag, sort)).await,
            CommandBody::Thread(thread) => Box::pin(self.thread(thread)).await,
            CommandBody::CancelUpdate(tags) => self.cancel_update(&tags),
            CommandBody::MultiSearch(multi) => Box::pin(self.multi_search(tag, multi)).await,
            CommandBody::Fetch { uid, set, items, modifiers } => {
                Box::pin(self.fetch(uid, &set, items, &modifiers, telling)).await
            }
            CommandBody::Store(store) => Box::pin(self.store(&store, telling)).await,
            CommandBody::Copy { uid, set, mailbox } => Box::pin(self.copy(uid, &set, &mailbox)).await,
            CommandBody::Move { uid, set, mailbox } => {
                Box::pin(self.move_messages(uid, &set, &mailbox)).await
            }
            _ => Ok(Reply::bad("command not known")),
        }
    }

    /// Tells the client what else has changed, then how its command went.
    async fn finish(&mut self, tag: &Tag, outcome: Outcome, telling: Telling) -> Result<(), End> {
        let mut reply = match outcome {
            Ok(reply) | Err(Failure::Reply(reply)) => reply,
            Err(Failure::End(end)) => return Err(end),
        };
        self.tell(&telling).await?;
        self.tell_modseq(&mut reply);
        self.own.clear();
        // What is told from here on is told between commands.
        self.progress = Progress::none();
        self.complete(tag, reply)?;
        // The client would go on with UIDs that mean nothing any more.
        if self.moved { Err(End::MailboxGone) } else { Ok(()) }
    }

    pub(super) fn complete(&mut self, tag: &Tag, reply: Reply) -> Result<(), End> {
        self.connection.out().status(Some(tag), reply.status, reply.code.as_ref(), &reply.text);
        self.measure(reply.status);
        match reply.status {
            Status::Bad => return self.misbehaved(),
            // Who does sensible things between is no nonsense.
            Status::Ok if self.account.is_some() => self.errors = 0,
            _ => {}
        }
        Ok(())
    }

    /// The command at hand was answered.
    fn measure(&mut self, status: Status) {
        self.log.end_command(match status {
            Status::No => Verdict::No,
            Status::Bad => Verdict::Bad,
            _ => Verdict::Ok,
        });
        self.log.state(match (&self.account, &self.view) {
            (None, _) => State::Anonymous,
            (Some(_), None) => State::Authenticated,
            (Some(_), Some(_)) => State::Selected,
        });
    }

    fn misbehaved(&mut self) -> Result<(), End> {
        self.log.count("errors", 1);
        self.errors += 1;
        if self.errors > limits::IMAP_ERRORS { Err(End::Errors) } else { Ok(()) }
    }

    /// The account, in the authenticated and selected states.
    pub(super) fn account(&self) -> Result<&Arc<Account>, Reply> {
        self.account.as_ref().ok_or_else(|| Reply::bad("log in first"))
    }

    /// The view of the selected mailbox.
    pub(super) fn view(&self) -> Result<&View, Reply> {
        self.view.as_ref().ok_or_else(|| Reply::bad("select a mailbox first"))
    }

    /// As [`Session::view`], if the mailbox may be changed.
    pub(super) fn writable(&self) -> Result<&View, Reply> {
        match self.view()? {
            view if view.read_only() => Err(Reply::refused("the mailbox is open read-only")),
            view => Ok(view),
        }
    }

    /// Reads on in the account's log if this process knows of more there.
    pub(super) async fn catch_up(&self) -> Result<(), Failure> {
        match &self.account {
            Some(account) => account.catch_up().await?,
            None => return Ok(()),
        }
        // The selected mailbox may be in another log.
        match &self.view {
            Some(view) => Ok(view.account().catch_up().await?),
            None => Ok(()),
        }
    }

    /// Reads on in the account's own log, whatever this process knows of, where asking costs next to nothing: the name of a mailbox that
    /// another process has just made is in LIST.
    async fn catch_up_with_names(&self) -> Result<(), Failure> {
        match &self.account {
            Some(account) if self.ctx.store.tells() => Ok(account.refresh().await?),
            _ => Ok(()),
        }
    }

    pub(super) fn stage(&self) -> Stage {
        match self.account {
            Some(_) => Stage::Authenticated { append_limit: self.append_limit() },
            None => Stage::Anonymous {
                start_tls: self.can_start_tls(),
                login: self.login_allowed(),
                tls: self.connection.stream().is_some_and(|stream| stream.is_tls()),
            },
        }
    }

    /// Whether a password may be said here.
    pub(super) fn login_allowed(&self) -> bool {
        self.connection.stream().is_some_and(|stream| self.ctx.allows_login(stream))
    }

    fn can_start_tls(&self) -> bool {
        self.ctx.tls.is_some() && self.connection.stream().is_some_and(|stream| !stream.is_tls())
    }

    /// STARTTLS (RFC 3501 §6.2.1, RFC 2595).
    async fn start_tls(&mut self, tag: &Tag) -> Result<(), End> {
        if self.account.is_some() {
            return self.complete(tag, Reply::bad("too late for STARTTLS"));
        }
        let config = match &self.ctx.tls {
            Some(config) if self.can_start_tls() => config.clone(),
            _ => return self.complete(tag, Reply::bad("STARTTLS is not possible here")),
        };
        self.complete(tag, Reply::ok("begin TLS negotiation now"))?;
        self.connection.start_tls(&config).await?;
        if let Some(stream) = self.connection.stream() {
            self.log.observe(stream);
        }
        Ok(())
    }

    /// LOGOUT (RFC 3501 §6.1.3).
    async fn logout(&mut self, tag: &Tag) -> Outcome {
        let out = self.connection.out();
        out.status(None, Status::Bye, None, "logging out");
        out.status(Some(tag), Status::Ok, None, "LOGOUT completed");
        self.log.end_command(Verdict::Ok);
        self.connection.flush().await?;
        Err(End::Logout.into())
    }

    /// ID (RFC 2971): for problem reports, so the name and version and nothing about the machine.
    fn id(&mut self) -> Reply {
        let field = |name: &str, value: &str| (AString::from(name), Some(AString::from(value)));
        let fields = vec![field("name", "Sealpost"), field("version", env!("CARGO_PKG_VERSION"))];
        self.connection.out().response(&Response::Id(Some(fields)));
        Reply::ok("ID completed")
    }
}

/// Whether the command is about names without naming one that must be there: what is missing is no error that could be looked
/// into ([`Session::place`]).
fn lists_names(body: &CommandBody) -> bool {
    match body {
        CommandBody::MultiSearch(multi) => multi.sources.is_some(),
        body => matches!(
            body,
            CommandBody::List(_)
                | CommandBody::Lsub { .. }
                | CommandBody::Create { .. }
                | CommandBody::Rename { .. }
                | CommandBody::Notify(_)
        ),
    }
}

impl Telling {
    /// What a client may be told at the end of that command: expunges not during FETCH, STORE and SEARCH, whose
    /// sequence numbers they would upset; their UID forms are other commands (RFC 3501 §7.4.1).
    fn after(body: &CommandBody) -> Self {
        let numbered = match body {
            CommandBody::Fetch { uid, .. } | CommandBody::Store(Store { uid, .. }) => !uid,
            // RFC 7162 §3.2.10.2: nor during a UID SEARCH that has such numbers among its keys. SORT and THREAD are
            // searches too (RFC 5256 §3).
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
        Telling { nothing, takes_out, expunges: !numbered, uid, own, ..Telling::default() }
    }
}
