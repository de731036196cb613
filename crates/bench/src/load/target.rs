//! The server under test: its addresses and accounts.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use super::protocol::Protocol;
use super::wire::Io;

/// A server, as clients need to know it.
#[derive(Clone, Default)]
pub struct Target {
    /// Its name in the report.
    pub name: String,
    /// IMAP.
    pub imap: Option<Endpoint>,
    /// SMTP.
    pub smtp: Option<Endpoint>,
    /// LMTP.
    pub lmtp: Option<Endpoint>,
    /// Submission.
    pub submission: Option<Endpoint>,
    /// JMAP, over HTTP/1.1.
    pub jmap: Option<Endpoint>,
    /// Accounts. Client `n` is the n-th of them, and from the first again after the last.
    pub users: Vec<User>,
}

/// An account.
#[derive(Clone)]
pub struct User {
    /// Its name, and its address.
    pub name: String,
    /// Its password, which is never shown.
    pub password: Arc<str>,
}

/// Where one protocol is served.
#[derive(Clone)]
pub struct Endpoint {
    /// The address.
    pub addr: TargetAddr,
    /// Whether and how to use TLS.
    pub tls: Option<Tls>,
}

/// An address.
#[derive(Clone)]
pub enum TargetAddr {
    /// TCP; the first that answers, if there are several.
    Tcp(String, Vec<SocketAddr>),
    /// A Unix socket.
    Unix(PathBuf),
    /// Within this process.
    Inside(Inside),
}

/// Makes connections within this process.
pub type Inside = Arc<dyn Fn() -> Box<dyn Io> + Send + Sync>;

/// TLS to one server.
#[derive(Clone)]
pub struct Tls {
    /// Which certificates to trust.
    pub config: Arc<ClientConfig>,
    /// The expected name of the server.
    pub name: ServerName<'static>,
    /// From the first byte, not after STARTTLS.
    pub implicit: bool,
}

impl Target {
    /// Where `protocol` is served.
    pub fn endpoint(&self, protocol: Protocol) -> Option<&Endpoint> {
        match protocol {
            Protocol::Imap => self.imap.as_ref(),
            Protocol::Smtp => self.smtp.as_ref(),
            Protocol::Lmtp => self.lmtp.as_ref(),
            Protocol::Submission => self.submission.as_ref(),
            Protocol::Jmap => self.jmap.as_ref(),
        }
    }

    /// Its addresses, for reports.
    pub fn reached(&self) -> String {
        let all = [Protocol::Imap, Protocol::Smtp, Protocol::Lmtp, Protocol::Submission, Protocol::Jmap];
        let each = all.iter().filter_map(|p| Some(format!("{} {}", p.name(), self.endpoint(*p)?)));
        each.collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.addr {
            TargetAddr::Tcp(name, _) => f.write_str(name)?,
            TargetAddr::Unix(path) => write!(f, "{}", path.display())?,
            TargetAddr::Inside(_) => f.write_str("within the bench")?,
        }
        match &self.tls {
            None => Ok(()),
            Some(tls) if tls.implicit => f.write_str(" (TLS)"),
            Some(_) => f.write_str(" (STARTTLS)"),
        }
    }
}

impl Endpoint {
    /// Connects, with TLS if it is implicit.
    ///
    /// # Errors
    /// If there is no listener, or the certificate is not trusted.
    pub async fn connect(&self) -> io::Result<Box<dyn Io>> {
        let stream: Box<dyn Io> = match &self.addr {
            TargetAddr::Tcp(_, addresses) => {
                let stream = TcpStream::connect(&addresses[..]).await?;
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
            TargetAddr::Unix(path) => Box::new(UnixStream::connect(path).await?),
            TargetAddr::Inside(connect) => connect(),
        };
        match &self.tls {
            Some(tls) if tls.implicit => tls.wrap(stream).await,
            _ => Ok(stream),
        }
    }

    /// The TLS configuration to use after STARTTLS, if that is configured.
    pub fn starts_tls(&self) -> Option<&Tls> {
        self.tls.as_ref().filter(|tls| !tls.implicit)
    }
}

impl Tls {
    /// TLS over `stream`.
    ///
    /// # Errors
    /// If the handshake fails.
    pub async fn wrap(&self, stream: Box<dyn Io>) -> io::Result<Box<dyn Io>> {
        let connector = TlsConnector::from(self.config.clone());
        let connected = connector.connect(self.name.clone(), stream).await;
        Ok(Box::new(connected.map_err(super::tls::explained)?))
    }
}
