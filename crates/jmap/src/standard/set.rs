//! /set (RFC 8620 §5.3).

use std::collections::{BTreeMap, HashSet};

use sealpost_base::limits::JMAP_SET_OBJECTS;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::{MethodError, SetError};
use crate::id::{AccountId, CreationId, GivenId, Id};
use crate::object::object;
use crate::read::Fields;
use crate::state::State;

/// An object or patch as it came: what is wrong in it fails this object, not the method.
pub type ObjectMap = Map<String, Value>;

/// Arguments of /set.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SetRequest {
    /// The account.
    pub account_id: AccountId,
    /// The state that the objects must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub if_in_state: Option<State>,
    /// New objects. A session creates those first that others refer to.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub create: BTreeMap<CreationId, ObjectMap>,
    /// Changes, for [`crate::patch::PatchObject::new`]; keys may be `#` and a creation id.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub update: BTreeMap<GivenId, ObjectMap>,
    /// Objects to destroy, each once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub destroy: Vec<GivenId>,
}

impl SetRequest {
    /// Reads the arguments of a method that has no others.
    pub fn from_arguments(arguments: ObjectMap) -> Result<Self, MethodError> {
        let mut fields = Fields::from(arguments);
        let request = SetRequest::read(&mut fields)?;
        fields.finish()?;
        Ok(request)
    }

    /// Takes the arguments out, and leaves the others. At most [`JMAP_SET_OBJECTS`] in all.
    pub fn read(fields: &mut Fields) -> Result<Self, MethodError> {
        let account_id = super::account(fields)?;
        let if_in_state = fields.optional("ifInState")?;
        let create: BTreeMap<CreationId, ObjectMap> = fields.optional("create")?.unwrap_or_default();
        let update: BTreeMap<GivenId, ObjectMap> = fields.optional("update")?.unwrap_or_default();
        let mut destroy: Vec<GivenId> = fields.optional("destroy")?.unwrap_or_default();
        let objects = create.len() + update.len() + destroy.len();
        if objects > JMAP_SET_OBJECTS {
            return Err(MethodError::too_large("maxObjectsInSet", JMAP_SET_OBJECTS, objects));
        }
        let mut seen = HashSet::new();
        destroy.retain(|id| seen.insert(id.clone()));
        Ok(SetRequest { account_id, if_in_state, create, update, destroy })
    }
}

object! {
    /// The response to /set.
    pub struct SetResponse<T> {
        /// The account.
        account_id: AccountId = "accountId" [required],
        /// The state before, if it is known.
        old_state: Option<State> = "oldState" [nullable],
        /// The state now.
        new_state: State = "newState" [required],
        /// What the server set in new objects: at least the id.
        created: BTreeMap<CreationId, T> = "created" [null_if_empty],
        /// What changed in changed objects beyond what was asked for, if anything.
        updated: BTreeMap<Id, Option<T>> = "updated" [null_if_empty],
        /// Objects that are gone.
        destroyed: Vec<Id> = "destroyed" [null_if_empty],
        /// Why objects were not created.
        not_created: BTreeMap<CreationId, SetError> = "notCreated" [null_if_empty],
        /// Why objects were not changed.
        not_updated: BTreeMap<GivenId, SetError> = "notUpdated" [null_if_empty],
        /// Why objects were not destroyed.
        not_destroyed: BTreeMap<GivenId, SetError> = "notDestroyed" [null_if_empty],
    }
}

impl<T> SetResponse<T> {
    /// A response to a method that changed nothing yet.
    pub fn new(account_id: AccountId, state: State) -> Self {
        SetResponse {
            account_id,
            old_state: Some(state.clone()),
            new_state: state,
            created: BTreeMap::new(),
            updated: BTreeMap::new(),
            destroyed: Vec::new(),
            not_created: BTreeMap::new(),
            not_updated: BTreeMap::new(),
            not_destroyed: BTreeMap::new(),
        }
    }
}
