//! STATUS (RFC 3501 §6.3.10, RFC 9051 §6.3.11): answered from what the account keeps for each mailbox, whatever its size.
//!
//! Items of extensions: SIZE (RFC 8438), MAILBOXID (RFC 8474 §4.3), APPENDLIMIT (RFC 7889 §3.1), HIGHESTMODSEQ (RFC 7162
//! §3.1.7).

use sealpost_account::rights::Rights;
use sealpost_account::{Account, Mailbox as State};
use sealpost_imap::types::{Mailbox, Response, StatusData, StatusItem, StatusValue};

use super::object_id;
use super::reply::{Outcome, Reply};
use super::session::Session;

impl Session {
    /// STATUS.
    pub(super) async fn status(&mut self, name: &Mailbox, items: &[StatusItem]) -> Outcome {
        let place = self.place(name).await?.require(Rights::READ)?;
        let state = place.account.state();
        let mailbox = place.mailbox_in(&state)?;
        let limit = self.append_limit();
        let value = |item: &StatusItem| StatusValue {
            item: *item,
            value: value(&place.account, mailbox, limit, *item),
        };
        let values = items.iter().map(value).collect();
        drop(state);
        self.connection.out().response(&Response::MailboxStatus { mailbox: name.clone(), values });
        Ok(Reply::ok("STATUS completed"))
    }
}

/// What an item says of a mailbox of that account.
pub(super) fn value(account: &Account, mailbox: &State, append_limit: u32, item: StatusItem) -> StatusData {
    let number = match item {
        StatusItem::Messages => mailbox.len() as u64,
        StatusItem::Recent => mailbox.rows(account.recent_from(mailbox)..=mailbox.uid_next()).count() as u64,
        StatusItem::UidNext => u64::from(mailbox.uid_next().get()),
        StatusItem::UidValidity => u64::from(mailbox.uid_validity().0.get()),
        StatusItem::HighestModSeq => mailbox.highest_modseq().0.max(1),
        StatusItem::Unseen => mailbox.unseen() as u64,
        StatusItem::Deleted => mailbox.deleted() as u64,
        // RFC 8438 §3: the sum of RFC822.SIZE, which is also what the quota counts.
        StatusItem::Size => mailbox.bytes(),
        StatusItem::AppendLimit => u64::from(append_limit),
        StatusItem::MailboxId => {
            return object_id::of_mailbox(account.id(), mailbox).map_or(StatusData::Nil, StatusData::Id);
        }
    };
    StatusData::Number(number)
}
