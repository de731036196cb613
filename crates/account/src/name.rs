//! Mailbox names and their syntax.

use std::borrow::Cow;

use sealpost_base::{Error, Result, limits};
use unicode_normalization::{UnicodeNormalization, is_nfc};

/// The mailbox that always exists (RFC 3501 §5.1).
pub const INBOX: &str = "INBOX";

/// The name as the account stores it: a first level of `INBOX`, ignoring case, is the inbox (RFC 3501 §5.1).
pub fn canonical(name: &str) -> Cow<'_, str> {
    let first = name.split('/').next().unwrap_or_default();
    if first.eq_ignore_ascii_case(INBOX) && first != INBOX {
        Cow::Owned(format!("{INBOX}{}", &name[first.len()..]))
    } else {
        Cow::Borrowed(name)
    }
}

/// The text in Normalization Form C, in which names are stored (RFC 9051 §5.1, RFC 5198 §2).
pub fn nfc(text: &str) -> Cow<'_, str> {
    if text.is_ascii() || is_nfc(text) { Cow::Borrowed(text) } else { Cow::Owned(text.nfc().collect()) }
}

/// The name of a mailbox created under `name`: canonical, and in Normalization Form C.
pub fn normal(name: &str) -> Cow<'_, str> {
    match nfc(name) {
        Cow::Borrowed(name) => canonical(name),
        Cow::Owned(name) => Cow::Owned(canonical(&name).into_owned()),
    }
}

/// Checks a mailbox name: levels separated by `/`, none of them empty, no control characters.
///
/// # Errors
/// `Invalid` or `Limit` with the reason.
pub fn check(name: &str) -> Result<()> {
    if name.len() > limits::MAILBOX_NAME_BYTES {
        return Err(Error::limit(format!("a mailbox name has at most {} bytes", limits::MAILBOX_NAME_BYTES)));
    }
    if name.split('/').count() > limits::MAILBOX_LEVELS {
        return Err(Error::limit(format!("mailboxes nest at most {} levels", limits::MAILBOX_LEVELS)));
    }
    if name.split('/').any(str::is_empty) {
        return Err(Error::invalid("a mailbox name has no empty level"));
    }
    // RFC 9051 §5.1: names must not have control characters, U+2028 or U+2029.
    if name.chars().any(|c| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')) {
        return Err(Error::invalid("a mailbox name has no control characters"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_in_one_form() {
        assert!(matches!(normal("a/b"), Cow::Borrowed("a/b")));
        assert!(matches!(normal("Entwürfe"), Cow::Borrowed(_)));
        assert_eq!(normal("inbox/Entwu\u{308}rfe"), "INBOX/Entwürfe");
        assert_eq!(normal("\u{212b}"), "Å", "RFC 5198 §2 wants NFC");
    }
}
