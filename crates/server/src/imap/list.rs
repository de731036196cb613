//! LIST, LSUB, NAMESPACE (RFC 3501 §6.3.8, §6.3.9; RFC 3348, RFC 6154, RFC 2342).

use std::collections::BTreeMap;

use sealpost_account::{AccountState, SpecialUse};
use sealpost_imap::types::{
    HIERARCHY_DELIMITER, List, ListItem, ListPattern, Mailbox, MailboxAttribute, NamespaceEntry, Namespaces,
    Response, SelectionOption,
};

use super::reply::{Outcome, Reply};
use super::session::Session;

impl Session {
    /// LIST.
    pub(super) async fn list(&mut self, list: &List) -> Outcome {
        if list.is_delimiter_request() {
            // RFC 3501 §6.3.8: the delimiter, and the root of the reference, which here is always empty.
            let root = Mailbox::new("").map_err(|_| Reply::bad("no root"))?;
            let item = item(root, vec![MailboxAttribute::NoSelect]);
            self.connection.out().response(&Response::List(item));
            return Ok(Reply::ok("LIST completed"));
        }
        let special_only =
            list.selection.iter().flatten().any(|option| matches!(option, SelectionOption::SpecialUse));
        let patterns: Vec<_> = list.patterns.iter().map(|p| p.under(&list.reference)).collect();
        let items = listed(&self.account()?.state(), &patterns, special_only);
        for item in items {
            self.connection.out().response(&Response::List(item));
            self.connection.relieve().await?;
        }
        Ok(Reply::ok("LIST completed"))
    }

    /// LSUB: subscribed names, whether or not they exist.
    pub(super) async fn lsub(&mut self, reference: &Mailbox, pattern: &ListPattern) -> Outcome {
        let pattern = pattern.under(reference);
        let items = subscribed(&self.account()?.state(), &pattern);
        for item in items {
            self.connection.out().response(&Response::Lsub(item));
            self.connection.relieve().await?;
        }
        Ok(Reply::ok("LSUB completed"))
    }

    /// NAMESPACE: one personal namespace without a prefix.
    pub(super) fn namespace(&mut self) -> Reply {
        let personal = Mailbox::new("")
            .map(|prefix| NamespaceEntry { prefix, delimiter: Some(HIERARCHY_DELIMITER) })
            .into_iter()
            .collect();
        let spaces = Namespaces { personal, ..Namespaces::default() };
        self.connection.out().response(&Response::Namespace(spaces));
        Reply::ok("NAMESPACE completed")
    }
}

fn item(mailbox: Mailbox, attributes: Vec<MailboxAttribute>) -> ListItem {
    ListItem { attributes, delimiter: Some(HIERARCHY_DELIMITER), mailbox }
}

/// The mailboxes that match, and the levels above mailboxes that are no mailboxes themselves.
fn listed(state: &AccountState, patterns: &[ListPattern], special_only: bool) -> Vec<ListItem> {
    let mut items: BTreeMap<&str, ListItem> = BTreeMap::new();
    let matches = |name: &str| patterns.iter().any(|pattern| pattern.matches(name));
    for mailbox in state.mailboxes() {
        let name = mailbox.name();
        if matches(name) && (!special_only || mailbox.special_use().is_some()) {
            let children = if state.has_inferiors(name) {
                MailboxAttribute::HasChildren
            } else {
                MailboxAttribute::HasNoChildren
            };
            let attributes = [children].into_iter().chain(mailbox.special_use().map(attribute)).collect();
            if let Ok(encoded) = Mailbox::new(name) {
                items.insert(name, item(encoded, attributes));
            }
        }
        if special_only {
            continue;
        }
        for superior in superiors(name) {
            if state.mailbox_named(superior).is_none()
                && !items.contains_key(superior)
                && matches(superior)
                && let Ok(encoded) = Mailbox::new(superior)
            {
                let attributes = vec![MailboxAttribute::NoSelect, MailboxAttribute::HasChildren];
                items.insert(superior, item(encoded, attributes));
            }
        }
    }
    items.into_values().collect()
}

/// The subscribed names that match. With `%`, a level above a subscribed name is returned with `\Noselect` if it is
/// not subscribed to itself: for the client to know that there is more below (RFC 3501 §6.3.9).
fn subscribed(state: &AccountState, pattern: &ListPattern) -> Vec<ListItem> {
    let mut items: BTreeMap<&str, ListItem> = BTreeMap::new();
    let by_level = pattern.as_str().contains('%');
    for name in state.subscriptions() {
        if pattern.matches(name) {
            if let Ok(encoded) = Mailbox::new(name) {
                items.insert(name, item(encoded, Vec::new()));
            }
            continue;
        }
        for superior in superiors(name).filter(|_| by_level) {
            if pattern.matches(superior)
                && !state.is_subscribed(superior)
                && let Ok(encoded) = Mailbox::new(superior)
            {
                items.insert(superior, item(encoded, vec![MailboxAttribute::NoSelect]));
            }
        }
    }
    items.into_values().collect()
}

/// `a`, `a/b` for `a/b/c`.
fn superiors(name: &str) -> impl Iterator<Item = &str> {
    name.match_indices(HIERARCHY_DELIMITER).map(|(at, _)| &name[..at])
}

fn attribute(special_use: SpecialUse) -> MailboxAttribute {
    match special_use {
        SpecialUse::Archive => MailboxAttribute::Archive,
        SpecialUse::Drafts => MailboxAttribute::Drafts,
        SpecialUse::Junk => MailboxAttribute::Junk,
        SpecialUse::Sent => MailboxAttribute::Sent,
        SpecialUse::Trash => MailboxAttribute::Trash,
        SpecialUse::Flagged => MailboxAttribute::Flagged,
        SpecialUse::All => MailboxAttribute::All,
        SpecialUse::Important => MailboxAttribute::Important,
    }
}
