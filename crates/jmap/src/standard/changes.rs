//! /changes (RFC 8620 §5.2).

use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::MethodError;
use crate::id::{AccountId, Id};
use crate::object::object;
use crate::read::{Fields, Mismatch};
use crate::state::State;

/// Arguments of /changes.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangesRequest {
    /// The account.
    pub account_id: AccountId,
    /// The state that the client has.
    pub since_state: State,
    /// The most ids that the response may have; at least 1.
    pub max_changes: Option<u64>,
}

impl ChangesRequest {
    /// Reads the arguments.
    pub fn from_arguments(arguments: Map<String, Value>) -> Result<Self, MethodError> {
        let mut fields = Fields::from(arguments);
        let account_id = super::account(&mut fields)?;
        let since_state = fields.required("sinceState")?;
        let max_changes = fields.optional("maxChanges")?;
        fields.finish()?;
        if max_changes == Some(0) {
            return Err(Mismatch::because("expected an integer from 1, found 0").within("maxChanges").into());
        }
        Ok(ChangesRequest { account_id, since_state, max_changes })
    }

    /// The most ids of the response, where the server gives at most `limit`.
    pub fn most(&self, limit: usize) -> usize {
        self.max_changes.map_or(limit, |most| usize::try_from(most).unwrap_or(usize::MAX).min(limit))
    }
}

object! {
    /// The response to /changes.
    pub struct ChangesResponse {
        /// The account.
        account_id: AccountId = "accountId" [required],
        /// `sinceState`, repeated.
        old_state: State = "oldState" [required],
        /// The state that the changes lead to.
        new_state: State = "newState" [required],
        /// Whether there are more changes after `new_state`.
        has_more_changes: bool = "hasMoreChanges" [required],
        /// Objects that are new.
        created: Vec<Id> = "created" [required],
        /// Objects that were there and changed.
        updated: Vec<Id> = "updated" [required],
        /// Objects that are gone.
        destroyed: Vec<Id> = "destroyed" [required],
    }
}
