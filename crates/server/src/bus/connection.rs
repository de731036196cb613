//! A connection to the bus: opened, logged in, subscribed; lines in, messages out.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, RootCertStore};
use sealpost_base::{AccountId, Error, Position, Result};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use zeroize::Zeroizing;

use super::protocol::{Decoder, Line, LineHead, Presence, connect, publish, say};
use crate::tls::load_pair;
use sealpost_session::settings::Bus;

/// How long the bus may take to take what is sent.
pub(super) const SEND: Duration = Duration::from_secs(3);
/// Bytes read at once.
const READ: usize = 4096;

/// TCP, or TLS over it.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A connection that is logged in and subscribed.
pub(super) struct Connection {
    stream: Box<dyn Stream>,
    decoder: Decoder,
    /// Pings that have not been answered.
    unanswered: usize,
}

impl Connection {
    /// Connects to the first of its servers that takes it, logs in and subscribes; the bus has
    /// confirmed it when this returns. It takes no longer than `within`, of which each server has
    /// its part.
    ///
    /// # Errors
    /// What the last of them says.
    pub async fn open(bus: &Bus, within: Duration) -> Result<Self> {
        let addresses = addresses(&bus.url)?;
        let each = within / addresses.len().max(1) as u32;
        let mut failed = Error::invalid("no bus is named");
        for address in &addresses {
            match timeout(each, Connection::open_one(bus, address)).await {
                Ok(Ok(connection)) => return Ok(connection),
                Ok(Err(e)) => failed = e,
                Err(_) => failed = Error::retry(format!("the bus at {} does not answer", address.host)),
            }
            tracing::debug!(address = address.host, error = %failed, "skipping this server of the bus");
        }
        Err(failed)
    }

    async fn open_one(bus: &Bus, address: &Address) -> Result<Self> {
        let stream = TcpStream::connect(&address.host).await;
        let stream = stream
            .map_err(|e| Error::retry(format!("cannot reach the bus at {}", address.host)).with_source(e))?;
        // Hints are small and are to arrive now.
        let _ = stream.set_nodelay(true);
        Connection::over(Box::new(stream), bus, address).await
    }

    /// Logs in and subscribes over a stream that leads to a server of the bus.
    pub async fn over(stream: Box<dyn Stream>, bus: &Bus, address: &Address) -> Result<Self> {
        let Address { tls, host } = address;
        let tls = *tls;
        let mut connection = Connection { stream, decoder: Decoder::default(), unanswered: 0 };
        let LineHead::Info { tls: required } = connection.head().await? else {
            return Err(Error::corrupt("the peer is not a NATS server"));
        };
        if required && !tls {
            return Err(Error::invalid("the bus requires TLS: begin bus.url with tls://"));
        }
        if tls {
            // Bytes before TLS are not authenticated.
            connection.decoder = Decoder::default();
            let stream = std::mem::replace(&mut connection.stream, Box::new(tokio::io::empty()));
            connection.stream = Box::new(encrypt(bus, host, stream).await?);
        }
        let secret = secret(bus).await?;
        let user = (!bus.user.is_empty()).then_some(bus.user.as_str());
        let hello = connect(user, secret.as_deref().map(String::as_str), tls);
        connection.send(hello.as_bytes()).await?;
        connection.send(format!("SUB {} 1\r\nPING\r\n", bus.subject).as_bytes()).await?;
        loop {
            match connection.head().await? {
                LineHead::Line(Line::Pong) => return Ok(connection),
                LineHead::Line(Line::Error(why)) => {
                    return Err(Error::denied(format!("the bus says: {why}")));
                }
                LineHead::Line(Line::Ping) => connection.pong().await?,
                LineHead::Message(_) => {
                    connection.next().await?;
                }
                LineHead::Line(_) | LineHead::Info { .. } => {}
            }
        }
    }

    /// The next line, with its message if it announces one. May be dropped at any time and called again.
    pub async fn next(&mut self) -> Result<Line> {
        loop {
            if let Some(line) = self.decoder.next()? {
                if line == Line::Pong {
                    self.unanswered = self.unanswered.saturating_sub(1);
                }
                return Ok(line);
            }
            self.read().await?;
        }
    }

    /// The next line.
    async fn head(&mut self) -> Result<LineHead> {
        loop {
            if let Some(head) = self.decoder.head()? {
                return Ok(head);
            }
            self.read().await?;
        }
    }

    async fn read(&mut self) -> Result<()> {
        let mut piece = [0; READ];
        match self.stream.read(&mut piece).await {
            Ok(0) => Err(Error::retry("the bus closed the connection")),
            Ok(n) => {
                self.decoder.push(&piece[..n]);
                Ok(())
            }
            Err(e) => Err(Error::retry("the connection to the bus failed").with_source(e)),
        }
    }

    /// Tells the others.
    pub async fn publish(&mut self, subject: &str, hints: &[(AccountId, Position)]) -> Result<()> {
        self.send(publish(subject, hints).as_bytes()).await
    }

    /// Tells the others of this node itself.
    pub async fn say(&mut self, subject: &str, presence: Presence) -> Result<()> {
        self.send(say(subject, presence).as_bytes()).await
    }

    pub async fn ping(&mut self) -> Result<()> {
        self.send(b"PING\r\n").await?;
        self.unanswered += 1;
        Ok(())
    }

    /// Returns when the bus has taken all messages: it replies in order.
    pub async fn taken(&mut self) -> Result<()> {
        self.ping().await?;
        while self.unanswered > 0 {
            match self.next().await? {
                Line::Ping => self.pong().await?,
                Line::Error(why) => return Err(refused(&why)),
                Line::Message(_) | Line::Pong | Line::Other => {}
            }
        }
        Ok(())
    }

    pub async fn pong(&mut self) -> Result<()> {
        self.send(b"PONG\r\n").await
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        let sent = timeout(SEND, async {
            self.stream.write_all(bytes).await?;
            self.stream.flush().await
        });
        match sent.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(e)) => Err(Error::retry("the connection to the bus failed").with_source(e)),
            Err(_) => Err(Error::retry("the bus accepts no data")),
        }
    }
}

/// What the bus says before it hangs up.
pub(super) fn refused(why: &str) -> Error {
    Error::retry(format!("the bus says: {why}"))
}

/// A server of the bus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    /// Whether it is to be spoken to with TLS.
    pub tls: bool,
    /// Its name or address, and the port.
    pub host: String,
}

/// The servers that a URL names: one, or several with commas between them, which are one cluster.
///
/// # Errors
/// `Invalid` if it is none, or some are to be spoken to with TLS and others without.
pub(crate) fn addresses(url: &str) -> Result<Vec<Address>> {
    let addresses: Vec<Address> = url.split(',').map(|one| address(one.trim())).collect::<Result<_>>()?;
    if addresses.windows(2).any(|two| two[0].tls != two[1].tls) {
        return Err(Error::invalid(format!("all servers of the bus with TLS, or none: {url}")));
    }
    Ok(addresses)
}

fn address(url: &str) -> Result<Address> {
    let wrong =
        || Error::invalid(format!("not the URL of a bus, as in nats://host:4222 or tls://host:4222: {url}"));
    let (scheme, address) = url.split_once("://").ok_or_else(wrong)?;
    let tls = match scheme {
        "nats" => false,
        "tls" => true,
        _ => return Err(wrong()),
    };
    let address = address.trim_end_matches('/');
    if address.is_empty() || address.contains(['/', '@', ' ']) {
        return Err(wrong());
    }
    let has_port = address.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let bare_ipv6 = address.ends_with(']') || !has_port;
    Ok(Address { tls, host: if bare_ipv6 { format!("{address}:4222") } else { address.to_owned() } })
}

async fn encrypt(bus: &Bus, address: &str, stream: Box<dyn Stream>) -> Result<impl Stream + use<>> {
    let wrong = |what: &str| Error::invalid(format!("{}: {what}", bus.ca.display()));
    let pem = read_file(&bus.ca).await?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|e| wrong("no certificates").with_source(e))?;
        roots.add(certificate).map_err(|e| wrong("not a certificate to trust").with_source(e))?;
    }
    let config = ClientConfig::builder().with_root_certificates(roots);
    let config = match identity(bus).await? {
        Some(pair) => config.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(pair))),
        None => config.with_no_client_auth(),
    };
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']']);
    let name = ServerName::try_from(host.to_owned());
    let name = name.map_err(|e| Error::invalid("not the name of a host").with_source(e))?;
    let connected = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
    connected.map_err(|e| Error::retry("the bus cannot be trusted, or speaks no TLS").with_source(e))
}

/// The certificate that this node shows, with its key; `None` if it shows none.
async fn identity(bus: &Bus) -> Result<Option<CertifiedKey>> {
    if bus.certificate.as_os_str().is_empty() {
        return Ok(None);
    }
    let (certificate, key) = (bus.certificate.clone(), bus.key.clone());
    let provider = rustls::crypto::ring::default_provider();
    let read = tokio::task::spawn_blocking(move || load_pair(&certificate, &key, &provider)).await;
    read.map_err(|e| Error::internal("reading a file panicked").with_source(e))?.map(Some)
}

/// The password or token, from its file.
async fn secret(bus: &Bus) -> Result<Option<Zeroizing<String>>> {
    if bus.secret_file.as_os_str().is_empty() {
        return Ok(None);
    }
    let text = read_file(&bus.secret_file).await?;
    let text = std::str::from_utf8(&text)
        .map_err(|_| Error::invalid(format!("{} is no text", bus.secret_file.display())))?;
    Ok(Some(Zeroizing::new(text.trim_end_matches(['\r', '\n']).to_owned())))
}

async fn read_file(path: &Path) -> Result<Zeroizing<Vec<u8>>> {
    let at = path.to_owned();
    let read = tokio::task::spawn_blocking(move || std::fs::read(at)).await;
    let read = read.map_err(|e| Error::internal("reading a file panicked").with_source(e))?;
    let unread = |e| Error::invalid(format!("{} cannot be read", path.display())).with_source(e);
    read.map(Zeroizing::new).map_err(unread)
}
