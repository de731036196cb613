//! Evicted bodies, fetched again from their server when a client opens them.
//!
//! One connection to a server and account, made on demand and closed after some idle time.
//! Concurrent requests for the same body share one fetch. The bytes are compared with the recorded
//! size and SHA-256 before any of them is handed out, and then stay in the spool for a while, for
//! ranges and repeated reads ([`limits::BODIES_SPOOLED`]); the spool's key is in this process's
//! memory alone.
//!
//! A body that the server no longer has is reported as gone; nothing else is ever returned in its
//! place.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use sealpost_account::Account;
use sealpost_account::bodies::BodyFetcher;
use sealpost_base::{AccountId, Budget, Error, Kind, ObjectId, Random, Result};
use sealpost_vault::Store;
use sealpost_vault::message::{self, EvictedBody, WRITER_BYTES, Wanted};
use sealpost_vault::spool::Spooled;
use tokio::time::timeout;

use crate::backup::sealed::{AtServer, at_server};
use crate::client::Server;

mod line;
mod spooled;
#[cfg(test)]
mod tests;

use line::{Line, Spool};
use spooled::SpooledBodies;

/// How long a fetch may take, besides the transfer at [`SLOWEST`].
const TIMEOUT: Duration = Duration::from_secs(60);
/// Slowest accepted transfer, in bytes a second.
const SLOWEST: u64 = 32 * 1024;
/// How long an idle connection stays open.
const IDLE: Duration = Duration::from_secs(60);
/// Bodies that are spooled at once; those of one account one after the other.
const AT_ONCE: usize = 4;

/// Why a fetch failed: shared by all its waiters.
type Failed = (Kind, String);
type Fetch = Shared<BoxFuture<'static, Result<Arc<Spooled>, Failed>>>;
/// An account's message.
type Key = (AccountId, ObjectId);

/// Fetches bodies. Cloning is by [`Arc`].
pub struct Refetch {
    store: Store,
    random: Arc<dyn Random>,
    /// Memory for spooling; separate, because the readers that wait for it already hold other
    /// permits.
    budget: Budget,
    lines: HashMap<AccountId, Arc<Line>>,
    /// Accounts whose server cannot be asked, and why.
    closed: HashMap<AccountId, String>,
    state: Mutex<RefetchState>,
    idle: Duration,
}

#[derive(Default)]
struct RefetchState {
    kept: SpooledBodies<Key>,
    fetching: HashMap<Key, Fetch>,
}

impl Refetch {
    /// Fetches for these accounts, each from its server, or gives the reason why it cannot be
    /// asked. Spools in `store`.
    pub fn new(
        store: &Store,
        random: Arc<dyn Random>,
        servers: impl IntoIterator<Item = (AccountId, Result<Server, String>)>,
    ) -> Arc<Self> {
        Self::with_idle(store, random, servers, IDLE)
    }

    fn with_idle(
        store: &Store,
        random: Arc<dyn Random>,
        servers: impl IntoIterator<Item = (AccountId, Result<Server, String>)>,
        idle: Duration,
    ) -> Arc<Self> {
        let (mut lines, mut closed) = (HashMap::new(), HashMap::new());
        for (account, server) in servers {
            match server {
                Ok(server) => drop(lines.insert(account, Arc::new(Line::new(server)))),
                Err(why) => drop(closed.insert(account, why)),
            }
        }
        let budget = Budget::new(AT_ONCE * WRITER_BYTES);
        let (store, state) = (store.clone(), Mutex::default());
        Arc::new(Refetch { store, random, budget, lines, closed, state, idle })
    }

    /// The source of the body of the message at that place, for a reader.
    pub(crate) fn at(
        self: &Arc<Self>,
        account: AccountId,
        there: AtServer,
    ) -> Arc<dyn message::EvictedBodies> {
        Arc::new(Located { refetch: self.clone(), account, there: Arc::new(there) })
    }

    /// Closes connections, and removes what is spooled and not being read.
    pub async fn end(&self) {
        for line in self.lines.values() {
            line.close().await;
        }
        let kept = self.state().kept.take();
        spooled::remove(kept).await;
    }

    /// The message, from the spool or from one of these places.
    async fn body(self: Arc<Self>, wanted: Wanted, places: Vec<Arc<AtServer>>) -> Result<Arc<Spooled>> {
        let fetch = self.clone().begin(wanted, places);
        fetch.await.map_err(|(kind, why)| Error::new(kind, why))
    }

    /// A fetch that other readers may share. It continues when the first reader goes away.
    fn begin(self: Arc<Self>, wanted: Wanted, places: Vec<Arc<AtServer>>) -> Fetch {
        let key = (wanted.account, wanted.object);
        let mut state = self.state();
        if let Some(kept) = state.kept.find(&key) {
            return futures::future::ready(Ok(kept)).boxed().shared();
        }
        if let Some(fetch) = state.fetching.get(&key) {
            return fetch.clone();
        }
        let this = self.clone();
        let task = tokio::spawn(async move {
            let timeouts = TIMEOUT + Duration::from_secs(wanted.size / SLOWEST);
            let fetched = match timeout(timeouts, this.fetch(wanted, &places)).await {
                Ok(fetched) => fetched,
                Err(_) => Err(Error::retry("timeout: the server did not send the body of a message")),
            };
            this.arrived(key, fetched).await
        });
        let fetch = async move {
            task.await
                .unwrap_or_else(|e| Err((Kind::Internal, format!("fetching a body did not finish: {e}"))))
        };
        let fetch = fetch.boxed().shared();
        state.fetching.insert(key, fetch.clone());
        fetch
    }

    async fn arrived(&self, key: Key, fetched: Result<Spooled>) -> Result<Arc<Spooled>, Failed> {
        let (fetched, out) = {
            let mut state = self.state();
            state.fetching.remove(&key);
            match fetched {
                Ok(spooled) => {
                    let spooled = Arc::new(spooled);
                    let out = state.kept.keep(key, spooled.clone());
                    (Ok(spooled), out)
                }
                Err(e) => (Err((e.kind(), e.to_string())), Vec::new()),
            }
        };
        spooled::remove(out).await;
        fetched
    }

    async fn fetch(&self, wanted: Wanted, places: &[Arc<AtServer>]) -> Result<Spooled> {
        let Some(line) = self.lines.get(&wanted.account) else {
            let why = match self.closed.get(&wanted.account) {
                Some(why) => format!("the body is evicted, and its server cannot be reached: {why}"),
                None => {
                    "the body is evicted, and its server is unknown: run `archive pull --body-limit` once \
                         more"
                        .to_owned()
                }
            };
            return Err(Error::offloaded(why));
        };
        let gone = "the body is evicted, and the server no longer has the message";
        let spool = Spool { store: &self.store, budget: &self.budget, random: &*self.random };
        let mut error = None;
        for place in places.iter().filter(|place| !place.gone) {
            let fetched = line.fetch(place, wanted, spool).await;
            line.close_when_idle(self.idle);
            match fetched {
                Err(e) if e.kind() == Kind::Offloaded => error = Some(e),
                fetched => return fetched,
            }
        }
        Err(error.unwrap_or_else(|| Error::offloaded(gone)))
    }

    fn state(&self) -> MutexGuard<'_, RefetchState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// For readers of an account that know no folders: looks up where the message is.
pub struct Anywhere(pub Arc<Refetch>);

impl BodyFetcher for Anywhere {
    fn body(&self, account: Arc<Account>, wanted: Wanted) -> BoxFuture<'static, Result<Arc<Spooled>>> {
        let refetch = self.0.clone();
        async move {
            let find = move || at_server(&account.state(), wanted.object);
            let places = tokio::task::spawn_blocking(find).await;
            let places =
                places.map_err(|e| Error::internal("looking for a message panicked").with_source(e))?;
            refetch.body(wanted, places.into_iter().map(Arc::new).collect()).await
        }
        .boxed()
    }
}

/// For the reader of a message in a folder.
struct Located {
    refetch: Arc<Refetch>,
    account: AccountId,
    there: Arc<AtServer>,
}

impl message::EvictedBodies for Located {
    fn body(&self, wanted: Wanted) -> BoxFuture<'static, Result<Arc<dyn EvictedBody>>> {
        let (refetch, places) = (self.refetch.clone(), vec![self.there.clone()]);
        debug_assert_eq!(wanted.account, self.account);
        async move { Ok(refetch.body(wanted, places).await? as Arc<dyn EvictedBody>) }.boxed()
    }
}
