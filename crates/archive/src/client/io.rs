//! [`Io`]: bytes to and from a server, over TCP, TLS, DEFLATE.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use sealpost_base::{Error, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::deflate::Deflate;
use super::peer_fault::silent;

/// Bytes that are received at a time.
const READ_BYTES: usize = 64 * 1024;

enum Stream {
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
    /// While it changes.
    None,
}

/// A connection's bytes.
pub(super) struct Io {
    stream: Stream,
    deflate: Option<Deflate>,
    packed: Vec<u8>,
    received: u64,
    answer: Duration,
}

impl Io {
    /// Connects over TCP. `answer`: how long to wait for bytes.
    pub(super) async fn connect(host: &str, port: u16, connect: Duration, answer: Duration) -> Result<Self> {
        let what = || format!("cannot connect to {host} port {port}");
        let late = |_| Error::retry(format!("{}: no answer in {} s", what(), connect.as_secs()));
        let found = timeout(connect, lookup_host((host, port))).await.map_err(late)?;
        let addresses: Vec<_> = found.map_err(|e| unknown(host, e))?.collect();
        let stream = timeout(connect, TcpStream::connect(&*addresses))
            .await
            .map_err(late)?
            .map_err(|e| Error::retry(what()).with_source(e))?;
        // Commands are short and are waited for.
        stream.set_nodelay(true).map_err(|e| Error::retry(what()).with_source(e))?;
        Ok(Io { stream: Stream::Tcp(stream), deflate: None, packed: Vec::new(), received: 0, answer })
    }

    /// Switches to TLS.
    pub(super) async fn start_tls(
        &mut self,
        host: &str,
        config: Arc<ClientConfig>,
        timeouts: Duration,
    ) -> Result<()> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|e| Error::invalid(format!("{host} cannot be in a certificate")).with_source(e))?;
        let Stream::Tcp(tcp) = std::mem::replace(&mut self.stream, Stream::None) else {
            return Err(Error::internal("TLS within TLS"));
        };
        let tls = timeout(timeouts, TlsConnector::from(config).connect(name, tcp))
            .await
            .map_err(|_| Error::retry(format!("{host} does not finish its TLS handshake")))?
            .map_err(|e| tls_error(host, e))?;
        self.stream = Stream::Tls(Box::new(tls));
        Ok(())
    }

    /// Switches to DEFLATE in both directions; `received` has arrived already.
    pub(super) fn start_deflate(&mut self, received: BytesMut) {
        let mut deflate = Deflate::new();
        deflate.input = received;
        self.deflate = Some(deflate);
    }

    /// Bytes received so far, as they came over the line.
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// Whether the server is on this machine or in the same network.
    pub(super) fn is_near(&self) -> bool {
        let tcp = match &self.stream {
            Stream::Tcp(tcp) => tcp,
            Stream::Tls(tls) => tls.get_ref().0,
            Stream::None => return false,
        };
        match tcp.peer_addr().map(|address| address.ip().to_canonical()) {
            Ok(IpAddr::V4(ip)) => ip.is_loopback() || ip.is_private() || ip.is_link_local(),
            Ok(IpAddr::V6(ip)) => ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local(),
            Err(_) => false,
        }
    }

    /// Sends all of `bytes`.
    ///
    /// # Errors
    /// `Retry` if the connection is lost, or nothing goes out for too long.
    pub(super) async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        let (stream, packed) = (&mut self.stream, &mut self.packed);
        let mut bytes = bytes;
        if let Some(deflate) = &mut self.deflate {
            packed.clear();
            deflate.compress(bytes, packed);
            bytes = packed;
        }
        let sent = timeout(self.answer, async {
            match stream {
                Stream::Tcp(tcp) => tcp.write_all(bytes).await,
                Stream::Tls(tls) => {
                    tls.write_all(bytes).await?;
                    tls.flush().await
                }
                Stream::None => Err(std::io::ErrorKind::NotConnected.into()),
            }
        });
        sent.await.map_err(|_| silent("the server no longer accepts data"))?.map_err(lost)
    }

    /// How long to wait for bytes from now on.
    pub(super) fn set_answer(&mut self, answer: Duration) {
        self.answer = answer;
    }

    /// Appends what comes next to `to`, at least a byte; waits for it as long as for any answer, or
    /// no longer than `most`.
    ///
    /// # Errors
    /// `Retry` if the connection is lost, or nothing comes for too long.
    pub(super) async fn receive(&mut self, to: &mut BytesMut, most: Option<Duration>) -> Result<()> {
        let timeouts = most.map_or(self.answer, |most| most.min(self.answer));
        loop {
            if let Some(deflate) = &mut self.deflate
                && deflate.expand(to)? > 0
            {
                return Ok(());
            }
            let buffer = match &mut self.deflate {
                Some(deflate) => &mut deflate.input,
                None => &mut *to,
            };
            buffer.reserve(READ_BYTES);
            let stream = &mut self.stream;
            let read = timeout(timeouts, async {
                match stream {
                    Stream::Tcp(tcp) => tcp.read_buf(buffer).await,
                    Stream::Tls(tls) => tls.read_buf(buffer).await,
                    Stream::None => Ok(0),
                }
            });
            let late = |_| silent(format!("no data from the server for {} s", timeouts.as_secs()));
            match read.await.map_err(late)?.map_err(lost)? {
                0 => return Err(Error::retry("the server closed the connection")),
                n => self.received += n as u64,
            }
            if self.deflate.is_none() {
                return Ok(());
            }
        }
    }
}

fn lost(error: std::io::Error) -> Error {
    Error::retry("the connection was lost").with_source(error)
}

/// A name without an address. "No such name" is an answer; "no answer for now" is none.
fn unknown(host: &str, error: std::io::Error) -> Error {
    let text = error.to_string();
    // Only the text of getaddrinfo tells the two apart: EAI_AGAIN, with glibc, with musl, and
    // elsewhere.
    let for_now = ["emporary", "Try again", "try again"].iter().any(|words| text.contains(words));
    if for_now || error.raw_os_error().is_some() {
        return Error::retry(format!("{host} cannot be looked up")).with_source(error);
    }
    Error::invalid(format!("unknown host {host}: check the spelling")).with_source(error)
}

/// A certificate that is not trusted now will not be in a minute; other errors may be the
/// network's.
fn tls_error(host: &str, error: std::io::Error) -> Error {
    use rustls::CertificateError::{Expired, ExpiredContext, NotValidYet, NotValidYetContext};
    use rustls::Error::{InvalidCertificate, NoCertificatesPresented};
    let cause = error.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>());
    match cause {
        Some(InvalidCertificate(_) | NoCertificatesPresented) => {
            // webpki says it only by the name of a variant.
            let hint = match cause {
                _ if error.to_string().contains("CaUsedAsEndEntity") => {
                    "it is marked as an issuer's (CA:TRUE): if it is the server's own, pass this certificate \
                     with --ca"
                }
                Some(InvalidCertificate(Expired | ExpiredContext { .. })) => {
                    "it, or its issuer's, has expired, or this machine's clock is wrong: the operator of the \
                     server must renew it"
                }
                Some(InvalidCertificate(NotValidYet | NotValidYetContext { .. })) => {
                    "it, or its issuer's, is not valid yet, or this machine's clock is wrong"
                }
                _ => "--ca names other issuers to trust, or the server's own certificate",
            };
            let why = format!("the certificate of {host} is not trusted ({hint})");
            Error::invalid(why).with_source(error)
        }
        // What is no TLS at all.
        Some(rustls::Error::InvalidMessage(_)) => {
            let why =
                format!("the server at {host} does not start with TLS: try --tls starttls, or another port");
            Error::retry(why).with_source(error)
        }
        _ => Error::retry(format!("no TLS with {host}")).with_source(error),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use sealpost_base::Kind;

    use super::*;

    #[test]
    fn an_expired_certificate_is_reported_as_such() {
        use rustls::CertificateError::{
            Expired, ExpiredContext, NotValidYet, NotValidYetContext, UnknownIssuer,
        };
        use rustls::pki_types::UnixTime;
        let (time, other) = (UnixTime::since_unix_epoch, std::time::Duration::from_secs);
        let (time, other) = (time(other(5)), time(other(9)));
        for (error, hint) in [
            (Expired, "expired"),
            (ExpiredContext { time: other, not_after: time }, "expired"),
            (NotValidYet, "not valid yet"),
            (NotValidYetContext { time, not_before: other }, "not valid yet"),
            (UnknownIssuer, "--ca names other issuers"),
        ] {
            let told =
                tls_error("imap.example.org", io::Error::other(rustls::Error::InvalidCertificate(error)));
            assert_eq!(told.kind(), Kind::Invalid);
            assert!(told.to_string().contains(hint), "{told}");
        }
    }

    #[test]
    fn an_unknown_host_differs_from_a_failed_lookup() {
        let looked = |why: &str| io::Error::other(format!("failed to lookup address information: {why}"));
        for (error, kind) in [
            (looked("Name or service not known"), Kind::Invalid),
            (looked("No address associated with hostname"), Kind::Invalid),
            (looked("Name does not resolve"), Kind::Invalid),
            (looked("Temporary failure in name resolution"), Kind::Retry),
            (looked("Try again"), Kind::Retry),
            (io::Error::from_raw_os_error(24), Kind::Retry),
        ] {
            let told = error.to_string();
            assert_eq!(unknown("imap.example.org", error).kind(), kind, "{told}");
        }
    }
}
