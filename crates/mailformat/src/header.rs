//! The syntax of headers (RFC 5322 §2.2), as far as it distinguishes mail from other text.

/// Bytes of a line in which a field's name is looked for.
const NAME_BYTES: usize = 256;

/// Fields of which a mail header has at least one. Dates are in other files as well.
const MAIL_FIELDS: [&str; 13] = [
    "from",
    "to",
    "cc",
    "bcc",
    "sender",
    "reply-to",
    "subject",
    "message-id",
    "received",
    "return-path",
    "delivered-to",
    "in-reply-to",
    "references",
];

/// The name of the field that `line` begins with; blanks may stand before the colon (RFC 5322 §4.5).
pub(crate) fn field_name(line: &[u8]) -> Option<&[u8]> {
    let line = &line[..line.len().min(NAME_BYTES)];
    let ends = line.iter().position(|b| !(33..=126).contains(b) || *b == b':')?;
    let (name, after) = line.split_at(ends);
    let value = after.trim_ascii_start();
    let blanks = &after[..after.len() - value.len()];
    let value = value.strip_prefix(b":").filter(|_| !blanks.contains(&b'\n') && !blanks.contains(&b'\r'))?;
    // `http://…` is a line of text.
    (!name.is_empty() && !value.starts_with(b"//")).then_some(name)
}

/// Whether the field name is specific to mail.
pub(crate) fn is_mail_field(name: &[u8]) -> bool {
    let resent = name.get(..7).is_some_and(|begins| begins.eq_ignore_ascii_case(b"resent-"));
    resent || MAIL_FIELDS.iter().any(|field| name.eq_ignore_ascii_case(field.as_bytes()))
}

/// The lines at the beginning of `bytes`, their ends included; the last one may be incomplete.
pub(crate) fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split_inclusive(|b| *b == b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_fields() {
        for (line, name) in [
            (&b"Subject: x\n"[..], Some(&b"Subject"[..])),
            (b"Subject \t: x\n", Some(b"Subject")),
            (b"X:", Some(b"X")),
            (b": x\n", None),
            (b"Dear all\n", None),
            (b"Dear\n: all\n", None),
            (b"http://example.org/\n", None),
            (b"S\xc3\xbcbject: x\n", None),
            (b"Subject", None),
            (b"", None),
        ] {
            assert_eq!(field_name(line), name, "{:?}", String::from_utf8_lossy(line));
        }
        assert!(is_mail_field(b"MESSAGE-id") && is_mail_field(b"Resent-From"));
        assert!(!is_mail_field(b"Date") && !is_mail_field(b"resent"));
    }
}
