//! Resolves a mailbox id from a client to a name in the account's own log.

use sealpost_account::ops;
use sealpost_base::{AccountId, MailboxId as OwnId};
use sealpost_jmap::Id;
use sealpost_jmap::id::MailboxId;

use super::list::{nonexistent_parents, parent_of_name, place, placed};
use crate::scope::Logs;

/// A mailbox of the account, or a nonexistent parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    /// Its full name in the account's own log.
    pub(super) name: String,
    /// The mailbox there; `None` for a nonexistent parent.
    pub(super) own: Option<OwnId>,
    pub(super) is_inbox: bool,
    /// Whether its messages are in a log of their own.
    pub(super) is_shared: bool,
}

/// Resolves an id. Scans all mailboxes and the names of the nonexistent parents.
pub(super) fn with_id(logs: &Logs<'_>, wanted: &Id) -> Option<Target> {
    if wanted.as_str().starts_with('P') {
        let mut above = nonexistent_parents(logs).into_iter();
        let name = above.find(|name| parent_of_name(logs, name).as_str() == wanted.as_str())?.to_owned();
        return Some(Target { name, own: None, is_inbox: false, is_shared: false });
    }
    let (account, validity) = wanted.as_str().strip_prefix('F')?.split_once('-')?;
    let account: AccountId = account.parse().ok()?;
    let validity = u32::from_str_radix(validity, 16).ok()?;
    let mut placed = placed(logs).filter(|placed| placed.is(account, validity));
    let placed = placed.find(|placed| placed.id().as_str() == wanted.as_str())?;
    let mailbox = placed.own();
    Some(Target {
        name: mailbox.name().to_owned(),
        own: Some(mailbox.id()),
        is_inbox: mailbox.id() == logs.own().1.inbox().id(),
        is_shared: mailbox.link().is_some(),
    })
}

/// The id of the mailbox or nonexistent parent with that name, in any spelling that resolves to it.
pub(super) fn id_of_name(logs: &Logs<'_>, name: &str) -> Option<MailboxId> {
    let own = logs.own().1;
    if let Some(mailbox) = ops::find(own, name) {
        return place(logs, mailbox).map(|placed| placed.id());
    }
    let written = ops::written(own, name);
    own.has_inferiors(&written).then(|| parent_of_name(logs, &written))
}
