//! EXPUNGE and UID EXPUNGE (RFC 3501 §6.4.3, RFC 4315 §2.1). Responses are sent with all other updates at the
//! end of the command.

use sealpost_account::rights::Rights;
use sealpost_base::Error;
use sealpost_imap::types::SequenceSet;
use sealpost_mailbox::opened::expunge_deleted;

use super::own_entries::OwnEntries;
use super::reply::{Outcome, Reply};
use super::responses::Responses;
use super::selected::Selected;
use super::targets;
use super::updates;

/// EXPUNGE: removes every `\Deleted` message; with `uids`, only those among them.
pub(super) async fn expunge(
    selected: &mut Selected,
    responses: &mut Responses,
    own: &mut OwnEntries,
    uids: Option<&SequenceSet>,
) -> Outcome {
    let view = selected.writable()?;
    let among = uids.map(|set| targets::by_uid(view, set));
    let rows = match &among {
        Some(among) => view.rows_to_expunge().min(among.len()),
        None => view.rows_to_expunge(),
    };
    let committed = updates::change_selected(selected, responses, own, rows, |view, state| {
        if !view.rights(state).contains(Rights::EXPUNGE) {
            return Err(Error::denied("you do not have the right to expunge messages"));
        }
        let mailbox = view.mailbox_in(state).ok();
        let events = mailbox.map(|mailbox| expunge_deleted(state, mailbox, among.as_ref()));
        Ok((events.unwrap_or_default(), ()))
    })
    .await?;
    if responses.dialect.qresync() && !committed.applied.is_empty() {
        // RFC 7162 §3.2.7, §3.2.9
        selected.owe_modseq();
    }
    Ok(Reply::ok("EXPUNGE completed"))
}
