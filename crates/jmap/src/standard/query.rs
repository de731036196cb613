//! /query (RFC 8620 §5.5).

use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::MethodError;
use crate::id::{AccountId, GivenId, Id};
use crate::object::object;
use crate::read::Fields;
use crate::standard::{Comparator, Condition, Filter, SortKey};
use crate::state::State;

/// Arguments of /query, with conditions `C` and sort keys `K`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", bound(serialize = "C: Serialize, K: SortKey"))]
pub struct QueryRequest<C, K> {
    /// The account.
    pub account_id: AccountId,
    /// Which objects; `None` for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<Filter<C>>,
    /// In which order; empty for the server's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sort: Vec<Comparator<K>>,
    /// Index of the first result; negative counts from the end. Ignored if there is an anchor.
    #[serde(skip_serializing_if = "super::is_default")]
    pub position: i64,
    /// The object that `anchor_offset` counts from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anchor: Option<GivenId>,
    /// Index of the first result relative to the anchor.
    #[serde(skip_serializing_if = "super::is_default")]
    pub anchor_offset: i64,
    /// The most results that are wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// Whether the number of all results is wanted.
    #[serde(skip_serializing_if = "super::is_default")]
    pub calculate_total: bool,
}

impl<C: Condition, K: SortKey> QueryRequest<C, K> {
    /// Reads the arguments of a method that has no others.
    pub fn from_arguments(arguments: Map<String, Value>) -> Result<Self, MethodError> {
        let mut fields = Fields::from(arguments);
        let request = QueryRequest::read(&mut fields)?;
        fields.finish()?;
        Ok(request)
    }

    /// Takes the arguments out, and leaves the others.
    pub fn read(fields: &mut Fields) -> Result<Self, MethodError> {
        Ok(QueryRequest {
            account_id: super::account(fields)?,
            filter: Filter::read(fields)?,
            sort: Comparator::read(fields)?,
            position: fields.defaulted("position", 0)?,
            anchor: fields.optional("anchor")?,
            anchor_offset: fields.defaulted("anchorOffset", 0)?,
            limit: fields.optional("limit")?,
            calculate_total: fields.defaulted("calculateTotal", false)?,
        })
    }
}

object! {
    /// The response to /query.
    pub struct QueryResponse {
        /// The account.
        account_id: AccountId = "accountId" [required],
        /// The state of the query.
        query_state: State = "queryState" [required],
        /// Whether /queryChanges works for this filter and order.
        can_calculate_changes: bool = "canCalculateChanges" [required],
        /// Index of the first of `ids` among all results.
        position: u64 = "position" [required],
        /// The results.
        ids: Vec<Id> = "ids" [required],
        /// The number of all results, if it was wanted.
        total: Option<u64> = "total" [optional],
        /// The limit that the server chose, if it is not that of the request.
        limit: Option<u64> = "limit" [optional],
    }
}
