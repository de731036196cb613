//! Accept loops: a connection becomes a session, or is turned away before it costs anything.
//!
//! One task per listening socket owns the tasks of its sessions ([`accept`]). When the server stops
//! it closes the socket first, so that no client connects, and then waits for its sessions;
//! dropping it closes their connections.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::future::BoxFuture;
use rustls::ServerConfig;
use sealpost_base::{Error, Result};
use sealpost_files::owner;
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream};

use sealpost_session::Context;
use sealpost_session::net::Stream;

mod accept;
pub(crate) mod proxy;

#[cfg(test)]
mod tests;

pub(crate) use accept::run;

/// Connections that the kernel may hold for us between two accepts.
const BACKLOG: u32 = 1024;

/// Serves one connection until it ends.
pub(crate) type Serve = Arc<dyn Fn(Stream, Arc<Context>) -> BoxFuture<'static, ()> + Send + Sync>;

/// What is behind a listening socket.
#[derive(Clone)]
pub(crate) struct Service {
    /// For the log.
    pub(crate) protocol: &'static str,
    /// TLS, if it is spoken from the first byte.
    pub(crate) tls: Option<Arc<ServerConfig>>,
    /// The protocol's temporary error, sent in place of a greeting.
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

    /// Listens on a Unix socket at `path`, with that mode. A socket that no server listens on any
    /// more is replaced.
    ///
    /// # Errors
    /// `Retry` if another server does, or the system lacks resources; `Invalid` if no socket is
    /// possible: another file is there, there is no such directory, or a permission is missing.
    pub(crate) fn unix(path: &Path, mode: u32) -> Result<Self> {
        use io::ErrorKind::{InvalidInput, NotADirectory, NotFound, PermissionDenied};
        let failed = |e: io::Error| {
            let message = format!("cannot listen on {}", path.display());
            match e.kind() {
                InvalidInput | NotADirectory | NotFound => Error::invalid(message).with_source(e),
                PermissionDenied => Error::invalid(message).with_source(owner::explained(path, e)),
                _ => Error::retry(message).with_source(e),
            }
        };
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
            "permission denied: cannot listen on {address}: ports below 1024 require root or \
             CAP_NET_BIND_SERVICE (AmbientCapabilities= in a systemd unit); or choose another port"
        ));
    }
    Error::retry(format!("cannot listen on {address}")).with_source(error)
}

/// The file of a Unix socket; removed when dropped.
pub(crate) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // It may have been removed already.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn remove_stale(path: &Path) -> Result<()> {
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !metadata.file_type().is_socket() {
        return Err(Error::invalid(format!("{} exists and is not a socket", path.display())));
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path).map_err(|e| {
            Error::retry(format!("cannot remove the old socket {}", path.display())).with_source(e)
        }),
        _ => Err(Error::retry(format!("another server listens on {}", path.display()))),
    }
}
