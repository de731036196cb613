//! The place where everything is: the data directory, opened.
//!
//! Several processes may have one open, so every command works while the server runs.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use futures::TryStreamExt;
use sealpost_account::{Accounts, Options};
use sealpost_base::{AccountId, Budget, Clock, Error, Random, SystemClock, SystemRandom};
use sealpost_directory::{AccountName, AliasName, Directory};
use sealpost_directory::{Watermarks, watermarks};
use sealpost_files::owner;
use sealpost_index::Indexer;
use sealpost_server::Settings;
use sealpost_server::bus::BusNotifier;
use sealpost_vault::Store;
use sealpost_vault::entry::LogKey;
use sealpost_vault::server_key::ServerKeys;

use crate::config::Config;
use crate::exit::{Usage, named};
use crate::global::Global;
use crate::output::warn;
use crate::store::{Purpose, is_file, is_store};

/// The server's key, in the data directory.
pub const KEY_FILE: &str = "server.key";

/// The data directory and what is in it.
#[derive(Clone)]
pub struct DataDir {
    /// The data directory.
    pub dir: PathBuf,
    /// Its objects.
    pub store: Store,
    /// What authenticates its records.
    pub key: ServerKeys,
    /// What this node has seen of its store.
    pub watermarks: Watermarks,
    /// The accounts.
    pub directory: Directory,
    /// What the configuration says.
    pub settings: Settings,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub random: Arc<dyn Random>,
    /// The bound on this process's buffers.
    pub budget: Budget,
}

impl DataDir {
    /// Opens the data directory that the options and the configuration name.
    ///
    /// # Errors
    /// `NotFound` if there is none; what the store and the configuration say.
    pub async fn open(global: &Global) -> Result<Self> {
        Self::existing(global, Purpose::Change).await
    }

    /// The same, for a command that only reads: where nothing can be written (a read-only mount)
    /// the store is read as it is.
    ///
    /// # Errors
    /// As [`DataDir::open`].
    pub async fn open_to_read(global: &Global) -> Result<Self> {
        Self::existing(global, Purpose::Read).await
    }

    async fn existing(global: &Global, purpose: Purpose) -> Result<Self> {
        let config = Config::load(global)?;
        let key_file = config.directory.join(KEY_FILE);
        if !is_file(&key_file)? {
            if let Some(objects) = config.store.directory(&config.directory)
                && is_store(&objects)?
            {
                let store = config.store.open(&config.directory, Purpose::Read).await?;
                refuse_without_key(&store, &key_file).await?;
            }
            let dir = config.directory.display();
            let why = format!("no Sealpost data in {dir}; give the data directory with --dir or --config");
            return Err(Error::not_found(why).into());
        }
        Self::with(&config, purpose).await
    }

    /// The same, and makes the data directory if there is none.
    ///
    /// # Errors
    /// What the store and the configuration say.
    pub async fn open_or_make(global: &Global) -> Result<Self> {
        Self::with(&Config::load(global)?, Purpose::Change).await
    }

    /// Opens, or makes, the data directory of a configuration, for a server.
    ///
    /// # Errors
    /// What the store says.
    pub async fn of(config: &Config) -> Result<Self> {
        Self::with(config, Purpose::Serve).await
    }

    async fn with(config: &Config, purpose: Purpose) -> Result<Self> {
        let dir = config.directory.as_path();
        let opened = || format!("the data directory {}", dir.display());
        make(dir).with_context(opened).map_err(|e| {
            match e.downcast_ref::<io::Error>().map(io::Error::kind) {
                // A file, or below one.
                Some(ErrorKind::AlreadyExists | ErrorKind::NotADirectory) => named(e),
                _ => e,
            }
        })?;
        let store = config.store.open(dir, purpose).await?;
        let key_file = dir.join(KEY_FILE);
        if !is_file(&key_file)? {
            refuse_without_key(&store, &key_file).await.with_context(opened)?;
        }
        let place = Self::over(config, store)?;
        place.directory.check_key(purpose != Purpose::Read).await.with_context(opened)?;
        if purpose != Purpose::Read {
            config
                .store
                .authenticate(&place.store, &place.key, &place.watermarks)
                .await
                .with_context(opened)?;
        }
        Ok(place)
    }

    /// Whether there is a server key, which [`DataDir::over`] would make.
    ///
    /// # Errors
    /// `NotFound` if not.
    pub fn require_key(config: &Config) -> Result<()> {
        let key_file = config.directory.join(KEY_FILE);
        match is_file(&key_file)? {
            true => Ok(()),
            false => Err(Error::not_found(format!(
                "{} is missing: name the data directory of the store with --dir or --config",
                key_file.display()
            ))
            .into()),
        }
    }

    /// The data directory of a configuration, with another store.
    ///
    /// # Errors
    /// What the configuration and the file with the key say.
    pub fn over(config: &Config, store: Store) -> Result<Self> {
        let (dir, settings) = (config.directory.as_path(), config.settings.clone());
        let opened = || format!("the data directory {}", dir.display());
        let (clock, random): (Arc<dyn Clock>, Arc<dyn Random>) =
            (Arc::new(SystemClock::new()), Arc::new(SystemRandom));
        let key = ServerKeys::load_or_create(&dir.join(KEY_FILE), &*random).with_context(opened)?;
        let watermarks = Watermarks::load(&dir.join(watermarks::FILE), &key).with_context(opened)?.at_once();
        let directory = Directory::new(store.clone(), key.clone(), clock.clone(), random.clone());
        let directory = on_host(directory, &settings)?.with_watermarks(watermarks.clone());
        let budget = settings.memory.budget();
        let dir = dir.to_owned();
        Ok(DataDir { dir, store, key, watermarks, directory, settings, clock, random, budget })
    }

    /// The same directory, for writes that free space: on a full disk they may use the reserve.
    ///
    /// # Errors
    /// What the configuration says.
    pub fn freeing_directory(&self) -> Result<Directory> {
        let (store, clock, random) = (self.store.freeing(), self.clock.clone(), self.random.clone());
        let directory = Directory::new(store, self.key.clone(), clock, random);
        Ok(on_host(directory, &self.settings)?.with_watermarks(self.watermarks.clone()))
    }

    /// The account that a command line means by `name`.
    ///
    /// # Errors
    /// `Usage` if it cannot be the name of an account.
    pub fn account_name(&self, name: &str) -> Result<AccountName> {
        self.directory.account_name(name).map_err(|e| Usage(e.to_string()).into())
    }

    /// As [`DataDir::account_name`], of an alias.
    ///
    /// # Errors
    /// `Usage` if it cannot be the name of an alias.
    pub fn alias_name(&self, name: &str) -> Result<AliasName> {
        self.directory.alias_name(name).map_err(|e| Usage(e.to_string()).into())
    }

    /// Notifies servers, over the bus if there is one, that the record of this account was changed.
    /// They find it out by themselves, later.
    pub async fn notify_record_changed(&self, account: AccountId) {
        if self.settings.bus.url.is_empty() {
            return;
        }
        if let Err(error) = sealpost_server::bus::notify_record_changed(&self.settings.bus, account).await {
            warn(format_args!(
                "cannot notify running servers, which notice the change within five minutes: \
                               {error}"
            ));
        }
    }

    /// Notifies servers, over the bus if there is one, of appends through `accounts` from now on;
    /// until [`BusNotices::end`], or as long as this process runs.
    pub fn notify_of(&self, accounts: &Accounts) -> BusNotices {
        let bus = &self.settings.bus;
        BusNotices((!bus.url.is_empty()).then(|| BusNotifier::begin(bus, accounts)))
    }

    /// The accounts' mail. Every call makes a registry of its own, which sees what the others
    /// commit only when it reads on: a process has one.
    pub fn accounts(&self) -> Accounts {
        let (clock, random) = (self.clock.clone(), self.random.clone());
        let (memory, grace) = (self.settings.memory, self.settings.retention);
        let derived = Some(Indexer::new(&memory) as _);
        let options = Options { budget: self.budget.clone(), memory, grace, derived };
        let accounts = Accounts::with(self.store.clone(), LogKey::of(&self.key), clock, random, options);
        accounts.set_watermarks(self.watermarks.clone());
        accounts.set_directory(self.directory.clone());
        accounts
    }
}

/// Notices to servers about the appends of a command.
pub struct BusNotices(Option<BusNotifier>);

impl BusNotices {
    /// Sends the last of them. Servers without them find the appends by themselves, later.
    pub async fn end(self) {
        if let Some(notifier) = self.0
            && let Err(error) = notifier.end().await
        {
            warn(format_args!(
                "cannot notify running servers, which notice the change within five minutes: \
                               {error}"
            ));
        }
    }
}

fn on_host(directory: Directory, settings: &Settings) -> Result<Directory> {
    Ok(directory.on_host(&settings.hostname, settings.domain.as_deref(), settings.postmaster.as_deref())?)
}

/// A new key over old records would lock all users out, and hide that the old one is missing.
async fn refuse_without_key(store: &Store, key_file: &Path) -> Result<()> {
    // Another process may make the key, and then an account, meanwhile.
    let is_used = async |root| Ok::<_, Error>(store.list(root, None).try_next().await?.is_some());
    if !(is_used("accounts").await? || is_used("server").await?) || is_file(key_file)? {
        return Ok(());
    }
    let why = format!(
        "{} is missing, but the store is in use: copy it from another node, or put it back from the backup; no account can be used \
         without it",
        key_file.display()
    );
    Err(Error::corrupt(why).into())
}

/// The data directory, for its owner alone. A local store in it would make it just so.
fn make(dir: &Path) -> std::io::Result<()> {
    owner::make_directory(dir).map_err(|e| owner::explained(dir, e))
}
