//! One connection: TCP, a Unix socket, or TLS over either.
//!
//! Sessions read and write plain bytes and see no difference, unless a protocol asks (may the client send a
//! password?). The stream buffers nothing itself. Bytes that a session read before STARTTLS must be discarded
//! by the session: plaintext from before the handshake is not trusted afterwards (RFC 3207 §4.2, RFC 3501
//! §6.2.1).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustls::ServerConfig;
use sealpost_base::{AccountId, limits};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::admission::{Admitted, AdmittedHandle, NoMemory};
use crate::sessions::Live;

/// Plaintext bytes that TLS may buffer for a stalled client; further writes wait.
const TLS_WRITE_BUFFER_BYTES: usize = 16 * 1024;

/// How long a graceful close may take before the connection is simply dropped.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Bytes to discard while waiting for a client to disconnect.
const CLOSE_DISCARD_BYTES: usize = 256 * 1024;

/// A client's connection. Counts its plaintext bytes.
pub struct Stream {
    transport: Transport,
    peer: Option<SocketAddr>,
    local: Option<SocketAddr>,
    bytes_in: u64,
    bytes_out: u64,
    /// Whether bytes were received since the last were sent.
    unanswered: bool,
    /// Its admission; `None` if it did not come from a listener.
    admitted: Option<Admitted>,
    /// The session for which its bytes are counted.
    live: Option<Arc<Live>>,
}

enum Transport {
    Plain(Socket),
    Tls(Box<TlsStream<Socket>>),
}

struct Socket {
    kind: Kind,
    /// Bytes that may still be read in a TLS handshake.
    allowance: Option<usize>,
}

enum Kind {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// The negotiated TLS parameters, for `Received` fields and the session's log line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsInfo {
    /// For example `TLSv1.3`.
    pub version: &'static str,
    /// For example `TLS13_AES_256_GCM_SHA384`.
    pub cipher: String,
}

impl Stream {
    /// A connection accepted on a TCP listener. Small replies are sent at once (`TCP_NODELAY`).
    pub fn from_tcp(socket: TcpStream) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        let (peer, local) = (socket.peer_addr()?, socket.local_addr()?);
        Ok(Stream::new(Kind::Tcp(socket), Some(canonical(peer)), Some(canonical(local))))
    }

    /// The same connection, made by a balancer for a client at `peer` that connected to `local`.
    pub fn made_for(self, peer: SocketAddr, local: SocketAddr) -> Self {
        Stream { peer: Some(peer), local: Some(local), ..self }
    }

    /// A connection accepted on a Unix socket.
    pub fn from_unix(socket: UnixStream) -> Self {
        Stream::new(Kind::Unix(socket), None, None)
    }

    /// Two ends of a connection inside this process, for tests and for serving without a listener.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (a, b) = UnixStream::pair()?;
        Ok((Stream::from_unix(a), Stream::from_unix(b)))
    }

    fn new(kind: Kind, peer: Option<SocketAddr>, local: Option<SocketAddr>) -> Self {
        Stream {
            transport: Transport::Plain(Socket { kind, allowance: None }),
            peer,
            local,
            bytes_in: 0,
            bytes_out: 0,
            unanswered: false,
            admitted: None,
            live: None,
        }
    }

    /// Attaches its admission, held as long as the connection exists.
    pub fn admitted(self, admitted: Admitted) -> Self {
        Stream { admitted: Some(admitted), ..self }
    }

    /// Assigns the connection to an account after a login: it is no longer closed for others. False if the
    /// account has too many.
    pub fn logged_in(&self, account: AccountId) -> bool {
        self.admitted.as_ref().is_none_or(|admitted| admitted.logged_in(account))
    }

    /// A handle for tasks that do not own the stream; `None` if it did not come from a listener.
    pub fn admitted_handle(&self) -> Option<AdmittedHandle> {
        self.admitted.as_ref().map(Admitted::handle)
    }

    /// Charges the connection `bytes` more for its protocol ([`Admitted::holds_more`]).
    pub fn holds_more(&mut self, bytes: usize) -> bool {
        self.admitted.as_mut().is_none_or(|admitted| admitted.holds_more(bytes))
    }

    /// Notes that the client brings mail for an account: the connection is no longer closed for others,
    /// unless too many do.
    pub fn sends(&self) {
        if let Some(admitted) = &self.admitted {
            admitted.sends();
        }
    }

    /// Marks the session as waiting for its client with `bytes` of memory ([`Admitted::rest`]).
    pub fn rest(&mut self, bytes: usize) {
        if let Some(admitted) = &mut self.admitted {
            admitted.rest(bytes);
        }
    }

    /// Whether it rests.
    pub fn rests(&self) -> bool {
        self.admitted.as_ref().is_some_and(Admitted::rests)
    }

    /// Ends the rest, since the session has output ([`Admitted::stir`]). Cancel-safe.
    ///
    /// # Errors
    /// As [`Admitted::stir`].
    pub async fn stir(&mut self) -> Result<(), NoMemory> {
        match &mut self.admitted {
            Some(admitted) if admitted.rests() => admitted.stir().await,
            _ => Ok(()),
        }
    }

    /// If the session rests: waits until the client has sent bytes, and stirs. Cancel-safe.
    ///
    /// # Errors
    /// As [`Stream::stir`].
    pub async fn stir_for_input(&mut self) -> Result<(), NoMemory> {
        if !self.rests() {
            return Ok(());
        }
        let (socket, has_input) = match &self.transport {
            Transport::Plain(socket) => (socket, false),
            // Do not wait if bytes were already received.
            Transport::Tls(tls) => (tls.get_ref().0, !tls.get_ref().1.wants_read()),
        };
        if !has_input {
            // The reader gets the errors of the socket.
            let _ = socket.readable().await;
        }
        self.stir().await
    }

    /// Whether others wait for the memory of the connection ([`Admitted::is_wanted`]).
    pub fn is_wanted(&self) -> bool {
        self.admitted.as_ref().is_some_and(Admitted::is_wanted)
    }

    /// Counts bytes for that session from now on.
    pub fn count_for(&mut self, live: Arc<Live>) {
        self.live = Some(live);
    }

    /// Makes the kernel acknowledge the client's bytes, if the server waits for more before it replies.
    ///
    /// If a client sends a literal and the following line end in two writes, Nagle's algorithm holds back the
    /// second until the first is acknowledged. With delayed acknowledgements (RFC 1122 §4.2.3.2) that takes
    /// 40 ms. A reply carries an acknowledgement itself.
    fn acknowledge(&mut self) {
        if !std::mem::take(&mut self.unanswered) {
            return;
        }
        let socket = match &self.transport {
            Transport::Plain(socket) => socket,
            Transport::Tls(tls) => tls.get_ref().0,
        };
        #[cfg(target_os = "linux")]
        if let Kind::Tcp(socket) = &socket.kind {
            // A failure only costs time.
            let _ = socket.set_quickack(true);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = socket;
    }

    fn wrote(&mut self, bytes: usize) {
        self.unanswered = false;
        self.bytes_out += bytes as u64;
        if let Some(live) = &self.live {
            live.sent(bytes);
        }
    }

    /// The client's address; `None` on a Unix socket. IPv4-mapped IPv6 addresses appear as IPv4.
    pub fn peer(&self) -> Option<IpAddr> {
        self.peer.map(|peer| peer.ip())
    }

    /// The client's address with its port; `None` on a Unix socket.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.peer
    }

    /// The local address of the connection; `None` on a Unix socket.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.local
    }

    /// Whether the connection is encrypted.
    pub fn is_tls(&self) -> bool {
        matches!(self.transport, Transport::Tls(_))
    }

    /// Whether the bytes never leave this machine.
    pub fn is_loopback(&self) -> bool {
        self.peer.is_none_or(|peer| peer.ip().is_loopback())
    }

    /// The negotiated TLS parameters; `None` without TLS.
    pub fn tls_info(&self) -> Option<TlsInfo> {
        let Transport::Tls(tls) = &self.transport else { return None };
        let (_, connection) = tls.get_ref();
        let version = match connection.protocol_version() {
            Some(rustls::ProtocolVersion::TLSv1_3) => "TLSv1.3",
            Some(rustls::ProtocolVersion::TLSv1_2) => "TLSv1.2",
            _ => "TLS",
        };
        let cipher = connection.negotiated_cipher_suite();
        let cipher = cipher.and_then(|suite| suite.suite().as_str()).unwrap_or("unknown").to_owned();
        Some(TlsInfo { version, cipher })
    }

    /// The server name in the client's TLS handshake (RFC 6066 §3); `None` if it has none.
    pub fn server_name(&self) -> Option<&str> {
        match &self.transport {
            Transport::Tls(tls) => tls.get_ref().1.server_name(),
            Transport::Plain(_) => None,
        }
    }

    /// The protocol negotiated in TLS (RFC 7301); `None` if the client named none.
    pub fn application_protocol(&self) -> Option<&[u8]> {
        match &self.transport {
            Transport::Tls(tls) => tls.get_ref().1.alpn_protocol(),
            Transport::Plain(_) => None,
        }
    }

    /// Plaintext bytes received so far.
    pub fn bytes_in(&self) -> u64 {
        self.bytes_in
    }

    /// Plaintext bytes sent so far.
    pub fn bytes_out(&self) -> u64 {
        self.bytes_out
    }

    /// Performs the server's side of a TLS handshake within `timeout`.
    ///
    /// # Errors
    /// Those of the handshake; `InvalidInput` if TLS is already active; `TimedOut`; `OutOfMemory` if there is
    /// no memory for TLS, or the handshake was cancelled for others.
    pub async fn start_tls(self, config: &Arc<ServerConfig>, timeout: Duration) -> io::Result<Stream> {
        // Boxed: only the start of a connection needs the memory of a handshake.
        Box::pin(tokio::time::timeout(timeout, self.shake_hands(config)))
            .await
            .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "the TLS handshake took too long"))?
    }

    async fn shake_hands(mut self, config: &Arc<ServerConfig>) -> io::Result<Stream> {
        let Transport::Plain(mut socket) = self.transport else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "TLS inside TLS"));
        };
        // A handshake costs nothing before the client sends bytes.
        socket.readable().await?;
        if self.admitted.as_mut().is_some_and(|admitted| !admitted.speaks_tls()) {
            return Err(io::Error::new(io::ErrorKind::OutOfMemory, "not enough memory for TLS"));
        }
        let place = self.admitted.as_ref().map(Admitted::handshake);
        let given_up = async {
            match &place {
                Some(place) => place.given_up().await,
                None => std::future::pending().await,
            }
        };
        socket.allowance = Some(limits::TLS_HANDSHAKE_INPUT_BYTES);
        let acceptor = TlsAcceptor::from(Arc::clone(config));
        let handshake =
            acceptor.accept_with(socket, |tls| tls.set_buffer_limit(Some(TLS_WRITE_BUFFER_BYTES)));
        let mut tls = tokio::select! {
            tls = handshake => tls?,
            () = given_up => {
                return Err(io::Error::new(io::ErrorKind::OutOfMemory, "too many TLS handshakes at once"));
            }
        };
        tls.get_mut().0.allowance = None;
        Ok(Stream { transport: Transport::Tls(Box::new(tls)), ..self })
    }

    /// Sends buffered bytes and ends the connection (TLS close_notify, then FIN). Waits at most two seconds
    /// for the client to disconnect, and then drops the connection.
    ///
    /// The wait matters: closing a TCP socket with unread input resets the connection, and a reset may
    /// overtake the last reply.
    pub async fn close(self) {
        self.close_discarding(CLOSE_DISCARD_BYTES).await;
    }

    /// As [`Stream::close`], for a client that may still send much: discards up to `most` bytes.
    pub async fn close_discarding(mut self, most: usize) {
        let goodbye = async {
            self.shutdown().await?;
            let mut discarded = [0; 1024];
            let mut bytes = 0;
            while bytes < most {
                match self.read(&mut discarded).await? {
                    0 => break,
                    read => bytes += read,
                }
            }
            io::Result::Ok(())
        };
        // A failure has no remedy: the connection is closed either way.
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, goodbye).await;
    }
}

/// Maps an IPv4 client of a dual-stack listener to its IPv4 address, so that limits and logs see one address.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        let read = match &mut this.transport {
            Transport::Plain(socket) => Pin::new(socket).poll_read(cx, buf),
            Transport::Tls(tls) => Pin::new(tls).poll_read(cx, buf),
        };
        if read.is_pending() {
            this.acknowledge();
        }
        ready!(read)?;
        this.unanswered = true;
        let bytes = buf.filled().len() - before;
        this.bytes_in += bytes as u64;
        if let Some(live) = &this.live {
            live.received(bytes);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = ready!(match &mut this.transport {
            Transport::Plain(socket) => Pin::new(socket).poll_write(cx, buf),
            Transport::Tls(tls) => Pin::new(tls).poll_write(cx, buf),
        })?;
        this.wrote(written);
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = ready!(match &mut this.transport {
            Transport::Plain(socket) => Pin::new(socket).poll_write_vectored(cx, bufs),
            Transport::Tls(tls) => Pin::new(tls).poll_write_vectored(cx, bufs),
        })?;
        this.wrote(written);
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        match &self.transport {
            Transport::Plain(socket) => socket.is_write_vectored(),
            Transport::Tls(tls) => tls.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().transport {
            Transport::Plain(socket) => Pin::new(socket).poll_flush(cx),
            Transport::Tls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().transport {
            Transport::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            Transport::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }
}

impl Socket {
    /// Waits until bytes have arrived, or the client has disconnected.
    async fn readable(&self) -> io::Result<()> {
        match &self.kind {
            // tokio reports a newly accepted socket as readable, with or without data.
            Kind::Tcp(socket) => socket.peek(&mut [0]).await.map(|_| ()),
            Kind::Unix(socket) => socket.readable().await,
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.allowance == Some(0) {
            let text = "the client says too much in its TLS handshake";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, text)));
        }
        let before = buf.filled().len();
        ready!(match &mut this.kind {
            Kind::Tcp(socket) => Pin::new(socket).poll_read(cx, buf),
            Kind::Unix(socket) => Pin::new(socket).poll_read(cx, buf),
        })?;
        if let Some(left) = &mut this.allowance {
            *left = left.saturating_sub(buf.filled().len() - before);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().kind {
            Kind::Tcp(socket) => Pin::new(socket).poll_write(cx, buf),
            Kind::Unix(socket) => Pin::new(socket).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().kind {
            Kind::Tcp(socket) => Pin::new(socket).poll_write_vectored(cx, bufs),
            Kind::Unix(socket) => Pin::new(socket).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.kind {
            Kind::Tcp(socket) => socket.is_write_vectored(),
            Kind::Unix(socket) => socket.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().kind {
            Kind::Tcp(socket) => Pin::new(socket).poll_flush(cx),
            Kind::Unix(socket) => Pin::new(socket).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().kind {
            Kind::Tcp(socket) => Pin::new(socket).poll_shutdown(cx),
            Kind::Unix(socket) => Pin::new(socket).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bytes_are_counted_and_a_close_reaches_the_other_side() {
        let (mut a, mut b) = Stream::pair().unwrap();
        a.write_all(b"* BYE\r\n").await.unwrap();
        assert_eq!(a.bytes_out(), 7);
        let close = tokio::spawn(a.close());
        let mut read = Vec::new();
        b.read_to_end(&mut read).await.unwrap();
        assert_eq!(read, b"* BYE\r\n");
        assert_eq!(b.bytes_in(), 7);
        drop(b);
        close.await.unwrap();
    }

    /// Without [`Stream::acknowledge`] each round takes 40 ms.
    #[tokio::test]
    async fn two_writes_do_not_wait_for_a_delayed_acknowledgement() {
        const ROUNDS: u32 = 30;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let mut server = Stream::from_tcp(listener.accept().await.unwrap().0).unwrap();
        let serve = tokio::spawn(async move {
            for _ in 0..ROUNDS {
                server.read_exact(&mut [0; 4]).await.unwrap();
                server.write_all(b"ok").await.unwrap();
            }
        });
        let rounds = async {
            for _ in 0..ROUNDS {
                client.write_all(b"ab").await.unwrap();
                client.write_all(b"cd").await.unwrap();
                client.read_exact(&mut [0; 2]).await.unwrap();
            }
        };
        tokio::time::timeout(Duration::from_millis(800), rounds).await.unwrap();
        serve.await.unwrap();
    }

    #[tokio::test]
    async fn a_unix_socket_is_local_and_has_no_address() {
        let (a, _b) = Stream::pair().unwrap();
        assert!(a.is_loopback() && !a.is_tls() && a.peer().is_none() && a.tls_info().is_none());
    }

    #[test]
    fn a_mapped_address_is_the_ipv4_address() {
        let mapped: SocketAddr = "[::ffff:192.0.2.1]:25".parse().unwrap();
        assert_eq!(canonical(mapped).to_string(), "192.0.2.1:25");
    }
}
