//! The admin socket: the state of the server, for `sealpost top` and other programs that may read
//! the data directory.
//!
//! A Unix socket in the data directory, mode 0600. Each line is one JSON object: a [`Request`], and
//! for each an [`Answer`]. A client may send any number of requests on a connection. It gets names
//! of accounts and addresses of clients, which operators may see, and never a secret or content of
//! a message. Requests change nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sealpost_base::Kind;
use sealpost_base::limits::ADMIN_REQUEST_BYTES;
use sealpost_files::owner::Owner;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::listener::Listener;
use crate::sending::Sending;
use sealpost_session::Context;
use sealpost_session::net::Stream;

mod protocol;
mod stats;

pub use protocol::{
    AccountStats, Answer, Ask, LoadedStats, LoginStats, MemoryStats, Order, ProcessStats, ProtocolStats,
    QueueStats, Request, SessionStats, Stats, StoreStats, VERSION,
};
pub use stats::stats;

/// The socket's name in the data directory.
pub const SOCKET: &str = "admin.sock";
/// How many servers on one directory have a socket each.
const SERVERS: usize = 8;
/// How long a client may be silent, or take to read an answer.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The paths where servers on the data directory `dir` listen, in the order in which they are taken.
pub fn sockets(dir: &Path) -> impl Iterator<Item = PathBuf> {
    let numbered = (2..=SERVERS).map(|n| format!("admin-{n}.sock"));
    std::iter::once(SOCKET.to_owned()).chain(numbered).map({
        let dir = dir.to_owned();
        move |name| dir.join(name)
    })
}

/// Listens on the first path that no other server uses. Mail is more important: if there is none,
/// the server runs without an admin socket.
pub(crate) fn listen(dir: &Path) -> Option<(Listener, PathBuf)> {
    let mut why = None;
    for path in sockets(dir) {
        match Listener::unix(&path, 0o600) {
            Ok(listener) => {
                // Root starts a server on another user's data now and then: that user may watch it, too.
                if let Err(error) = Owner::for_new(&path).and_then(|owner| owner.adopt_socket(&path)) {
                    tracing::warn!(%error, "the admin socket stays root's");
                }
                return Some((listener, path));
            }
            // Another server has it.
            Err(e) if e.kind() == Kind::Retry => why = Some(e),
            Err(e) => {
                why = Some(e);
                break;
            }
        }
    }
    if let Some(error) = why {
        tracing::warn!(%error, "no admin socket: `sealpost top` cannot monitor this server");
    }
    None
}

/// Answers requests until the client has left.
pub(crate) async fn serve(mut stream: Stream, ctx: Arc<Context>, sending: Option<Sending>) {
    let answered = tokio::select! {
        () = ctx.shutdown.wait() => return,
        answered = converse(&mut stream, &ctx, sending.as_ref()) => answered,
    };
    if let Err(e) = answered {
        tracing::debug!(error = %e, "a connection to the admin socket failed");
    }
}

async fn converse(stream: &mut Stream, ctx: &Arc<Context>, sending: Option<&Sending>) -> std::io::Result<()> {
    let mut input = Vec::new();
    loop {
        while let Some(end) = input.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = input.drain(..=end).collect();
            say(stream, &answer(ctx, sending, &line)).await?;
        }
        if input.len() > ADMIN_REQUEST_BYTES {
            return say(stream, &Answer::Error("the request is too long".to_owned())).await;
        }
        let mut piece = [0; ADMIN_REQUEST_BYTES];
        match tokio::time::timeout(TIMEOUT, stream.read(&mut piece)).await?? {
            0 => return Ok(()),
            bytes => input.extend_from_slice(&piece[..bytes]),
        }
    }
}

async fn say(stream: &mut Stream, answer: &Answer) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    tokio::time::timeout(TIMEOUT, stream.write_all(&line)).await?
}

fn answer(ctx: &Context, sending: Option<&Sending>, line: &[u8]) -> Answer {
    match serde_json::from_slice::<Request>(line) {
        Ok(request) if request.version != VERSION => {
            Answer::Error(format!("this server speaks version {VERSION}"))
        }
        Ok(request) => match request.ask {
            Ask::Stats => Answer::Stats(Box::new(stats(ctx, sending, &request))),
        },
        Err(e) => Answer::Error(format!("not a request: {e}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Protocol;

    #[tokio::test]
    async fn requests_are_answered_one_by_one_and_nonsense_is_named() {
        let ctx = Arc::new(crate::context_for_tests());
        let (ours, mut theirs) = Stream::pair().unwrap();
        let serving = tokio::spawn(serve(ours, ctx.clone(), None));
        let request = serde_json::to_string(&Request::stats(10, Order::Age, 10)).unwrap();
        theirs
            .write_all(format!("{request}\nwhat?\n{{\"version\":9,\"ask\":\"stats\"}}\n").as_bytes())
            .await
            .unwrap();
        let mut lines = Vec::new();
        while lines.iter().filter(|byte| **byte == b'\n').count() < 3 {
            let mut piece = [0; 1024];
            let bytes = theirs.read(&mut piece).await.unwrap();
            lines.extend_from_slice(&piece[..bytes]);
        }
        let answers: Vec<Answer> = String::from_utf8(lines)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let Answer::Stats(stats) = &answers[0] else { panic!("{answers:?}") };
        let protocols = Protocol::ALL.len();
        assert_eq!((stats.version, stats.pid, stats.protocols.len()), (1, std::process::id(), protocols));
        assert!(matches!(&answers[1], Answer::Error(why) if why.contains("not a request")), "{answers:?}");
        assert_eq!(answers[2], Answer::Error("this server speaks version 1".to_owned()));
        drop(theirs);
        serving.await.unwrap();
    }

    #[tokio::test]
    async fn a_request_without_end_is_refused() {
        let ctx = Arc::new(crate::context_for_tests());
        let (ours, mut theirs) = Stream::pair().unwrap();
        tokio::spawn(serve(ours, ctx, None));
        theirs.write_all(&[b' '; ADMIN_REQUEST_BYTES + 1]).await.unwrap();
        let mut said = Vec::new();
        theirs.read_to_end(&mut said).await.unwrap();
        assert_eq!(said, b"{\"error\":\"the request is too long\"}\n");
    }
}
