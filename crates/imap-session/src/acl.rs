//! SETACL, DELETEACL, GETACL, LISTRIGHTS and MYRIGHTS (RFC 4314 §3): the IMAP side.
//! [`sealpost_mailbox::rights`] decides. Identifiers are account names; `-name` denies rights.

use std::sync::Arc;

use sealpost_account::Account;
use sealpost_account::rights::Rights;
use sealpost_base::MailboxId;
use sealpost_imap::types::{AString, AclCommand, AclData, Mailbox, Response};
use sealpost_mailbox::rights::{AccessList, Granted, Grantee, RightsChange, access_list};

use super::reply::{Failure, Outcome, Reply};
use super::responses::Responses;
use super::selected::Selected;
use super::user::User;

/// Runs one of the commands. Sets `moved` if the selected mailbox has moved to another log.
pub(super) async fn run(
    user: &User,
    selected: &mut Option<Selected>,
    moved: &mut bool,
    responses: &mut Responses,
    command: &AclCommand,
) -> Outcome {
    match command {
        AclCommand::Set { mailbox, identifier, rights } => {
            let shared = set_acl(user, mailbox, identifier, rights).await?;
            let Some((log, id)) = shared else { return Ok(Reply::ok("SETACL completed")) };
            if selected.as_ref().is_some_and(|view| view.is_at(&log, id)) {
                (*selected, *moved) = (None, true);
            }
            Ok(Reply::ok("SETACL completed, the mailbox is shared now"))
        }
        AclCommand::Delete { mailbox, identifier } => delete_acl(user, mailbox, identifier).await,
        AclCommand::Get(mailbox) => get_acl(user, responses, mailbox).await,
        AclCommand::ListRights { mailbox, identifier } => {
            list_rights(user, responses, mailbox, identifier).await
        }
        AclCommand::MyRights(mailbox) => {
            report_rights(user, responses, mailbox).await?;
            Ok(Reply::ok("MYRIGHTS completed"))
        }
    }
}

/// Sets rights. Returns the old location of the mailbox if it became a share, which moves it.
async fn set_acl(
    user: &User,
    mailbox: &Mailbox,
    identifier: &AString,
    rights: &AString,
) -> Result<Option<(Arc<Account>, MailboxId)>, Failure> {
    let change = rights_change(rights)?;
    let to = grantee(user, identifier)?;
    let resolved = user.resolve(mailbox).await?;
    let before = (resolved.account.clone(), resolved.mailbox);
    let granted = user.sharing().grant(resolved, &to, change).await?;
    Ok((granted != Granted::InPlace).then_some(before))
}

async fn delete_acl(user: &User, mailbox: &Mailbox, identifier: &AString) -> Outcome {
    let from = grantee(user, identifier)?;
    let resolved = user.resolve(mailbox).await?;
    user.sharing().revoke(resolved, &from).await?;
    Ok(Reply::ok("DELETEACL completed"))
}

async fn get_acl(user: &User, responses: &mut Responses, mailbox: &Mailbox) -> Outcome {
    let AccessList { owner, entries } = access_list(user.resolve(mailbox).await?)?;
    let owner = owner.as_deref().unwrap_or(user.name());
    let owner = (AString::from(owner), said(Rights::ALL));
    let others = entries.iter().map(|entry| {
        let sign = if entry.negative { "-" } else { "" };
        (AString::from(format!("{sign}{}", entry.name).as_str()), said(entry.rights))
    });
    let entries = [owner].into_iter().chain(others).collect();
    responses.out().response(&Response::Acl(AclData::Acl { mailbox: mailbox.clone(), entries }));
    Ok(Reply::ok("GETACL completed"))
}

async fn list_rights(
    user: &User,
    responses: &mut Responses,
    mailbox: &Mailbox,
    identifier: &AString,
) -> Outcome {
    let to = grantee(user, identifier)?;
    let resolved = user.resolve(mailbox).await?;
    let grantable = user.sharing().grantable(resolved, &to).await?;
    let (required, optional) = (said(grantable.always), each_of(grantable.each));
    // RFC 4314 §3.4: the identifier as the client wrote it.
    let (mailbox, identifier) = (mailbox.clone(), identifier.clone());
    let data = AclData::ListRights { mailbox, identifier, required, optional };
    responses.out().response(&Response::Acl(data));
    Ok(Reply::ok("LISTRIGHTS completed"))
}

/// Writes `* MYRIGHTS`, also for LIST (RFC 8440 §3).
pub(super) async fn report_rights(
    user: &User,
    responses: &mut Responses,
    mailbox: &Mailbox,
) -> Result<(), Failure> {
    let rights = user.resolve(mailbox).await?.rights;
    let data = AclData::MyRights { mailbox: mailbox.clone(), rights: said(rights) };
    responses.out().response(&Response::Acl(data));
    Ok(())
}

/// The grantee that the identifier names, prepared like names at login (RFC 4314 §3).
fn grantee(user: &User, identifier: &AString) -> Result<Grantee, Reply> {
    let bad = || Reply::bad("invalid identifier");
    let text = identifier.as_str().ok_or_else(bad)?;
    let (negative, name) = match text.strip_prefix('-') {
        Some(name) => (true, name),
        None => (false, text),
    };
    if name.eq_ignore_ascii_case("anyone") {
        return Ok(Grantee::Anyone);
    }
    let name = user.directory().account_name(name).map_err(|_| bad())?;
    Ok(Grantee::Account { name, negative })
}

/// `mod-rights`
fn rights_change(rights: &AString) -> Result<RightsChange, Reply> {
    let text = rights.as_str().ok_or_else(|| Reply::bad("rights are letters"))?;
    let (change, letters): (fn(Rights) -> RightsChange, &str) = match text.as_bytes().first() {
        Some(b'+') => (RightsChange::Add, &text[1..]),
        Some(b'-') => (RightsChange::Remove, &text[1..]),
        _ => (RightsChange::Replace, text),
    };
    // RFC 4314 §3.1: MUST be BAD.
    let rights = Rights::parse(letters).map_err(|letter| {
        Reply::bad(match letter {
            'A'..='Z' => "uppercase rights are not allowed".to_owned(),
            letter => format!("the {letter:?} right is not supported"),
        })
    })?;
    Ok(change(rights))
}

fn said(rights: Rights) -> AString {
    AString::from(rights.to_string().as_str())
}

/// Each right separately, since none is tied to another; then the obsolete ones (RFC 4314 §2.1.1).
fn each_of(rights: Rights) -> Vec<AString> {
    let obsolete: &[char] = if rights.is_empty() { &[] } else { &['c', 'd'] };
    let letters = rights.letters().chain(obsolete.iter().copied());
    letters.map(|letter| AString::from(letter.to_string().as_str())).collect()
}
