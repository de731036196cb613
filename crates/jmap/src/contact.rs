//! Contacts (RFC 9610): address books, and cards in JSContact (RFC 9553).
//!
//! A card has properties that no specification of today names, and they stay. So it is JSON here,
//! checked by [`check_card`], and never a struct.

mod check;
mod localize;
mod query;
mod rules;
mod schema;

pub use query::{CardCondition, CardQuery, CardQueryChanges, CardSortKey};

use serde::Serialize;
use serde_json::{Map, Value};

use crate::data_type::{all_wrong, data_type};
use crate::error::{MethodError, SetError};
use crate::id::{AddressBookId, GivenId};
use crate::mailbox::SortOrder;
use crate::object::object;
use crate::read::Fields;
use crate::standard::{ChangesRequest, ChangesResponse, GetRequest, SetRequest, SetResponse};

object! {
    /// What the user may do with an address book (§2).
    pub struct AddressBookRights {
        /// See its cards.
        may_read: bool = "mayRead" [required],
        /// Change its cards.
        may_write: bool = "mayWrite" [required],
        /// Give others rights.
        may_share: bool = "mayShare" [required],
        /// Delete it.
        may_delete: bool = "mayDelete" [required],
    }
}

data_type! {
    /// A named set of cards (§2).
    pub struct AddressBook, AddressBookProperty {
        /// Its id.
        id: AddressBookId = Id "id" [server_set],
        /// Its name.
        name: String = Name "name" [settable],
        /// A longer description.
        description: Option<String> = Description "description" [settable],
        /// Where clients show it among the others.
        sort_order: SortOrder = SortOrder "sortOrder" [settable default SortOrder::default()],
        /// Whether clients choose it where the user chooses none.
        is_default: bool = IsDefault "isDefault" [server_set],
        /// Whether clients show it.
        is_subscribed: bool = IsSubscribed "isSubscribed" [settable],
        /// Rights of others.
        share_with: Option<Map<String, Value>> = ShareWith "shareWith" [settable],
        /// Rights of the user.
        my_rights: AddressBookRights = MyRights "myRights" [server_set],
    }
}

/// Arguments of AddressBook/get (§2.1).
pub type AddressBookGet = GetRequest<AddressBookProperty>;
/// Arguments of AddressBook/changes (§2.2) and ContactCard/changes (§3.2).
pub type ContactChanges = ChangesRequest;
/// The response to them.
pub type ContactChangesResponse = ChangesResponse;
/// The response to AddressBook/set.
pub type AddressBookSetResponse = SetResponse<AddressBook>;
/// Arguments of ContactCard/get (§3.1): a card may have properties of any name.
pub type CardGet = GetRequest<String>;
/// The response to ContactCard/set (§3.5).
pub type CardSetResponse = SetResponse<Map<String, Value>>;

/// Arguments of AddressBook/set (§2.3).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AddressBookSet {
    /// Those of any /set.
    #[serde(flatten)]
    pub set: SetRequest,
    /// Whether an address book is destroyed that has cards.
    pub on_destroy_remove_contents: bool,
    /// Which one is the default one afterwards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_success_set_is_default: Option<GivenId>,
}

impl AddressBookSet {
    /// Reads the arguments.
    pub fn from_arguments(arguments: Map<String, Value>) -> Result<Self, MethodError> {
        let mut fields = Fields::from(arguments);
        let set = SetRequest::read(&mut fields)?;
        let on_destroy_remove_contents = fields.defaulted("onDestroyRemoveContents", false)?;
        let on_success_set_is_default = fields.optional("onSuccessSetIsDefault")?;
        fields.finish()?;
        Ok(AddressBookSet { set, on_destroy_remove_contents, on_success_set_is_default })
    }
}

/// Whether a card is valid, without `id` and `addressBookIds`, which are of JMAP: `invalidProperties`
/// with all that are wrong (RFC 9553 §1.7.2).
pub fn check_card(card: &Map<String, Value>) -> Result<(), SetError> {
    match all_wrong(&check::wrong_with(card)) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}
