//! The bench's own mailboxes: created, filled, and removed at the end.

use std::rc::Rc;
use std::time::Duration;

use super::actions::Outgoing;
use super::{Counted, Imap};
use crate::load::client::Fail;
use crate::load::data::About;
use crate::load::scenario::Fill;
use crate::load::scenario::template::{MAILBOX, Names, Template};
use crate::load::text::quoted;
use crate::mail::correspondence;

/// Bytes and messages of one APPEND of [`Fill`], if it may have several.
const BATCH_BYTES: usize = 4 << 20;
const BATCH_MESSAGES: u64 = 200;
/// How often deleting the bench's mailboxes is tried, with this pause: some servers cannot delete a
/// name twice in a second.
const CLEAN_TRIES: usize = 3;
const CLEAN_PAUSE: Duration = Duration::from_millis(1100);

impl Imap {
    /// The names of personal mailboxes on this server (RFC 2342 §5, RFC 3501 §6.3.8).
    ///
    /// # Errors
    /// If the connection is gone.
    pub async fn names(&mut self) -> Result<Names, Fail> {
        if self.capabilities().await?.namespace {
            let lines = self.query("NAMESPACE").await?;
            if let Some(names) = lines.iter().find_map(|line| namespace(line)) {
                return Ok(names);
            }
        }
        let lines = self.query("LIST \"\" \"\"").await?;
        let delimiter = lines.iter().find_map(|line| delimiter(line)).unwrap_or('/');
        Ok(Names { prefix: String::new(), delimiter })
    }

    pub(super) async fn fresh(&mut self, mailbox: &Template, name: &str, from: Duration) -> Result<(), Fail> {
        let mailbox = self.rendered(mailbox);
        if self.make(&mailbox, name).await? {
            self.client.thread.ok(name, from, 0, 0);
        }
        Ok(())
    }

    /// Creates an empty mailbox.
    async fn make(&mut self, mailbox: &str, name: &str) -> Result<bool, Fail> {
        let create = format!("CREATE {mailbox}");
        self.own(&create).await?;
        if self.state.last_ok {
            return Ok(true);
        }
        let why = self.state.last_text.clone();
        // It exists, perhaps with messages in it.
        self.leave(mailbox).await?;
        self.own(&format!("DELETE {mailbox}")).await?;
        if self.state.last_ok {
            return self.must(&create, name).await;
        }
        // Some servers cannot delete it so soon: Cyrus keeps a deleted mailbox under a name with
        // the second of its deletion.
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

    /// Leaves a mailbox before it is deleted: servers say BYE to a client whose selected mailbox is
    /// deleted. CLOSE could expunge messages of the selected mailbox.
    async fn leave(&mut self, mailbox: &str) -> Result<(), Fail> {
        let rest = self.selected.as_deref().and_then(|selected| selected.strip_prefix(mailbox));
        if !rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' ')) {
            return Ok(());
        }
        let command = if self.capabilities().await?.unselect { "UNSELECT" } else { "EXAMINE INBOX" };
        self.selected = None;
        self.own(command).await
    }

    pub(super) async fn fill(&mut self, fill: &Fill, name: &Rc<str>, from: Duration) -> Result<(), Fail> {
        let mailbox = self.rendered(&fill.mailbox);
        let lines = self.query(&format!("STATUS {mailbox} (MESSAGES)")).await?;
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
            let outgoing =
                |nth| Outgoing { message: data.message(nth), about: about(data.about(nth, fill.count)) };
            let mut batch = vec![outgoing(next)];
            next += 1;
            let mut bytes = batch[0].message.len();
            while several
                && next < fill.distinct
                && bytes < BATCH_BYTES
                && (batch.len() as u64) < BATCH_MESSAGES
            {
                batch.push(outgoing(next));
                bytes += batch.last().map_or(0, |outgoing| outgoing.message.len());
                next += 1;
            }
            self.line.clear();
            self.line.extend_from_slice(format!("APPEND {mailbox}").as_bytes());
            self.append_messages(&batch, Counted::own("APPEND")).await?;
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

    /// Removes the bench's mailboxes.
    pub(super) async fn clean(&mut self, name: &str) -> Result<(), Fail> {
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
        // Some servers keep the parent of deleted mailboxes.
        self.own(&format!("DELETE {}{MAILBOX}", names.prefix)).await
    }

    /// The bench's mailboxes, deepest first.
    async fn below(&mut self, names: &Names) -> Result<Vec<String>, Fail> {
        let mut command = b"LIST \"\" ".to_vec();
        quoted(&format!("{}{MAILBOX}{}*", names.prefix, names.delimiter), &mut command);
        let lines = self.query(&String::from_utf8_lossy(&command)).await?;
        let mut mailboxes: Vec<String> = lines.iter().filter_map(|line| listed(line)).collect();
        mailboxes.sort_by_key(|mailbox| std::cmp::Reverse(mailbox.len()));
        Ok(mailboxes)
    }

    /// Deletes them; returns the server's text for the first that failed.
    async fn delete(&mut self, mailboxes: Vec<String>) -> Result<Option<String>, Fail> {
        let mut refused = None;
        for mailbox in mailboxes {
            let mut command = b"DELETE ".to_vec();
            quoted(&mailbox, &mut command);
            self.own(&String::from_utf8_lossy(&command)).await?;
            // On some servers, a parent of deleted mailboxes disappears with the last of them: the
            // next list shows it.
            if !self.state.last_ok {
                refused.get_or_insert_with(|| format!("DELETE {mailbox}: {}", self.state.last_text));
            }
        }
        Ok(refused)
    }
}

/// Flags and date in the syntax of APPEND (RFC 9051 §6.3.12), each after a blank.
fn about(about: About) -> String {
    let flags = if about.flags.is_empty() { String::new() } else { format!(" ({})", about.flags) };
    let date = about.received.map(|at| format!(" \"{}\"", correspondence::date_text(at, '-')));
    flags + &date.unwrap_or_default()
}

/// `NAMESPACE (("INBOX." ".")) NIL NIL`: the first personal one.
fn namespace(line: &str) -> Option<Names> {
    let inner = line.strip_prefix("NAMESPACE ((")?;
    let (prefix, rest) = string(inner)?;
    let delimiter = string(rest.trim_start()).and_then(|(text, _)| text.chars().next()).unwrap_or('/');
    Some(Names { prefix, delimiter })
}

/// `LIST (\Noselect) "/" ""`: the hierarchy delimiter.
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
    fn messages_are_appended_with_flags_and_dates() {
        let received = Some(sealpost_base::Timestamp::from_seconds(0));
        let whole = About { flags: "\\Seen \\Flagged", received };
        assert_eq!(about(whole), " (\\Seen \\Flagged) \"01-Jan-1970 00:00:00 +0000\"");
        assert_eq!(about(About::default()), "");
    }

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
