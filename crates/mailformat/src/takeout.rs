//! Labels of Gmail, as Google Takeout writes them into its mbox files: `X-Gmail-Labels:
//! Inbox,Opened,Starred,Work/2026`.
//!
//! A comma-separated list (quoted as in RFC 4180 §2.6), as a whole in encoded-words (RFC 2047). It
//! has the user's labels, Gmail's own by their names in the user's language, and words that are no
//! labels elsewhere: `Opened`, `Unread`, `Archived`. Google does not document this; the names are
//! from such files.

use sealpost_base::limits;
use sealpost_imap::utf7;
use sealpost_mime::header::{unfold, word};

use crate::flags::is_keyword;

/// The meaning of a label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Label {
    /// It is in the inbox.
    Inbox,
    /// The user sent it.
    Sent,
    /// It is a draft.
    Draft,
    /// It is spam.
    Junk,
    /// It was deleted.
    Trash,
    /// It is not in the inbox.
    Archived,
    /// It has a star.
    Starred,
    /// Gmail, or the user, considers it important.
    Important,
    /// It was read.
    Opened,
    /// It is unread, or was marked so again.
    Unread,
    /// Gmail put it into one of its tabs.
    Category,
    /// A label of the user's; levels are separated by `/`.
    Named(String),
}

/// The labels of a message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels(Vec<Label>);

impl Labels {
    /// Parses the value of an `X-Gmail-Labels` field. Only the first [`limits::GMAIL_LABELS`]
    /// count.
    pub fn parse(value: &[u8]) -> Self {
        let text = word::decode(&unfold(value));
        let mut labels = Vec::new();
        for name in split(&text).take(limits::GMAIL_LABELS) {
            let label = meaning(&name).unwrap_or(Label::Named(name));
            if !labels.contains(&label) {
                labels.push(label);
            }
        }
        Labels(labels)
    }

    /// The corresponding flags, sorted.
    pub fn flags(&self) -> Vec<String> {
        let seen = self.has(&Label::Opened) && !self.has(&Label::Unread);
        // RFC 8457 §4: a keyword for messages that are important.
        let flags = [
            ("$Important", self.has(&Label::Important)),
            ("\\Draft", self.has(&Label::Draft)),
            ("\\Flagged", self.has(&Label::Starred)),
            ("\\Seen", seen),
        ];
        flags.iter().filter(|(_, has)| *has).map(|(flag, _)| (*flag).to_owned()).collect()
    }

    /// Those that name a mailbox, at least one: messages that are only in All Mail are archived.
    pub fn mailboxes(&self) -> Vec<Label> {
        let is_place = |label: &&Label| {
            matches!(
                label,
                Label::Inbox | Label::Sent | Label::Draft | Label::Junk | Label::Trash | Label::Named(_)
            )
        };
        let found: Vec<_> = self.0.iter().filter(is_place).cloned().collect();
        if found.is_empty() { vec![Label::Archived] } else { found }
    }

    /// Those that name a mailbox, as keywords (RFC 9051 §2.3.2). Characters that cannot be in one
    /// become modified UTF-7, or `_`.
    pub fn keywords(&self) -> Vec<String> {
        let keyword = |label: &Label| match label {
            Label::Inbox => "Inbox".to_owned(),
            Label::Sent => "Sent".to_owned(),
            Label::Draft => "Drafts".to_owned(),
            Label::Junk => "$Junk".to_owned(),
            Label::Trash => "Trash".to_owned(),
            Label::Named(name) => atom(name),
            _ => "Archived".to_owned(),
        };
        self.mailboxes().iter().map(keyword).collect()
    }

    fn has(&self, label: &Label) -> bool {
        self.0.contains(label)
    }
}

fn atom(name: &str) -> String {
    let allowed = |c: char| is_keyword(c.encode_utf8(&mut [0; 4]));
    let mut word: String = utf7::encode(name).chars().map(|c| if allowed(c) { c } else { '_' }).collect();
    // Modified UTF-7 is ASCII.
    word.truncate(limits::KEYWORD_BYTES);
    word
}

/// The fields of a line of comma-separated values, without blanks around them and without empty ones.
fn split(text: &str) -> impl Iterator<Item = String> + '_ {
    let mut rest = Some(text);
    let next = move || {
        let begins = rest?.trim_start();
        let (field, after) = begins.strip_prefix('"').and_then(quoted).unwrap_or_else(|| {
            let (field, after) = begins.split_once(',').map_or((begins, None), |(f, after)| (f, Some(after)));
            (field.to_owned(), after)
        });
        rest = after;
        Some(field.trim().to_owned())
    };
    std::iter::from_fn(next).filter(|field| !field.is_empty())
}

/// A field after its opening quote, and the text after the comma behind it; `None` if it does not
/// end properly.
fn quoted(text: &str) -> Option<(String, Option<&str>)> {
    let mut field = String::new();
    let mut rest = text;
    loop {
        let (before, after) = rest.split_once('"')?;
        field.push_str(before);
        match after.strip_prefix('"') {
            Some(after) => {
                field.push('"');
                rest = after;
            }
            None if after.trim_start().is_empty() => return Some((field, None)),
            None => return Some((field, Some(after.trim_start().strip_prefix(',')?))),
        }
    }
}

/// Gmail's own labels, in lower case: English, German, French, Spanish, Italian, Portuguese, Dutch,
/// Czech, Polish.
const NAMES: [(Label, &[&str]); 10] = [
    (
        Label::Inbox,
        &[
            "inbox",
            "posteingang",
            "boîte de réception",
            "recibidos",
            "bandeja de entrada",
            "posta in arrivo",
            "caixa de entrada",
            "postvak in",
            "doručená pošta",
            "doručené",
            "odebrane",
        ],
    ),
    (
        Label::Sent,
        &[
            "sent",
            "sent mail",
            "gesendet",
            "messages envoyés",
            "envoyé",
            "envoyés",
            "enviado",
            "enviados",
            "inviati",
            "inviata",
            "posta inviata",
            "verzonden",
            "odeslané",
            "odeslaná pošta",
            "wysłane",
        ],
    ),
    (
        Label::Draft,
        &[
            "draft",
            "drafts",
            "entwürfe",
            "brouillons",
            "borradores",
            "bozze",
            "rascunhos",
            "concepten",
            "koncepty",
            "wersje robocze",
        ],
    ),
    (Label::Junk, &["spam", "correo no deseado", "pourriel"]),
    (
        Label::Trash,
        &["trash", "papierkorb", "corbeille", "papelera", "cestino", "lixeira", "prullenbak", "koš", "kosz"],
    ),
    (
        Label::Archived,
        &[
            "archived",
            "archiviert",
            "messages archivés",
            "archivé",
            "archivés",
            "archivado",
            "archivados",
            "archiviati",
            "archiviata",
            "arquivado",
            "arquivados",
            "gearchiveerd",
            "archivováno",
            "zarchiwizowane",
        ],
    ),
    (
        Label::Starred,
        &[
            "starred",
            "markiert",
            "messages suivis",
            "suivi",
            "suivis",
            "destacado",
            "destacados",
            "speciali",
            "com estrela",
            "met ster",
            "s hvězdičkou",
            "oznaczone gwiazdką",
        ],
    ),
    (
        Label::Important,
        &[
            "important",
            "wichtig",
            "importants",
            "importante",
            "importantes",
            "importanti",
            "belangrijk",
            "důležité",
            "ważne",
        ],
    ),
    (
        Label::Opened,
        &[
            "opened",
            "geöffnet",
            "ouvert",
            "ouverts",
            "abierto",
            "abiertos",
            "aperto",
            "aperti",
            "aberto",
            "abertos",
            "geopend",
            "otevřeno",
            "otevřené",
            "otwarte",
        ],
    ),
    (
        Label::Unread,
        &[
            "unread",
            "ungelesen",
            "non lu",
            "non lus",
            "no leído",
            "no leídos",
            "non letti",
            "da leggere",
            "não lido",
            "não lidos",
            "não lida",
            "não lidas",
            "ongelezen",
            "nepřečtené",
            "nieprzeczytane",
        ],
    ),
];

/// The first word of the names of tabs, before a colon; English has none.
const CATEGORY: [&str; 8] =
    ["category", "kategorie", "catégorie", "categoría", "categoria", "categorie", "kategoria", "kategória"];
const ENGLISH_CATEGORIES: [&str; 9] = [
    "personal",
    "social",
    "promotions",
    "updates",
    "forums",
    "purchases",
    "reservations",
    "travel",
    "finance",
];

fn meaning(name: &str) -> Option<Label> {
    let lower = name.to_lowercase();
    if let Some((label, _)) = NAMES.iter().find(|(_, names)| names.contains(&&*lower)) {
        return Some(label.clone());
    }
    let english = lower.strip_prefix("category ").is_some_and(|tab| ENGLISH_CATEGORIES.contains(&tab));
    let other = lower.split_once(':').is_some_and(|(word, _)| CATEGORY.contains(&word.trim()));
    (english || other).then_some(Label::Category)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Label {
        Label::Named(name.to_owned())
    }

    #[test]
    fn labels_of_files_as_they_are() {
        for (value, expected) in [
            ("Inbox,Opened,Starred", vec![Label::Inbox, Label::Opened, Label::Starred]),
            ("Sent, Inbox ,,Sent", vec![Label::Sent, Label::Inbox]),
            ("", vec![]),
            (
                "=?UTF-8?Q?Archiviert,Wichtig,Ge=C3=B6ffnet,Kategorie:_=22=22Pers=C3=B6nlich=22=22?=",
                vec![Label::Archived, Label::Important, Label::Opened, Label::Category],
            ),
            (
                "=?UTF-8?Q?Messages_archiv=C3=A9s,Ouvert,Cat=C3=A9gorie=C2=A0:_E-mails_?=\r\n =?UTF-8?Q?personnels,\"Culture,_associations\"?=",
                vec![Label::Archived, Label::Opened, Label::Category, named("Culture, associations")],
            ),
            ("=?UTF-8?B?w5xiZXIgdW5z?=,Unread", vec![named("Über uns"), Label::Unread]),
            (
                "\"a \"\"b\"\"\",\"c\" d,Work/2026",
                vec![named("a \"b\""), named("\"c\" d"), named("Work/2026")],
            ),
            ("\"open", vec![named("\"open")]),
            ("Category Updates,Category mistakes", vec![Label::Category, named("Category mistakes")]),
        ] {
            assert_eq!(Labels::parse(value.as_bytes()).0, expected, "{value}");
        }
        let many: Vec<_> = (0..limits::GMAIL_LABELS + 5).map(|n| n.to_string()).collect();
        assert_eq!(Labels::parse(many.join(",").as_bytes()).0.len(), limits::GMAIL_LABELS);
    }

    #[test]
    fn flags_mailboxes_and_keywords() {
        for (value, flags, mailboxes, keywords) in [
            ("Inbox,Opened,Starred", &["\\Flagged", "\\Seen"][..], vec![Label::Inbox], &["Inbox"][..]),
            ("Opened,Unread,Important", &["$Important"], vec![Label::Archived], &["Archived"]),
            ("Archived,Opened,Straße 1", &["\\Seen"], vec![named("Straße 1")], &["Stra&AN8-e_1"]),
            ("Drafts", &["\\Draft"], vec![Label::Draft], &["Drafts"]),
            ("Category Social,Spam,a/b (c)", &[], vec![Label::Junk, named("a/b (c)")], &["$Junk", "a/b__c_"]),
        ] {
            let labels = Labels::parse(value.as_bytes());
            assert_eq!(labels.flags(), flags, "{value}");
            assert_eq!(labels.mailboxes(), mailboxes, "{value}");
            assert_eq!(labels.keywords(), keywords, "{value}");
            assert!(labels.keywords().iter().all(|word| is_keyword(word)));
        }
        assert_eq!(Labels::parse("ß".repeat(500).as_bytes()).keywords()[0].len(), limits::KEYWORD_BYTES);
    }
}
