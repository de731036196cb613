//! The mailbox of a delivery: the node that appends it cannot read the account, so
//! [`AccountState::apply`] decides.
//!
//! [`AccountState::apply`]: super::AccountState::apply

use std::borrow::Cow;

use sealpost_base::{MailboxId, limits};

use super::AccountState;
use crate::event::{Flags, Target};
use crate::share_name::is_of_others;
use crate::{name, ops};

impl AccountState {
    /// The mailbox for a delivery to `target`, created if `create` says so and it is permitted. The
    /// inbox, if there is no such mailbox, if the name is not valid, or if it is a link: mail is
    /// sealed for this account alone, so a delivery does not enter a share.
    pub(super) fn destination(&mut self, target: Option<&Target>, create: bool) -> MailboxId {
        let wanted = match target {
            None => None,
            Some(Target::Mailbox(id)) => self.mailbox(*id).map(|mailbox| mailbox.id),
            Some(Target::Named(name)) => match ops::find(self, name) {
                Some(found) => self.mailbox(found.id).map(|mailbox| mailbox.id),
                None if create => self.make_for_delivery(&name::normal(name)),
                None => None,
            },
        };
        wanted.unwrap_or_else(|| self.inbox().id)
    }

    /// Creates a mailbox for a delivery, with those above it, and subscribes to it, so that clients
    /// show it. `None` if it is not permitted: the name is not allowed or another user's, there are
    /// too many mailboxes, or it would be below a link, whose owner decides who sees it.
    fn make_for_delivery(&mut self, name: &str) -> Option<MailboxId> {
        if name::check(name).is_err() || is_of_others(name) {
            return None;
        }
        let levels = || name.match_indices('/').map(|(at, _)| &name[..at]).chain([name]);
        let mut missing = 0;
        for level in levels() {
            match self.mailbox_named(level) {
                Some(above) if above.link.is_some() => return None,
                Some(_) => {}
                None => missing += 1,
            }
        }
        if self.mailboxes.len() + missing > limits::MAILBOXES {
            return None;
        }
        let mut made = None;
        for level in levels() {
            if self.by_name.contains_key(level) {
                continue;
            }
            let id = self.add_mailbox(level.to_owned(), None);
            self.subscribe(level, true);
            made = Some(id);
        }
        made
    }
}

/// The flags of a delivery that a message may have: keywords that IMAP can write (RFC 9051 §9,
/// `atom`), as many as there may be.
pub(super) fn allowed(flags: &Flags) -> Cow<'_, Flags> {
    let few = flags.keywords.len() <= limits::FLAG_SET_KEYWORDS;
    if few && flags.keywords.iter().all(|keyword| is_keyword(keyword)) {
        return Cow::Borrowed(flags);
    }
    let keywords = flags.keywords.iter().filter(|keyword| is_keyword(keyword));
    let keywords = keywords.take(limits::FLAG_SET_KEYWORDS).cloned().collect();
    Cow::Owned(Flags { system: flags.system, keywords })
}

fn is_keyword(keyword: &str) -> bool {
    let atom = |c: u8| c.is_ascii_graphic() && !b"(){%*\"\\]".contains(&c);
    !keyword.is_empty() && keyword.len() <= limits::KEYWORD_BYTES && keyword.bytes().all(atom)
}
