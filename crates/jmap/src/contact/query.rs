//! ContactCard/query and ContactCard/queryChanges (RFC 9610 §3.3, §3.4).

use serde::ser::SerializeMap;

use crate::date::UtcDate;
use crate::id::GivenId;
use crate::object::object;
use crate::read::{Fields, Mismatch, string_enum};
use crate::standard::{Condition, QueryChangesRequest, QueryRequest, SortKey};

object! {
    /// Which cards: all that are given must match (§3.3.1).
    pub struct CardCondition {
        /// In this address book.
        in_address_book: Option<GivenId> = "inAddressBook" [optional],
        /// With this uid.
        uid: Option<String> = "uid" [optional],
        /// A group with the card of this uid.
        has_member: Option<String> = "hasMember" [optional],
        /// Of this kind.
        kind: Option<String> = "kind" [optional],
        /// Created before.
        created_before: Option<UtcDate> = "createdBefore" [optional],
        /// Created then or after.
        created_after: Option<UtcDate> = "createdAfter" [optional],
        /// Updated before.
        updated_before: Option<UtcDate> = "updatedBefore" [optional],
        /// Updated then or after.
        updated_after: Option<UtcDate> = "updatedAfter" [optional],
        /// In any text of the card.
        text: Option<String> = "text" [optional],
        /// In the name.
        name: Option<String> = "name" [optional],
        /// In a given name.
        given: Option<String> = "name/given" [optional],
        /// In a surname.
        surname: Option<String> = "name/surname" [optional],
        /// In a second surname.
        surname2: Option<String> = "name/surname2" [optional],
        /// In a nickname.
        nickname: Option<String> = "nickname" [optional],
        /// In the name of an organization.
        organization: Option<String> = "organization" [optional],
        /// In an email address or its label.
        email: Option<String> = "email" [optional],
        /// In a phone number or its label.
        phone: Option<String> = "phone" [optional],
        /// In an online service.
        online_service: Option<String> = "onlineService" [optional],
        /// In a postal address.
        address: Option<String> = "address" [optional],
        /// In a note.
        note: Option<String> = "note" [optional],
    }
}

impl Condition for CardCondition {
    fn read(fields: &mut Fields) -> Result<Self, Mismatch> {
        CardCondition::read(fields)
    }
}

string_enum! {
    /// What cards are sorted by (§3.3.2).
    pub enum CardSortKey {
        /// When the card was created.
        Created = "created",
        /// When the card was updated.
        Updated = "updated",
        /// The first given name.
        Given = "name/given",
        /// The first surname.
        Surname = "name/surname",
        /// The first second surname.
        Surname2 = "name/surname2",
    }
}

impl SortKey for CardSortKey {
    fn read(property: &str, _: &mut Fields) -> Result<Option<Self>, Mismatch> {
        Ok(CardSortKey::from_name(property))
    }

    fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("property", self)
    }
}

/// Arguments of ContactCard/query.
pub type CardQuery = QueryRequest<CardCondition, CardSortKey>;
/// Arguments of ContactCard/queryChanges.
pub type CardQueryChanges = QueryChangesRequest<CardCondition, CardSortKey>;
