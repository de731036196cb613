//! [`Batch`]: objects that come one after the other and become durable together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::stream::{self, StreamExt, TryStreamExt};
use sealpost_base::Result;

use super::{Put, Store, error, location};
use crate::Sealed;
use crate::local::Shared;

/// Objects that are sent at once to a store that takes them one by one.
const PUTS_AT_ONCE: usize = 16;

/// Objects that are durable when [`Batch::finish`] returns, and not before. The local backend puts
/// the larger ones into one file and has one transaction for all; others take them one by one as
/// they come.
///
/// Dropped before its end, it leaves nothing on the local backend, and elsewhere what was sent.
pub struct Batch {
    store: Store,
    local: Option<Arc<Shared>>,
    objects: AtomicU64,
    bytes: AtomicU64,
}

impl Store {
    /// Begins a batch.
    pub fn batch(&self) -> Batch {
        // What is kept in a cache is put there one by one.
        let local = self.0.local.as_ref().filter(|_| self.is_local());
        Batch {
            store: self.clone(),
            local: local.map(|local| local.together()),
            objects: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    /// Whether a [`Batch`] is durable all at once, with one request for everything.
    pub(crate) fn is_local(&self) -> bool {
        self.0.local.is_some() && self.0.cache.is_none()
    }
}

impl Batch {
    /// Takes objects to be created. Several callers may use it at once. `Exists`: some existed
    /// already and are unchanged; the local backend reports it at the end.
    ///
    /// # Errors
    /// `Retry` if the store failed; the batch is of no more use then.
    pub async fn add(&self, objects: Vec<(String, Sealed)>) -> Result<Put> {
        if let (Some(local), Some(together)) = (&self.store.0.local, &self.local) {
            let bytes: usize = objects.iter().map(|(_, object)| object.len()).sum();
            self.objects.fetch_add(objects.len() as u64, Ordering::Relaxed);
            self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
            let objects = objects
                .into_iter()
                .map(|(path, object)| Ok((location(&path)?.to_string(), object.into_bytes())));
            let added = local.add(together, objects.collect::<Result<_>>()?).await;
            return added.map(|()| Put::Created).map_err(|e| error("several", e));
        }
        let store = &self.store;
        let puts = objects.into_iter();
        let puts: Vec<_> =
            puts.map(|(path, object)| async move { store.put_new(&path, object).await }).collect();
        let puts: Vec<Put> = stream::iter(puts).buffered(PUTS_AT_ONCE).try_collect().await?;
        Ok(if puts.contains(&Put::Exists) { Put::Exists } else { Put::Created })
    }

    /// Makes what was taken durable. `Exists`: some were there already and are unchanged; the
    /// others were created.
    ///
    /// # Errors
    /// `Retry` if the store failed; any of the objects may be there.
    pub async fn finish(self) -> Result<Put> {
        if let (Some(local), Some(together)) = (&self.store.0.local, self.local) {
            let put = self.store.timed(&self.store.0.metrics.writes, local.put_all(together)).await;
            let put = put.map_err(|e| error("several", e))?;
            self.store.0.puts.fetch_add(self.objects.into_inner(), Ordering::Relaxed);
            self.store.0.bytes.fetch_add(self.bytes.into_inner(), Ordering::Relaxed);
            return Ok(put);
        }
        Ok(Put::Created)
    }
}
