//! The Session resource (RFC 8620 §2) and what its capabilities say.

use std::collections::BTreeMap;

use sealpost_base::limits::{
    JMAP_CALLS, JMAP_CONCURRENT_REQUESTS, JMAP_CONCURRENT_UPLOADS, JMAP_GET_OBJECTS, JMAP_REQUEST_BYTES,
    JMAP_SET_OBJECTS, JMAP_UPLOAD_BYTES,
};
use serde::Serialize;
use serde_json::Value;

use crate::capability::Capability;
use crate::id::AccountId;
use crate::object::object;
use crate::state::State;

/// Capabilities by URI, each with an object that says more.
pub type Capabilities = BTreeMap<String, Value>;

/// A capability for [`Capabilities`]; `details` is a type of this module.
pub fn capability(capability: Capability, details: &impl Serialize) -> (String, Value) {
    // The types of this module are objects with names that are strings: writing them cannot fail.
    let details = serde_json::to_value(details).unwrap_or_else(|_| Value::Object(Default::default()));
    (capability.name().to_owned(), details)
}

object! {
    /// What a user can reach, and where.
    pub struct Session {
        /// Of the server.
        capabilities: Capabilities = "capabilities" [required],
        /// The accounts that the user may use.
        accounts: BTreeMap<AccountId, Account> = "accounts" [required],
        /// The user's own account, by capability; the core is none.
        primary_accounts: BTreeMap<String, AccountId> = "primaryAccounts" [required],
        /// The name that the user has logged in with.
        username: String = "username" [required],
        /// Where requests go.
        api_url: String = "apiUrl" [required],
        /// A template with `accountId`, `blobId`, `type` and `name`.
        download_url: String = "downloadUrl" [required],
        /// A template with `accountId`.
        upload_url: String = "uploadUrl" [required],
        /// A template with `types`, `closeafter` and `ping`.
        event_source_url: String = "eventSourceUrl" [required],
        /// The state of this object, which responses repeat.
        state: State = "state" [required],
    }
}

object! {
    /// An account that a user may use.
    pub struct Account {
        /// Its name for people.
        name: String = "name" [required],
        /// Whether it is the user's own.
        is_personal: bool = "isPersonal" [required],
        /// Whether nothing in it can be changed.
        is_read_only: bool = "isReadOnly" [required],
        /// What can be done with it.
        account_capabilities: Capabilities = "accountCapabilities" [required],
    }
}

/// A capability that says nothing more: `{}`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct NoDetails {}

object! {
    /// `urn:ietf:params:jmap:core`, of the server.
    pub struct CoreCapability {
        /// Bytes of an upload.
        max_size_upload: u64 = "maxSizeUpload" [required],
        /// Uploads at the same time.
        max_concurrent_upload: u64 = "maxConcurrentUpload" [required],
        /// Bytes of a request.
        max_size_request: u64 = "maxSizeRequest" [required],
        /// Requests at the same time.
        max_concurrent_requests: u64 = "maxConcurrentRequests" [required],
        /// Calls of a request.
        max_calls_in_request: u64 = "maxCallsInRequest" [required],
        /// Objects of a /get.
        max_objects_in_get: u64 = "maxObjectsInGet" [required],
        /// Objects of a /set.
        max_objects_in_set: u64 = "maxObjectsInSet" [required],
        /// Collations that sorts may name.
        collation_algorithms: Vec<String> = "collationAlgorithms" [required],
    }
}

impl CoreCapability {
    /// With the limits that this crate and its users enforce.
    pub fn new(collation_algorithms: Vec<String>) -> Self {
        CoreCapability {
            max_size_upload: JMAP_UPLOAD_BYTES,
            max_concurrent_upload: JMAP_CONCURRENT_UPLOADS as u64,
            max_size_request: JMAP_REQUEST_BYTES as u64,
            max_concurrent_requests: JMAP_CONCURRENT_REQUESTS as u64,
            max_calls_in_request: JMAP_CALLS as u64,
            max_objects_in_get: JMAP_GET_OBJECTS as u64,
            max_objects_in_set: JMAP_SET_OBJECTS as u64,
            collation_algorithms,
        }
    }
}

object! {
    /// `urn:ietf:params:jmap:mail`, of an account (RFC 8621 §1.3.1).
    pub struct MailCapability {
        /// Mailboxes of an email; none is no limit.
        max_mailboxes_per_email: Option<u64> = "maxMailboxesPerEmail" [nullable],
        /// Nesting of mailboxes; none is no limit.
        max_mailbox_depth: Option<u64> = "maxMailboxDepth" [nullable],
        /// Bytes of the name of a mailbox; at least 100.
        max_size_mailbox_name: u64 = "maxSizeMailboxName" [required],
        /// Bytes of all attachments of an email, decoded.
        max_size_attachments_per_email: u64 = "maxSizeAttachmentsPerEmail" [required],
        /// Properties that emails are sorted by.
        email_query_sort_options: Vec<String> = "emailQuerySortOptions" [required],
        /// Whether the user may create mailboxes that are in no other.
        may_create_top_level_mailbox: bool = "mayCreateTopLevelMailbox" [required],
    }
}

object! {
    /// `urn:ietf:params:jmap:submission`, of an account (RFC 8621 §1.3.2).
    pub struct SubmissionCapability {
        /// Seconds by which sending can be delayed.
        max_delayed_send: u64 = "maxDelayedSend" [required],
        /// Arguments of SMTP extensions, by keyword.
        submission_extensions: BTreeMap<String, Vec<String>> = "submissionExtensions" [required],
    }
}

object! {
    /// `urn:ietf:params:jmap:blob`, of an account (RFC 9404 §3.1).
    pub struct BlobCapability {
        /// Bytes of a blob in Blob/upload; none is no other limit than that of a request.
        max_size_blob_set: Option<u64> = "maxSizeBlobSet" [nullable],
        /// Sources of a blob.
        max_data_sources: u64 = "maxDataSources" [required],
        /// Types of Blob/lookup.
        supported_type_names: Vec<String> = "supportedTypeNames" [required],
        /// Algorithms of Blob/get.
        supported_digest_algorithms: Vec<String> = "supportedDigestAlgorithms" [required],
    }
}

object! {
    /// `urn:ietf:params:jmap:contacts`, of an account (RFC 9610 §1.4.1).
    pub struct ContactsCapability {
        /// Address books of a card; none is no limit but that of address books.
        max_address_books_per_card: Option<u64> = "maxAddressBooksPerCard" [nullable],
        /// Whether the user may create address books.
        may_create_address_book: bool = "mayCreateAddressBook" [required],
    }
}
