//! Blob/lookup (RFC 9404 §4.3).

use std::collections::BTreeMap;

use serde::Serialize;

use crate::error::{MethodError, MethodErrorType};
use crate::id::{AccountId, GivenId, Id};
use crate::object::object;
use crate::read::{Fields, shortened, string_enum};
use crate::standard::ObjectMap;

string_enum! {
    /// A data type whose objects can refer to blobs.
    pub enum LookupType {
        /// A mailbox, by an email in it.
        Mailbox = "Mailbox",
        /// A thread, by an email of it.
        Thread = "Thread",
        /// An email, by itself or a part.
        Email = "Email",
        /// A contact card, by a picture or sound of it (RFC 9610 §7.3).
        ContactCard = "ContactCard",
    }
}

/// Arguments of Blob/lookup.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BlobLookup {
    /// The account.
    pub account_id: AccountId,
    /// Types whose objects are looked for, each once.
    pub type_names: Vec<LookupType>,
    /// The blobs.
    pub ids: Vec<GivenId>,
}

impl BlobLookup {
    /// Reads the arguments; a type that has no blobs, or is not known, is `unknownDataType`.
    pub fn from_arguments(arguments: ObjectMap) -> Result<Self, MethodError> {
        let mut fields = Fields::from(arguments);
        let account_id = crate::standard::account(&mut fields)?;
        let names: Vec<String> = fields.required("typeNames")?;
        let ids: Vec<GivenId> = fields.required("ids")?;
        fields.finish()?;
        super::bounded(&ids)?;
        let mut type_names = Vec::new();
        for name in names {
            let Some(known) = LookupType::from_name(&name) else {
                let error = MethodError::from(MethodErrorType::UnknownDataType);
                return Err(error.describe(format!("typeNames: {:?}", shortened(&name))));
            };
            if !type_names.contains(&known) {
                type_names.push(known);
            }
        }
        Ok(BlobLookup { account_id, type_names, ids })
    }
}

object! {
    /// What refers to a blob.
    pub struct BlobInfo {
        /// The blob.
        id: GivenId = "id" [required],
        /// Objects, by type.
        matched_ids: BTreeMap<LookupType, Vec<Id>> = "matchedIds" [required],
    }
}

object! {
    /// The response to Blob/lookup.
    pub struct BlobLookupResponse {
        /// The account.
        account_id: AccountId = "accountId" [required],
        /// The blobs, each with all types.
        list: Vec<BlobInfo> = "list" [required],
        /// Ids that no blob can have.
        not_found: Vec<GivenId> = "notFound" [or_empty],
    }
}
