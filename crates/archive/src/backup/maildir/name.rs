//! Names: of folders, and of messages.

use sealpost_base::limits;
use sealpost_imap::utf7;
use sealpost_mailformat::flags::MAILDIR_LETTERS;
use sealpost_mailformat::mark;

use crate::backup::{Flags, FolderName};

/// Bytes of a directory's name; file systems have 255.
const DIRECTORY_BYTES: usize = 220;
/// The part of a longer name that is kept before a `~` and the folder's mark.
const CUT_BYTES: usize = 180;

/// The directory of a folder below that of INBOX: `.top.sub`, `..sub` for what is below INBOX,
/// empty for INBOX itself. As with mbsync, names are left in modified UTF-7 (RFC 3501 §5.1.3).
/// Characters that mbsync cannot write are `\` and two hexadecimal digits, as in `\2e`: a dot
/// within a level, what cannot be in a name, and a `\` that two such digits follow.
pub fn directory(folder: &FolderName) -> String {
    let name = folder.as_str();
    if name == "INBOX" {
        return String::new();
    }
    let levels: Vec<&str> = folder.levels().collect();
    let mut out = String::new();
    for (at, level) in levels.iter().enumerate() {
        out.push('.');
        if at == 0 && levels.len() > 1 && *level == "INBOX" {
            continue;
        }
        if level.is_empty() {
            out.push_str("\\2f");
        }
        let encoded = utf7::encode(level);
        for (at, c) in encoded.char_indices() {
            let escapes = matches!(c, '.' | '/') || c.is_control();
            if escapes || (c == '\\' && escaped(&encoded[at + 1..]).is_some()) {
                out.push_str(&format!("\\{:02x}", u32::from(c)));
            } else {
                out.push(c);
            }
        }
    }
    let marked = out.len() > DIRECTORY_BYTES || name.len() > limits::MAILBOX_NAME_BYTES;
    // A name that looks as if it was cut is cut.
    if marked || (out.len() > CUT_BYTES && out.contains('~')) {
        // Modified UTF-7 is ASCII.
        out.truncate(CUT_BYTES);
        out = format!("{out}~{}", mark(name));
    }
    out
}

/// The folder of that directory, as far as the name shows it: that of a shortened name does not.
/// The hierarchy separator is taken to be a slash.
pub fn folder(directory: &str) -> Option<FolderName> {
    let levels = match directory {
        "" => vec!["INBOX".to_owned()],
        levels => levels.strip_prefix('.')?.split('.').map(level).collect::<Option<Vec<_>>>()?,
    };
    let folder = FolderName::new(levels.join("/"), Some('/'));
    (self::directory(&folder) == directory).then_some(folder)
}

fn level(encoded: &str) -> Option<String> {
    if encoded.is_empty() {
        return Some("INBOX".to_owned());
    }
    let (mut plain, mut rest) = (String::new(), encoded);
    while let Some((before, after)) = rest.split_once('\\') {
        plain.push_str(before);
        let code = escaped(after);
        plain.push(code.unwrap_or('\\'));
        rest = &after[if code.is_some() { 2 } else { 0 }..];
    }
    plain.push_str(rest);
    utf7::decode(plain.as_bytes())
}

/// The character from the two digits that come first, after a `\`.
fn escaped(after: &str) -> Option<char> {
    let digits = after.get(..2).filter(|d| d.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')))?;
    u8::from_str_radix(digits, 16).ok().map(char::from)
}

/// The beginning of a message's file name; it stays while flags change. Letters come first:
/// programs take digits for the time of delivery, which is the file's.
pub fn stem(uidvalidity: u32, uid: u32) -> String {
    format!("V{uidvalidity}U{uid}.sealpost,U={uid}")
}

/// The whole file name.
pub fn file(uidvalidity: u32, uid: u32, flags: &Flags) -> String {
    let mut name = stem(uidvalidity, uid);
    name.push_str(":2,");
    for (letter, flag) in MAILDIR_LETTERS {
        if flags.names().any(|name| name.eq_ignore_ascii_case(flag)) {
            name.push(letter);
        }
    }
    name
}

/// The UIDVALIDITY in a file name of ours.
pub fn uidvalidity(name: &str) -> Option<u32> {
    let uidvalidity = name.strip_prefix('V')?.split('U').next()?.parse().ok()?;
    uid(name, uidvalidity).map(|_| uidvalidity)
}

/// The UID in a file name of ours with this UIDVALIDITY.
pub fn uid(name: &str, uidvalidity: u32) -> Option<u32> {
    let rest = name.strip_prefix('V')?.strip_prefix(&uidvalidity.to_string())?.strip_prefix('U')?;
    let uid = rest.split('.').next()?.parse().ok()?;
    let stem = stem(uidvalidity, uid);
    let after = name.strip_prefix(&stem)?;
    (after.is_empty() || after.starts_with(":2,") || after.starts_with(',')).then_some(uid)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names() {
        let directory = |name: &str, delimiter| directory(&FolderName::new(name, Some(delimiter)));
        assert_eq!(directory("INBOX", '/'), "");
        assert_eq!(directory("top/sub/x", '/'), ".top.sub.x");
        assert_eq!(directory("top.sub", '.'), ".top.sub");
        assert_eq!(directory("INBOX.sub", '.'), "..sub");
        assert_eq!(directory("v1.2", '/'), ".v1\\2e2");
        assert_eq!(directory("Entwürfe", '/'), ".Entw&APw-rfe");
        assert_eq!(directory("/", '/'), ".\\2f.\\2f");
        assert_eq!(directory("../x", '/'), ".\\2e\\2e.x");
        assert_eq!(directory("a~b\\c/\\2e/\\.", '/'), ".a~b\\c.\\5c2e.\\\\2e");
        let long = directory(&"x".repeat(900), '/');
        assert!(long.len() <= DIRECTORY_BYTES);
        assert_ne!(directory(&long[1..], '/'), long, "the name is unique");
        let flags = Flags::from_names(["\\Seen", "\\Flagged", "$forwarded", "work"]);
        assert_eq!(file(7, 12, &flags), "V7U12.sealpost,U=12:2,FPS");
        assert_eq!(uid("V7U12.sealpost,U=12:2,FPS", 7), Some(12));
        assert_eq!(uid("V7U12.sealpost,U=12", 7), Some(12));
        for name in ["V7U12.sealpost,U=13:2,", "V8U12.sealpost,U=12:2,", "V7U12.sealpost,U=123", "x", "V7Ux"]
        {
            assert_eq!(uid(name, 7), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn no_name_leaves_the_directory(name in "(\\PC|[./\\\\~\\x00-\\x1f]){1,40}") {
            let directory = directory(&FolderName::new(name.as_str(), Some('/')));
            prop_assert!(directory.starts_with('.') || name == "INBOX");
            prop_assert!(!directory.contains(['/', '\0']) && directory != "." && directory != "..");
        }

        #[test]
        fn names_come_back(levels in prop::collection::vec("(\\PC|[.\\\\~&a-f0-9]){1,9}", 1..4)) {
            let name = FolderName::new(levels.join("/"), Some('/'));
            prop_assume!(!levels.iter().any(|level| level.contains('/')) && name.as_str() != "INBOX");
            let directory = directory(&name);
            prop_assume!(directory.len() <= CUT_BYTES);
            prop_assert_eq!(folder(&directory), Some(name));
        }
    }
}
