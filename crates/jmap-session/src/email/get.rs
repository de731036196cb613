//! Email/get (RFC 8621 §4.2).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sealpost_account::object_id::{email_id_of, mailbox_id, object_of};
use sealpost_account::state::ObjectKind;
use sealpost_account::{Account, SystemFlags};
use sealpost_base::limits::{
    JMAP_BODY_VALUE_BYTES, JMAP_GET_OBJECTS, JMAP_HEADER_VALUE_BYTES, PLACEMENTS_COUNTED,
};
use sealpost_base::{AccountId, ObjectId, Result};
use sealpost_jmap::date::UtcDate;
use sealpost_jmap::email::{
    BodyOptions, Email as JmapEmail, EmailField, EmailFields, EmailGet, EmailProperty,
};
use sealpost_jmap::id::{EmailId, MailboxId, ThreadId};
use sealpost_jmap::true_set::TrueSet;
use sealpost_jmap::{GivenId, MethodError};
use sealpost_mailbox::emails::Email;
use serde_json::{Map, Value};

use super::keywords::keywords_of;
use super::message_bytes::unless_damaged;
use super::object::{self, Source};
use super::plan::Plan;
use super::read::{EmailReader, EmailReads, EmailRow};
use crate::blob::BlobName;
use crate::method::{Failure, Outcome};
use crate::responder::{OpenResponder, Responder};
use crate::scope::{Logs, Scope};

/// Estimated memory for an email until it is sent, without its mailboxes and keywords, in bytes.
const EMAIL_BYTES: usize = 512;
/// Estimated memory for each of its mailboxes, in bytes.
const MAILBOX_BYTES: usize = 128;
/// Memory for each byte of text in a response: decoded, and as JSON.
const TEXT_FACTOR: usize = 4;

/// An email that exists.
struct Found {
    object: ObjectId,
    /// The properties that the account state has.
    fields: EmailFields,
    log: AccountId,
    row: EmailRow,
}

pub(crate) async fn get(
    scope: &Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let request = EmailGet::from_arguments(arguments)?;
    scope.require(&request.get.account_id)?;
    let mut properties = request.get.properties.unwrap_or_else(EmailProperty::get_defaults);
    properties.push(EmailProperty::Field(EmailField::Id));
    let plan = Plan::new(properties, request.body);
    let logs = scope.logs().await?;
    let ids: Vec<(GivenId, Option<ObjectId>)> = match request.get.ids {
        Some(ids) => ids.into_iter().map(|id| (id.clone(), parse(&id))).collect(),
        None => logs.look(all).await??,
    };
    let bytes = logs.look(|logs| memory(&plan, logs, &ids)).await?;
    let _permit = scope.permit(bytes).await;
    let (state, found) = logs
        .look(|logs| {
            let found = ids.iter().map(|(_, object)| Found::new(&plan, logs, (*object)?));
            (logs.state(ObjectKind::Emails), found.collect::<Vec<Option<Found>>>())
        })
        .await?;
    let given = ids.into_iter().map(|(id, _)| id);
    let not_found: Vec<GivenId> =
        given.zip(&found).filter(|(_, found)| found.is_none()).map(|(id, _)| id).collect();
    let mut response = responder.open("Email/get", call_id);
    response.argument("accountId", scope.id()).await?;
    response.argument("state", &state).await?;
    response.open_array("list");
    let mut left = found.into_iter().flatten().peekable();
    while let Some(first) = left.next() {
        // Read together with the following emails in the same log.
        let log = first.log;
        let mut run = vec![first];
        while let Some(next) = left.next_if(|next| next.log == log) {
            run.push(next);
        }
        if let Err(failure) = send(&plan, &logs, log, run, &mut response).await {
            return Err(response.fail(failure));
        }
    }
    response.close_array();
    response.array("notFound", &not_found).await?;
    response.close();
    Ok(())
}

/// The given properties of one email. `None` if it does not exist.
pub(super) async fn one(
    scope: &Scope<'_>,
    wanted: ObjectId,
    properties: Vec<EmailProperty>,
) -> Result<Option<JmapEmail>, Failure> {
    let plan = Plan::new(properties, BodyOptions::default());
    let logs = scope.logs().await?;
    let id = (GivenId::from(email_id_of(wanted)), Some(wanted));
    let bytes = logs.look(|logs| memory(&plan, logs, std::slice::from_ref(&id))).await?;
    let _permit = scope.permit(bytes).await;
    let Some(found) = logs.look(|logs| Found::new(&plan, logs, wanted)).await? else { return Ok(None) };
    let account = logs.iter().find(|account| account.id() == found.log);
    let Some(account) = account.filter(|_| plan.reads_message()) else {
        return Ok(Some(JmapEmail { fields: found.fields, ..JmapEmail::default() }));
    };
    let mut reader = EmailReader::new(account, EmailReads::of(&plan), vec![found.row.clone()]).await;
    Ok(Some(read_one(&plan, &mut reader, found).await?))
}

/// Reads the next email.
async fn read_one(plan: &Plan, reader: &mut EmailReader, found: Found) -> Result<JmapEmail> {
    let read = reader.next().await?;
    let structure = match &read.structure {
        Some(structure) => unless_damaged(structure.read())?,
        None => None,
    };
    let source = Source {
        blob: &BlobName::of_message(found.object),
        header: &read.header,
        structure: structure.as_ref(),
        bytes: read.bytes.as_ref(),
    };
    object::email(plan, found.fields, &source).await
}

fn parse(id: &GivenId) -> Option<ObjectId> {
    object_of(id.id()?.as_str())
}

/// All emails of the account, if they fit into one response.
fn all(logs: &Logs<'_>) -> Result<Vec<(GivenId, Option<ObjectId>)>, MethodError> {
    let mut objects = BTreeSet::new();
    for (_, state) in logs.iter() {
        for row in state.mailboxes().flat_map(|mailbox| mailbox.all_rows()) {
            if !state.flags(row.flags).system.contains(SystemFlags::DELETED) {
                objects.extend(state.message_fields(row.message).map(|fields| fields.first_object));
            }
            if objects.len() > JMAP_GET_OBJECTS {
                return Err(MethodError::too_large("maxObjectsInGet", JMAP_GET_OBJECTS, objects.len()));
            }
        }
    }
    Ok(objects.into_iter().map(|object| (GivenId::from(email_id_of(object)), Some(object))).collect())
}

/// Estimated memory until the emails are sent: for each what the state has, and the texts of one.
fn memory(plan: &Plan, logs: &Logs<'_>, ids: &[(GivenId, Option<ObjectId>)]) -> usize {
    let (mut all, mut largest) = (0, 0);
    for object in ids.iter().filter_map(|(_, object)| *object) {
        for (_, state) in logs.iter() {
            let Some(maps) = state.maps() else { continue };
            for number in maps.messages(object) {
                let keywords = state.email_flags(number).map_or(0, |flags| {
                    flags.keywords.iter().map(|id| state.keyword_name(*id).len() + 64).sum()
                });
                let mailboxes = maps.placements(number).take(PLACEMENTS_COUNTED).count();
                all += EMAIL_BYTES + keywords + MAILBOX_BYTES * mailboxes;
                let size = usize::try_from(state.message_size(number)).unwrap_or(usize::MAX);
                largest = largest.max(size);
            }
        }
    }
    let most = JMAP_BODY_VALUE_BYTES + JMAP_HEADER_VALUE_BYTES;
    let texts = if plan.reads_message() { largest.min(most) } else { 0 };
    all + TEXT_FACTOR * texts
}

impl Found {
    fn new(plan: &Plan, logs: &Logs<'_>, object: ObjectId) -> Option<Self> {
        let email = Email::find(logs, object)?;
        let (log, number) = email.stored;
        let message = email.message(logs)?;
        let fields = fields_of(plan, logs, &email);
        Some(Found { object, fields, log, row: EmailRow { number, message } })
    }
}

/// The properties that the account state has (RFC 8621 §4.1.1).
fn fields_of(plan: &Plan, logs: &Logs<'_>, email: &Email) -> EmailFields {
    let mut fields = EmailFields::default();
    for field in &plan.fields {
        match field {
            EmailField::Id => fields.id = Some(EmailId::new(email_id_of(email.object))),
            EmailField::BlobId => fields.blob_id = BlobName::of_message(email.object).id(),
            EmailField::ThreadId => fields.thread_id = Some(ThreadId::new(email.thread.to_string())),
            EmailField::MailboxIds => fields.mailbox_ids = Some(Some(mailbox_ids(logs, email))),
            EmailField::Keywords => fields.keywords = Some(Some(keywords_of(&email.flags))),
            EmailField::Size => fields.size = Some(email.size),
            EmailField::ReceivedAt => fields.received_at = Some(Some(UtcDate::new(email.received))),
            // The call requests no values.
            EmailField::BodyValues if !plan.reads_values() => fields.body_values = Some(BTreeMap::new()),
            _ => {}
        }
    }
    fields
}

fn mailbox_ids(logs: &Logs<'_>, email: &Email) -> TrueSet<GivenId> {
    let ids = email.mailboxes.iter().filter_map(|(log, mailbox)| {
        let (_, state) = logs.iter().find(|(id, _)| id == log)?;
        MailboxId::new(mailbox_id(*log, state.any_mailbox(*mailbox)?))
    });
    TrueSet(ids.map(GivenId::from).collect())
}

/// Sends the emails of one log.
async fn send(
    plan: &Plan,
    logs: &[Arc<Account>],
    log: AccountId,
    run: Vec<Found>,
    response: &mut OpenResponder<'_, '_>,
) -> Outcome {
    let account = logs.iter().find(|account| account.id() == log);
    let Some(account) = account.filter(|_| plan.reads_message()) else {
        for found in run {
            response.item(&JmapEmail { fields: found.fields, ..JmapEmail::default() }).await?;
        }
        return Ok(());
    };
    let rows = run.iter().map(|found| found.row.clone()).collect();
    let mut reader = EmailReader::new(account, EmailReads::of(plan), rows).await;
    for found in run {
        let email = read_one(plan, &mut reader, found).await?;
        response.item(&email).await?;
    }
    Ok(())
}
