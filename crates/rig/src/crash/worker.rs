//! One client of the load: delivers over LMTP, and appends, copies, moves, flags and expunges over
//! IMAP.
//!
//! A worker touches only its own messages, though in shared mailboxes, and has one command in
//! flight. So after a kill the server must show exactly the worker's state before or after that
//! command.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use sealpost_base::SeededRandom;

use super::model::{MessageLocation, Op, Placed, Placements, content};
use super::{ACCOUNTS, MAILBOXES};
use crate::imap::{Imap, Reply, set, uids};
use crate::lmtp::{Lmtp, dotted};
use crate::server::PASSWORD;

/// The counted kinds of acknowledged commands.
pub const KINDS: [&str; 6] = ["deliveries", "appends", "copies", "moves", "stores", "expunges"];

const FLAGS: [&str; 5] = ["\\Seen", "\\Flagged", "\\Answered", "$Forwarded", "Project-X"];
/// A worker with more messages than this expunges more than it adds.
const MESSAGES_WANTED: usize = 40;

/// A client with its state.
pub struct Worker {
    nth: usize,
    account: usize,
    random: SeededRandom,
    made: u64,
    placements: Placements,
    in_flight: Vec<Op>,
    acknowledged: [u64; 6],
    learned: Vec<(MessageLocation, u32)>,
}

/// A worker's two connections.
pub struct Session {
    imap: Imap,
    lmtp: Lmtp,
    selected: Option<&'static str>,
}

/// How a command failed: the connection broke, or the server refused.
enum End {
    Lost(anyhow::Error),
    Refused(String),
}

impl From<anyhow::Error> for End {
    fn from(error: anyhow::Error) -> Self {
        End::Lost(error)
    }
}

impl Worker {
    /// Worker `nth`, which uses `account`.
    pub fn new(nth: usize, account: usize, seed: u64) -> Self {
        Worker {
            nth,
            account,
            random: SeededRandom::new(seed.wrapping_mul(1_000_003) + nth as u64),
            made: 0,
            placements: Placements::new(),
            in_flight: Vec::new(),
            acknowledged: [0; 6],
            learned: Vec::new(),
        }
    }

    /// Its number.
    pub fn nth(&self) -> usize {
        self.nth
    }

    /// Acknowledged so far, by [`KINDS`].
    pub fn acknowledged(&self) -> [u64; 6] {
        self.acknowledged
    }

    /// The acknowledged places of its messages.
    pub fn placements(&self) -> &Placements {
        &self.placements
    }

    /// UIDs that replies have named since the last call.
    pub fn take_learned(&mut self) -> Vec<(MessageLocation, u32)> {
        std::mem::take(&mut self.learned)
    }

    /// Whether it created message `id`.
    pub fn owns(&self, id: &str) -> bool {
        id.strip_prefix('w')
            .and_then(|rest| rest.split_once('-'))
            .is_some_and(|(nth, _)| nth == self.nth.to_string())
    }

    /// Opens its connections.
    pub async fn connect(&self, imap: SocketAddr, lmtp: SocketAddr) -> Result<Session> {
        let imap = Imap::login(imap, ACCOUNTS[self.account], PASSWORD).await?;
        Ok(Session { imap, lmtp: Lmtp::connect(lmtp).await?, selected: None })
    }

    /// Works until the connection breaks or `stop` is set. An error is a refusal, or a break before `stop`.
    pub async fn load(mut self, mut session: Session, stop: Arc<AtomicBool>) -> (Self, Result<()>) {
        let result = match self.work(&mut session, &stop).await {
            Ok(()) => Ok(()),
            Err(End::Lost(_)) if stop.load(Ordering::SeqCst) => Ok(()),
            Err(End::Lost(error)) => Err(error.context(format!("worker {}: lost before the kill", self.nth))),
            Err(End::Refused(text)) => Err(anyhow::anyhow!("worker {}: refused: {text}", self.nth)),
        };
        (self, result)
    }

    async fn work(&mut self, session: &mut Session, stop: &AtomicBool) -> Result<(), End> {
        while !stop.load(Ordering::SeqCst) {
            match self.random.below(100) {
                0..25 => self.deliver(session, &[self.account]).await?,
                25..30 => self.deliver(session, &[0, 1]).await?,
                30..50 => self.append(session).await?,
                50..62 => self.transfer(session, false).await?,
                62..74 => self.transfer(session, true).await?,
                74..88 => self.store(session).await?,
                _ => self.expunge(session).await?,
            }
            if self.placements.len() > MESSAGES_WANTED {
                self.expunge(session).await?;
            }
        }
        Ok(())
    }

    fn new_id(&mut self) -> String {
        self.made += 1;
        format!("w{}-{}", self.nth, self.made)
    }

    /// One message to one or both accounts; each recipient has its own answer.
    async fn deliver(&mut self, session: &mut Session, accounts: &[usize]) -> Result<(), End> {
        let id = self.new_id();
        let recipients: Vec<&str> = accounts.iter().map(|account| ACCOUNTS[*account]).collect();
        session.lmtp.envelope(&recipients).await?;
        for account in accounts {
            let place = MessageLocation { account: *account, mailbox: "INBOX", id: id.clone() };
            self.in_flight.push(Op::Add { place, flags: BTreeSet::new() });
        }
        session.lmtp.send(&dotted(&content(&id))).await?;
        for _ in accounts {
            let answer = session.lmtp.answer().await?;
            if !answer.is_ok() {
                return Err(End::Refused(answer.text));
            }
            let op = self.in_flight.remove(0);
            op.apply(&mut self.placements, &BTreeMap::new());
            self.acknowledged[0] += 1;
        }
        Ok(())
    }

    async fn append(&mut self, session: &mut Session) -> Result<(), End> {
        let (id, mailbox) = (self.new_id(), self.any_mailbox());
        let flags: BTreeSet<String> =
            FLAGS.iter().filter(|_| self.random.below(4) == 0).map(|flag| (*flag).to_owned()).collect();
        let text = flags.iter().cloned().collect::<Vec<_>>().join(" ");
        let place = MessageLocation { account: self.account, mailbox, id: id.clone() };
        self.in_flight.push(Op::Add { place, flags });
        let reply = session.imap.append(mailbox, &text, &content(&id)).await?;
        let named = reply.code("APPENDUID");
        let named = named
            .iter()
            .filter_map(|code| Some((id.clone(), code.split(' ').nth(1)?.parse().ok()?)))
            .collect();
        self.acknowledge(1, &reply, named)
    }

    async fn transfer(&mut self, session: &mut Session, remove: bool) -> Result<(), End> {
        let (from, to) = (self.any_mailbox(), self.any_mailbox());
        let mut chosen = self.choose(from, 8);
        chosen.retain(|(id, _)| {
            !self.placements.contains_key(&MessageLocation {
                account: self.account,
                mailbox: to,
                id: id.clone(),
            })
        });
        if from == to || chosen.is_empty() {
            return Ok(());
        }
        session.select(from).await?;
        let ids: Vec<String> = chosen.iter().map(|(id, _)| id.clone()).collect();
        self.in_flight.push(Op::Transfer { account: self.account, from, to, ids, remove });
        let verb = if remove { "MOVE" } else { "COPY" };
        let numbers: Vec<u32> = chosen.iter().map(|(_, uid)| *uid).collect();
        let reply = session.imap.run(&format!("UID {verb} {} {to}", set(&numbers))).await?;
        let by_uid: BTreeMap<u32, String> = chosen.into_iter().map(|(id, uid)| (uid, id)).collect();
        let mut named = BTreeMap::new();
        if let Some(code) = reply.code("COPYUID") {
            let mut parts = code.split(' ').skip(1).map(uids);
            let (old, new) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            named.extend(old.iter().zip(new).filter_map(|(old, new)| Some((by_uid.get(old)?.clone(), new))));
        }
        if reply.is_ok() && named.len() != by_uid.len() {
            return Err(End::Refused(format!(
                "UID {verb} of {} messages named {} in COPYUID",
                by_uid.len(),
                named.len()
            )));
        }
        self.acknowledge(if remove { 3 } else { 2 }, &reply, named)
    }

    async fn store(&mut self, session: &mut Session) -> Result<(), End> {
        let mailbox = self.any_mailbox();
        let flag = FLAGS[usize::try_from(self.random.below(FLAGS.len() as u64)).unwrap_or(0)];
        let add = self.random.below(3) > 0;
        self.store_on(session, mailbox, flag, add, 12).await.map(drop)
    }

    async fn store_on(
        &mut self,
        session: &mut Session,
        mailbox: &'static str,
        flag: &str,
        add: bool,
        most: usize,
    ) -> Result<Vec<(String, u32)>, End> {
        let chosen = self.choose(mailbox, most);
        if chosen.is_empty() {
            return Ok(chosen);
        }
        session.select(mailbox).await?;
        let ids = chosen.iter().map(|(id, _)| id.clone()).collect();
        self.in_flight.push(Op::Store { account: self.account, mailbox, ids, flag: flag.to_owned(), add });
        let numbers: Vec<u32> = chosen.iter().map(|(_, uid)| *uid).collect();
        let sign = if add { '+' } else { '-' };
        let reply = session.imap.run(&format!("UID STORE {} {sign}FLAGS ({flag})", set(&numbers))).await?;
        self.acknowledge(4, &reply, BTreeMap::new())?;
        Ok(chosen)
    }

    /// \Deleted first, then UID EXPUNGE of just those (RFC 4315 §2.1): two commands, each atomic.
    async fn expunge(&mut self, session: &mut Session) -> Result<(), End> {
        let mailbox = self.any_mailbox();
        let chosen = self.store_on(session, mailbox, "\\Deleted", true, 10).await?;
        if chosen.is_empty() {
            return Ok(());
        }
        let (ids, numbers): (Vec<String>, Vec<u32>) = chosen.into_iter().unzip();
        self.in_flight.push(Op::Expunge { account: self.account, mailbox, ids });
        let reply = session.imap.run(&format!("UID EXPUNGE {}", set(&numbers))).await?;
        self.acknowledge(5, &reply, BTreeMap::new())
    }

    fn acknowledge(&mut self, kind: usize, reply: &Reply, named: BTreeMap<String, u32>) -> Result<(), End> {
        let Some(op) = self.in_flight.pop() else { return Err(End::Refused("nothing in flight".into())) };
        if !reply.is_ok() {
            return Err(End::Refused(format!("{op:?}: {}", reply.status)));
        }
        op.apply(&mut self.placements, &named);
        for (place, placed) in &self.placements {
            if let (Some(uid), Some(named)) = (placed.uid, named.get(&place.id))
                && uid == *named
            {
                self.learned.push((place.clone(), uid));
            }
        }
        self.acknowledged[kind] += 1;
        Ok(())
    }

    fn any_mailbox(&self) -> &'static str {
        MAILBOXES[usize::try_from(self.random.below(MAILBOXES.len() as u64)).unwrap_or(0)]
    }

    /// Some of its messages in `mailbox` of its own account, those with a known UID.
    fn choose(&self, mailbox: &str, most: usize) -> Vec<(String, u32)> {
        let here = self
            .placements
            .iter()
            .filter(|(place, _)| place.account == self.account && place.mailbox == mailbox);
        let known = here.filter_map(|(place, placed)| Some((place.id.clone(), placed.uid?)));
        known.filter(|_| self.random.below(3) > 0).take(most).collect()
    }

    /// Compares the server's messages of this worker with the acknowledged ones, accepts commands
    /// in flight as done or not, and continues from there. Returns how many were in flight, and how
    /// many of them had taken effect.
    pub fn settle(&mut self, observed: &Placements) -> Result<(u64, u64)> {
        let mine: Placements = observed
            .iter()
            .filter(|(place, _)| self.owns(&place.id))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        let in_flight = std::mem::take(&mut self.in_flight);
        let mut closest: Option<Vec<String>> = None;
        for happened in 0u32..1 << in_flight.len() {
            let mut expected = self.placements.clone();
            for (nth, op) in in_flight.iter().enumerate() {
                if happened >> nth & 1 == 1 {
                    op.apply(&mut expected, &BTreeMap::new());
                }
            }
            let differences = differences(&expected, &mine);
            if differences.is_empty() {
                self.placements = mine;
                return Ok((in_flight.len() as u64, u64::from(happened.count_ones())));
            }
            if closest.as_ref().is_none_or(|best| differences.len() < best.len()) {
                closest = Some(differences);
            }
        }
        let list = closest.unwrap_or_default();
        bail!(
            "worker {}: {} differences from the acknowledged state (in flight: {in_flight:?}):\n  {}",
            self.nth,
            list.len(),
            list[..list.len().min(20)].join("\n  ")
        )
    }
}

impl Session {
    async fn select(&mut self, mailbox: &'static str) -> Result<(), End> {
        if self.selected == Some(mailbox) {
            return Ok(());
        }
        let reply = self.imap.run(&format!("SELECT {mailbox}")).await.context("SELECT")?;
        if !reply.is_ok() {
            return Err(End::Refused(format!("SELECT {mailbox}: {}", reply.status)));
        }
        self.selected = Some(mailbox);
        Ok(())
    }
}

fn differences(expected: &Placements, seen: &Placements) -> Vec<String> {
    let at =
        |place: &MessageLocation| format!("{} of {} in {}", place.id, ACCOUNTS[place.account], place.mailbox);
    let mut found = Vec::new();
    for (place, placed) in expected {
        match seen.get(place) {
            None => found.push(format!("lost: {} (UID {:?})", at(place), placed.uid)),
            Some(other) if placed.uid.is_some() && placed.uid != other.uid => {
                found.push(format!("UID changed: {}: {:?} is now {:?}", at(place), placed.uid, other.uid));
            }
            Some(other) if placed.flags != other.flags => {
                found.push(format!("flags: {}: {:?} are now {:?}", at(place), placed.flags, other.flags));
            }
            Some(_) => {}
        }
    }
    let extra = seen.iter().filter(|(place, _)| !expected.contains_key(*place));
    found.extend(extra.map(|(place, Placed { uid, .. })| format!("came back: {} (UID {uid:?})", at(place))));
    found
}

#[cfg(test)]
mod tests;
