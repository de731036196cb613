//! A session of the script: commands and their answers.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::{Box_, Fault, ServerState};

/// Where the connection is cut, and a line without an end.
pub(super) const CUT: &[u8] = b"\0cut here\0";
pub(super) const ENDLESS: &[u8] = b"\0endless\0";
/// From where on only single bytes are sent.
pub(super) const DRIP: &[u8] = b"\0drip\0";

pub(super) struct Session {
    pub(super) world: Arc<Mutex<ServerState>>,
    pub(super) selected: Option<String>,
    /// Messages sent on this connection.
    pub(super) sent: usize,
}

/// The connection is to end.
pub(super) struct End;

impl From<std::io::Error> for End {
    fn from(_: std::io::Error) -> Self {
        End
    }
}

impl Session {
    /// Before login.
    pub(super) fn new(world: Arc<Mutex<ServerState>>) -> Self {
        Session { world, selected: None, sent: 0 }
    }

    /// Answers commands until the client disconnects or the script ends the connection.
    pub(super) async fn serve(mut self, stream: TcpStream) -> Result<(), End> {
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
            while command.starts_with("UID FETCH") && self.has(&Fault::Held) {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
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
            if let Some(at) = find(&out, DRIP) {
                write.write_all(&out[..at]).await?;
                loop {
                    write.write_all(b"x").await?;
                    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                }
            }
            if !silent || !out.is_empty() {
                write.write_all(&out).await?;
            }
        }
        Ok(())
    }

    /// `name (flags) "date" {n}` or `{n+}`, and its bytes; more of them follow with MULTIAPPEND.
    async fn append(
        &self,
        head: &str,
        read: &mut BufReader<tokio::net::tcp::OwnedReadHalf>,
        write: &mut tokio::net::tcp::OwnedWriteHalf,
    ) -> Result<String, End> {
        let name = self.named(head.split(' ').next());
        let (mut messages, mut head) = (Vec::new(), head.to_owned());
        loop {
            let (before, size) = head.trim_end().trim_end_matches('}').rsplit_once('{').ok_or(End)?;
            if !size.ends_with('+') {
                write.write_all(b"+ go on\r\n").await?;
            }
            let mut bytes = vec![0; size.trim_end_matches('+').parse().map_err(|_| End)?];
            read.read_exact(&mut bytes).await?;
            if self.once(|fault| *fault == Fault::EndAtAppend).is_some() || bytes.starts_with(b"Poison") {
                return Err(End);
            }
            let flags = before.split_once('(').and_then(|(_, rest)| rest.split_once(')'));
            messages.push((flags.map_or("", |(flags, _)| flags).to_owned(), bytes));
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

    /// Stores all of the messages, or none.
    fn take(&self, name: &str, messages: Vec<(String, Vec<u8>)>) -> String {
        if let Some(Fault::Throttle(left)) = self.once(|fault| matches!(fault, Fault::Throttle(_))) {
            if left > 1 {
                self.world.lock().unwrap().faults.push(Fault::Throttle(left - 1));
            }
            return "NO Request is throttled".into();
        }
        let adds = self.has(&Fault::Adds);
        let (uidplus, no_keywords) = (!self.has(&Fault::NoUidplus), self.has(&Fault::NoKeywords));
        let mut world = self.world.lock().unwrap();
        let room = world.faults.iter().find_map(|f| if let Fault::Room(n) = f { Some(*n) } else { None });
        let Some(mailbox) = world.boxes.get_mut(name) else {
            return "NO [TRYCREATE] no such mailbox".into();
        };
        for (begin, answer) in
            [("Refuse", "NO [CANNOT] not this one"), ("Limit", "NO [LIMIT] more parts than we take")]
        {
            if messages.iter().any(|(_, bytes)| bytes.starts_with(begin.as_bytes())) {
                return answer.into();
            }
        }
        let worded = |flags: &str| flags.split(' ').any(|flag| !flag.is_empty() && !flag.starts_with('\\'));
        if no_keywords && messages.iter().any(|(flags, _)| worded(flags)) {
            return "NO Too many user flags in mailbox".into();
        }
        if room.is_some_and(|room| mailbox.messages.len() + messages.len() > room) {
            return "NO [OVERQUOTA] no room".into();
        }
        let uids: Vec<String> = messages
            .into_iter()
            .map(|(flags, bytes)| {
                let added = if adds { b"X-Server: y\r\n".as_slice() } else { b"" };
                let uid = mailbox.add(Some([added, &bytes].concat()));
                mailbox.set_flags(uid, &flags);
                uid.to_string()
            })
            .collect();
        match uidplus {
            true => format!("OK [APPENDUID {} {}] done", mailbox.uidvalidity, uids.join(",")),
            false => "OK done".into(),
        }
    }

    /// How many lines are sent before the answer.
    fn chatter(&self, command: &str) -> usize {
        let world = self.world.lock().unwrap();
        let lines = world.faults.iter().find_map(|fault| match fault {
            Fault::Chatter(begin, lines) if command.starts_with(begin) => Some(*lines),
            _ => None,
        });
        lines.unwrap_or(0)
    }

    pub(super) fn dates(&self) -> Vec<(u32, &'static str)> {
        let world = self.world.lock().unwrap();
        let dates = world.faults.iter().filter_map(|f| match f {
            Fault::Date(uid, date) => Some((*uid, *date)),
            _ => None,
        });
        dates.collect()
    }

    pub(super) fn has(&self, fault: &Fault) -> bool {
        self.world.lock().unwrap().faults.contains(fault)
    }

    /// The refusal of a login that is not the first one.
    fn refuses_login(&self) -> Option<&'static str> {
        let world = self.world.lock().unwrap();
        let is_first = world.asked.iter().filter(|line| line.starts_with("LOGIN")).count() == 1;
        let refusal = |fault: &Fault| if let Fault::OneLogin(why) = fault { Some(*why) } else { None };
        world.faults.iter().find_map(refusal).filter(|_| !is_first)
    }

    /// Takes a fault that happens once.
    pub(super) fn once(&self, which: impl Fn(&Fault) -> bool) -> Option<Fault> {
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
                if let Some(refusal) = self.refuses_login() {
                    return (Vec::new(), done(refusal));
                }
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
            "STATUS" => (self.status(&self.named(argument(command))), done("OK")),
            "EXAMINE" | "SELECT" => self.select(&self.named(argument(command))),
            "UID" => self.uid(command),
            "CREATE" => {
                let name = self.named(command.split(' ').nth(1));
                if self.has(&Fault::NoDots) && name.contains('.') {
                    return (Vec::new(), done("NO [CANNOT] Character not allowed in mailbox name: '.'"));
                }
                if self.world.lock().unwrap().boxes.contains_key(&name) {
                    return (Vec::new(), done("NO [ALREADYEXISTS] it is there"));
                }
                let mut world = self.world.lock().unwrap();
                world.unselectable.retain(|other| *other != name);
                world.boxes.insert(name, Box_::with(0));
                drop(world);
                (Vec::new(), done("OK made"))
            }
            _ => (Vec::new(), done("OK")),
        }
    }

    /// The mailbox that an argument of a command names.
    fn named(&self, word: Option<&str>) -> String {
        let name = unquoted(word.unwrap_or(""));
        let ignores_case = self.has(&Fault::IgnoresCase);
        let world = self.world.lock().unwrap();
        let mut there = world.boxes.keys().filter(|there| ignores_case && there.eq_ignore_ascii_case(&name));
        there.next().cloned().unwrap_or(name)
    }

    fn list(&self, command: &str) -> Vec<u8> {
        let names: Vec<String> = self.world.lock().unwrap().boxes.keys().cloned().collect();
        let mut out = Vec::new();
        let delimiter = if self.has(&Fault::Dots) { '.' } else { '/' };
        for name in &self.world.lock().unwrap().unselectable {
            out.extend_from_slice(format!("* LIST (\\NoSelect) \"{delimiter}\" \"{name}\"\r\n").as_bytes());
        }
        for name in names {
            let attribute = if name == "AllMail" { "\\All" } else { "" };
            out.extend_from_slice(format!("* LIST ({attribute}) \"{delimiter}\" \"{name}\"\r\n").as_bytes());
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
        let says = self.world.lock().unwrap().faults.iter().find_map(|fault| match fault {
            Fault::Selecting(mailbox, says) if *mailbox == name => Some(*says),
            _ => None,
        });
        if let Some(bye) = says.filter(|says| says.starts_with("BYE")) {
            return ([format!("* {bye}\r\n").as_bytes(), CUT].concat(), None);
        }
        if let Some(says) = says {
            return (Vec::new(), Some(says.to_owned()));
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
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, what)
}

/// The first argument of a command, which may have spaces in it if it is quoted.
fn argument(command: &str) -> Option<&str> {
    let rest = command.split_once(' ')?.1;
    match rest.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next(),
        None => rest.split(' ').next(),
    }
}

fn unquoted(word: &str) -> String {
    word.trim_matches('"').to_owned()
}
