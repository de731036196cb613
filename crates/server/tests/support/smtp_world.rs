//! A server in this process with a few accounts, for SMTP and LMTP.

use std::collections::HashMap;
use std::sync::Arc;

use futures::TryStreamExt;
use sealpost_base::{FakeClock, Result, SeededRandom, Timestamp};
use sealpost_directory::{AccountName, AccountRecord, AliasName, NewAccount, Secret};
use sealpost_server::tls::Tls;
use sealpost_session::net::Stream;
use sealpost_session::{Context, Settings};
use sealpost_smtp::client::Protocol;
use sealpost_smtp_session::{self as smtp, Service, SmtpShared};
use sealpost_vault::server_key::ServerKeys;
use sealpost_vault::{RootKey, Store};
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::transcript::{self, Wire};

/// 2026-11-20 12:00:00 UTC.
const NOW: Timestamp = Timestamp(1_795_176_000_000);

/// A server that is not listening anywhere: connections are made by [`TestServer::connect_as`].
pub struct TestServer {
    pub ctx: Arc<Context>,
    smtp: Arc<SmtpShared>,
    pub clock: Arc<FakeClock>,
    protocol: Protocol,
    tls: Tls,
    owners: HashMap<String, (AccountRecord, RootKey)>,
    sessions: JoinSet<()>,
    /// Which message of which account the lines `|` are compared with, and how much of it was.
    compared: Option<(String, Vec<u8>)>,
}

impl TestServer {
    /// With the accounts `me`, `you` and `them`, all `@localhost`; the aliases `all@` (everyone)
    /// and `also@` (me), and `away@`, which leads to another server; and a catch-all for `example.org` that leads to `them`.
    pub async fn new(settings: Settings) -> Self {
        Self::over(Store::memory(), settings).await
    }

    /// The same in `store`.
    pub async fn over(store: Store, mut settings: Settings) -> Self {
        settings.hostname = "localhost".to_owned();
        let clock = Arc::new(FakeClock::new(NOW));
        let random = Arc::new(SeededRandom::new(1));
        let key = ServerKeys::generate(&*random);
        let tls = Tls::ephemeral("localhost").unwrap();
        let ctx =
            Context::new(settings, store, key, Some(tls.config().clone()), clock.clone(), random).unwrap();
        let mut owners = HashMap::new();
        for name in ["me@localhost", "you@localhost", "them@localhost"] {
            let new = NewAccount::with_password(Secret::new(b"secret").unwrap());
            let owner = ctx.directory.create(&AccountName::parse(name).unwrap(), new).await.unwrap();
            owners.insert(name.to_owned(), owner);
        }
        for (alias, targets) in [
            ("all@localhost", &["me@localhost", "you@localhost", "them@localhost"][..]),
            ("also@localhost", &["me@localhost"]),
            ("@example.org", &["them@localhost"]),
        ] {
            let targets: Vec<_> = targets.iter().map(|target| target.parse().unwrap()).collect();
            ctx.directory.set_alias(&AliasName::parse(alias).unwrap(), &targets).await.unwrap();
        }
        let outside = ctx.directory.targets(&["jane@elsewhere.example".to_owned()]).await.unwrap();
        ctx.directory.set_alias(&AliasName::parse("away@localhost").unwrap(), outside).await.unwrap();
        let ctx = Arc::new(ctx);
        TestServer {
            smtp: Arc::new(SmtpShared::new(ctx.clone(), None)),
            ctx,
            clock,
            protocol: Protocol::Smtp,
            tls,
            owners,
            sessions: JoinSet::new(),
            compared: None,
        }
    }

    /// A session with a client on this machine.
    pub fn connect_as(&mut self, protocol: Protocol) -> Stream {
        let (client, server) = Stream::pair().unwrap();
        let service = match protocol {
            Protocol::Smtp => Service::Smtp,
            Protocol::Lmtp => Service::Lmtp,
        };
        self.sessions.spawn(smtp::serve(server, self.smtp.clone(), service));
        client
    }

    /// The messages in a user's inbox, oldest first, as they are stored.
    pub async fn inbox(&self, name: &str) -> Result<Vec<Vec<u8>>> {
        let (record, root) = &self.owners[name];
        let account = self.ctx.accounts.open(record.id, root).await?;
        account.refresh().await?;
        let messages: Vec<_> = {
            let state = account.state();
            let rows = state.inbox().all_rows();
            rows.filter_map(|row| state.message(row.message)).collect()
        };
        let mut raws = Vec::new();
        for message in messages {
            let pieces: Vec<_> = account.reader(&message).raw(0..u64::MAX).try_collect().await?;
            raws.push(pieces.concat());
        }
        Ok(raws)
    }

    /// Waits until every session has ended.
    pub async fn all_ended(&mut self) {
        while let Some(ended) = self.sessions.join_next().await {
            ended.unwrap();
        }
    }
}

/// Runs a transcript with the settings at its top.
pub async fn play(name: &str, text: &str) {
    let mut settings = Settings::default();
    let mut protocol = Protocol::Smtp;
    for (key, value) in transcript::settings(text) {
        match key {
            "protocol" => protocol = if value == "lmtp" { Protocol::Lmtp } else { Protocol::Smtp },
            "message_size" => settings.message_size = value.parse().unwrap(),
            "recipients" => settings.recipients = value.parse().unwrap(),
            "postmaster" => settings.postmaster = Some(value.to_owned()),
            other => panic!("{name}: no such setting: {other}"),
        }
    }
    let mut world = TestServer::new(settings).await;
    world.protocol = protocol;
    transcript::run(name, text, &mut world).await;
    if let Some((_, rest)) = &world.compared {
        assert!(rest.is_empty(), "{name}: the message goes on: {:?}", String::from_utf8_lossy(rest));
    }
}

impl transcript::TestServer for TestServer {
    async fn connect(&mut self, _n: usize) -> Box<dyn Wire> {
        Box::new(self.connect_as(self.protocol))
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

    /// `quota me@localhost 100`: so many bytes may be there. `inbox me@localhost 2`: two messages
    /// are there. `message me@localhost 1`: the lines that follow as `| line` are all of that
    /// message, each with CRLF; `*` stands for anything in a line.
    async fn line(&mut self, line: &str) {
        if let Some(pattern) = line.strip_prefix('|') {
            let pattern = pattern.strip_prefix(' ').unwrap_or(pattern);
            let (what, rest) = self.compared.as_mut().expect("`message` comes first");
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
            ["quota", name, bytes] => {
                let limit = |record: &mut AccountRecord| {
                    record.quota = Some(bytes.parse().unwrap());
                    Ok(())
                };
                self.ctx.directory.update(&AccountName::parse(name).unwrap(), limit).await.unwrap();
            }
            ["inbox", name, count] => {
                let messages = self.inbox(name).await.unwrap();
                assert_eq!(messages.len(), count.parse::<usize>().unwrap(), "messages of {name}");
            }
            ["message", name, number] => {
                let number: usize = number.parse().unwrap();
                let messages = self.inbox(name).await.unwrap();
                self.compared = Some((line.to_owned(), messages[number - 1].clone()));
            }
            _ => panic!("not a line of a transcript: {line}"),
        }
    }
}
