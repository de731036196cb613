//! Reads single emails from the state: those that changed, and those that consist of several messages.

use std::collections::{BTreeSet, HashMap};

use sealpost_account::ThreadId;
use sealpost_base::{ObjectId, Timestamp};
use sealpost_mailbox::emails::{Email, EmailFlags};

use super::list::{Entry, Logs};
use super::plan::{Facts, KeywordBits, Plan};
use super::query::{EmailKeyword, MailboxPlace};

/// Reads emails at one moment.
pub(super) struct FactReader<'a> {
    logs: &'a Logs<'a>,
    plan: &'a Plan,
    /// The keywords of threads read so far: those of all their emails, and of some.
    threads: HashMap<ThreadId, (u64, u64)>,
}

/// An email in the terms of a plan.
pub(super) struct KnownEmail {
    pub(super) object: ObjectId,
    pub(super) entry: Entry,
    pub(super) thread: ThreadId,
    received: Timestamp,
    size: u64,
    mailboxes: Vec<MailboxPlace>,
    keywords: KeywordBits,
}

impl<'a> FactReader<'a> {
    /// Reads logs with maps.
    pub(super) fn new(logs: &'a Logs<'a>, plan: &'a Plan) -> Self {
        FactReader { logs, plan, threads: HashMap::new() }
    }

    /// The email with that object; `None` if it is not visible.
    pub(super) fn email(&mut self, object: ObjectId) -> Option<KnownEmail> {
        let email = Email::find(self.logs, object)?;
        let (log, number) = email.stored;
        let log = self.logs.iter().position(|(known, _)| *known == log)?;
        let (all, some) = self.keywords_of_thread(email.thread);
        Some(KnownEmail {
            object,
            entry: Entry { log: log as u16, number: number.0 },
            thread: email.thread,
            received: email.received,
            size: email.size,
            mailboxes: email.mailboxes.into_iter().collect(),
            keywords: KeywordBits { own: self.bits(&email.flags), all, some },
        })
    }

    /// The visible emails of a thread.
    pub(super) fn thread(&self, thread: ThreadId) -> BTreeSet<ObjectId> {
        let visible = self.logs.iter().flat_map(|(_, state)| {
            let numbers = state.maps().into_iter().flat_map(move |maps| maps.thread(thread));
            let numbers = numbers.filter(|number| state.is_visible(*number));
            numbers.filter_map(|number| Some(state.message_fields(number)?.first_object))
        });
        visible.collect()
    }

    fn keywords_of_thread(&mut self, thread: ThreadId) -> (u64, u64) {
        if !self.plan.threads {
            return (0, 0);
        }
        if let Some(known) = self.threads.get(&thread) {
            return *known;
        }
        let emails = self.thread(thread);
        let each = emails.iter().filter_map(|object| Email::find(self.logs, *object));
        let (all, some) = each
            .map(|email| self.bits(&email.flags))
            .fold((u64::MAX, 0), |(all, some), bits| (all & bits, some | bits));
        self.threads.insert(thread, (all, some));
        (all, some)
    }

    fn bits(&self, flags: &EmailFlags) -> u64 {
        self.plan.bits(|keyword| match keyword {
            EmailKeyword::System(flag) => flags.system.contains(*flag),
            EmailKeyword::Named(name) => flags.keywords.iter().any(|known| known.eq_ignore_ascii_case(name)),
        })
    }
}

impl KnownEmail {
    pub(super) fn facts(&self) -> Facts<'_> {
        Facts {
            received: self.received,
            size: self.size,
            mailboxes: &self.mailboxes,
            keywords: self.keywords,
        }
    }
}
