//! LIST with its extensions, LSUB, NAMESPACE (RFC 3501 §6.3.8, §6.3.9; RFC 5258, RFC 5819, RFC
//! 6154, RFC 9590, RFC 2342).

pub(super) mod lister;

use sealpost_account::share::OTHERS;
use sealpost_imap::types::{
    Code, HIERARCHY_DELIMITER, List, ListExtension, ListItem, ListPattern, Mailbox, MailboxAttribute,
    NamespaceEntry, Namespaces, Response, ReturnOption, SelectionOption,
};

use super::acl;
use super::metadata;
use super::reply::{Failure, Outcome, Reply};
use super::responses::Responses;
use super::status;
use super::user::User;
use lister::{ListedName, Lister};

const TOO_LONG: &str = "the patterns are too long";

/// LIST.
pub(super) async fn list(user: &User, responses: &mut Responses, list: &List) -> Outcome {
    if list.is_delimiter_request() {
        // RFC 3501 §6.3.8: the delimiter, and the root of the reference, which here is always empty.
        let root = Mailbox::new("").map_err(|_| Reply::bad("no root"))?;
        let item = item(root, vec![MailboxAttribute::NoSelect], false);
        responses.out().response(&Response::List(item));
        return Ok(Reply::ok("LIST completed"));
    }
    let extended = list.selection.is_some() || list.patterns.len() > 1 || !list.returns.is_empty();
    let lister = Lister::new(list, extended || responses.dialect.rev2());
    let mut lister = lister.ok_or_else(|| Reply::no(Code::Limit, TOO_LONG))?;
    let links = user.links().await?;
    lister.hide(links.hidden());
    let account = user.account().clone();
    loop {
        let batch = lister.batch(&account.state());
        for listed in batch.names {
            write_listed(user, responses, &listed, &list.returns).await?;
        }
        if !batch.more {
            return Ok(Reply::ok("LIST completed"));
        }
        tokio::task::yield_now().await;
    }
}

/// Writes one name, and the other requested data if it is a mailbox and selected itself (RFC 5819 §2).
async fn write_listed(
    user: &User,
    responses: &mut Responses,
    listed: &ListedName,
    returns: &[ReturnOption],
) -> Result<(), Failure> {
    let Ok(mailbox) = Mailbox::new(&listed.name) else { return Ok(()) };
    let item = item(mailbox.clone(), listed.attributes.clone(), listed.child_info);
    responses.out().response(&Response::List(item));
    responses.relieve().await?;
    if !listed.exists || !listed.selected {
        return Ok(());
    }
    for option in returns {
        match option {
            ReturnOption::Status(items) => status::report_status(user, responses, &mailbox, items).await,
            ReturnOption::Metadata(entries) => {
                metadata::report_listed(user, responses, &mailbox, entries).await
            }
            ReturnOption::MyRights => acl::report_rights(user, responses, &mailbox).await,
            ReturnOption::Subscribed | ReturnOption::Children | ReturnOption::SpecialUse => continue,
        }
        // RFC 5819 §2, RFC 9590 §3: a mailbox that was just deleted, or is unreadable, has none.
        .or_else(|failure| match failure {
            Failure::Reply(_) => Ok(()),
            Failure::End(end) => Err(Failure::End(end)),
        })?;
        responses.relieve().await?;
    }
    Ok(())
}

/// LSUB: subscribed names, existing or not.
pub(super) async fn lsub(
    user: &User,
    responses: &mut Responses,
    reference: &Mailbox,
    pattern: &ListPattern,
) -> Outcome {
    let lister = Lister::lsub(reference, pattern);
    let mut lister = lister.ok_or_else(|| Reply::no(Code::Limit, TOO_LONG))?;
    let account = user.account().clone();
    loop {
        let batch = lister.batch(&account.state());
        for listed in batch.names {
            if let Ok(mailbox) = Mailbox::new(&listed.name) {
                let item = item(mailbox, listed.attributes, false);
                responses.out().response(&Response::Lsub(item));
                responses.relieve().await?;
            }
        }
        if !batch.more {
            return Ok(Reply::ok("LSUB completed"));
        }
        tokio::task::yield_now().await;
    }
}

/// NAMESPACE: the user's mailboxes without a prefix, and those shared by other users below one (RFC 2342 §5).
pub(super) fn namespace(responses: &mut Responses) -> Reply {
    let space = |prefix: &str| {
        let entry = |prefix| NamespaceEntry { prefix, delimiter: Some(HIERARCHY_DELIMITER) };
        Mailbox::new(prefix).map(entry).into_iter().collect()
    };
    let other = space(&format!("{OTHERS}{HIERARCHY_DELIMITER}"));
    let spaces = Namespaces { personal: space(""), other, ..Namespaces::default() };
    responses.out().response(&Response::Namespace(spaces));
    Reply::ok("NAMESPACE completed")
}

fn item(mailbox: Mailbox, attributes: Vec<MailboxAttribute>, child_info: bool) -> ListItem {
    let extended = match child_info {
        // RFC 5258 §3.5: RECURSIVEMATCH requires SUBSCRIBED, which selects.
        true => vec![ListExtension::ChildInfo(vec![SelectionOption::Subscribed])],
        false => Vec::new(),
    };
    ListItem { attributes, delimiter: Some(HIERARCHY_DELIMITER), mailbox, extended }
}
