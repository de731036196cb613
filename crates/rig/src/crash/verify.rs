//! Compares the server's state after a restart with everything ever learned about its UIDs.

use std::collections::{BTreeSet, HashMap, HashSet};

use anyhow::{Context, Result, bail, ensure};

use super::model::{MessageLocation, Placed, Placements, content};
use super::worker::Worker;
use super::{ACCOUNTS, MAILBOXES};
use crate::imap::{Imap, Reply, login, set};
use crate::server::Server;

type MailboxKey = (usize, &'static str);

/// Everything ever learned: UIDVALIDITY, the message of each UID, the highest assigned UID.
#[derive(Default)]
pub struct History {
    validity: HashMap<MailboxKey, u32>,
    next: HashMap<MailboxKey, u32>,
    meaning: HashMap<(MailboxKey, u32), String>,
    verified: HashSet<(MailboxKey, u32)>,
    /// Commands in flight at a kill.
    pub in_flight: u64,
    /// How many of them had taken effect.
    pub happened: u64,
}

impl History {
    /// UIDs known.
    pub fn uids(&self) -> usize {
        self.meaning.len()
    }

    /// Counts the commands that a worker had in flight.
    pub fn count(&mut self, (in_flight, happened): (u64, u64)) {
        self.in_flight += in_flight;
        self.happened += happened;
    }

    /// Adds the UIDs that replies named to `worker`.
    pub fn learn(&mut self, worker: &mut Worker) -> Result<()> {
        for (place, uid) in worker.take_learned() {
            self.means((place.account, place.mailbox), uid, &place.id).context("a reply")?;
        }
        Ok(())
    }

    fn means(&mut self, mailbox: MailboxKey, uid: u32, id: &str) -> Result<bool> {
        match self.meaning.get(&(mailbox, uid)) {
            Some(known) if known != id => {
                bail!("UID {uid} of {} in {} was {known} and is now {id}", ACCOUNTS[mailbox.0], mailbox.1)
            }
            Some(_) => Ok(false),
            None => {
                self.meaning.insert((mailbox, uid), id.to_owned());
                Ok(true)
            }
        }
    }

    /// Reads all mailboxes of all accounts: UIDs, flags, Message-IDs. A message twice in a mailbox
    /// is an error.
    pub async fn observe(&mut self, server: &Server) -> Result<Placements> {
        let mut seen = Placements::new();
        for (account, name) in ACCOUNTS.iter().enumerate() {
            let mut session = login(server, name).await?;
            for mailbox in MAILBOXES {
                let context = || format!("{mailbox} of {name}");
                self.observe_mailbox(&mut session, (account, mailbox), &mut seen)
                    .await
                    .with_context(context)?;
            }
        }
        Ok(seen)
    }

    async fn observe_mailbox(
        &mut self,
        imap: &mut Imap,
        key: MailboxKey,
        seen: &mut Placements,
    ) -> Result<()> {
        let selected = imap.ok(&format!("SELECT {}", key.1)).await?;
        let validity = number(&selected, "UIDVALIDITY")?;
        let known = *self.validity.entry(key).or_insert(validity);
        ensure!(known == validity, "UIDVALIDITY was {known} and is now {validity}");
        let next = number(&selected, "UIDNEXT")?;
        let given_out = self.next.insert(key, next).unwrap_or(1);
        ensure!(next >= given_out, "UIDNEXT was {given_out} and is now {next}");
        let reply = imap.ok("UID FETCH 1:* (UID FLAGS ENVELOPE)").await?;
        let mut last = 0;
        for line in reply.untagged.iter().filter(|line| is_fetch(line)) {
            let row = row(&String::from_utf8_lossy(line))
                .with_context(|| String::from_utf8_lossy(line).into_owned())?;
            ensure!(row.uid > last, "UID {} after UID {last}", row.uid);
            last = row.uid;
            ensure!(row.uid < next, "UID {} but UIDNEXT is {next}", row.uid);
            let new = self.means(key, row.uid, &row.id)?;
            ensure!(
                !new || row.uid >= given_out,
                "UID {} is new, but UIDNEXT was {given_out} already",
                row.uid
            );
            let place = MessageLocation { account: key.0, mailbox: key.1, id: row.id };
            let placed = Placed { uid: Some(row.uid), flags: row.flags };
            if let Some(twice) = seen.insert(place.clone(), placed) {
                bail!("{} is there twice: UIDs {:?} and {}", place.id, twice.uid, row.uid);
            }
        }
        Ok(())
    }

    /// Every message must be some worker's.
    pub fn nothing_foreign(&self, observed: &Placements, workers: &[Worker]) -> Result<()> {
        for place in observed.keys() {
            ensure!(workers.iter().any(|worker| worker.owns(&place.id)), "no worker made {place:?}");
        }
        ensure!(workers.iter().map(|worker| worker.placements().len()).sum::<usize>() == observed.len());
        Ok(())
    }

    /// Reads the bytes of every message not read before. A server may have added its own fields
    /// above them.
    pub async fn contents(&mut self, server: &Server, observed: &Placements) -> Result<()> {
        for (account, name) in ACCOUNTS.iter().enumerate() {
            let mut session = None;
            for mailbox in MAILBOXES {
                let key = (account, mailbox);
                let here =
                    observed.iter().filter(|(place, _)| place.account == account && place.mailbox == mailbox);
                let new: Vec<u32> = here
                    .filter_map(|(_, placed)| placed.uid.filter(|uid| !self.verified.contains(&(key, *uid))))
                    .collect();
                if new.is_empty() {
                    continue;
                }
                let imap = match &mut session {
                    Some(imap) => imap,
                    none => none.insert(login(server, name).await?),
                };
                imap.ok(&format!("EXAMINE {mailbox}")).await?;
                for some in new.chunks(50) {
                    self.read(imap, key, some).await.with_context(|| format!("{mailbox} of {name}"))?;
                }
            }
        }
        Ok(())
    }

    async fn read(&mut self, imap: &mut Imap, key: MailboxKey, uids: &[u32]) -> Result<()> {
        let reply = imap.ok(&format!("UID FETCH {} (UID BODY.PEEK[])", set(uids))).await?;
        for line in reply.untagged.iter().filter(|line| is_fetch(line)) {
            let (uid, bytes) = body(line).context("FETCH response")?;
            let id = self.meaning.get(&(key, uid)).with_context(|| format!("UID {uid} was not asked for"))?;
            ensure!(bytes.ends_with(&content(id)), "UID {uid}: the bytes of {id} are not those sent");
            self.verified.insert((key, uid));
        }
        let missing = uids.iter().find(|uid| !self.verified.contains(&(key, **uid)));
        missing.map_or(Ok(()), |uid| bail!("UID {uid} was not served"))
    }
}

fn is_fetch(line: &[u8]) -> bool {
    memchr::memmem::find(&line[..line.len().min(24)], b" FETCH (").is_some()
}

fn number(reply: &Reply, code: &str) -> Result<u32> {
    reply.code(code).with_context(|| format!("no {code}"))?.parse().with_context(|| code.to_owned())
}

struct Row {
    uid: u32,
    id: String,
    flags: BTreeSet<String>,
}

fn row(line: &str) -> Option<Row> {
    let flags = line.split_once("FLAGS (")?.1.split_once(')')?.0;
    let flags = flags.split_whitespace().filter(|flag| !flag.eq_ignore_ascii_case("\\Recent"));
    let id = line.split_once("@crash.example>")?.0.rsplit_once('<')?.1;
    Some(Row { uid: uid(line)?, id: id.to_owned(), flags: flags.map(str::to_owned).collect() })
}

fn uid(text: &str) -> Option<u32> {
    text.split_once("UID ")?.1.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// The UID and the literal of a FETCH response with one literal, in either order.
pub(super) fn body(line: &[u8]) -> Option<(u32, &[u8])> {
    let open = memchr::memchr(b'{', line)?;
    let close = open + memchr::memchr(b'}', &line[open..])?;
    let size: usize = std::str::from_utf8(&line[open + 1..close]).ok()?.parse().ok()?;
    let (head, rest) = (&line[..open], line.get(close + 1..)?);
    let (bytes, tail) = rest.split_at_checked(size)?;
    let uid = uid(&String::from_utf8_lossy(head)).or_else(|| uid(&String::from_utf8_lossy(tail)))?;
    Some((uid, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_rows_and_bodies() {
        let line = r#"1 FETCH (UID 7 FLAGS (\Seen \Recent) ENVELOPE ("d" "w1-2" NIL NIL NIL NIL NIL NIL NIL "<w1-2@crash.example>"))"#;
        let row = row(line).unwrap();
        assert_eq!((row.uid, row.id.as_str(), row.flags.len()), (7, "w1-2", 1));
        assert_eq!(body(b"1 FETCH (UID 7 BODY[] {3}abc)"), Some((7, &b"abc"[..])));
        assert_eq!(body(b"1 FETCH (BODY[] {3}abc UID 8)"), Some((8, &b"abc"[..])));
    }

    #[test]
    fn a_uid_keeps_its_meaning() {
        let mut history = History::default();
        assert!(history.means((0, "INBOX"), 1, "a").unwrap());
        assert!(!history.means((0, "INBOX"), 1, "a").unwrap());
        assert!(history.means((0, "INBOX"), 1, "b").is_err());
    }
}
