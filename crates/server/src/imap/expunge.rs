//! EXPUNGE and UID EXPUNGE (RFC 3501 §6.4.3, RFC 4315 §2.1). The responses are told with everything else at the end of
//! the command.

use sealpost_account::rights::Rights;
use sealpost_base::Error;
use sealpost_imap::types::SequenceSet;
use sealpost_mailbox::opened::expunge_deleted;

use super::reply::{Outcome, Reply};
use super::session::Session;
use super::targets;

impl Session {
    /// EXPUNGE: every message that is `\Deleted`; of these with `uids` only those.
    pub(super) async fn expunge(&mut self, uids: Option<&SequenceSet>) -> Outcome {
        let view = self.writable()?;
        let among = uids.map(|set| targets::by_uid(view, set));
        let rows = match &among {
            Some(among) => view.rows_to_expunge().min(among.len()),
            None => view.rows_to_expunge(),
        };
        let committed = self
            .change_selected(rows, |view, state| {
                if !view.rights(state).contains(Rights::EXPUNGE) {
                    return Err(Error::denied("you do not have the right to expunge messages"));
                }
                let mailbox = view.mailbox_in(state).ok();
                let events = mailbox.map(|mailbox| expunge_deleted(state, mailbox, among.as_ref()));
                Ok((events.unwrap_or_default(), ()))
            })
            .await?;
        if let (true, Some(view)) = (self.dialect.qresync() && !committed.applied.is_empty(), &mut self.view)
        {
            // RFC 7162 §3.2.7, §3.2.9
            view.owe_modseq();
        }
        Ok(Reply::ok("EXPUNGE completed"))
    }
}
