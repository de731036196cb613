//! Objects that a bucket lists and never gives out.
//!
//! An attacker with write access to a bucket can plant an object that no other key may read, or
//! that is encrypted with a key of its own: its GET is refused for ever, with 403 or 400. A node
//! that took that for a failure of the store would retry for ever, and entries beside the object
//! would wait. So such an object counts as damaged; but only if the bucket returns another one at
//! the same time: access revoked from the node says nothing about any object.

use std::time::Duration;

use futures::TryStreamExt;
use object_store::path::Path;
use sealpost_base::{Error, Result};

use super::{MODE_MARKERS, Store, error, location};
use crate::remote::Refusal;

/// How often an object is listed and not there until it is withheld.
const ABSENCES: usize = 8;
/// The pause before the next request: some stores list an object a moment before they return it.
const ABSENT_PAUSE: Duration = Duration::from_millis(25);
/// Replies that withhold this object permanently, however often it is requested.
const LASTING: [&str; 4] = ["400", "403", "410", "451"];

impl Store {
    /// Whether the bucket gives out what is in every bucket: the marks of its append mode. False of
    /// other stores, where nothing is withheld.
    pub async fn serves_reads(&self) -> bool {
        if self.0.remote.is_none() {
            return false;
        }
        let Ok(plain) = location(&self.append_mode().mark()) else { return false };
        match self.probe_read(&plain).await {
            // It was removed meanwhile; there are others.
            Err(object_store::Error::NotFound { .. }) => {}
            answer => return answer.is_ok(),
        }
        let Ok(Some(mark)) = self.list(MODE_MARKERS, None).try_next().await else { return false };
        let Ok(mark) = location(&mark.path) else { return false };
        self.probe_read(&mark).await.is_ok()
    }

    /// Whether the bucket keeps listing an object and replying that it is absent, while it returns
    /// others.
    ///
    /// # Errors
    /// What the store says of the listing.
    pub async fn withholds(&self, path: &str) -> Result<bool> {
        if !self.serves_reads().await {
            return Ok(false);
        }
        let at = location(path)?;
        for _ in 0..ABSENCES {
            tokio::time::sleep(ABSENT_PAUSE).await;
            if self.probe_read(&at).await.is_ok() || !self.is_listed(path).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What an object is whose GET failed so: damaged if it alone is refused, again and again.
    pub(super) async fn failed_read(&self, path: &str, at: &Path, e: object_store::Error) -> Error {
        let failed = error(path, e);
        if !is_lasting(&failed) || !self.serves_reads().await {
            return failed;
        }
        // The bucket replies: the object is requested once more.
        let again = self.probe_read(at).await.map_err(|e| error(path, e));
        match again.is_err_and(|e| is_lasting(&e)) {
            true => {
                Error::corrupt(format!("{path}: the bucket gives out other objects, and refuses this one"))
                    .with_source(failed)
            }
            false => failed,
        }
    }

    async fn probe_read(&self, at: &Path) -> object_store::Result<()> {
        self.0.objects.get_opts(at, object_store::GetOptions::default()).await.map(drop)
    }
}

/// Whether a reply would be the same later, because it is about the object and not about the
/// requester.
fn is_lasting(e: &Error) -> bool {
    let status = match Refusal::of(e) {
        Some(Refusal::NotAllowed) => return true,
        Some(Refusal::NoStore(status) | Refusal::Other(status)) => status,
        _ => return false,
    };
    LASTING.iter().any(|lasting| status.starts_with(lasting))
        || !status.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use sealpost_base::{Kind, SeededRandom};
    use sealpost_testkit::fake_s3::{ConditionalPut, FakeS3, Fault};

    use crate::remote::RetryPolicy;
    use crate::remote::fake::s3;
    use crate::{Sealed, Store};

    const RETRY_POLICY: RetryPolicy =
        RetryPolicy { requests: 8, timeout: Duration::from_millis(500), pause: Duration::from_millis(1) };

    #[tokio::test]
    async fn an_object_that_alone_is_refused_is_damaged() {
        let server = FakeS3::start(ConditionalPut::Keeps, 1000).await;
        let store = Store::s3(&s3(&server, "p"), RETRY_POLICY, Arc::new(SeededRandom::new(1))).await.unwrap();
        let (store, _) = store.pin_append_mode(None).await.unwrap();
        let (planted, other) = ("acct/1/log/0000000000000002", "acct/1/log/0000000000000001");
        for path in [planted, other] {
            store.put_new(path, Sealed::marker()).await.unwrap();
        }
        for status in [400, 403] {
            server.plan(move |request| match request.method == "GET" && request.key.contains(planted) {
                true => Fault::Refused(status),
                false => Fault::None,
            });
            for read in [store.read(planted).await, store.read_confirmed(planted).await] {
                assert_eq!(read.unwrap_err().kind(), Kind::Corrupt, "{status}");
            }
            store.read(other).await.unwrap();
        }
        // What passes, or concerns all objects, says nothing about one.
        for status in [500, 503] {
            server.plan(move |request| match request.method == "GET" && request.key.contains(planted) {
                true => Fault::Refused(status),
                false => Fault::None,
            });
            assert_eq!(store.read(planted).await.unwrap_err().kind(), Kind::Retry, "{status}");
        }
        server.plan(|request| match request.method == "GET" && !request.key.is_empty() {
            true => Fault::Refused(403),
            false => Fault::None,
        });
        assert_eq!(store.read(planted).await.unwrap_err().kind(), Kind::Retry);
        assert!(!store.serves_reads().await);
        server.plan(|_| Fault::None);
        assert!(store.serves_reads().await && store.read(planted).await.is_ok());
        assert!(!Store::memory().serves_reads().await);
    }
}
