//! The thread data of a message (RFC 8621 §3): its identifier, those that it refers to, and its
//! base subject.
//!
//! Messages are in one thread if one of these identifiers and the subject are equal. The caller,
//! which has the account's other messages, decides that.

use std::collections::VecDeque;

use sealpost_base::limits;

use super::{message_id, subject, word};
use crate::collate;
use crate::envelope::Envelope;

/// The marks of replies and forwards in other languages than English, in lower case. RFC 5256 has
/// only the English ones, and THREAD has to agree on them with other servers; this code need not.
const LOCAL_MARKS: [&str; 22] = [
    "aw", "wg", "sv", "vs", "vb", "antw", "doorst", "tr", "rv", "res", "enc", "rif", "i", "odp", "pd", "ynt",
    "ilt", "отв", "回复", "答复", "转发", "ref",
];

/// The fields of a message that determine its thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ThreadFields {
    /// The message's own identifier, without the angle brackets.
    pub message_id: Option<String>,
    /// The identifiers that it refers to, the oldest first: those of References, or of In-Reply-To
    /// if there are none (RFC 5256 §3). The first one and the last ones, at most one fewer than
    /// [`limits::THREAD_LINKS`].
    pub references: Vec<String>,
    /// The base subject in its form for comparison, without the marks of replies and forwards in
    /// any language known here; at most [`limits::SORT_KEY_BYTES`].
    pub subject: Vec<u8>,
}

impl ThreadFields {
    /// The fields of a message with that envelope.
    pub fn of(envelope: &Envelope) -> Self {
        let ids = |field: &Option<String>| field.as_deref().map(references).unwrap_or_default();
        let mut references = ids(&envelope.references);
        if references.is_empty() {
            references = ids(&envelope.in_reply_to);
        }
        let message_id = envelope.message_id.as_deref();
        let message_id = message_id.and_then(|field| message_id::parse_list(field).next());
        references.retain(|id| Some(id) != message_id.as_ref());
        let mut subject = Vec::new();
        let decoded = word::decode(envelope.subject.as_deref().unwrap_or_default());
        collate::key(&base(&decoded), limits::SORT_KEY_BYTES, &mut subject);
        ThreadFields { message_id, references, subject }
    }
}

/// The first identifier of a field and its last ones.
fn references(field: &str) -> Vec<String> {
    let mut ids = message_id::parse_list(field);
    let Some(first) = ids.next() else { return Vec::new() };
    let mut last = VecDeque::with_capacity(limits::THREAD_LINKS);
    for id in ids {
        if last.len() == limits::THREAD_LINKS - 2 {
            last.pop_front();
        }
        last.push_back(id);
    }
    let mut references = vec![first];
    for id in last {
        if !references.contains(&id) {
            references.push(id);
        }
    }
    references
}

/// The base subject, without the marks of other languages either.
fn base(subject: &str) -> String {
    let mut base = subject::base(subject).text.into_owned();
    // Each round makes it shorter.
    while let Some(rest) = without_local_mark(&base) {
        base = subject::base(rest).text.into_owned();
    }
    base
}

/// The text after a mark, a number in brackets or parentheses, and a colon.
fn without_local_mark(subject: &str) -> Option<&str> {
    let colon = subject.find([':', '：'])?;
    let (mark, rest) = subject.split_at(colon);
    let rest = &rest[rest.chars().next().map_or(0, char::len_utf8)..];
    let mark = mark.split(['[', '(', '^']).next().unwrap_or_default().trim_end();
    // No mark is longer; the text before the colon may be.
    let is_mark = mark.len() <= 16 && LOCAL_MARKS.contains(&mark.to_lowercase().as_str());
    is_mark.then(|| rest.trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(references: &str, in_reply_to: &str, message_id: &str, subject: &str) -> ThreadFields {
        let own = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        ThreadFields::of(&Envelope {
            references: own(references),
            in_reply_to: own(in_reply_to),
            message_id: own(message_id),
            subject: own(subject),
            ..Envelope::default()
        })
    }

    #[test]
    fn references_go_before_in_reply_to() {
        let found = fields("<a@x> <b@x>", "<c@x>", "<d@x>", "");
        assert_eq!(
            (found.message_id.as_deref(), found.references),
            (Some("d@x"), vec!["a@x".into(), "b@x".into()])
        );
        assert_eq!(fields("", "Your mail <c@x>", "", "").references, ["c@x"]);
        assert_eq!(fields("garbage", "<c@x>", "", "").references, ["c@x"]);
        assert_eq!(fields("<d@x> <a@x>", "", "<d@x>", "").references, ["a@x"], "it does not refer to itself");
    }

    #[test]
    fn the_first_reference_and_the_last_ones_are_kept() {
        let many: String = (0..100_000).map(|n| format!("<{n}@x> ")).collect();
        let found = fields(&many, "", "<d@x>", "").references;
        assert_eq!(found.len(), limits::THREAD_LINKS - 1);
        assert_eq!((found[0].as_str(), found[1].as_str()), ("0@x", "99994@x"));
        assert_eq!(found.last().map(String::as_str), Some("99999@x"));
        assert_eq!(fields(&"<a@x>".repeat(50), "", "", "").references, ["a@x"]);
    }

    #[test]
    fn replies_in_any_language_have_the_same_subject() {
        let subject = |text: &str| fields("", "", "", text).subject;
        let plain = subject("The plan");
        for reply in [
            "Re: the plan",
            "AW: The plan",
            "Re: AW: [list] WG: The Plan",
            "Antw.: The plan",
            "SV[2]: The plan",
            "回复：The plan",
            "=?utf-8?Q?Re=3A_The_plan?=",
        ] {
            assert_eq!(subject(reply) == plain, reply != "Antw.: The plan", "{reply}");
        }
        assert_ne!(subject("Plan: The plan"), plain);
        assert_ne!(subject("The plans"), plain);
        assert_eq!(subject(""), [0u8; 0]);
        assert_eq!(subject(&"aw:".repeat(50_000)), [0u8; 0], "in a moment");
    }
}
