//! Destinations and connections of which attempts are counted, and in which a panic costs one attempt.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt;
use sealpost_base::metrics::Counter;
use sealpost_delivery::envelope::{Envelope, MessageSource, TlsDemand};
use sealpost_delivery::outcome::{Attempt, Failure, Outcome, Reason, TlsMode};
use sealpost_delivery::reports::{TlsReports, TlsSession};
use sealpost_delivery::transport::{Connection, Destination, SiteKey};
use sealpost_session::Context;

/// What deliveries count, besides what the queue does.
#[derive(Default)]
pub struct SendingMetrics {
    /// Mails that other servers took, in the order of [`SendingMetrics::MODES`].
    tls: [Counter; Self::MODES.len()],
    /// TLS sessions that policy or the server wanted and that failed.
    pub tls_failures: Counter,
    /// Mails that were delivered into accounts.
    pub local: Counter,
}

impl SendingMetrics {
    /// How a connection is secured.
    const MODES: [TlsMode; 5] =
        [TlsMode::None, TlsMode::Opportunistic, TlsMode::MtaSts, TlsMode::Dane, TlsMode::Required];

    /// Mails that other servers took, by how the connection was secured.
    pub fn tls(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Self::MODES.iter().zip(&self.tls).map(|(mode, counter)| (mode.name(), counter.read()))
    }

    fn count(&self, attempt: &Attempt) {
        if !attempt.recipients.iter().any(|outcome| matches!(outcome, Outcome::Delivered(_))) {
            return;
        }
        if attempt.server.is_none() {
            return self.local.increment();
        }
        if let Some(at) = Self::MODES.iter().position(|mode| *mode == attempt.tls.mode) {
            self.tls[at].increment();
        }
    }
}

impl TlsReports for SendingMetrics {
    fn record(&self, session: TlsSession) {
        if let Err(problem) = session.result {
            self.tls_failures.increment();
            let host = session.host.as_ref().map(ToString::to_string).unwrap_or_default();
            tracing::info!(domain = %session.domain, host, problem = problem.name(), "a TLS session failed");
        }
    }
}

/// A destination, or perhaps a connection, that is watched.
pub(super) struct Watched<T> {
    inner: T,
    ctx: Arc<Context>,
    metrics: Arc<SendingMetrics>,
}

impl<T> Watched<T> {
    pub(super) fn new(inner: T, ctx: Arc<Context>, metrics: Arc<SendingMetrics>) -> Self {
        Watched { inner, ctx, metrics }
    }

    fn panicked(&self) -> Failure {
        self.ctx.metrics.panics.increment();
        tracing::error!("a delivery ended because of a bug in Sealpost; the mail is tried again");
        Failure::new(Reason::LocalFailure, "")
    }
}

#[async_trait]
impl Destination for Watched<Box<dyn Destination>> {
    fn site(&self) -> &SiteKey {
        self.inner.site()
    }

    async fn connect(&self, demand: TlsDemand) -> Result<Box<dyn Connection>, Failure> {
        let connected = AssertUnwindSafe(self.inner.connect(demand)).catch_unwind().await;
        let connection = connected.unwrap_or_else(|_| Err(self.panicked()))?;
        Ok(Box::new(Watched::new(Some(connection), self.ctx.clone(), self.metrics.clone())))
    }
}

#[async_trait]
impl Connection for Watched<Option<Box<dyn Connection>>> {
    async fn send(&mut self, envelope: &Envelope, message: &dyn MessageSource) -> Attempt {
        // After a panic the connection is gone, whatever state it is in.
        let recipients = envelope.recipients.len();
        let Some(mut inner) = self.inner.take() else {
            return Attempt::failed(recipients, &Failure::new(Reason::LocalFailure, ""));
        };
        match AssertUnwindSafe(inner.send(envelope, message)).catch_unwind().await {
            Ok(attempt) => {
                self.metrics.count(&attempt);
                self.inner = Some(inner);
                attempt
            }
            Err(_) => Attempt::failed(recipients, &self.panicked()),
        }
    }

    fn is_reusable(&self) -> bool {
        self.inner.as_ref().is_some_and(|inner| inner.is_reusable())
    }

    async fn disturbed(&mut self) {
        match &mut self.inner {
            Some(inner) => inner.disturbed().await,
            None => std::future::pending().await,
        }
    }

    async fn quit(self: Box<Self>) {
        if let Some(inner) = self.inner {
            inner.quit().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use sealpost_delivery::envelope::{MessageFacts, MessageInMemory, Recipient};
    use sealpost_smtp::types::{Host, LocalPart, Mailbox, ReversePath};

    use super::*;

    struct Panicking(SiteKey);

    #[async_trait]
    impl Destination for Panicking {
        fn site(&self) -> &SiteKey {
            &self.0
        }

        async fn connect(&self, demand: TlsDemand) -> Result<Box<dyn Connection>, Failure> {
            match demand {
                TlsDemand::Require => std::panic::resume_unwind(Box::new("a mistake")),
                _ => Ok(Box::new(Panicking(self.0.clone()))),
            }
        }
    }

    #[async_trait]
    impl Connection for Panicking {
        async fn send(&mut self, _envelope: &Envelope, _message: &dyn MessageSource) -> Attempt {
            std::panic::resume_unwind(Box::new("a mistake"))
        }

        fn is_reusable(&self) -> bool {
            true
        }

        async fn quit(self: Box<Self>) {}
    }

    #[tokio::test]
    async fn a_panic_delays_one_mail_and_ends_its_connection() {
        let ctx = Arc::new(crate::context_for_tests());
        let destination: Box<dyn Destination> = Box::new(Panicking(SiteKey::new("mx.example")));
        let watched = Watched::new(destination, ctx.clone(), Arc::default());
        assert!(watched.connect(TlsDemand::Require).await.is_err_and(|failure| !failure.permanent));
        let mut connection = watched.connect(TlsDemand::Policy).await.unwrap();
        let to = Mailbox { local: LocalPart::new("a").unwrap(), host: Host::domain("b.example").unwrap() };
        let envelope = Envelope {
            sender: ReversePath::Null,
            recipients: vec![Recipient::new(to)],
            ret: None,
            envid: None,
            facts: MessageFacts::default(),
            tls: TlsDemand::Policy,
            report_on: None,
        };
        for _ in 0..2 {
            let attempt = connection.send(&envelope, &MessageInMemory(Bytes::new())).await;
            assert!(matches!(&attempt.recipients[..], [Outcome::Deferred(_)]), "{attempt:?}");
            assert!(!connection.is_reusable());
        }
        connection.quit().await;
        assert_eq!(ctx.metrics.panics.read(), 2);
    }
}
