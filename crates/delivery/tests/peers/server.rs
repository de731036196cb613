//! A scripted SMTP server: behaves well, except where a script says otherwise.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rcgen::{CertificateParams, Issuer, KeyPair};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use sealpost_delivery::dial::Stream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;

/// A server's scripted action at a command, instead of the usual reply.
#[derive(Debug, Clone)]
pub enum Act {
    /// Sends this line, or several.
    Say(&'static str),
    /// Sends nothing, ever.
    Stall,
    /// Closes the connection.
    Close,
    /// Sends this reply and closes the connection.
    SayAndClose(&'static str),
    /// Sends this again and again.
    Endless(&'static str),
    /// Sends a byte of a reply every minute.
    Drip,
}

/// A server; clones share the input it received.
#[derive(Clone, Default)]
pub struct Server {
    extensions: Vec<&'static str>,
    acts: HashMap<&'static str, Act>,
    tls: Option<TlsAcceptor>,
    implicit_tls: bool,
    silent: bool,
    http: Option<&'static str>,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    commands: Mutex<Vec<String>>,
    messages: Mutex<Vec<String>>,
    sent: AtomicUsize,
}

impl Server {
    pub fn new(extensions: &[&'static str]) -> Self {
        Server { extensions: extensions.to_vec(), ..Server::default() }
    }

    /// One that offers the usual extensions, except TLS.
    pub fn modern() -> Self {
        Server::new(&[
            "PIPELINING",
            "SIZE 1000000",
            "8BITMIME",
            "SMTPUTF8",
            "DSN",
            "ENHANCEDSTATUSCODES",
            "CHUNKING",
        ])
    }

    /// At `verb`, or at `greeting`, `message` (its end) or `tls` (the handshake), does `act`.
    pub fn at(mut self, verb: &'static str, act: Act) -> Self {
        self.acts.insert(verb, act);
        self
    }

    pub fn offering(mut self, extension: &'static str) -> Self {
        self.extensions.push(extension);
        self
    }

    /// Offers STARTTLS with `identity`.
    pub fn with_tls(mut self, identity: &Identity) -> Self {
        self.tls = Some(identity.acceptor());
        self.offering("STARTTLS")
    }

    /// Begins with TLS.
    pub fn with_implicit_tls(mut self, identity: &Identity) -> Self {
        (self.tls, self.implicit_tls) = (Some(identity.acceptor()), true);
        self
    }

    /// A web site with TLS that answers every request with `response`.
    pub fn web(identity: &Identity, response: &'static str) -> Self {
        Server { http: Some(response), ..Server::default().with_implicit_tls(identity) }
    }

    /// Packets to it vanish.
    pub fn silent() -> Self {
        Server { silent: true, ..Server::default() }
    }

    pub fn is_silent(&self) -> bool {
        self.silent
    }

    /// All commands, of all connections.
    pub fn commands(&self) -> Vec<String> {
        self.seen.commands.lock().unwrap().clone()
    }

    /// Messages as they came in, by DATA still with their dots.
    pub fn messages(&self) -> Vec<String> {
        self.seen.messages.lock().unwrap().clone()
    }

    /// Bytes that it could send.
    pub fn bytes_sent(&self) -> usize {
        self.seen.sent.load(Ordering::SeqCst)
    }

    pub async fn serve(self, stream: Box<dyn Stream>) {
        let mut peer = Peer { stream, input: Vec::new(), server: self };
        // Nothing is left to do when the client has gone.
        let _ = peer.run().await;
    }
}

/// One connection.
struct Peer {
    stream: Box<dyn Stream>,
    input: Vec<u8>,
    server: Server,
}

/// The connection is over.
struct Over;

impl Peer {
    async fn run(&mut self) -> Result<(), Over> {
        if self.server.implicit_tls {
            self.accept_tls().await?;
        }
        if let Some(response) = self.server.http {
            while !self.line().await?.is_empty() {}
            self.say(response).await?;
            return self.stream.shutdown().await.map_err(|_| Over);
        }
        self.act_or("greeting", "220 mx.d.example ESMTP\r\n").await?;
        loop {
            let line = self.line().await?;
            self.server.seen.commands.lock().unwrap().push(line.clone());
            let verb = line.split([' ', ':']).next().unwrap_or_default().to_ascii_uppercase();
            match verb.as_str() {
                "EHLO" => {
                    let mut reply = "250-mx.d.example greets you\r\n".to_owned();
                    for extension in &self.server.extensions {
                        reply += &format!("250-{extension}\r\n");
                    }
                    reply += "250 HELP\r\n";
                    self.act_or("EHLO", &reply).await?;
                }
                "DATA" => {
                    if self.act_or("DATA", "354 go ahead\r\n").await? {
                        self.data().await?;
                    }
                }
                "BDAT" => self.chunk(&line).await?,
                "STARTTLS" => {
                    if self.act_or("STARTTLS", "220 go ahead\r\n").await? {
                        self.accept_tls().await?;
                    }
                }
                "AUTH" => _ = self.act_or("AUTH", "235 2.7.0 welcome\r\n").await?,
                "QUIT" => {
                    self.say("221 bye\r\n").await?;
                    return Err(Over);
                }
                verb => {
                    // Recipients and senders are distinguished by their addresses.
                    let whole = self.server.acts.keys().find(|act| line.contains(**act)).copied();
                    let verb = whole.or_else(|| self.server.acts.keys().find(|act| **act == verb).copied());
                    self.act_or(verb.unwrap_or("OTHER"), "250 2.0.0 fine\r\n").await?;
                }
            }
        }
    }

    /// Runs the scripted action, else sends `usual`. Whether it was that, or an equivalent reply.
    async fn act_or(&mut self, at: &str, usual: &str) -> Result<bool, Over> {
        let Some(act) = self.server.acts.get(at).cloned() else {
            self.say(usual).await?;
            return Ok(true);
        };
        match act {
            Act::Say(text) => {
                self.say(text).await?;
                Ok(text.starts_with('2') || text.starts_with('3'))
            }
            Act::Stall => std::future::pending().await,
            Act::Close => Err(Over),
            Act::SayAndClose(text) => {
                self.say(text).await?;
                Err(Over)
            }
            Act::Endless(text) => loop {
                self.say(text).await?;
            },
            Act::Drip => loop {
                self.say("2").await?;
                tokio::time::sleep(std::time::Duration::from_secs(60)).await;
            },
        }
    }

    async fn say(&mut self, text: &str) -> Result<(), Over> {
        self.stream.write_all(text.as_bytes()).await.map_err(|_| Over)?;
        self.stream.flush().await.map_err(|_| Over)?;
        self.server.seen.sent.fetch_add(text.len(), Ordering::SeqCst);
        Ok(())
    }

    async fn more(&mut self) -> Result<(), Over> {
        match self.stream.read_buf(&mut self.input).await {
            Ok(length) if length > 0 => Ok(()),
            _ => Err(Over),
        }
    }

    /// The next line, without its end, which has to be CRLF.
    async fn line(&mut self) -> Result<String, Over> {
        loop {
            if let Some(end) = self.input.iter().position(|&b| b == b'\n') {
                let line: Vec<u8> = self.input.drain(..=end).collect();
                let line = line.strip_suffix(b"\r\n").expect("a line that ends in CRLF");
                return Ok(String::from_utf8_lossy(line).into_owned());
            }
            self.more().await?;
        }
    }

    async fn data(&mut self) -> Result<(), Over> {
        if let Some(Act::Close) = self.server.acts.get("body") {
            return Err(Over);
        }
        if let Some(Act::SayAndClose(text)) = self.server.acts.get("body").cloned() {
            self.say(text).await?;
            return Err(Over);
        }
        if let Some(Act::Stall) = self.server.acts.get("body") {
            std::future::pending::<()>().await;
        }
        let mut message = String::new();
        loop {
            let line = self.line().await?;
            if line == "." {
                break;
            }
            message += &line;
            message += "\r\n";
        }
        self.server.seen.messages.lock().unwrap().push(message);
        self.act_or("message", "250 2.0.0 taken\r\n").await.map(|_| ())
    }

    async fn chunk(&mut self, line: &str) -> Result<(), Over> {
        let mut words = line.split(' ').skip(1);
        let size: usize = words.next().unwrap().parse().unwrap();
        let last = words.next() == Some("LAST");
        while self.input.len() < size {
            self.more().await?;
        }
        let chunk: Vec<u8> = self.input.drain(..size).collect();
        {
            let mut messages = self.server.seen.messages.lock().unwrap();
            if messages.last().is_none_or(|message| message.ends_with('\0')) {
                messages.push(String::new());
            }
            let message = messages.last_mut().unwrap();
            *message += &String::from_utf8_lossy(&chunk);
            // A mark that the message is whole; no message in these tests has a NUL.
            if last {
                message.push('\0');
            }
        }
        if last {
            self.act_or("message", "250 2.0.0 taken\r\n").await.map(|_| ())
        } else {
            self.act_or("BDAT", "250 2.0.0 go on\r\n").await.map(|_| ())
        }
    }

    async fn accept_tls(&mut self) -> Result<(), Over> {
        if self.server.acts.contains_key("tls") {
            self.act_or("tls", "").await?;
        }
        let Some(acceptor) = self.server.tls.clone() else { return Err(Over) };
        let (placeholder, _) = tokio::io::duplex(1);
        let plain = std::mem::replace(&mut self.stream, Box::new(placeholder));
        self.stream = Box::new(acceptor.accept(plain).await.map_err(|_| Over)?);
        Ok(())
    }
}

/// A certificate with its key, and the authority that issued it.
pub struct Identity {
    pub certificate: CertificateDer<'static>,
    pub authority: CertificateDer<'static>,
    key: Vec<u8>,
}

impl Identity {
    /// For `name`, valid when the tests are.
    pub fn new(name: &str) -> Self {
        Self::between(name, 2026, 2028)
    }

    /// For `name`, valid from the first to the second year.
    pub fn between(name: &str, from: i32, until: i32) -> Self {
        let authority_key = KeyPair::generate().unwrap();
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let authority_certificate = authority.self_signed(&authority_key).unwrap();
        let issuer = Issuer::new(authority, authority_key);
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(from, 1, 1);
        params.not_after = rcgen::date_time_ymd(until, 1, 1);
        let certificate = params.signed_by(&key, &issuer).unwrap();
        Identity {
            certificate: certificate.der().clone(),
            authority: authority_certificate.der().clone(),
            key: key.serialize_der(),
        }
    }

    /// A store that trusts its authority.
    pub fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.clone()).unwrap();
        roots
    }

    fn acceptor(&self) -> TlsAcceptor {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.clone()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone(), self.authority.clone()], key)
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }
}
