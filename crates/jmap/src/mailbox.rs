//! Mailboxes (RFC 8621 §2).

mod query;

pub use query::{MailboxCondition, MailboxQuery, MailboxQueryChanges, MailboxSortKey};

use serde::Serialize;
use serde_json::{Map, Value};

use crate::data_type::data_type;
use crate::error::MethodError;
use crate::id::{AccountId, GivenId, Id, MailboxId};
use crate::object::object;
use crate::read::{Fields, FromJson, Mismatch, string_enum};
use crate::standard::{GetRequest, GetResponse, SetRequest, SetResponse};
use crate::state::State;

string_enum! {
    /// A purpose that several clients know: attributes of the IANA registry "IMAP Mailbox Name
    /// Attributes" that are roles, in lowercase.
    pub enum Role {
        /// All messages (RFC 6154).
        All = "all",
        /// Messages kept and out of sight (RFC 6154).
        Archive = "archive",
        /// Drafts (RFC 6154).
        Drafts = "drafts",
        /// Flagged messages (RFC 6154).
        Flagged = "flagged",
        /// Important messages (RFC 8457).
        Important = "important",
        /// The inbox (RFC 8621).
        Inbox = "inbox",
        /// Spam (RFC 6154).
        Junk = "junk",
        /// Messages that are sent (RFC 6154).
        Sent = "sent",
        /// Subscribed mailboxes (RFC 5258).
        Subscribed = "subscribed",
        /// Deleted messages (RFC 6154).
        Trash = "trash",
    }
}

object! {
    /// What the user may do with a mailbox.
    pub struct MailboxRights {
        /// See its emails: IMAP `l` and `r`.
        may_read_items: bool = "mayReadItems" [required],
        /// Add emails: `i`.
        may_add_items: bool = "mayAddItems" [required],
        /// Remove emails: `t` and `e`.
        may_remove_items: bool = "mayRemoveItems" [required],
        /// Set `$seen`: `s`.
        may_set_seen: bool = "maySetSeen" [required],
        /// Set other keywords: `w`.
        may_set_keywords: bool = "maySetKeywords" [required],
        /// Create mailboxes below it: `k`.
        may_create_child: bool = "mayCreateChild" [required],
        /// Rename and move it: `x`.
        may_rename: bool = "mayRename" [required],
        /// Delete it: `x`.
        may_delete: bool = "mayDelete" [required],
        /// Submit messages to it: `p`.
        may_submit: bool = "maySubmit" [required],
    }
}

/// `sortOrder`: 0 to 2^31-1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct SortOrder(u32);

impl SortOrder {
    /// `None` from 2^31.
    pub fn new(order: u32) -> Option<Self> {
        (order < 1 << 31).then_some(SortOrder(order))
    }

    /// The number.
    pub fn value(self) -> u32 {
        self.0
    }
}

impl FromJson for SortOrder {
    fn expected() -> String {
        "an integer from 0 to 2^31-1".into()
    }

    fn from_json(value: Value) -> Result<Self, Mismatch> {
        let order = value.as_u64().and_then(|order| u32::try_from(order).ok()).and_then(SortOrder::new);
        order.ok_or_else(|| Mismatch::new(Self::expected(), &value))
    }
}

data_type! {
    /// A named set of emails.
    pub struct Mailbox, MailboxProperty {
        /// Its id.
        id: MailboxId = Id "id" [server_set],
        /// The last part of its name.
        name: String = Name "name" [settable],
        /// The mailbox it is in, or none.
        parent_id: Option<GivenId> = ParentId "parentId" [settable],
        /// Its purpose, which no other mailbox of the account has.
        role: Option<Role> = Role "role" [settable],
        /// Where clients show it among its siblings.
        sort_order: SortOrder = SortOrder "sortOrder" [settable default SortOrder(0)],
        /// Emails in it.
        total_emails: u64 = TotalEmails "totalEmails" [server_set],
        /// Those without `$seen` and `$draft`.
        unread_emails: u64 = UnreadEmails "unreadEmails" [server_set],
        /// Threads with an email in it.
        total_threads: u64 = TotalThreads "totalThreads" [server_set],
        /// Those with an unread email.
        unread_threads: u64 = UnreadThreads "unreadThreads" [server_set],
        /// What the user may do with it.
        my_rights: MailboxRights = MyRights "myRights" [server_set],
        /// Whether the user wants to see it.
        is_subscribed: bool = IsSubscribed "isSubscribed" [settable],
    }
}

impl MailboxProperty {
    /// Those that change with the emails, as `updatedProperties` lists them (§2.2).
    pub const COUNTS: [MailboxProperty; 4] = [
        MailboxProperty::TotalEmails,
        MailboxProperty::UnreadEmails,
        MailboxProperty::TotalThreads,
        MailboxProperty::UnreadThreads,
    ];
}

/// Arguments of Mailbox/get (§2.1).
pub type MailboxGet = GetRequest<MailboxProperty>;
/// The response to Mailbox/get.
pub type MailboxGetResponse = GetResponse<Mailbox>;
/// The response to Mailbox/set.
pub type MailboxSetResponse = SetResponse<Mailbox>;

object! {
    /// The response to Mailbox/changes (§2.2).
    pub struct MailboxChangesResponse {
        /// The account.
        account_id: AccountId = "accountId" [required],
        /// `sinceState`, repeated.
        old_state: State = "oldState" [required],
        /// The state that the changes lead to.
        new_state: State = "newState" [required],
        /// Whether there are more changes after `new_state`.
        has_more_changes: bool = "hasMoreChanges" [required],
        /// Mailboxes that are new.
        created: Vec<Id> = "created" [required],
        /// Mailboxes that were there and changed.
        updated: Vec<Id> = "updated" [required],
        /// Mailboxes that are gone.
        destroyed: Vec<Id> = "destroyed" [required],
        /// All properties that may have changed, if they are counts.
        updated_properties: Option<Vec<MailboxProperty>> = "updatedProperties" [nullable],
    }
}

/// Arguments of Mailbox/set (§2.5).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MailboxSet {
    /// Those of any /set.
    #[serde(flatten)]
    pub set: SetRequest,
    /// Whether destroying a mailbox takes its emails along.
    #[serde(skip_serializing_if = "crate::standard::is_default")]
    pub on_destroy_remove_emails: bool,
}

impl MailboxSet {
    /// Reads the arguments.
    pub fn from_arguments(arguments: Map<String, Value>) -> Result<Self, MethodError> {
        let mut fields = Fields::from(arguments);
        let set = SetRequest::read(&mut fields)?;
        let on_destroy_remove_emails = fields.defaulted("onDestroyRemoveEmails", false)?;
        fields.finish()?;
        Ok(MailboxSet { set, on_destroy_remove_emails })
    }
}
