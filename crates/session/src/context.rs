//! The context of sessions of all protocols. What only one protocol needs is in `ImapShared`, `SmtpShared`
//! and the like.

use std::sync::Arc;

use rustls::ServerConfig;
use sealpost_account::{Accounts, Options};
use sealpost_base::{Budget, Clock, Random, Result, Timestamp};
use sealpost_directory::Directory;
use sealpost_directory::{Watermarks, watermarks};
use sealpost_index::Indexer;
use sealpost_mailbox::usage_tracker::UsageTracker;
use sealpost_search::Engine;
use sealpost_vault::Store;
use sealpost_vault::entry::LogKey;
use sealpost_vault::server_key::ServerKeys;

use crate::clock_watch::ClockWatch;
use crate::health::Health;
use crate::metrics::Metrics;
use crate::net::Stream;
use crate::sessions::Sessions;
use crate::settings::{PlaintextLogin, Settings};
use crate::shutdown::Shutdown;
use sealpost_auth::Authenticator;
use sealpost_auth::failed_logins::FailedLogins;
use sealpost_auth::fair_scheduler::FairScheduler;

/// The server as all sessions share it.
pub struct Context {
    /// The server's name, for greetings and `Received` fields.
    pub hostname: String,
    /// The mail of all accounts.
    pub accounts: Accounts,
    /// Accounts and addresses.
    pub directory: Directory,
    /// Checks logins.
    pub auth: Authenticator,
    /// Logs failed logins.
    pub failed_logins: FailedLogins,
    /// The last positions and versions that this node has seen in the store.
    pub watermarks: Watermarks,
    /// The usage of accounts.
    pub usage: UsageTracker,
    /// The TLS configuration for STARTTLS; `None` disables it.
    pub tls: Option<Arc<ServerConfig>>,
    /// The memory budget; every buffer over 16 KiB acquires from it.
    pub budget: Budget,
    /// Shares the CPUs among accounts.
    pub scheduler: FairScheduler,
    /// Searches, sorts and threads messages.
    pub search: Engine,
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// The table of sessions.
    pub sessions: Arc<Sessions>,
    /// When the server started.
    pub started: Timestamp,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The source of randomness.
    pub random: Arc<dyn Random>,
    /// The operator's settings.
    pub settings: Settings,
    /// Whether the accept loops are alive.
    pub health: Health,
    /// Decides whether the clock is trusted.
    pub clock_watch: Arc<ClockWatch>,
    /// Signals the shutdown.
    pub shutdown: Shutdown,
    /// The store, for temporary objects.
    pub store: Store,
}

impl Context {
    /// A context over `store`. Call it inside a tokio runtime; it starts the threads that check passwords.
    ///
    /// # Errors
    /// `Invalid` if the settings contradict each other.
    pub fn new(
        settings: Settings,
        store: Store,
        key: ServerKeys,
        tls: Option<Arc<ServerConfig>>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
    ) -> Result<Self> {
        let budget = settings.memory.budget();
        let options = Options {
            budget: budget.clone(),
            memory: settings.memory,
            grace: settings.retention,
            derived: Some(Indexer::new(&settings.memory)),
        };
        let accounts =
            Accounts::with(store.clone(), LogKey::of(&key), clock.clone(), random.clone(), options);
        let watermarks = match &settings.data {
            Some(directory) => Watermarks::load(&directory.join(watermarks::FILE), &key)?,
            None => Watermarks::default(),
        };
        accounts.set_watermarks(watermarks.clone());
        let directory = Directory::new(store.clone(), key, clock.clone(), random.clone());
        let directory = directory.with_watermarks(watermarks.clone()).on_host(
            &settings.hostname,
            settings.domain.as_deref(),
            settings.postmaster.as_deref(),
        )?;
        accounts.set_directory(directory.clone());
        let auth =
            Authenticator::new(directory.clone(), &settings.login, budget.clone(), clock.clone(), &*random)?;
        let usage = UsageTracker::new(accounts.clone(), directory.clone());
        let search = Engine::new(accounts.clone(), &budget, settings.memory.orders());
        Ok(Context {
            hostname: settings.hostname.clone(),
            accounts,
            directory,
            auth,
            failed_logins: FailedLogins::new(clock.clone()),
            watermarks,
            tls,
            scheduler: FairScheduler::default(),
            search,
            usage,
            budget,
            metrics: Arc::default(),
            sessions: Arc::default(),
            started: clock.now(),
            clock,
            random,
            clock_watch: Arc::new(ClockWatch::new(settings.data.as_deref())),
            settings,
            health: Health::default(),
            shutdown: Shutdown::new(),
            store,
        })
    }

    /// Whether `stream` may carry a password now: it is encrypted, or never leaves this machine.
    pub fn allows_login(&self, stream: &Stream) -> bool {
        match self.settings.plaintext_login {
            PlaintextLogin::Loopback => stream.is_tls() || stream.is_loopback(),
            PlaintextLogin::Never => stream.is_tls(),
        }
    }
}

/// A context over a store in memory.
#[cfg(test)]
pub fn for_tests() -> Context {
    let random = Arc::new(sealpost_base::SeededRandom::new(1));
    let key = ServerKeys::generate(&*random);
    let clock = Arc::new(sealpost_base::SystemClock::new());
    let settings = Settings { domain: Some("localhost".to_owned()), ..Settings::default() };
    Context::new(settings, Store::memory(), key, None, clock, random).expect("default settings")
}
