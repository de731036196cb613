//! Two accounts in one store, with the state of their sessions.

use std::sync::Arc;

use sealpost_account::rights::Rights;
use sealpost_account::{Account, Accounts, Flags};
use sealpost_base::{
    AccountId, Budget, Error, FakeClock, Kind, Position, Random, SeededRandom, Timestamp, Uid, UidSet,
};
use sealpost_directory::{AccountName, AccountRecord, Directory, NewAccount, Quotas, Secret};
use sealpost_mailbox::append::{self, Append, AppendMemory};
use sealpost_mailbox::email_change::EmailWriter;
use sealpost_mailbox::quota_headroom::{QuotaHeadroom, UserQuota};
use sealpost_mailbox::rights::{Granted, Grantee, RightsChange};
use sealpost_mailbox::share::Sharing;
use sealpost_mailbox::shared_accounts::Reach;
use sealpost_mailbox::usage_tracker::UsageTracker;
use sealpost_mailbox::{OpenedMailbox, Refusal, ResolvedMailbox, User};
use sealpost_vault::Store;
use sealpost_vault::entry::LogKey;
use sealpost_vault::server_key::ServerKeys;

/// The maximum size of a message in these tests, in bytes.
pub const MESSAGE_SIZE: u64 = 10_000;

pub struct Fixture {
    pub store: Store,
    pub accounts: Accounts,
    pub directory: Directory,
    pub tracker: UsageTracker,
    pub memory: AppendMemory,
    pub random: Arc<SeededRandom>,
    key: ServerKeys,
    clock: Arc<FakeClock>,
    pub me: Member,
    pub you: Member,
}

/// An account, and the headroom of its log.
pub struct Member {
    pub record: AccountRecord,
    pub account: Arc<Account>,
    pub headroom: QuotaHeadroom,
}

impl Fixture {
    pub async fn new() -> Self {
        Self::over(Store::memory()).await
    }

    pub async fn over(store: Store) -> Self {
        let random = Arc::new(SeededRandom::new(3));
        let clock = Arc::new(FakeClock::new(Timestamp(1_700_000_000_000)));
        let key = ServerKeys::generate(&*random);
        let (shared, budget): (Arc<dyn Random>, _) = (random.clone(), Budget::new(64 << 20));
        let log_key = LogKey::of(&key);
        let accounts = Accounts::new(store.clone(), log_key, clock.clone(), shared, budget.clone());
        let directory = Directory::new(store.clone(), key.clone(), clock.clone(), random.clone());
        accounts.set_directory(directory.clone());
        let tracker = UsageTracker::new(accounts.clone(), directory.clone());
        let memory = AppendMemory::of(&budget);
        let me = Member::new(&directory, &accounts, "me@localhost").await;
        let you = Member::new(&directory, &accounts, "you@localhost").await;
        Fixture { store, accounts, directory, tracker, memory, random, key, clock, me, you }
    }

    /// A fixture on a copy of its store.
    pub async fn copied(&self, store: Store) -> Self {
        let (random, clock, key) = (self.random.clone(), self.clock.clone(), self.key.clone());
        let (shared, budget): (Arc<dyn Random>, _) = (random.clone(), Budget::new(64 << 20));
        let accounts = Accounts::new(store.clone(), LogKey::of(&key), clock.clone(), shared, budget.clone());
        let directory = Directory::new(store.clone(), key.clone(), clock.clone(), random.clone());
        accounts.set_directory(directory.clone());
        let tracker = UsageTracker::new(accounts.clone(), directory.clone());
        let memory = AppendMemory::of(&budget);
        let me = self.me.on(&accounts).await;
        let you = self.you.on(&accounts).await;
        Fixture { store, accounts, directory, tracker, memory, random, key, clock, me, you }
    }

    /// The accounts on another node.
    pub fn other_node(&self) -> Accounts {
        let (random, budget): (Arc<dyn Random>, _) = (self.random.clone(), Budget::new(64 << 20));
        let log_key = LogKey::of(&self.key);
        let accounts = Accounts::new(self.store.clone(), log_key, self.clock.clone(), random, budget);
        accounts.set_directory(self.directory.clone());
        accounts
    }

    pub fn user<'a>(&'a self, of: &'a Member) -> User<'a> {
        User { accounts: &self.accounts, account: &of.account }
    }

    pub fn quota<'a>(&'a self, of: &'a Member) -> UserQuota<'a> {
        let (directory, tracker) = (&self.directory, &self.tracker);
        UserQuota { user: self.user(of), own: of.headroom, directory, tracker }
    }

    /// Changes the messages of that account itself.
    pub fn writer<'a>(&'a self, of: &'a Member) -> EmailWriter<'a> {
        EmailWriter { quota: self.quota(of), reach: Reach::Own }
    }

    pub fn sharing<'a>(&'a self, of: &'a Member) -> Sharing<'a> {
        Sharing {
            user: self.user(of),
            name: of.record.name.as_str(),
            directory: &self.directory,
            random: &*self.random,
            usage: &self.tracker,
            before: Timestamp(0),
        }
    }

    /// Sets the other account's rights to one of my mailboxes.
    pub async fn grant(&self, mailbox: &str, rights: &str) -> Granted {
        let granted = self.grant_only(mailbox, rights).await;
        self.you.account.catch_up().await.unwrap();
        granted
    }

    /// As `grant`, but the other account does not read its log.
    pub async fn grant_only(&self, mailbox: &str, rights: &str) -> Granted {
        let place = self.resolve(&self.me, mailbox).await;
        let change = RightsChange::Replace(Rights::parse(rights).unwrap());
        self.sharing(&self.me).grant(place, &account("you@localhost"), change).await.unwrap()
    }

    pub async fn resolve(&self, of: &Member, name: &str) -> ResolvedMailbox {
        self.user(of).resolve(name).await.unwrap()
    }

    /// Whether that user has no mailbox of this name.
    pub async fn is_missing(&self, of: &Member, name: &str) -> bool {
        self.user(of).resolve(name).await.is_err_and(|error| error.kind() == Kind::NotFound)
    }

    pub async fn open(&self, of: &Member, name: &str) -> OpenedMailbox {
        let ResolvedMailbox { account, mailbox, access, .. } = self.resolve(of, name).await;
        let uid_validity = account.state().mailbox(mailbox).unwrap().uid_validity();
        OpenedMailbox { account, mailbox, uid_validity, access }
    }

    /// Adds a message to a mailbox; returns the entry that placed it.
    pub async fn append(&self, of: &Member, name: &str, flags: Flags) -> Result<Option<Position>, Refusal> {
        let to = self.resolve(of, name).await.require(Rights::INSERT)?;
        let mut append = Append::begin(&self.memory, to.clone(), 0, MESSAGE_SIZE);
        append.message(&flags, Timestamp(0), 0)?;
        append.expect(self.quota(of), MESSAGE.len() as u64).await?;
        append.write(MESSAGE).await?;
        append.complete(self.quota(of)).await?;
        let (messages, _memory) = append.finish().await?;
        Ok(append::place(self.quota(of), &to, messages, Default::default()).await?.alone)
    }

    /// The UIDs in a mailbox.
    pub async fn uids(&self, of: &Member, name: &str) -> Vec<u32> {
        let found = self.resolve(of, name).await;
        let state = found.account.state();
        found.mailbox_in(&state).unwrap().uids().iter().map(Uid::get).collect()
    }
}

/// 18 bytes.
pub const MESSAGE: &[u8] = b"Subject: x\r\n\r\nxy\r\n";

impl Member {
    pub async fn new(directory: &Directory, accounts: &Accounts, name: &str) -> Self {
        let new = NewAccount::with_password(Secret::new(b"secret").unwrap());
        let name = AccountName::parse(name).unwrap();
        let (record, root) = directory.create(&name, new).await.unwrap();
        let account = accounts.open(record.id, &root).await.unwrap();
        Member { record, account, headroom: QuotaHeadroom::default() }
    }

    pub fn id(&self) -> AccountId {
        self.record.id
    }

    /// The same member on another node.
    pub async fn on(&self, accounts: &Accounts) -> Self {
        let account = accounts.open(self.id(), &self.account.root()).await.unwrap();
        Member { record: self.record.clone(), account, headroom: self.headroom }
    }

    /// Sets the limits of its own log.
    pub fn limit(&mut self, limits: Quotas) {
        self.headroom.limits = limits;
    }
}

pub fn account(name: &str) -> Grantee {
    Grantee::Account { name: AccountName::parse(name).unwrap(), negative: false }
}

pub fn uids(numbers: &[u32]) -> UidSet {
    numbers.iter().filter_map(|n| Uid::new(*n)).collect()
}

/// The kind of a refusal that has no variant of its own.
pub fn kind<T>(result: Result<T, impl Into<Refusal>>) -> Option<Kind> {
    match result.map_err(Into::into) {
        Err(Refusal::Error(error)) => Some(Error::kind(&error)),
        _ => None,
    }
}
