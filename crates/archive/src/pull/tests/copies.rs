//! Backups in every format, opened as another process would open them.

use std::path::Path;
use std::sync::Arc;

use sealpost_account::Accounts;
use sealpost_base::{AccountId, Budget, FakeClock, Kind, Random, SeededRandom, Timestamp};
use sealpost_vault::entry::LogKey;
use sealpost_vault::{RootKey, Store};
use tokio::runtime::Handle;

use crate::backup::{Backup, imap_backup, maildir, sealed};

pub(crate) const ID: AccountId = AccountId([3; 16]);

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Format {
    Mbox,
    Maildir,
    Sealed,
}

pub(crate) const FORMATS: [Format; 3] = [Format::Mbox, Format::Maildir, Format::Sealed];

/// The place of a backup.
pub(crate) struct BackupPlace {
    pub(crate) format: Format,
    directory: tempfile::TempDir,
    pub(crate) store: Store,
    random: Arc<SeededRandom>,
    root: RootKey,
}

impl BackupPlace {
    pub(crate) fn new(format: Format) -> Self {
        let random = Arc::new(SeededRandom::new(5));
        let root = RootKey::generate(&*random);
        let directory = tempfile::tempdir().unwrap();
        BackupPlace { format, directory, store: Store::memory(), random, root }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The account of a sealed backup.
    pub(crate) async fn account(&self) -> Arc<sealpost_account::Account> {
        let random: Arc<dyn Random> = self.random.clone();
        let clock = Arc::new(FakeClock::new(Timestamp(0)));
        let accounts =
            Accounts::new(self.store.clone(), LogKey::for_tests(), clock, random, Budget::new(64 << 20));
        accounts.open(ID, &self.root).await.unwrap()
    }

    pub(crate) async fn open(&self) -> Arc<dyn Backup> {
        loop {
            let opened = match self.format {
                Format::Mbox => imap_backup::open(self.path()),
                Format::Maildir => maildir::open(self.path()),
                Format::Sealed => sealed::open(Handle::current(), self.account().await, self.path()),
            };
            match opened {
                // Tasks left over from a pull release the backup a moment later.
                Err(e) if e.kind() == Kind::Conflict => tokio::task::yield_now().await,
                backup => return backup.unwrap().into(),
            }
        }
    }
}
