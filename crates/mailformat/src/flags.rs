//! Flags as archives keep them: `Status` fields in an mbox, letters in a Maildir file name.

/// Adds `flag` unless it is there already (system flags and keywords compare without case, RFC 3501 §2.3.2).
pub(crate) fn add(flags: &mut Vec<String>, flag: &str) {
    if !flags.iter().any(|have| have.eq_ignore_ascii_case(flag)) {
        flags.push(flag.to_owned());
    }
}

/// Whether `flags` has `flag`.
pub(crate) fn has(flags: &[String], flag: &str) -> bool {
    flags.iter().any(|have| have.eq_ignore_ascii_case(flag))
}

/// The keywords among `flags`: everything that is not a system flag.
pub(crate) fn keywords(flags: &[String]) -> impl Iterator<Item = &str> {
    flags.iter().map(String::as_str).filter(|flag| !flag.starts_with('\\'))
}

/// Reads flags from a header field, if it is one of those in which mail programs keep them.
///
/// `name` is the field's name in any case, `value` its body. Returns whether the field is such a one: it
/// belongs to the archive then, not to the message.
pub fn read_status_field(name: &str, value: &str, flags: &mut Vec<String>) -> bool {
    let letters: &[(char, &str)] = match name.to_ascii_lowercase().as_str() {
        "status" => &[('R', "\\Seen"), ('D', "\\Deleted")],
        "x-status" => &[('A', "\\Answered"), ('F', "\\Flagged"), ('D', "\\Deleted"), ('T', "\\Draft")],
        "x-keywords" | "x-mozilla-keys" => {
            value.split_ascii_whitespace().filter(|word| is_keyword(word)).for_each(|word| add(flags, word));
            return true;
        }
        "x-mozilla-status" => {
            read_mozilla_status(value, flags);
            return true;
        }
        "x-mozilla-status2" | "x-uid" | "x-imap" | "x-imapbase" => return true,
        _ => return false,
    };
    for (letter, flag) in letters {
        if value.contains(*letter) {
            add(flags, flag);
        }
    }
    true
}

/// Thunderbird's bits: read, replied, marked, expunged, forwarded.
fn read_mozilla_status(value: &str, flags: &mut Vec<String>) {
    let bits = u32::from_str_radix(value.trim(), 16).unwrap_or(0);
    let named = [
        (0x0001, "\\Seen"),
        (0x0002, "\\Answered"),
        (0x0004, "\\Flagged"),
        (0x0008, "\\Deleted"),
        (0x1000, "$Forwarded"),
    ];
    named.iter().filter(|(bit, _)| bits & bit != 0).for_each(|(_, flag)| add(flags, flag));
}

/// The fields that keep `flags` in an mbox, each line ended by `line_end`.
pub fn status_fields(flags: &[String], line_end: &str) -> String {
    let seen = if has(flags, "\\Seen") { "R" } else { "" };
    let mut out = format!("Status: {seen}O{line_end}");
    let letters: String = [("\\Answered", 'A'), ("\\Flagged", 'F'), ("\\Draft", 'T'), ("\\Deleted", 'D')]
        .iter()
        .filter(|(flag, _)| has(flags, flag))
        .map(|(_, letter)| letter)
        .collect();
    if !letters.is_empty() {
        out.push_str(&format!("X-Status: {letters}{line_end}"));
    }
    let words: Vec<_> = keywords(flags).collect();
    if !words.is_empty() {
        out.push_str(&format!("X-Keywords: {}{line_end}", words.join(" ")));
    }
    out
}

/// The letters of a Maildir file name (after `:2,`) and their meanings.
pub const MAILDIR_LETTERS: [(char, &str); 6] = [
    ('D', "\\Draft"),
    ('F', "\\Flagged"),
    ('P', "$Forwarded"),
    ('R', "\\Answered"),
    ('S', "\\Seen"),
    ('T', "\\Deleted"),
];

/// A word that can be an IMAP keyword (an atom, RFC 3501 §9 `flag-keyword`), within the length
/// limit.
pub(crate) fn is_keyword(word: &str) -> bool {
    !word.is_empty()
        && word.len() <= sealpost_base::limits::KEYWORD_BYTES
        && word.bytes().all(|b| b.is_ascii_graphic() && !b"(){%*\"\\]".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_fields_round_trip() {
        let flags: Vec<String> =
            ["\\Seen", "\\Answered", "\\Draft", "$Junk", "work"].iter().map(|s| s.to_string()).collect();
        let mut back = Vec::new();
        for line in status_fields(&flags, "\n").lines() {
            let (name, value) = line.split_once(':').unwrap();
            assert!(read_status_field(name, value, &mut back), "{line}");
        }
        assert_eq!(back, flags);
    }

    #[test]
    fn thunderbird_and_strangers() {
        let mut flags = Vec::new();
        assert!(read_status_field("X-Mozilla-Status", " 1005", &mut flags));
        assert_eq!(flags, ["\\Seen", "\\Flagged", "$Forwarded"]);
        assert!(!read_status_field("Subject", "RO", &mut flags));
        assert!(read_status_field("X-Keywords", "a (b) c\\d e", &mut flags));
        assert_eq!(flags[3..], ["a", "e"]);
    }
}
