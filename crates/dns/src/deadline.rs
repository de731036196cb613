//! [`DeadlineResolver`]: a bound on the time of many lookups together, for work whose user waits.
//! Each lookup alone is bounded by [`crate::cache::CachingResolver`].

use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{Instant, timeout_at};

use crate::answer::{Answer, LookupError, RecordType};
use crate::name::DnsName;
use crate::resolver::Resolver;

/// A resolver of which every lookup is over by a deadline. After it, lookups fail at once.
pub struct DeadlineResolver<'a> {
    inner: &'a dyn Resolver,
    deadline: Instant,
}

impl<'a> DeadlineResolver<'a> {
    /// Asks `inner` for `time` from now.
    pub fn new(inner: &'a dyn Resolver, time: Duration) -> Self {
        DeadlineResolver { inner, deadline: Instant::now() + time }
    }
}

#[async_trait]
impl Resolver for DeadlineResolver<'_> {
    /// # Errors
    /// As of the resolver below; `TimedOut` at the deadline.
    async fn lookup(&self, name: &DnsName, kind: RecordType) -> Result<Answer, LookupError> {
        let found = timeout_at(self.deadline, self.inner.lookup(name, kind)).await;
        found.unwrap_or(Err(LookupError::TimedOut))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{Script, ScriptedResolver};

    #[tokio::test(start_paused = true)]
    async fn lookups_together_end_at_the_deadline() {
        let (scripted, silent) = (ScriptedResolver::new(), DnsName::new("silent.example").unwrap());
        scripted.script(silent.as_str(), Script::Stall);
        let time = Duration::from_secs(20);
        let (begun, resolver) = (Instant::now(), DeadlineResolver::new(&scripted, time));
        for _ in 0..50 {
            assert_eq!(resolver.lookup(&silent, RecordType::A).await, Err(LookupError::TimedOut));
        }
        assert_eq!(begun.elapsed(), time);
    }
}
