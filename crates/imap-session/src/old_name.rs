//! Reports the stored name of a mailbox to an IMAP4rev2 client that spelled it differently: LIST with OLDNAME
//! (RFC 9051 §6.3.9.7).
//!
//! Names are stored in Normalization Form C, and INBOX in capitals; a client may use any form (RFC 9051
//! §5.1). IMAP4rev1 clients get no such response, since they do not know OLDNAME.

use sealpost_account::name::normal;
use sealpost_account::{AccountState, Mailbox as State, ops};
use sealpost_imap::types::{
    HIERARCHY_DELIMITER, ListExtension, ListItem, Mailbox, MailboxAttribute, Response,
};

use super::list::lister::attribute;
use super::responses::Responses;
use super::user::User;

/// Writes LIST for an existing mailbox, with OLDNAME if the client spelled it differently (RFC 9051 §6.3.2).
pub(super) fn report_name(user: &User, responses: &mut Responses, written: &Mailbox) {
    if let Some((item, name)) = named(user, written) {
        let old = without_delimiter(written.given());
        say(responses, item, (old != name).then_some(old));
    }
}

/// The same, but only if the client spelled it differently and knows OLDNAME (RFC 9051 §6.3.4, §6.3.12).
pub(super) fn report_name_if_other(user: &User, responses: &mut Responses, written: &Mailbox) {
    if responses.dialect.rev2() && is_other(written) {
        report_name(user, responses, written);
    }
}

/// After a rename: reports the new name if the client spelled either name differently (RFC 9051 §6.3.6).
pub(super) fn report_renamed(user: &User, responses: &mut Responses, from: &Mailbox, to: &Mailbox) {
    if responses.dialect.rev2()
        && (is_other(from) || is_other(to))
        && let Some((item, _)) = named(user, to)
    {
        say(responses, item, Some(from.given()));
    }
}

/// After a deletion: reports the name if the client spelled it differently (RFC 9051 §6.3.5).
pub(super) fn report_deleted(responses: &mut Responses, written: &Mailbox, name: &str) {
    if responses.dialect.rev2()
        && written.given() != name
        && let Ok(mailbox) = Mailbox::new(name)
    {
        let item = item(mailbox, vec![MailboxAttribute::NonExistent]);
        say(responses, item, Some(written.given()));
    }
}

fn say(responses: &mut Responses, mut item: ListItem, old: Option<&str>) {
    // A name that was parsed can also be written.
    let old = old.and_then(|old| Mailbox::new(old).ok());
    item.extended.extend(old.map(ListExtension::OldName));
    responses.out().response(&Response::List(item));
}

/// The LIST response for the mailbox, and its name.
fn named(user: &User, written: &Mailbox) -> Option<(ListItem, String)> {
    let state = user.account().state();
    let mailbox = ops::find(&state, without_delimiter(written.as_str()))?;
    let encoded = Mailbox::new(mailbox.name()).ok()?;
    Some((item(encoded, attributes(&state, mailbox)), mailbox.name().to_owned()))
}

/// Whether the stored form differs from the client's.
fn is_other(written: &Mailbox) -> bool {
    let given = without_delimiter(written.given());
    normal(given) != given
}

/// A trailing delimiter only declares an intent and is not part of the name (RFC 9051 §6.3.4).
fn without_delimiter(name: &str) -> &str {
    name.strip_suffix(HIERARCHY_DELIMITER).unwrap_or(name)
}

fn item(mailbox: Mailbox, attributes: Vec<MailboxAttribute>) -> ListItem {
    ListItem { attributes, delimiter: Some(HIERARCHY_DELIMITER), mailbox, extended: Vec::new() }
}

/// RFC 9051 §6.3.2: all of them must be correct.
fn attributes(state: &AccountState, mailbox: &State) -> Vec<MailboxAttribute> {
    let children = match state.has_inferiors(mailbox.name()) {
        true => MailboxAttribute::HasChildren,
        false => MailboxAttribute::HasNoChildren,
    };
    [children].into_iter().chain(mailbox.special_uses().iter().map(attribute)).collect()
}
