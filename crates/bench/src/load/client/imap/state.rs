//! The state of an IMAP client, and how each line changes it.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use super::Client;
use crate::load::scan::Line;
use crate::load::scenario::Expect;
use crate::load::wire::Sink;

/// Lines that are kept for the bench's own commands.
const LINES_KEPT: usize = 20_000;
/// Characters of a non-IMAP greeting that are shown.
const GREETING_CHARS: usize = 80;

/// A command that was sent and is not answered.
#[derive(Debug)]
pub struct Outstanding {
    pub tag: u64,
    pub name: Rc<str>,
    pub from: Duration,
    pub sent: u64,
    pub received: u64,
    pub expect: Option<Expect>,
    pub matched: u64,
    pub accept_no: bool,
    pub quiet: bool,
    /// A part of it waits for a continuation request.
    pub unsent: bool,
    /// The deadline for its answer.
    pub due: Duration,
}

/// Server capabilities, as far as they matter here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Non-synchronizing literals of any size (RFC 7888).
    pub literal_plus: bool,
    /// Such of up to 4,096 bytes.
    pub literal_minus: bool,
    /// Several messages in one APPEND (RFC 3502).
    pub multi_append: bool,
    /// Where personal mailboxes are (RFC 2342).
    pub namespace: bool,
    /// Leaving a mailbox without EXPUNGE (RFC 3691).
    pub unselect: bool,
}

/// A session's state.
pub struct MailboxState {
    client: Rc<Client>,
    pub greeted: bool,
    /// The greeting of a server that speaks another protocol.
    pub stranger: Option<String>,
    pub bye: bool,
    /// A continuation request came.
    pub go_on: bool,
    pub outstanding: VecDeque<Outstanding>,
    pub capabilities: Option<Capabilities>,
    pub exists: u32,
    pub uid_next: u32,
    pub mod_seq: u64,
    /// A notification came in IDLE.
    pub notified: bool,
    /// In IDLE: the next delivery without a notification.
    pub idle: Option<u64>,
    /// How the last command ended.
    pub last_ok: bool,
    pub last_text: String,
    /// Untagged lines, if the caller wants them.
    pub captured: Option<Vec<String>>,
    /// Bytes since the last tagged response.
    bytes: u64,
}

impl MailboxState {
    pub fn new(client: Rc<Client>) -> Self {
        MailboxState {
            client,
            greeted: false,
            stranger: None,
            bye: false,
            go_on: false,
            outstanding: VecDeque::new(),
            capabilities: None,
            exists: 0,
            uid_next: 1,
            mod_seq: 1,
            notified: false,
            idle: None,
            last_ok: false,
            last_text: String::new(),
            captured: None,
            bytes: 0,
        }
    }

    fn untagged(&mut self, text: &[u8]) {
        if !self.greeted {
            self.greeted = true;
            self.status(text);
            // The server refuses the connection (RFC 3501 §7.1.5).
            self.bye = starts_with(text, b"BYE");
            return;
        }
        if let Some(captured) = self.captured.as_mut().filter(|captured| captured.len() < LINES_KEPT) {
            captured.push(String::from_utf8_lossy(text).into_owned());
        }
        let (word, rest) = split(text);
        let number = std::str::from_utf8(word).ok().and_then(|word| word.parse::<u32>().ok());
        let (word, _) = if number.is_some() { split(rest) } else { (word, rest) };
        if let Some(command) = self.outstanding.front_mut() {
            let matches =
                command.expect.as_ref().is_some_and(|e| e.word.as_bytes().eq_ignore_ascii_case(word));
            command.matched += u64::from(matches);
        }
        match (number, word.to_ascii_uppercase().as_slice()) {
            (Some(exists), b"EXISTS") => self.exists(exists),
            (Some(_), b"EXPUNGE") => self.exists = self.exists.saturating_sub(1),
            (None, b"OK" | b"NO" | b"BAD" | b"PREAUTH") => self.code(rest),
            (None, b"BYE") => {
                self.bye = true;
                self.last_text = String::from_utf8_lossy(rest).into_owned();
            }
            (None, b"CAPABILITY") => self.capabilities = Some(Capabilities::of(rest)),
            _ => {}
        }
    }

    /// RFC 3501 §7.3.1: the size of the mailbox, sent again whenever it grows.
    fn exists(&mut self, exists: u32) {
        let grown = exists.saturating_sub(self.exists);
        self.exists = exists;
        self.uid_next = self.uid_next.saturating_add(grown);
        self.notified = true;
        let Some(mut next) = self.idle else { return };
        let thread = &self.client.thread;
        for _ in 0..grown {
            if let Some(sent) = thread.shared.notices.notified(self.client.account, &mut next) {
                thread.ok("notification", sent, 0, 0);
            }
        }
        self.idle = Some(next);
    }

    /// Response codes that matter: `[UIDNEXT 5]`, `[HIGHESTMODSEQ 7]`, `[CAPABILITY …]`.
    fn code(&mut self, text: &[u8]) {
        let Some(inner) = text.strip_prefix(b"[") else { return };
        let inner = &inner[..memchr::memchr(b']', inner).unwrap_or(inner.len())];
        let (name, rest) = split(inner);
        let number = || std::str::from_utf8(rest).ok().and_then(|n| n.parse::<u64>().ok());
        match name.to_ascii_uppercase().as_slice() {
            b"UIDNEXT" => self.uid_next = number().and_then(|n| n.try_into().ok()).unwrap_or(self.uid_next),
            b"HIGHESTMODSEQ" => self.mod_seq = number().unwrap_or(self.mod_seq),
            b"CAPABILITY" => self.capabilities = Some(Capabilities::of(rest)),
            _ => {}
        }
    }

    fn status(&mut self, text: &[u8]) {
        let (_, rest) = split(text);
        self.code(rest);
        self.last_text.clear();
        self.last_text.push_str(&String::from_utf8_lossy(rest));
    }

    fn tagged(&mut self, text: &[u8]) {
        let (tag, rest) = split(text);
        let tag = tag
            .strip_prefix(b"a")
            .and_then(|n| std::str::from_utf8(n).ok())
            .and_then(|n| n.parse::<u64>().ok());
        let at = tag.and_then(|tag| self.outstanding.iter().position(|command| command.tag == tag));
        let Some(mut command) = at.and_then(|at| self.outstanding.remove(at)) else {
            let text = String::from_utf8_lossy(text).into_owned();
            return self.client.thread.error("(any)", "unexpected", || text);
        };
        command.received += std::mem::take(&mut self.bytes);
        self.last_ok = starts_with(rest, b"OK");
        if self.last_ok {
            self.code(split(rest).1);
        }
        if !self.last_ok || command.quiet {
            self.status(rest);
        }
        self.count(&command, rest);
    }

    fn count(&self, command: &Outstanding, rest: &[u8]) {
        if command.quiet {
            return;
        }
        let thread = &self.client.thread;
        let kind = String::from_utf8_lossy(split(rest).0).to_ascii_uppercase();
        let fits = command.expect.as_ref().is_none_or(|expect| expect.count == command.matched);
        match &*kind {
            "OK" if command.unsent => thread.error(&command.name, "wrong", || {
                let said = String::from_utf8_lossy(rest);
                format!("it was answered before all of it was sent: {said}")
            }),
            "OK" if fits => thread.ok(&command.name, command.from, command.sent, command.received),
            "NO" if command.accept_no => {
                thread.ok(&command.name, command.from, command.sent, command.received)
            }
            "OK" => thread.error(&command.name, "wrong", || {
                let expect = command.expect.as_ref();
                let (count, word) = expect.map_or((0, ""), |expect| (expect.count, &*expect.word));
                format!("{} {word} responses instead of {count}", command.matched)
            }),
            _ => thread.error(&command.name, &kind, || String::from_utf8_lossy(rest).into_owned()),
        }
    }
}

impl Sink for MailboxState {
    fn line(&mut self, line: Line<'_>) {
        self.bytes += line.bytes;
        if !line.first {
            return;
        }
        match line.text {
            [b'*', b' ', rest @ ..] => self.untagged(rest),
            // RFC 3501 §7.1: a greeting is untagged.
            text if !self.greeted => {
                let said = String::from_utf8_lossy(text);
                self.stranger.get_or_insert_with(|| said.chars().take(GREETING_CHARS).collect());
            }
            [b'+', ..] => self.go_on = true,
            text => self.tagged(text),
        }
    }
}

impl Capabilities {
    fn of(text: &[u8]) -> Self {
        let text = text.to_ascii_uppercase();
        let has = |name: &[u8]| text.split(|b| *b == b' ').any(|word| word == name);
        Capabilities {
            literal_plus: has(b"LITERAL+"),
            literal_minus: has(b"LITERAL-"),
            multi_append: has(b"MULTIAPPEND"),
            namespace: has(b"NAMESPACE"),
            unselect: has(b"UNSELECT") || has(b"IMAP4REV2"),
        }
    }
}

fn split(text: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memchr(b' ', text) {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &[]),
    }
}

fn starts_with(text: &[u8], word: &[u8]) -> bool {
    split(text).0.eq_ignore_ascii_case(word)
}
