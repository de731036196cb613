//! Accept loops: a connection becomes a session, or is turned away before it costs anything.
//!
//! One task per listening socket owns the tasks of its sessions. When the server stops it closes the socket first,
//! so that nobody new comes in, and then waits for its sessions; dropping it cuts them off.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use sealpost_base::{Error, Result};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::context::Context;
use crate::net::Stream;

pub(crate) mod admission;
pub(crate) mod proxy;

#[cfg(test)]
mod tests;

use admission::Admission;
use proxy::Said;

/// Connections that the kernel may hold for us between two accepts.
const BACKLOG: u32 = 1024;

/// Pauses after an accept that failed for want of something (file descriptors, memory): nothing gets better by
/// trying at once, and the connections wait in the backlog.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Serves one connection until it ends.
pub(crate) type Serve = fn(Stream, Arc<Context>) -> BoxFuture<'static, ()>;

/// What is behind a listening socket.
#[derive(Clone)]
pub(crate) struct Service {
    /// For the log.
    pub(crate) protocol: &'static str,
    /// Whether TLS is spoken from the first byte.
    pub(crate) tls: bool,
    /// The protocol's way of saying "come back later", sent in the place of a greeting.
    pub(crate) refusal: Arc<str>,
    /// The session.
    pub(crate) serve: Serve,
}

/// A socket that listens.
pub(crate) enum Listener {
    /// On a TCP address.
    Tcp(TcpListener),
    /// On a path, which is removed with it.
    Unix { listener: UnixListener, _file: SocketFile },
}

/// A connection as it was accepted.
enum Accepted {
    Tcp(TcpStream, SocketAddr),
    /// A balancer made it for a client.
    Balanced {
        socket: TcpStream,
        from: SocketAddr,
        to: SocketAddr,
    },
    Unix(UnixStream),
}

impl Listener {
    /// Listens on a TCP address; `[::]` takes IPv4 too where the system does so.
    ///
    /// # Errors
    /// `Retry` if it cannot, `Invalid` if this user never may; the message names the address.
    pub(crate) fn tcp(address: SocketAddr) -> Result<Self> {
        let listen = || {
            let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
            // A restart must not wait for the connections of the server before.
            socket.set_reuseaddr(true)?;
            socket.bind(address)?;
            socket.listen(BACKLOG)
        };
        Ok(Listener::Tcp(listen().map_err(|e| cannot_listen(address, e))?))
    }

    /// Listens on a Unix socket at `path`, with that mode. A socket that nobody listens on any more is replaced.
    ///
    /// # Errors
    /// `Conflict` if somebody does, or something else is there; `Retry` if the system says no.
    pub(crate) fn unix(path: &Path, mode: u32) -> Result<Self> {
        let failed = |e| Error::retry(format!("cannot listen on {}", path.display())).with_source(e);
        remove_stale(path)?;
        let listener = UnixListener::bind(path).map_err(failed)?;
        let file = SocketFile(path.to_owned());
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).map_err(failed)?;
        Ok(Listener::Unix { listener, _file: file })
    }

    /// The address that a TCP listener got.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match self {
            Listener::Tcp(listener) => listener.local_addr().ok(),
            Listener::Unix { .. } => None,
        }
    }

    async fn accept(&self) -> io::Result<Accepted> {
        match self {
            Listener::Tcp(listener) => {
                listener.accept().await.map(|(socket, peer)| Accepted::Tcp(socket, peer))
            }
            Listener::Unix { listener, .. } => {
                listener.accept().await.map(|(socket, _)| Accepted::Unix(socket))
            }
        }
    }
}

fn cannot_listen(address: SocketAddr, error: io::Error) -> Error {
    if error.kind() == io::ErrorKind::PermissionDenied {
        return Error::invalid(format!(
            "this user may not listen on {address}: ports below 1024 take root or CAP_NET_BIND_SERVICE (AmbientCapabilities= in a \
             systemd unit); or choose another port"
        ));
    }
    Error::retry(format!("cannot listen on {address}")).with_source(error)
}

/// The file of a Unix socket; removed when dropped.
pub(crate) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Somebody may have tidied up already.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn remove_stale(path: &Path) -> Result<()> {
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !metadata.file_type().is_socket() {
        return Err(Error::conflict(format!("{} exists and is not a socket", path.display())));
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path).map_err(|e| {
            Error::retry(format!("cannot remove the old socket {}", path.display())).with_source(e)
        }),
        _ => Err(Error::conflict(format!("another server listens on {}", path.display()))),
    }
}

/// Accepts connections until the server stops, then waits for the sessions that they became.
pub(crate) async fn run(listener: Listener, service: Service, ctx: Arc<Context>, admission: Admission) {
    let mut sessions = JoinSet::new();
    // Connections of balancers that have not said whose they are.
    let mut unnamed = JoinSet::new();
    let mut pause = FIRST_PAUSE;
    loop {
        tokio::select! {
            biased;
            () = ctx.shutdown.wait() => break,
            Some(ended) = sessions.join_next() => report(&service, ended),
            Some(named) = unnamed.join_next() => if let Ok(Some(accepted)) = named {
                begin(&mut sessions, accepted, &service, &ctx, &admission);
            },
            accepted = listener.accept() => match accepted {
                Ok(Accepted::Tcp(socket, peer)) if ctx.settings.is_balancer(peer.ip()) => {
                    pause = FIRST_PAUSE;
                    ask(&mut unnamed, socket, peer, &service, &ctx, &admission);
                }
                Ok(accepted) => {
                    pause = FIRST_PAUSE;
                    begin(&mut sessions, accepted, &service, &ctx, &admission);
                }
                // The client gave up while it was in the backlog: its problem alone.
                Err(e) if is_clients_own(&e) => {}
                Err(e) => {
                    tracing::warn!(protocol = service.protocol, error = %e, "cannot accept connections");
                    tokio::select! {
                        () = ctx.shutdown.wait() => break,
                        () = tokio::time::sleep(pause) => pause = (pause * 2).min(LONGEST_PAUSE),
                    }
                }
            },
        }
    }
    drop((listener, unnamed));
    while let Some(ended) = sessions.join_next().await {
        report(&service, ended);
    }
}

fn is_clients_own(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, WouldBlock};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted | WouldBlock)
}

/// Finds out for whom a balancer makes a connection. Until that is known it counts in the total alone.
fn ask(
    unnamed: &mut JoinSet<Option<Accepted>>,
    mut socket: TcpStream,
    balancer: SocketAddr,
    service: &Service,
    ctx: &Arc<Context>,
    admission: &Admission,
) {
    let Some(place) = admission.admit(None) else {
        ctx.metrics.refused(service.protocol);
        return refuse(Accepted::Tcp(socket, balancer), service);
    };
    let protocol = service.protocol;
    unnamed.spawn(async move {
        let leave = place.leave();
        let said = tokio::select! {
            said = proxy::read(&mut socket) => said,
            // Another takes its place.
            () = leave.notified() => return None,
        };
        match said {
            Ok(Said::Clients { from, to }) => Some(Accepted::Balanced { socket, from, to }),
            Ok(Said::Balancers) => Some(Accepted::Tcp(socket, balancer)),
            Err(e) if e.kind() == io::ErrorKind::InvalidData => {
                tracing::warn!(protocol, %balancer, "a balancer does not say whose connection it makes (PROXY protocol)");
                None
            }
            // It looked whether somebody listens.
            Err(e) => {
                tracing::debug!(protocol, %balancer, error = %e, "a balancer's connection ended before it said whose it is");
                None
            }
        }
    });
}

fn begin(
    sessions: &mut JoinSet<()>,
    accepted: Accepted,
    service: &Service,
    ctx: &Arc<Context>,
    admission: &Admission,
) {
    let peer = match &accepted {
        Accepted::Tcp(_, peer) | Accepted::Balanced { from: peer, .. } => Some(peer.ip()),
        Accepted::Unix(_) => None,
    };
    let Some(admitted) = admission.admit(peer) else {
        tracing::debug!(protocol = service.protocol, ?peer, "too many connections");
        ctx.metrics.refused(service.protocol);
        return refuse(accepted, service);
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
            ctx.metrics.accepted(service.protocol);
            let leave = admitted.leave();
            let session = session(stream.admitted(admitted), service.clone(), Arc::clone(ctx));
            sessions.spawn(stay(session, leave));
        }
        // Gone before it was greeted.
        Err(e) => tracing::debug!(protocol = service.protocol, error = %e, "a connection ended at once"),
    }
}

/// Says "come back later" if that takes no waiting. With implicit TLS it would take a handshake: the client sees
/// the connection close, which means the same.
fn refuse(accepted: Accepted, service: &Service) {
    if service.tls {
        return;
    }
    // A fresh connection has room for one line; if not, the close says enough.
    let _ = match accepted {
        Accepted::Tcp(socket, _) | Accepted::Balanced { socket, .. } => {
            socket.into_std().and_then(|mut socket| io::Write::write(&mut socket, service.refusal.as_bytes()))
        }
        Accepted::Unix(socket) => {
            socket.into_std().and_then(|mut socket| io::Write::write(&mut socket, service.refusal.as_bytes()))
        }
    };
}

/// What the task of a connection does. It is for everybody who waits, so what it does is in boxes, which are as large as it takes.
async fn stay(session: BoxFuture<'static, ()>, leave: Arc<Notify>) {
    tokio::select! {
        () = session => {}
        // Another takes its place. It has nobody's mail in hand, and is not waited for.
        () = leave.notified() => {}
    }
}

fn session(stream: Stream, service: Service, ctx: Arc<Context>) -> BoxFuture<'static, ()> {
    if service.tls { Box::pin(secured(stream, service, ctx)) } else { (service.serve)(stream, ctx) }
}

/// A session that begins with a TLS handshake.
async fn secured(stream: Stream, service: Service, ctx: Arc<Context>) {
    let Some(config) = &ctx.tls else { return };
    let peer = stream.peer_addr();
    let handshake = stream.start_tls(config, ctx.settings.timeouts.tls_handshake);
    let result = tokio::select! {
        // Nothing can be said to a client that has no TLS yet.
        () = ctx.shutdown.wait() => return,
        result = handshake => result,
    };
    match result {
        Ok(stream) => (service.serve)(stream, ctx).await,
        Err(e) => tracing::debug!(protocol = service.protocol, ?peer, error = %e, "no TLS"),
    }
}

fn report(service: &Service, ended: Result<(), tokio::task::JoinError>) {
    if let Err(e) = ended
        && e.is_panic()
    {
        tracing::error!(protocol = service.protocol, "a session ended by a mistake in this program");
    }
}
