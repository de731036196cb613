//! Blob/lookup (RFC 9404 §4.3): the emails that a blob is in, their threads and mailboxes, and the
//! contact cards that have it.

use std::collections::BTreeMap;

use sealpost_account::AccountState;
use sealpost_account::object_id::{card_id, email_id_of, mailbox_id};
use sealpost_base::ObjectId;
use sealpost_jmap::blob::{BlobInfo, BlobLookup, BlobLookupResponse, LookupType};
use sealpost_jmap::capability::Capability;
use sealpost_jmap::error::MethodErrorType;
use sealpost_jmap::{GivenId, Id, MethodError};
use sealpost_mailbox::emails::Email;
use sealpost_vault::message::READER_BYTES;
use serde_json::{Map, Value};

use super::id::{BlobBase, BlobName};
use super::open::open;
use crate::method::Outcome;
use crate::responder::Responder;
use crate::scope::{Logs, Scope};

pub(crate) async fn lookup(
    scope: &Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let request = BlobLookup::from_arguments(arguments)?;
    scope.require(&request.account_id)?;
    let needed = |name: &LookupType| match name {
        LookupType::Mailbox | LookupType::Thread | LookupType::Email => Capability::Mail,
        LookupType::ContactCard => Capability::Contacts,
    };
    if !request.type_names.iter().all(|name| scope.uses(needed(name))) {
        let text = "typeNames: the request does not use the capability of these types";
        return Err(MethodError::from(MethodErrorType::UnknownDataType).describe(text).into());
    }
    // Finding a part can mean reading a whole message.
    let _permit = scope.permit(READER_BYTES).await;
    let (mut list, mut not_found) = (Vec::new(), Vec::new());
    for id in request.ids {
        if id.resolve(&scope.created).is_none() {
            not_found.push(id);
            continue;
        }
        // A blob that the caller may not see gives the same response as one that does not exist.
        let name = match open(scope, &id).await? {
            Some(_) => name_of(scope, &id),
            None => None,
        };
        let found = match name {
            Some(BlobName { base: BlobBase::Message(object), .. }) => {
                let found = |logs: &Logs<'_>| match Email::find(logs, object) {
                    Some(email) => Some(matches(logs, &email)),
                    None => logs.first().map(|(_, own)| cards_with(own, object)),
                };
                scope.look(found).await?
            }
            // An upload is in no email.
            Some(_) | None => None,
        };
        let found = found.unwrap_or_default();
        let matched = |name: &LookupType| (*name, found.get(name).cloned().unwrap_or_default());
        let matched_ids = request.type_names.iter().map(matched).collect();
        list.push(BlobInfo { id, matched_ids });
    }
    let response = BlobLookupResponse { account_id: request.account_id, list, not_found };
    responder.respond("Blob/lookup", &response, call_id).await?;
    Ok(())
}

fn name_of(scope: &Scope<'_>, id: &GivenId) -> Option<BlobName> {
    id.resolve(&scope.created).and_then(|id| BlobName::parse(id.as_str()))
}

/// The contact cards that a picture or sound belongs to.
fn cards_with(own: &AccountState, object: ObjectId) -> BTreeMap<LookupType, Vec<Id>> {
    let cards = own.cards_with_medium(object).filter_map(|card| Id::new(card_id(card)));
    BTreeMap::from([(LookupType::ContactCard, cards.collect())])
}

fn matches(logs: &Logs<'_>, email: &Email) -> BTreeMap<LookupType, Vec<Id>> {
    let mailboxes = email.mailboxes.iter().filter_map(|(log, mailbox)| {
        let (_, state) = logs.iter().find(|(id, _)| id == log)?;
        Id::new(mailbox_id(*log, state.any_mailbox(*mailbox)?))
    });
    BTreeMap::from([
        (LookupType::Mailbox, mailboxes.collect()),
        (LookupType::Thread, Id::new(email.thread.to_string()).into_iter().collect()),
        (LookupType::Email, Id::new(email_id_of(email.object)).into_iter().collect()),
    ])
}
