//! A server in this process with the account `me@localhost`, and actions on its mail.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use sealpost_account::accounts::Delivery;
use sealpost_account::acl::Acl;
use sealpost_account::rights::Rights;
use sealpost_account::submission::{Delivered, SubmissionNews};
use sealpost_account::{Account, AccountState, Event, FlagAction, Flags, SpecialUses, SystemFlags, ops};
use sealpost_auth::Scopes;
use sealpost_auth::grant_token::GrantToken;
use sealpost_base::limits::OAUTH_ACCESS_LIFETIME;
use sealpost_base::{Clock as _, FakeClock, MailboxId, Position, SeededRandom, Timestamp, Uid, UidSet};
use sealpost_directory::{AccountName, AccountRecord, AliasName, NewAccount, Secret};
use sealpost_jmap::Request;
use sealpost_jmap_session::{ApiError, Caller, ClientGone, Credentials, JmapShared, ResponseSink};
use sealpost_mailbox::User;
use sealpost_mailbox::rights::{Grantee, RightsChange};
use sealpost_mailbox::share::Sharing;
use sealpost_queue::{Opening, Queue, node_id};
use sealpost_session::{Context, Settings};
use sealpost_submission::domain_keys::DomainKeys;
use sealpost_submission::outbox::{Outbox, OutboxParts, SendingLimits};
use sealpost_vault::entry::LogKey;
use sealpost_vault::mail_key::MailKeys;
use sealpost_vault::server_key::ServerKeys;
use sealpost_vault::{RootKey, Store, TokenKind};
use serde_json::Value;

/// 2026-11-20 12:00:00 UTC.
pub const NOW: Timestamp = Timestamp(1_795_176_000_000);
/// `me@localhost:secret`.
pub const BASIC: &str = "Basic bWVAbG9jYWxob3N0OnNlY3JldA==";

pub struct TestServer {
    pub ctx: Arc<Context>,
    pub clock: Arc<FakeClock>,
    pub jmap: Arc<JmapShared>,
    /// Where submitted mail goes. Nothing sends it; what becomes of it is what a test says.
    pub outbox: Outbox,
    pub record: AccountRecord,
    pub root: RootKey,
    deliveries: std::cell::Cell<i64>,
    /// The account `jane@localhost`, once a transcript needs it.
    jane: tokio::sync::OnceCell<Box<TestServer>>,
}

/// A sink that keeps the bytes, up to a limit.
pub struct Sink {
    pub bytes: Vec<u8>,
    pub pieces: usize,
    pub room: usize,
}

impl Default for Sink {
    fn default() -> Self {
        Sink { bytes: Vec::new(), pieces: 0, room: usize::MAX }
    }
}

#[async_trait::async_trait]
impl ResponseSink for Sink {
    async fn send(&mut self, bytes: Vec<u8>) -> Result<(), ClientGone> {
        self.pieces += 1;
        self.bytes.extend(bytes);
        if self.bytes.len() > self.room { Err(ClientGone) } else { Ok(()) }
    }
}

impl TestServer {
    pub async fn new() -> Self {
        Self::over(Store::memory()).await
    }

    /// A server over that store.
    pub async fn over(store: Store) -> Self {
        Self::with(store, |_| {}).await
    }

    /// On that store, with other settings.
    pub async fn with(store: Store, change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings {
            hostname: "localhost".to_owned(),
            domain: Some("localhost".to_owned()),
            ..Settings::default()
        };
        change(&mut settings);
        let random = Arc::new(SeededRandom::new(1));
        let key = ServerKeys::generate(&*random);
        let clock = Arc::new(FakeClock::new(NOW));
        let log_key = LogKey::of(&key);
        let ctx = Arc::new(Context::new(settings, store, key, None, clock.clone(), random).unwrap());
        let outbox = outbox(&ctx, log_key, "one").await;
        let jmap = Arc::new(JmapShared::new(ctx.clone()).sending(Some(outbox.clone())));
        Self::of_account(ctx, clock, (jmap, outbox), "me@localhost").await
    }

    /// A new account of that name, with the password `secret`.
    async fn of_account(
        ctx: Arc<Context>,
        clock: Arc<FakeClock>,
        (jmap, outbox): (Arc<JmapShared>, Outbox),
        name: &str,
    ) -> Self {
        let new = NewAccount::with_password(Secret::new(b"secret").unwrap());
        let name = AccountName::parse(name).unwrap();
        let (record, root) = ctx.directory.create(&name, new).await.unwrap();
        TestServer { ctx, clock, jmap, outbox, record, root, deliveries: 0.into(), jane: Default::default() }
    }

    /// The same server, for another account on it, which is made.
    pub async fn neighbour(&self, name: &str) -> Self {
        let jmap = (self.jmap.clone(), self.outbox.clone());
        Self::of_account(self.ctx.clone(), self.clock.clone(), jmap, name).await
    }

    /// A caller that has logged in with the password.
    pub async fn login_by_password(&self) -> Caller {
        let (name, secret) = (self.record.name.to_string(), "secret".to_owned().into());
        let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
        self.jmap.authenticate(&Credentials::Password { name, secret }, Some(peer)).await.unwrap()
    }

    /// Gives another account these rights to a mailbox, and no others.
    pub async fn grant(&self, mailbox: &str, to: &TestServer, rights: &str) {
        self.grant_to(mailbox, &to.record.name, rights).await;
    }

    /// The same for the account of that name.
    pub async fn grant_to(&self, mailbox: &str, to: &AccountName, rights: &str) {
        let account = self.account().await;
        account.catch_up().await.unwrap();
        let user = User { accounts: &self.ctx.accounts, account: &account };
        let place = user.resolve(mailbox).await.unwrap();
        let grantee = Grantee::Account { name: to.clone(), negative: false };
        let change = RightsChange::Replace(Rights::parse(rights).unwrap());
        self.sharing(user).grant(place, &grantee, change).await.unwrap();
    }

    fn sharing<'a>(&'a self, user: User<'a>) -> Sharing<'a> {
        Sharing {
            user,
            name: self.record.name.as_str(),
            directory: &self.ctx.directory,
            random: &*self.ctx.random,
            usage: &self.ctx.usage,
            before: Timestamp(0),
        }
    }

    /// A caller with this `Authorization` field.
    pub async fn login(&self, field: &str) -> Result<Caller, sealpost_jmap_session::LoginRefused> {
        let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
        self.jmap.authenticate(&credentials(field), Some(peer)).await
    }

    /// A caller with an OAuth access token for these scopes.
    pub async fn scoped_caller(&self, scopes: Scopes) -> Caller {
        let record = self.ctx.directory.get(&self.record.name).await.unwrap();
        let added = self.ctx.directory.add_grant(&record, &self.root, "test").await;
        let (_, slot, secret) = added.unwrap();
        let at = self.clock.now().after(OAUTH_ACCESS_LIFETIME);
        let (account, client, binding) = (self.record.name.to_string(), [0; 32], [0; 32]);
        let token = GrantToken { account, slot, secret, scopes, at, generation: 1, client, binding };
        let token = token.seal(TokenKind::Access, self.ctx.directory.token_keys(), &*self.ctx.random);
        self.login(&format!("Bearer {}", *token)).await.unwrap()
    }

    pub async fn caller(&self) -> Caller {
        self.login(BASIC).await.unwrap()
    }

    /// A caller of a server that sends no mail.
    pub async fn caller_without_sending(&self) -> Caller {
        let jmap = Arc::new(JmapShared::new(self.ctx.clone()));
        jmap.authenticate(&credentials(BASIC), None).await.unwrap()
    }

    /// A caller of another node on the same store, or of this one after a restart.
    pub async fn other_node(&self) -> Caller {
        let key = ServerKeys::generate(&SeededRandom::new(1));
        let (store, clock) = (self.ctx.store.clone(), Arc::new(FakeClock::new(NOW)));
        let settings = Settings { domain: Some("localhost".to_owned()), ..Settings::default() };
        let random = Arc::new(SeededRandom::new(2));
        let log_key = LogKey::of(&key);
        let ctx = Arc::new(Context::new(settings, store, key, None, clock, random).unwrap());
        let outbox = outbox(&ctx, log_key, "two").await;
        let jmap = Arc::new(JmapShared::new(ctx).sending(Some(outbox)));
        jmap.authenticate(&credentials(BASIC), None).await.unwrap()
    }

    /// A new node on the same store that sends no mail, or this one after a restart. `seed` makes its
    /// randomness, and so has to be another one for each.
    pub fn node(&self, seed: u64) -> Arc<JmapShared> {
        let key = ServerKeys::generate(&SeededRandom::new(1));
        let settings = Settings { domain: Some("localhost".to_owned()), ..Settings::default() };
        let random = Arc::new(SeededRandom::new(1000 + seed));
        let store = self.ctx.store.clone();
        let ctx = Context::new(settings, store, key, None, self.clock.clone(), random).unwrap();
        Arc::new(JmapShared::new(Arc::new(ctx)))
    }

    /// A caller of that node that has logged in with the password.
    pub async fn login_at(&self, node: &Arc<JmapShared>) -> Caller {
        let (name, secret) = (self.record.name.to_string(), "secret".to_owned().into());
        let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
        node.authenticate(&Credentials::Password { name, secret }, Some(peer)).await.unwrap()
    }

    /// Reads on the log of that mailbox in the store: other nodes may have appended to it.
    pub async fn refresh(&self, mailbox: &str) {
        let account = self.account().await;
        account.refresh().await.unwrap();
        let user = User { accounts: &self.ctx.accounts, account: &account };
        user.resolve(mailbox).await.unwrap().account.refresh().await.unwrap();
    }

    pub async fn account(&self) -> Arc<Account> {
        self.ctx.accounts.open(self.record.id, &self.root).await.unwrap()
    }

    /// Delivers a message, one second after the previous one.
    pub async fn deliver(&self, mailbox: &str, message: &[u8]) {
        let mut ingest = self.ctx.accounts.ingest(self.record.id).await.unwrap();
        ingest.write(message).await.unwrap();
        let stored = ingest.finish().await.unwrap();
        self.deliveries.set(self.deliveries.get() + 1);
        let received = Timestamp(NOW.0 + 1000 * self.deliveries.get());
        let delivery = Delivery::to(received, Some(mailbox.to_owned()));
        self.ctx.accounts.deliver(self.record.id, &self.record.public, stored, delivery).await.unwrap();
    }

    async fn change(&self, decide: impl Fn(&AccountState) -> Vec<Event> + Send + Sync) {
        let account = self.account().await;
        account.catch_up().await.unwrap();
        account.commit(|state| Ok((decide(state), ()))).await.unwrap();
    }

    /// Creates mailboxes, all of them in one entry.
    pub async fn create_mailboxes(&self, names: &[String]) {
        let event = |name: &String| Event::MailboxCreated { name: name.clone(), special_use: None };
        self.change(|_| names.iter().map(event).collect()).await;
    }

    /// Runs an action of another client: a line of a transcript.
    pub async fn act(&self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let id = |state: &AccountState, name: &str| -> MailboxId { ops::existing(state, name).unwrap().id() };
        let uid = |text: &str| {
            let uid = Uid::new(text.parse().unwrap()).unwrap();
            UidSet::range(uid, uid)
        };
        match *words {
            ["create", name] => {
                self.change(|state| ops::create_mailbox(state, name, SpecialUses::default()).unwrap()).await;
            }
            ["delete", name] => self.change(|state| ops::delete_mailbox(state, name).unwrap()).await,
            ["rename", from, to] => self.change(|state| ops::rename_mailbox(state, from, to).unwrap()).await,
            ["subscribe", ref name @ ..] => {
                let name = name.join(" ");
                self.change(|state| ops::subscribe(state, &name, true).unwrap()).await;
            }
            ["flag", mailbox, number, flag] => {
                let (action, flag) = match flag.strip_prefix('-') {
                    Some(flag) => (FlagAction::Remove, flag),
                    None => (FlagAction::Add, flag),
                };
                let flags = match SystemFlags::named(flag) {
                    Some(flag) => Flags::system(flag),
                    None => Flags { system: SystemFlags::NONE, keywords: vec![flag.to_owned()] },
                };
                self.change(|state| {
                    let (mailbox, uids, flags) = (id(state, mailbox), uid(number), flags.clone());
                    vec![Event::FlagsStored { mailbox, uids, action, flags, unchanged_since: None }]
                })
                .await;
            }
            ["move", from, number, to] => {
                self.change(|state| {
                    vec![Event::Moved { from: id(state, from), uids: uid(number), to: id(state, to) }]
                })
                .await;
            }
            ["copy", from, number, to] => {
                self.change(|state| {
                    vec![Event::Copied { from: id(state, from), uids: uid(number), to: id(state, to) }]
                })
                .await;
            }
            ["expunge", mailbox, number] => {
                self.change(|state| vec![Event::Expunged { mailbox: id(state, mailbox), uids: uid(number) }])
                    .await;
            }
            ["quota", resource, limit] => {
                let limit = limit.parse().ok();
                let set = |record: &mut AccountRecord| {
                    match resource {
                        "storage" => record.quota = limit,
                        "messages" => record.quota_messages = limit,
                        _ => record.quota_mailboxes = limit,
                    }
                    Ok(())
                };
                self.ctx.directory.update(&self.record.name, set).await.unwrap();
            }
            ["alias", name, target] => {
                let targets = self.ctx.directory.targets(&[target.to_owned()]).await.unwrap();
                self.ctx.directory.set_alias(&AliasName::parse(name).unwrap(), targets).await.unwrap();
            }
            ["remove-alias", name] => {
                self.ctx.directory.remove_alias(&AliasName::parse(name).unwrap()).await.unwrap();
            }
            ["allow-from", name] => {
                let name = AliasName::parse(name).unwrap();
                let allow = |record: &mut AccountRecord| {
                    record.change_sending(|sending| sending.allow(&name)).map(drop)
                };
                self.ctx.directory.update(&self.record.name, allow).await.unwrap();
            }
            ["pass", seconds] => {
                self.clock.advance(std::time::Duration::from_secs(seconds.parse().unwrap()));
            }
            ["sent", place, arrival] => self.report(place.parse().unwrap(), arrival).await,
            ["see-shared", name] => self.see_shared(name).await,
            ["share", name] => self.share(name).await,
            ["jane", "grants", name, rights] => self.jane().await.grant(name, self, rights).await,
            ["jane", "revokes", name] => self.jane().await.grant(name, self, "").await,
            ["jane", ref action @ ..] => Box::pin(self.jane().await.act(&action.join(" "))).await,
            _ => panic!("unknown action: {line}"),
        }
    }

    /// A node reports what became of a recipient of the newest submission.
    async fn report(&self, place: u16, arrival: &str) {
        let account = self.account().await;
        account.catch_up().await.unwrap();
        let newest = {
            let state = account.state();
            let newest = state.submissions().iter().max_by_key(|(_, record)| record.created);
            newest.unwrap().0
        };
        let (delivered, reply) = match arrival {
            "here" => (Delivered::Yes, "250 2.1.5 Delivered"),
            "elsewhere" => (Delivered::Unknown, "250 2.0.0 Thanks"),
            "deferred" => (Delivered::Queued, "451 4.7.1 Later"),
            _ => (Delivered::No, "550 5.1.1 No such user"),
        };
        let news = vec![SubmissionNews::Recipient { place, delivered, reply: reply.to_owned() }];
        let (id, public) = (self.record.id, &self.record.public);
        self.ctx.accounts.report_submission(id, public, newest, news).await.unwrap();
    }

    async fn jane(&self) -> &TestServer {
        let made = async || Box::new(self.neighbour("jane@localhost").await);
        self.jane.get_or_init(made).await
    }

    /// A message arrives at `jane@localhost`, before the mailbox is shared.
    pub async fn deliver_to_jane(&self, mailbox: &str, message: &[u8]) {
        self.jane().await.deliver(mailbox, message).await;
    }

    /// The messages of a shared mailbox become seen.
    async fn see_shared(&self, name: &str) {
        let account = self.account().await;
        let user = User { accounts: &self.ctx.accounts, account: &account };
        let shared = user.resolve(name).await.unwrap().account;
        let committed = shared.commit(|state| {
            let (mailbox, uids) = (state.inbox().id(), state.inbox().uids());
            let flags = Flags::system(SystemFlags::SEEN);
            let action = FlagAction::Add;
            Ok((vec![Event::FlagsStored { mailbox, uids, action, flags, unchanged_since: None }], ()))
        });
        committed.await.unwrap();
    }

    /// Turns the mailbox into a shared one.
    async fn share(&self, name: &str) {
        let account = self.account().await;
        account.catch_up().await.unwrap();
        let user = User { accounts: &self.ctx.accounts, account: &account };
        let place = user.resolve(name).await.unwrap();
        self.sharing(user).make(&place, &Acl::default()).await.unwrap();
    }
}

/// What takes submitted mail on a node of that name, into a queue of its own in the store.
async fn outbox(ctx: &Arc<Context>, log_key: LogKey, node: &str) -> Outbox {
    let mail_keys = MailKeys::generate(&SeededRandom::new(7));
    let queue = Queue::open(Opening {
        store: ctx.store.clone(),
        node: node_id(node),
        name: node.to_owned(),
        log_key,
        mail_keys: mail_keys.clone(),
        clock: ctx.clock.clone(),
        random: ctx.random.clone(),
        budget: ctx.budget.clone(),
        known: Position::ZERO,
    });
    let queue = queue.await.unwrap();
    let running = queue.clone();
    tokio::spawn(async move { running.run().await });
    Outbox::new(OutboxParts {
        queue,
        directory: ctx.directory.clone(),
        domain_keys: DomainKeys::new(ctx.store.clone(), mail_keys.clone()),
        mail_keys,
        clock: ctx.clock.clone(),
        random: ctx.random.clone(),
        budget: ctx.budget.clone(),
        hostname: ctx.hostname.clone(),
        limits: SendingLimits::default(),
    })
}

/// What HTTP reads from an `Authorization` field.
pub fn credentials(field: &str) -> Credentials {
    match field.split_once(' ').unwrap() {
        ("Basic", encoded) => {
            let text = String::from_utf8(sealpost_auth::sasl::base64(encoded.as_bytes()).unwrap().to_vec());
            let text = text.unwrap();
            let (name, secret) = text.split_once(':').unwrap();
            Credentials::Password { name: name.to_owned(), secret: secret.to_owned().into() }
        }
        (_, token) => Credentials::Token(token.to_owned().into()),
    }
}

/// Sends a request and returns its response.
pub async fn api(caller: &Caller, request: &Value) -> Result<Value, ApiError> {
    let request = Request::parse(request.to_string().as_bytes())?;
    let mut sink = Sink::default();
    caller.api(request, &mut sink).await?;
    Ok(serde_json::from_slice(&sink.bytes).unwrap())
}
