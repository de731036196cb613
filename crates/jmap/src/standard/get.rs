//! /get (RFC 8620 §5.1).

use std::collections::HashSet;

use sealpost_base::limits::{JMAP_GET_OBJECTS, JMAP_PROPERTIES};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::MethodError;
use crate::id::{AccountId, GivenId};
use crate::object::object;
use crate::read::{Fields, FromJson, Mismatch};
use crate::state::State;

/// Arguments of /get for objects with properties `P`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GetRequest<P> {
    /// The account.
    pub account_id: AccountId,
    /// The objects, each once, at most [`JMAP_GET_OBJECTS`]; `None` for all.
    pub ids: Option<Vec<GivenId>>,
    /// What is wanted of them beside the id; `None` for the default.
    pub properties: Option<Vec<P>>,
}

impl<P: FromJson> GetRequest<P> {
    /// Reads the arguments of a method that has no others.
    pub fn from_arguments(arguments: Map<String, Value>) -> Result<Self, MethodError> {
        let mut fields = Fields::from(arguments);
        let request = GetRequest::read(&mut fields)?;
        fields.finish()?;
        Ok(request)
    }

    /// Takes the arguments out, and leaves the others.
    pub fn read(fields: &mut Fields) -> Result<Self, MethodError> {
        let account_id = super::account(fields)?;
        let ids: Option<Vec<GivenId>> = fields.optional("ids")?;
        let properties: Option<Vec<P>> = fields.optional("properties")?;
        if let Some(ids) = ids.as_ref().filter(|ids| ids.len() > JMAP_GET_OBJECTS) {
            return Err(MethodError::too_large("maxObjectsInGet", JMAP_GET_OBJECTS, ids.len()));
        }
        if properties.as_ref().is_some_and(|properties| properties.len() > JMAP_PROPERTIES) {
            return Err(Mismatch::because(format!("more than {JMAP_PROPERTIES}"))
                .within("properties")
                .into());
        }
        Ok(GetRequest { account_id, ids: ids.map(distinct), properties })
    }
}

/// Each id once, in the order of their first mention.
fn distinct(ids: Vec<GivenId>) -> Vec<GivenId> {
    let mut seen = HashSet::new();
    ids.into_iter().filter(|id| seen.insert(id.clone())).collect()
}

object! {
    /// The response to /get.
    pub struct GetResponse<T> {
        /// The account.
        account_id: AccountId = "accountId" [required],
        /// The state of all objects of the type.
        state: State = "state" [required],
        /// The objects, with the properties that were wanted.
        list: Vec<T> = "list" [required],
        /// Ids of no object.
        not_found: Vec<GivenId> = "notFound" [or_empty],
    }
}
