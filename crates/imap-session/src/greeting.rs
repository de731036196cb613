//! Greets a client and waits for its first bytes. The session is made when they arrive, so that a connection
//! whose client says nothing takes [`limits::SILENT_BYTES`] and not what a session takes.
//!
//! Most connections of an attack, and all of a thundering herd that has not logged in yet, are in this state.
//! Nothing of the client is read here: the session begins with the first byte.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use futures::future::BoxFuture;
use sealpost_auth::fair_scheduler::{self, QueueHandle};
use sealpost_base::limits;
use sealpost_imap::types::{Code, Status};
use sealpost_imap::write::Writer;
use sealpost_session::Context;
use sealpost_session::admission::NoMemory;
use sealpost_session::metrics::Protocol;
use sealpost_session::net::Stream;
use sealpost_session::session_log::SessionLog;
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, timeout, timeout_at};

use super::capability::{self, Stage};
use super::connection::End;
use super::session::Session;
use super::shared::ImapShared;

/// How long a client may take for a goodbye.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(2);

/// A client that was greeted and has sent its first bytes, which were not read.
pub(super) struct Greeted {
    pub(super) stream: Stream,
    pub(super) log: SessionLog,
    /// When it was greeted.
    pub(super) at: Instant,
}

/// Greets the client and waits for its first bytes. Returns the session that serves it, or `None` if the
/// connection has ended.
pub(super) async fn greet(mut stream: Stream, shared: Arc<ImapShared>) -> Option<BoxFuture<'static, ()>> {
    let log = SessionLog::begin(Protocol::Imap, &mut stream, &shared.ctx);
    let at = Instant::now();
    match first_bytes(&mut stream, &shared.ctx, at).await {
        Ok(()) => Some(session(Greeted { stream, log, at }, shared)),
        Err(end) => {
            Box::pin(close(stream, log, end)).await;
            None
        }
    }
}

fn session(greeted: Greeted, shared: Arc<ImapShared>) -> BoxFuture<'static, ()> {
    let queue = QueueHandle::default();
    let session = Box::new(Session::new(greeted, shared, queue.clone()));
    Box::pin(async move { fair_scheduler::run(&queue, pin!(session.run())).await })
}

async fn first_bytes(stream: &mut Stream, ctx: &Context, at: Instant) -> Result<(), End> {
    let greeting = {
        let mut out = Writer::new();
        let text = format!("{} IMAP server ready", ctx.settings.hostname);
        let code = capability::code(Stage::anonymous(ctx, stream));
        out.status(None, Status::Ok, Some(&code), &text);
        out.take()
    };
    timeout(ctx.settings.timeouts.write, send(stream, greeting)).await.map_err(|_| End::Timeout)??;
    stream.rest(limits::SILENT_BYTES);
    let deadline = at + ctx.settings.timeouts.imap_anonymous;
    tokio::select! {
        biased;
        () = ctx.shutdown.wait() => Err(End::Shutdown),
        first = timeout_at(deadline, stream.stir_for_input()) => {
            first.map_err(|_| End::Timeout)?.map_err(|NoMemory| End::NoMemory)
        }
    }
}

/// The buffer is freed with this call, before a wait that may be long.
async fn send(stream: &mut Stream, bytes: BytesMut) -> Result<(), End> {
    stream.write_all(&bytes).await?;
    Ok(stream.flush().await?)
}

async fn close(mut stream: Stream, mut log: SessionLog, end: End) {
    if let End::Io(error) = &end {
        tracing::debug!(%error, "a connection failed");
    }
    log.end(end.reason());
    if let Some(text) = end.goodbye() {
        let mut out = Writer::new();
        let code = matches!(end, End::NoMemory).then_some(Code::Unavailable);
        out.status(None, Status::Bye, code.as_ref(), text);
        // A client that does not take its BYE does not get it.
        let _ = timeout(GOODBYE_TIMEOUT, send(&mut stream, out.take())).await;
    }
    log.observe(&stream);
    stream.close().await;
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    /// A silent connection must fit into its charge with its entries in the tables of sessions and admission,
    /// and the runtime's; a session into that of one at rest.
    #[tokio::test]
    async fn a_silent_connection_takes_less_than_a_session() {
        let stream = || Stream::pair().unwrap().0;
        let shared = Arc::new(crate::shared::for_tests());
        let greeting = size_of_val(&greet(stream(), shared.clone()));
        assert!(greeting <= limits::SILENT_BYTES / 2, "{greeting} bytes");
        let mut stream = stream();
        let log = SessionLog::begin(Protocol::Imap, &mut stream, &shared.ctx);
        let greeted = Greeted { stream, log, at: Instant::now() };
        let session = Box::new(Session::new(greeted, shared, QueueHandle::default()));
        let (held, future) = (size_of_val(&*session), size_of_val(&session.run()));
        assert!(held + future <= limits::RESTING_BYTES * 3 / 4, "{held} and {future} bytes");
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_client_is_disconnected_with_a_reason() {
        let (mut client, server) = Stream::pair().unwrap();
        let shared = Arc::new(crate::shared::for_tests());
        let ended = tokio::spawn(crate::serve(server, shared.clone()));
        let mut said = String::new();
        client.read_to_string(&mut said).await.unwrap();
        assert!(said.starts_with("* OK [CAPABILITY "), "{said}");
        assert!(said.ends_with("\r\n* BYE idle for too long\r\n"), "{said}");
        drop(client);
        ended.await.unwrap();
        assert_eq!(shared.ctx.sessions.count(Protocol::Imap).all, 0);
    }
}
