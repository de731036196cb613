//! Opens connections: the real sockets behind a trait, so that tests bring peers of their own.

use std::io;
use std::net::{IpAddr, SocketAddr};

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpSocket, TcpStream};

/// A connection as a stream of bytes.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A connection that was just opened.
pub struct Dialed {
    /// Its bytes.
    pub stream: Box<dyn Stream>,
    /// The address that it leaves this node from; `None` if the system does not say.
    pub source: Option<IpAddr>,
}

/// Opens connections.
#[async_trait]
pub trait Dialer: Send + Sync {
    /// Connects to `address`, from `source` if there is one.
    ///
    /// # Errors
    /// Errors of the system. The caller bounds the time.
    async fn dial(&self, address: SocketAddr, source: Option<IpAddr>) -> io::Result<Dialed>;
}

/// Opens TCP connections.
#[derive(Debug, Clone, Copy, Default)]
pub struct TcpDialer;

#[async_trait]
impl Dialer for TcpDialer {
    async fn dial(&self, address: SocketAddr, source: Option<IpAddr>) -> io::Result<Dialed> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        if let Some(source) = source {
            socket.bind(SocketAddr::new(source, 0))?;
        }
        let stream: TcpStream = socket.connect(address).await?;
        // Commands are sent in whole batches: waiting for more to send only delays them.
        stream.set_nodelay(true)?;
        let source = stream.local_addr().ok().map(|address| address.ip());
        Ok(Dialed { stream: Box::new(stream), source })
    }
}
