//! The parents of mailboxes: their names show it, and JMAP needs them by id (RFC 8621 §2,
//! parentId).
//!
//! A name above mailboxes need not be a mailbox's: IMAP deletes a mailbox and leaves its inferiors
//! (RFC 9051 §6.3.5). JMAP has to show something there: a **nonexistent parent**, which has no
//! messages and an id made of its name ([`crate::object_id::nonexistent_parent_id`]). Its
//! appearance and disappearance are not reported one by one: they are rare, and a client then
//! fetches all mailboxes ([`super::changes`]).

use std::collections::BTreeSet;

use sealpost_base::MailboxId;

use super::AccountState;

/// What is right above a mailbox or a nonexistent parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parent<'a> {
    /// Nothing: it is at the top.
    None,
    /// A mailbox, which may be a link.
    Mailbox(MailboxId),
    /// A name that no mailbox has.
    Nonexistent(&'a str),
}

/// The name right above a name.
fn above(name: &str) -> Option<&str> {
    name.rsplit_once('/').map(|(above, _)| above)
}

impl AccountState {
    /// What is right above the mailbox, or the nonexistent parent, of that name. Looks up one name.
    pub fn parent<'a>(&self, name: &'a str) -> Parent<'a> {
        match above(name) {
            None => Parent::None,
            Some(above) => match self.by_name.get(above) {
                Some(id) => Parent::Mailbox(*id),
                None => Parent::Nonexistent(above),
            },
        }
    }

    /// The names above mailboxes that no mailbox has, by name. Reads the names of all mailboxes;
    /// there are at most [`sealpost_base::limits::MAILBOX_LEVELS`] of them for each.
    pub fn nonexistent_parents(&self) -> impl Iterator<Item = &str> {
        let mut before = "";
        self.by_name.keys().flat_map(move |name| {
            let last = std::mem::replace(&mut before, name);
            // Those that are above the name before too have been shown. Names are sorted: what is
            // below one name comes together.
            let shown = move |above: &str| last.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'));
            let levels = name.match_indices('/').map(|(at, _)| &name[..at]);
            levels.filter(move |above| !self.by_name.contains_key(*above) && !shown(above))
        })
    }

    /// Whether a name that no mailbox has, and had or will have, makes or unmakes a nonexistent
    /// parent: it is one itself, or the name above it, which nothing else is below.
    pub(super) fn changes_parents(&self, name: &str) -> bool {
        let alone = |above: &str| !self.by_name.contains_key(above) && !self.has_inferiors(above);
        self.has_inferiors(name) || above(name).is_some_and(alone)
    }

    /// The nonexistent parents, to be compared with those after a change of many names.
    pub(super) fn parents_now(&self) -> BTreeSet<String> {
        self.nonexistent_parents().map(str::to_owned).collect()
    }
}
