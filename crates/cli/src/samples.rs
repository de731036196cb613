//! Sample mail: a few dozen messages of many shapes for a trial.
//!
//! The messages are the same every time. They arrive in one log entry together with a mark that
//! they have, so an account gets them once, however often and wherever a run is interrupted.

mod attachments;
mod letter;
mod odd;
mod reports;
mod scripts;
mod shapes;
mod threads;

use anyhow::Result;
use sealpost_account::{Account, AccountState, Accounts, Event, Flags, Stored, SystemFlags, ops};
use sealpost_base::{MailboxId, Timestamp};
use sealpost_directory::AccountRecord;
use sealpost_vault::RootKey;

use letter::Letter;

/// Remembers in the account that it has the samples.
const MARK: &str = "samples/delivered";
/// Which samples those were.
const EDITION: u8 = 1;
/// Domains of their senders that exist; the others do not, so no mail can be sent to them.
pub const DOMAINS: [&str; 3] = ["example.com", "example.net", "example.org"];
/// Everything random in the samples comes from it.
const SEED: u64 = 0x5ea1_9057;

/// One message, and its mailbox.
pub struct Sample {
    mailbox: &'static str,
    flags: Flags,
    received: Timestamp,
    raw: Vec<u8>,
}

impl Sample {
    fn inbox(letter: &Letter, raw: Vec<u8>) -> Self {
        Sample { mailbox: "INBOX", flags: Flags::default(), received: letter.received(), raw }
    }

    fn with(mut self, flags: SystemFlags) -> Self {
        self.flags.system = self.flags.system.with(flags);
        self
    }

    fn seen(self) -> Self {
        self.with(SystemFlags::SEEN)
    }

    fn keyword(mut self, keyword: &str) -> Self {
        self.flags.keywords.push(keyword.to_owned());
        self
    }

    fn in_mailbox(mut self, mailbox: &'static str) -> Self {
        self.mailbox = mailbox;
        self
    }
}

/// All samples for the account called `me`, a few at a time: together they are larger than they
/// need be in memory.
fn groups(me: &str) -> impl Iterator<Item = Vec<Sample>> + '_ {
    let groups: [fn(&str) -> Vec<Sample>; 6] = [
        shapes::samples,
        scripts::samples,
        attachments::samples,
        threads::samples,
        reports::samples,
        odd::samples,
    ];
    groups.into_iter().map(move |group| group(me))
}

/// Puts the samples into an account that never had them; says how many it put there.
///
/// # Errors
/// What the store says; none of them is there then.
pub async fn deliver(accounts: &Accounts, record: &AccountRecord, root: &RootKey) -> Result<usize> {
    let account = accounts.open(record.id, root).await?;
    account.refresh().await?;
    if account.state().object(MARK).is_some() {
        return Ok(0);
    }
    let mut stored = Vec::new();
    for sample in groups(record.name.as_str()).flatten() {
        let message = store(&account, &sample.raw).await?;
        stored.push((Sample { raw: Vec::new(), ..sample }, message));
    }
    let committed = account.commit(|state| Ok(decide(state, &stored))).await?;
    Ok(committed.value)
}

async fn store(account: &Account, raw: &[u8]) -> Result<Stored> {
    let mut ingest = account.ingest().await?;
    ingest.write(raw).await?;
    Ok(ingest.finish().await?)
}

/// Everything in one entry: the mailboxes that are missing, the messages, and the mark.
fn decide(state: &AccountState, stored: &[(Sample, Stored)]) -> (Vec<Event>, usize) {
    if state.object(MARK).is_some() {
        return (Vec::new(), 0);
    }
    let mut events = Vec::new();
    let mut made: Vec<(&str, MailboxId)> = Vec::new();
    for (sample, message) in stored {
        let known = made.iter().find(|(name, _)| *name == sample.mailbox).map(|(_, id)| *id);
        let mailbox = known.unwrap_or_else(|| {
            let id = mailbox(state, sample.mailbox, &mut events);
            made.push((sample.mailbox, id));
            id
        });
        let (message, flags) = (message.message(sample.received), sample.flags.clone());
        events.push(Event::Appended { mailbox, message, flags });
    }
    events.push(Event::ObjectPut { name: MARK.to_owned(), value: vec![EDITION] });
    (events, stored.len())
}

/// The mailbox of that name; made if there is none, and the inbox if none can be made.
fn mailbox(state: &AccountState, name: &str, events: &mut Vec<Event>) -> MailboxId {
    if let Some(mailbox) = state.mailbox_named(name) {
        return mailbox.id();
    }
    let Ok(create) = ops::create_mailbox(state, name, Default::default()) else { return state.inbox().id() };
    // A mailbox gets the next id; those that were decided on just now come first.
    let before = events.iter().filter(|event| matches!(event, Event::MailboxCreated { .. })).count();
    let id = state.next_mailbox_id().0 + (before + create.len()) as u32 - 1;
    events.extend(create);
    events.push(Event::Subscribed { name: name.to_owned(), on: true });
    MailboxId(id)
}

#[cfg(test)]
mod tests;
