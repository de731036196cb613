//! Wrong commands: the answer names the error.

use crate::server::{Decoder, Event, Limits};

/// Why the command is refused.
fn reason(line: &[u8]) -> String {
    let mut decoder = Decoder::new(Limits::authenticated(1000));
    decoder.feed(&[b"a ", line, b"\r\n"].concat());
    match std::iter::from_fn(|| decoder.next()).last() {
        Some(Event::Bad { tag: Some(tag), reason, .. }) if tag.as_str() == "a" => reason.into_owned(),
        other => panic!("{other:?} for {}", line.escape_ascii()),
    }
}

/// The command, and a word that the answer must contain.
const WRONG: &[(&[u8], &str)] = &[
    // RFC 9051 §9: a flag-keyword is an atom.
    (b"STORE 1 +FLAGS (a]b)", "keyword"),
    (b"STORE 1 +FLAGS a]b", "keyword"),
    (b"STORE 1 +FLAGS (ok Caf\xc3\xa9)", "keyword has ASCII"),
    (b"STORE 1 +FLAGS Caf\xe9", "keyword has ASCII"),
    (b"STORE 1 FLAGS (a%b)", "keyword cannot have a %"),
    (b"STORE 1 FLAGS (a*)", "keyword cannot have a *"),
    (b"STORE 1 FLAGS (a\"b)", "keyword cannot have a \""),
    (b"STORE 1 FLAGS (\"quoted\")", "not quoted"),
    (b"STORE 1 FLAGS (a(b)", "keyword cannot have a ("),
    (b"STORE 1 FLAGS (a{b)", "keyword cannot have a {"),
    (b"STORE 1 FLAGS (a\\b)", "keyword cannot have a \\"),
    (b"STORE 1 FLAGS (a\x7fb)", "control character"),
    (b"STORE 1 FLAGS (\\Seen\\Flagged)", "flag"),
    (b"STORE 1 FLAGS (\\*)", "\\* is no flag"),
    (b"STORE 1 FLAGS (\\Se]en)", "flag"),
    (b"STORE 1 FLAGS ()x", "unexpected text"),
    (b"STORE 1 FLAGS (a b", "list"),
    (b"SEARCH KEYWORD a]b", "keyword"),
    (b"SEARCH UNKEYWORD Caf\xc3\xa9", "keyword has ASCII"),
    (b"SEARCH KEYWORD \\Seen", "no keyword: \\Seen"),
    (b"APPEND INBOX (a]b) {5}", "keyword"),
    // Mailboxes and other strings that are no atoms.
    (b"SELECT Entw\xc3\xbcrfe", "8-bit"),
    (b"CREATE \xc3\xbc", "8-bit"),
    (b"RENAME a Entw\xfcrfe", "8-bit"),
    (b"SELECT a%b", "no atom may have"),
    (b"DELETE a*", "no atom may have"),
    (b"CREATE a\\b", "no atom may have"),
    (b"LIST \"\" Entw\xc3\xbcrfe", "8-bit"),
    (b"LOGIN me pass\"word", "no atom may have"),
    (b"LOGIN me p\xc3\xa4ss", "8-bit"),
    (b"SEARCH SUBJECT caf\xc3\xa9", "8-bit"),
    (b"SEARCH SUBJECT a%b ALL", "no atom may have"),
    (b"SELECT \"INBOX", "quoted string does not end"),
    (b"SELECT \"a\\b\"", "escaped"),
    // Sequence sets.
    (b"FETCH 0 FLAGS", "0 is no message number"),
    (b"FETCH 1,,2 FLAGS", "sequence set"),
    (b"FETCH 1;2 FLAGS", "sequence set"),
    (b"FETCH 1-5 FLAGS", "sequence set"),
    (b"FETCH 1: FLAGS", "sequence set"),
    (b"FETCH x FLAGS", "sequence set"),
    (b"FETCH 1:x FLAGS", "sequence set"),
    (b"FETCH 1,2, FLAGS", "sequence set"),
    (b"FETCH 5000000000 FLAGS", "32 bits"),
    (b"FETCH 99999999999999999999 FLAGS", "32 bits"),
    (b"STORE 1..5 FLAGS ()", "sequence set"),
    (b"UID EXPUNGE 1-5", "sequence set"),
    (b"SEARCH 1-5", "sequence set"),
    (b"SEARCH UID 1;5", "sequence set"),
    // Dates.
    (b"SEARCH SINCE yesterday", "1-Feb-2026"),
    (b"SEARCH SINCE 2026-02-01", "1-Feb-2026"),
    (b"SEARCH SINCE 1-Feb-2026x", "1-Feb-2026"),
    (b"SEARCH SINCE 1-Feb-26", "1-Feb-2026"),
    (b"SEARCH SINCE \"1-Feb-2026 10:00\"", "1-Feb-2026"),
    (b"SEARCH SINCE 31-Feb-2026", "no such day"),
    (b"APPEND INBOX \"yesterday\" {5}", "date-time"),
    // Sections and partials.
    (b"FETCH 1 BODY[FOO]", "unknown section FOO"),
    (b"FETCH 1 BODY[MIME]", "part number"),
    (b"FETCH 1 BODY[0]", "0 is no part number"),
    (b"FETCH 1 BODY[HEADER.FIELDS]", "HEADER.FIELDS (From Subject)"),
    (b"FETCH 1 BODY[HEADER.FIELDS From]", "HEADER.FIELDS (From Subject)"),
    (b"FETCH 1 BODY[1", "section does not end"),
    (b"FETCH 1 BODY[-1]", "section is"),
    (b"FETCH 1 BODY[]<5>", "partial"),
    // Words that are not known.
    (b"FETCH 1 COLOUR", "unknown FETCH item COLOUR"),
    (b"FETCH 1 (FLAGS)x", "unexpected text"),
    (b"FETCH 1 ENVELOPE[1]", "unknown FETCH item with a section ENVELOPE"),
    (b"SEARCH COLOUR red", "unknown search key COLOUR"),
    (b"SEARCH \"x\"", "search key is missing"),
    (b"SEARCH LARGER 10k", "digits only"),
    (b"STATUS INBOX (COLOUR)", "unknown STATUS item COLOUR"),
    (b"SORT (COLOUR) UTF-8 ALL", "unknown sort criterion COLOUR"),
    (b"THREAD COLOUR UTF-8 ALL", "unknown threading algorithm COLOUR"),
    (b"SEARCH RETURN (COLOUR) ALL", "unknown return option COLOUR"),
    (b"SELECT INBOX (COLOUR)", "unknown SELECT parameter COLOUR"),
    (b"LIST (COLOUR) \"\" *", "unknown LIST selection option COLOUR"),
    (b"AUTHENTICATE PLAIN a!b", "base64"),
];

#[test]
fn the_answer_names_the_error() {
    for (line, word) in WRONG {
        let reason = reason(line);
        assert!(reason.contains(word), "{reason:?} for {}", line.escape_ascii());
    }
}

/// Only the start of it: the answer is one line, and the rest of the word says no more.
#[test]
fn a_long_unknown_word_is_repeated_in_part() {
    let long = format!("FETCH 1 {}", "X".repeat(1000));
    assert!(reason(long.as_bytes()).len() < 100);
}

/// A password is never part of an answer, not in part either.
#[test]
fn arguments_of_login_are_not_repeated() {
    for line in [
        &b"LOGIN me sec\"ret"[..],
        b"LOGIN sec%ret x",
        b"LOGIN me secret secret",
        b"AUTHENTICATE PLAIN sec!ret",
    ] {
        assert!(!reason(line).contains("sec"), "{}", line.escape_ascii());
    }
}
