//! What the steps of a scenario do on a connection.

use std::rc::Rc;
use std::time::Duration;

use super::{Capabilities, Counted, Imap};
use crate::load::client::Fail;
use crate::load::data::{DataSet, Message};
use crate::load::scenario::template::{MAILBOX, Names, Template};
use crate::load::scenario::{Action, Fill, Step};
use crate::load::text::quoted;

/// Bytes and messages that one APPEND of [`Action::Fill`] has, if it may have several.
const BATCH_BYTES: usize = 4 << 20;
const BATCH_MESSAGES: u64 = 200;
/// How often the bench's mailboxes are tried to be deleted, with this between: some servers cannot delete a name twice in a second.
const CLEAN_TRIES: usize = 3;
const CLEAN_PAUSE: Duration = Duration::from_millis(1100);
/// Larger messages are sent from where they are; smaller ones are copied, so that they leave with their command.
const COPIED_BYTES: usize = 32 * 1024;

impl Imap {
    pub(super) async fn act(
        &mut self,
        action: &Action,
        step: &Step,
        name: &Rc<str>,
        from: Duration,
        pipeline: usize,
    ) -> Result<(), Fail> {
        if !matches!(action, Action::Command(..)) {
            self.drained().await?;
        }
        let counted = Counted {
            name: name.clone(),
            from,
            expect: step.expect.as_ref(),
            accept_no: step.accept_no,
            quiet: false,
        };
        match action {
            Action::Command(template, _) => {
                self.render(template);
                let asks = template.asks_for_new();
                let selects = starts_with(&self.line, b"SELECT ") || starts_with(&self.line, b"EXAMINE ");
                self.remember_selected();
                self.start(counted).await?;
                self.wait(|state| state.outstanding.len() < pipeline).await?;
                if asks || (selects && self.client.uid_seen.get() == 0) {
                    self.drained().await?;
                    self.client.uid_seen.set(self.state.uid_next);
                    self.client.mod_seq.set(self.state.mod_seq);
                }
                Ok(())
            }
            Action::Login => self.login(name, from).await,
            Action::Logout => {
                self.line.clear();
                self.line.extend_from_slice(b"LOGOUT");
                self.start(counted).await?;
                self.drained().await
            }
            Action::Wait(pause) => {
                let pause = pause.draw(&self.client.random);
                self.client.pause(self.client.within_phase(pause)).await
            }
            Action::Fresh(mailbox) => self.fresh(mailbox, name, from).await,
            Action::Fill(fill) => self.fill(fill, name, from).await,
            Action::Append { mailbox, data, flags } => self.append(mailbox, data, flags, counted).await,
            Action::Idle { limit, until_told } => self.idle(*limit, *until_told, counted).await,
            Action::Clean => self.clean(name).await,
            // Done by whoever drives the client: it takes a new connection.
            Action::Reconnect | Action::Deliver(_) => Ok(()),
        }
    }

    /// What personal mailboxes are called on this server (RFC 2342 §5, RFC 3501 §6.3.8).
    ///
    /// # Errors
    /// If the connection is gone.
    pub async fn names(&mut self) -> Result<Names, Fail> {
        if self.capabilities().await?.namespace {
            let lines = self.ask("NAMESPACE").await?;
            if let Some(names) = lines.iter().find_map(|line| namespace(line)) {
                return Ok(names);
            }
        }
        let lines = self.ask("LIST \"\" \"\"").await?;
        let delimiter = lines.iter().find_map(|line| delimiter(line)).unwrap_or('/');
        Ok(Names { prefix: String::new(), delimiter })
    }

    fn render(&mut self, template: &Template) {
        self.line.clear();
        template.render(&self.client.values(self.state.exists, self.state.uid_next), &mut self.line);
    }

    /// `template` as this server wants it, in a text.
    fn rendered(&mut self, template: &Template) -> String {
        self.render(template);
        String::from_utf8_lossy(&self.line).into_owned()
    }

    async fn capabilities(&mut self) -> Result<Capabilities, Fail> {
        if self.state.capabilities.is_none() {
            self.own("CAPABILITY").await?;
        }
        Ok(*self.state.capabilities.get_or_insert_default())
    }

    /// Sends a command of the bench's own; what came back untagged.
    async fn ask(&mut self, command: &str) -> Result<Vec<String>, Fail> {
        self.state.kept = Some(Vec::new());
        let sent = self.own(command).await;
        let lines = self.state.kept.take().unwrap_or_default();
        sent.map(|()| lines)
    }

    /// An own command that must end well, for `name` to end well.
    async fn must(&mut self, command: &str, name: &str) -> Result<bool, Fail> {
        self.own(command).await?;
        if !self.state.last_ok {
            let text = format!("{command}: {}", self.state.last_text);
            self.client.thread.error(name, "NO", || text);
        }
        Ok(self.state.last_ok)
    }

    async fn fresh(&mut self, mailbox: &Template, name: &str, from: Duration) -> Result<(), Fail> {
        let mailbox = self.rendered(mailbox);
        if self.make(&mailbox, name).await? {
            self.client.thread.ok(name, from, 0, 0);
        }
        Ok(())
    }

    /// An empty mailbox.
    async fn make(&mut self, mailbox: &str, name: &str) -> Result<bool, Fail> {
        let create = format!("CREATE {mailbox}");
        self.own(&create).await?;
        if self.state.last_ok {
            return Ok(true);
        }
        let why = self.state.last_text.clone();
        // It is there, perhaps with messages in it.
        self.leave(mailbox).await?;
        self.own(&format!("DELETE {mailbox}")).await?;
        if self.state.last_ok {
            return self.must(&create, name).await;
        }
        // Some cannot delete it so soon: Cyrus keeps what is deleted under a name of the second in which it was.
        self.own(&format!("SELECT {mailbox}")).await?;
        if !self.state.last_ok {
            self.client.thread.error(name, "NO", || format!("{create}: {why}"));
            return Ok(false);
        }
        self.selected = Some(mailbox.to_owned());
        let emptied = self.state.exists == 0
            || self.must("STORE 1:* +FLAGS.SILENT (\\Deleted)", name).await?
                && self.must("EXPUNGE", name).await?;
        self.leave(mailbox).await?;
        Ok(emptied)
    }

    /// Notes which mailbox the command in `line` selects, if it does.
    fn remember_selected(&mut self) {
        let line = String::from_utf8_lossy(&self.line);
        let (verb, rest) = line.split_once(' ').unwrap_or((&line, ""));
        match verb.to_ascii_uppercase().as_str() {
            "SELECT" | "EXAMINE" => self.selected = Some(rest.to_owned()),
            "CLOSE" | "UNSELECT" => self.selected = None,
            _ => {}
        }
    }

    /// Selects no more what is to be deleted: servers say BYE to whoever is in a mailbox that goes. CLOSE would expunge,
    /// and who knows what is selected.
    async fn leave(&mut self, mailbox: &str) -> Result<(), Fail> {
        let rest = self.selected.as_deref().and_then(|selected| selected.strip_prefix(mailbox));
        if !rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' ')) {
            return Ok(());
        }
        let command = if self.capabilities().await?.unselect { "UNSELECT" } else { "EXAMINE INBOX" };
        self.selected = None;
        self.own(command).await
    }

    async fn fill(&mut self, fill: &Fill, name: &Rc<str>, from: Duration) -> Result<(), Fail> {
        let mailbox = self.rendered(&fill.mailbox);
        let lines = self.ask(&format!("STATUS {mailbox} (MESSAGES)")).await?;
        let messages = lines.iter().find_map(|line| {
            let at = line.find("(MESSAGES ")? + "(MESSAGES ".len();
            line[at..].trim_end_matches(')').parse::<u64>().ok()
        });
        if messages == Some(fill.count) {
            return Ok(());
        }
        if !self.make(&mailbox, name).await? {
            return Ok(());
        }
        let Some(data) = self.client.thread.shared.data.get(&*fill.data).cloned() else { return Ok(()) };
        let several = self.capabilities().await?.multi_append;
        let mut next = 0;
        while next < fill.distinct && !self.client.is_stopped() {
            let mut batch = vec![data.message(next)];
            next += 1;
            let mut bytes = batch[0].len();
            while several
                && next < fill.distinct
                && bytes < BATCH_BYTES
                && (batch.len() as u64) < BATCH_MESSAGES
            {
                batch.push(data.message(next));
                bytes += batch.last().map_or(0, |message| message.len());
                next += 1;
            }
            self.line.clear();
            self.line.extend_from_slice(format!("APPEND {mailbox}").as_bytes());
            self.append_messages(&batch, "", Counted::own("APPEND")).await?;
            if !self.state.last_ok {
                let text = self.state.last_text.clone();
                self.client.thread.error(name, "NO", || text);
                return Ok(());
            }
        }
        if !self.copy_until(fill, &mailbox, name).await? {
            return Ok(());
        }
        self.client.thread.ok(name, from, 0, 0);
        Ok(())
    }

    /// Copies the messages that a mailbox has until it has enough.
    async fn copy_until(&mut self, fill: &Fill, mailbox: &str, name: &str) -> Result<bool, Fail> {
        if fill.distinct == fill.count {
            return Ok(true);
        }
        if !self.must(&format!("SELECT {mailbox}"), name).await? {
            return Ok(false);
        }
        self.selected = Some(mailbox.to_owned());
        let mut there = fill.distinct;
        while there < fill.count && !self.client.is_stopped() {
            let more = there.min(fill.count - there);
            if !self.must(&format!("COPY 1:{more} {mailbox}"), name).await? {
                return Ok(false);
            }
            there += more;
        }
        Ok(true)
    }

    async fn append(
        &mut self,
        mailbox: &Template,
        data: &str,
        flags: &str,
        counted: Counted<'_>,
    ) -> Result<(), Fail> {
        let Some(data) = self.client.thread.shared.data.get(data).cloned() else { return Ok(()) };
        let message = next_message(&self.client.messages, &data);
        self.capabilities().await?;
        let mailbox = self.rendered(mailbox);
        self.line.clear();
        self.line.extend_from_slice(b"APPEND ");
        self.line.extend_from_slice(mailbox.as_bytes());
        self.append_messages(&[message], flags, counted).await
    }

    /// Sends the APPEND that begins with what is in `line` (RFC 3501 §6.3.11, RFC 3502) and waits for its end.
    async fn append_messages(
        &mut self,
        messages: &[Message],
        flags: &str,
        counted: Counted<'_>,
    ) -> Result<(), Fail> {
        let capabilities = self.state.capabilities.unwrap_or_default();
        self.begin(counted);
        let line = std::mem::take(&mut self.line);
        self.out.extend_from_slice(&line);
        self.line = line;
        for message in messages {
            // RFC 7888 §5: LITERAL- allows 4,096 octets without being asked.
            let at_once = capabilities.literal_plus || (capabilities.literal_minus && message.len() <= 4096);
            let flags = if flags.is_empty() { String::new() } else { format!(" {flags}") };
            let plus = if at_once { "+" } else { "" };
            self.out.extend_from_slice(format!("{flags} {{{}{plus}}}\r\n", message.len()).as_bytes());
            if !at_once && !self.asked_for().await? {
                // Refused, and counted.
                return Ok(());
            }
            if message.len() <= COPIED_BYTES {
                self.out.extend_from_slice(message);
            } else {
                self.flush().await?;
                self.send(message).await?;
            }
        }
        self.out.extend_from_slice(b"\r\n");
        self.flush().await?;
        self.out.shrink_to(COPIED_BYTES);
        self.drained().await
    }

    /// Sends what is in `out` up to a literal and waits; whether the server wants the literal (RFC 3501 §4.3).
    async fn asked_for(&mut self) -> Result<bool, Fail> {
        self.state.go_on = false;
        self.unsent(true);
        self.flush().await?;
        self.wait(|state| state.go_on || state.outstanding.is_empty()).await?;
        self.unsent(false);
        Ok(self.state.go_on)
    }

    fn unsent(&mut self, unsent: bool) {
        if let Some(command) = self.state.outstanding.back_mut() {
            command.unsent = unsent;
        }
    }

    /// RFC 2177.
    async fn idle(
        &mut self,
        limit: Option<Duration>,
        until_told: bool,
        counted: Counted<'_>,
    ) -> Result<(), Fail> {
        let thread = self.client.thread.clone();
        let (name, from) = (counted.name.clone(), counted.from);
        self.line.clear();
        self.line.extend_from_slice(b"IDLE");
        self.state.go_on = false;
        self.state.told = false;
        self.start(Counted { quiet: true, ..counted }).await?;
        self.wait(|state| state.go_on || state.outstanding.is_empty()).await?;
        if !self.state.go_on {
            let text = self.state.last_text.clone();
            thread.error(&name, "NO", || text);
            return Ok(());
        }
        thread.ok(&name, from, 0, 0);
        self.state.idle = Some(thread.shared.notices.enter(self.client.account));
        self.line = Vec::new();
        self.out = Vec::new();
        if limit.is_none() && !until_told {
            (self.client.settled)();
        }
        let waited = self.wait_idle(limit, until_told).await;
        if let Some(next) = self.state.idle.take() {
            thread.shared.notices.leave(self.client.account, next);
        }
        let counts = waited?;
        let from = thread.now();
        if let Some(idle) = self.state.outstanding.front_mut() {
            // To wait was what it was for: only its end is a command that is waited for.
            idle.due = from + thread.shared.patience;
        }
        self.out.extend_from_slice(b"DONE\r\n");
        self.flush().await?;
        self.drained().await?;
        if self.state.last_ok && counts {
            thread.ok("DONE", from, 0, 0);
        } else if !self.state.last_ok {
            let text = self.state.last_text.clone();
            thread.error("DONE", "NO", || text);
        }
        Ok(())
    }

    /// Waits in IDLE. False if it was the phase's end that ended it: then all who wait end it together, which nobody asked for and
    /// which is not counted.
    async fn wait_idle(&mut self, limit: Option<Duration>, until_told: bool) -> Result<bool, Fail> {
        let client = self.client.clone();
        // Who stays in IDLE stays beyond the phase's end.
        let stays = limit.is_none() && !until_told;
        let wanted = limit.unwrap_or(Duration::MAX);
        let limit = if stays { wanted } else { client.within_phase(wanted) };
        let over = async {
            if limit == Duration::MAX {
                return std::future::pending().await;
            }
            tokio::time::sleep(limit).await;
        };
        tokio::pin!(over);
        let stopped = client.stopped();
        tokio::pin!(stopped);
        loop {
            if self.state.bye {
                return Err(Fail::Closed(format!("BYE {}", self.state.last_text)));
            }
            if until_told && self.state.told {
                return Ok(true);
            }
            tokio::select! {
                received = self.wire.receive(&mut self.state) => received?,
                () = &mut over => return Ok(limit == wanted),
                () = &mut stopped => return Ok(true),
            }
            self.count_received();
        }
    }

    /// Removes the bench's mailboxes.
    async fn clean(&mut self, name: &str) -> Result<(), Fail> {
        let names = self.client.thread.shared.names().clone();
        let (mut left, mut refused) = (self.below(&names).await?, None);
        for again in 0..CLEAN_TRIES {
            if left.is_empty() {
                break;
            }
            if again > 0 {
                self.client.pause(CLEAN_PAUSE).await?;
            }
            refused = self.delete(left).await?;
            left = self.below(&names).await?;
        }
        if !left.is_empty() {
            let why = refused.unwrap_or_default();
            self.client.thread.error(name, "NO", || match left.len() {
                1 => format!("a mailbox is left: {why}"),
                left => format!("{left} mailboxes below {MAILBOX} are left: {why}"),
            });
        }
        // Some servers keep the parent of mailboxes that are gone.
        self.own(&format!("DELETE {}{MAILBOX}", names.prefix)).await
    }

    /// The bench's mailboxes, deepest first.
    async fn below(&mut self, names: &Names) -> Result<Vec<String>, Fail> {
        let mut command = b"LIST \"\" ".to_vec();
        quoted(&format!("{}{MAILBOX}{}*", names.prefix, names.delimiter), &mut command);
        let lines = self.ask(&String::from_utf8_lossy(&command)).await?;
        let mut mailboxes: Vec<String> = lines.iter().filter_map(|line| listed(line)).collect();
        mailboxes.sort_by_key(|mailbox| std::cmp::Reverse(mailbox.len()));
        Ok(mailboxes)
    }

    /// Deletes them; what was said to the first that could not be.
    async fn delete(&mut self, mailboxes: Vec<String>) -> Result<Option<String>, Fail> {
        let mut refused = None;
        for mailbox in mailboxes {
            let mut command = b"DELETE ".to_vec();
            quoted(&mailbox, &mut command);
            self.own(&String::from_utf8_lossy(&command)).await?;
            // One that only had others below it goes with the last of them, on some servers: the next list tells.
            if !self.state.last_ok {
                refused.get_or_insert_with(|| format!("DELETE {mailbox}: {}", self.state.last_text));
            }
        }
        Ok(refused)
    }
}

fn next_message(sent: &std::cell::Cell<u64>, data: &DataSet) -> Message {
    let nth = sent.get();
    sent.set(nth + 1);
    data.message(nth)
}

fn starts_with(line: &[u8], verb: &[u8]) -> bool {
    line.len() >= verb.len() && line[..verb.len()].eq_ignore_ascii_case(verb)
}

/// `NAMESPACE (("INBOX." ".")) NIL NIL`: the first personal one.
fn namespace(line: &str) -> Option<Names> {
    let inner = line.strip_prefix("NAMESPACE ((")?;
    let (prefix, rest) = string(inner)?;
    let delimiter = string(rest.trim_start()).and_then(|(text, _)| text.chars().next()).unwrap_or('/');
    Some(Names { prefix, delimiter })
}

/// `LIST (\Noselect) "/" ""`: what is between levels.
fn delimiter(line: &str) -> Option<char> {
    string(line.strip_prefix("LIST ")?.split_once(") ")?.1)?.0.chars().next()
}

/// `LIST (\HasNoChildren) "/" name`: the name, if it can be in a quoted string.
fn listed(line: &str) -> Option<String> {
    let rest = line.strip_prefix("LIST ")?.split_once(") ")?.1;
    let (_, rest) = string(rest).or_else(|| rest.strip_prefix("NIL").map(|rest| (String::new(), rest)))?;
    let name = rest.trim_start();
    if name.starts_with('"') {
        string(name).map(|(name, _)| name)
    } else {
        name.split(' ').next().map(str::to_owned)
    }
}

/// A quoted string and what follows it.
fn string(text: &str) -> Option<(String, &str)> {
    let inner = text.strip_prefix('"')?;
    let mut value = String::new();
    let mut chars = inner.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &inner[at + 1..])),
            '\\' => value.push(chars.next()?.1),
            c => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_mailboxes_are() {
        let names = |prefix: &str, delimiter| Some(Names { prefix: prefix.into(), delimiter });
        assert_eq!(namespace("NAMESPACE ((\"INBOX.\" \".\")) NIL NIL"), names("INBOX.", '.'));
        assert_eq!(namespace("NAMESPACE ((\"\" \"/\")) ((\"~\" \"/\")) NIL"), names("", '/'));
        assert_eq!(namespace("NAMESPACE NIL NIL NIL"), None);
        assert_eq!(delimiter("LIST (\\Noselect) \"\\\\\" \"\""), Some('\\'));
        assert_eq!(listed("LIST (\\HasNoChildren) \"/\" Bench/a"), Some("Bench/a".into()));
        assert_eq!(
            listed("LIST (\\HasNoChildren) \"/\" \"Bench/a \\\"b\\\"\""),
            Some("Bench/a \"b\"".into())
        );
        assert_eq!(listed("LIST () NIL Bench"), Some("Bench".into()));
    }
}
