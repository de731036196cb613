//! Flags of the server as flags of an account, and back.
//!
//! Labels of Gmail become keywords `$label:NAME`, flags of extensions (`\Name`) `$flag:NAME`; what a keyword cannot hold
//! is written as `%` and two hexadecimal digits a byte. What is longer than a keyword may be is left out.

use sealpost_account as account;
use sealpost_base::limits;

use crate::keep::Flags;

const LABEL: &str = "$label:";
const FLAG: &str = "$flag:";

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
        None => escape(keyword),
    });
    let labels = flags.labels.iter().map(|label| format!("{LABEL}{}", escape(label)));
    let keywords = keywords.chain(labels).filter(|k| !k.is_empty() && k.len() <= limits::KEYWORD_BYTES);
    let keywords = keywords.take(limits::FLAG_SET_KEYWORDS).collect();
    account::Flags { system, keywords }
}

/// As the server has them.
pub fn from_account(flags: &account::Flags) -> Flags {
    let mut out = Flags::from_names(flags.system.names());
    for keyword in &flags.keywords {
        if let Some(label) = keyword.strip_prefix(LABEL) {
            out.labels.push(unescape(label).into());
        } else if let Some(flag) = keyword.strip_prefix(FLAG) {
            out.add(&format!("\\{}", unescape(flag)));
        } else {
            out.add(&unescape(keyword));
        }
    }
    out.labels.sort();
    out.labels.dedup();
    out
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
        fn they_come_back(names in prop::collection::vec("[\\\\]?[a-zA-Z$%()]{1,8}", 0..4), labels in prop::collection::btree_set("\\PC{1,9}", 0..3)) {
            let mut flags = Flags::from_names(names.iter().map(String::as_str).filter(|n| !n.starts_with("$label") && *n != "\\"));
            flags.labels = labels.into_iter().map(Into::into).collect();
            let there = to_account(&flags);
            let fit = flags.labels.iter().all(|label| label.len() * 3 + LABEL.len() <= limits::KEYWORD_BYTES);
            prop_assert!(there.keywords.iter().all(|k| k.bytes().all(|b| b.is_ascii_graphic())));
            if fit {
                prop_assert_eq!(from_account(&there), flags);
            }
        }
    }
}
