//! Clients that cost little: ten thousand of them on one machine, beside the server that is measured.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures::StreamExt;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Clients that do something at the same time.
const AT_ONCE: usize = 64;
/// How long one step of one client may take: thousands of cold logins are Argon2-bound.
const STEP_TIMEOUT: Duration = Duration::from_secs(600);
/// Files that client and server have open beside the connections.
pub(crate) const OTHER_FILES: usize = 256;

/// Raises the limit of open files to the system's maximum; returns it.
pub(crate) fn open_files() -> usize {
    let limit = getrlimit(Resource::Nofile);
    // Callers check the limit themselves.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    getrlimit(Resource::Nofile)
        .current
        .map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX))
}

/// Trusts the certificate that a server made for itself in its data directory.
pub(crate) fn connector(data: &Path) -> Result<TlsConnector> {
    let mut roots = rustls::RootCertStore::empty();
    let certificate = data.join("tls-certificate.pem");
    for certificate in CertificateDer::pem_file_iter(&certificate)? {
        roots.add(certificate?)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// How long something took, most of the times.
pub(crate) struct Percentiles {
    /// Half of the times are not longer.
    pub(crate) p50: Duration,
    p90: Duration,
    /// 99 of a hundred are not longer.
    pub(crate) p99: Duration,
    /// The longest.
    pub(crate) longest: Duration,
}

impl Percentiles {
    /// Of these times, of which there is one at least; sorts them.
    pub(crate) fn of(times: &mut [Duration]) -> Self {
        times.sort_unstable();
        let at = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)];
        Percentiles { p50: at(50), p90: at(90), p99: at(99), longest: at(100) }
    }
}

impl fmt::Display for Percentiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Percentiles { p50, p90, p99, longest } = self;
        write!(f, "p50 {p50:.2?}, p90 {p90:.2?}, p99 {p99:.2?}, max {longest:.2?}")
    }
}

/// Runs all of them, some at a time; the results are in the order of the work.
pub(crate) async fn gather<T>(
    work: impl IntoIterator<Item = impl Future<Output = Result<T>>>,
) -> Result<Vec<T>> {
    let work = work.into_iter().map(|one| async {
        tokio::time::timeout(STEP_TIMEOUT, one).await.context("the server took too long")?
    });
    let results: Vec<_> = futures::stream::iter(work).buffered(AT_ONCE).collect().await;
    results.into_iter().collect()
}

pub(crate) trait Wire: AsyncRead + AsyncWrite + Send {}

impl<T: AsyncRead + AsyncWrite + Send> Wire for T {}

/// A client without a buffer: ten thousand of them must not cost more than the server.
pub(crate) struct Client {
    stream: Pin<Box<dyn Wire>>,
    /// Bytes received after the expected line.
    early: Vec<u8>,
}

impl Client {
    /// Connects, with TLS if there is a connector.
    pub(crate) async fn connect(address: SocketAddr, tls: Option<&TlsConnector>) -> Result<Self> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        let stream: Pin<Box<dyn Wire>> = match tls {
            Some(tls) => {
                Box::pin(tls.connect(ServerName::try_from("localhost")?, socket).await.context("TLS")?)
            }
            None => Box::pin(socket),
        };
        Ok(Client { stream, early: Vec::new() })
    }

    /// Sends text.
    pub(crate) async fn say(&mut self, text: &str) -> Result<()> {
        self.send(text.as_bytes()).await
    }

    /// Sends bytes.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes).await?;
        Ok(self.stream.flush().await?)
    }

    /// Reads up to the end of `what`.
    pub(crate) async fn until_text(&mut self, what: &str) -> Result<()> {
        self.read_to(what, |_| Some(0)).await
    }

    /// Reads up to the end of the line that contains `what`.
    pub(crate) async fn until(&mut self, what: &str) -> Result<()> {
        self.read_to(what, |rest| memchr::memchr(b'\n', rest).map(|end| end + 1)).await
    }

    /// Reads up to the end of `what`, and as many bytes after it as `more` says; `None`: they have not come yet.
    async fn read_to(&mut self, what: &str, more: impl Fn(&[u8]) -> Option<usize>) -> Result<()> {
        let mut read = std::mem::take(&mut self.early);
        loop {
            let end = memchr::memmem::find(&read, what.as_bytes()).map(|at| at + what.len());
            if let Some(end) = end
                && let Some(more) = more(&read[end..])
            {
                self.early = read.split_off(end + more);
                self.early.shrink_to_fit();
                return Ok(());
            }
            let mut piece = [0; 4096];
            let count = self.stream.read(&mut piece).await?;
            if count == 0 || read.len() > 1 << 20 {
                bail!("{what:?} did not come: {:?}", String::from_utf8_lossy(&read));
            }
            read.extend_from_slice(&piece[..count]);
        }
    }
}
