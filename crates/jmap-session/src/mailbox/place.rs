//! Locates the messages of a mailbox.

use sealpost_base::AccountId;
use sealpost_base::MailboxId as OwnId;
use sealpost_jmap::Id;

use super::list::placed;
use crate::scope::Logs;

/// The log with the messages of the mailbox that has this id, and the mailbox there. `None` if there is no
/// such mailbox, or if it is a nonexistent parent, which has no messages.
pub(crate) fn place_of_id(logs: &Logs<'_>, wanted: &Id) -> Option<(AccountId, OwnId)> {
    let (account, validity) = wanted.as_str().strip_prefix('F')?.split_once('-')?;
    let account: AccountId = account.parse().ok()?;
    let validity = u32::from_str_radix(validity, 16).ok()?;
    let mut placed = placed(logs);
    let placed =
        placed.find(|placed| placed.is(account, validity) && placed.id().as_str() == wanted.as_str())?;
    Some(placed.place())
}
