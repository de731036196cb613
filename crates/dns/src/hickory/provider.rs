//! The sockets that hickory uses: UDP as it is, TCP with a bound on messages, both to any port.
//!
//! Over UDP an answer has at most the 1,232 bytes that queries allow. Over TCP it may have 65,535,
//! in which thousands of small records fit, and each takes hundreds of bytes in hickory's caches.
//! Answers about mail have a few dozen.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::io::{AsyncRead, AsyncWrite};
use hickory_resolver::net::runtime::{DnsTcpStream, DnsUdpSocket, RuntimeProvider, TokioHandle, TokioTime};
use sealpost_base::limits::{DNS_MESSAGE_BYTES, DNS_MESSAGE_RECORDS};
use tokio::io::{AsyncRead as TokioRead, AsyncWrite as TokioWrite, ReadBuf};
use tokio::net::{TcpStream, UdpSocket};

/// How long a TCP connection to a name server may take.
const CONNECT_TIME: Duration = Duration::from_secs(5);

/// Makes sockets.
#[derive(Clone)]
pub(super) struct Provider {
    handle: TokioHandle,
    port: u16,
}

impl Provider {
    /// For name servers on `port`.
    pub fn new(port: u16) -> Self {
        Provider { handle: TokioHandle::default(), port }
    }
}

impl RuntimeProvider for Provider {
    type Handle = TokioHandle;
    type Timer = TokioTime;
    type Udp = Udp;
    type Tcp = Tcp;

    fn create_handle(&self) -> TokioHandle {
        self.handle.clone()
    }

    fn connect_tcp(
        &self,
        server: SocketAddr,
        _bind: Option<SocketAddr>,
        wait: Option<Duration>,
    ) -> Pin<Box<dyn Send + Future<Output = io::Result<Tcp>>>> {
        let server = SocketAddr::new(server.ip(), self.port);
        Box::pin(async move {
            let connect = TcpStream::connect(server);
            let stream = tokio::time::timeout(wait.unwrap_or(CONNECT_TIME), connect).await;
            let stream = stream.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
            stream.set_nodelay(true)?;
            Ok(Tcp { stream, watch: MessageWatch::default() })
        })
    }

    fn bind_udp(
        &self,
        local: SocketAddr,
        server: SocketAddr,
    ) -> Pin<Box<dyn Send + Future<Output = io::Result<Udp>>>> {
        let (port, asked) = (self.port, server.port());
        Box::pin(async move {
            let socket = UdpSocket::bind(local).await?;
            Ok(Udp { socket, port, asked })
        })
    }
}

/// A UDP socket that talks to `port` where hickory says `asked`.
pub(super) struct Udp {
    socket: UdpSocket,
    port: u16,
    asked: u16,
}

impl DnsUdpSocket for Udp {
    type Time = TokioTime;

    fn poll_recv_from(&self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<(usize, SocketAddr)>> {
        let mut buf = ReadBuf::new(buf);
        let from = ready!(self.socket.poll_recv_from(cx, &mut buf))?;
        // Only the port that was asked is taken for the one that hickory expects.
        let port = if from.port() == self.port { self.asked } else { from.port() };
        Poll::Ready(Ok((buf.filled().len(), SocketAddr::new(from.ip(), port))))
    }

    fn poll_send_to(&self, cx: &mut Context<'_>, buf: &[u8], target: SocketAddr) -> Poll<io::Result<usize>> {
        self.socket.poll_send_to(cx, buf, SocketAddr::new(target.ip(), self.port))
    }
}

/// A TCP connection whose messages are watched.
pub(super) struct Tcp {
    stream: TcpStream,
    watch: MessageWatch,
}

impl DnsTcpStream for Tcp {
    type Time = TokioTime;
}

impl AsyncRead for Tcp {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buf = ReadBuf::new(buf);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buf))?;
        self.watch.push(buf.filled())?;
        Poll::Ready(Ok(buf.filled().len()))
    }
}

impl AsyncWrite for Tcp {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Follows the messages in a TCP stream (RFC 1035 §4.2.2) and refuses those that are too large.
#[derive(Debug, Default)]
pub(super) struct MessageWatch {
    /// Length and header of the present message, as far as they are there.
    head: Vec<u8>,
    /// Bytes of it that are still to come after the head.
    rest: usize,
}

/// Length and header (RFC 1035 §4.1.1).
const HEAD_BYTES: usize = 2 + 12;

impl MessageWatch {
    /// Takes the next bytes of the stream.
    ///
    /// # Errors
    /// If a message has more bytes or records than limits allow.
    pub fn push(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            if self.rest > 0 {
                let skip = self.rest.min(bytes.len());
                self.rest -= skip;
                bytes = &bytes[skip..];
                continue;
            }
            let take = (HEAD_BYTES - self.head.len()).min(bytes.len());
            self.head.extend_from_slice(&bytes[..take]);
            bytes = &bytes[take..];
            if self.head.len() == HEAD_BYTES {
                self.rest = judge(&self.head)?;
                self.head.clear();
            }
        }
        Ok(())
    }
}

/// The bytes that follow an acceptable head.
fn judge(head: &[u8]) -> io::Result<usize> {
    let number = |at: usize| usize::from(u16::from_be_bytes([head[at], head[at + 1]]));
    let (length, records) = (number(0), number(8) + number(10) + number(12));
    let too_large = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    match length.checked_sub(HEAD_BYTES - 2) {
        None => Err(too_large("a DNS message without a header")),
        Some(_) if length > DNS_MESSAGE_BYTES => Err(too_large("a DNS message that is too large")),
        Some(_) if records > DNS_MESSAGE_RECORDS => Err(too_large("a DNS message with too many records")),
        Some(rest) => Ok(rest),
    }
}
