//! The queued mails that a command shows.

use sealpost_base::Result;
use sealpost_queue::MailId;
use sealpost_queue::envelope::Mail;
use sealpost_queue::event::Selector;
use sealpost_queue::state::{Row, SEVERAL};

use crate::queues::NodeQueue;

/// A mail that is selected.
pub(super) struct Chosen {
    pub id: MailId,
    /// Its envelope, or why that cannot be read.
    pub mail: Result<Mail>,
}

/// The mails of a queue that `wanted` selects, the oldest first, `limit` at most; and whether there are more.
/// A mail that cannot be read is chosen by its id, or if all are.
pub(super) async fn choose(queue: &NodeQueue, wanted: &Selector, limit: usize) -> (Vec<Chosen>, bool) {
    let state = queue.view.state();
    let (ids, domain) = (wanted.mails.as_deref(), wanted.domain.as_deref());
    let has_criteria = wanted.sender.is_some() || domain.is_some() || wanted.site.is_some();
    let may_match = |id: MailId, row: &Row| {
        ids.is_none_or(|ids| ids.contains(&id))
            && (row.domain == SEVERAL || domain.is_none_or(|domain| state.domain(row) == Some(domain)))
    };
    let mut chosen = Vec::new();
    for (id, _) in state.rows().from(MailId(0)).filter(|(id, row)| may_match(*id, row)) {
        if chosen.len() >= limit && !has_criteria {
            return (chosen, true);
        }
        let mail = queue.view.read(id).await;
        if has_criteria && !mail.as_ref().is_ok_and(|mail| is_meant(queue, wanted, id, mail)) {
            continue;
        }
        if chosen.len() >= limit {
            return (chosen, true);
        }
        chosen.push(Chosen { id, mail });
    }
    (chosen, false)
}

/// Whether a recipient that is left is one that the selector is about.
fn is_meant(queue: &NodeQueue, wanted: &Selector, id: MailId, mail: &Mail) -> bool {
    let state = queue.view.state();
    let site = |place: usize| wanted.site.as_deref().is_none_or(|site| state.was_last_at(id, place, site));
    let mut recipients = mail.recipients.iter().enumerate();
    recipients.any(|(place, recipient)| wanted.matches(&mail.from, &recipient.domain()) && site(place))
}
