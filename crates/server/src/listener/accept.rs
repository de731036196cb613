//! The accept loop of one listening socket: it owns the tasks of its sessions.
//!
//! A panic costs its own connection, not the loop and not the sessions. If the socket itself can
//! accept no more connections the loop reports it and ends, and the process with it
//! ([`sealpost_session::health`]): a restart is better than a server that runs and accepts nothing.

use std::io;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use rustix::io::Errno;
use rustls::ServerConfig;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, timeout_at};

use sealpost_base::limits;

use super::proxy::{self, Said};
use super::{Accepted, Listener, Service};
use sealpost_session::Context;
use sealpost_session::admission::{Admission, NoMemory};
use sealpost_session::health::Heartbeat;
use sealpost_session::net::Stream;

/// Pauses after an accept that failed for want of something (file descriptors, memory), or a panic:
/// nothing gets better by trying at once, and the connections wait in the backlog.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// One listening socket, and its sessions.
pub(crate) struct AcceptLoop {
    listener: Listener,
    service: Service,
    ctx: Arc<Context>,
    admission: Admission,
    heartbeat: Heartbeat,
    sessions: JoinSet<()>,
    /// Connections of balancers that have not said whose they are.
    unnamed: JoinSet<Option<Accepted>>,
    pause: Duration,
}

/// Why a loop accepts no more.
enum Ended {
    /// The server stops.
    Stopping,
    /// The socket is no listening socket any more.
    Lost(io::Error),
}

/// Accepts connections until the server stops, then waits for the sessions that they became.
pub(crate) async fn run(listener: Listener, service: Service, ctx: Arc<Context>, admission: Admission) {
    let heartbeat = ctx.health.heartbeat(service.protocol);
    let (sessions, unnamed, pause) = (JoinSet::new(), JoinSet::new(), FIRST_PAUSE);
    AcceptLoop { listener, service, ctx, admission, heartbeat, sessions, unnamed, pause }.run().await;
}

impl AcceptLoop {
    async fn run(mut self) {
        loop {
            match AssertUnwindSafe(self.accept_all()).catch_unwind().await {
                Ok(Ended::Stopping) => break,
                Ok(Ended::Lost(error)) => {
                    tracing::error!(protocol = self.service.protocol, %error, "a listening socket is lost");
                    self.heartbeat.lose();
                    break;
                }
                // Logged by the panic hook.
                Err(_) => {
                    self.ctx.metrics.panics.increment();
                    tracing::error!(
                        protocol = self.service.protocol,
                        "an accept loop continues after a bug in Sealpost"
                    );
                    self.rest().await;
                }
            }
        }
        let AcceptLoop { listener, service, ctx, unnamed, mut sessions, heartbeat, .. } = self;
        drop((listener, unnamed, heartbeat));
        while let Some(ended) = sessions.join_next().await {
            report(&service, &ctx, ended);
        }
    }

    async fn accept_all(&mut self) -> Ended {
        loop {
            tokio::select! {
                biased;
                () = self.ctx.shutdown.wait() => return Ended::Stopping,
                () = self.heartbeat.asked() => self.heartbeat.answer(),
                Some(ended) = self.sessions.join_next() => report(&self.service, &self.ctx, ended),
                Some(named) = self.unnamed.join_next() => if let Ok(Some(accepted)) = named {
                    self.begin(accepted);
                },
                accepted = self.listener.accept() => match accepted {
                    Ok(accepted) => {
                        self.pause = FIRST_PAUSE;
                        self.take(accepted);
                    }
                    // The client disconnected while it was in the backlog: its problem alone.
                    Err(e) if is_clients_own(&e) => {}
                    Err(e) if is_for_good(&e) => return Ended::Lost(e),
                    Err(e) => {
                        tracing::warn!(protocol = self.service.protocol, error = %e, "cannot accept connections");
                        self.rest().await;
                    }
                },
            }
        }
    }

    /// Waits a moment, longer each time in a row.
    async fn rest(&mut self) {
        let over = tokio::time::sleep(self.pause);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        tokio::pin!(over);
        loop {
            tokio::select! {
                () = self.ctx.shutdown.wait() => return,
                () = self.heartbeat.asked() => self.heartbeat.answer(),
                () = &mut over => return,
            }
        }
    }

    fn take(&mut self, accepted: Accepted) {
        match accepted {
            Accepted::Tcp(socket, peer) if self.ctx.settings.is_trusted_proxy(peer.ip()) => {
                self.ask(socket, peer)
            }
            accepted => self.begin(accepted),
        }
    }

    /// Finds out for whom a balancer makes a connection. Until that is known it counts in the total alone.
    fn ask(&mut self, mut socket: TcpStream, balancer: SocketAddr) {
        let protocol = self.service.protocol;
        let Some(place) = self.admission.admit(None) else {
            self.ctx.metrics.refused(protocol);
            return refuse(Accepted::Tcp(socket, balancer), &self.service);
        };
        self.unnamed.spawn(async move {
            let leave = place.leave();
            let said = tokio::select! {
                said = proxy::read(&mut socket) => said,
                // Another connection replaces it.
                () = leave.notified() => return None,
            };
            match said {
                Ok(Said::Clients { from, to }) => Some(Accepted::Balanced { socket, from, to }),
                Ok(Said::Balancers) => Some(Accepted::Tcp(socket, balancer)),
                Err(e) if e.kind() == io::ErrorKind::InvalidData => {
                    tracing::warn!(protocol, %balancer, "a trusted proxy sent no PROXY header");
                    None
                }
                // A health check of the socket.
                Err(e) => {
                    tracing::debug!(protocol, %balancer, error = %e, "a trusted proxy closed the connection \
                        before its PROXY header");
                    None
                }
            }
        });
    }

    fn begin(&mut self, accepted: Accepted) {
        let protocol = self.service.protocol;
        let peer = match &accepted {
            Accepted::Tcp(_, peer) | Accepted::Balanced { from: peer, .. } => Some(peer.ip()),
            Accepted::Unix(_) => None,
        };
        let Some(admitted) = self.admission.admit(peer) else {
            tracing::debug!(protocol, ?peer, "too many connections");
            self.ctx.metrics.refused(protocol);
            return refuse(accepted, &self.service);
        };
        let stream = match accepted {
            Accepted::Tcp(socket, _) => Stream::from_tcp(socket),
            Accepted::Balanced { socket, from, to } => {
                Stream::from_tcp(socket).map(|stream| stream.made_for(from, to))
            }
            Accepted::Unix(socket) => Ok(Stream::from_unix(socket)),
        };
        match stream {
            Ok(stream) => {
                self.ctx.metrics.accepted(protocol);
                let leave = admitted.leave();
                let session = session(stream.admitted(admitted), self.service.clone(), Arc::clone(&self.ctx));
                self.sessions.spawn(stay(session, leave));
            }
            // Gone before it was greeted.
            Err(e) => tracing::debug!(protocol, error = %e, "a connection ended at once"),
        }
    }
}

fn is_clients_own(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, WouldBlock};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted | WouldBlock)
}

/// The socket does not listen any more, and never will (`accept(2)`).
fn is_for_good(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::BADF | Errno::INVAL | Errno::NOTSOCK))
}

/// Sends the temporary error if that takes no waiting. With implicit TLS it would take a handshake:
/// the client sees the connection close, which means the same.
fn refuse(accepted: Accepted, service: &Service) {
    if service.tls.is_some() {
        return;
    }
    // The buffer of a fresh connection holds one line; if not, closing it suffices.
    let _ = match accepted {
        Accepted::Tcp(socket, _) | Accepted::Balanced { socket, .. } => {
            socket.into_std().and_then(|mut socket| io::Write::write(&mut socket, service.refusal.as_bytes()))
        }
        Accepted::Unix(socket) => {
            socket.into_std().and_then(|mut socket| io::Write::write(&mut socket, service.refusal.as_bytes()))
        }
    };
}

/// The task of a connection. Idle connections hold it, so its parts are boxed, and take only the
/// memory that they need.
pub(super) async fn stay(session: BoxFuture<'static, ()>, leave: Arc<Notify>) {
    tokio::select! {
        () = session => {}
        // Another connection replaces it. It has no mail in progress, so the server does not wait
        // for it.
        () = leave.notified() => {}
    }
}

pub(super) fn session(stream: Stream, service: Service, ctx: Arc<Context>) -> BoxFuture<'static, ()> {
    let Some(config) = service.tls.clone() else { return (service.serve)(stream, ctx) };
    // Boxed, so that nothing of the handshake is left in the session's task.
    let handshake = Box::pin(secured(stream, config, service, ctx));
    Box::pin(async move {
        let session = handshake.await;
        if let Some(session) = session {
            session.await;
        }
    })
}

/// The session after a TLS handshake; `None` if that failed.
pub(super) async fn secured(
    mut stream: Stream,
    config: Arc<ServerConfig>,
    service: Service,
    ctx: Arc<Context>,
) -> Option<BoxFuture<'static, ()>> {
    let peer = stream.peer_addr();
    let until = Instant::now() + ctx.settings.timeouts.tls_handshake;
    // Nothing is allocated for a handshake before the client's first byte.
    stream.rest(limits::SILENT_BYTES);
    let handshake = async {
        timeout_at(until, stream.stir_for_input()).await?.map_err(|NoMemory| io::ErrorKind::OutOfMemory)?;
        stream.start_tls(&config, until.saturating_duration_since(Instant::now())).await
    };
    let result = tokio::select! {
        // A client without TLS yet gets no message.
        () = ctx.shutdown.wait() => return None,
        result = handshake => result,
    };
    match result {
        Ok(stream) => Some((service.serve)(stream, ctx)),
        Err(e) => {
            tracing::debug!(protocol = service.protocol, ?peer, error = %e, "no TLS");
            None
        }
    }
}

fn report(service: &Service, ctx: &Context, ended: Result<(), JoinError>) {
    if let Err(e) = ended
        && e.is_panic()
    {
        ctx.metrics.panics.increment();
        tracing::error!(protocol = service.protocol, "a session ended by a bug in Sealpost");
    }
}
