//! Maps ACL rights to JMAP's rights to a mailbox (RFC 8621 §2, `myRights`).

use sealpost_account::rights::Rights;
use sealpost_jmap::mailbox::MailboxRights;

/// The JMAP rights of a user. The inbox cannot be deleted or renamed.
pub(super) fn to_jmap(rights: Rights, is_inbox: bool) -> MailboxRights {
    MailboxRights {
        may_read_items: rights.contains(Rights::LOOKUP.with(Rights::READ)),
        may_add_items: rights.contains(Rights::INSERT),
        may_remove_items: rights.contains(Rights::DELETE_MESSAGES.with(Rights::EXPUNGE)),
        may_set_seen: rights.contains(Rights::SEEN),
        may_set_keywords: rights.contains(Rights::WRITE),
        may_create_child: rights.contains(Rights::CREATE),
        may_rename: !is_inbox && rights.contains(Rights::DELETE_MAILBOX),
        may_delete: !is_inbox && rights.contains(Rights::DELETE_MAILBOX),
        may_submit: rights.contains(Rights::POST),
    }
}

/// Those to a mailbox of another owner: its name is in the owner's tree (decision 10, RENAME).
pub(crate) fn to_other(rights: Rights) -> MailboxRights {
    MailboxRights { may_rename: false, ..to_jmap(rights, false) }
}

/// Those to a name that no mailbox has.
pub(super) fn of_nonexistent_parent() -> MailboxRights {
    to_jmap(Rights::LOOKUP.with(Rights::READ).with(Rights::CREATE), false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_right_needs_its_letters() {
        let all = to_jmap(Rights::ALL, false);
        assert!(all.may_read_items && all.may_remove_items && all.may_delete && all.may_submit);
        let inbox = to_jmap(Rights::ALL, true);
        assert_eq!(inbox, MailboxRights { may_rename: false, may_delete: false, ..all.clone() });
        let reader = to_jmap(Rights::parse("lrt").unwrap(), false);
        let nothing = to_jmap(Rights::NONE, false);
        assert_eq!(reader, MailboxRights { may_read_items: true, ..nothing.clone() });
        assert_eq!(to_jmap(Rights::READ, false), nothing, "r without l");
    }
}
