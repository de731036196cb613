//! Share notifications (RFC 9670 §3): the user's rights to a shared object changed.

use serde::ser::SerializeMap;

use crate::data_type::data_type;
use crate::date::UtcDate;
use crate::id::{AccountId, Id};
use crate::mailbox::MailboxRights;
use crate::object::object;
use crate::read::{Fields, Mismatch, string_enum};
use crate::standard::{
    ChangesRequest, ChangesResponse, Condition, GetRequest, GetResponse, QueryChangesRequest, QueryRequest,
    SetRequest, SetResponse, SortKey,
};

object! {
    /// The user that changed rights.
    pub struct Entity {
        /// The name.
        name: String = "name" [required],
        /// The address.
        email: Option<String> = "email" [nullable],
        /// The principal.
        principal_id: Option<Id> = "principalId" [nullable],
    }
}

data_type! {
    /// A change of the user's rights to an object.
    pub struct ShareNotification, ShareNotificationProperty {
        /// Its id.
        id: Id = Id "id" [server_set],
        /// When it was made.
        created: UtcDate = Created "created" [server_set],
        /// The user that changed the rights.
        changed_by: Entity = ChangedBy "changedBy" [server_set],
        /// The data type of the object.
        object_type: String = ObjectType "objectType" [server_set],
        /// The account of the object.
        object_account_id: AccountId = ObjectAccountId "objectAccountId" [server_set],
        /// The object.
        object_id: Id = ObjectId "objectId" [server_set],
        /// The rights before; none if there were none.
        old_rights: Option<MailboxRights> = OldRights "oldRights" [server_set],
        /// The rights after; none if there are none.
        new_rights: Option<MailboxRights> = NewRights "newRights" [server_set],
        /// The name of the object then.
        name: String = Name "name" [server_set],
    }
}

object! {
    /// Which notifications: all that are given must match (§3.4.1).
    pub struct ShareNotificationCondition {
        /// They were made then or later.
        after: Option<UtcDate> = "after" [optional],
        /// They were made before.
        before: Option<UtcDate> = "before" [optional],
        /// The data type of the object.
        object_type: Option<String> = "objectType" [optional],
        /// The account of the object.
        object_account_id: Option<AccountId> = "objectAccountId" [optional],
    }
}

impl Condition for ShareNotificationCondition {
    fn read(fields: &mut Fields) -> Result<Self, Mismatch> {
        ShareNotificationCondition::read(fields)
    }
}

string_enum! {
    /// What notifications are sorted by (§3.4.2).
    pub enum ShareNotificationSortKey {
        /// When they were made.
        Created = "created",
    }
}

impl SortKey for ShareNotificationSortKey {
    fn read(property: &str, _: &mut Fields) -> Result<Option<Self>, Mismatch> {
        Ok(ShareNotificationSortKey::from_name(property))
    }

    fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("property", self)
    }
}

/// Arguments of ShareNotification/get (§3.1).
pub type ShareNotificationGet = GetRequest<ShareNotificationProperty>;
/// The response to ShareNotification/get.
pub type ShareNotificationGetResponse = GetResponse<ShareNotification>;
/// Arguments of ShareNotification/changes (§3.2).
pub type ShareNotificationChanges = ChangesRequest;
/// The response to ShareNotification/changes.
pub type ShareNotificationChangesResponse = ChangesResponse;
/// Arguments of ShareNotification/set (§3.3).
pub type ShareNotificationSet = SetRequest;
/// The response to ShareNotification/set.
pub type ShareNotificationSetResponse = SetResponse<ShareNotification>;
/// Arguments of ShareNotification/query (§3.4).
pub type ShareNotificationQuery = QueryRequest<ShareNotificationCondition, ShareNotificationSortKey>;
/// Arguments of ShareNotification/queryChanges (§3.5).
pub type ShareNotificationQueryChanges =
    QueryChangesRequest<ShareNotificationCondition, ShareNotificationSortKey>;
