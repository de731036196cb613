//! EmailSubmission/query and EmailSubmission/queryChanges (RFC 8621 §7.3, §7.4).

use serde::ser::SerializeMap;

use super::UndoStatus;
use crate::date::UtcDate;
use crate::id::GivenId;
use crate::object::object;
use crate::read::{Fields, Mismatch, string_enum};
use crate::standard::{Condition, QueryChangesRequest, QueryRequest, SortKey};

object! {
    /// Which submissions: all that are given must match.
    pub struct SubmissionCondition {
        /// By one of these identities.
        identity_ids: Option<Vec<GivenId>> = "identityIds" [optional],
        /// Of one of these emails.
        email_ids: Option<Vec<GivenId>> = "emailIds" [optional],
        /// Of one of these threads.
        thread_ids: Option<Vec<GivenId>> = "threadIds" [optional],
        /// With this status.
        undo_status: Option<UndoStatus> = "undoStatus" [optional],
        /// Released before.
        before: Option<UtcDate> = "before" [optional],
        /// Released then or after.
        after: Option<UtcDate> = "after" [optional],
    }
}

impl Condition for SubmissionCondition {
    fn read(fields: &mut Fields) -> Result<Self, Mismatch> {
        SubmissionCondition::read(fields)
    }
}

string_enum! {
    /// What submissions are sorted by.
    pub enum SubmissionSortKey {
        /// The email.
        EmailId = "emailId",
        /// The thread.
        ThreadId = "threadId",
        /// `sendAt`, which §7.3 calls so; both names are taken.
        SentAt = "sentAt",
    }
}

impl SortKey for SubmissionSortKey {
    fn read(property: &str, _: &mut Fields) -> Result<Option<Self>, Mismatch> {
        Ok(match property {
            "sendAt" => Some(SubmissionSortKey::SentAt),
            _ => SubmissionSortKey::from_name(property),
        })
    }

    fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("property", self)
    }
}

/// Arguments of EmailSubmission/query.
pub type SubmissionQuery = QueryRequest<SubmissionCondition, SubmissionSortKey>;
/// Arguments of EmailSubmission/queryChanges.
pub type SubmissionQueryChanges = QueryChangesRequest<SubmissionCondition, SubmissionSortKey>;
