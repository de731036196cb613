//! Pushes for one node: takes note of what this process appends, and sends what is due.
//!
//! The node that appends an entry pushes it, so that one push is sent for a change, whichever node
//! made it, without a request to the store. What a node owes after a crash it finds by the positions
//! that it had pushed ([`crate::positions`]).

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use lru::LruCache;
use sealpost_account::{Accounts, Grown, Touched};
use sealpost_base::limits::{JMAP_PUSH_INTERVAL, PUSH_APPENDS_REMEMBERED, PUSH_CONNECTIONS, PUSH_HOST_TIME};
use sealpost_base::{AccountId, Budget, Clock, Random, Result};
use sealpost_delivery::dial::Dialer;
use sealpost_delivery::https::{self, ConnectProblem, Reach, Web};
use sealpost_delivery::tls::TlsClient;
use sealpost_directory::Directory;
use sealpost_dns::Resolver;
use sealpost_vault::Store;
use sealpost_vault::mail_key::MailKeys;
use sealpost_vault::slot::SlotId;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use crate::index::Index;
use crate::metrics::PushMetrics;
use crate::notes::Notes;
use crate::payload::Payloads;
use crate::schedule::Schedule;
use crate::subscription::{AccountNote, Subscription};
use crate::url::PushUrl;
use crate::vapid::Vapid;
use crate::{job, upkeep};

/// The part of the budget that pushes have together: one of so many.
const BUDGET_SHARE: usize = 16;

/// What a pusher needs.
pub struct Parts {
    /// Where subscriptions are.
    pub store: Store,
    /// What opens them.
    pub mail_keys: MailKeys,
    /// The logs.
    pub accounts: Accounts,
    /// Whether the logins are still valid that made subscriptions.
    pub directory: Directory,
    /// DNS.
    pub resolver: Arc<dyn Resolver>,
    /// TCP.
    pub dialer: Arc<dyn Dialer>,
    /// TLS.
    pub tls: Arc<TlsClient>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub random: Arc<dyn Random>,
    /// What pushes acquire memory of.
    pub budget: Budget,
    /// What is written into pushes.
    pub payloads: Arc<dyn Payloads>,
    /// A URI at which push services reach the operator (RFC 8292 §2.1).
    pub contact: String,
    /// The data directory; `None`: nothing is remembered over a restart.
    pub data: Option<PathBuf>,
}

/// Pushes for one node. Cheap to clone.
#[derive(Clone)]
pub struct Pusher(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) parts: Parts,
    pub(crate) notes: Notes,
    pub(crate) vapid: Vapid,
    pub(crate) metrics: PushMetrics,
    pub(crate) connections: Arc<Semaphore>,
    /// For pushes under way: a small share, because a push service may be slow.
    pub(crate) budget: Budget,
    /// All accounts are compared with what was pushed.
    pub(crate) sweeps: Notify,
    index: Mutex<Index>,
    schedule: Mutex<Schedule>,
    /// What this process appended lately.
    recent: Mutex<LruCache<AccountId, (Touched, Instant)>>,
    /// Something is due earlier than before.
    wake: Notify,
    tasks: Mutex<JoinSet<()>>,
}

impl Pusher {
    /// Begins to push. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// `Corrupt` if there is no place left for a key that signs; what the store says.
    pub async fn start(parts: Parts) -> Result<Self> {
        let (clock, random) = (parts.clock.clone(), parts.random.clone());
        let watermarks = parts.directory.watermarks().clone();
        let notes = Notes::new(parts.store.clone(), parts.mail_keys.clone(), watermarks, clock, random);
        let vapid = Vapid::new(notes.signing_key(parts.clock.now()).await?, parts.contact.clone());
        let recent = NonZeroUsize::new(PUSH_APPENDS_REMEMBERED).unwrap_or(NonZeroUsize::MIN);
        let inner = Arc::new(Inner {
            notes,
            vapid,
            metrics: PushMetrics::default(),
            connections: Arc::new(Semaphore::new(PUSH_CONNECTIONS)),
            budget: parts.budget.share(parts.budget.common() / BUDGET_SHARE),
            sweeps: Notify::new(),
            index: Mutex::default(),
            schedule: Mutex::default(),
            recent: Mutex::new(LruCache::new(recent)),
            wake: Notify::new(),
            tasks: Mutex::default(),
            parts,
        });
        // Before anything is read, so that what is appended meanwhile is noticed.
        let grown = inner.parts.accounts.grown();
        let mut tasks = lock(&inner.tasks);
        tasks.spawn(listen(inner.clone(), grown));
        tasks.spawn(send(inner.clone()));
        tasks.spawn(upkeep::run(inner.clone()));
        drop(tasks);
        Ok(Pusher(inner))
    }

    /// The public key that signs pushes, in URL-safe base64 (RFC 9749 §3).
    pub fn application_server_key(&self) -> &str {
        self.0.vapid.public()
    }

    /// The subscriptions that were made with one slot of an account, and have not ended.
    ///
    /// # Errors
    /// What the store says.
    pub async fn subscriptions(&self, account: AccountId, slot: SlotId) -> Result<Vec<Subscription>> {
        let (version, note) = self.0.notes.read(account).await?;
        self.0.install(account, version, &note);
        let now = self.0.parts.clock.now();
        let is_theirs = |it: &Subscription| it.slot == slot && now < it.expires;
        Ok(note.subscriptions.into_iter().filter(is_theirs).collect())
    }

    /// Changes the subscriptions of an account; what `decide` returns. It is called again if another
    /// node changes them at the same time.
    ///
    /// # Errors
    /// Those of `decide`; what the store says.
    pub async fn change<T>(
        &self,
        account: AccountId,
        decide: impl Fn(&mut AccountNote) -> Result<T>,
    ) -> Result<T> {
        self.0.change(account, decide).await
    }

    /// Sends the one request that verifies a new subscription, in a task of its own.
    pub fn verify(&self, subscription: Subscription) {
        let inner = self.0.clone();
        tokio::spawn(async move {
            job::verify(&inner, &subscription).await;
            inner.wake.notify_one();
        });
    }

    /// Whether the host of a URL is on the internet, as far as DNS says now.
    ///
    /// # Errors
    /// Why not; `Dns` if it cannot be found out.
    pub async fn reaches(&self, url: &PushUrl) -> Result<(), ConnectProblem> {
        let addresses = https::addresses(&url.host, &*self.0.parts.resolver, Reach::Public);
        timeout(PUSH_HOST_TIME, addresses).await.unwrap_or(Err(ConnectProblem::Dns)).map(drop)
    }

    /// The logs of an account's own shared mailboxes, from a process that can read the account. Costs
    /// a look at a table if that is known, or the account has no subscriptions.
    pub fn follow_shares(&self, account: AccountId, shares: &[AccountId]) {
        let known = self.0.index().logs(account);
        let is_known = |share: &AccountId| known.iter().any(|(log, _)| log == share);
        if known.is_empty() || known.len() == shares.len() + 1 && shares.iter().all(is_known) {
            return;
        }
        let (inner, shares) = (self.0.clone(), shares.to_vec());
        tokio::spawn(async move {
            let set = |note: &mut AccountNote| {
                note.shares.clone_from(&shares);
                Ok(())
            };
            if let Err(error) = inner.change(account, set).await {
                tracing::warn!(%account, %error, "cannot note the shared mailboxes of an account for pushes");
            }
        });
    }

    /// Compares all accounts with what this node has pushed: after a node was lost, which may have
    /// owed pushes.
    pub fn sweep(&self) {
        self.0.sweeps.notify_one();
    }

    /// What was counted.
    pub fn metrics(&self) -> &PushMetrics {
        &self.0.metrics
    }

    /// How many subscriptions this node knows.
    pub fn known(&self) -> usize {
        self.0.index().subscriptions()
    }

    /// How many subscriptions wait for a push.
    pub fn waiting(&self) -> usize {
        self.0.schedule().len()
    }

    /// Ends. What is owed is noted, and pushed after the next start.
    pub async fn stop(&self) {
        let mut tasks = std::mem::take(&mut *lock(&self.0.tasks));
        tasks.shutdown().await;
        upkeep::save(&self.0).await;
    }
}

impl Inner {
    pub(crate) fn index(&self) -> MutexGuard<'_, Index> {
        lock(&self.index)
    }

    pub(crate) fn schedule(&self) -> MutexGuard<'_, Schedule> {
        lock(&self.schedule)
    }

    pub(crate) fn web(&self) -> Web<'_> {
        let Parts { resolver, dialer, tls, .. } = &self.parts;
        Web { resolver: &**resolver, dialer: &**dialer, tls }
    }

    /// Bytes of the tables, about.
    pub(crate) fn memory(&self) -> usize {
        self.index().memory() + self.schedule().memory()
    }

    /// Changes the note of an account.
    pub(crate) async fn change<T>(
        &self,
        account: AccountId,
        decide: impl Fn(&mut AccountNote) -> Result<T>,
    ) -> Result<T> {
        let known = self.index().version(account).unwrap_or(0);
        let (version, note, value) = self.notes.change(account, known, decide).await?;
        self.install(account, version, &note);
        Ok(value)
    }

    /// Takes over the note of an account. Subscriptions that are new here get what this node appended
    /// before it knew of them: another node may have made them.
    pub(crate) fn install(&self, account: AccountId, version: u64, note: &AccountNote) {
        let opened = self.index().install(account, version, note);
        if opened.is_empty() {
            return;
        }
        let now = Instant::now();
        let logs = self.index().logs(account);
        let touched = {
            let mut recent = lock(&self.recent);
            let of = logs.iter().filter_map(|(log, _)| recent.get(log).copied());
            let lately = of.filter(|(_, at)| now.saturating_duration_since(*at) < 2 * upkeep::REFRESH);
            lately.map(|(touched, _)| touched).fold(Touched::NONE, Touched::and)
        };
        if !touched.is_none() {
            let mut schedule = self.schedule();
            for id in opened {
                schedule.add((account, id), touched, now);
            }
            drop(schedule);
            self.wake.notify_one();
        }
    }

    /// Something changed in an account: its subscriptions are due.
    pub(crate) fn touch(&self, account: AccountId, touched: Touched) {
        let open = self.index().open(account, self.parts.clock.now());
        let now = Instant::now();
        let mut schedule = self.schedule();
        for id in open {
            if !schedule.add((account, id), touched, now) {
                self.metrics.dropped.increment();
            }
        }
        drop(schedule);
        self.wake.notify_one();
    }

    /// This process appended an entry.
    fn appended(&self, grown: Grown, touched: Touched) {
        let owner = self.index().owner(grown.log);
        if !touched.is_none() {
            self.remember(grown.log, touched);
            if let Some(owner) = owner {
                self.touch(owner, touched);
            }
        }
        // After that: a position that is known and not owed counts as pushed.
        self.index().saw(grown.log, grown.position);
    }

    fn remember(&self, log: AccountId, touched: Touched) {
        let (mut recent, now) = (lock(&self.recent), Instant::now());
        let before = recent.get(&log).map_or(Touched::NONE, |(touched, _)| *touched);
        recent.put(log, (before.and(touched), now));
    }

    /// Another process appended to these logs, or an attacker put objects there.
    async fn look(&self, logs: HashSet<AccountId>) {
        for log in logs {
            match self.parts.accounts.log_position(log).await {
                Ok(end) => {
                    let owner = {
                        let index = self.index();
                        index.owner(log).filter(|_| index.is_news(log, end))
                    };
                    if let Some(owner) = owner {
                        self.touch(owner, Touched::ALL);
                    }
                    self.index().saw(log, end);
                }
                Err(error) => tracing::warn!(%log, %error, "cannot read the end of a log for pushes"),
            }
        }
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes note of new entries.
async fn listen(inner: Arc<Inner>, mut grown: Receiver<Grown>) {
    let mut foreign: HashSet<AccountId> = HashSet::new();
    let mut look_at = Instant::now();
    loop {
        tokio::select! {
            received = grown.recv() => match received {
                Ok(entry) => match entry.touched {
                    Some(touched) => inner.appended(entry, touched),
                    None if inner.index().is_news(entry.log, entry.position) => {
                        if foreign.is_empty() {
                            // This process reports its own entries too, a moment later perhaps.
                            look_at = Instant::now() + JMAP_PUSH_INTERVAL;
                        }
                        foreign.insert(entry.log);
                    }
                    None => {}
                },
                Err(RecvError::Lagged(missed)) => {
                    tracing::debug!(missed, "too many entries at once for pushes: all accounts are compared");
                    inner.sweeps.notify_one();
                }
                Err(RecvError::Closed) => return,
            },
            () = sleep_until(look_at), if !foreign.is_empty() => inner.look(std::mem::take(&mut foreign)).await,
        }
    }
}

/// Sends what is due.
async fn send(inner: Arc<Inner>) {
    let mut jobs = JoinSet::new();
    loop {
        let next = inner.schedule().next().unwrap_or_else(|| Instant::now() + Duration::from_secs(3600));
        let is_free = inner.connections.available_permits() > 0;
        tokio::select! {
            () = inner.wake.notified() => {}
            () = sleep_until(next), if is_free => {}
            Some(_) = jobs.join_next(), if !jobs.is_empty() => {}
        }
        while let Ok(permit) = inner.connections.clone().try_acquire_owned() {
            let Some((key, touched)) = inner.schedule().pop(Instant::now()) else { break };
            let inner = inner.clone();
            jobs.spawn(async move {
                let run = AssertUnwindSafe(job::run(&inner, key, touched)).catch_unwind().await;
                if run.is_err() {
                    tracing::error!("a push panicked; it is tried again");
                    inner.schedule().failed(key, touched, None, Instant::now());
                }
                drop(permit);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use sealpost_base::{Position, Random, SeededRandom, SystemClock, Timestamp};
    use sealpost_delivery::dial::TcpDialer;
    use sealpost_dns::scripted::ScriptedResolver;
    use sealpost_vault::entry::LogKey;
    use sealpost_vault::server_key::ServerKeys;

    use super::*;
    use crate::{Change, SubscriptionId};

    const ME: AccountId = AccountId([7; 16]);

    struct NoPayloads;

    impl Payloads for NoPayloads {
        fn verification(&self, _: &SubscriptionId, _: &str) -> Vec<u8> {
            Vec::new()
        }

        fn change(
            &self,
            _: AccountId,
            _: &[(AccountId, Position)],
            _: Touched,
            _: Option<&[String]>,
        ) -> Option<Change> {
            None
        }
    }

    async fn node(store: &Store) -> Pusher {
        let random: Arc<dyn Random> = Arc::new(SeededRandom::new(2));
        let (clock, key) = (Arc::new(SystemClock::new()), ServerKeys::generate(&SeededRandom::new(1)));
        let budget = sealpost_base::MemoryDivision::default().budget();
        let log_key = LogKey::of(&key);
        Pusher::start(Parts {
            store: store.clone(),
            mail_keys: MailKeys::generate(&SeededRandom::new(1)),
            accounts: Accounts::new(store.clone(), log_key, clock.clone(), random.clone(), budget.clone()),
            budget,
            directory: Directory::new(store.clone(), key, clock.clone(), random.clone()),
            resolver: Arc::new(ScriptedResolver::new()),
            dialer: Arc::new(TcpDialer),
            tls: Arc::new(TlsClient::new(rustls::RootCertStore::empty()).unwrap()),
            clock,
            random,
            payloads: Arc::new(NoPayloads),
            contact: "mailto:postmaster@localhost".to_owned(),
            data: None,
        })
        .await
        .unwrap()
    }

    fn add(note: &mut AccountNote) -> Result<()> {
        note.subscriptions.push(Subscription {
            id: SubscriptionId([1; 16]),
            device: "one".to_owned(),
            url: "https://push.example.org/".to_owned(),
            keys: None,
            code: String::new(),
            is_verified: true,
            expires: Timestamp(i64::MAX),
            types: None,
            slot: SlotId([1; 8]),
        });
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn appends_before_another_nodes_subscription_is_known_are_pushed() {
        let store = Store::memory();
        let (one, other) = (node(&store).await, node(&store).await);
        assert_eq!(one.application_server_key(), other.application_server_key());
        other.change(ME, add).await.unwrap();
        assert_eq!((one.known(), other.known()), (0, 1));
        let grown = Grown { log: ME, position: Position(1), touched: Some(Touched::EMAILS) };
        one.0.appended(grown, Touched::EMAILS);
        assert_eq!(one.waiting(), 0, "it does not know of the subscription yet");
        let (version, note) = one.0.notes.read(ME).await.unwrap();
        one.0.install(ME, version, &note);
        assert_eq!((one.known(), one.waiting()), (1, 1));
        // An entry that touches nothing a client sees wakes no device.
        other.0.appended(grown, Touched::NONE);
        assert_eq!(other.waiting(), 0);
        // What was appended long ago was pushed by the node that knew the subscription.
        let third = node(&store).await;
        third.0.appended(grown, Touched::EMAILS);
        tokio::time::advance(3 * upkeep::REFRESH).await;
        third.0.install(ME, version, &note);
        assert_eq!(third.waiting(), 0);
    }

    #[tokio::test]
    async fn shares_are_noted_once_for_accounts_with_subscriptions() {
        let store = Store::memory();
        let push = node(&store).await;
        let share = AccountId([8; 16]);
        push.follow_shares(ME, &[share]);
        push.change(ME, add).await.unwrap();
        push.follow_shares(ME, &[share]);
        let noted = async {
            while push.0.index().owner(share) != Some(ME) {
                tokio::task::yield_now().await;
            }
        };
        timeout(Duration::from_secs(30), noted).await.unwrap();
        push.follow_shares(ME, &[share]);
        assert_eq!(push.0.notes.read(ME).await.unwrap().0, 2, "two changes");
    }
}
