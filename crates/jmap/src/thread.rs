//! Threads (RFC 8621 §3).

use crate::data_type::data_type;
use crate::id::{EmailId, ThreadId};
use crate::standard::{ChangesRequest, ChangesResponse, GetRequest, GetResponse};

data_type! {
    /// Emails of one conversation.
    pub struct Thread, ThreadProperty {
        /// Its id.
        id: ThreadId = Id "id" [server_set],
        /// Its emails, oldest first.
        email_ids: Vec<EmailId> = EmailIds "emailIds" [server_set],
    }
}

/// Arguments of Thread/get (§3.1).
pub type ThreadGet = GetRequest<ThreadProperty>;
/// The response to Thread/get.
pub type ThreadGetResponse = GetResponse<Thread>;
/// Arguments of Thread/changes (§3.2).
pub type ThreadChanges = ChangesRequest;
/// The response to Thread/changes.
pub type ThreadChangesResponse = ChangesResponse;
