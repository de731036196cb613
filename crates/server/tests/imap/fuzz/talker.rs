//! A client that says what the grammar comes up with, and checks how it is answered.

use std::sync::Arc;
use std::time::Duration;

use sealpost_base::SeededRandom;
use sealpost_imap::client::{Event, Limits, ResponseDecoder};
use sealpost_imap::types::{Response, Status};
use sealpost_imap_session::ImapShared;
use tokio::task::JoinHandle;

use super::grammar::{Grammar, Piece};
use crate::imap_world::{Client, dial};

/// How long a command may take where several builds share the machine.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Commands of one connection, at most; another one follows.
const COMMANDS: u32 = 60;

pub struct Talker {
    imap: Arc<ImapShared>,
    account: &'static str,
    name: String,
    grammar: Grammar,
    random: SeededRandom,
    connection: Option<Connection>,
    /// Completions with OK, NO and BAD.
    pub completed: [u32; 3],
    story: Vec<String>,
}

struct Connection {
    client: Client,
    session: JoinHandle<()>,
    decoder: ResponseDecoder,
    commands: u32,
    /// The server sent BYE.
    bye: bool,
}

/// What came from the server.
enum Heard {
    Completion(String),
    Continue,
    Other,
    /// It hung up.
    End,
}

impl Talker {
    pub async fn new(imap: &Arc<ImapShared>, account: &'static str, name: String, seed: u64) -> Self {
        let (random, grammar) = (SeededRandom::new(seed), Grammar::new(seed ^ 0x5eed));
        Talker {
            imap: imap.clone(),
            account,
            name,
            grammar,
            random,
            connection: None,
            completed: [0; 3],
            story: Vec::new(),
        }
    }

    fn fail(&self, what: &str) -> ! {
        let from = self.story.len().saturating_sub(40);
        panic!("{}: {what}\n{}", self.name, self.story[from..].join("\n"));
    }

    /// Some commands, at once or one.
    pub async fn step(&mut self) {
        if self.connection.is_none() {
            self.connect().await;
        }
        match self.random.below(12) {
            0..=2 => self.pipeline().await,
            3 if self.random.below(8) == 0 => self.vanish().await,
            _ => self.one().await,
        }
        let over = self.connection.as_ref().is_some_and(|c| c.commands > COMMANDS);
        if over {
            self.end().await;
        }
    }

    async fn connect(&mut self) {
        let (client, session) = dial(&self.imap);
        let decoder = ResponseDecoder::new(Limits::default());
        self.story.push("-- connects".to_owned());
        self.connection = Some(Connection { client, session, decoder, commands: 0, bye: false });
        let greeting = self.hear().await;
        if !matches!(greeting, Heard::Other) {
            self.fail("no greeting");
        }
        // Some never log in.
        if self.random.below(12) > 0 {
            let login = format!("in LOGIN {}@localhost secret\r\n", self.account);
            self.say(login.as_bytes()).await;
            self.completed("in").await;
            self.grammar.uid_only = self.random.below(10) == 0;
            if self.grammar.uid_only {
                self.say(b"uo ENABLE UIDONLY\r\n").await;
                self.completed("uo").await;
            }
            // Most mailboxes have messages.
            if self.random.below(8) > 0 {
                self.say(b"ap APPEND INBOX {18+}\r\nSubject: x\r\n\r\nab\r\n\r\nse SELECT INBOX\r\n").await;
                self.completed("ap").await;
                self.completed("se").await;
            }
        }
    }

    fn tag(&mut self) -> String {
        let Some(connection) = &mut self.connection else { return String::new() };
        connection.commands += 1;
        format!("t{}", connection.commands)
    }

    /// One command, whose literals may wait for the server.
    async fn one(&mut self) {
        let tag = self.tag();
        let pieces = self.grammar.command();
        self.say(format!("{tag} ").as_bytes()).await;
        for piece in pieces {
            match piece {
                Piece::Text(text) => self.say(&text).await,
                Piece::Literal { bytes, wait: false, binary } => {
                    let sign = if binary { "~" } else { "" };
                    self.say(format!("{sign}{{{}+}}\r\n", bytes.len()).as_bytes()).await;
                    self.say(&bytes).await;
                }
                Piece::Literal { bytes, wait: true, binary } => {
                    let sign = if binary { "~" } else { "" };
                    self.say(format!("{sign}{{{}}}\r\n", bytes.len()).as_bytes()).await;
                    match self.until_continue(&tag).await {
                        true => self.say(&bytes).await,
                        false => return,
                    }
                }
            }
        }
        self.say(b"\r\n").await;
        self.completed(&tag).await;
    }

    /// Several commands without waiting for anything.
    async fn pipeline(&mut self) {
        let (mut all, mut tags) = (Vec::new(), Vec::new());
        for _ in 0..2 + self.random.below(6) {
            let tag = self.tag();
            all.extend_from_slice(format!("{tag} ").as_bytes());
            for piece in self.grammar.unattended() {
                match piece {
                    Piece::Text(text) => all.extend_from_slice(&text),
                    Piece::Literal { bytes, binary, .. } => {
                        let sign = if binary { "~" } else { "" };
                        all.extend_from_slice(format!("{sign}{{{}+}}\r\n", bytes.len()).as_bytes());
                        all.extend_from_slice(&bytes);
                    }
                }
            }
            all.extend_from_slice(b"\r\n");
            tags.push(tag);
        }
        self.say(&all).await;
        for tag in tags {
            self.completed(&tag).await;
        }
    }

    /// Hangs up in the middle of something.
    async fn vanish(&mut self) {
        let half = self.grammar.half();
        self.say(&half).await;
        self.story.push("-- vanishes".to_owned());
        self.close().await;
    }

    /// Says goodbye, and sees that the session ends.
    pub async fn end(&mut self) {
        if self.connection.is_none() {
            return;
        }
        let tag = self.tag();
        self.say(format!("{tag} LOGOUT\r\n").as_bytes()).await;
        self.completed(&tag).await;
        if self.connection.as_ref().is_some_and(|connection| !connection.bye) {
            self.fail("no BYE for LOGOUT");
        }
        self.close().await;
    }

    async fn close(&mut self) {
        let Some(Connection { client, session, .. }) = self.connection.take() else { return };
        drop(client);
        match tokio::time::timeout(TIMEOUT, session).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.fail(&format!("the session panicked: {error}")),
            Err(_) => self.fail("the session does not end"),
        }
    }

    async fn say(&mut self, bytes: &[u8]) {
        let Some(connection) = &mut self.connection else { return };
        self.story.push(format!("C: {}", String::from_utf8_lossy(bytes).escape_debug()));
        // One that the server has ended takes nothing more.
        connection.client.try_send(bytes).await;
    }

    /// Whether the server sends a continuation request, and has not completed the command instead.
    async fn until_continue(&mut self, tag: &str) -> bool {
        loop {
            match self.hear().await {
                Heard::Continue => return true,
                Heard::Completion(completed) if completed == tag => return false,
                Heard::Completion(other) => self.fail(&format!("{other} is completed, and not {tag}")),
                Heard::Other => {}
                Heard::End => {
                    self.ended().await;
                    return false;
                }
            }
        }
    }

    /// Waits for the completion of that command, which must be the next one.
    async fn completed(&mut self, tag: &str) {
        while self.connection.is_some() {
            match self.hear().await {
                Heard::Completion(completed) if completed == tag => return,
                Heard::Completion(other) => self.fail(&format!("{other} is completed, and not {tag}")),
                // Something waits for a line: IDLE, AUTHENTICATE.
                Heard::Continue => self.say(b"DONE\r\n").await,
                Heard::Other => {}
                Heard::End => self.ended().await,
            }
        }
    }

    /// The server hung up: it must have said so.
    async fn ended(&mut self) {
        if self.connection.as_ref().is_some_and(|connection| !connection.bye) {
            self.fail("the connection ended without BYE");
        }
        self.close().await;
    }

    /// The next response.
    async fn hear(&mut self) -> Heard {
        loop {
            let Some(connection) = &mut self.connection else { return Heard::End };
            match connection.decoder.next() {
                Some(Event::Broken(why)) => self.fail(&format!("a response cannot be read: {why}")),
                Some(Event::Response(Response::Status { tag, status, code, text })) => {
                    self.story.push(format!("S: {tag:?} {status:?} {code:?} {text}"));
                    connection.bye |= tag.is_none() && status == Status::Bye;
                    if let (Some(_), Status::Ok | Status::No | Status::Bad) = (&tag, status) {
                        let at =
                            [Status::Ok, Status::No, Status::Bad].iter().position(|known| *known == status);
                        self.completed[at.unwrap_or(0)] += 1;
                    }
                    return match tag {
                        Some(tag) => Heard::Completion(tag.to_string()),
                        None => Heard::Other,
                    };
                }
                Some(Event::Response(Response::Continue(text))) => {
                    self.story.push(format!("S: + {text}"));
                    return Heard::Continue;
                }
                Some(event) => {
                    let mut said = format!("S: {event:?}");
                    said.truncate(said.floor_char_boundary(300));
                    self.story.push(said);
                    if let Event::Response(Response::Enabled(names)) = &event {
                        let utf8 = ["IMAP4REV2", "UTF8=ACCEPT"];
                        if names.iter().any(|name| utf8.contains(&name.as_str().to_uppercase().as_str())) {
                            connection.decoder.set_utf8(true);
                        }
                    }
                    return Heard::Other;
                }
                None => {
                    let read = connection.client.read_into(connection.decoder.buffer(), TIMEOUT).await;
                    match read {
                        Some(0) => return Heard::End,
                        Some(_) => {}
                        None => self.fail("no answer"),
                    }
                }
            }
        }
    }
}
