//! The implicit Email/set after EmailSubmission/set and MDN/send (RFC 8621 §7.5).

use std::collections::{BTreeMap, BTreeSet};

use sealpost_account::object_id::email_id_of;
use sealpost_base::{ObjectId, SubmissionId};
use sealpost_jmap::GivenId;
use sealpost_jmap::id::{AccountId, CreatedIds};
use sealpost_jmap::standard::{ObjectMap, SetRequest};

use crate::submission::show::submission_of;

/// What is to be done to the emails of submissions that were changed; `None` if nothing is.
pub(super) fn email_set(
    account: &AccountId,
    emails: &BTreeMap<SubmissionId, ObjectId>,
    (update, destroy): (BTreeMap<GivenId, ObjectMap>, Vec<GivenId>),
    created: &CreatedIds,
) -> Option<SetRequest> {
    let email_of = |given: &GivenId| {
        let object = emails.get(&submission_of(given, created)?)?;
        Some(GivenId::from(email_id_of(*object)))
    };
    let mut patches: BTreeMap<GivenId, ObjectMap> = BTreeMap::new();
    for (given, patch) in update {
        if let Some(email) = email_of(&given) {
            patches.entry(email).or_default().extend(patch);
        }
    }
    let destroy: BTreeSet<GivenId> = destroy.iter().filter_map(email_of).collect();
    // Each once: what is destroyed is not changed before.
    patches.retain(|email, _| !destroy.contains(email));
    if patches.is_empty() && destroy.is_empty() {
        return None;
    }
    Some(SetRequest {
        account_id: account.clone(),
        if_in_state: None,
        create: BTreeMap::new(),
        update: patches,
        destroy: destroy.into_iter().collect(),
    })
}
