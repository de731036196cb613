//! Every key there is: the one table.

use toml::de::DeValue;

use super::Config;
use super::form::{
    Addresses, Choice, Count, Families, File, Form, NameServers, Origins, Ranges, Routes, Searches, Several,
    Size, Source, Span, Text, Wait, WrittenValue,
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
    pub show: fn(&Config) -> WrittenValue,
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
pub const SECTIONS: [(&str, &str); 12] = [
    ("", ""),
    (
        "store",
        "The object store for mail and accounts; the server's key stays in the data directory. Without a URL, the store is the data directory.",
    ),
    (
        "listen",
        "Addresses and ports. Every key is a list; an empty list turns the protocol off, and port 0 takes any free port.",
    ),
    (
        "tls",
        "The certificate. Without one, the server makes a self-signed one and keeps it in the data directory.",
    ),
    (
        "connections",
        "Limits on connections, all listeners together. Beyond them, a client gets a temporary error.",
    ),
    ("timeouts", "Timeouts of sessions."),
    ("login", "Password checks, the login cache, and the throttling of failed logins."),
    (
        "sending",
        "Sending mail to other servers and between accounts: the queue, addresses, routes, policies. Queued mail is sealed under `mail.key` in the data directory.",
    ),
    ("http", "HTTP for clients, at listen.http and listen.https."),
    ("metrics", "Endpoints for monitoring: Prometheus at /metrics, load balancers at /healthz."),
    (
        "bus",
        "A NATS server over which the nodes of one store notify each other of changes. Without it they poll, every five seconds.",
    ),
    ("log", "The log on standard error. It never contains a secret or the text of a message."),
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
        "The data directory: mail, accounts and the server's key. Created if missing. Back it up as a whole."
    ),
    key!("hostname", Text, settings.hostname, "The server's name, in greetings and Received fields."),
    key!(
        "domain",
        Text,
        settings.domain,
        "The domain of names without one: with \"example.org\", `jane` means jane@example.org in logins, commands and access control lists. Empty: names must be complete."
    ),
    key!(
        "postmaster",
        Text,
        settings.postmaster,
        "The account or alias that gets mail for postmaster if no account or alias has that name. Empty: the server rejects such mail."
    ),
    key!(
        "admin",
        Text,
        settings.admin,
        "How users reach the administrator, for mail programs: a URI such as mailto:help@example.org. Empty: mail to the postmaster."
    ),
    key!(
        "filters",
        Searches,
        settings.filters,
        "Named searches for all IMAP users (FILTERS, RFC 5466): a name, and the criteria of SEARCH."
    ),
    key!(
        "memory",
        Size,
        settings.memory,
        "The bound on the memory of the whole server; at least 48MiB. `sealpost config show` prints how it is divided. Requests that do not fit wait or get a temporary error."
    ),
    key!(
        "inspection",
        Choice,
        inspection,
        "Whether other processes of the server's user may look into it: read its memory and what /proc says of it, or keep a core dump. Keys and mail are in both; \"on\" is for measuring."
    ),
    key!(
        "message_size",
        Size,
        settings.message_size,
        "The size of the largest accepted message; SMTP announces it as SIZE."
    ),
    key!(
        "recipients",
        Several,
        settings.recipients,
        "Maximum number of recipients of one SMTP or LMTP transaction; at least 100."
    ),
    key!(
        "retention",
        Span,
        settings.retention,
        "The grace period of removed accounts and expunged messages before they are deleted permanently."
    ),
    key!(
        "store.url",
        Text,
        store.url,
        "s3://bucket/prefix for S3 or a compatible store, gs://bucket/prefix for Google Cloud Storage, az://container/prefix for Azure Blob Storage, file:///directory for a directory. Empty: the data directory."
    ),
    key!(
        "store.endpoint",
        Text,
        store.endpoint,
        "The server of the bucket, such as https://s3.example.org or http://127.0.0.1:3900. Empty: Amazon's or Azure's. (For Google, the service account key names it.)"
    ),
    key!("store.region", Text, store.region, "The region for signing requests; for Garage, its s3_region."),
    key!(
        "store.addressing",
        Choice,
        store.addressing,
        "Where requests carry the bucket's name: in the path, in the host name (virtual), or (auto) in the path if there is an endpoint."
    ),
    key!(
        "store.credentials",
        File,
        store.credentials,
        "A file with the access key. For s3://, lines aws_access_key_id = …, aws_secret_access_key = … and optionally aws_session_token = …; for az://, lines azure_storage_account_name = … and azure_storage_account_key = …; for gs://, the JSON key of a service account. Empty: environment variables of these names in capitals; for gs://, the file named by GOOGLE_APPLICATION_CREDENTIALS."
    ),
    key!(
        "store.requests",
        Several,
        store.requests,
        "Maximum number of concurrent requests to a bucket; others wait."
    ),
    key!(
        "store.timeout",
        Wait,
        store.timeout,
        "The timeout of one request to a bucket, including its response. The server retries failed requests for about twice as long and then reports a temporary error."
    ),
    key!(
        "store.cache",
        Size,
        store.cache,
        "The disk space for the cache of a bucket, `cache` in the data directory: at least 64MiB; \"0\" turns it off and removes it. It holds sealed objects that were read or written recently. You can remove it while the server is stopped."
    ),
    key!(
        "store.reserve",
        Size,
        store.reserve,
        "The disk space that a local store reserves for expunging and removing, in the file `reserve`; \"0\": none. While the disk is full, the server rejects mail with a temporary error and uses the reserve for nothing else."
    ),
    key!("listen.smtp", Addresses, settings.listen.smtp, "SMTP with STARTTLS, for incoming mail."),
    key!("listen.smtps", Addresses, settings.listen.smtps, "SMTP with implicit TLS."),
    key!(
        "listen.submission",
        Addresses,
        settings.listen.submission,
        "Submission by users, usually port 587, with STARTTLS and a login. With it the server sends mail: see [sending]."
    ),
    key!(
        "listen.submissions",
        Addresses,
        settings.listen.submissions,
        "Submission with implicit TLS, usually port 465."
    ),
    key!(
        "listen.lmtp",
        Addresses,
        settings.listen.lmtp,
        "LMTP, for another mail server in front. It has no authentication: never open it to a network."
    ),
    key!(
        "listen.lmtp_unix",
        File,
        settings.listen.lmtp_unix,
        "LMTP on Unix sockets at these paths, mode 0660."
    ),
    key!("listen.imap", Addresses, settings.listen.imap, "IMAP with STARTTLS."),
    key!("listen.imaps", Addresses, settings.listen.imaps, "IMAP with implicit TLS."),
    key!(
        "listen.http",
        Addresses,
        settings.listen.http,
        "HTTP/1.1 without TLS, for clients on this machine and for the reverse proxies in http.trusted_proxies. Other clients get an error that names https."
    ),
    key!("listen.https", Addresses, settings.listen.https, "HTTP/1.1 and HTTP/2 with TLS."),
    key!(
        "tls.certificate",
        File,
        certificate,
        "The certificate chain in PEM, the server's own certificate first. The server loads a changed file within a minute, or at once with SIGHUP."
    ),
    key!("tls.key", File, certificate_key, "The private key in PEM."),
    key!(
        "connections.total",
        Several,
        settings.connections.total,
        "In total; fewer if the limit of open files is lower."
    ),
    key!(
        "connections.per_address",
        Several,
        settings.connections.per_address,
        "From one IPv4 address or one IPv6 /64 network."
    ),
    key!(
        "connections.trusted_proxies",
        Ranges,
        settings.trusted_proxies,
        "Load balancers in front of this server that use the PROXY protocol, version 1 or 2. Connections from them must start with its header, and limits and logs use the client address in it. The server ignores the header from other addresses."
    ),
    key!("timeouts.tls_handshake", Wait, settings.timeouts.tls_handshake, "For a TLS handshake."),
    key!(
        "timeouts.smtp",
        Wait,
        settings.timeouts.smtp,
        "For the next SMTP or LMTP command or part of a message; RFC 5321 requires at least five minutes."
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
        "For the next IMAP command after login, and for a client in IDLE; RFC 3501 requires at least 30 minutes."
    ),
    key!(
        "timeouts.imap_keep_alive",
        Span,
        settings.timeouts.imap_keep_alive,
        "The interval of keep-alive responses to a client in IDLE, so that routers keep the connection; \"0\" turns them off."
    ),
    key!(
        "timeouts.imap_hibernate",
        Span,
        settings.timeouts.imap_hibernate,
        "How long an idle session keeps its account loaded; less under memory pressure."
    ),
    key!("timeouts.http", Wait, settings.timeouts.http, "For the next HTTP request on a connection."),
    key!(
        "timeouts.http_request",
        Wait,
        settings.timeouts.http_request,
        "For the head of an HTTP request, and for each part of its body."
    ),
    key!(
        "timeouts.write",
        Wait,
        settings.timeouts.write,
        "For a client to accept output, at least one byte."
    ),
    key!(
        "timeouts.shutdown_grace",
        Wait,
        settings.timeouts.shutdown_grace,
        "For sessions to end when the server stops; then it disconnects them."
    ),
    key!(
        "login.plaintext",
        Choice,
        settings.plaintext_login,
        "Where passwords without TLS are accepted: from this machine (loopback), or never."
    ),
    key!(
        "login.checks_at_once",
        Count,
        settings.login.checks_at_once,
        "Maximum number of concurrent password checks (19 MiB each); 0: the number of cores."
    ),
    key!(
        "login.checks_waiting",
        Several,
        settings.login.checks_waiting,
        "Maximum number of waiting password checks. Beyond it, the last one in the order of service gets a temporary error."
    ),
    key!(
        "login.cache_ttl",
        Span,
        settings.login.cache_ttl,
        "How long a successful login is cached, so that polling clients need no password check each time; \"0\" turns the cache off. A changed password takes effect at once."
    ),
    key!(
        "login.cache_entries",
        Several,
        settings.login.cache_entries,
        "Maximum number of cached logins; the oldest is evicted."
    ),
    key!(
        "login.free_failures",
        Count,
        settings.login.free_failures,
        "Failures of an address or account without a delay, including attempts in progress. A /24 (IPv4), /56 or /48 (IPv6) network has 16, 4 and 16 times as many."
    ),
    key!(
        "login.first_delay",
        Span,
        settings.login.first_delay,
        "The delay after the first failure beyond those; each further failure doubles it."
    ),
    key!("login.max_delay", Span, settings.login.max_delay, "The longest delay."),
    key!(
        "login.failure_decay",
        Wait,
        settings.login.failure_decay,
        "The interval after which one failure is forgotten."
    ),
    key!(
        "login.failure_table_size",
        Several,
        settings.login.failure_table_size,
        "Maximum number of addresses, and of accounts, with counted failures; the least recent is evicted."
    ),
    key!(
        "login.max_delayed",
        Several,
        settings.login.max_delayed,
        "Maximum number of delayed logins from addresses with failures, and as many from others; more are rejected at once."
    ),
    key!(
        "login.delayed_per_address",
        Several,
        settings.login.delayed_per_address,
        "Maximum number of delayed logins from one address with failures."
    ),
    key!(
        "sending.enabled",
        Choice,
        settings.sending.enabled,
        "Whether the server sends mail. \"auto\": if users can send with it: listen.submission, submissions, http or https has an address; a server that only receives needs no queue and no mail key. \"off\" also turns off pushes to devices of JMAP clients."
    ),
    key!(
        "sending.queue",
        Choice,
        settings.sending.queue,
        "Where queued mail is. \"store\": with all mail; if the store is a bucket, another node sends what a lost one has queued. \"local\": in the data directory, also if the store is a bucket: a submission waits for the local disk alone, and queued mail is lost with the node."
    ),
    key!(
        "sending.ehlo_name",
        Text,
        settings.sending.ehlo_name,
        "The name in EHLO, to which the addresses of this server should resolve and back. Empty: hostname."
    ),
    key!(
        "sending.source_ipv4",
        Source,
        settings.sending.source_ipv4,
        "The address that connections over IPv4 come from."
    ),
    key!(
        "sending.source_ipv6",
        Source,
        settings.sending.source_ipv6,
        "The address that connections over IPv6 come from."
    ),
    key!(
        "sending.family",
        Choice,
        settings.sending.family,
        "Which addresses of other servers are used. Large receivers refuse IPv6 without a PTR record; \"ipv4\" helps then."
    ),
    key!(
        "sending.family_of",
        Families,
        settings.sending.family_of,
        "The same for single destination domains."
    ),
    key!(
        "sending.routes",
        Routes,
        settings.sending.routes,
        "Routes, of which the first that matches counts; other mail goes direct. A route is a destination (`example.org`, `.example.org` with all below it, `*`), perhaps `from` a sender domain, and `direct`, `via` a smarthost, or `direct then` a smarthost: for recipients whose servers refuse this one. After the smarthost and its port come `none`, `opportunistic`, `starttls` or `tls` (the default is tls at 465, else starttls) and `credentials` with a file: user and password, a line each."
    ),
    key!(
        "sending.resolver",
        NameServers,
        settings.sending.resolver,
        "How names are resolved. \"recursive\": this server, from the root downwards. \"system\": the name servers of /etc/resolv.conf. Answers are validated here in any case; name servers must pass DNSSEC records on, which public and most local resolvers do."
    ),
    key!(
        "sending.trust_anchor",
        File,
        settings.sending.trust_anchor,
        "The file with the DNSKEY records of the root that DNSSEC trusts, as in a zone file. Empty: those of the internet."
    ),
    key!(
        "sending.root_hints",
        File,
        settings.sending.root_hints,
        "The file with the addresses of root servers, one in each line. Empty: those of the internet."
    ),
    key!(
        "sending.ca",
        File,
        settings.sending.ca,
        "The file with the certificate authorities that smarthosts and MTA-STS are verified by, in PEM. Empty: the system's."
    ),
    key!(
        "sending.dane",
        Choice,
        settings.sending.dane,
        "Whether TLSA records of mail servers are obeyed (DANE, RFC 7672)."
    ),
    key!(
        "sending.mta_sts",
        Choice,
        settings.sending.mta_sts,
        "Whether policies of domains are fetched and obeyed (MTA-STS, RFC 8461)."
    ),
    key!(
        "sending.connections",
        Several,
        settings.sending.connections,
        "Maximum number of connections to other servers."
    ),
    key!(
        "sending.recipients_per_hour",
        Several,
        settings.sending.recipients_per_hour,
        "Maximum number of recipients that an account may send to in an hour; `sealpost account limit` sets it for one account. It bounds what a stolen password can do."
    ),
    key!("sending.recipients_per_day", Several, settings.sending.recipients_per_day, "The same for a day."),
    key!(
        "sending.forwards_per_hour",
        Several,
        settings.sending.forwards_per_hour,
        "Maximum number of recipients on other servers that one alias forwards to in an hour; further mail gets a temporary error. It bounds what strangers can make this server send."
    ),
    key!(
        "sending.trusted_clients",
        Ranges,
        settings.sending.trusted_clients,
        "Clients that submit mail without a login, such as printers and programs on this machine: 127.0.0.1 or 192.0.2.0/24. They may send as any address, to any number of recipients, so list no network that others can send from."
    ),
    key!(
        "sending.allow_private",
        Choice,
        settings.sending.allow_private,
        "Whether DNS may lead mail to loopback and private addresses. Only for tests and closed networks: a sender could reach hosts behind this server."
    ),
    key!("sending.port", Several, settings.sending.port, "The port of other mail servers; 25 but in tests."),
    key!(
        "http.allowed_origins",
        Origins,
        settings.http.allowed_origins,
        "Web pages of these origins may use the server (CORS). Pages from the server itself always may."
    ),
    key!(
        "http.trusted_proxies",
        Ranges,
        settings.http.trusted_proxies,
        "Reverse proxies that forward HTTP requests: limits and logs use the client address in Forwarded or X-Forwarded-For, and plain HTTP is accepted unless they say that their client used it. The server ignores these fields from other addresses. Load balancers with the PROXY protocol belong into connections.trusted_proxies."
    ),
    key!(
        "http.oauth_redirect_origins",
        Origins,
        settings.http.oauth_redirect_origins,
        "Web applications of these https origins may be OAuth clients. Programs on the user's own device always may."
    ),
    key!(
        "http.url",
        Origins,
        settings.http.url,
        "The URL at which clients reach the server, if a reverse proxy changes the Host field. Empty: the host of each request."
    ),
    key!(
        "metrics.listen",
        Addresses,
        settings.listen.metrics,
        "HTTP for /metrics and /healthz; off by default. It has no authentication and no TLS: use 127.0.0.1, and never open it to a network."
    ),
    key!(
        "bus.url",
        Text,
        settings.bus.url,
        "\"nats://host:4222\", or \"tls://host:4222\" with TLS; for a cluster, several URLs separated by commas, of which the server uses the first that answers. Empty: no bus."
    ),
    key!(
        "bus.subject",
        Text,
        settings.bus.subject,
        "The subject of the messages: the same on all nodes of one store, a different one for each store."
    ),
    key!("bus.user", Text, settings.bus.user, "The user name. Empty: none, or a token."),
    key!(
        "bus.secret_file",
        File,
        settings.bus.secret_file,
        "The file with the user's password, or without a user the token. Empty: none."
    ),
    key!(
        "bus.ca",
        File,
        settings.bus.ca,
        "The file with the trusted certificates, in PEM; required for tls://."
    ),
    key!(
        "bus.certificate",
        File,
        settings.bus.certificate,
        "The file with this node's client certificate, in PEM, if the bus requires one. Empty: none."
    ),
    key!("bus.key", File, settings.bus.key, "The file with the key of that certificate, in PEM."),
    key!(
        "log.level",
        Choice,
        log.level,
        "The level. At \"info\" each session logs one line with what it did."
    ),
    key!("log.format", Choice, log.format, "Lines of text, or one JSON object for each."),
];
