//! MAILBOXID (RFC 8474 §4). EMAILID and THREADID are FETCH items and SEARCH keys.

use sealpost_account::Mailbox;
use sealpost_account::object_id::mailbox_id;
use sealpost_base::AccountId;
use sealpost_imap::types::{Code, ObjectId};

/// The id of a mailbox of that account.
pub(super) fn of_mailbox(account: AccountId, mailbox: &Mailbox) -> Option<ObjectId> {
    ObjectId::new(&mailbox_id(account, mailbox)).ok()
}

/// `[MAILBOXID (…)]`, which CREATE, SELECT and EXAMINE return (RFC 8474 §4.1, §4.2).
pub(super) fn code(account: AccountId, mailbox: &Mailbox) -> Option<Code> {
    of_mailbox(account, mailbox).map(Code::MailboxId)
}
