//! [`Listing`]: all mailboxes of an account and what is in them, in one round trip where the server can (RFC 5819).

use std::collections::HashMap;

use sealpost_base::{Result, counted, limits};
use sealpost_imap::client::Event;
use sealpost_imap::types::{
    ListItem, Mailbox, MailboxAttribute, Response, Status, StatusData, StatusItem, StatusValue,
};
use sealpost_imap::utf7;

use super::Connection;
use crate::backup::FolderName;

/// STATUS commands that are sent before the answer to the first is waited for.
const STATUS_AT_ONCE: usize = 64;

/// The mailboxes of an account.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// In the order of the server.
    pub folders: Vec<ListedMailbox>,
    /// Mailboxes that are left out, and why: they do not keep others from being pulled.
    pub left_out: Vec<(String, String)>,
}

/// A mailbox of a server.
#[derive(Debug, Clone)]
pub struct ListedMailbox {
    /// Its name.
    pub name: FolderName,
    /// Its name as commands have to send it.
    pub wire: Box<[u8]>,
    /// Whether there may be messages in it.
    pub selectable: bool,
    /// What it is for (RFC 6154), and other attributes.
    pub attributes: Vec<MailboxAttribute>,
    /// What STATUS says; `None` if it said nothing.
    pub numbers: Option<Numbers>,
}

/// What STATUS says of a mailbox; 0: not known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Numbers {
    /// MESSAGES
    pub messages: u32,
    /// UIDNEXT
    pub uidnext: u32,
    /// UIDVALIDITY
    pub uidvalidity: u32,
    /// HIGHESTMODSEQ
    pub highestmodseq: u64,
    /// MAILBOXID
    pub mailboxid: Option<String>,
}

impl Connection {
    /// Lists all mailboxes, with their numbers.
    ///
    /// # Errors
    /// `Retry` if the connection is lost; what the server says.
    pub async fn listing(&mut self) -> Result<Listing> {
        let capabilities = self.capabilities().clone();
        let mut items = "MESSAGES UIDNEXT UIDVALIDITY".to_owned();
        if capabilities.condstore() {
            items.push_str(" HIGHESTMODSEQ");
        }
        if capabilities.has("OBJECTID") {
            items.push_str(" MAILBOXID");
        }
        let mut gathering = Gathering::default();
        let with_status = capabilities.list_status();
        let uses = if capabilities.special_use() { " SPECIAL-USE" } else { "" };
        let returns = if with_status { format!(" RETURN (STATUS ({items}){uses})") } else { String::new() };
        let list = |event| gathering.take(event);
        let mut done = self.run(|w| w.raw(b"LIST \"\" \"*\"").raw(&returns), list).await?;
        let mut statuses = with_status;
        if with_status && done.status != Status::Ok {
            // A mailbox that cannot be opened has made whole LIST commands fail.
            gathering = Gathering::default();
            statuses = false;
            done = self.run(|w| w.raw(b"LIST \"\" \"*\""), |event| gathering.take(event)).await?;
        }
        done.ok("LIST")?;
        if !statuses {
            self.statuses(&mut gathering, &items).await?;
        }
        if gathering.too_many > 0 {
            let (n, most) = (gathering.too_many, limits::ARCHIVE_FOLDERS);
            let mailboxes = counted(n, "mailbox", "mailboxes");
            let why = format!("the server has {mailboxes} more than the {most} that are read");
            gathering.left_out.push(("LIST".to_owned(), why));
        }
        Ok(Listing { folders: gathering.folders, left_out: gathering.left_out })
    }

    /// Sends STATUS for every mailbox, in a pipeline. A refused one has no numbers.
    async fn statuses(&mut self, gathering: &mut Gathering, items: &str) -> Result<()> {
        let names: Vec<_> = gathering
            .folders
            .iter()
            .filter(|found| found.selectable)
            .map(|found| found.wire.clone())
            .collect();
        for names in names.chunks(STATUS_AT_ONCE) {
            let mut last = 0;
            for name in names {
                last = self.queue(|w| w.raw(b"STATUS ").astring(name).raw(format!(" ({items})")));
            }
            self.flush().await?;
            loop {
                let event = self.next().await?;
                if Connection::completion(&event) == Some(last) {
                    break;
                }
                gathering.take(event)?;
            }
        }
        Ok(())
    }
}

/// A listing that is not complete.
#[derive(Default)]
struct Gathering {
    folders: Vec<ListedMailbox>,
    by_name: HashMap<Box<str>, usize>,
    left_out: Vec<(String, String)>,
    too_many: u64,
}

impl Gathering {
    fn take(&mut self, event: Event) -> Result<()> {
        match event {
            Event::Response(Response::List(ListItem { attributes, delimiter, mailbox, .. })) => {
                let wire = utf7::encode(mailbox.given()).into_bytes().into();
                self.add(FolderName::new(mailbox.as_str(), delimiter), wire, attributes)
            }
            Event::Response(Response::ListUndecodable { attributes, delimiter, wire }) => {
                let wire: Box<[u8]> = wire.into_bytes().into();
                let mut name = utf8(&wire).unwrap_or_else(|| readable(&wire, b""));
                let at = self.by_name.get(&*name).and_then(|at| self.folders.get(*at));
                if at.is_some_and(|other| other.wire != wire) {
                    // The decoded name of another mailbox equals this one's bytes: `a&b` and
                    // `a&-b`.
                    name = readable(&wire, b"&");
                }
                self.add(FolderName::new(name, delimiter), wire, attributes)
            }
            Event::Response(Response::MailboxStatus { mailbox, values }) => {
                self.status(&mailbox, values);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn add(
        &mut self,
        mut name: FolderName,
        wire: Box<[u8]>,
        attributes: Vec<MailboxAttribute>,
    ) -> Result<()> {
        if let Some(at) = self.by_name.get(name.as_str()).copied() {
            let other = &self.folders[at];
            // INBOX is one mailbox in whatever case (RFC 3501 §5.1).
            if other.wire == wire || name.as_str() == "INBOX" {
                return Ok(());
            }
            // One of the two has no name but its bytes.
            let (its, this) = (readable(&other.wire, b"&"), readable(&wire, b"&"));
            if !self.by_name.contains_key(&*its) {
                let other = &mut self.folders[at];
                other.name = FolderName::new(&*its, other.name.delimiter());
                self.by_name.insert(its.into(), at);
            } else if !self.by_name.contains_key(&*this) {
                name = FolderName::new(&*this, name.delimiter());
            } else {
                if self.left_out.len() < limits::ARCHIVE_LEFT_OUT {
                    let why = "the server lists two mailboxes with this name; only one of them is backed up";
                    self.left_out.push((name.as_str().to_owned(), why.to_owned()));
                }
                return Ok(());
            }
        }
        if self.folders.len() == limits::ARCHIVE_FOLDERS {
            self.too_many += 1;
            return Ok(());
        }
        let not = [MailboxAttribute::NoSelect, MailboxAttribute::NonExistent];
        let selectable = !attributes.iter().any(|attribute| not.contains(attribute));
        self.by_name.insert(name.as_str().into(), self.folders.len());
        self.folders.push(ListedMailbox { name, wire, selectable, attributes, numbers: None });
        Ok(())
    }

    fn status(&mut self, mailbox: &Mailbox, values: Vec<StatusValue>) {
        let place = self.by_name.get(mailbox.as_str()).and_then(|at| self.folders.get_mut(*at));
        let Some(found) = place else { return };
        let mut numbers = Numbers::default();
        for StatusValue { item, value } in values {
            match (item, value) {
                (StatusItem::Messages, StatusData::Number(n)) => numbers.messages = narrow(n),
                (StatusItem::UidNext, StatusData::Number(n)) => numbers.uidnext = narrow(n),
                (StatusItem::UidValidity, StatusData::Number(n)) => numbers.uidvalidity = narrow(n),
                (StatusItem::HighestModSeq, StatusData::Number(n)) => numbers.highestmodseq = n,
                (StatusItem::MailboxId, StatusData::Id(id)) => {
                    numbers.mailboxid = Some(id.as_str().to_owned())
                }
                _ => {}
            }
        }
        found.numbers = Some(numbers);
    }
}

/// Bytes above 127 read as UTF-8, from servers that do not use modified UTF-7.
fn utf8(wire: &[u8]) -> Option<String> {
    let name = utf7::name(wire, false).ok().filter(|_| !wire.is_ascii())?;
    Some(name.as_str().to_owned())
}

/// A name for a mailbox whose name cannot be decoded: its bytes, and U+FFFD with the number of
/// those that are no printable ASCII, or among `also`. No two are the same.
fn readable(wire: &[u8], also: &[u8]) -> String {
    let escaped = |byte: &u8| match byte {
        b' '..=b'~' if !also.contains(byte) => char::from(*byte).to_string(),
        byte => format!("\u{fffd}{byte:02X}"),
    };
    wire.iter().map(escaped).collect()
}

fn narrow(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use sealpost_imap::types::AString;

    use super::*;

    fn names(gathering: &Gathering) -> Vec<(&str, &[u8])> {
        gathering.folders.iter().map(|found| (found.name.as_str(), &*found.wire)).collect()
    }

    fn add(gathering: &mut Gathering, wire: &[u8]) -> Result<()> {
        if let Some(name) = utf7::decode(wire) {
            return gathering.add(FolderName::new(name, Some('/')), wire.into(), vec![]);
        }
        let (attributes, delimiter, wire) = (vec![], Some('/'), AString::new(wire).unwrap());
        gathering.take(Event::Response(Response::ListUndecodable { attributes, delimiter, wire }))
    }

    #[test]
    fn inbox_ignores_case_but_its_children_do_not() {
        let mut gathering = Gathering::default();
        for name in ["inbox", "INBOX", "Inbox", "INBOX/x", "inbox/x", "INBOX/x"] {
            let (mailbox, extended) = (Mailbox::new(name).unwrap(), vec![]);
            let item = ListItem { attributes: vec![], delimiter: Some('/'), mailbox, extended };
            gathering.take(Event::Response(Response::List(item))).unwrap();
        }
        let found: [(&str, &[u8]); 3] =
            [("INBOX", b"inbox"), ("INBOX/x", b"INBOX/x"), ("inbox/x", b"inbox/x")];
        assert_eq!(names(&gathering), found);
    }

    #[test]
    fn undecodable_names_stay_distinct() {
        for turned in [false, true] {
            let raw = "Entwürfe".as_bytes();
            let mut wires: Vec<&[u8]> = vec![
                b"Entw\xfcrfe",
                b"Entw\xf6rfe",
                b"a&b",
                b"a&-b",
                raw,
                b"Entw&APw-rfe",
                "é/R&D".as_bytes(),
            ];
            if turned {
                wires.reverse();
            }
            let mut gathering = Gathering::default();
            for wire in wires.iter().chain(&wires.clone()) {
                add(&mut gathering, wire).unwrap();
            }
            let mut found = names(&gathering);
            found.sort();
            let wanted: [(&str, &[u8]); 7] = [
                ("Entwürfe", b"Entw&APw-rfe"),
                ("Entw\u{fffd}C3\u{fffd}BCrfe", raw),
                ("Entw\u{fffd}F6rfe", b"Entw\xf6rfe"),
                ("Entw\u{fffd}FCrfe", b"Entw\xfcrfe"),
                ("a&b", b"a&-b"),
                ("a\u{fffd}26b", b"a&b"),
                ("é/R&D", "é/R&D".as_bytes()),
            ];
            assert_eq!(found, wanted, "{turned}");
            assert!(gathering.folders.iter().all(|found| {
                gathering.folders[gathering.by_name[found.name.as_str()]].name == found.name
            }));
        }
    }
}
