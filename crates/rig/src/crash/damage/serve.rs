//! A server in normal operation, on a directory that may be damaged, and what its clients receive.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::super::model::content;
use crate::imap::{Imap, Reply};
use crate::lmtp::{Lmtp, dotted};
use crate::server::{Endpoint, PASSWORD, Ready, Sealpost, Server, Start};

/// Free ports, and no options that a round would wait for.
const CONFIGURATION: &str = "hostname = \"mx.localhost\"\ndomain = \"localhost\"\n\
    [listen]\nsmtp = []\nimaps = []\nimap = [\"127.0.0.1:0\"]\nlmtp = [\"127.0.0.1:0\"]\n[store]\nreserve = \"0\"\n";

/// `sealpost serve`, with its log in the file beside its directory that ends in `.log`.
pub struct Serving {
    /// The binary.
    pub sealpost: Sealpost,
}

/// The line that it prints.
#[derive(Deserialize)]
struct Listening {
    imap: Vec<Endpoint>,
    lmtp: Vec<Endpoint>,
}

impl Start for Serving {
    fn name(&self) -> &'static str {
        "Sealpost"
    }

    fn version(&self) -> String {
        self.sealpost.version()
    }

    fn command(&self, dir: &Path, _accounts: &[String]) -> Result<Command> {
        let config = dir.with_extension("toml");
        std::fs::write(&config, CONFIGURATION)?;
        let mut command = Command::new(&self.sealpost.path);
        command.arg("--dir").arg(dir).arg("--config").arg(config).args(["serve", "--json"]);
        command.stderr(File::create(dir.with_extension("log"))?);
        Ok(command)
    }

    async fn ready(&self, child: &mut Child, dir: &Path) -> Result<Ready> {
        let stdout = child.stdout.take().context("no pipe from the server")?;
        let mut lines = BufReader::new(stdout).lines();
        let line = lines.next_line().await?.context("the server ended before it was ready")?;
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let listening: Listening =
            serde_json::from_str(&line).with_context(|| format!("not the line of JSON we expect: {line}"))?;
        let first = |endpoints: Vec<Endpoint>| endpoints.into_iter().next().context("it does not listen");
        Ok(Ready {
            dir: dir.to_owned(),
            pid: child.id().context("the server has ended")?,
            account: String::new(),
            password: PASSWORD.to_owned(),
            imap: first(listening.imap)?,
            imaps: None,
            smtp: None,
            submission: None,
            submissions: None,
            lmtp: first(listening.lmtp)?,
            http: None,
        })
    }

    fn import(&self, dir: &Path, account: &str, mailbox: &str, maildir: &Path) -> Result<()> {
        self.sealpost.import(dir, account, mailbox, maildir)
    }
}

/// Delivers a message; returns whether it was acknowledged.
pub async fn deliver_one(server: &Server, account: &str, id: &str) -> bool {
    let Ok(mut lmtp) = Lmtp::connect(server.lmtp).await else { return false };
    let answers = lmtp.deliver(&[account], &dotted(&content(id))).await;
    answers.is_ok_and(|answers| answers.iter().all(|answer| answer.is_ok()))
}

/// The messages of an account that are served completely and byte for byte; none if it refuses the
/// login.
pub async fn read_all(server: &Server, account: &str) -> BTreeSet<String> {
    read(server, account).await.unwrap_or_default()
}

async fn read(server: &Server, account: &str) -> Result<BTreeSet<String>> {
    let mut imap = Imap::login(server.imap, account, PASSWORD).await?;
    let listed = imap.ok("LIST \"\" *").await?;
    let mut whole = BTreeSet::new();
    for line in &listed.untagged {
        let line = String::from_utf8_lossy(line);
        let Some(mailbox) = line.rsplit(' ').next() else { continue };
        imap.ok(&format!("EXAMINE {mailbox}")).await?;
        let uids = imap.ok("UID SEARCH ALL").await?;
        let uids: Vec<u32> = uids.untagged.iter().flat_map(|line| numbers(line)).collect();
        for some in uids.chunks(20) {
            let reply = fetch(&mut imap, some).await?;
            if reply.is_ok() {
                whole.extend(bodies(&reply));
                continue;
            }
            for one in some {
                let reply = fetch(&mut imap, &[*one]).await?;
                whole.extend(reply.is_ok().then(|| bodies(&reply)).into_iter().flatten());
            }
        }
    }
    Ok(whole)
}

async fn fetch(imap: &mut Imap, uids: &[u32]) -> Result<Reply> {
    imap.run(&format!("UID FETCH {} (UID BODY.PEEK[])", crate::imap::set(uids))).await
}

fn numbers(line: &[u8]) -> Vec<u32> {
    let line = String::from_utf8_lossy(line);
    let found = line.strip_prefix("SEARCH").unwrap_or_default();
    found.split_whitespace().filter_map(|number| number.parse().ok()).collect()
}

/// The ids of those whose bytes are as sent.
fn bodies(reply: &Reply) -> Vec<String> {
    let id = |line: &Vec<u8>| {
        let (_, bytes) = super::super::verify::body(line)?;
        let at = memchr::memmem::find(bytes, b"\r\nSubject: ")? + b"\r\nSubject: ".len();
        let end = at + memchr::memchr(b'\r', &bytes[at..])?;
        let id = std::str::from_utf8(&bytes[at..end]).ok()?.to_owned();
        bytes.ends_with(&content(&id)).then_some(id)
    };
    reply.untagged.iter().filter_map(id).collect()
}
