//! A server in this process with an account, and clients that speak IMAP to it line by line.
//!
//! Transcripts (`tests/imap/*.txt`):
//!
//! ```text
//! # a comment
//! set message_size 1000     a setting, before the first other line
//! C: a1 NOOP                sends the line with CRLF; lines in a row leave as one write (pipelined)
//! C| half a line            sends it without CRLF
//! S: * 3 EXISTS             expects exactly this line; `<any>` stands for anything, `<name:=>` too and keeps it
//!                           for `<name>` in later lines
//! S? * OK hello             skips lines until this one comes
//! S!                        expects the server to have hung up
//! C2: … S2: …               the same on another connection (up to 9), opened at its first line
//! login 2                   greeting, and LOGIN
//! account bob [quota]       another account, `bob@localhost` with the same password
//! login 2 bob               greeting, and LOGIN to it
//! tls                       speaks TLS from here on
//! deliver                   the lines that follow as `| line` are a message that arrives in the inbox
//! deliver Archive           the same, in another mailbox
//! append 1 a1 INBOX (\Seen) the same, as a non-synchronizing APPEND of connection 1
//! B: a1 AUTHENTICATE X | a\x01b   sends the line, what is behind the bar in base64; `<token>` is a token of the account
//! ```
//! In what is sent and in messages, `\r`, `\n`, `\0`, `\t`, `\\` and `\xHH` stand for what they
//! stand for only after `C|`, `D:` (C: with escapes), `B:` and `|`.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use sealpost_account::Account;
use sealpost_account::accounts::Delivery;
use sealpost_auth::Scopes;
use sealpost_auth::grant_token::GrantToken;
use sealpost_base::limits::OAUTH_ACCESS_LIFETIME;
use sealpost_base::{Clock, FakeClock, SeededRandom, Timestamp};
use sealpost_directory::{AccountName, AccountRecord, NewAccount, Role, Secret};
use sealpost_imap_session::{self as imap, ImapShared};
use sealpost_server::tls::Tls;
use sealpost_session::net::Stream;
use sealpost_session::{Context, Settings};
use sealpost_vault::server_key::ServerKeys;
use sealpost_vault::slot::SlotId;
use sealpost_vault::{RootKey, Store, TokenKind};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::deflate_wire::DeflateWire;

/// 2026-11-20 12:00:00 UTC.
pub const NOW: Timestamp = Timestamp(1_795_176_000_000);
/// How long the server may take for a line.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A connection over any stream.
pub trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

/// A server that is not listening anywhere, with the account `me@localhost`, password `secret`.
pub struct TestServer {
    pub ctx: Arc<Context>,
    pub imap: Arc<ImapShared>,
    #[allow(dead_code, reason = "not all of those who share this use it")]
    pub clock: Arc<FakeClock>,
    tls: Tls,
    record: AccountRecord,
    root: RootKey,
    sessions: JoinSet<()>,
}

impl TestServer {
    pub async fn new(settings: Settings) -> Self {
        Self::over(Store::memory(), settings, None).await
    }

    pub async fn over(store: Store, mut settings: Settings, quota: Option<u64>) -> Self {
        settings.hostname = "localhost".to_owned();
        settings.domain = Some("localhost".to_owned());
        let clock = Arc::new(FakeClock::new(NOW));
        let random = Arc::new(SeededRandom::new(1));
        let key = ServerKeys::generate(&*random);
        let tls = Tls::ephemeral("localhost").unwrap();
        let ctx =
            Context::new(settings, store, key.clone(), Some(tls.config().clone()), clock.clone(), random)
                .unwrap();
        let ctx = Arc::new(ctx);
        let imap = Arc::new(ImapShared::new(ctx.clone(), &key));
        let mut new = NewAccount::with_password(Secret::new(b"secret").unwrap());
        new.quota = quota;
        let name = AccountName::parse("me@localhost").unwrap();
        let (record, root) = ctx.directory.create(&name, new).await.unwrap();
        TestServer { ctx, imap, clock, tls, record, root, sessions: JoinSet::new() }
    }

    /// Makes the account's owner an administrator, and a second account that it can look after.
    async fn make_admin(&self) {
        let admin = |record: &mut AccountRecord| {
            record.role = Role::Admin;
            Ok(())
        };
        self.ctx.directory.update(&self.record.name, admin).await.unwrap();
        let new = NewAccount::with_password(Secret::new(b"secret").unwrap());
        self.ctx.directory.create(&AccountName::parse("you@localhost").unwrap(), new).await.unwrap();
    }

    /// A session with a client on this machine.
    pub fn connect(&mut self) -> Client {
        let (client, server) = Stream::pair().unwrap();
        self.sessions.spawn(imap::serve(server, self.imap.clone()));
        Client::new(Box::new(client))
    }

    /// The same, logged in.
    pub async fn login(&mut self) -> Client {
        let mut client = self.connect();
        client.login().await;
        client
    }

    /// Makes another account, with the same password.
    pub async fn add_account(&self, name: &str, quota: Option<u64>) -> (AccountRecord, RootKey) {
        let mut new = NewAccount::with_password(Secret::new(b"secret").unwrap());
        new.quota = quota;
        let name = AccountName::parse(&format!("{name}@localhost")).unwrap();
        self.ctx.directory.create(&name, new).await.unwrap()
    }

    /// The account's name.
    pub fn name(&self) -> &AccountName {
        &self.record.name
    }

    /// The account's key.
    pub fn root(&self) -> &RootKey {
        &self.root
    }

    /// A new token of the account.
    pub async fn token(&self) -> (SlotId, String) {
        let added = self.ctx.directory.add_app_password(&self.record.name, &self.root, "test").await;
        let (info, token) = added.unwrap();
        (info.id, token.to_string())
    }

    /// A new grant of the account, and an access token for these scopes.
    #[allow(dead_code, reason = "not all of those who share this use it")]
    pub async fn access_token(&self, scopes: Scopes) -> (SlotId, String) {
        let added = self.ctx.directory.add_grant(&self.record, &self.root, "test").await;
        let (_, slot, secret) = added.unwrap();
        let at = self.clock.now().after(OAUTH_ACCESS_LIFETIME);
        let (account, client, binding) = (self.record.name.to_string(), [0; 32], [0; 32]);
        let token = GrantToken { account, slot, secret, scopes, at, generation: 1, client, binding };
        let keys = self.ctx.directory.token_keys();
        (slot, token.seal(TokenKind::Access, keys, &*self.ctx.random).to_string())
    }

    pub async fn account(&self) -> Arc<Account> {
        self.ctx.accounts.open(self.record.id, &self.root).await.unwrap()
    }

    /// A message arrives; the inbox if no mailbox is named.
    pub async fn deliver(&self, mailbox: Option<&str>, message: &[u8]) {
        let mut ingest = self.ctx.accounts.ingest(self.record.id).await.unwrap();
        ingest.write(message).await.unwrap();
        let stored = ingest.finish().await.unwrap();
        let delivery = Delivery::to(NOW, mailbox.map(str::to_owned));
        self.ctx.accounts.deliver(self.record.id, &self.record.public, stored, delivery).await.unwrap();
    }

    async fn start_tls(&self, plain: Box<dyn Wire>) -> Box<dyn Wire> {
        let mut roots = RootCertStore::empty();
        roots.add(self.tls.certificate()).unwrap();
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let config =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(roots).with_no_client_auth();
        let connector = TlsConnector::from(Arc::new(config));
        Box::new(connector.connect("localhost".try_into().unwrap(), plain).await.unwrap())
    }
}

/// A session of its own, which ends with its client.
pub fn dial(shared: &Arc<ImapShared>) -> (Client, JoinHandle<()>) {
    let (client, server) = Stream::pair().unwrap();
    let session = tokio::spawn(imap::serve(server, shared.clone()));
    (Client::new(Box::new(client)), session)
}

/// A client's end.
pub struct Client {
    wire: Box<dyn Wire>,
    /// In the place of `wire` once it is compressed.
    deflate: Option<DeflateWire>,
    out: Vec<u8>,
    input: Vec<u8>,
}

impl Client {
    fn new(wire: Box<dyn Wire>) -> Self {
        Client { wire, deflate: None, out: Vec::new(), input: Vec::new() }
    }

    pub async fn login(&mut self) {
        self.login_as("me").await;
    }

    /// As another account on this host.
    pub async fn login_as(&mut self, name: &str) {
        assert!(self.line().await.starts_with("* OK [CAPABILITY IMAP4rev1 "));
        self.send(format!("in LOGIN {name}@localhost secret\r\n").as_bytes()).await;
        let line = self.line().await;
        assert!(line.starts_with("in OK [CAPABILITY"), "{line}");
    }

    fn wire(&mut self) -> &mut dyn Wire {
        match &mut self.deflate {
            Some(deflate) => deflate,
            None => &mut *self.wire,
        }
    }

    /// Requests compression, which must succeed.
    pub async fn compress(&mut self) {
        assert_eq!(self.ok("COMPRESS DEFLATE").await, ["x OK DEFLATE active"]);
        self.begin_compressed();
    }

    /// Compresses from now on.
    pub fn begin_compressed(&mut self) {
        assert!(self.input.is_empty());
        let (nowhere, _) = tokio::io::duplex(1);
        // A compression that has ended stays below the next one.
        let wire = match self.deflate.take() {
            Some(ended) => Box::new(ended),
            None => std::mem::replace(&mut self.wire, Box::new(nowhere)),
        };
        self.deflate = Some(DeflateWire::new(wire));
    }

    /// What is sent from now on is not compressed; what comes is until the server ends it.
    pub fn end_compressed_writing(&mut self) {
        self.deflate.as_mut().unwrap().end_writing();
    }

    /// Speaks TLS from now on.
    pub async fn start_tls(self, world: &TestServer) -> Client {
        Client::new(world.start_tls(self.wire).await)
    }

    pub async fn send(&mut self, bytes: &[u8]) {
        let sent = async {
            self.wire().write_all(bytes).await?;
            self.wire().flush().await
        };
        tokio::time::timeout(TIMEOUT, sent).await.expect("the server takes what is sent").unwrap();
    }

    /// Reads what comes next; how much, none at the end. `None` if nothing comes.
    #[allow(dead_code, reason = "not all of those who share this use it")]
    pub async fn read_into(&mut self, buffer: &mut bytes::BytesMut, within: Duration) -> Option<usize> {
        let read = tokio::time::timeout(within, self.wire().read_buf(buffer)).await;
        // A connection that is reset has ended as well.
        Some(read.ok()?.unwrap_or(0))
    }

    /// Sends a command and gives its responses up to the tagged one, which is last. Literals are
    /// within the lines.
    pub async fn command(&mut self, command: &str) -> Vec<String> {
        self.send(format!("x {command}\r\n").as_bytes()).await;
        self.answer().await
    }

    /// The responses up to the next tagged one.
    pub async fn answer(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let line = self.response().await;
            let line = String::from_utf8_lossy(&line).into_owned();
            let last = line.starts_with("x ");
            lines.push(line);
            if last {
                return lines;
            }
        }
    }

    /// As [`Client::command`], and it must be OK.
    pub async fn ok(&mut self, command: &str) -> Vec<String> {
        let lines = self.command(command).await;
        assert!(lines.last().unwrap().starts_with("x OK"), "{command}: {lines:?}");
        lines
    }

    /// One response with its literals.
    pub async fn response(&mut self) -> Vec<u8> {
        let mut response = Vec::new();
        loop {
            let line = self.line_bytes().await;
            response.extend_from_slice(&line);
            let count = line.strip_suffix(b"}").and_then(|l| {
                let open = l.iter().rposition(|b| *b == b'{')?;
                std::str::from_utf8(&l[open + 1..]).ok()?.parse::<usize>().ok()
            });
            let Some(count) = count else { return response };
            response.extend_from_slice(b"\r\n");
            while self.input.len() < count {
                self.fill().await;
            }
            response.extend(self.input.drain(..count));
        }
    }

    /// So many bytes, with any content.
    #[allow(dead_code, reason = "not all of those who share this use it")]
    pub async fn bytes(&mut self, count: usize) -> Vec<u8> {
        while self.input.len() < count {
            self.fill().await;
        }
        self.input.drain(..count).collect()
    }

    pub async fn line(&mut self) -> String {
        String::from_utf8_lossy(&self.line_bytes().await).into_owned()
    }

    /// The next line; `None` if the server hung up instead.
    pub async fn line_or_end(&mut self) -> Option<String> {
        while !self.input.windows(2).any(|pair| pair == b"\r\n") {
            let read = tokio::time::timeout(TIMEOUT, self.read()).await;
            if !matches!(read.expect("the server answers or hangs up"), Ok(1..)) {
                return None;
            }
        }
        Some(self.line().await)
    }

    async fn line_bytes(&mut self) -> Vec<u8> {
        let mut looked = 0;
        loop {
            if let Some(end) = self.input[looked..].windows(2).position(|pair| pair == b"\r\n") {
                let mut line: Vec<u8> = self.input.drain(..looked + end + 2).collect();
                line.truncate(looked + end);
                return line;
            }
            looked = self.input.len().saturating_sub(1);
            self.fill().await;
        }
    }

    async fn read(&mut self) -> std::io::Result<usize> {
        match &mut self.deflate {
            Some(deflate) => deflate.read_buf(&mut self.input).await,
            None => self.wire.read_buf(&mut self.input).await,
        }
    }

    async fn fill(&mut self) {
        let read = tokio::time::timeout(TIMEOUT, self.read()).await;
        let read = read.expect("the server answers").unwrap();
        assert!(read > 0, "the server hung up after {:?}", String::from_utf8_lossy(&self.input));
    }

    /// What is left until the server hangs up.
    pub async fn rest(&mut self) -> String {
        let all = async {
            while self.read().await? > 0 {}
            Ok::<(), std::io::Error>(())
        };
        tokio::time::timeout(TIMEOUT, all).await.expect("the server hangs up").unwrap();
        String::from_utf8_lossy(&std::mem::take(&mut self.input)).into_owned()
    }

    /// Sends as much as is taken while reading so many lines.
    pub async fn send_and_read(&mut self, mut bytes: &[u8], lines: usize) -> Vec<String> {
        let (mut flushed, mut seen) = (false, 0);
        let both = std::future::poll_fn(|cx| {
            loop {
                let mut moved = false;
                let wire = self.wire();
                if !bytes.is_empty() {
                    if let Poll::Ready(taken) = Pin::new(&mut *wire).poll_write(cx, bytes) {
                        bytes = &bytes[taken.unwrap()..];
                        moved = true;
                    }
                } else if !flushed {
                    flushed = Pin::new(&mut *wire).poll_flush(cx).is_ready();
                }
                let mut space = [0; 8192];
                let mut read = ReadBuf::new(&mut space);
                if let Poll::Ready(done) = Pin::new(wire).poll_read(cx, &mut read) {
                    done.unwrap();
                    assert!(!read.filled().is_empty(), "the server hung up");
                    seen += read.filled().iter().filter(|byte| **byte == b'\n').count();
                    self.input.extend_from_slice(read.filled());
                    moved = true;
                }
                if seen >= lines {
                    return Poll::Ready(());
                }
                if !moved {
                    return Poll::Pending;
                }
            }
        });
        tokio::time::timeout(TIMEOUT, both).await.expect("the server answers");
        let mut got = Vec::with_capacity(lines);
        for line in self.input.split(|byte| *byte == b'\n').take(lines) {
            got.push(String::from_utf8_lossy(line).trim_end().to_owned());
        }
        self.input.clear();
        got
    }

    /// Sends, however long it takes; `false` if the server has hung up.
    pub async fn sends(&mut self, bytes: &[u8]) -> bool {
        let sent = async {
            self.wire().write_all(bytes).await?;
            self.wire().flush().await
        };
        sent.await.is_ok()
    }

    /// Sends nothing more.
    pub async fn close_writing(&mut self) {
        self.wire().shutdown().await.unwrap();
    }

    /// Sends, unless the server has hung up.
    pub async fn try_send(&mut self, bytes: &[u8]) {
        let sent = async {
            self.wire().write_all(bytes).await?;
            self.wire().flush().await
        };
        let _ = tokio::time::timeout(TIMEOUT, sent).await.expect("the server reads or hangs up");
    }

    /// As [`Client::rest`], where the server may hang up on what it did not read.
    pub async fn rest_or_reset(&mut self) -> String {
        let all = async { while matches!(self.read().await, Ok(1..)) {} };
        tokio::time::timeout(TIMEOUT, all).await.expect("the server hangs up");
        String::from_utf8_lossy(&std::mem::take(&mut self.input)).into_owned()
    }

    async fn flush(&mut self) {
        let out = std::mem::take(&mut self.out);
        if !out.is_empty() {
            self.send(&out).await;
        }
    }
}

/// Runs a transcript; panics at the first line that does not hold, with its number.
pub async fn play(name: &str, text: &str) {
    let mut settings = Settings::default();
    let mut quota = None;
    let mut admin = false;
    for set in text.lines().filter_map(|line| line.strip_prefix("set ")) {
        match set.split_once(' ').unwrap() {
            ("message_size", value) => settings.message_size = value.parse().unwrap(),
            ("plaintext_login", "never") => {
                settings.plaintext_login = sealpost_session::settings::PlaintextLogin::Never;
            }
            ("postmaster", value) => settings.postmaster = Some(value.to_owned()),
            ("role", "admin") => admin = true,
            ("filter", value) => {
                settings.filters.push(imap::parse_stored_search(value).unwrap());
            }
            ("quota", value) => quota = Some(value.parse().unwrap()),
            other => panic!("{name}: no such setting: {other:?}"),
        }
    }
    let mut world = TestServer::over(Store::memory(), settings, quota).await;
    if admin {
        world.make_admin().await;
    }
    let mut clients: BTreeMap<usize, Client> = BTreeMap::new();
    let mut kept: BTreeMap<String, String> = BTreeMap::new();
    let token = if text.contains("<token>") { world.token().await.1 } else { String::new() };
    let mut lines = text.lines().enumerate().peekable();
    while let Some((number, line)) = lines.next() {
        let at = format!("{name}:{}", number + 1);
        if line.trim().is_empty() || line.starts_with('#') || line.starts_with("set ") {
            continue;
        }
        let (head, rest) = line.split_once(' ').unwrap_or((line, ""));
        let digit = head.chars().find_map(|c| c.to_digit(10)).unwrap_or(1) as usize;
        let verb = head.replace(|c: char| c.is_ascii_digit(), "");
        if matches!(&*verb, "C:" | "D:" | "B:" | "C|" | "S:" | "S?" | "S!" | "tls")
            && !clients.contains_key(&digit)
        {
            let client = world.connect();
            clients.insert(digit, client);
        }
        if !matches!(&*verb, "C:" | "D:" | "B:" | "C|") {
            for client in clients.values_mut() {
                client.flush().await;
            }
        }
        let mut message = Vec::new();
        if matches!(&*verb, "deliver" | "append") {
            while let Some((_, more)) = lines.next_if(|(_, line)| line.starts_with('|')) {
                message.extend(unescape(more[1..].strip_prefix(' ').unwrap_or(&more[1..])));
                message.extend_from_slice(b"\r\n");
            }
        }
        match &*verb {
            "C:" => {
                let out = &mut clients.get_mut(&digit).unwrap().out;
                out.extend_from_slice(recall(rest, &kept).as_bytes());
                out.extend_from_slice(b"\r\n");
            }
            "D:" => {
                let out = &mut clients.get_mut(&digit).unwrap().out;
                out.extend(unescape(rest));
                out.extend_from_slice(b"\r\n");
            }
            "B:" => {
                let (plain, encoded) = rest.split_once("| ").unwrap_or_else(|| panic!("{at}: no bar"));
                let out = &mut clients.get_mut(&digit).unwrap().out;
                out.extend_from_slice(plain.as_bytes());
                out.extend(base64(&unescape(&encoded.replace("<token>", &token))));
                out.extend_from_slice(b"\r\n");
            }
            "C|" => clients.get_mut(&digit).unwrap().out.extend(unescape(rest)),
            "S:" => {
                let got = expect(&at, clients.get_mut(&digit).unwrap().line()).await;
                match fits(&recall(rest, &kept), &got) {
                    Some(found) => kept.extend(found),
                    None => panic!("{at}:\nexpected {rest:?}\n     got {got:?}"),
                }
            }
            "S?" => loop {
                let got = expect(&at, clients.get_mut(&digit).unwrap().line()).await;
                if let Some(found) = fits(&recall(rest, &kept), &got) {
                    kept.extend(found);
                    break;
                }
            },
            "S!" => {
                let mut client = clients.remove(&digit).unwrap();
                assert_eq!(client.rest().await, "", "{at}: expected the server to hang up");
            }
            "tls" => {
                let plain = clients.remove(&digit).unwrap();
                assert!(plain.input.is_empty(), "{at}: {:?}", plain.input);
                clients.insert(digit, Client::new(world.start_tls(plain.wire).await));
            }
            "login" => {
                let mut client = world.connect();
                let (number, name) = rest.split_once(' ').unwrap_or((rest, "me"));
                client.login_as(name).await;
                clients.insert(number.parse().unwrap_or(1), client);
            }
            "account" => {
                let (name, quota) = rest.split_once(' ').unwrap_or((rest, ""));
                world.add_account(name, quota.parse().ok()).await;
            }
            "deliver" => world.deliver((!rest.is_empty()).then_some(rest), &message).await,
            "append" => {
                let (n, rest) = rest.split_once(' ').unwrap();
                let (tag, rest) = rest.split_once(' ').unwrap();
                let client = clients.get_mut(&n.parse::<usize>().unwrap()).unwrap();
                client.out.extend(format!("{tag} APPEND {rest} {{{}+}}\r\n", message.len()).into_bytes());
                client.out.extend(message);
                client.out.extend_from_slice(b"\r\n");
            }
            _ => panic!("{at}: not a line of a transcript: {line}"),
        }
    }
    for client in clients.values_mut() {
        client.flush().await;
    }
}

async fn expect<T>(at: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(Duration::from_secs(10), future).await {
        Ok(value) => value,
        Err(_) => panic!("{at}: no answer"),
    }
}

/// Whether `pattern` fits the whole of `text`; `<any>` fits anything, and so does `<name:=>`, which keeps it.
fn fits(pattern: &str, text: &str) -> Option<Vec<(String, String)>> {
    let (mut literals, mut names) = (Vec::new(), Vec::new());
    let mut rest = pattern;
    let mut literal = String::new();
    while let Some(at) = rest.find('<') {
        let close = rest[at..].find('>').map(|n| at + n);
        let name = close.map(|close| &rest[at + 1..close]);
        literal.push_str(&rest[..at]);
        match (name, close) {
            (Some(name), Some(close)) if name == "any" || name.ends_with(":=") => {
                literals.push(std::mem::take(&mut literal));
                names.push(name.strip_suffix(":="));
                rest = &rest[close + 1..];
            }
            _ => {
                literal.push('<');
                rest = &rest[at + 1..];
            }
        }
    }
    literal.push_str(rest);
    let mut rest = text.strip_prefix(&*match literals.first() {
        Some(first) => first.clone(),
        None => return (text == literal).then(Vec::new),
    })?;
    literals.push(literal);
    let mut kept = Vec::new();
    for (i, name) in names.iter().enumerate() {
        let next = &literals[i + 1];
        let at = if i + 1 == names.len() { rest.len().checked_sub(next.len())? } else { rest.find(&**next)? };
        if !rest[at..].starts_with(&**next) {
            return None;
        }
        if let Some(name) = name {
            kept.push(((*name).to_owned(), rest[..at].to_owned()));
        }
        rest = &rest[at + next.len()..];
    }
    Some(kept)
}

/// What was kept, in place of its name.
fn recall(line: &str, kept: &BTreeMap<String, String>) -> String {
    kept.iter().fold(line.to_owned(), |line, (name, value)| line.replace(&format!("<{name}>"), value))
}

pub fn base64(bytes: &[u8]) -> Vec<u8> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = Vec::new();
    for group in bytes.chunks(3) {
        let mut padded = [0; 4];
        padded[1..=group.len()].copy_from_slice(group);
        let bits = u32::from_be_bytes(padded);
        let digit = |n: u32| ALPHABET[(bits >> (18 - 6 * n) & 63) as usize];
        out.extend((0..4).map(|n| if n <= group.len() as u32 { digit(n) } else { b'=' }));
    }
    out
}

fn unescape(text: &str) -> Vec<u8> {
    let (mut out, mut bytes) = (Vec::new(), text.bytes());
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        match bytes.next().expect("something follows a backslash") {
            b'r' => out.push(b'\r'),
            b'n' => out.push(b'\n'),
            b't' => out.push(b'\t'),
            b'0' => out.push(0),
            b'x' => {
                let hex = [bytes.next().unwrap(), bytes.next().unwrap()];
                out.push(u8::from_str_radix(std::str::from_utf8(&hex).unwrap(), 16).unwrap());
            }
            other => out.push(other),
        }
    }
    out
}
