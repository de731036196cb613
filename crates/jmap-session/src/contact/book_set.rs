//! AddressBook/set (RFC 9610 §2.3): creates, then updates, then destroys, then the default; each
//! object is one entry of the log, or none.

use std::collections::HashSet;

use sealpost_account::contacts::{AddressBookFields, AddressBookId};
use sealpost_account::state::{Contacts, ObjectKind};
use sealpost_account::{Applied, Event};
use sealpost_base::limits::ADDRESS_BOOKS;
use sealpost_jmap::contact::{AddressBook, AddressBookProperty, AddressBookSet, AddressBookSetResponse};
use sealpost_jmap::error::SetErrorType;
use sealpost_jmap::id::Id;
use sealpost_jmap::patch::PatchObject;
use sealpost_jmap::standard::{ObjectMap, SetRequest, SetResponse};
use sealpost_jmap::{GivenId, SetError};
use serde_json::{Map, Value};

use super::commit::ContactChanges;
use super::object::{address_book, id_of_book, named_book};
use crate::method::{Failure, Outcome};
use crate::responder::Responder;
use crate::scope::Scope;

/// An address book that was not changed, or a server that failed.
type Done<T> = Result<Result<T, SetError>, Failure>;

pub(crate) async fn set(
    scope: &mut Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let request = AddressBookSet::from_arguments(arguments)?;
    scope.require(&request.set.account_id)?;
    let mut changes =
        ContactChanges::begin(scope, ObjectKind::AddressBooks, request.set.if_in_state.as_ref()).await?;
    let mut response = SetResponse::new(request.set.account_id.clone(), changes.old_state());
    let done = run(scope, &mut changes, request, &mut response).await;
    done.map_err(|failure| changes.failed(failure))?;
    (response.old_state, response.new_state) = changes.states(scope).await?;
    responder.respond("AddressBook/set", &response, call_id).await?;
    Ok(())
}

async fn run(
    scope: &mut Scope<'_>,
    changes: &mut ContactChanges,
    request: AddressBookSet,
    response: &mut AddressBookSetResponse,
) -> Result<(), Failure> {
    let AddressBookSet { set, on_destroy_remove_contents, on_success_set_is_default } = request;
    let SetRequest { create, update, destroy, .. } = set;
    for (creation, object) in create {
        match create_one(scope, changes, object).await? {
            Ok(book) => {
                if let Some(id) = &book.id {
                    scope.created.insert(creation.clone(), id.clone().into());
                }
                response.created.insert(creation, book);
            }
            Err(error) => drop(response.not_created.insert(creation, error)),
        }
    }
    let doomed: HashSet<AddressBookId> =
        destroy.iter().filter_map(|given| named_book(given, &scope.created)).collect();
    for (given, patch) in update {
        let updated = match named_book(&given, &scope.created) {
            None => Err(SetErrorType::NotFound.into()),
            Some(book) if doomed.contains(&book) => Err(SetErrorType::WillDestroy.into()),
            Some(book) => update_one(scope, changes, book, patch).await?.map(|()| book),
        };
        match updated {
            Ok(book) => drop(response.updated.insert(id_of_book(book), None)),
            Err(error) => drop(response.not_updated.insert(given, error)),
        }
    }
    for given in destroy {
        let destroyed = match named_book(&given, &scope.created) {
            None => Err(SetErrorType::NotFound.into()),
            Some(book) => destroy_one(scope, changes, book, on_destroy_remove_contents).await?.map(|()| book),
        };
        match destroyed {
            Ok(book) => response.destroyed.push(id_of_book(book)),
            Err(error) => drop(response.not_destroyed.insert(given, error)),
        }
    }
    let all_succeeded = response.not_created.is_empty()
        && response.not_updated.is_empty()
        && response.not_destroyed.is_empty();
    match on_success_set_is_default.filter(|_| all_succeeded) {
        Some(given) => set_default(scope, changes, &given, response).await,
        None => Ok(()),
    }
}

/// The properties of the new address book that the client did not give, and its id.
async fn create_one(scope: &Scope<'_>, changes: &mut ContactChanges, object: ObjectMap) -> Done<AddressBook> {
    let given = match AddressBook::for_create(object).and_then(|given| not_shared(&given).map(|()| given)) {
        Ok(given) => given,
        Err(error) => return Ok(Err(error)),
    };
    let Some(name) = given.name.clone() else {
        return Ok(Err(wrong("name", "an address book has a name")));
    };
    let fields = AddressBookFields {
        name,
        description: given.description.clone().flatten(),
        sort_order: given.sort_order.unwrap_or_default().value(),
        // RFC 9610 §2: true for what users create themselves.
        is_subscribed: given.is_subscribed.unwrap_or(true),
    };
    if let Err(error) = check(&fields) {
        return Ok(Err(error));
    }
    let committed = changes.commit(scope, |state| {
        let has_room = state.contacts().books().len() < ADDRESS_BOOKS;
        let event = Event::AddressBookCreated { fields: fields.clone() };
        Ok((has_room.then_some(event).into_iter().collect(), ()))
    });
    let committed = committed.await??;
    let Some(Applied::AddressBook(id)) = committed.applied.first() else {
        let why = format!("an account has at most {ADDRESS_BOOKS} address books");
        return Ok(Err(SetError::from(SetErrorType::OverQuota).describe(why)));
    };
    let state = scope.account().state();
    let contacts = state.contacts();
    let made = contacts.book(*id).map(|book| address_book(book, contacts.default_book()));
    let mut book =
        made.unwrap_or_else(|| AddressBook { id: Some(id_of_book(*id).into()), ..AddressBook::default() });
    book.select(&not_given(&given));
    Ok(Ok(book))
}

fn not_given(given: &AddressBook) -> Vec<AddressBookProperty> {
    let is_given = |property: &AddressBookProperty| match property {
        AddressBookProperty::Name => true,
        AddressBookProperty::Description => given.description.is_some(),
        AddressBookProperty::SortOrder => given.sort_order.is_some(),
        AddressBookProperty::IsSubscribed => given.is_subscribed.is_some(),
        AddressBookProperty::ShareWith => given.share_with.is_some(),
        _ => false,
    };
    AddressBookProperty::ALL.iter().copied().filter(|property| !is_given(property)).collect()
}

async fn update_one(
    scope: &Scope<'_>,
    changes: &mut ContactChanges,
    id: AddressBookId,
    patch: ObjectMap,
) -> Done<()> {
    let read = PatchObject::new(patch).and_then(AddressBook::for_update);
    let changed = match read.and_then(|changed| not_shared(&changed).map(|()| changed)) {
        Ok(changed) => changed,
        Err(error) => return Ok(Err(error)),
    };
    let committed = changes.commit(scope, |state| {
        Ok(match changed_fields(state.contacts(), id, &changed) {
            Ok(Some(fields)) => (vec![Event::AddressBookChanged { book: id, fields }], Ok(())),
            Ok(None) => (Vec::new(), Ok(())),
            Err(error) => (Vec::new(), Err(error)),
        })
    });
    let committed = committed.await??;
    Ok(committed.value)
}

/// What an address book has after a change; `None` if that is what it has.
fn changed_fields(
    contacts: &Contacts,
    id: AddressBookId,
    changed: &AddressBook,
) -> Result<Option<AddressBookFields>, SetError> {
    let book = contacts.book(id).ok_or(SetErrorType::NotFound)?;
    let conflicts = changed.conflicts(&address_book(book, contacts.default_book()));
    if !conflicts.is_empty() {
        return Err(SetError::invalid_properties(conflicts, "set by the server alone"));
    }
    let before = &book.fields;
    let fields = AddressBookFields {
        name: changed.name.clone().unwrap_or_else(|| before.name.clone()),
        description: changed.description.clone().unwrap_or_else(|| before.description.clone()),
        sort_order: changed.sort_order.map_or(before.sort_order, |order| order.value()),
        is_subscribed: changed.is_subscribed.unwrap_or(before.is_subscribed),
    };
    check(&fields)?;
    Ok(Some(fields).filter(|fields| fields != before))
}

async fn destroy_one(
    scope: &Scope<'_>,
    changes: &mut ContactChanges,
    id: AddressBookId,
    with_contents: bool,
) -> Done<()> {
    let refuses = |contacts: &Contacts| -> Option<SetError> {
        contacts.book(id).is_none().then(|| SetErrorType::NotFound.into()).or_else(|| {
            if contacts.default_book() == id {
                let why = "the default address book stays: make another one the default before";
                return Some(SetError::from(SetErrorType::Forbidden).describe(why));
            }
            // RFC 9610 §2.3.
            (!with_contents && contacts.has_cards(id)).then(|| SetErrorType::AddressBookHasContents.into())
        })
    };
    let committed = changes.commit(scope, |state| {
        Ok(match refuses(state.contacts()) {
            Some(refused) => (Vec::new(), Err(refused)),
            None => (vec![Event::AddressBookDeleted { book: id }], Ok(())),
        })
    });
    let committed = committed.await??;
    Ok(committed.value)
}

/// Makes an address book the default one and reports both that changed; one that does not exist is
/// ignored (RFC 9610 §2.3).
async fn set_default(
    scope: &Scope<'_>,
    changes: &mut ContactChanges,
    given: &GivenId,
    response: &mut AddressBookSetResponse,
) -> Result<(), Failure> {
    let Some(book) = named_book(given, &scope.created) else { return Ok(()) };
    let committed = changes.commit(scope, |state| {
        let contacts = state.contacts();
        let before = contacts.default_book();
        let changes = before != book && contacts.book(book).is_some();
        Ok((changes.then_some(Event::DefaultAddressBookSet { book }).into_iter().collect(), before))
    });
    let committed = committed.await??;
    if committed.applied.is_empty() {
        return Ok(());
    }
    for (book, is_default) in [(committed.value, false), (book, true)] {
        report_default(response, id_of_book(book), is_default);
    }
    Ok(())
}

/// Reports `isDefault` where the response has the address book, or as an update.
fn report_default(response: &mut AddressBookSetResponse, id: Id, is_default: bool) {
    let is_it = |book: &&mut AddressBook| book.id.as_ref().is_some_and(|known| known.as_str() == id.as_str());
    match response.created.values_mut().find(is_it) {
        Some(created) => {
            created.is_default = Some(is_default);
            if let Some(rights) = &mut created.my_rights {
                rights.may_delete = !is_default;
            }
        }
        None => {
            let changed = AddressBook { is_default: Some(is_default), ..AddressBook::default() };
            response.updated.insert(id, Some(changed));
        }
    }
}

fn wrong(property: &str, why: impl Into<String>) -> SetError {
    SetError::invalid_properties(vec![property.to_owned()], why)
}

fn check(fields: &AddressBookFields) -> Result<(), SetError> {
    let property =
        match fields.name.is_empty() || fields.name.len() > sealpost_base::limits::ADDRESS_BOOK_NAME_BYTES {
            true => "name",
            false => "description",
        };
    fields.check().map_err(|error| wrong(property, error.to_string()))
}

/// RFC 9610 §2.3: no user has the right "mayShare".
fn not_shared(given: &AddressBook) -> Result<(), SetError> {
    match given.share_with {
        Some(Some(_)) => {
            Err(SetError::from(SetErrorType::Forbidden).describe("address books cannot be shared"))
        }
        _ => Ok(()),
    }
}
