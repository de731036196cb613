//! Quotas (RFC 9425).

use serde::ser::SerializeMap;

use crate::data_type::data_type;
use crate::id::{AccountId, Id};
use crate::object::object;
use crate::read::{Fields, Mismatch, string_enum};
use crate::standard::{
    ChangesRequest, Condition, GetRequest, GetResponse, QueryChangesRequest, QueryRequest, SortKey,
};
use crate::state::State;

string_enum! {
    /// What a quota applies to (§3.1).
    pub enum QuotaScope {
        /// The account.
        Account = "account",
        /// All accounts of the domain.
        Domain = "domain",
        /// All accounts of the server.
        Global = "global",
    }
}

string_enum! {
    /// What a quota counts (§3.2).
    pub enum ResourceType {
        /// Objects.
        Count = "count",
        /// Bytes.
        Octets = "octets",
    }
}

data_type! {
    /// A limit, and how much of it is used (§4.1).
    pub struct Quota, QuotaProperty {
        /// Its id.
        id: Id = Id "id" [server_set],
        /// What is counted.
        resource_type: ResourceType = ResourceType "resourceType" [server_set],
        /// How much is used.
        used: u64 = Used "used" [server_set],
        /// How much may be used.
        hard_limit: u64 = HardLimit "hardLimit" [server_set],
        /// What it applies to.
        scope: QuotaScope = Scope "scope" [server_set],
        /// Its name.
        name: String = Name "name" [server_set],
        /// The data types that count.
        types: Vec<String> = Types "types" [server_set],
        /// From where on the user is warned.
        warn_limit: Option<u64> = WarnLimit "warnLimit" [server_set],
        /// From where on some operations are refused.
        soft_limit: Option<u64> = SoftLimit "softLimit" [server_set],
        /// An explanation for people.
        description: Option<String> = Description "description" [server_set],
    }
}

object! {
    /// The response to Quota/changes (§4.3).
    pub struct QuotaChangesResponse {
        /// The account.
        account_id: AccountId = "accountId" [required],
        /// `sinceState`, repeated.
        old_state: State = "oldState" [required],
        /// The state that the changes lead to.
        new_state: State = "newState" [required],
        /// Whether there are more changes after `new_state`.
        has_more_changes: bool = "hasMoreChanges" [required],
        /// All properties that may have changed, if it is only `used`.
        updated_properties: Option<Vec<QuotaProperty>> = "updatedProperties" [nullable],
        /// Quotas that are new.
        created: Vec<Id> = "created" [required],
        /// Quotas that were there and changed.
        updated: Vec<Id> = "updated" [required],
        /// Quotas that are gone.
        destroyed: Vec<Id> = "destroyed" [required],
    }
}

object! {
    /// Which quotas: all that are given must match (§4.4).
    pub struct QuotaCondition {
        /// The name contains this.
        name: Option<String> = "name" [optional],
        /// It applies to this.
        scope: Option<QuotaScope> = "scope" [optional],
        /// It counts this.
        resource_type: Option<ResourceType> = "resourceType" [optional],
        /// It applies to this data type.
        data_type: Option<String> = "type" [optional],
    }
}

impl Condition for QuotaCondition {
    fn read(fields: &mut Fields) -> Result<Self, Mismatch> {
        QuotaCondition::read(fields)
    }
}

string_enum! {
    /// What quotas are sorted by.
    pub enum QuotaSortKey {
        /// The name.
        Name = "name",
        /// How much is used.
        Used = "used",
    }
}

impl SortKey for QuotaSortKey {
    fn read(property: &str, _: &mut Fields) -> Result<Option<Self>, Mismatch> {
        Ok(QuotaSortKey::from_name(property))
    }

    fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("property", self)
    }
}

/// Arguments of Quota/get (§4.2).
pub type QuotaGet = GetRequest<QuotaProperty>;
/// The response to Quota/get.
pub type QuotaGetResponse = GetResponse<Quota>;
/// Arguments of Quota/changes.
pub type QuotaChanges = ChangesRequest;
/// Arguments of Quota/query.
pub type QuotaQuery = QueryRequest<QuotaCondition, QuotaSortKey>;
/// Arguments of Quota/queryChanges (§4.5).
pub type QuotaQueryChanges = QueryChangesRequest<QuotaCondition, QuotaSortKey>;
