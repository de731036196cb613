//! What an operator decides about the server, with a default for everything.
//!
//! A plain value: the `cli` crate parses the configuration file into it and writes the documented
//! configuration from the comments below. Nothing here reads a file or the environment. Sizes are
//! bytes, times are [`Duration`]s, and what a session may not exceed for safety's sake is in
//! [`sealpost_base::limits`].

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use sealpost_base::{MemoryDivision, limits};
use sending::Switch;

pub use crate::ip_range::IpRange;
pub use http::{Http, Origin};
pub use sealpost_auth::Login;
pub use sending::Sending;

mod route;
pub mod sending;

mod http;

/// The settings of a server. `Settings::default()` listens nowhere and has no TLS.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The server's name: in greetings, in `Received` fields, and where the recipient `postmaster`
    /// without a domain is.
    pub hostname: String,
    /// The domain of names without one, at login and elsewhere; none: such a name belongs to no
    /// account.
    pub domain: Option<String>,
    /// Where to listen; nothing is listened on unless it is named here.
    pub listen: Listen,
    /// Where certificate and key come from.
    pub tls: TlsSource,
    /// The clients that may send a password without TLS.
    pub plaintext_login: PlaintextLogin,
    /// The bound on memory, and how it is divided.
    pub memory: MemoryDivision,
    /// The largest message accepted, in bytes (the `SIZE` that SMTP announces, RFC 1870 §3).
    pub message_size: u64,
    /// The most recipients of one SMTP or LMTP transaction; at least 100 (RFC 5321 §4.5.3.1.8).
    pub recipients: usize,
    /// The account or alias that gets mail for `postmaster` (RFC 5321 §4.5.1) when no account and
    /// no alias has that name; none: such mail is refused.
    pub postmaster: Option<String>,
    /// How users reach the administrator: a URI, such as `mailto:help@example.org` or `tel:…`. IMAP
    /// clients can read it (RFC 5464 §3.2.1.1, `/shared/admin`); none: mail to the postmaster, if
    /// there is one.
    pub admin: Option<String>,
    /// Searches that all users find by their names (RFC 5466, `/shared/filters/values`).
    pub filters: Vec<StoredSearch>,
    /// How long removed accounts and messages that nothing points to are kept before they are deleted.
    pub retention: Duration,
    /// Balancers in front of this server: each connection that comes from one of these begins with
    /// a header of the PROXY protocol, which says whose it is.
    pub trusted_proxies: Vec<IpRange>,
    /// How many connections are served.
    pub connections: Connections,
    /// How long to wait for clients.
    pub timeouts: Timeouts,
    /// How logins are checked, remembered and slowed.
    pub login: Login,
    /// How HTTP is served.
    pub http: Http,
    /// The bus between nodes.
    pub bus: Bus,
    /// How mail is sent.
    pub sending: Sending,
    /// The data directory, for what a server notes there of itself; none: nothing is noted.
    pub data: Option<PathBuf>,
}

impl Settings {
    /// The URL of the JMAP session resource (RFC 8620 §2.2), where other protocols and DNS name it;
    /// `None` if JMAP is not served, or behind a reverse proxy whose URL is not configured.
    pub fn jmap_url(&self) -> Option<String> {
        let origin = self.http_origin()?;
        Some(format!("{origin}/.well-known/jmap"))
    }

    /// The host and the port of that URL.
    pub fn jmap_host(&self) -> Option<(String, u16)> {
        let origin = self.http_origin()?;
        let (scheme, host) = origin.split_once("://")?;
        let bracket = host.rfind(']').map_or(0, |at| at + 1);
        let (host, port) = match host[bracket..].split_once(':') {
            Some((_, port)) => (&host[..host.len() - port.len() - 1], port.parse().ok()?),
            None => (host, if scheme == "https" { 443 } else { 80 }),
        };
        Some((host.to_owned(), port))
    }

    fn http_origin(&self) -> Option<String> {
        let listen = &self.listen;
        if !listen.serves_jmap() {
            return None;
        }
        if let Some(url) = &self.http.url {
            return Some(url.as_str().to_owned());
        }
        match listen.https.iter().map(SocketAddr::port).find(|port| *port != 0)? {
            443 => Some(format!("https://{}", self.hostname)),
            port => Some(format!("https://{}:{port}", self.hostname)),
        }
    }
}

/// A search that the operator stored for all users (RFC 5466): what the keys mean is for the
/// session that runs them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSearch {
    /// Its name.
    pub name: String,
    /// Its keys, as in IMAP's SEARCH.
    pub keys: String,
}

impl fmt::Display for StoredSearch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.keys)
    }
}

/// Where to listen. Each kind may have several addresses, or none; port 0 takes any free port.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Listen {
    /// SMTP, with STARTTLS (RFC 5321, RFC 3207).
    pub smtp: Vec<SocketAddr>,
    /// SMTP with TLS from the first byte (RFC 8314 §3.3).
    pub smtps: Vec<SocketAddr>,
    /// Submission by users, with STARTTLS (RFC 6409).
    pub submission: Vec<SocketAddr>,
    /// Submission with TLS from the first byte (RFC 8314 §3.3).
    pub submissions: Vec<SocketAddr>,
    /// LMTP over TCP (RFC 2033): for a mail server in front of this one; never open to the world.
    pub lmtp: Vec<SocketAddr>,
    /// LMTP over Unix sockets at these paths, mode 0660; a socket left by a dead server is replaced.
    pub lmtp_unix: Vec<PathBuf>,
    /// IMAP, with STARTTLS (RFC 3501).
    pub imap: Vec<SocketAddr>,
    /// IMAP with TLS from the first byte (RFC 8314 §3.2).
    pub imaps: Vec<SocketAddr>,
    /// HTTP/1.1 without TLS: for this machine, and for the reverse proxies of [`Http::trusted_proxies`].
    pub http: Vec<SocketAddr>,
    /// HTTP/1.1 and HTTP/2 with TLS (RFC 9110 §4.2.2).
    pub https: Vec<SocketAddr>,
    /// `/metrics` and `/healthz` over HTTP, without password and encryption.
    pub metrics: Vec<SocketAddr>,
    /// The directory of the admin socket; none: there is no such socket.
    pub admin: Option<PathBuf>,
}

impl Listen {
    /// Whether users submit mail by SMTP.
    pub fn takes_submissions(&self) -> bool {
        !(self.submission.is_empty() && self.submissions.is_empty())
    }

    /// Whether JMAP clients have an address to connect to.
    pub fn serves_jmap(&self) -> bool {
        !(self.http.is_empty() && self.https.is_empty())
    }
}

/// Where certificate and key come from.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum TlsSource {
    /// No TLS at all: `STARTTLS` is not offered and the TLS listeners refuse to start.
    #[default]
    Off,
    /// PEM files: the certificate chain, leaf first, and its key (PKCS#8, SEC1 or PKCS#1). Changed files are
    /// noticed within a minute.
    Files {
        /// The certificate chain.
        certificate: PathBuf,
        /// The private key.
        key: PathBuf,
    },
    /// A self-signed certificate for the host name, made at the first start and kept in this directory as
    /// `tls-certificate.pem` and `tls-key.pem` (mode 0600).
    SelfSigned {
        /// The directory, normally the data directory.
        directory: PathBuf,
    },
}

/// The clients that may send a password without TLS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PlaintextLogin {
    /// Clients on this machine (loopback addresses and Unix sockets); everyone else needs TLS first.
    #[default]
    Loopback,
    /// No client.
    Never,
}

/// The most connections, all listeners together. Further ones get a temporary error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connections {
    /// From everywhere.
    pub total: usize,
    /// From one IPv4 address or one IPv6 /64 network.
    pub per_address: usize,
}

/// How long to wait for clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// For a TLS handshake to finish.
    pub tls_handshake: Duration,
    /// For the next SMTP or LMTP command or piece of message; at least five minutes (RFC 5321 §4.5.3.2.7).
    pub smtp: Duration,
    /// For the next IMAP command before login.
    pub imap_anonymous: Duration,
    /// For the next IMAP command after login, and for a client that idles; at least 30 minutes (RFC
    /// 3501 §5.4).
    pub imap: Duration,
    /// The interval of signs of life to an idle client, so that routers on the path keep the
    /// connection. Zero: none.
    pub imap_keep_alive: Duration,
    /// How long a session that waits for its client keeps the account loaded; sooner if others need
    /// the memory.
    pub imap_hibernate: Duration,
    /// For the next request on a connection of HTTP on which none is at work.
    pub http: Duration,
    /// For the head of a request of HTTP, from its first byte, and for each piece of its body.
    pub http_request: Duration,
    /// For a client to take what is sent to it, however little at a time.
    pub write: Duration,
    /// For sessions to end when the server stops; then they are cut off.
    pub shutdown_grace: Duration,
}

/// The bus over which nodes tell each other what they append: a NATS server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bus {
    /// `nats://host:port` or `tls://host:port`, or several with commas between them; empty: there is none.
    pub url: String,
    /// The subject; the same on all nodes of one store, another one for another store.
    pub subject: String,
    /// The user of this node on the bus; empty: none, or the token's.
    pub user: String,
    /// The file with the user's password, or without a user the token; empty: none.
    pub secret_file: PathBuf,
    /// The file with the certificates that are trusted, in PEM.
    pub ca: PathBuf,
    /// The file with the certificate that this node shows, in PEM; empty: none.
    pub certificate: PathBuf,
    /// The file with its key.
    pub key: PathBuf,
    /// The directory where this node keeps what it calls itself there (`node-1.id`), normally the
    /// data directory; none: it is another node whenever it is started.
    pub node: Option<PathBuf>,
}

impl Default for Bus {
    fn default() -> Self {
        let (url, user, secret_file, ca, certificate, key, node) = Default::default();
        Bus { url, subject: "sealpost.log".to_owned(), user, secret_file, ca, certificate, key, node }
    }
}

impl Settings {
    /// Whether a connection from there comes from a balancer.
    pub fn is_trusted_proxy(&self, peer: IpAddr) -> bool {
        self.trusted_proxies.iter().any(|range| range.contains(peer))
    }

    /// Whether this server sends. By default it does if users can hand mail to it, over submission or
    /// JMAP: a server that only receives needs no queue, no mail key and no connections to others. JMAP
    /// without a data directory has no place for a mail key, so nothing is sent then.
    pub fn sends(&self) -> bool {
        match self.sending.enabled {
            Switch::On => true,
            Switch::Off => false,
            Switch::Auto => {
                self.listen.takes_submissions() || self.listen.serves_jmap() && self.data.is_some()
            }
        }
    }

    /// How the administrator is reached, as a URI.
    pub fn admin_uri(&self) -> Option<String> {
        let mail = |postmaster: &String| match postmaster.contains('@') {
            true => Some(format!("mailto:{postmaster}")),
            false => self.domain.as_ref().map(|domain| format!("mailto:{postmaster}@{domain}")),
        };
        self.admin.clone().or_else(|| self.postmaster.as_ref().and_then(mail))
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            hostname: "localhost".to_owned(),
            domain: None,
            listen: Listen::default(),
            tls: TlsSource::Off,
            plaintext_login: PlaintextLogin::Loopback,
            memory: MemoryDivision::default(),
            message_size: limits::MESSAGE_BYTES,
            recipients: limits::SMTP_RECIPIENTS,
            postmaster: None,
            admin: None,
            filters: Vec::new(),
            retention: Duration::from_secs(7 * 24 * 3600),
            trusted_proxies: Vec::new(),
            connections: Connections::default(),
            timeouts: Timeouts::default(),
            login: Login::default(),
            http: Http::default(),
            bus: Bus::default(),
            sending: Sending::default(),
            data: None,
        }
    }
}

impl Default for Connections {
    fn default() -> Self {
        Connections { total: 4000, per_address: 400 }
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            tls_handshake: Duration::from_secs(20),
            smtp: Duration::from_secs(5 * 60),
            imap_anonymous: Duration::from_secs(60),
            imap: Duration::from_secs(30 * 60),
            imap_keep_alive: Duration::from_secs(2 * 60),
            imap_hibernate: Duration::from_secs(5),
            http: Duration::from_secs(75),
            http_request: Duration::from_secs(30),
            write: Duration::from_secs(2 * 60),
            shutdown_grace: Duration::from_secs(4),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(http: &[&str], https: &[&str], url: Option<&str>) -> Settings {
        let addresses = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        let mut settings = Settings { hostname: "mail.example".to_owned(), ..Settings::default() };
        (settings.listen.http, settings.listen.https) = (addresses(http), addresses(https));
        settings.http.url = url.map(|url| url.parse().unwrap());
        settings
    }

    #[test]
    fn any_listener_that_users_send_by_turns_sending_on() {
        let sends = |change: &dyn Fn(&mut Settings)| {
            let mut settings = Settings { data: Some("/nowhere".into()), ..Settings::default() };
            settings.listen.smtp = vec!["127.0.0.1:25".parse().unwrap()];
            change(&mut settings);
            settings.sends()
        };
        let at = || vec!["127.0.0.1:1".parse().unwrap()];
        assert!(!sends(&|_| {}), "it only receives");
        assert!(sends(&|settings| settings.listen.submission = at()));
        assert!(sends(&|settings| settings.listen.submissions = at()));
        assert!(sends(&|settings| settings.listen.http = at()));
        assert!(sends(&|settings| settings.listen.https = at()));
        let metrics_only = |settings: &mut Settings| settings.listen.metrics = at();
        assert!(!sends(&metrics_only));
        assert!(!sends(&|settings| (settings.listen.https, settings.sending.enabled) = (at(), Switch::Off)));
        assert!(!sends(&|settings| (settings.listen.https, settings.data) = (at(), None)), "no mail key");
        assert!(sends(&|settings| settings.sending.enabled = Switch::On));
    }

    #[test]
    fn the_jmap_url_is_reachable_by_clients() {
        let of = |settings: Settings| (settings.jmap_url(), settings.jmap_host());
        let known = |url: &str, host: &str, port| {
            (Some(format!("{url}/.well-known/jmap")), Some((host.to_owned(), port)))
        };
        assert_eq!(of(settings(&[], &[], Some("https://x"))), (None, None), "nothing is served");
        assert_eq!(of(settings(&["127.0.0.1:80"], &[], None)), (None, None), "not for clients elsewhere");
        let at = |port| format!("0.0.0.0:{port}");
        assert_eq!(of(settings(&[], &[&at(443)], None)), known("https://mail.example", "mail.example", 443));
        let other = known("https://mail.example:8443", "mail.example", 8443);
        assert_eq!(of(settings(&[], &[&at(8443)], None)), other);
        let proxy = settings(&["127.0.0.1:80"], &[], Some("https://web.example"));
        assert_eq!(of(proxy), known("https://web.example", "web.example", 443));
        let six = settings(&["127.0.0.1:80"], &[], Some("http://[::1]:8080"));
        assert_eq!(of(six), known("http://[::1]:8080", "[::1]", 8080));
    }
}
