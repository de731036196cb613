//! `{0}` and CRLF is the empty string, wherever a string may stand (RFC 3501 §4.3, RFC 9051 §4.3).

use super::*;

/// Commands with a `@` in every place where the grammar has an astring, a string or a mailbox.
const COMMANDS: &[&str] = &[
    "LOGIN @ @",
    "ID (@ @ @ NIL)",
    "SELECT @",
    "EXAMINE @ (CONDSTORE)",
    "CREATE @",
    "CREATE @ (USE (\\Sent))",
    "DELETE @",
    "RENAME @ @",
    "SUBSCRIBE @",
    "UNSUBSCRIBE @",
    "LIST @ @",
    "LIST () @ (@ @) RETURN (CHILDREN)",
    "LSUB @ @",
    "STATUS @ (MESSAGES)",
    "SETACL @ @ @",
    "DELETEACL @ @",
    "GETACL @",
    "LISTRIGHTS @ @",
    "MYRIGHTS @",
    "GETQUOTA @",
    "GETQUOTAROOT @",
    "SETQUOTA @ (STORAGE 1)",
    "GETMETADATA @ @",
    "GETMETADATA (DEPTH 1) @ (/private/comment @)",
    "SETMETADATA @ (@ NIL)",
    "SETMETADATA @ (/private/comment @)",
    "GENURLAUTH @ INTERNAL @ INTERNAL",
    "URLFETCH @ @",
    "RESETKEY @",
    "NOTIFY SET (mailboxes (@ @) (MailboxName))",
    "CANCELUPDATE @ @",
    "ESEARCH IN (subtree @ mailboxes (@ @)) RETURN (COUNT) SUBJECT @",
    "SEARCH CHARSET @ ALL",
    "SEARCH BCC @ CC @ FROM @ SUBJECT @ TO @ BODY @ TEXT @",
    "SEARCH HEADER @ @",
    "SEARCH OR SUBJECT @ NOT (HEADER List-Id @ FUZZY TEXT @) ALL",
    "UID SEARCH RETURN (SAVE) SUBJECT @",
    "SORT (DATE) @ SUBJECT @",
    "UID THREAD REFERENCES @ SUBJECT @",
    "FETCH 1 BODY.PEEK[HEADER.FIELDS (@ @)]",
    "UID FETCH 1 (BODY[1.HEADER.FIELDS.NOT (@)]<0.9> UID)",
    "COPY 1 @",
    "MOVE 1 @",
    "UID COPY 1 @",
    "UID MOVE 1 @",
    "APPEND @ {1+}\r\nx",
    "APPEND INBOX CATENATE (URL @ TEXT {1+}\r\nx URL @)",
    "REPLACE 1 @ {1+}\r\nx",
    "UID REPLACE 1 @ {1+}\r\nx",
];

fn limits() -> Limits {
    Limits { command_bytes: 1000, ..small() }
}

/// The command with an empty quoted string in every place, but `literal` in the `nth`.
fn command(template: &str, nth: usize, literal: &str) -> Vec<u8> {
    let mut parts = template.split('@');
    let mut out = format!("a {}", parts.next().unwrap());
    for (place, part) in parts.enumerate() {
        out += if place == nth { literal } else { "\"\"" };
        out += part;
    }
    format!("{out}\r\nb NOOP\r\n").into_bytes()
}

/// The events, without the server's continuation requests.
fn without_waiting(events: Vec<Event>) -> Vec<Event> {
    events.into_iter().filter(|event| *event != Event::NeedContinuation).collect()
}

#[test]
fn an_empty_literal_is_an_empty_string_in_every_command() {
    for template in COMMANDS {
        let places = template.matches('@').count();
        let quoted = events(limits(), &command(template, usize::MAX, ""), &[usize::MAX]);
        assert!(quoted.len() > 1 && !quoted.contains(&Event::NeedContinuation), "{template}");
        for nth in 0..places {
            for pieces in [&[usize::MAX][..], &[1]] {
                let waiting = events(limits(), &command(template, nth, "{0}\r\n"), pieces);
                let waits = waiting.iter().filter(|event| **event == Event::NeedContinuation).count();
                assert_eq!((waits, &without_waiting(waiting)), (1, &quoted), "{template}, {nth}");
                let at_once = events(limits(), &command(template, nth, "{0+}\r\n"), pieces);
                assert_eq!(at_once, quoted, "{template}, {nth}");
            }
        }
    }
}

/// RFC 5464 §5, RFC 3516 §7: the only places for a literal8.
#[test]
fn an_empty_literal8_stands_where_a_literal8_may() {
    let quoted = events(limits(), b"a SETMETADATA x (/private/comment \"\")\r\n", &[usize::MAX]);
    for (header, waits) in [("~{0}", true), ("~{0+}", false)] {
        let input = format!("a SETMETADATA x (/private/comment {header}\r\n)\r\n");
        let found = events(limits(), input.as_bytes(), &[1]);
        assert_eq!(found.contains(&Event::NeedContinuation), waits);
        assert_eq!(without_waiting(found), quoted);
    }
    check(limits(), b"a APPEND x ~{0}\r\n\r\n", &["a APPEND", "message", "~0", "end"]);
    check(limits(), b"a SEARCH TEXT ~{0}\r\nb SEARCH TEXT ~{0+}\r\n\r\n", &["a BAD", "b BAD"]);
}

#[test]
fn a_literal_where_none_may_be_is_not_asked_for() {
    for command in ["NOOP {0}", "CHECK{0}", "FETCH {0}", "FETCH 1 FLAGS {0}", "STORE 1 FLAGS {0}", "UID {0}"]
    {
        check(limits(), format!("a {command}\r\nb NOOP\r\n").as_bytes(), &["a BAD", "b NOOP"]);
    }
    // More digits than are looked for at a line's end: no literal, and named.
    check(limits(), format!("a LOGIN {{{:0>30}}}\r\n", 0).as_bytes(), &["a BAD"]);
}
