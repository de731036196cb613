//! A server in this process with a few accounts and a queue, for submission. Nothing leaves the
//! queue: tests examine it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use sealpost_base::{FakeClock, Position, SeededRandom, Timestamp};
use sealpost_directory::{AccountName, AccountRecord, AliasName, NewAccount, Secret};
use sealpost_imap_session::{self as imap, ImapShared};
use sealpost_queue::envelope::{Mail, Notify};
use sealpost_queue::runner::QueuedMessage;
use sealpost_queue::{MailId, Opening, Queue};
use sealpost_server::tls::Tls;
use sealpost_session::net::Stream;
use sealpost_session::settings::PlaintextLogin;
use sealpost_session::{Context, Settings};
use sealpost_smtp_session::{self as smtp, Service, SmtpShared};
use sealpost_submission::domain_keys::DomainKeys;
use sealpost_submission::outbox::{Outbox, OutboxParts, SendingLimits};
use sealpost_vault::entry::LogKey;
use sealpost_vault::mail_key::MailKeys;
use sealpost_vault::server_key::ServerKeys;
use sealpost_vault::{RootKey, Store};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::transcript::{self, Wire};

/// 2026-11-20 12:00:00 UTC.
const NOW: Timestamp = Timestamp(1_795_176_000_000);

/// A server that is not listening anywhere: connections are made by [`TestServer::connect_to`].
pub struct TestServer {
    pub ctx: Arc<Context>,
    pub clock: Arc<FakeClock>,
    pub outbox: Outbox,
    smtp: Arc<SmtpShared>,
    imap: Arc<ImapShared>,
    opener: Opener,
    running: JoinHandle<()>,
    service: Service,
    tls: Tls,
    owners: HashMap<String, (AccountRecord, RootKey)>,
    sessions: JoinSet<()>,
    /// Which mail the lines `|` are compared with, and how much of it was.
    compared: Option<(String, Vec<u8>)>,
}

/// What opens the queue, again after each restart.
struct Opener {
    log_key: LogKey,
    mail_keys: MailKeys,
    limits: SendingLimits,
}

impl Opener {
    async fn open(&self, ctx: &Context) -> (Outbox, JoinHandle<()>) {
        let opening = Opening {
            store: ctx.store.clone(),
            node: sealpost_queue::node_id("test"),
            name: "test".to_owned(),
            log_key: self.log_key.clone(),
            mail_keys: self.mail_keys.clone(),
            clock: ctx.clock.clone(),
            random: ctx.random.clone(),
            budget: ctx.budget.clone(),
            known: Position::ZERO,
        };
        let queue = Queue::open(opening).await.unwrap();
        let running = queue.clone();
        let running = tokio::spawn(async move { drop(running.run().await) });
        let outbox = Outbox::new(OutboxParts {
            queue,
            directory: ctx.directory.clone(),
            domain_keys: DomainKeys::new(ctx.store.clone(), self.mail_keys.clone()),
            mail_keys: self.mail_keys.clone(),
            clock: ctx.clock.clone(),
            random: ctx.random.clone(),
            budget: ctx.budget.clone(),
            hostname: ctx.hostname.clone(),
            limits: self.limits,
        });
        (outbox, running)
    }
}

impl TestServer {
    /// With the accounts `me`, `you` and `them`, all `@localhost`; the aliases `all@` (everyone)
    /// and `also@` (me).
    pub async fn new(settings: Settings, limits: SendingLimits) -> Self {
        Self::over(Store::memory(), settings, limits).await
    }

    /// The same in `store`.
    pub async fn over(store: Store, mut settings: Settings, limits: SendingLimits) -> Self {
        settings.hostname = "localhost".to_owned();
        let clock = Arc::new(FakeClock::new(NOW));
        let random = Arc::new(SeededRandom::new(1));
        let key = ServerKeys::generate(&*random);
        let opener = Opener { log_key: LogKey::of(&key), mail_keys: MailKeys::generate(&*random), limits };
        let tls = Tls::ephemeral("localhost").unwrap();
        let of_tls = Some(tls.config().clone());
        let ctx = Context::new(settings, store, key.clone(), of_tls, clock.clone(), random).unwrap();
        let mut owners = HashMap::new();
        for name in ["me@localhost", "you@localhost", "them@localhost"] {
            let new = NewAccount::with_password(Secret::new(b"secret").unwrap());
            let owner = ctx.directory.create(&AccountName::parse(name).unwrap(), new).await.unwrap();
            owners.insert(name.to_owned(), owner);
        }
        for (alias, targets) in
            [("all@localhost", &["me@localhost", "you@localhost"][..]), ("also@localhost", &["me@localhost"])]
        {
            let targets: Vec<_> = targets.iter().map(|target| target.parse().unwrap()).collect();
            ctx.directory.set_alias(&AliasName::parse(alias).unwrap(), &targets).await.unwrap();
        }
        let ctx = Arc::new(ctx);
        let (outbox, running) = opener.open(&ctx).await;
        TestServer {
            smtp: Arc::new(SmtpShared::new(ctx.clone(), Some(outbox.clone()))),
            imap: Arc::new(ImapShared::new(ctx.clone(), &key)),
            ctx,
            clock,
            outbox,
            opener,
            running,
            service: Service::Submission,
            tls,
            owners,
            sessions: JoinSet::new(),
            compared: None,
        }
    }

    /// A session with a client on this machine.
    pub fn connect_to(&mut self, service: Service) -> Stream {
        let (client, server) = Stream::pair().unwrap();
        self.sessions.spawn(smtp::serve(server, self.smtp.clone(), service));
        client
    }

    /// Serves IMAP too, from here on: submission offers BURL.
    pub fn serve_imap(&mut self) {
        let smtp = SmtpShared::new(self.ctx.clone(), Some(self.outbox.clone()));
        self.smtp = Arc::new(smtp.with_content_urls(self.imap.clone()));
    }

    /// An IMAP session.
    pub fn connect_imap(&mut self) -> Stream {
        let (client, server) = Stream::pair().unwrap();
        self.sessions.spawn(imap::serve(server, self.imap.clone()));
        client
    }

    /// A session of submission with a client at that address.
    pub fn connect_from(&mut self, client: &str) -> Stream {
        let (ours, theirs) = Stream::pair().unwrap();
        let (client, local) = (format!("{client}:40000"), "192.0.2.1:587");
        let theirs = theirs.made_for(client.parse().unwrap(), local.parse().unwrap());
        self.sessions.spawn(smtp::serve(theirs, self.smtp.clone(), Service::Submission));
        ours
    }

    /// A session of submission that speaks TLS.
    pub async fn connect_over_tls(&mut self) -> Box<dyn Wire> {
        let mut stream = self.connect_to(Service::Submission);
        Dialog::new(&mut stream).expect(&[("EHLO client.example", "250 "), ("STARTTLS", "220 ")]).await;
        transcript::TestServer::start_tls(self, Box::new(stream)).await
    }

    /// Waits until every session has ended.
    pub async fn all_ended(&mut self) {
        while let Some(ended) = self.sessions.join_next().await {
            ended.unwrap();
        }
    }

    /// Mails in the queue.
    pub fn queued(&self) -> usize {
        self.outbox.queue().state().len()
    }

    /// A mail and its bytes.
    pub async fn mail(&self, id: &str) -> (Arc<Mail>, Vec<u8>) {
        let queue = self.outbox.queue();
        let mail = queue.read(id.parse::<MailId>().unwrap()).await.unwrap();
        let message = QueuedMessage { queue: queue.clone(), mail: mail.clone() };
        let (bytes, whole) = message.beginning(usize::MAX).await.unwrap();
        assert!(whole);
        (mail, bytes)
    }

    /// Makes an alias; targets in domains without accounts are outside.
    pub async fn alias(&self, name: &str, targets: &[&str]) {
        let targets: Vec<_> = targets.iter().map(|target| (*target).to_owned()).collect();
        let targets = self.ctx.directory.targets(&targets).await.unwrap();
        self.ctx.directory.set_alias(&AliasName::parse(name).unwrap(), targets).await.unwrap();
    }

    /// The messages in an inbox, oldest first, as they are stored.
    pub async fn inbox(&self, name: &str) -> Vec<String> {
        let (record, root) = &self.owners[name];
        let account = self.ctx.accounts.open(record.id, root).await.unwrap();
        account.refresh().await.unwrap();
        let messages: Vec<_> = {
            let state = account.state();
            state.inbox().all_rows().filter_map(|row| state.message(row.message)).collect()
        };
        let mut texts = Vec::new();
        for message in messages {
            let pieces: Vec<_> = account.reader(&message).raw(0..u64::MAX).try_collect().await.unwrap();
            texts.push(String::from_utf8(pieces.concat()).unwrap());
        }
        texts
    }

    /// The queue is closed and opened again.
    pub async fn restart(&mut self) {
        self.outbox.queue().close();
        (&mut self.running).await.unwrap();
        (self.outbox, self.running) = self.opener.open(&self.ctx).await;
        self.smtp = Arc::new(SmtpShared::new(self.ctx.clone(), Some(self.outbox.clone())));
    }

    /// Changes an account's record.
    pub async fn update(&self, name: &str, change: impl Fn(&mut AccountRecord)) {
        let change = |record: &mut AccountRecord| {
            change(record);
            Ok(())
        };
        self.ctx.directory.update(&AccountName::parse(name).unwrap(), change).await.unwrap();
    }

    /// The record of an account as it was created, and its key.
    pub fn owner(&self, name: &str) -> &(AccountRecord, RootKey) {
        &self.owners[name]
    }
}

/// A client that says one line after the other.
pub struct Dialog<'a, W>(&'a mut W);

impl<'a, W: Wire> Dialog<'a, W> {
    pub fn new(wire: &'a mut W) -> Self {
        Dialog(wire)
    }

    /// Sends a line and reads its whole reply, several lines with `\n` between them.
    pub async fn ask(&mut self, line: &str) -> String {
        use tokio::io::AsyncWriteExt;
        self.0.write_all(format!("{line}\r\n").as_bytes()).await.unwrap();
        self.0.flush().await.unwrap();
        self.reply().await
    }

    /// Reads a reply.
    pub async fn reply(&mut self) -> String {
        use tokio::io::AsyncReadExt;
        let mut lines: Vec<String> = Vec::new();
        loop {
            let mut line = Vec::new();
            while !line.ends_with(b"\r\n") {
                // Longer than a queue tries to store an entry: with a paused clock that passes at once.
                let byte = tokio::time::timeout(Duration::from_secs(120), self.0.read_u8()).await;
                line.push(byte.expect("an answer").expect("the server is there"));
            }
            let line = String::from_utf8(line).unwrap().trim_end_matches("\r\n").to_owned();
            let is_last = line.as_bytes()[3] == b' ';
            lines.push(line);
            if is_last {
                return lines.join("\n");
            }
        }
    }

    /// The greeting, then each line with the beginning of the last line of its reply.
    pub async fn expect(&mut self, lines: &[(&str, &str)]) {
        let greeting = self.reply().await;
        assert!(greeting.starts_with("220 "), "{greeting}");
        self.go_on(lines).await;
    }

    /// The same without a greeting.
    pub async fn go_on(&mut self, lines: &[(&str, &str)]) {
        for (line, expected) in lines {
            let reply = self.ask(line).await;
            let last = reply.lines().last().unwrap();
            assert!(last.starts_with(expected), "{line:.60}: expected {expected:?}, got {reply:?}");
        }
    }
}

/// Runs a transcript with the settings at its top.
pub async fn play(name: &str, text: &str) {
    let (mut settings, mut limits) = (Settings::default(), SendingLimits::default());
    let mut service = Service::Submission;
    for (key, value) in transcript::settings(text) {
        match key {
            "service" => service = if value == "smtp" { Service::Smtp } else { Service::Lmtp },
            "message_size" => {
                settings.message_size = value.parse().unwrap();
                limits.message_size = settings.message_size;
            }
            "recipients" => settings.recipients = value.parse().unwrap(),
            "plaintext_login" => settings.plaintext_login = PlaintextLogin::Never,
            "hour" => limits.hour = value.parse().unwrap(),
            "day" => limits.day = value.parse().unwrap(),
            "forwards" => limits.forwards = value.parse().unwrap(),
            "postmaster" => settings.postmaster = Some(value.to_owned()),
            other => panic!("{name}: no such setting: {other}"),
        }
    }
    let mut world = TestServer::new(settings, limits).await;
    world.service = service;
    transcript::run(name, text, &mut world).await;
    if let Some((_, rest)) = &world.compared {
        assert!(rest.is_empty(), "{name}: the message goes on: {:?}", String::from_utf8_lossy(rest));
    }
}

impl transcript::TestServer for TestServer {
    async fn connect(&mut self, _n: usize) -> Box<dyn Wire> {
        Box::new(self.connect_to(self.service))
    }

    async fn start_tls(&mut self, plain: Box<dyn Wire>) -> Box<dyn Wire> {
        let mut roots = RootCertStore::empty();
        roots.add(self.tls.certificate()).unwrap();
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let config =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(roots).with_no_client_auth();
        let connector = TlsConnector::from(Arc::new(config));
        Box::new(connector.connect("localhost".try_into().unwrap(), plain).await.unwrap())
    }

    /// - `queued 2`: so many mails are in the queue.
    /// - `envelope Q0 from=… to=…`: what is known of a mail, as [`envelope`] writes it; `*` stands
    ///   for anything.
    /// - `mail Q0`: the lines that follow as `| line` are all of that mail, each with CRLF.
    /// - `quota me@localhost 100`, `allow me@localhost info@example.org`, `limit me@localhost 10 20`
    ///   change an account; `advance 3600` moves the clock; `restart` opens the queue again.
    /// - `alias info@localhost me@localhost jane@elsewhere.example` makes an alias;
    ///   `inbox me@localhost 2`: so many messages are in an inbox.
    async fn line(&mut self, line: &str) {
        if let Some(pattern) = line.strip_prefix('|') {
            let pattern = pattern.strip_prefix(' ').unwrap_or(pattern);
            let (what, rest) = self.compared.as_mut().expect("`mail` comes first");
            let end = rest.windows(2).position(|pair| pair == b"\r\n").unwrap_or(rest.len());
            let got = String::from_utf8_lossy(&rest[..end]).replace('\0', "\\0");
            let got = got.replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t");
            assert!(transcript::matches(pattern, &got), "{what}: expected {pattern:?}, got {got:?}");
            rest.drain(..(end + 2).min(rest.len()));
            return;
        }
        if let Some((what, rest)) = self.compared.take() {
            assert!(rest.is_empty(), "{what}: the message goes on: {:?}", String::from_utf8_lossy(&rest));
        }
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["queued", count] => assert_eq!(self.queued(), count.parse::<usize>().unwrap(), "mails queued"),
            ["envelope", id, ..] => {
                let (got, expected) = (envelope(&self.mail(id).await.0), words[2..].join(" "));
                assert!(transcript::matches(&expected, &got), "{id}: expected {expected:?}, got {got:?}");
            }
            ["mail", id] => self.compared = Some((line.to_owned(), self.mail(id).await.1)),
            ["quota", name, bytes] => {
                let bytes = bytes.parse().unwrap();
                self.update(name, |record| record.quota = Some(bytes)).await;
            }
            ["allow", name, address] => {
                let address = AliasName::parse(address).unwrap();
                self.update(name, |record| {
                    record.change_sending(|sending| sending.allow(&address)).unwrap();
                })
                .await;
            }
            ["limit", name, hour, day] => {
                let (hour, day) = (hour.parse().unwrap(), day.parse().unwrap());
                let change = |sending: &mut sealpost_directory::Sending| {
                    (sending.hour, sending.day) = (Some(hour), Some(day));
                };
                self.update(name, |record| record.change_sending(change)).await;
            }
            ["advance", seconds] => self.clock.advance(Duration::from_secs(seconds.parse().unwrap())),
            ["restart"] => self.restart().await,
            ["alias", name, ..] => self.alias(name, &words[2..]).await,
            ["inbox", name, count] => {
                assert_eq!(self.inbox(name).await.len(), count.parse::<usize>().unwrap(), "in {name}");
            }
            _ => panic!("not a line of a transcript: {line}"),
        }
    }
}

/// The parts of an envelope that differ from what a plain mail has.
fn envelope(mail: &Mail) -> String {
    let mut text = format!("from=<{}>", mail.from);
    for recipient in &mail.recipients {
        text += &format!(" to=<{}>", recipient.address);
        if let Some(notify) = recipient.notify {
            let asked =
                [(Notify::SUCCESS, "SUCCESS"), (Notify::FAILURE, "FAILURE"), (Notify::DELAY, "DELAY")];
            let asked: Vec<_> =
                asked.iter().filter(|(one, _)| notify.has(*one)).map(|(_, name)| *name).collect();
            text += &format!(" notify={}", if asked.is_empty() { "NEVER".into() } else { asked.join(",") });
        }
        if let Some(orcpt) = &recipient.orcpt {
            text += &format!(" orcpt={orcpt}");
        }
    }
    if let Some(ret) = mail.ret {
        text += &format!(" ret={ret:?}");
    }
    if let Some(envid) = &mail.envid {
        text += &format!(" envid={envid}");
    }
    if let Some(release) = mail.release {
        text += &format!(" release=+{}", release.since(mail.accepted).as_secs());
    }
    text += &format!(" tls={:?} received={}", mail.tls, mail.facts.received);
    text += if mail.facts.eight_bit { " 8bit" } else { "" };
    text += if mail.facts.utf8_header { " utf8" } else { "" };
    text
}
