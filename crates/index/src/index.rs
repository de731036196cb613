//! [`Index`]: a loaded account with what is derived from its mail.

use std::any::Any;
use std::ops::Deref;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use sealpost_account::{Account, Cache, CacheCounts, Derived};
use sealpost_base::{AccountId, MemoryDivision, Result};

use crate::packs::Packs;
use crate::summary::{Content, Entry, PieceSegment, SegmentLists, SegmentName};

/// Derives from the mail of all accounts of a process ([`sealpost_account::Options`]).
pub struct Indexer {
    /// Summaries of messages that are in no segment yet.
    summaries: Arc<Cache<Entry>>,
    /// Segments of headers and structures that were read lately.
    pieces: Arc<PieceCache>,
}

/// Opened segments, by account, content and name.
pub(crate) type PieceCache = Cache<PieceSegment, (AccountId, Content, SegmentName)>;

/// What a process knows of one loaded account's derived data; gone with the account.
pub(crate) struct DerivedData {
    /// Which segments are stored.
    pub(crate) segments: SegmentLists,
    /// Which packs are stored.
    pub(crate) packs: Packs,
    pub(crate) summaries: Arc<Cache<Entry>>,
    pub(crate) pieces: Arc<PieceCache>,
}

/// A loaded account with what is derived from its mail. Cloning shares both.
#[derive(Clone)]
pub struct Index {
    account: Arc<Account>,
    pub(crate) derived: Arc<DerivedData>,
}

impl Indexer {
    /// With caches of the sizes in this division of memory.
    pub fn new(memory: &MemoryDivision) -> Arc<Self> {
        let summaries = Arc::new(Cache::new(memory.summaries()));
        Arc::new(Indexer { summaries, pieces: Arc::new(Cache::new(memory.pieces())) })
    }
}

impl DerivedData {
    fn new(summaries: Arc<Cache<Entry>>, pieces: Arc<PieceCache>) -> Self {
        DerivedData { segments: SegmentLists::default(), packs: Packs::default(), summaries, pieces }
    }
}

impl Index {
    /// The index of that account. For an account that was loaded without an [`Indexer`] it works as
    /// well, without caching and maintenance.
    pub fn of(account: &Arc<Account>) -> Self {
        let attached = account.derived().and_then(|attached| attached.downcast::<DerivedData>().ok());
        let derived = attached
            .unwrap_or_else(|| Arc::new(DerivedData::new(Arc::new(Cache::new(0)), Arc::new(Cache::new(0)))));
        Index { account: account.clone(), derived }
    }

    /// The account itself.
    pub fn account(&self) -> &Arc<Account> {
        &self.account
    }

    async fn maintain(&self) -> Result<()> {
        self.compact_summaries().await?;
        self.pack_delivered_first().await?;
        self.compact_packs().await
    }
}

impl Deref for Index {
    type Target = Account;

    fn deref(&self) -> &Account {
        &self.account
    }
}

impl Derived for Indexer {
    fn attach(&self) -> Arc<dyn Any + Send + Sync> {
        Arc::new(DerivedData::new(self.summaries.clone(), self.pieces.clone()))
    }

    fn on_commit(&self, account: &Arc<Account>) {
        let index = Index::of(account);
        index.extend_if_due();
        index.pack_if_due();
    }

    fn maintain(&self, account: Arc<Account>) -> BoxFuture<'static, Result<()>> {
        async move { Index::of(&account).maintain().await }.boxed()
    }

    fn purged(&self, account: Arc<Account>) -> BoxFuture<'static, Result<()>> {
        async move { Index::of(&account).compact_packs().await }.boxed()
    }

    fn cache_counts(&self) -> Vec<(&'static str, CacheCounts)> {
        vec![("summaries", self.summaries.counts()), ("segments", self.pieces.counts())]
    }

    fn forget(&self, account: AccountId) {
        self.summaries.forget(account);
        self.pieces.forget(account);
    }
}
