//! Folder names as paths, as imap-backup writes them where that is safe.
//!
//! `/` makes directories; `:`, `%` and `;` become `%3a;`, `%25;` and `%3b;`. It escapes nothing
//! else. Names that would lead elsewhere or collide with our own files are escaped in the same
//! manner: an empty level, `.` and `..`, control characters, and the dot of a directory's name that
//! ends like a file of ours. A name that is too long for a file name is cut and marked with a
//! digest: the journal has the full name.

use sealpost_base::limits;
use sealpost_mailformat::mark;

/// Bytes of one level: with the longest extension it fits into the 255 of file systems.
const LEVEL_BYTES: usize = 220;
/// Bytes of a path: with that of the backup's directory it fits into the 4096 of file systems.
const PATH_BYTES: usize = 2000;
/// Endings of our files and imap-backup's.
const ENDINGS: [&str; 11] = [
    ".mbox",
    ".imap",
    ".mirror",
    ".sealpost",
    ".new",
    ".orphans",
    ".rewritten",
    ".lock",
    ".source",
    ".restored",
    ".read",
];
/// The end of our file names before a number.
const NUMBERED: &str = ".damaged-";

/// The path of the folder called `name`, without an extension.
pub fn path(name: &str) -> String {
    let levels: Vec<&str> = name.split('/').collect();
    if levels.len() > limits::MAILBOX_LEVELS || name.len() > limits::MAILBOX_NAME_BYTES {
        return shorten(&level(&name.replace('/', "_"), false), name);
    }
    let last = levels.len() - 1;
    let path = levels.iter().enumerate().map(|(at, name)| {
        let written = level(name, at < last);
        if written.len() > LEVEL_BYTES { shorten(&written, name) } else { written }
    });
    let path = path.collect::<Vec<_>>().join("/");
    if path.len() > PATH_BYTES { shorten(&path.replace('/', "_"), name) } else { path }
}

/// The name of the folder at `path`, as imap-backup reads it.
pub fn name(path: &str) -> String {
    let mut name = String::new();
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('%') {
        name.push_str(before);
        let code = after.split_once(';').and_then(|(hex, after)| {
            let code = u32::from_str_radix(hex, 16).ok().and_then(char::from_u32)?;
            Some((code, after))
        });
        match code {
            Some((code, after)) => {
                name.push(code);
                rest = after;
            }
            None => {
                name.push('%');
                rest = after;
            }
        }
    }
    name.push_str(rest);
    name
}

fn level(name: &str, directory: bool) -> String {
    let dot = match name {
        "" => return "%2f;".to_owned(),
        "." | ".." => Some(0),
        _ if directory => {
            let lower = name.to_ascii_lowercase();
            let ending = ENDINGS.iter().find(|ending| lower.ends_with(**ending));
            let numbered = || {
                let (before, number) = lower.rsplit_once(NUMBERED)?;
                number.bytes().all(|b| b.is_ascii_digit()).then_some(before.len())
            };
            ending.map(|ending| name.len() - ending.len()).or_else(numbered)
        }
        _ => None,
    };
    let mut out = String::with_capacity(name.len());
    for (at, c) in name.char_indices() {
        match c {
            ':' | '%' | ';' => out.push_str(&format!("%{:x};", u32::from(c))),
            c if c.is_control() || dot == Some(at) => out.push_str(&format!("%{:x};", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}

fn shorten(written: &str, name: &str) -> String {
    let mut end = written.len().min(LEVEL_BYTES - 40);
    while !written.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}~{}", &written[..end], mark(name))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn as_imap_backup_writes_them() {
        for (folder, on_disk) in [
            ("INBOX", "INBOX"),
            ("[Gmail]/All Mail", "[Gmail]/All Mail"),
            ("a:b", "a%3a;b"),
            ("100%", "100%25;"),
            ("x;y", "x%3b;y"),
            ("Entwürfe", "Entwürfe"),
        ] {
            assert_eq!(path(folder), on_disk);
            assert_eq!(name(on_disk), folder);
        }
        assert_eq!(name("50%"), "50%");
        assert_eq!(name("a%zz;b"), "a%zz;b");
    }

    #[test]
    fn never_elsewhere() {
        for (folder, on_disk) in [
            ("../../etc/passwd", "%2e;./%2e;./etc/passwd"),
            ("/etc", "%2f;/etc"),
            ("a//b", "a/%2f;/b"),
            (".", "%2e;"),
            ("a\0b", "a%0;b"),
            ("a.MBOX/b", "a%2e;MBOX/b"),
            ("sealpost.lock/b", "sealpost%2e;lock/b"),
            ("a.mbox.rewritten/b", "a.mbox%2e;rewritten/b"),
            ("a.imap.damaged-1/b", "a.imap%2e;damaged-1/b"),
            ("a.mbox", "a.mbox"),
        ] {
            assert_eq!(path(folder), on_disk);
        }
        let long = path(&"ä".repeat(490));
        assert!(long.len() <= LEVEL_BYTES && long != path(&"ä".repeat(491)), "{long}");
        assert!(path(&"a/".repeat(40)).len() <= LEVEL_BYTES);
        assert!(path(&format!("{}x", ":/".repeat(30))).len() <= PATH_BYTES);
        assert!(path(&[":".repeat(45).as_str(); 20].join("/")).len() <= LEVEL_BYTES);
    }

    proptest! {
        #[test]
        fn no_name_leaves_the_directory(name in "(\\PC|[./\\\\%:;\\x00-\\x1f]){0,40}") {
            let path = path(&name);
            prop_assert!(!path.starts_with('/'));
            for level in path.split('/') {
                prop_assert!(!level.is_empty() && level != "." && level != ".." && level.len() <= 255);
                prop_assert!(!level.chars().any(char::is_control));
            }
        }
    }
}
