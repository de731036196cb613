//! Resolves a mailbox id from a client to a name in the account's own log.

use sealpost_account::object_id::nonexistent_parent_id;
use sealpost_account::ops;
use sealpost_base::{AccountId, MailboxId as OwnId};
use sealpost_jmap::Id;
use sealpost_jmap::id::MailboxId;

use super::list::{id, place};
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
    let (own_log, own) = logs.first()?;
    if wanted.as_str().starts_with('P') {
        let mut above = own.nonexistent_parents();
        let name = above.find(|name| nonexistent_parent_id(*own_log, name) == wanted.as_str())?.to_owned();
        return Some(Target { name, own: None, is_inbox: false, is_shared: false });
    }
    let (account, validity) = wanted.as_str().strip_prefix('F')?.split_once('-')?;
    let account: AccountId = account.parse().ok()?;
    let validity = u32::from_str_radix(validity, 16).ok()?;
    let placed = own.mailboxes().filter_map(|mailbox| Some((mailbox, place(logs, mailbox)?)));
    let mut placed = placed.filter(|(_, placed)| placed.is(account, validity));
    let (mailbox, _) = placed.find(|(_, placed)| placed.id().as_str() == wanted.as_str())?;
    Some(Target {
        name: mailbox.name().to_owned(),
        own: Some(mailbox.id()),
        is_inbox: mailbox.id() == own.inbox().id(),
        is_shared: mailbox.link().is_some(),
    })
}

/// The id of the mailbox or nonexistent parent with that name, in any spelling that resolves to it.
pub(super) fn id_of_name(logs: &Logs<'_>, name: &str) -> Option<MailboxId> {
    let (own_log, own) = logs.first()?;
    if let Some(mailbox) = ops::find(own, name) {
        return place(logs, mailbox).map(|placed| placed.id());
    }
    let written = ops::written(own, name);
    own.has_inferiors(&written).then(|| id(nonexistent_parent_id(*own_log, &written)))
}
