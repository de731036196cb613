//! Converts flags of the server to flags of an account, and back.
//!
//! Labels of Gmail become keywords `$label:NAME`, flags of extensions (`\Name`) `$flag:NAME`;
//! characters that a keyword cannot hold are written as `%` and two hexadecimal digits a byte. A
//! label that is longer than a keyword may be becomes several, `$label-ID-N-COUNT:PART` with the
//! numbers from 0 on and one ID for all; other keywords that are longer are left out.

use std::collections::BTreeMap;

use sealpost_account::{self as account, AccountState};
use sealpost_base::limits;

use crate::backup::Flags;

const LABEL: &str = "$label:";
const LABEL_PART: &str = "$label-";
const FLAG: &str = "$flag:";
/// Of a label in parts: the prefix before the text of each is shorter than this.
const PART_HEAD_BYTES: usize = 40;

/// As an account keeps them.
pub fn to_account(flags: &Flags) -> account::Flags {
    let mut system = account::SystemFlags::NONE;
    for (bit, name) in Flags::SYSTEM {
        if flags.system & bit != 0
            && let Some(flag) = account::SystemFlags::named(name)
        {
            system = system.with(flag);
        }
    }
    let keywords = flags.keywords.iter().map(|keyword| match keyword.strip_prefix('\\') {
        Some(extension) => format!("{FLAG}{}", escape(extension)),
        // One that looks like ours.
        None if [LABEL, LABEL_PART, FLAG].iter().any(|begin| keyword.starts_with(begin)) => {
            format!("%24{}", escape(&keyword[1..]))
        }
        None => escape(keyword),
    });
    let labels = flags.labels.iter().flat_map(|label| label_keywords(label));
    let keywords = keywords.chain(labels).filter(|k| !k.is_empty() && k.len() <= limits::KEYWORD_BYTES);
    let keywords = keywords.take(limits::FLAG_SET_KEYWORDS).collect();
    account::Flags { system, keywords }
}

/// As the server has them.
pub fn from_account(flags: &account::Flags) -> Flags {
    let mut out = Flags::from_names(flags.system.names());
    let mut parts = BTreeMap::<_, Vec<_>>::new();
    for keyword in &flags.keywords {
        if let Some(label) = keyword.strip_prefix(LABEL) {
            out.labels.push(unescape(label).into());
        } else if let Some((label, number, part)) = label_part(keyword) {
            parts.entry(label).or_default().push((number, part));
        } else if let Some(flag) = keyword.strip_prefix(FLAG) {
            out.add(&format!("\\{}", unescape(flag)));
        } else {
            out.add(&unescape(keyword));
        }
    }
    for ((_, count), mut parts) in parts {
        parts.sort_unstable();
        if parts.len() == count {
            let escaped: String = parts.into_iter().map(|(_, part)| part).collect();
            out.labels.push(unescape(&escaped).into());
        }
    }
    out.labels.sort();
    out.labels.dedup();
    out
}

/// The flags that an account can store instead of these, if they differ: a keyword has one
/// spelling, and their number is limited.
pub fn fitting(flags: &Flags, state: &AccountState) -> Option<Flags> {
    let mut there = to_account(flags);
    let mut room = limits::KEYWORDS.saturating_sub(state.keywords().len());
    there.keywords.retain_mut(|keyword| match state.keyword(keyword) {
        Some(known) => {
            *keyword = state.keyword_name(known).to_owned();
            true
        }
        None => {
            let fits = room > 0;
            room = room.saturating_sub(1);
            fits
        }
    });
    Some(from_account(&there)).filter(|fitting| fitting != flags)
}

/// The keywords for a label.
fn label_keywords(label: &str) -> Vec<String> {
    let escaped = escape(label);
    if LABEL.len() + escaped.len() <= limits::KEYWORD_BYTES {
        return vec![format!("{LABEL}{escaped}")];
    }
    // Tells parts of labels with a common prefix apart.
    let id = label.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    // Escaped text is ASCII.
    let parts: Vec<_> = escaped.as_bytes().chunks(limits::KEYWORD_BYTES - PART_HEAD_BYTES).collect();
    let count = parts.len();
    let numbered = parts.into_iter().enumerate();
    numbered
        .map(|(number, part)| {
            format!("{LABEL_PART}{id:016x}-{number}-{count}:{}", String::from_utf8_lossy(part))
        })
        .collect()
}

/// The label that a keyword is a part of, by its ID and number of parts; which part, and its text.
fn label_part(keyword: &str) -> Option<((&str, usize), usize, &str)> {
    let (head, part) = keyword.strip_prefix(LABEL_PART)?.split_once(':')?;
    let mut head = head.split('-');
    let (id, number, count) = (head.next()?, head.next()?.parse().ok()?, head.next()?.parse().ok()?);
    (id.len() == 16 && number < count && head.next().is_none()).then_some(((id, count), number, part))
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_graphic() && !b"(){%*\"\\]".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02x}"));
        }
    }
    out
}

fn unescape(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        let code = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match code.and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(|_| *byte == b'%') {
            Some(code) => {
                out.push(code);
                rest = &after[2..];
            }
            None => {
                out.push(*byte);
                rest = after;
            }
        }
    }
    String::from_utf8(out).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn they_come_back(names in prop::collection::vec("([\\\\]|\\$label[:-]|\\$flag:)?[a-zA-Z$%()]{1,8}", 0..4), labels in prop::collection::btree_set("\\PC{1,9}|\\PC{100,225}", 0..4)) {
            let mut flags = Flags::from_names(names.iter().map(String::as_str).filter(|n| *n != "\\"));
            flags.labels = labels.into_iter().map(Into::into).collect();
            let there = to_account(&flags);
            prop_assert!(there.keywords.iter().all(|k| k.bytes().all(|b| b.is_ascii_graphic())));
            prop_assert!(there.keywords.iter().all(|k| k.len() <= limits::KEYWORD_BYTES));
            prop_assert_eq!(from_account(&there), flags);
        }
    }

    #[test]
    fn labels_with_a_common_prefix_stay_distinct() {
        let long = |end: &str| format!("Проекты/{}{end}", "Домашняя бухгалтерия".repeat(5));
        let flags = Flags { labels: vec![long("1").into(), long("2").into()], ..Flags::default() };
        let mut there = to_account(&flags);
        assert_eq!(from_account(&there), flags);
        there.keywords.reverse();
        assert_eq!(from_account(&there), flags);
        there.keywords.pop();
        assert_eq!(from_account(&there).labels.len(), 1);
    }
}
