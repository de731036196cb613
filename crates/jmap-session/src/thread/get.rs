//! Thread/get (RFC 8621 §3.1).

use std::collections::BTreeMap;

use sealpost_account::ThreadId;
use sealpost_account::object_id::email_id_of;
use sealpost_account::state::ObjectKind;
use sealpost_base::{ObjectId, Timestamp};
use sealpost_jmap::error::MethodErrorType;
use sealpost_jmap::id::EmailId;
use sealpost_jmap::thread::{Thread, ThreadGet, ThreadProperty};
use sealpost_jmap::{GivenId, MethodError};
use serde_json::{Map, Value};

use crate::method::Outcome;
use crate::responder::Responder;
use crate::scope::{Logs, Scope};

/// Estimated memory for an email of a thread in the response, in bytes.
const EMAIL_BYTES: usize = 128;

pub(crate) async fn get(
    scope: &Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let request = ThreadGet::from_arguments(arguments)?;
    scope.require(&request.account_id)?;
    let Some(ids) = request.ids else {
        // RFC 8620 §5.1 allows a server to refuse a request for all records.
        let text = "threads are given by their ids";
        return Err(MethodError::from(MethodErrorType::RequestTooLarge).describe(text).into());
    };
    let wants_emails =
        request.properties.is_none_or(|properties| properties.contains(&ThreadProperty::EmailIds));
    let threads: Vec<(GivenId, Option<ThreadId>)> =
        ids.into_iter().map(|id| (id.clone(), parse(&id))).collect();
    let known = || threads.iter().filter_map(|(_, thread)| *thread);
    let many = scope.look(|logs| known().map(|thread| count(logs, thread)).sum::<usize>()).await?;
    let _permit = scope.permit(many * EMAIL_BYTES).await;
    let (state, emails) = scope
        .look(|logs| {
            let emails: Vec<Vec<ObjectId>> = threads
                .iter()
                .map(|(_, thread)| thread.map_or(Vec::new(), |thread| emails_of(logs, thread)))
                .collect();
            (logs.state(ObjectKind::Threads), emails)
        })
        .await?;
    let (mut list, mut not_found) = (Vec::new(), Vec::new());
    for ((id, thread), emails) in threads.into_iter().zip(emails) {
        match thread.filter(|_| !emails.is_empty()) {
            None => not_found.push(id),
            Some(thread) => list.push(Thread {
                id: sealpost_jmap::id::ThreadId::new(thread.to_string()),
                email_ids: wants_emails.then(|| {
                    emails.into_iter().filter_map(|object| EmailId::new(email_id_of(object))).collect()
                }),
            }),
        }
    }
    responder.respond_get("Thread/get", call_id, (scope.id(), &state), &list, &not_found).await?;
    Ok(())
}

fn parse(id: &GivenId) -> Option<ThreadId> {
    ThreadId::parse(id.id()?.as_str())
}

fn count(logs: &Logs<'_>, thread: ThreadId) -> usize {
    logs.iter().filter_map(|(_, state)| state.maps()).map(|maps| maps.thread(thread).count()).sum()
}

/// The visible emails of a thread, oldest first (RFC 8621 §3). An email in several logs is listed once.
fn emails_of(logs: &Logs<'_>, thread: ThreadId) -> Vec<ObjectId> {
    let mut received: BTreeMap<ObjectId, Timestamp> = BTreeMap::new();
    for (_, state) in logs.iter() {
        let numbers = state.maps().into_iter().flat_map(|maps| maps.thread(thread));
        for fields in
            numbers.filter(|number| state.is_visible(*number)).filter_map(|n| state.message_fields(n))
        {
            let first = received.entry(fields.first_object).or_insert(fields.received);
            *first = fields.received.min(*first);
        }
    }
    let mut emails: Vec<(Timestamp, ObjectId)> = received.into_iter().map(|(id, at)| (at, id)).collect();
    emails.sort_unstable();
    emails.into_iter().map(|(_, id)| id).collect()
}
