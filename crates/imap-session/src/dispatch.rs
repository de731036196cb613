//! Maps commands to functions, and passes each the parts of the session that it needs.
//!
//! The functions are in files of their own and see only these parts.

use sealpost_imap::types::{AString, AppendHead, Atom, Code, CommandBody, Notify, Response, Status, Tag};

use super::capability::{self, Stage};
use super::connection::End;
use super::reply::{Failure, Outcome, Reply};
use super::selected::opened;
use super::session::Session;
use super::updates::UntaggedUpdates;
use super::user::User;
use super::{
    acl, append, append_limit, compress, condstore, contexts, copy, enable, expunge, fetch, jmap_access,
    list, login, mailboxes, metadata, multisearch, notify, quota, replace, search, select, sharing, sort,
    status, store, thread, uid_only, urlauth,
};
use sealpost_auth::Entered;
use sealpost_session::metrics::Verdict;

impl Session {
    /// Runs one command. `updates` selects the updates that follow its reply.
    pub(super) async fn execute(
        &mut self,
        tag: &Tag,
        body: CommandBody,
        updates: &mut UntaggedUpdates,
    ) -> Outcome {
        // RFC 3501 §6.1: in any state.
        match body {
            CommandBody::Capability => {
                let response = capability::response(self.stage());
                self.responses.out().response(&response);
                return Ok(Reply::ok("CAPABILITY completed"));
            }
            CommandBody::Noop => {
                Box::pin(self.catch_up()).await?;
                return Ok(Reply::ok("NOOP completed"));
            }
            CommandBody::Logout => return Box::pin(self.logout(tag)).await,
            CommandBody::Id(_) => return Ok(self.id()),
            // RFC 3501 §6.2: in the not authenticated state.
            CommandBody::Login { .. } | CommandBody::Authenticate { .. } => {
                return Box::pin(self.log_in(body)).await;
            }
            _ => {}
        }
        // RFC 3501 §6.3, §6.4: the others need a login, and see every change acknowledged before.
        Box::pin(self.before_command(&body, updates)).await?;
        let Session { shared, log, responses, user, selected, subscriptions, own, moved, .. } = self;
        let ctx = &*shared.ctx;
        let user = logged_in(user)?;
        // All futures except that of IDLE, in which sessions spend most of their time, are boxed. So a
        // waiting session does not take the memory of its largest command.
        match body {
            CommandBody::Enable(names) => {
                enable::enable(user, selected.as_ref(), subscriptions, responses, &names)
            }
            CommandBody::Select { mailbox, read_only, parameters } => {
                let selecting =
                    select::select(user, selected, responses, log, &mailbox, read_only, &parameters);
                Box::pin(selecting).await
            }
            CommandBody::Create { mailbox, special_use } => {
                Box::pin(mailboxes::create(user, responses, own, &mailbox, &special_use)).await
            }
            CommandBody::Delete(mailbox) => {
                Box::pin(mailboxes::delete(user, selected, responses, own, &mailbox)).await
            }
            CommandBody::Rename { from, to } => {
                Box::pin(mailboxes::rename(user, responses, own, &from, &to)).await
            }
            CommandBody::Subscribe(mailbox) => {
                Box::pin(mailboxes::subscribe(user, own, &mailbox, true)).await
            }
            CommandBody::Unsubscribe(mailbox) => {
                Box::pin(mailboxes::subscribe(user, own, &mailbox, false)).await
            }
            CommandBody::List(asked) => Box::pin(list::list(user, responses, &asked)).await,
            CommandBody::Lsub { reference, pattern } => {
                Box::pin(list::lsub(user, responses, &reference, &pattern)).await
            }
            CommandBody::Namespace => Ok(list::namespace(responses)),
            CommandBody::GetJmapAccess => Ok(jmap_access::get(user, responses)),
            CommandBody::Acl(command) => Box::pin(acl::run(user, selected, moved, responses, &command)).await,
            CommandBody::Url(command) => {
                Box::pin(urlauth::run(user, selected.as_mut(), responses, &command)).await
            }
            CommandBody::Status { mailbox, items } => {
                Box::pin(status::status(user, responses, &mailbox, &items)).await
            }
            CommandBody::GetMetadata(get) => Box::pin(metadata::get_metadata(user, responses, &get)).await,
            CommandBody::SetMetadata(set) => {
                Box::pin(metadata::set_metadata(user, subscriptions, own, &set)).await
            }
            CommandBody::Notify(notify) => Box::pin(self.notify(notify)).await,
            CommandBody::GetQuota(root) => Box::pin(quota::get_quota(user, responses, &root)).await,
            CommandBody::GetQuotaRoot(mailbox) => {
                Box::pin(quota::get_quota_root(user, responses, &mailbox)).await
            }
            CommandBody::SetQuota { root, limits } => {
                Box::pin(quota::set_quota(user, responses, &root, &limits)).await
            }
            CommandBody::Idle => self.idle().await,
            CommandBody::Check => opened(selected).map(|_| Ok(Reply::ok("CHECK completed")))?,
            CommandBody::Close => Box::pin(select::close_mailbox(selected, own)).await,
            CommandBody::Unselect => select::unselect(selected),
            CommandBody::Expunge { uids } => {
                Box::pin(expunge::expunge(opened(selected)?, responses, own, uids.as_ref())).await
            }
            CommandBody::Search(asked) => {
                Box::pin(search::search(ctx, user, opened(selected)?, responses, tag, asked)).await
            }
            CommandBody::Sort(asked) => {
                Box::pin(sort::sort(ctx, user, opened(selected)?, responses, tag, asked)).await
            }
            CommandBody::Thread(asked) => {
                Box::pin(thread::thread(ctx, user, opened(selected)?, responses, asked)).await
            }
            CommandBody::CancelUpdate(tags) => Ok(contexts::cancel_update(opened(selected)?, &tags)),
            CommandBody::MultiSearch(multi) => {
                Box::pin(multisearch::multi_search(ctx, user, selected.as_mut(), responses, tag, multi)).await
            }
            CommandBody::Fetch { uid, set, items, modifiers } => {
                let asked = fetch::Asked { uid, set, items, modifiers };
                Box::pin(fetch::fetch(ctx, opened(selected)?, responses, asked, updates)).await
            }
            CommandBody::Store(asked) => {
                Box::pin(store::store(ctx, opened(selected)?, responses, own, &asked, updates)).await
            }
            CommandBody::Copy { uid, set, mailbox: to } => {
                let asked = copy::Asked { uid, set, to };
                Box::pin(copy::copy(user, opened(selected)?, responses, own, &asked)).await
            }
            CommandBody::Move { uid, set, mailbox: to } => {
                let asked = copy::Asked { uid, set, to };
                Box::pin(copy::move_messages(user, opened(selected)?, responses, own, &asked)).await
            }
            _ => Ok(Reply::bad("command not known")),
        }
    }

    /// COMPRESS.
    pub(super) async fn compress(&mut self, tag: &Tag, algorithm: &Atom) -> Result<(), End> {
        let admitted = match logged_in(&mut self.user) {
            Ok(_) => compress::admit(&self.shared, &self.responses.connection, algorithm).await,
            Err(reply) => Err(reply.into()),
        };
        let compression = match admitted {
            Ok(compression) => compression,
            Err(Failure::Reply(reply)) => return self.complete(tag, reply),
            Err(Failure::End(end)) => return Err(end),
        };
        self.log.count("compressed", 1);
        self.complete(tag, Reply::ok("DEFLATE active"))?;
        self.responses.connection.start_deflate(&self.shared.compressions, compression).await
    }

    /// UNAUTHENTICATE (RFC 8437): returns to the not authenticated state on the same connection, for another
    /// user. It expunges and reports nothing (RFC 8437 §3), and drops the state of the login:
    /// [`Session::anew`]. It never replies NO, since a client may pipeline its next login.
    pub(super) async fn unauthenticate(&mut self, tag: &Tag) -> Result<(), End> {
        if let Err(reply) = logged_in(&mut self.user) {
            return self.complete(tag, reply);
        }
        self.log.count("unauthenticated", 1);
        self.complete(tag, Reply::ok("UNAUTHENTICATE completed"))?;
        self.responses.connection.unauthenticated().await?;
        self.over = true;
        Ok(())
    }

    /// The common preparation of all commands after login.
    async fn before_command(&mut self, body: &CommandBody, updates: &UntaggedUpdates) -> Result<(), Failure> {
        logged_in(&mut self.user)?;
        uid_only::check_numbers(self.responses.dialect, body)?;
        self.catch_up().await?;
        if lists_names(body) {
            self.catch_up_with_names().await?;
        }
        if let Some(selected) = &mut self.selected {
            search::forget_expunged(selected);
        }
        condstore::enable(self.selected.as_ref(), &mut self.responses, body);
        if updates.own {
            // Report earlier changes of other sessions first: later ones are this client's own.
            self.report_others().await?;
        }
        Ok(())
    }

    /// Reports changes outside the selected mailbox, if NOTIFY requested them.
    pub(super) async fn report_others(&mut self) -> Result<(), End> {
        let Session { user, selected, subscriptions, responses, own, .. } = self;
        match user {
            Some(user) => notify::report_others(user, selected.as_ref(), subscriptions, responses, own).await,
            None => Ok(()),
        }
    }

    /// NOTIFY. First reports pending changes of the selected mailbox, whatever its arguments: it acts as a
    /// NOOP too (RFC 5465 §3.1).
    async fn notify(&mut self, notify: Notify) -> Outcome {
        let Some(asked) = notify::asked(notify)? else {
            self.subscriptions.notify = Some(Box::default());
            return Ok(Reply::ok("NOTIFY completed"));
        };
        self.subscriptions.notify = None;
        self.report_updates(&UntaggedUpdates::everything()).await?;
        let Session { user, selected, subscriptions, responses, .. } = self;
        notify::subscribe(logged_in(user)?, selected.as_ref(), subscriptions, responses, asked).await
    }

    /// APPEND and REPLACE.
    pub(super) async fn append(&mut self, head: AppendHead) -> Outcome {
        let outcome = self.append_or_replace(&head).await;
        if outcome.is_err() {
            // Discards the rest of the command. Has no effect after its end.
            self.responses.connection.refuse_append();
        }
        outcome
    }

    async fn append_or_replace(&mut self, head: &AppendHead) -> Outcome {
        logged_in(&mut self.user)?;
        self.catch_up().await?;
        let Session { log, responses, user, selected, own, .. } = self;
        let user = logged_in(user)?;
        let Some(replaces) = head.replaces else {
            return append::append(user, responses, own, log, head).await;
        };
        if !replaces.uid && responses.dialect.uid_only() {
            return Err(uid_only::uid_required().into());
        }
        replace::replace(user, opened(selected)?, responses, own, log, head, replaces).await
    }

    /// LOGIN and AUTHENTICATE.
    async fn log_in(&mut self, body: CommandBody) -> Outcome {
        if self.user.is_some() {
            return Err(Reply::bad("logged in already").into());
        }
        let Session { shared, responses, log, .. } = self;
        let ctx = &*shared.ctx;
        match body {
            CommandBody::Login { user, password } => {
                let entered = login::login(ctx, responses, log, &user, &password).await?;
                self.enter(entered, "LOGIN completed").await
            }
            CommandBody::Authenticate { mechanism, initial } => {
                let entered = login::authenticate(ctx, responses, log, &mechanism, initial).await?;
                self.enter(entered, "AUTHENTICATE completed").await
            }
            _ => Err(Reply::bad("command not known").into()),
        }
    }

    /// Enters the authenticated state.
    async fn enter(&mut self, entered: Entered, done: &'static str) -> Outcome {
        let Session { shared, responses, log, .. } = self;
        let ctx = &*shared.ctx;
        let Entered { record, root, .. } = &entered;
        if !responses.connection.stream().is_none_or(|stream| stream.logged_in(record.id)) {
            log.count("crowded_logins", 1);
            return Err(Reply::no(Code::Limit, "too many connections of this account, close some").into());
        }
        // The load limiter schedules the load of the account itself.
        self.queue.take(ctx.scheduler.of(record.id));
        let account = ctx.accounts.open_current(record.id, root).await?;
        let user = User::new(shared.clone(), account, record);
        log.user(record.name.as_str(), record.id);
        let standing = ctx.auth.standing(&entered);
        responses.connection.authenticated(ctx.settings.message_size, standing);
        sharing::remove_in_background(shared, user.account());
        self.user = Some(user);
        Ok(Reply::ok_with(capability::code(self.stage()), done))
    }

    pub(super) fn stage(&self) -> Stage {
        match self.user {
            Some(_) => {
                let settings = &self.shared.ctx.settings;
                let has_jmap = settings.jmap_url().is_some();
                Stage::Authenticated { append_limit: append_limit::append_limit(settings), has_jmap }
            }
            None => match self.responses.connection.stream() {
                Some(stream) => Stage::anonymous(&self.shared.ctx, stream),
                // Its TLS handshake has failed, so it ends.
                None => Stage::Anonymous { start_tls: false, login: false, tls: false },
            },
        }
    }

    fn can_start_tls(&self) -> bool {
        self.shared.ctx.tls.is_some()
            && self.responses.connection.stream().is_some_and(|stream| !stream.is_tls())
    }

    /// STARTTLS (RFC 3501 §6.2.1, RFC 2595).
    pub(super) async fn start_tls(&mut self, tag: &Tag) -> Result<(), End> {
        if self.user.is_some() {
            return self.complete(tag, Reply::bad("too late for STARTTLS"));
        }
        let config = match &self.shared.ctx.tls {
            Some(config) if self.can_start_tls() => config.clone(),
            _ => return self.complete(tag, Reply::bad("STARTTLS is not possible here")),
        };
        self.complete(tag, Reply::ok("begin TLS negotiation now"))?;
        self.responses.connection.start_tls(&config).await?;
        if let Some(stream) = self.responses.connection.stream() {
            self.log.observe(stream);
        }
        Ok(())
    }

    /// LOGOUT (RFC 3501 §6.1.3).
    async fn logout(&mut self, tag: &Tag) -> Outcome {
        let out = self.responses.connection.out();
        out.status(None, Status::Bye, None, "logging out");
        out.status(Some(tag), Status::Ok, None, "LOGOUT completed");
        self.log.end_command(Verdict::Ok);
        self.responses.connection.flush().await?;
        Err(End::Logout.into())
    }

    /// ID (RFC 2971): name and version, for problem reports, and nothing about the machine.
    fn id(&mut self) -> Reply {
        let field = |name: &str, value: &str| (AString::from(name), Some(AString::from(value)));
        let fields = vec![field("name", "Sealpost"), field("version", env!("CARGO_PKG_VERSION"))];
        self.responses.connection.out().response(&Response::Id(Some(fields)));
        Reply::ok("ID completed")
    }
}

/// The user, in the authenticated and selected states.
fn logged_in(user: &mut Option<User>) -> Result<&mut User, Reply> {
    user.as_mut().ok_or_else(|| Reply::bad("log in first"))
}

/// Whether the command lists names. A missing name is then no error that [`User::resolve`] would look into.
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
