//! /copy (RFC 8620 §5.4).

use std::collections::BTreeMap;

use sealpost_base::limits::JMAP_SET_OBJECTS;
use serde::Serialize;

use crate::error::{MethodError, SetError};
use crate::id::{AccountId, CreationId};
use crate::object::object;
use crate::read::{Fields, Mismatch};
use crate::standard::ObjectMap;
use crate::state::State;

/// Arguments of /copy.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CopyRequest {
    /// The account that has the objects.
    pub from_account_id: AccountId,
    /// The state that they must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub if_from_in_state: Option<State>,
    /// The account that gets them: another one.
    pub account_id: AccountId,
    /// The state that its objects must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub if_in_state: Option<State>,
    /// The copies: `id` names the original, other properties replace its.
    pub create: BTreeMap<CreationId, ObjectMap>,
    /// Whether originals are destroyed once they are copied.
    pub on_success_destroy_original: bool,
    /// `ifInState` of the /set that destroys them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destroy_from_if_in_state: Option<State>,
}

impl CopyRequest {
    /// Reads the arguments.
    pub fn from_arguments(arguments: ObjectMap) -> Result<Self, MethodError> {
        let mut fields = Fields::from(arguments);
        let request = CopyRequest {
            from_account_id: super::from_account(&mut fields)?,
            if_from_in_state: fields.optional("ifFromInState")?,
            account_id: super::account(&mut fields)?,
            if_in_state: fields.optional("ifInState")?,
            create: fields.required("create")?,
            on_success_destroy_original: fields.defaulted("onSuccessDestroyOriginal", false)?,
            destroy_from_if_in_state: fields.optional("destroyFromIfInState")?,
        };
        fields.finish()?;
        if request.account_id == request.from_account_id {
            return Err(Mismatch::because("must differ from accountId").within("fromAccountId").into());
        }
        let objects = request.create.len();
        if objects > JMAP_SET_OBJECTS {
            return Err(MethodError::too_large("maxObjectsInSet", JMAP_SET_OBJECTS, objects));
        }
        Ok(request)
    }
}

object! {
    /// The response to /copy.
    pub struct CopyResponse<T> {
        /// The account that had the objects.
        from_account_id: AccountId = "fromAccountId" [required],
        /// The account that got them.
        account_id: AccountId = "accountId" [required],
        /// Its state before, if it is known.
        old_state: Option<State> = "oldState" [nullable],
        /// Its state now.
        new_state: State = "newState" [required],
        /// What the server set in the copies: at least the id.
        created: BTreeMap<CreationId, T> = "created" [null_if_empty],
        /// Why objects were not copied.
        not_created: BTreeMap<CreationId, SetError> = "notCreated" [null_if_empty],
    }
}
