//! A client in one of the dialects, which acts at random and relies on the updates.

mod doing;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sealpost_account::state::Mailbox;
use sealpost_account::{Account, AccountState};
use sealpost_base::{Position, SeededRandom, Uid};
use sealpost_imap_session::ImapShared;
use tokio::task::JoinHandle;

use super::belief::{Items, Messages, Slot, numbers, set};
use super::dialect::Dialect;
use crate::imap_world::{Client, dial};

/// The mailbox of that name in the log it is in: a share's is its inbox.
pub fn mailbox_of<'a>(state: &'a AccountState, name: &str) -> &'a Mailbox {
    let share = state.about().is_some();
    if share { state.inbox() } else { state.mailbox_named(name).unwrap() }
}

/// The selected mailbox.
struct Selected {
    name: &'static str,
    read_only: bool,
    uid_validity: u32,
    messages: Messages,
    /// The HIGHESTMODSEQ up to which the client believes that it knows everything (RFC 7162 §6).
    highest: u64,
    /// UIDs that were reported as `\Recent`.
    recent: BTreeSet<u32>,
}

/// What a client keeps while it is away.
#[derive(Clone, Default)]
struct Memory {
    uid_validity: u32,
    highest: u64,
    slots: BTreeMap<u32, Slot>,
    /// Numbers and the UIDs they had.
    places: Vec<(u32, u32)>,
}

/// What a mailbox really has.
pub struct Truth {
    pub uid_validity: u32,
    pub highest: u64,
    /// UID, flags, mod-sequence.
    pub rows: Vec<(u32, BTreeSet<String>, u64)>,
}

/// What may happen during a command.
struct Command<'a> {
    text: &'a str,
    /// Expunges may be reported (RFC 3501 §7.4.1, RFC 7162 §3.2.10.2).
    expunges: bool,
    /// FETCH responses are all unasked for.
    unsolicited: bool,
    /// VANISHED (EARLIER) may be reported.
    earlier: bool,
    /// A FETCH response was seen.
    fetched: bool,
    code: Option<u64>,
    modseq: u64,
    /// Messages whose flags were reported, by number or UID.
    told: BTreeSet<u32>,
    modified: BTreeSet<u32>,
    /// UIDs in VANISHED (EARLIER).
    gone_earlier: BTreeSet<u32>,
    /// UIDs in VANISHED.
    vanished: BTreeSet<u32>,
}

/// What an account may do with the second of its mailboxes, which may be another account's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Given {
    All,
    /// Read it.
    Look,
    Nothing,
}

/// The user of the session, and its mailboxes.
#[derive(Debug, Clone, Copy)]
pub struct User {
    pub account: &'static str,
    pub mailboxes: [&'static str; 2],
}

/// The account to which everything belongs.
pub const OWNER: User = User { account: "me", mailboxes: ["INBOX", "Archive"] };

/// A client.
pub struct Believer {
    name: String,
    pub user: User,
    pub given: Given,
    imap: Arc<ImapShared>,
    client: Client,
    /// The server's end of it.
    session: JoinHandle<()>,
    pub dialect: Dialect,
    random: SeededRandom,
    selected: Option<Selected>,
    memory: BTreeMap<&'static str, Memory>,
    /// Mailbox, UIDVALIDITY and UIDs that were recent in a session that was not read-only, one set each.
    pub recents: Vec<(&'static str, u32, BTreeSet<u32>)>,
    story: Vec<String>,
}

impl Believer {
    pub async fn new(imap: &Arc<ImapShared>, user: User, dialect: Dialect, name: String, seed: u64) -> Self {
        let (client, session) = dial(imap);
        let mut believer = Believer {
            name,
            user,
            given: Given::All,
            imap: imap.clone(),
            client,
            session,
            dialect,
            random: SeededRandom::new(seed),
            selected: None,
            memory: BTreeMap::new(),
            recents: Vec::new(),
            story: Vec::new(),
        };
        believer.begin().await;
        believer.select("INBOX", false).await;
        believer
    }

    async fn begin(&mut self) {
        self.client.login_as(self.user.account).await;
        for command in self.dialect.setup() {
            let completion = self.run(command).await;
            self.check(completion.starts_with("x OK"), &completion);
        }
    }

    fn fail(&self, what: &str) -> ! {
        let from = self.story.len().saturating_sub(80);
        panic!("{} ({:?}): {what}\n{}", self.name, self.dialect, self.story[from..].join("\n"));
    }

    fn check(&self, holds: bool, what: &str) {
        if !holds {
            self.fail(what);
        }
    }

    fn sure<T>(&self, result: Result<T, String>) -> T {
        result.unwrap_or_else(|what| self.fail(&what))
    }

    fn below(&self, n: usize) -> usize {
        self.random.below(n.max(1) as u64) as usize
    }

    fn one<T: Copy>(&self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// Sends a command, believes the responses, gives the completion.
    async fn run(&mut self, text: &str) -> String {
        self.run_command(text).await.0
    }

    async fn run_command<'a>(&mut self, text: &'a str) -> (String, Command<'a>) {
        self.story.push(format!("C: {text}"));
        let lines = self.client.command(text).await;
        self.believe(text, lines)
    }

    fn believe<'a>(&mut self, text: &'a str, lines: Vec<String>) -> (String, Command<'a>) {
        let numbered = ["FETCH", "STORE", "SEARCH"].iter().any(|name| text.starts_with(name));
        let mut command = Command {
            text,
            expunges: self.dialect == Dialect::Notify || !numbered && !text.starts_with("UID SEARCH 1:"),
            unsolicited: !text.contains("FETCH"),
            earlier: text.contains("VANISHED") || text.contains("QRESYNC ("),
            fetched: false,
            code: None,
            modseq: 0,
            told: BTreeSet::new(),
            modified: BTreeSet::new(),
            gone_earlier: BTreeSet::new(),
            vanished: BTreeSet::new(),
        };
        for line in &lines {
            self.story.push(format!("S: {line}"));
            let result = self.response(line, &mut command);
            self.sure(result);
        }
        if self.dialect.modseq()
            && let Some(selected) = &mut self.selected
        {
            // RFC 7162 §6
            let believed = command.code.unwrap_or(command.modseq.max(selected.highest));
            let before = std::mem::replace(&mut selected.highest, believed);
            self.check(believed >= before, "the client believed too much before");
        }
        (lines.last().cloned().unwrap_or_default(), command)
    }

    fn response(&mut self, line: &str, command: &mut Command<'_>) -> Result<(), String> {
        if let Some((_, rest)) = line.split_once("[HIGHESTMODSEQ ") {
            command.code = Some(rest.split(']').next().unwrap().parse().unwrap());
        }
        if let Some((_, rest)) = line.split_once("[MODIFIED ") {
            command.modified = numbers(rest.split(']').next().unwrap()).into_iter().collect();
        }
        let Some(selected) = &mut self.selected else {
            let data = ["EXISTS", "EXPUNGE", "FETCH", "UIDFETCH", "RECENT"];
            let unexpected = data.iter().any(|word| line.split(' ').nth(2) == Some(word));
            return if unexpected { Err(format!("nothing is selected: {line}")) } else { Ok(()) };
        };
        let dialect = self.dialect;
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words[..] {
            ["*", "OK", code, ..] if code == "[UNSEEN" && dialect.uid_only() => {
                return Err("a message number".into());
            }
            ["*", n, "EXISTS"] => selected.messages.exists(n.parse().unwrap())?,
            // RFC 9051, Appendix E: there are none.
            ["*", _, "RECENT"] if dialect == Dialect::Rev2 => return Err("RECENT".into()),
            ["*", n, "RECENT"] if n.parse::<usize>().unwrap() > selected.messages.len() => {
                return Err("more recent messages than messages".into());
            }
            ["*", n, "EXPUNGE"] => {
                if !command.expunges || dialect.vanished() {
                    return Err("no EXPUNGE here".into());
                }
                selected.messages.expunge(n.parse().unwrap())?;
            }
            ["*", "VANISHED", "(EARLIER)", uids] => {
                if !command.earlier || !dialect.qresync() || command.fetched {
                    return Err("no VANISHED (EARLIER) here".into());
                }
                for uid in numbers(uids) {
                    command.gone_earlier.insert(uid);
                    if selected.messages.by_uid(uid).is_some() {
                        return Err(format!("VANISHED (EARLIER) {uid}, which is there"));
                    }
                }
            }
            ["*", "VANISHED", uids] => {
                if !command.expunges || !dialect.vanished() {
                    return Err("no VANISHED here".into());
                }
                for uid in numbers(uids) {
                    command.vanished.insert(uid);
                    selected.messages.vanish(uid)?;
                }
            }
            ["*", n, name @ ("FETCH" | "UIDFETCH"), rest] => {
                command.fetched = true;
                let n: u32 = n.parse().unwrap();
                let items = Items::parse(rest);
                if name == "FETCH" {
                    selected.messages.fetch(n as usize, &items)?;
                } else {
                    selected.messages.uid_fetch(n, &items)?;
                }
                let named = (name == "UIDFETCH").then_some(n).or(items.uid);
                if let Some(name) = if command.text.starts_with("UID") { named } else { Some(n) } {
                    if items.flags.is_some() {
                        command.told.insert(name);
                    } else {
                        // Earlier reports are about this client's own change.
                        command.told.remove(&name);
                    }
                }
                if items.recent && dialect == Dialect::Rev2 {
                    return Err("\\Recent".into());
                }
                if let (Some(uid), true) = (named, items.recent && !selected.read_only) {
                    selected.recent.insert(uid);
                }
                command.modseq = command.modseq.max(items.modseq.unwrap_or(0));
                // RFC 7162 §3.2.4, RFC 9051 §7.5.2
                if command.unsolicited && dialect.modseq() && items.modseq.is_none() {
                    return Err("a response without MODSEQ".into());
                }
                if command.unsolicited && (dialect.modseq() || dialect == Dialect::Rev2) && named.is_none() {
                    return Err("a response without UID".into());
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Hangs up, perhaps without waiting for a reply, and reconnects with its state.
    async fn reconnect(&mut self) {
        if let Some(Selected { read_only: false, .. }) = &self.selected {
            let moving =
                format!("x UID MOVE 1:9 {}\r\nx UID STORE 1:* -FLAGS (\\Seen)\r\n", self.user.mailboxes[1]);
            let unheard = self
                .one(&["", "x UID STORE 1:* +FLAGS.SILENT ($One)\r\n", "x EXPUNGE\r\n", &moving])
                .to_owned();
            self.story.push(format!("-- {unheard:?}, unheard"));
            self.client.send(unheard.as_bytes()).await;
        }
        self.story.push("-- hangs up".into());
        self.come_back().await;
    }

    async fn come_back(&mut self) {
        self.leave();
        let (client, session) = dial(&self.imap);
        self.client = client;
        std::mem::replace(&mut self.session, session).await.unwrap();
        self.begin().await;
        let name = self.one(&self.readable());
        self.select(name, false).await;
    }

    fn readable(&self) -> Vec<&'static str> {
        let [own, shared] = self.user.mailboxes;
        if self.given == Given::Nothing { vec![own] } else { vec![own, shared] }
    }

    /// The mailboxes that may be changed.
    fn writable(&self) -> Vec<&'static str> {
        let [own, shared] = self.user.mailboxes;
        if self.given == Given::All { vec![own, shared] } else { vec![own] }
    }

    /// Whether the selected mailbox was taken away.
    pub fn is_cut_off(&self) -> bool {
        let name = self.selected.as_ref().map(|selected| selected.name);
        name.is_some_and(|name| !self.readable().contains(&name))
    }

    /// The server ends a session whose mailbox was taken away (RFC 4314 §5.1.1), at any command.
    async fn cut_off(&mut self) {
        self.story.push("C: NOOP, cut off".into());
        self.client.try_send(b"x NOOP\r\n").await;
        let rest = self.client.rest_or_reset().await;
        self.check(rest.contains("* BYE "), &format!("not cut off: {rest}"));
        // Nor may it be opened any more.
        self.come_back().await;
        let completion = self.run(&format!("STATUS {} (MESSAGES)", self.user.mailboxes[1])).await;
        self.check(completion.starts_with("x NO [NONEXISTENT]"), &completion);
    }

    /// Remembers the mailbox, which is not selected any more.
    fn leave(&mut self) {
        self.remember();
        if let Some(Selected { name, uid_validity, recent, read_only: false, .. }) = self.selected.take() {
            self.recents.push((name, uid_validity, recent));
        }
    }

    fn remember(&mut self) {
        let Some(selected) = &self.selected else { return };
        let slots = selected.messages.slots();
        let known = slots.iter().filter_map(|slot| Some((slot.uid?, (*slot).clone())));
        let places = match &selected.messages {
            Messages::Numbered(_) => (1..).zip(&slots).filter_map(|(n, slot)| Some((n, slot.uid?))).collect(),
            Messages::ByUid { .. } => Vec::new(),
        };
        let memory = Memory {
            uid_validity: selected.uid_validity,
            highest: selected.highest,
            slots: known.collect(),
            places,
        };
        self.memory.insert(selected.name, memory);
    }

    async fn select(&mut self, name: &'static str, read_only: bool) {
        self.remember();
        let memory = self.memory.get(name).cloned().filter(|memory| memory.highest > 0);
        let memory = memory.filter(|_| self.dialect.modseq());
        let verb = if read_only { "EXAMINE" } else { "SELECT" };
        let text = match &memory {
            Some(memory) if self.dialect.qresync() => self.resynchronizing(verb, name, memory),
            _ => format!("{verb} {name}"),
        };
        self.story.push(format!("C: {text}"));
        let mut lines = self.client.command(&text).await;
        if self.selected.is_some() {
            // Earlier reports are about the mailbox before (RFC 7162 §3.2.11).
            let closed = lines.iter().position(|line| line.starts_with("* OK [CLOSED]"));
            self.check(closed.is_some(), &format!("nobody said that it is closed: {lines:?}"));
            let rest = lines.split_off(closed.unwrap());
            self.believe("", std::mem::replace(&mut lines, rest));
            self.leave();
        }
        let number = |before: &str| {
            let line = lines.iter().find_map(|line| line.split_once(before));
            line.map_or(0, |(_, rest)| rest.split(']').next().unwrap().parse().unwrap())
        };
        // A user with read rights only opens it read-only in any case (RFC 4314 §5.2).
        let read_only = read_only || lines.last().is_some_and(|line| line.contains("[READ-ONLY]"));
        self.selected = Some(Selected {
            name,
            read_only,
            uid_validity: number("[UIDVALIDITY ") as u32,
            messages: Messages::new(self.dialect.uid_only(), 0),
            highest: 0,
            recent: BTreeSet::new(),
        });
        let (completion, command) = self.believe(&text, lines);
        self.check(completion.starts_with("x OK"), &completion);
        let gone = command.gone_earlier;
        if let Some(memory) = memory {
            self.merge(memory, gone).await;
        }
    }

    fn resynchronizing(&self, verb: &str, name: &str, memory: &Memory) -> String {
        let mut arguments = format!("{} {}", memory.uid_validity, memory.highest);
        if !memory.slots.is_empty() && self.below(2) == 0 {
            arguments += &format!(" {}", set(memory.slots.keys().copied()));
        }
        if !memory.places.is_empty() && !self.dialect.uid_only() && self.below(2) == 0 {
            let of = self.one(&[2, memory.places.len()]);
            let some: Vec<_> = memory.places.iter().filter(|_| self.below(of) == 0).collect();
            if !some.is_empty() {
                let numbers = set(some.iter().map(|(n, _)| *n));
                arguments += &format!(" ({numbers} {})", set(some.iter().map(|(_, uid)| *uid)));
            }
        }
        format!("{verb} {name} (QRESYNC ({arguments}))")
    }

    /// What was remembered, without what went, and with what changed, is what is there.
    async fn merge(&mut self, mut memory: Memory, gone: BTreeSet<u32>) {
        if self.selected.as_ref().is_none_or(|selected| selected.uid_validity != memory.uid_validity) {
            return;
        }
        memory.slots.retain(|uid, _| !gone.contains(uid));
        if !self.dialect.qresync() {
            self.run(&format!("UID FETCH 1:* (FLAGS) (CHANGEDSINCE {})", memory.highest)).await;
        }
        let (_, command) = self.run_command("UID FETCH 1:* (UID)").await;
        let qresync = self.dialect.qresync();
        let mut lost = Vec::new();
        let Some(selected) = &mut self.selected else { return };
        for (uid, slot) in memory.slots {
            match selected.messages.by_uid(uid) {
                Some(now) if now.flags.is_none() && now.modseq <= slot.modseq => {
                    *now = slot;
                }
                Some(_) => {}
                None if qresync && !command.vanished.contains(&uid) => lost.push(uid),
                None => {}
            }
        }
        self.check(lost.is_empty(), &format!("nobody said that these went: {lost:?}"));
    }

    /// Unreported changes came after the mod-sequence up to which it knows everything: a reconnect
    /// now would report them (RFC 7162 §6).
    pub fn believes_no_more_than_it_knows(&self, log: impl Fn(User, &str) -> Arc<Account>) {
        let Some(selected) = self.selected.as_ref().filter(|_| self.dialect.modseq()) else { return };
        let account = log(self.user, selected.name);
        let state = account.state();
        let mailbox = mailbox_of(&state, selected.name);
        let since = Position(selected.highest);
        let vanished = mailbox.vanished_since(since).unwrap();
        for slot in selected.messages.slots() {
            let Some(uid) = slot.uid else { continue };
            let what = match mailbox.row(Uid::new(uid).unwrap()) {
                None => !vanished.contains(Uid::new(uid).unwrap()),
                Some(row) => {
                    let stale = slot.modseq > 0 && row.modseq.0 > slot.modseq;
                    slot.flags.is_some() && stale && row.modseq <= since
                }
            };
            self.check(!what, &format!("it believes to know all up to {since}, and does not know UID {uid}"));
        }
    }

    /// Nothing happens any more: what it believes, after a NOOP, is the truth; and what it can then
    /// learn too.
    pub async fn settle(&mut self, truth: impl Fn(User, &str) -> Truth) {
        if self.is_cut_off() {
            self.cut_off().await;
        }
        for learned in [false, true] {
            if learned {
                self.learn().await;
            }
            self.run("NOOP").await;
            let Some(selected) = &self.selected else { return };
            self.compare(selected, &truth(self.user, selected.name), learned);
        }
    }

    fn compare(&self, selected: &Selected, truth: &Truth, learned: bool) {
        let same = selected.uid_validity == truth.uid_validity;
        self.check(same, "another UIDVALIDITY");
        let (believed, real) = (selected.messages.len(), truth.rows.len());
        self.check(believed == real, &format!("it believes in {believed} messages, and there are {real}"));
        if self.dialect.modseq() {
            self.check(selected.highest <= truth.highest.max(1), "HIGHESTMODSEQ is beyond the mailbox");
        }
        let rows: BTreeMap<u32, _> =
            truth.rows.iter().map(|(uid, flags, modseq)| (*uid, (flags, *modseq))).collect();
        for (n, slot) in selected.messages.slots().into_iter().enumerate() {
            let Some(uid) = slot.uid else {
                self.check(!learned, &format!("message {} has no UID", n + 1));
                continue;
            };
            if !self.dialect.uid_only() {
                let there = truth.rows[n].0;
                self.check(there == uid, &format!("message {} is UID {there}, not {uid}", n + 1));
            }
            let Some((flags, modseq)) = rows.get(&uid) else {
                self.fail(&format!("UID {uid} is not there"));
            };
            self.check(!learned || slot.flags.is_some(), &format!("UID {uid} has no flags"));
            if let Some(believed) = &slot.flags {
                let what = format!("UID {uid} has {flags:?}, not {believed:?}");
                self.check(&believed == flags, &what);
            }
            if self.dialect.modseq() && slot.modseq > 0 {
                let what = format!("UID {uid} has MODSEQ {modseq}, not {}", slot.modseq);
                self.check(slot.modseq == *modseq, &what);
            }
        }
    }

    /// Nothing more to do.
    pub fn finish(mut self) -> Vec<(&'static str, u32, BTreeSet<u32>)> {
        self.leave();
        self.recents
    }
}
