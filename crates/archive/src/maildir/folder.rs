//! Mailbox names as Maildir++ directory names: `.Work.2026` for `Work/2026`.
//!
//! Levels are joined by `.`, so a `.` inside a level is written `\2e`, as Dovecot's `listescape` does, and other
//! characters that a directory name cannot hold likewise; text beyond ASCII is modified UTF-7 (RFC 3501 §5.1.3).

use sealpost_imap::utf7;

/// The directory, below the Maildir's root, of the mailbox `name`; empty for INBOX.
pub fn directory(name: &str) -> String {
    if name == "INBOX" {
        return String::new();
    }
    let mut out = String::new();
    for level in name.split('/') {
        out.push('.');
        for c in utf7::encode(level).chars() {
            match c {
                '.' | '/' | '\\' | '~' => out.push_str(&format!("\\{:02x}", u32::from(c))),
                c => out.push(c),
            }
        }
    }
    out
}

/// The mailbox of the Maildir++ directory `name`, which begins with `.`.
pub fn mailbox(name: &str) -> String {
    let levels: Vec<String> =
        name.trim_start_matches('.').split('.').filter(|level| !level.is_empty()).map(level).collect();
    levels.join("/")
}

/// One level as found on disk; what is not modified UTF-7 stays as it is.
pub(crate) fn level(name: &str) -> String {
    let mut plain = String::new();
    let mut rest = name;
    while let Some((before, after)) = rest.split_once('\\') {
        plain.push_str(before);
        let code =
            after.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(u8::is_ascii_punctuation);
        match code {
            Some(code) => {
                plain.push(char::from(code));
                rest = &after[2..];
            }
            None => {
                plain.push('\\');
                rest = after;
            }
        }
    }
    plain.push_str(rest);
    // A level separator that was escaped cannot be one here either.
    utf7::decode(plain.as_bytes()).unwrap_or(plain).replace('/', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for (name, on_disk) in [
            ("Work/2026", ".Work.2026"),
            ("v1.2/a~b", ".v1\\2e2.a\\7eb"),
            ("Entwürfe", ".Entw&APw-rfe"),
            ("a\\b", ".a\\5cb"),
            ("R&D", ".R&-D"),
        ] {
            assert_eq!(directory(name), on_disk);
            assert_eq!(mailbox(on_disk), name);
        }
        assert_eq!(directory("INBOX"), "");
        assert_eq!(mailbox(".Entwürfe"), "Entwürfe", "plain UTF-8 is taken as it is");
    }
}
