//! Mailbox names as Maildir++ directory names: `.Work.2026` for `Work/2026`.
//!
//! Levels are joined by `.`, so a `.` inside a level is written `\2e`, as Dovecot's `listescape`
//! does, and other characters that a directory name cannot hold likewise; text beyond ASCII is
//! modified UTF-7 (RFC 3501 §5.1.3). A name that is too long for a file system is cut and marked
//! with a checksum of all of it.

use sealpost_imap::utf7;

use crate::mark;

/// Bytes of a name that a file or directory can have; file systems have 255, and a suffix may be
/// added.
const NAME_BYTES: usize = 239;
/// Bytes of a mark.
const MARK_BYTES: usize = 32;
/// Bytes that are kept of a longer one, before a `~` and the mark.
const CUT_BYTES: usize = NAME_BYTES - 1 - MARK_BYTES;

/// The directory, below the Maildir's root, of the mailbox `name`; empty for INBOX.
pub fn directory(name: &str) -> String {
    if name == "INBOX" {
        return String::new();
    }
    let whole = |name: &str| name.split('/').map(|level| format!(".{}", escaped(level))).collect::<String>();
    fitting(name, whole)
}

/// A level of a mailbox's name as the name of a file or directory.
pub fn file_name(level: &str) -> String {
    fitting(level, escaped)
}

/// Whether a name from [`directory`] or [`file_name`] was shortened. A `~` in a mailbox's own name
/// is escaped.
pub fn is_cut(on_disk: &str) -> bool {
    on_disk.contains('~')
}

/// `on_disk` of the name, or of as much of it as fits.
fn fitting(name: &str, on_disk: impl Fn(&str) -> String) -> String {
    let whole = on_disk(name);
    if whole.len() <= NAME_BYTES {
        return whole;
    }
    // Not within the escape of one character, nor after the end of a level.
    let ends = name.char_indices().map(|(at, _)| on_disk(name[..at].trim_end_matches('/')));
    let cut = ends.take_while(|cut| cut.len() <= CUT_BYTES).last().unwrap_or_default();
    format!("{cut}~{}", mark(name))
}

fn escaped(level: &str) -> String {
    let mut out = String::new();
    for c in utf7::encode(level).chars() {
        match c {
            '.' | '/' | '\\' | '~' => out.push_str(&format!("\\{:02x}", u32::from(c))),
            c => out.push(c),
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

/// One level as found on disk; what is not modified UTF-7 stays unchanged.
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
    // A level separator that was escaped must not become one here.
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
        assert_eq!(file_name("v1.2"), "v1\\2e2");
    }

    #[test]
    fn names_that_are_too_long_are_cut_and_marked() {
        for name in [
            "L".repeat(252),
            "ü".repeat(400),
            format!("{}/x", "a.b/".repeat(60)),
            "/".repeat(0) + &"é/".repeat(31) + &"m".repeat(250),
        ] {
            let (directory, file) = (directory(&name), file_name(&name));
            for cut in [&directory, &file] {
                assert!(cut.len() <= NAME_BYTES && is_cut(cut), "{cut}");
            }
            assert!(!mailbox(&directory).contains("//"), "{directory}");
            let other = format!("{name}!");
            assert!(
                directory != super::directory(&other) && file != file_name(&other),
                "another name is another"
            );
        }
        assert_eq!(directory(&"n".repeat(238)).len(), 239);
        assert_eq!(file_name(&"n".repeat(240)), format!("{}~{}", "n".repeat(206), mark(&"n".repeat(240))));
    }
}
