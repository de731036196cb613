//! An IMAP client of the server in this process.

use std::collections::BTreeSet;
use std::sync::Arc;

use sealpost_base::SeededRandom;
use sealpost_imap_session::{ImapShared, serve};
use sealpost_session::net::Stream;
use sealpost_vault::server_key::ServerKeys;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::server::TestServer;

pub struct Client(BufReader<Stream>);

impl Client {
    /// Logged in to the account, with that mailbox selected.
    pub async fn select(server: &TestServer, mailbox: &str) -> Self {
        let mut client = Self::login(server).await;
        client.command(&format!("SELECT {mailbox}")).await;
        client
    }

    /// Logged in to the account.
    pub async fn login(server: &TestServer) -> Self {
        let (ours, theirs) = Stream::pair().unwrap();
        let key = ServerKeys::generate(&SeededRandom::new(1));
        tokio::spawn(serve(theirs, Arc::new(ImapShared::new(server.ctx.clone(), &key))));
        let mut client = Client(BufReader::new(ours));
        client.line().await;
        client.command(&format!("LOGIN {} secret", server.record.name)).await;
        client
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.0.read_line(&mut line).await.unwrap() > 0, "the connection ended");
        line
    }

    /// Sends a command and returns its responses up to the tagged one.
    pub async fn command(&mut self, command: &str) -> Vec<String> {
        self.0.write_all(format!("x {command}\r\n").as_bytes()).await.unwrap();
        self.responses().await
    }

    async fn responses(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let line = self.line().await;
            let is_last = line.starts_with("x ");
            lines.push(line);
            if is_last {
                return lines;
            }
        }
    }

    pub async fn append(&mut self, message: &[u8]) {
        let command = format!("x APPEND INBOX {{{}+}}\r\n", message.len());
        self.0.write_all(&[command.as_bytes(), message, b"\r\n"].concat()).await.unwrap();
        self.responses().await;
    }

    /// The EMAILIDs of all messages in the selected mailbox that are not flagged `\Deleted`.
    pub async fn emails(&mut self) -> BTreeSet<String> {
        self.command("NOOP").await;
        let lines = self.command("UID FETCH 1:* (FLAGS EMAILID)").await;
        let shown = lines.iter().filter(|line| line.contains(" FETCH (") && !line.contains("\\Deleted"));
        shown.filter_map(|line| object_id(line, "EMAILID")).collect()
    }
}

/// The id of that kind in a response: `EMAILID (…)`.
pub fn object_id(line: &str, kind: &str) -> Option<String> {
    let (_, rest) = line.split_once(&format!("{kind} ("))?;
    Some(rest.split_once(')')?.0.to_owned())
}
