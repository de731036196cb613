//! Cancels a submission (RFC 8621 §7.5): the queue that has it decides, by the order of its log.

use std::time::Duration;

use sealpost_account::submission::{SubmissionNews, SubmissionRecord, Undo};
use sealpost_account::{AccountState, Event};
use sealpost_base::Result;
use sealpost_jmap::SetError;
use sealpost_jmap::error::SetErrorType;
use sealpost_queue::Queue;

use crate::method::Failure;
use crate::record_state::RecordChanges;
use crate::scope::Scope;

/// How often the account is looked at while another node decides, and how many times: nodes look for requests
/// every 30 seconds in stores that do not notify.
const LOOK: Duration = Duration::from_millis(500);
const LOOKS: usize = 80;

/// Cancels a submission; the error of the object if it is too late.
pub(super) async fn cancel(
    scope: &Scope<'_>,
    changes: &mut RecordChanges,
    record: &SubmissionRecord,
) -> std::result::Result<std::result::Result<(), SetError>, Failure> {
    let id = record.submission.id;
    let Some(outbox) = &scope.user().shared.outbox else { return Ok(Err(too_late("sending is off"))) };
    if record.progress.undo() == Undo::Final {
        return Ok(Err(too_late("the message has been sent")));
    }
    let queue = outbox.queue();
    if record.submission.queue != queue.node() {
        return Ok(Box::pin(by_other_node(scope, queue, record)).await?);
    }
    if !queue.cancel(id).await? {
        return Ok(Err(too_late("the message is being sent, or was")));
    }
    // The queue tells the account as well; the client need not wait for that.
    let decide = |state: &AccountState| {
        let event = Event::SubmissionOutcome { submission: id, news: vec![SubmissionNews::Canceled] };
        Ok((vec![event], state.submissions().changed()))
    };
    let committed = scope.account().commit(decide).await?;
    changes.committed(committed.value, &committed);
    Ok(Ok(()))
}

/// Asks the node that has it, and waits for what it says.
async fn by_other_node(
    scope: &Scope<'_>,
    queue: &Queue,
    record: &SubmissionRecord,
) -> Result<std::result::Result<(), SetError>> {
    let submission = &record.submission;
    queue.request_cancel(submission.queue, submission.id).await?;
    let user = scope.user();
    for _ in 0..LOOKS {
        let account = user.ctx().accounts.open_current(user.id, &user.root).await?;
        let now = account.state().submissions().get(submission.id).map(|record| record.progress.undo());
        match now {
            Some(Undo::Pending) => {}
            Some(Undo::Canceled) => return Ok(Ok(())),
            Some(Undo::Final) | None => return Ok(Err(too_late("the message has been sent"))),
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(Err(too_late("the node that has the message does not answer; it may cancel it later")))
}

fn too_late(why: &str) -> SetError {
    SetError::from(SetErrorType::CannotUnsend).describe(why)
}
