//! /queryChanges (RFC 8620 §5.6).

use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::MethodError;
use crate::id::{AccountId, GivenId, Id};
use crate::object::object;
use crate::read::Fields;
use crate::standard::{Comparator, Condition, Filter, SortKey};
use crate::state::State;

/// Arguments of /queryChanges, with conditions `C` and sort keys `K`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", bound(serialize = "C: Serialize, K: SortKey"))]
pub struct QueryChangesRequest<C, K> {
    /// The account.
    pub account_id: AccountId,
    /// The filter of the query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<Filter<C>>,
    /// The order of the query.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sort: Vec<Comparator<K>>,
    /// The state of the query that the client has.
    pub since_query_state: State,
    /// The most changes that the response may have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_changes: Option<u64>,
    /// The last result that the client has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up_to_id: Option<GivenId>,
    /// Whether the number of all results is wanted.
    #[serde(skip_serializing_if = "super::is_default")]
    pub calculate_total: bool,
}

impl<C: Condition, K: SortKey> QueryChangesRequest<C, K> {
    /// Reads the arguments of a method that has no others.
    pub fn from_arguments(arguments: Map<String, Value>) -> Result<Self, MethodError> {
        let mut fields = Fields::from(arguments);
        let request = QueryChangesRequest::read(&mut fields)?;
        fields.finish()?;
        Ok(request)
    }

    /// Takes the arguments out, and leaves the others.
    pub fn read(fields: &mut Fields) -> Result<Self, MethodError> {
        Ok(QueryChangesRequest {
            account_id: super::account(fields)?,
            filter: Filter::read(fields)?,
            sort: Comparator::read(fields)?,
            since_query_state: fields.required("sinceQueryState")?,
            max_changes: fields.optional("maxChanges")?,
            up_to_id: fields.optional("upToId")?,
            calculate_total: fields.defaulted("calculateTotal", false)?,
        })
    }
}

object! {
    /// A result that is new, or has moved.
    pub struct AddedItem {
        /// The object.
        id: Id = "id" [required],
        /// Its index among all results now.
        index: u64 = "index" [required],
    }
}

object! {
    /// The response to /queryChanges.
    pub struct QueryChangesResponse {
        /// The account.
        account_id: AccountId = "accountId" [required],
        /// `sinceQueryState`, repeated.
        old_query_state: State = "oldQueryState" [required],
        /// The state that the changes lead to.
        new_query_state: State = "newQueryState" [required],
        /// The number of all results, if it was wanted.
        total: Option<u64> = "total" [optional],
        /// Results that are none any more, or have moved.
        removed: Vec<Id> = "removed" [or_empty],
        /// Results that are new, or have moved, by index.
        added: Vec<AddedItem> = "added" [or_empty],
    }
}
