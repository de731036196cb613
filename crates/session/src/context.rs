//! The context that every session of any protocol gets. What one protocol needs besides is its own:
//! `ImapShared`, `SmtpShared`.

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

/// The server as its sessions see it; shared by all of them.
pub struct Context {
    /// The server's name, for greetings and `Received` fields.
    pub hostname: String,
    /// The mail.
    pub accounts: Accounts,
    /// Accounts, and the addresses that lead to them.
    pub directory: Directory,
    /// Checks logins.
    pub auth: Authenticator,
    /// What the log says of logins that failed.
    pub failed_logins: FailedLogins,
    /// What this node has seen of the store.
    pub watermarks: Watermarks,
    /// How much accounts hold.
    pub usage: UsageTracker,
    /// For STARTTLS; `None`: not offered.
    pub tls: Option<Arc<ServerConfig>>,
    /// What every buffer over 16 KiB is drawn from.
    pub budget: Budget,
    /// Shares the processors among accounts.
    pub scheduler: FairScheduler,
    /// Searches, sorts and threads messages.
    pub search: Engine,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// The sessions there are.
    pub sessions: Arc<Sessions>,
    /// When the server began.
    pub started: Timestamp,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub random: Arc<dyn Random>,
    /// What the operator decided.
    pub settings: Settings,
    /// Whether the accept loops are alive.
    pub health: Health,
    /// Whether the clock is believed.
    pub clock_watch: Arc<ClockWatch>,
    /// Tells when to end.
    pub shutdown: Shutdown,
    /// Where everything is, for temporary objects.
    pub store: Store,
}

impl Context {
    /// A context over `store`. Must be called inside a tokio runtime; starts the threads that check
    /// passwords.
    ///
    /// # Errors
    /// `Invalid` if the settings contradict themselves.
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

    /// Whether a password may be sent over `stream` as it is now: encrypted, or never leaving this machine.
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
