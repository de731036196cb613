//! One request after the other until one succeeds: bounded in number, in time, and in how many are under way.

use std::sync::Arc;
use std::time::Duration;

use object_store::{Error, Result};
use sealpost_base::Random;
use sealpost_base::limits::STORE_REQUESTS;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};

use crate::StoreMetrics;
use crate::store::too_large_in;

/// How often a request is made, the first time included.
const ATTEMPTS: u32 = 5;
/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The message for a reply that did not arrive in time.
pub(super) const TOO_LATE: &str = "took longer than";

/// How long to wait for a remote store, and for how many of its answers at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Requests under way at a time; one more waits.
    pub requests: usize,
    /// For one request, its whole answer included. After twice as long no further attempt is made.
    pub timeout: Duration,
    /// About how long after the first failure to try again; twice that after each further one.
    pub pause: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        let (timeout, pause) = (Duration::from_secs(30), Duration::from_millis(100));
        RetryPolicy { requests: STORE_REQUESTS, timeout, pause }
    }
}

/// Makes requests.
pub(super) struct Retrier {
    retry_policy: RetryPolicy,
    under_way: Semaphore,
    random: Arc<dyn Random>,
    metrics: Arc<StoreMetrics>,
}

impl Retrier {
    pub fn new(retry_policy: RetryPolicy, random: Arc<dyn Random>, metrics: Arc<StoreMetrics>) -> Self {
        let under_way = Semaphore::new(retry_policy.requests.clamp(1, Semaphore::MAX_PERMITS));
        Retrier { retry_policy, under_way, random, metrics }
    }

    /// The first result of `call` (its argument is the number of the attempt, from 1) that a
    /// repetition would not change; its last failure if there is none.
    pub async fn run<T, F: Future<Output = Result<T>>>(
        &self,
        what: &'static str,
        mut call: impl FnMut(u32) -> F,
    ) -> Result<T> {
        let began = Instant::now();
        let mut attempt = 1;
        loop {
            let turn = self.under_way.acquire().await.map_err(|e| generic(e.to_string()))?;
            self.metrics.requests.increment();
            let answer = timeout(self.retry_policy.timeout, call(attempt)).await;
            drop(turn);
            let failure = match answer {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(e)) if !may_pass(&e) => return Err(e),
                Ok(Err(e)) => e,
                Err(_) => generic(format!("{what} {TOO_LATE} {:?}", self.retry_policy.timeout)),
            };
            if attempt == ATTEMPTS || began.elapsed() >= self.retry_policy.timeout * 2 {
                return Err(failure);
            }
            self.metrics.retries.increment();
            tracing::debug!(what, attempt, error = %failure, "the store failed; trying again");
            sleep(self.pause(attempt)).await;
            attempt += 1;
        }
    }

    /// Between half of the due pause and all of it: many that failed together do not retry
    /// together.
    fn pause(&self, attempt: u32) -> Duration {
        let due = self.retry_policy.pause.saturating_mul(1 << (attempt - 1)).min(LONGEST_PAUSE);
        let half = due / 2;
        half + Duration::from_micros(self.random.next_u64() % (half.as_micros() as u64 + 1))
    }
}

/// Whether the same request may have another answer later.
fn may_pass(e: &Error) -> bool {
    matches!(e, Error::Generic { .. } | Error::JoinError { .. }) && too_large_in(e).is_none()
}

/// Whether this is S3's "409 Conflict": another request writes that path, and it is open whether
/// the object will exist. The crate calls it `AlreadyExists`, as it does the 412 of an existing
/// object, which it first wraps into an error of its own; the type of the other wrapped errors is
/// not public.
pub(super) fn conflicts(e: &Error) -> bool {
    let Error::AlreadyExists { source, .. } = e else { return false };
    !source.is::<Error>() && source.to_string().contains("409 Conflict")
}

fn generic(why: String) -> Error {
    Error::Generic { store: "remote", source: why.into() }
}
