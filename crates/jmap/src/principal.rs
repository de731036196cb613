//! Principals (RFC 9670 §2): the users that can be given rights, or have given some.

use std::collections::BTreeMap;

use serde::ser::SerializeMap;

use crate::data_type::data_type;
use crate::id::{AccountId, Id};
use crate::object::object;
use crate::read::{Fields, Mismatch, string_enum};
use crate::session::{Account, Capabilities};
use crate::standard::{
    ChangesRequest, ChangesResponse, Condition, GetRequest, GetResponse, QueryChangesRequest, QueryRequest,
    SetRequest, SetResponse, SortKey,
};

string_enum! {
    /// What a principal is.
    pub enum PrincipalType {
        /// One person.
        Individual = "individual",
        /// Several principals.
        Group = "group",
        /// Equipment.
        Resource = "resource",
        /// A room, for example.
        Location = "location",
        /// Anything else.
        Other = "other",
    }
}

/// Accounts by id, as in the Session object.
pub type PrincipalAccounts = BTreeMap<AccountId, Account>;

data_type! {
    /// A person, a group or a thing that rights can be given to.
    pub struct Principal, PrincipalProperty {
        /// Its id.
        id: Id = Id "id" [server_set],
        /// What it is.
        kind: PrincipalType = Type "type" [settable],
        /// Its name.
        name: String = Name "name" [settable],
        /// More about it.
        description: Option<String> = Description "description" [settable],
        /// Its address.
        email: Option<String> = Email "email" [settable],
        /// Its time zone, by the name in the database of IANA.
        time_zone: Option<String> = TimeZone "timeZone" [settable],
        /// What other specifications say about it.
        capabilities: Capabilities = Capabilities "capabilities" [server_set],
        /// Its accounts that the user has access to.
        accounts: Option<PrincipalAccounts> = Accounts "accounts" [server_set],
    }
}

object! {
    /// Which principals: all that are given must match (§2.4.1).
    pub struct PrincipalCondition {
        /// One of its accounts is among these.
        account_ids: Option<Vec<String>> = "accountIds" [optional],
        /// Its address contains this.
        email: Option<String> = "email" [optional],
        /// Its name contains this.
        name: Option<String> = "name" [optional],
        /// Its name, address or description contains this.
        text: Option<String> = "text" [optional],
        /// What it is.
        kind: Option<String> = "type" [optional],
        /// Its time zone.
        time_zone: Option<String> = "timeZone" [optional],
    }
}

impl Condition for PrincipalCondition {
    fn read(fields: &mut Fields) -> Result<Self, Mismatch> {
        PrincipalCondition::read(fields)
    }
}

string_enum! {
    /// What principals are sorted by.
    pub enum PrincipalSortKey {
        /// The name.
        Name = "name",
    }
}

impl SortKey for PrincipalSortKey {
    fn read(property: &str, _: &mut Fields) -> Result<Option<Self>, Mismatch> {
        Ok(PrincipalSortKey::from_name(property))
    }

    fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("property", self)
    }
}

object! {
    /// `urn:ietf:params:jmap:principals`, of an account (§1.5.1).
    pub struct PrincipalsCapability {
        /// The principal that is the user.
        current_user_principal_id: Option<Id> = "currentUserPrincipalId" [nullable],
    }
}

object! {
    /// `urn:ietf:params:jmap:principals:owner`, of an account (§1.5.2).
    pub struct OwnerCapability {
        /// The account with the principal that owns this one.
        account_id_for_principal: AccountId = "accountIdForPrincipal" [required],
        /// That principal.
        principal_id: Id = "principalId" [required],
    }
}

/// Arguments of Principal/get (§2.1).
pub type PrincipalGet = GetRequest<PrincipalProperty>;
/// The response to Principal/get.
pub type PrincipalGetResponse = GetResponse<Principal>;
/// Arguments of Principal/changes (§2.2).
pub type PrincipalChanges = ChangesRequest;
/// The response to Principal/changes.
pub type PrincipalChangesResponse = ChangesResponse;
/// Arguments of Principal/set (§2.3).
pub type PrincipalSet = SetRequest;
/// The response to Principal/set.
pub type PrincipalSetResponse = SetResponse<Principal>;
/// Arguments of Principal/query (§2.4).
pub type PrincipalQuery = QueryRequest<PrincipalCondition, PrincipalSortKey>;
/// Arguments of Principal/queryChanges (§2.5).
pub type PrincipalQueryChanges = QueryChangesRequest<PrincipalCondition, PrincipalSortKey>;
