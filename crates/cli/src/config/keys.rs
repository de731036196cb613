//! Every key there is: the one table.

use toml::de::DeValue;

use super::Config;
use super::form::{
    Addresses, Choice, Count, File, Form, Ranges, Searches, Several, Size, Span, Text, Wait, Written,
};

/// One key of the configuration.
pub struct Key {
    /// `section.name`, or `name` alone.
    pub name: &'static str,
    /// What to write, for people.
    pub form: &'static str,
    /// What it means.
    pub about: &'static str,
    /// Reads a value into the configuration.
    pub set: fn(&mut Config, &DeValue<'_>) -> Result<(), String>,
    /// The value that is in force.
    pub show: fn(&Config) -> Written,
}

impl Key {
    /// The section it is in; empty at the top.
    pub fn section(&self) -> &'static str {
        self.name.split_once('.').map_or("", |(section, _)| section)
    }

    /// Its name within the section.
    pub fn short(&self) -> &'static str {
        self.name.split_once('.').map_or(self.name, |(_, short)| short)
    }
}

/// Where in [`KEYS`] a key is.
pub fn position(name: &str) -> Option<usize> {
    KEYS.iter().position(|key| key.name == name)
}

/// What a section is about.
pub const SECTIONS: [(&str, &str); 10] = [
    ("", ""),
    (
        "store",
        "Where objects are: mail, accounts, everything but the server's key. The data directory, unless a URL is named here.",
    ),
    (
        "listen",
        "Where to listen. Every key is a list; an empty one turns that protocol off, port 0 takes any free port.",
    ),
    ("tls", "The certificate. Without one, a self-signed one is made and kept in the data directory."),
    (
        "connections",
        "How many connections are served, all listeners together; one more is told to come back later.",
    ),
    ("timeouts", "How long to wait for clients."),
    ("login", "How logins are checked, remembered and slowed."),
    (
        "metrics",
        "What those who watch the server are told: Prometheus and its kin at /metrics, load balancers at /healthz.",
    ),
    (
        "bus",
        "A NATS server over which the nodes of one store tell each other of changes. Without one they look for themselves, every five seconds.",
    ),
    ("log", "What is logged, on standard error: never a secret or a message's text."),
];

macro_rules! key {
    ($name:literal, $form:ident, $($field:ident).+, $about:literal) => {
        Key {
            name: $name,
            form: form_name(|config: &Config| &config.$($field).+, &$form),
            about: $about,
            set: |config, value| {
                config.$($field).+ = <$form as Form<_>>::read(value)?;
                Ok(())
            },
            show: |config| <$form as Form<_>>::write(&config.$($field).+),
        }
    };
}

/// The name of a form for the type of a field.
const fn form_name<T, F: Form<T>>(_: fn(&Config) -> &T, _: &F) -> &'static str {
    F::NAME
}

/// All keys, sections together.
pub const KEYS: &[Key] = &[
    key!(
        "directory",
        File,
        directory,
        "The data directory: mail, accounts, the server's key. Made if absent. Back it up as a whole."
    ),
    key!("hostname", Text, settings.hostname, "The server's name: in greetings and in Received fields."),
    key!(
        "domain",
        Text,
        settings.domain,
        "The domain of names that are given without one: with \"example.org\", `jane` is jane@example.org for logins, commands and access control lists. Empty: names have to be written out."
    ),
    key!(
        "postmaster",
        Text,
        settings.postmaster,
        "The account or alias that gets mail for postmaster when nothing else has that name; without one, such mail is refused."
    ),
    key!(
        "admin",
        Text,
        settings.admin,
        "How users reach the administrator, as a URI such as mailto:help@example.org, for their mail programs; without one, mail to the postmaster."
    ),
    key!(
        "filters",
        Searches,
        settings.filters,
        "Searches that every user of IMAP finds by their names (FILTERS, RFC 5466): a name, and what is searched as in SEARCH."
    ),
    key!(
        "memory",
        Size,
        settings.memory,
        "The bound on memory, all that the server does included; at least 48MiB. `sealpost config show` prints how it is divided. What has no room in its part waits, or is told to come back."
    ),
    key!(
        "message_size",
        Size,
        settings.message_size,
        "The largest message accepted; what SMTP announces as SIZE."
    ),
    key!(
        "recipients",
        Several,
        settings.recipients,
        "The most recipients of one SMTP or LMTP transaction; at least 100."
    ),
    key!(
        "retention",
        Span,
        settings.retention,
        "How long removed accounts and expunged messages are kept before they are deleted for good."
    ),
    key!(
        "store.url",
        Text,
        store.url,
        "s3://bucket/prefix for a bucket of S3 or a store that speaks its protocol, gs://bucket/prefix for one of Google Cloud Storage, az://container/prefix for a container of Azure Blob Storage, file:///directory for a directory; empty: the data directory."
    ),
    key!(
        "store.endpoint",
        Text,
        store.endpoint,
        "The server of the bucket, such as https://s3.example.org or http://127.0.0.1:3900; empty: Amazon's or Azure's. (The key of a service account of Google says it itself.)"
    ),
    key!(
        "store.region",
        Text,
        store.region,
        "The region that requests are signed for; for Garage what its configuration calls s3_region."
    ),
    key!(
        "store.addressing",
        Choice,
        store.addressing,
        "Where the bucket's name goes: into the path of requests, into the name of the host, or (auto) into the path if there is an endpoint."
    ),
    key!(
        "store.credentials",
        File,
        store.credentials,
        "A file with the access key as Amazon's programs write it: lines aws_access_key_id = …, aws_secret_access_key = … and perhaps aws_session_token = …; for az:// lines azure_storage_account_name = … and azure_storage_account_key = …; for gs:// the key of a service account, JSON as Google gives it out. Empty: the environment variables of these names, in capitals; for gs:// the file that GOOGLE_APPLICATION_CREDENTIALS names."
    ),
    key!(
        "store.requests",
        Several,
        store.requests,
        "Requests to a bucket that are under way at a time; one more waits."
    ),
    key!(
        "store.timeout",
        Wait,
        store.timeout,
        "For one request to a bucket, its whole answer included. What fails is tried again a few times, for about twice as long at most, and then answered as a temporary failure."
    ),
    key!(
        "store.cache",
        Size,
        store.cache,
        "What the cache of a bucket may take on the disk, in `cache` in the data directory: at least 64MiB; \"0\" turns it off and removes it. It holds sealed objects that were read or written lately, and may be removed while the server is stopped."
    ),
    key!(
        "store.reserve",
        Size,
        store.reserve,
        "What is kept of the disk of a local store for expunging and removing, in the file `reserve` beside it; \"0\": nothing. When the disk is full mail is refused for now, and what is left is used for nothing else until there is room again."
    ),
    key!(
        "listen.smtp",
        Addresses,
        settings.listen.smtp,
        "SMTP with STARTTLS, for mail from everywhere to the accounts here."
    ),
    key!("listen.smtps", Addresses, settings.listen.smtps, "SMTP with TLS from the first byte."),
    key!(
        "listen.lmtp",
        Addresses,
        settings.listen.lmtp,
        "LMTP, for a mail server in front of this one. It asks nobody for a password: never open it to the world."
    ),
    key!(
        "listen.lmtp_unix",
        File,
        settings.listen.lmtp_unix,
        "LMTP on Unix sockets at these paths, mode 0660."
    ),
    key!("listen.imap", Addresses, settings.listen.imap, "IMAP with STARTTLS."),
    key!("listen.imaps", Addresses, settings.listen.imaps, "IMAP with TLS from the first byte."),
    key!(
        "tls.certificate",
        File,
        certificate,
        "The certificate chain in PEM, leaf first. A changed file is noticed within a minute, or at once with SIGHUP."
    ),
    key!("tls.key", File, certificate_key, "Its private key in PEM."),
    key!(
        "connections.total",
        Several,
        settings.connections.total,
        "From everywhere; fewer if the limit of open files allows fewer."
    ),
    key!(
        "connections.per_address",
        Several,
        settings.connections.per_address,
        "From one IPv4 address or one IPv6 /64 network."
    ),
    key!(
        "connections.balancers",
        Ranges,
        settings.balancers,
        "Balancers in front of this server that speak the PROXY protocol, version 1 or 2. What comes from there has to begin with it, and counts as the client's connection that it names; from elsewhere it is not believed."
    ),
    key!("timeouts.tls_handshake", Wait, settings.timeouts.tls_handshake, "For a TLS handshake to finish."),
    key!(
        "timeouts.smtp",
        Wait,
        settings.timeouts.smtp,
        "For the next SMTP or LMTP command or piece of a message; RFC 5321 asks for at least five minutes."
    ),
    key!(
        "timeouts.imap_anonymous",
        Wait,
        settings.timeouts.imap_anonymous,
        "For the next IMAP command before login."
    ),
    key!(
        "timeouts.imap",
        Wait,
        settings.timeouts.imap,
        "For the next IMAP command after login, and for a client that idles; RFC 3501 asks for at least 30 minutes."
    ),
    key!(
        "timeouts.imap_keep_alive",
        Span,
        settings.timeouts.imap_keep_alive,
        "How long a client that idles hears nothing before it is told that the server is still there, so that no router forgets the connection; \"0\" turns it off."
    ),
    key!(
        "timeouts.imap_sleep",
        Span,
        settings.timeouts.imap_sleep,
        "How long a session that waits for its client keeps the account loaded; sooner if others need the memory."
    ),
    key!(
        "timeouts.write",
        Wait,
        settings.timeouts.write,
        "For a client to take what is sent to it, however little at a time."
    ),
    key!(
        "timeouts.stop",
        Wait,
        settings.timeouts.stop,
        "For sessions to end when the server stops; then they are cut off."
    ),
    key!(
        "login.plaintext",
        Choice,
        settings.plaintext_login,
        "Who may send a password without TLS: clients on this machine, or nobody."
    ),
    key!(
        "login.checks_at_once",
        Count,
        settings.login.checks_at_once,
        "Password checks (19 MiB each) that run at once; 0: as many as there are cores."
    ),
    key!(
        "login.checks_waiting",
        Several,
        settings.login.checks_waiting,
        "Password checks that may wait for their turn; when there is one more, the one that would be served last is told to come back later."
    ),
    key!(
        "login.remember",
        Span,
        settings.login.remember,
        "How long a login that succeeded is remembered, so that a client that polls does not cost a check each time; \"0\" turns it off. A changed password takes effect at once."
    ),
    key!(
        "login.remembered",
        Several,
        settings.login.remembered,
        "How many logins are remembered; the oldest makes room."
    ),
    key!(
        "login.free_failures",
        Count,
        settings.login.free_failures,
        "Failures of an address or account that cost no delay, attempts under way included; a /24 (IPv4), /56 or /48 (IPv6) network around an address has 16, 4 and 16 times as many."
    ),
    key!(
        "login.first_delay",
        Span,
        settings.login.first_delay,
        "The delay after the first failure that costs one; each further failure doubles it."
    ),
    key!("login.max_delay", Span, settings.login.max_delay, "The longest delay."),
    key!("login.forgive", Wait, settings.login.forgive, "One failure is forgotten after each such time."),
    key!(
        "login.tracked",
        Several,
        settings.login.tracked,
        "Addresses, and likewise accounts, whose failures are counted; the longest unseen makes room."
    ),
    key!(
        "login.delayed",
        Several,
        settings.login.delayed,
        "Logins that may be held back at the same time from addresses that have failed, and as many from others; one more is refused at once."
    ),
    key!(
        "login.delayed_per_address",
        Several,
        settings.login.delayed_per_address,
        "Logins from one address that has failed that may be held back at the same time."
    ),
    key!(
        "metrics.listen",
        Addresses,
        settings.listen.metrics,
        "HTTP for /metrics and /healthz, off unless named here. It asks nobody for a password and encrypts nothing: best on 127.0.0.1, never open to the world."
    ),
    key!(
        "bus.url",
        Text,
        settings.bus.url,
        "Where it is: \"nats://host:4222\", or \"tls://host:4222\" with TLS; the servers of a cluster with commas between them, of which the first that answers is used; empty: there is none."
    ),
    key!(
        "bus.subject",
        Text,
        settings.bus.subject,
        "The subject of the messages: the same on all nodes of one store, another one for another store."
    ),
    key!("bus.user", Text, settings.bus.user, "Who to log in as; empty: nobody, or who has the token."),
    key!(
        "bus.secret_file",
        File,
        settings.bus.secret_file,
        "The file with the user's password, or without a user the token; empty: none."
    ),
    key!(
        "bus.ca",
        File,
        settings.bus.ca,
        "The file with the certificates that are trusted, in PEM; needed for tls://."
    ),
    key!(
        "bus.certificate",
        File,
        settings.bus.certificate,
        "The file with the certificate that this node shows, in PEM, if the bus asks for one; empty: none."
    ),
    key!("bus.key", File, settings.bus.key, "The file with the key of that certificate, in PEM."),
    key!(
        "log.level",
        Choice,
        log.level,
        "How much. At \"info\" every session leaves one line that says what it did."
    ),
    key!("log.format", Choice, log.format, "Lines of text, or one JSON object each."),
];
