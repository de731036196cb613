//! STATUS (RFC 3501 §6.3.10): answered from what the account keeps for each mailbox, whatever its size.

use sealpost_account::rights::Rights;
use sealpost_imap::types::{Mailbox, Response, StatusItem, StatusValue};

use super::reply::{Outcome, Reply};
use super::session::Session;

impl Session {
    /// STATUS.
    pub(super) async fn status(&mut self, name: &Mailbox, items: &[StatusItem]) -> Outcome {
        let place = self.place(name).await?.require(Rights::READ)?;
        let state = place.account.state();
        let mailbox = place.mailbox_in(&state)?;
        let recent_from = place.account.recent_from(mailbox);
        let value = |item: &StatusItem| match item {
            StatusItem::Messages => mailbox.len() as u64,
            StatusItem::Recent => mailbox.rows(recent_from..=mailbox.uid_next()).count() as u64,
            StatusItem::UidNext => u64::from(mailbox.uid_next().get()),
            StatusItem::UidValidity => u64::from(mailbox.uid_validity().0.get()),
            StatusItem::HighestModSeq => mailbox.highest_modseq().0,
            StatusItem::Unseen => mailbox.unseen() as u64,
        };
        let values = items.iter().map(|item| StatusValue { item: *item, value: value(item) }).collect();
        drop(state);
        self.connection.out().response(&Response::MailboxStatus { mailbox: name.clone(), values });
        Ok(Reply::ok("STATUS completed"))
    }
}
