//! The notices of an account as JMAP shows them, and the states of their list: the number of changes.

use sealpost_account::object_id::past_mailbox_id;
use sealpost_account::rights::Rights;
use sealpost_account::share_notice::{ShareNotice, ShareNotices};
use sealpost_base::Result;
use sealpost_jmap::State;
use sealpost_jmap::date::UtcDate;
use sealpost_jmap::id::Id;
use sealpost_jmap::share_notification::{Entity, ShareNotification};

use crate::mailbox::rights_to_other;
use crate::principal::principal_id;
use crate::scope::Scope;
use crate::session_object::account_id;

/// The notices, with what changed until now.
pub(super) async fn notices(scope: &Scope<'_>) -> Result<ShareNotices> {
    scope.shared_accounts().await?;
    Ok(scope.account().state().share_notices())
}

/// The state of the notices after so many changes.
pub(crate) fn state_of(changes: u64) -> State {
    State::new(format!("n{changes:x}"))
}

/// The number of changes that a state means.
pub(super) fn changes_in(state: &State) -> Option<u64> {
    let changes = u64::from_str_radix(state.as_str().strip_prefix('n')?, 16).ok()?;
    (state_of(changes) == *state).then_some(changes)
}

/// The id of a notice.
pub(super) fn id_of(notice: u64) -> Option<Id> {
    Id::new(format!("N{notice:x}"))
}

/// The notice that an id means.
pub(super) fn notice_of(id: &Id) -> Option<u64> {
    let notice = u64::from_str_radix(id.as_str().strip_prefix('N')?, 16).ok()?;
    (id_of(notice).as_ref() == Some(id)).then_some(notice)
}

/// A notice as an object. The server knows that rights were changed, and not by which of the users that
/// may: the owner answers for them.
pub(super) fn show(notice: &ShareNotice) -> ShareNotification {
    let mailbox = &notice.mailbox;
    let rights = |rights: Option<Rights>| Some(rights.map(rights_to_other));
    let name = mailbox.owner_name.clone();
    let object = mailbox.uid_validity().map(|validity| past_mailbox_id(notice.share, validity));
    ShareNotification {
        id: id_of(notice.id),
        created: Some(UtcDate::new(notice.created())),
        changed_by: Some(Entity {
            email: Some(name.clone()),
            name,
            principal_id: Some(principal_id(&mailbox.owner_name)),
        }),
        object_type: Some("Mailbox".to_owned()),
        object_account_id: Some(account_id(mailbox.owner)),
        object_id: object.and_then(Id::new),
        old_rights: rights(notice.old),
        new_rights: rights(notice.new),
        name: Some(mailbox.name.clone()),
    }
}
