//! A Maildir file name: `1234567890.unique.host,S=123:2,FS`.

use sealpost_base::Timestamp;

use crate::flags::{MAILDIR_LETTERS, add, has, keywords};

/// The earliest time that a file name may begin with; smaller numbers are not times.
const EARLIEST_SECONDS: i64 = 100_000_000;

/// The time a file name begins with.
pub fn time(name: &str) -> Option<Timestamp> {
    let digits = name.split('.').next()?;
    if digits.len() > 11 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok().filter(|n| *n >= EARLIEST_SECONDS).map(Timestamp::from_seconds)
}

/// The flags in a file name, `keywords` being the names of the letters `a`, `b`, ….
///
/// The separator is `:`; where a file system does not allow that, programs write `;` or `!`.
pub fn flags(name: &str, keywords: &[String]) -> Vec<String> {
    let mut flags = Vec::new();
    let Some(at) = [":2,", ";2,", "!2,"].iter().find_map(|mark| name.rfind(mark)) else { return flags };
    for letter in name[at + 3..].split(',').next().unwrap_or("").chars() {
        let system = MAILDIR_LETTERS.iter().find(|(known, _)| *known == letter).map(|(_, flag)| *flag);
        let keyword = u8::try_from(letter).ok().filter(u8::is_ascii_lowercase).map(|b| usize::from(b - b'a'));
        let named = || keywords.get(keyword?).map(String::as_str).filter(|name| !name.is_empty());
        if let Some(flag) = system.or_else(named) {
            add(&mut flags, flag);
        }
    }
    flags.sort();
    flags
}

/// The letters for `flags`, in ASCII order. New keywords are added to `known` while there is a
/// letter left; returns how many got none.
pub fn letters(flags: &[String], known: &mut Vec<String>) -> (String, usize) {
    let mut letters: String =
        MAILDIR_LETTERS.iter().filter(|(_, flag)| has(flags, flag)).map(|(letter, _)| letter).collect();
    let mut lost = 0;
    let mut custom = Vec::new();
    for keyword in keywords(flags).filter(|k| !k.eq_ignore_ascii_case("$Forwarded")) {
        let at = known.iter().position(|k| k.eq_ignore_ascii_case(keyword));
        let at = match at {
            None if known.len() < 26 => {
                known.push(keyword.to_owned());
                Some(known.len() - 1)
            }
            at => at,
        };
        match at.and_then(|at| u8::try_from(at).ok()) {
            Some(at) => custom.push(char::from(b'a' + at)),
            None => lost += 1,
        }
    }
    custom.sort_unstable();
    letters.extend(custom);
    (letters, lost)
}

/// Reads a keywords file: lines of `number name`.
pub fn read_keywords(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    for line in text.lines() {
        let Some((number, name)) = line.split_once(' ') else { continue };
        let Some(number) = number.parse::<usize>().ok().filter(|n| *n < 26) else { continue };
        if !crate::flags::is_keyword(name) {
            continue;
        }
        if names.len() <= number {
            names.resize(number + 1, String::new());
        }
        names[number] = name.to_owned();
    }
    names
}

/// Writes a keywords file.
pub fn write_keywords(names: &[String]) -> String {
    names.iter().enumerate().map(|(number, name)| format!("{number} {name}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(time("1234567890.x.host:2,S"), Some(Timestamp::from_seconds(1_234_567_890)));
        assert_eq!(time("12.x"), None);
        assert_eq!(time("x.1234567890"), None);
        let keywords = read_keywords("0 work\n2 $Junk\nx\n99 y\n");
        assert_eq!(flags("1.x:2,FSac", &keywords), ["$Junk", "\\Flagged", "\\Seen", "work"]);
        assert_eq!(flags("1.x!2,PT,extra", &[]), ["$Forwarded", "\\Deleted"]);
        assert_eq!(flags("1.x", &[]), [""; 0]);
        assert_eq!(flags("1.x:2,b", &keywords), [""; 0], "a letter without a name");
    }

    #[test]
    fn letters_round_trip_and_run_out() {
        let mut known = Vec::new();
        let set: Vec<String> =
            ["\\Seen", "\\Draft", "$Forwarded", "zeta", "alpha"].map(String::from).to_vec();
        let (text, lost) = letters(&set, &mut known);
        assert_eq!((text.as_str(), lost), ("DPSab", 0));
        let mut sorted = set;
        sorted.sort();
        assert_eq!(flags(&format!("1.x:2,{text}"), &read_keywords(&write_keywords(&known))), sorted);
        let many: Vec<String> = (0..30).map(|n| format!("k{n}")).collect();
        assert_eq!(letters(&many, &mut known).1, 6);
    }
}
