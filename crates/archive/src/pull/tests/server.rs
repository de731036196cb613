//! A scripted IMAP server: a small honest one, and ways in which it misbehaves.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::client::{Compress, Credential, Patience, Security, Server, Trust};

/// A mailbox of the script.
#[derive(Debug, Clone, Default)]
pub(crate) struct Box_ {
    pub(crate) uidvalidity: u32,
    pub(crate) mailboxid: Option<String>,
    /// UID, flags, octets.
    pub(crate) messages: BTreeMap<u32, (String, Vec<u8>)>,
    /// Mod-sequence of each message.
    pub(crate) modseqs: BTreeMap<u32, u64>,
    /// UIDs that went, and when.
    pub(crate) vanished: BTreeMap<u32, u64>,
    pub(crate) modseq: u64,
    pub(crate) uidnext: u32,
}

/// What goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// BYE after so many messages, once for each time that it is listed.
    Bye(usize, &'static str),
    /// The connection ends in the middle of this message's literal, always.
    CutAt(u32),
    /// The same, once.
    CutOnceAt(u32),
    /// A command that asks for this message is answered NO, and the message is left out.
    RefuseAt(u32),
    /// The message is left out and the command OK.
    Skip(u32),
    /// RFC822.SIZE and the order of items are wrong: flags and UID come after the octets.
    Reordered,
    /// `BODY[] NIL` for this message.
    NilAt(u32),
    /// The body of this message is a quoted string, of that one a literal8.
    Quoted(u32),
    Literal8(u32),
    /// Before a message comes, the mailbox is gone: SELECT is answered NO.
    MailboxGone,
    /// A line that never ends.
    EndlessLine,
    /// `* OK` lines without end instead of the answer to commands that begin so; as many as are given, and the answer.
    Chatter(&'static str, usize),
    /// EXISTS says so many messages, UIDNEXT one more; those that are not there are not sent.
    Claims(u32),
    /// EXISTS says so many messages more than there are.
    More(u32),
    /// INTERNALDATE of this message.
    Date(u32, &'static str),
    /// APPEND with a keyword is refused.
    NoKeywords,
    /// So many logins are refused with "too many connections".
    Busy(usize),
    /// SEARCH and FETCH of flags leave out half of the messages.
    HalfListed,
    /// Another UIDVALIDITY at each SELECT.
    RestlessUidValidity,
    /// Nothing is answered to FETCH.
    Silent,
    /// The connection ends before an APPEND is answered or done, once.
    EndAtAppend,
    /// An APPEND is done, and the connection ends before it is answered, once.
    EndAfterAppend,
    /// So many APPEND commands are answered "later".
    Throttle(usize),
    /// A mailbox takes so many messages; then there is no room.
    Room(usize),
    /// RFC822.SIZE is one octet too many.
    WrongSizes,
    /// APPENDUID is not said.
    NoUidplus,
    /// SEARCH and FETCH look at so many messages, the last ones (RFC 9738).
    MessageLimit(usize),
}

/// The server's state, and what it was asked.
#[derive(Debug, Default)]
pub(crate) struct World {
    pub(crate) boxes: BTreeMap<String, Box_>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) capabilities: String,
    /// Names that LIST shows and SELECT does not know.
    pub(crate) unselectable: Vec<String>,
    /// Command lines without their tags.
    pub(crate) asked: Vec<String>,
    pub(crate) connections: usize,
}

impl World {
    fn claims(&self) -> Option<u32> {
        self.faults.iter().find_map(|fault| if let Fault::Claims(n) = fault { Some(*n) } else { None })
    }

    fn exists(&self, mailbox: &Box_) -> u32 {
        let more = self.faults.iter().find_map(|f| if let Fault::More(n) = f { Some(*n) } else { None });
        self.claims().unwrap_or(mailbox.messages.len() as u32 + more.unwrap_or(0))
    }

    fn uidnext(&self, mailbox: &Box_) -> u32 {
        self.claims().map_or(mailbox.uidnext, |n| n + 1)
    }
}

/// A script that runs.
pub(crate) struct Script {
    pub(crate) world: Arc<Mutex<World>>,
    pub(crate) port: u16,
}

impl Box_ {
    /// A mailbox with messages 1 to `n`.
    pub(crate) fn with(n: u32) -> Self {
        let mut mailbox = Box_ { uidvalidity: 7, uidnext: 1, ..Box_::default() };
        for _ in 0..n {
            mailbox.add(None);
        }
        mailbox
    }

    /// Adds a message; its UID.
    pub(crate) fn add(&mut self, octets: Option<Vec<u8>>) -> u32 {
        let uid = self.uidnext;
        self.uidnext += 1;
        self.modseq += 1;
        let octets = octets.unwrap_or_else(|| text(uid).into_bytes());
        self.messages.insert(uid, ("\\Seen".into(), octets));
        self.modseqs.insert(uid, self.modseq);
        uid
    }

    pub(crate) fn set_flags(&mut self, uid: u32, flags: &str) {
        self.modseq += 1;
        self.messages.get_mut(&uid).unwrap().0 = flags.into();
        self.modseqs.insert(uid, self.modseq);
    }

    pub(crate) fn expunge(&mut self, uid: u32) {
        self.modseq += 1;
        self.messages.remove(&uid);
        self.modseqs.remove(&uid);
        self.vanished.insert(uid, self.modseq);
    }
}

/// What message `uid` says.
pub(crate) fn text(uid: u32) -> String {
    format!("Subject: message {uid}\r\n\r\n{}", "x".repeat(uid as usize % 7))
}

impl Script {
    /// Serves a mailbox called INBOX. `capabilities` beside IMAP4rev1.
    pub(crate) async fn start(inbox: Box_, capabilities: &str, faults: &[Fault]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let world = World {
            boxes: [("INBOX".to_owned(), inbox)].into(),
            faults: faults.to_vec(),
            capabilities: capabilities.to_owned(),
            ..World::default()
        };
        let world = Arc::new(Mutex::new(world));
        let serving = world.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let session = Session { world: serving.clone(), selected: None, sent: 0 };
                // A client that goes away ends its session and nothing else.
                tokio::spawn(async move { drop(session.serve(stream).await) });
            }
        });
        Script { world, port }
    }

    pub(crate) fn server(&self) -> Server {
        Server {
            host: "127.0.0.1".into(),
            port: self.port,
            security: Security::None,
            tls: Trust::nobody().config().unwrap(),
            user: "me".into(),
            credentials: Arc::new(Credential::Password(sealpost_imap::types::Secret::new(
                b"secret".to_vec(),
            ))),
            compress: Compress::Never,
            patience: Patience {
                connect: Duration::from_secs(60),
                answer: Duration::from_secs(60),
                retry: Duration::from_millis(1),
            },
        }
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut World)) {
        change(&mut self.world.lock().unwrap());
    }

    pub(crate) fn inbox(&self, change: impl FnOnce(&mut Box_)) {
        self.change(|world| change(world.boxes.get_mut("INBOX").unwrap()));
    }

    /// How many commands began with this.
    pub(crate) fn asked(&self, begin: &str) -> usize {
        self.world.lock().unwrap().asked.iter().filter(|line| line.starts_with(begin)).count()
    }
}

struct Session {
    world: Arc<Mutex<World>>,
    selected: Option<String>,
    /// Messages sent on this connection.
    sent: usize,
}

/// The connection is to end.
struct End;

impl From<std::io::Error> for End {
    fn from(_: std::io::Error) -> Self {
        End
    }
}

impl Session {
    async fn serve(mut self, stream: TcpStream) -> Result<(), End> {
        let (read, mut write) = stream.into_split();
        let mut read = BufReader::new(read);
        self.world.lock().unwrap().connections += 1;
        write.write_all(b"* OK ready\r\n").await?;
        let mut line = String::new();
        while read.read_line(&mut line).await? > 0 {
            let text = std::mem::take(&mut line);
            let (tag, command) = text.trim_end().split_once(' ').unwrap_or((&text, ""));
            self.world.lock().unwrap().asked.push(command.to_owned());
            if let Some(head) = command.strip_prefix("APPEND ") {
                let completion = self.append(head, &mut read, &mut write).await?;
                write.write_all(format!("{tag} {completion}\r\n").as_bytes()).await?;
                continue;
            }
            for _ in 0..self.chatter(command) {
                write.write_all(b"* OK still here\r\n").await?;
            }
            let (mut out, completion) = self.answer(command);
            let silent = completion.is_none();
            if let Some(completion) = completion {
                out.extend_from_slice(format!("{tag} {completion}\r\n").as_bytes());
            }
            if let Some(at) = find(&out, CUT) {
                write.write_all(&out[..at]).await?;
                return Err(End);
            }
            if let Some(at) = find(&out, ENDLESS) {
                write.write_all(&out[..at]).await?;
                loop {
                    write.write_all(&[b'x'; 4096]).await?;
                }
            }
            if !silent || !out.is_empty() {
                write.write_all(&out).await?;
            }
        }
        Ok(())
    }

    /// `name (flags) "date" {n}` or `{n+}`, and its octets; more of them follow with MULTIAPPEND.
    async fn append(
        &self,
        head: &str,
        read: &mut BufReader<tokio::net::tcp::OwnedReadHalf>,
        write: &mut tokio::net::tcp::OwnedWriteHalf,
    ) -> Result<String, End> {
        let name = unquoted(head.split(' ').next().unwrap_or(""));
        let (mut messages, mut head) = (Vec::new(), head.to_owned());
        loop {
            let (before, size) = head.trim_end().trim_end_matches('}').rsplit_once('{').ok_or(End)?;
            if !size.ends_with('+') {
                write.write_all(b"+ go on\r\n").await?;
            }
            let mut octets = vec![0; size.trim_end_matches('+').parse().map_err(|_| End)?];
            read.read_exact(&mut octets).await?;
            if self.once(|fault| *fault == Fault::EndAtAppend).is_some() || octets.starts_with(b"Poison") {
                return Err(End);
            }
            let flags = before.split_once('(').and_then(|(_, rest)| rest.split_once(')'));
            messages.push((flags.map_or("", |(flags, _)| flags).to_owned(), octets));
            head.clear();
            read.read_line(&mut head).await?;
            if head.trim_end().is_empty() {
                break;
            }
        }
        let answer = self.take(&name, messages);
        if answer.starts_with("OK") && self.once(|fault| *fault == Fault::EndAfterAppend).is_some() {
            return Err(End);
        }
        Ok(answer)
    }

    /// All of the messages, or none.
    fn take(&self, name: &str, messages: Vec<(String, Vec<u8>)>) -> String {
        if let Some(Fault::Throttle(left)) = self.once(|fault| matches!(fault, Fault::Throttle(_))) {
            if left > 1 {
                self.world.lock().unwrap().faults.push(Fault::Throttle(left - 1));
            }
            return "NO Request is throttled".into();
        }
        let (uidplus, no_keywords) = (!self.has(&Fault::NoUidplus), self.has(&Fault::NoKeywords));
        let mut world = self.world.lock().unwrap();
        let room = world.faults.iter().find_map(|f| if let Fault::Room(n) = f { Some(*n) } else { None });
        let Some(mailbox) = world.boxes.get_mut(name) else {
            return "NO [TRYCREATE] no such mailbox".into();
        };
        for (begin, answer) in
            [("Refuse", "NO [CANNOT] not this one"), ("Limit", "NO [LIMIT] more parts than we take")]
        {
            if messages.iter().any(|(_, octets)| octets.starts_with(begin.as_bytes())) {
                return answer.into();
            }
        }
        let worded = |flags: &str| flags.split(' ').any(|flag| !flag.is_empty() && !flag.starts_with('\\'));
        if no_keywords && messages.iter().any(|(flags, _)| worded(flags)) {
            return "NO [CANNOT] no keywords here".into();
        }
        if room.is_some_and(|room| mailbox.messages.len() + messages.len() > room) {
            return "NO [OVERQUOTA] no room".into();
        }
        let uids: Vec<String> = messages
            .into_iter()
            .map(|(flags, octets)| {
                let uid = mailbox.add(Some(octets));
                mailbox.set_flags(uid, &flags);
                uid.to_string()
            })
            .collect();
        match uidplus {
            true => format!("OK [APPENDUID {} {}] done", mailbox.uidvalidity, uids.join(",")),
            false => "OK done".into(),
        }
    }

    /// How many lines are to come before the answer.
    fn chatter(&self, command: &str) -> usize {
        let world = self.world.lock().unwrap();
        let lines = world.faults.iter().find_map(|fault| match fault {
            Fault::Chatter(begin, lines) if command.starts_with(begin) => Some(*lines),
            _ => None,
        });
        lines.unwrap_or(0)
    }

    fn dates(&self) -> Vec<(u32, &'static str)> {
        let world = self.world.lock().unwrap();
        let dates = world.faults.iter().filter_map(|f| match f {
            Fault::Date(uid, date) => Some((*uid, *date)),
            _ => None,
        });
        dates.collect()
    }

    fn has(&self, fault: &Fault) -> bool {
        self.world.lock().unwrap().faults.contains(fault)
    }

    /// Takes a fault that happens once.
    fn once(&self, which: impl Fn(&Fault) -> bool) -> Option<Fault> {
        let mut world = self.world.lock().unwrap();
        let at = world.faults.iter().position(which)?;
        Some(world.faults.remove(at))
    }

    /// The untagged responses, and the completion.
    fn answer(&mut self, command: &str) -> (Vec<u8>, Option<String>) {
        let done = |text: &str| Some(text.to_owned());
        let word = command.split(' ').next().unwrap_or("").to_ascii_uppercase();
        match &*word {
            "CAPABILITY" => {
                let capabilities = self.world.lock().unwrap().capabilities.clone();
                (format!("* CAPABILITY IMAP4rev1 {capabilities}\r\n").into_bytes(), done("OK done"))
            }
            "LOGIN" => {
                let busy = self.once(|fault| matches!(fault, Fault::Busy(_)));
                match busy {
                    Some(Fault::Busy(left)) => {
                        if left > 1 {
                            self.world.lock().unwrap().faults.push(Fault::Busy(left - 1));
                        }
                        (Vec::new(), done("NO Too many simultaneous connections"))
                    }
                    _ => (Vec::new(), done("OK logged in")),
                }
            }
            "LIST" => (self.list(command), done("OK listed")),
            "STATUS" => (self.status(&unquoted(command.split(' ').nth(1).unwrap_or(""))), done("OK")),
            "EXAMINE" | "SELECT" => self.select(&unquoted(command.split(' ').nth(1).unwrap_or(""))),
            "UID" => self.uid(command),
            "CREATE" => {
                let name = unquoted(command.split(' ').nth(1).unwrap_or(""));
                let mut world = self.world.lock().unwrap();
                world.unselectable.retain(|other| *other != name);
                world.boxes.insert(name, Box_::with(0));
                drop(world);
                (Vec::new(), done("OK made"))
            }
            _ => (Vec::new(), done("OK")),
        }
    }

    fn list(&self, command: &str) -> Vec<u8> {
        let names: Vec<String> = self.world.lock().unwrap().boxes.keys().cloned().collect();
        let mut out = Vec::new();
        for name in &self.world.lock().unwrap().unselectable {
            out.extend_from_slice(format!("* LIST (\\NoSelect) \"/\" \"{name}\"\r\n").as_bytes());
        }
        for name in names {
            out.extend_from_slice(format!("* LIST () \"/\" \"{name}\"\r\n").as_bytes());
            if command.contains("STATUS") {
                out.extend(self.status(&name));
            }
        }
        out
    }

    fn status(&self, name: &str) -> Vec<u8> {
        let world = self.world.lock().unwrap();
        let Some(mailbox) = world.boxes.get(name) else { return Vec::new() };
        let mut items = format!(
            "MESSAGES {} UIDNEXT {} UIDVALIDITY {}",
            world.exists(mailbox),
            world.uidnext(mailbox),
            mailbox.uidvalidity
        );
        if world.capabilities.contains("CONDSTORE") {
            items.push_str(&format!(" HIGHESTMODSEQ {}", mailbox.modseq.max(1)));
        }
        if let Some(id) = &mailbox.mailboxid {
            items.push_str(&format!(" MAILBOXID ({id})"));
        }
        format!("* STATUS \"{name}\" ({items})\r\n").into_bytes()
    }

    fn select(&mut self, name: &str) -> (Vec<u8>, Option<String>) {
        if self.has(&Fault::MailboxGone) {
            return (Vec::new(), Some("NO [NONEXISTENT] no such mailbox".into()));
        }
        let restless = self.has(&Fault::RestlessUidValidity);
        let mut world = self.world.lock().unwrap();
        let condstore = world.capabilities.contains("CONDSTORE");
        if let Some(mailbox) = world.boxes.get_mut(name) {
            mailbox.uidvalidity += u32::from(restless);
        }
        let Some(mailbox) = world.boxes.get(name) else {
            return (Vec::new(), Some("NO [NONEXISTENT] no such mailbox".into()));
        };
        let mut out = format!(
            "* {} EXISTS\r\n* OK [UIDVALIDITY {}] x\r\n* OK [UIDNEXT {}] x\r\n",
            world.exists(mailbox),
            mailbox.uidvalidity,
            world.uidnext(mailbox)
        );
        if condstore {
            out.push_str(&format!("* OK [HIGHESTMODSEQ {}] x\r\n", mailbox.modseq.max(1)));
        }
        if let Some(id) = &mailbox.mailboxid {
            out.push_str(&format!("* OK [MAILBOXID ({id})] x\r\n"));
        }
        self.selected = Some(name.to_owned());
        (out.into_bytes(), Some("OK [READ-ONLY] selected".into()))
    }

    fn uid(&mut self, command: &str) -> (Vec<u8>, Option<String>) {
        let Some(mailbox) = self.selected.clone() else {
            return (Vec::new(), Some("BAD nothing selected".into()));
        };
        let mailbox = self.world.lock().unwrap().boxes.get(&mailbox).cloned();
        let Some(mailbox) = mailbox else { return (Vec::new(), Some("NO it is gone".into())) };
        let words: Vec<&str> = command.split(' ').collect();
        if matches!(words.get(1), Some(&"STORE" | &"EXPUNGE")) {
            return self.store(&words);
        }
        let set = match words.get(1) {
            Some(&"SEARCH") => "1:*",
            _ => words.get(2).copied().unwrap_or(""),
        };
        let (mailbox, limited) = self.limited(mailbox, set);
        let (out, completion) = self.read(command, &words, &mailbox);
        (out, completion.map(|completion| limited.unwrap_or(completion)))
    }

    /// SEARCH and FETCH.
    fn read(&mut self, command: &str, words: &[&str], mailbox: &Box_) -> (Vec<u8>, Option<String>) {
        if words.get(1) == Some(&"SEARCH") {
            let half = self.has(&Fault::HalfListed);
            let wanted = if words.get(2) == Some(&"UID") { words.get(3).copied() } else { None };
            let all = mailbox.messages.keys().filter(|uid| wanted.is_none_or(|set| contains(set, **uid)));
            let uids: Vec<String> = all.filter(|uid| !half || **uid % 2 == 0).map(u32::to_string).collect();
            let answer = if command.contains("RETURN") {
                let all = if uids.is_empty() { String::new() } else { format!(" ALL {}", uids.join(",")) };
                format!("* ESEARCH (TAG \"x\") UID{all}\r\n")
            } else {
                format!("* SEARCH {}\r\n", uids.join(" "))
            };
            return (answer.into_bytes(), Some("OK searched".into()));
        }
        let set = words.get(2).copied().unwrap_or("");
        if command.contains("BODY.PEEK[]") {
            self.bodies(mailbox, set)
        } else {
            self.flags(mailbox, set, command)
        }
    }

    fn flags(&self, mailbox: &Box_, set: &str, command: &str) -> (Vec<u8>, Option<String>) {
        let since: u64 = command
            .split_once("CHANGEDSINCE ")
            .and_then(|(_, rest)| rest.split([' ', ')']).next()?.parse().ok())
            .unwrap_or(0);
        let half = self.has(&Fault::HalfListed);
        let mut out = String::new();
        if command.contains("HEADER.FIELDS") {
            return self.headers(mailbox, set, command);
        }
        if command.contains("VANISHED") {
            let gone: Vec<String> = mailbox
                .vanished
                .iter()
                .filter(|(_, at)| **at > since)
                .map(|(uid, _)| uid.to_string())
                .collect();
            if !gone.is_empty() {
                out.push_str(&format!("* VANISHED (EARLIER) {}\r\n", gone.join(",")));
            }
        }
        for (nth, (uid, (flags, _))) in mailbox.messages.iter().enumerate() {
            let changed = mailbox.modseqs.get(uid).is_some_and(|modseq| *modseq > since);
            if contains(set, *uid) && changed && !(half && uid % 2 == 1) {
                out.push_str(&format!("* {} FETCH (UID {uid} FLAGS ({flags}))\r\n", nth + 1));
            }
        }
        (out.into_bytes(), Some("OK fetched".into()))
    }

    /// `UID STORE set +FLAGS.SILENT (flags)` and `UID EXPUNGE set`.
    fn store(&self, words: &[&str]) -> (Vec<u8>, Option<String>) {
        let mut world = self.world.lock().unwrap();
        let Some(mailbox) = self.selected.as_ref().and_then(|name| world.boxes.get_mut(name)) else {
            return (Vec::new(), Some("BAD nothing selected".into()));
        };
        let uids: Vec<u32> =
            mailbox.messages.keys().copied().filter(|uid| contains(words[2], *uid)).collect();
        for uid in uids {
            let old = mailbox.messages[&uid].0.clone();
            if words[1] == "EXPUNGE" {
                if old.contains("\\Deleted") {
                    mailbox.expunge(uid);
                }
                continue;
            }
            let named: Vec<&str> = words[4..].iter().map(|word| word.trim_matches(['(', ')'])).collect();
            let mut flags: Vec<&str> =
                old.split(' ').filter(|flag| !flag.is_empty() && !named.contains(flag)).collect();
            if words[3].starts_with('+') {
                flags.extend(named);
            }
            mailbox.set_flags(uid, &flags.join(" "));
        }
        (Vec::new(), Some("OK done".into()))
    }

    /// The header fields that messages are recognized by.
    fn headers(&self, mailbox: &Box_, set: &str, command: &str) -> (Vec<u8>, Option<String>) {
        let (half, wrong) = (self.has(&Fault::HalfListed), self.has(&Fault::WrongSizes));
        let fields = command.rsplit_once("HEADER.FIELDS (").unwrap().1.trim_end_matches([')', ']']);
        let mut out = String::new();
        for (nth, (uid, (flags, octets))) in mailbox.messages.iter().enumerate() {
            if !contains(set, *uid) || half && uid % 2 == 1 {
                continue;
            }
            let text = String::from_utf8_lossy(octets);
            let named = |line: &&str| {
                line.split_once(':')
                    .is_some_and(|(name, _)| fields.split(' ').any(|field| field.eq_ignore_ascii_case(name)))
            };
            let lines = text.lines().take_while(|line| !line.is_empty()).filter(named);
            let header: String = lines.map(|line| format!("{line}\r\n")).chain(["\r\n".into()]).collect();
            out.push_str(&format!(
                "* {} FETCH (UID {uid} FLAGS ({flags}) RFC822.SIZE {} INTERNALDATE \"17-Jul-1996 02:44:25 -0700\" \
                 BODY[HEADER.FIELDS ({fields})] {{{}}}\r\n{header})\r\n",
                nth + 1,
                octets.len() + usize::from(wrong),
                header.len()
            ));
        }
        (out.into_bytes(), Some("OK fetched".into()))
    }

    /// What a command may look at, and what it says of the rest.
    fn limited(&self, mut mailbox: Box_, set: &str) -> (Box_, Option<String>) {
        let limit = {
            let world = self.world.lock().unwrap();
            world.faults.iter().find_map(|f| if let Fault::MessageLimit(n) = f { Some(*n) } else { None })
        };
        let asked: Vec<u32> = mailbox.messages.keys().copied().filter(|uid| contains(set, *uid)).collect();
        let Some(limit) = limit.filter(|limit| asked.len() > *limit) else { return (mailbox, None) };
        let lowest = asked[asked.len() - limit];
        mailbox.messages.retain(|uid, _| *uid >= lowest);
        (mailbox, Some(format!("OK [MESSAGELIMIT {limit} {lowest}] not all")))
    }

    fn bodies(&mut self, mailbox: &Box_, set: &str) -> (Vec<u8>, Option<String>) {
        if self.has(&Fault::Silent) {
            return (Vec::new(), None);
        }
        if self.has(&Fault::EndlessLine) {
            return ([b"* 1 FETCH (FLAGS (", ENDLESS].concat(), None);
        }
        let mut out = Vec::new();
        let mut refused = false;
        for (nth, (uid, (flags, octets))) in mailbox.messages.iter().enumerate() {
            if !contains(set, *uid) || self.has(&Fault::Skip(*uid)) {
                continue;
            }
            if self.has(&Fault::RefuseAt(*uid)) {
                refused = true;
                continue;
            }
            let sent = self.sent;
            let bye = self.once(|fault| matches!(fault, Fault::Bye(after, _) if *after <= sent));
            if let Some(Fault::Bye(_, text)) = bye {
                out.extend_from_slice(format!("* BYE {text}\r\n").as_bytes());
                out.extend_from_slice(CUT);
                return (out, None);
            }
            let n = nth + 1;
            let other = self.dates().into_iter().find(|(of, _)| of == uid).map(|(_, date)| date);
            let date = format!("INTERNALDATE {}", other.unwrap_or("\"17-Jul-1996 02:44:25 -0700\""));
            let size = octets.len();
            let cut = self.has(&Fault::CutAt(*uid))
                || self.once(|fault| *fault == Fault::CutOnceAt(*uid)).is_some();
            if cut {
                out.extend_from_slice(
                    format!("* {n} FETCH (UID {uid} FLAGS () {date} BODY[] {{{size}}}\r\n").as_bytes(),
                );
                out.extend_from_slice(&octets[..size / 2]);
                out.extend_from_slice(CUT);
                return (out, None);
            }
            if self.has(&Fault::NilAt(*uid)) {
                out.extend_from_slice(
                    format!("* {n} FETCH (UID {uid} FLAGS ({flags}) BODY[] NIL)\r\n").as_bytes(),
                );
                continue;
            }
            let literal = if self.has(&Fault::Quoted(*uid)) {
                b"\"quoted \\\"text\\\"\"".to_vec()
            } else if self.has(&Fault::Literal8(*uid)) {
                [format!("~{{{size}}}\r\n").as_bytes(), octets].concat()
            } else {
                [format!("{{{size}}}\r\n").as_bytes(), octets].concat()
            };
            let (before, after) = if self.has(&Fault::Reordered) {
                ("RFC822.SIZE 3 ".to_owned(), format!(" {date} FLAGS ({flags}) UID {uid}"))
            } else {
                (format!("UID {uid} FLAGS ({flags}) {date} "), String::new())
            };
            out.extend_from_slice(format!("* {n} FETCH ({before}BODY[] ").as_bytes());
            out.extend_from_slice(&literal);
            out.extend_from_slice(after.as_bytes());
            out.extend_from_slice(b")\r\n");
            self.sent += 1;
        }
        let completion = if refused { "NO some messages cannot be read" } else { "OK fetched" };
        (out, Some(completion.into()))
    }
}

/// Where the connection is cut, and where a line does not end.
const CUT: &[u8] = b"\0cut here\0";
const ENDLESS: &[u8] = b"\0endless\0";

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, what)
}

fn unquoted(word: &str) -> String {
    word.trim_matches('"').to_owned()
}

fn contains(set: &str, uid: u32) -> bool {
    set.split(',').any(|part| {
        let (first, last) = part.split_once(':').unwrap_or((part, part));
        let last = if last == "*" { u32::MAX } else { last.parse().unwrap() };
        (first.parse().unwrap()..=last).contains(&uid)
    })
}
