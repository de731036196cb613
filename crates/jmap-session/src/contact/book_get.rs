//! AddressBook/get (RFC 9610 §2.1).

use sealpost_account::state::ObjectKind;
use sealpost_jmap::GivenId;
use sealpost_jmap::contact::{AddressBook, AddressBookGet, AddressBookProperty};
use serde_json::{Map, Value};

use super::object::address_book;
use crate::method::Outcome;
use crate::record_state::state_at;
use crate::responder::Responder;
use crate::scope::Scope;

pub(crate) async fn get(
    scope: &Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let request = AddressBookGet::from_arguments(arguments)?;
    scope.require(&request.account_id)?;
    let (state, known) = scope
        .own_state(|state| {
            let contacts = state.contacts();
            let books = contacts.books().map(|book| address_book(book, contacts.default_book()));
            (state_at(state.last_change(ObjectKind::AddressBooks)), books.collect::<Vec<AddressBook>>())
        })
        .await?;
    let find = |given: &GivenId| {
        let id = given.id()?.as_str();
        known.iter().find(|book| book.id.as_ref().is_some_and(|known| known.as_str() == id))
    };
    let (mut list, not_found) = match &request.ids {
        None => (known.clone(), Vec::new()),
        Some(ids) => {
            let missing = ids.iter().filter(|id| find(id).is_none()).cloned();
            (ids.iter().filter_map(find).cloned().collect(), missing.collect())
        }
    };
    if let Some(mut properties) = request.properties {
        properties.push(AddressBookProperty::Id);
        list.iter_mut().for_each(|book| book.select(&properties));
    }
    responder.respond_get("AddressBook/get", call_id, (scope.id(), &state), &list, &not_found).await?;
    Ok(())
}
