//! The names of chunks.

use sealpost_base::MailboxId;

/// What a chunk's name says it holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Content {
    StateHeader,
    Messages(u32),
    Rows(MailboxId, u32),
    Vanished(MailboxId),
    Buried(usize),
    RemovedPlacement(Kind, usize),
    Links(u64),
    Objects,
    Contacts,
    Cards(u32),
    Identities,
    Submissions,
}

/// What tombstones are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Messages,
    Placements,
    Mailboxes,
    Cards,
    AddressBooks,
}

impl Kind {
    pub(super) const ALL: [(Kind, &str); 5] = [
        (Kind::Messages, "messages"),
        (Kind::Placements, "placements"),
        (Kind::Mailboxes, "mailboxes"),
        (Kind::Cards, "cards"),
        (Kind::AddressBooks, "books"),
    ];

    pub(super) fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(_, known)| *known == name).map(|(kind, _)| kind)
    }
}

impl Content {
    pub(super) fn name(&self) -> String {
        match self {
            Content::StateHeader => "head".to_owned(),
            Content::Messages(block) => format!("messages-{block:08x}"),
            Content::Rows(mailbox, block) => format!("rows-{:08x}-{block:08x}", mailbox.0),
            Content::Vanished(mailbox) => format!("vanished-{:08x}", mailbox.0),
            Content::Buried(block) => format!("buried-{block:08x}"),
            Content::RemovedPlacement(kind, block) => format!("gone-{}-{block:08x}", kind.name()),
            Content::Links(block) => format!("links-{block:08x}"),
            Content::Objects => "objects".to_owned(),
            Content::Contacts => "contacts".to_owned(),
            Content::Cards(block) => format!("cards-{block:08x}"),
            Content::Identities => "identities".to_owned(),
            Content::Submissions => "submissions".to_owned(),
        }
    }

    pub(super) fn parse(name: &str) -> Option<Content> {
        let hex = |s: &str| u32::from_str_radix(s, 16).ok();
        let mut parts = name.split('-');
        let content = match (parts.next()?, parts.next(), parts.next()) {
            ("head", None, _) => Content::StateHeader,
            ("objects", None, _) => Content::Objects,
            ("contacts", None, _) => Content::Contacts,
            ("identities", None, _) => Content::Identities,
            ("submissions", None, _) => Content::Submissions,
            ("cards", Some(block), None) => Content::Cards(hex(block)?),
            ("messages", Some(block), None) => Content::Messages(hex(block)?),
            ("vanished", Some(mailbox), None) => Content::Vanished(MailboxId(hex(mailbox)?)),
            ("buried", Some(block), None) => Content::Buried(hex(block)? as usize),
            ("gone", Some(kind), Some(block)) => {
                Content::RemovedPlacement(Kind::named(kind)?, hex(block)? as usize)
            }
            ("links", Some(block), None) => Content::Links(hex(block)?.into()),
            ("rows", Some(mailbox), Some(block)) => Content::Rows(MailboxId(hex(mailbox)?), hex(block)?),
            _ => return None,
        };
        Some(content)
    }
}
