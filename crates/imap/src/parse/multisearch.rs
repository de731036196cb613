//! ESEARCH (RFC 7377), the sets of mailboxes it names (RFC 5465 §8), and CANCELUPDATE (RFC 5267 §5).

use sealpost_base::limits;

use super::cursor::{Cursor, Failure, Parsed};
use super::search;
use crate::types::{AString, Mailbox, MailboxFilter, MultiSearch};

/// `esearch = "ESEARCH" [SP esearch-source-opts] [SP search-return-opts] SP search-program` (RFC 7377 §4)
pub(super) fn esearch(cursor: &mut Cursor<'_>) -> Parsed<MultiSearch> {
    let mut sources = None;
    if cursor.eat_word("IN ") {
        let found = cursor.list1(|cursor| filter(cursor))?;
        let names = |filter: &MailboxFilter| filter.names().len();
        if found.len() + found.iter().map(names).sum::<usize>() > limits::IMAP_ITEMS {
            return Err(Failure::Bad("too many mailboxes"));
        }
        cursor.space()?;
        sources = Some(found);
    }
    let returns = search::returns(cursor)?;
    Ok(MultiSearch { sources, search: search::program(cursor, true, returns)? })
}

/// `filter-mailboxes = "selected" / "inboxes" / "personal" / "subscribed" / ("subtree" /
/// "subtree-one" / "mailboxes") SP one-or-more-mailbox` (RFC 5465 §8, RFC 7377 §4)
pub(super) fn filter(cursor: &mut Cursor<'_>) -> Parsed<MailboxFilter> {
    let word = cursor.word(|b| b.is_ascii_alphabetic() || b == b'-').to_ascii_lowercase();
    Ok(match word.as_str() {
        "selected" => MailboxFilter::Selected,
        "inboxes" => MailboxFilter::Inboxes,
        "personal" => MailboxFilter::Personal,
        "subscribed" => MailboxFilter::Subscribed,
        "subtree" => MailboxFilter::Subtree(mailboxes(cursor)?),
        "subtree-one" => MailboxFilter::SubtreeOne(mailboxes(cursor)?),
        "mailboxes" => MailboxFilter::Mailboxes(mailboxes(cursor)?),
        word => return Err(Cursor::unknown("unknown set of mailboxes", word)),
    })
}

/// `SP one-or-more-mailbox = mailbox / "(" mailbox *(SP mailbox) ")"`
fn mailboxes(cursor: &mut Cursor<'_>) -> Parsed<Vec<Mailbox>> {
    cursor.space()?;
    if cursor.peek() == Some(b'(') {
        return cursor.list1(Cursor::mailbox);
    }
    Ok(vec![cursor.mailbox()?])
}

/// `"CANCELUPDATE" 1*(SP quoted)` (RFC 5267 §5); other strings are taken too.
pub(super) fn cancel_update(cursor: &mut Cursor<'_>) -> Parsed<Vec<AString>> {
    let mut tags = vec![cursor.astring()?];
    while !cursor.at_end() && cursor.eat(b' ') && !cursor.at_end() {
        if tags.len() == limits::IMAP_ITEMS {
            return Err(Failure::Bad("too many tags"));
        }
        tags.push(cursor.astring()?);
    }
    Ok(tags)
}
