//! Finds submissions that were recorded and never queued: the node ended in between.
//!
//! No client got a reply that such a submission was made. It is shown as canceled, which it is: no
//! recipient gets it.
//! Should a queue report later that it has the mail, that counts.

use std::time::Duration;

use sealpost_account::submission::{Progress, SubmissionNews};
use sealpost_account::{AccountState, Event};
use sealpost_base::{AccountId, Result, SubmissionId};

use crate::scope::Scope;

/// How long a queue takes at most to take a mail that is recorded, or to report that it has it: far longer
/// than either waits for the store.
const UNREPORTED: Duration = Duration::from_secs(600);
/// Submissions of other nodes' queues that one call looks for: each reads the state of a queue.
const OTHERS: usize = 1;

/// Looks for what became of submissions that no queue has reported.
pub(super) async fn settle(scope: &Scope<'_>) -> Result<()> {
    let Some(outbox) = &scope.user().shared.outbox else { return Ok(()) };
    let before = scope.user().ctx().clock.now();
    let is_due = |recorded| before.since(recorded) > UNREPORTED;
    let unreported: Vec<(SubmissionId, AccountId)> = scope
        .own_state(|state| {
            let records = state.submissions().iter().map(|(_, record)| &record.value);
            let due =
                records.filter(|record| record.progress == Progress::Recorded && is_due(record.recorded));
            due.map(|record| (record.submission.id, record.submission.queue)).collect()
        })
        .await?;
    let (queue, mut others, mut never) = (outbox.queue(), OTHERS, Vec::new());
    for (submission, node) in unreported {
        let has = if node == queue.node() {
            queue.state().mail_of(submission).is_some()
        } else if others > 0 {
            others -= 1;
            // One that cannot be read may have it.
            queue.other_has(node, submission).await.unwrap_or(true)
        } else {
            true
        };
        if !has {
            never.push(submission);
        }
    }
    if never.is_empty() {
        return Ok(());
    }
    // What the queue had reported by the time that it was looked at is in the log now.
    let decide = |state: &AccountState| {
        let is_recorded = |id: &&SubmissionId| {
            state.submissions().get(**id).is_some_and(|record| record.progress == Progress::Recorded)
        };
        let event = |id: &SubmissionId| Event::SubmissionOutcome {
            submission: *id,
            news: vec![SubmissionNews::NeverQueued],
        };
        Ok((never.iter().filter(is_recorded).map(event).collect(), ()))
    };
    scope.account().commit(decide).await.map(drop)
}
