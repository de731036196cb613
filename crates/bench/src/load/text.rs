//! Strings as IMAP writes them.

/// `text` as an atom if it can be one, else as a quoted string (RFC 3501 §9). It must not hold a
/// line end or NUL.
pub fn quoted(text: &str, out: &mut Vec<u8>) {
    let atom = |b: u8| b.is_ascii_graphic() && !b"(){%*\"\\]".contains(&b);
    if !text.is_empty() && text.bytes().all(atom) && !text.eq_ignore_ascii_case("NIL") {
        return out.extend_from_slice(text.as_bytes());
    }
    out.push(b'"');
    for byte in text.bytes() {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out.push(b'"');
}

/// Whether `text` can be in a quoted string.
pub fn is_quotable(text: &str) -> bool {
    text.bytes().all(|b| (b' '..=b'~').contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn atoms_stay_and_the_rest_is_quoted() {
        let quote = |text| {
            let mut out = Vec::new();
            quoted(text, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(quote("Bench/a"), "Bench/a");
        assert_eq!(quote(""), "\"\"");
        assert_eq!(quote("nil"), "\"nil\"");
        assert_eq!(quote("a \"b\\"), "\"a \\\"b\\\\\"");
    }
}
