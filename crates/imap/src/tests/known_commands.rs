//! Commands as the RFCs and real clients write them, both ways; and lines that are no commands.

use sealpost_base::limits;

use super::round_trip::written;
use crate::parse::{Refused, command};
use crate::types::*;
use crate::write::Literals;

fn parsed(wire: &str) -> Command {
    match command(wire.as_bytes(), false) {
        Ok(command) => command,
        Err(refused) => panic!("{refused:?} for {wire:?}"),
    }
}

/// `a ` + each, and back to the same bytes.
#[test]
fn both_ways() {
    for line in [
        "CAPABILITY",
        "LOGIN smith sesame",
        "GETACL INBOX/Drafts",
        "SETACL INBOX/Drafts Chris +cda",
        "SETACL INBOX/Drafts \"\" -",
        "SETACL INBOX \"a b@x\" \"\"",
        "DELETEACL INBOX -Fred",
        "LISTRIGHTS ~/Mail/saved smith",
        "MYRIGHTS INBOX",
        "LIST \"\" \"%\" RETURN (MYRIGHTS)",
        "LOGIN \"joe smith\" \"a \\\"quoted\\\" \\\\ word\"",
        "LOGIN \"\" \"\"",
        "LOGIN smith {4+}\r\na\r\nb",
        "AUTHENTICATE PLAIN",
        "AUTHENTICATE PLAIN =",
        "AUTHENTICATE XOAUTH2 dXNlcj1zb21l",
        "STARTTLS",
        "UNAUTHENTICATE",
        "COMPRESS DEFLATE",
        "ID NIL",
        "ID (\"name\" \"Thunderbird\" \"version\" NIL)",
        "ENABLE CONDSTORE UTF8=ACCEPT",
        "SELECT INBOX",
        "EXAMINE \"a b\"",
        "SELECT INBOX (CONDSTORE)",
        "EXAMINE INBOX (QRESYNC (67890007 20050715194045000 41,43:211,214:541))",
        "SELECT INBOX (QRESYNC (67890007 90060115194045000 41:211,214:541) CONDSTORE)",
        "SELECT INBOX (QRESYNC (67890007 90060115205545359 (1:10 1:10)))",
        "SELECT INBOX (QRESYNC (67890007 90060115205545359 1:29997 (5000,7500,9000,9990:9999 15000,22500,27000,29970,29973,29976,29979,29982,29985,29988,29991,29994,29997)))",
        "UID FETCH 300:500 (FLAGS) (CHANGEDSINCE 12345 VANISHED)",
        "FETCH 1:* (FLAGS MODSEQ) (CHANGEDSINCE 12345)",
        "UID FETCH 25900:26600 (UID FLAGS) (PARTIAL -1:-30 CHANGEDSINCE 98305)",
        "STORE 6,4,8 (UNCHANGEDSINCE 320162338) +FLAGS.SILENT (\\Deleted)",
        "STORE 12 (UNCHANGEDSINCE 0) FLAGS ($MDNSent)",
        "SEARCH MODSEQ 620162338",
        "SEARCH MODSEQ \"/flags/\\\\Draft\" all 620162338",
        "SEARCH OR NOT MODSEQ \"/flags/$x\" shared 0 MODSEQ \"/flags/\\\\Seen\" priv 9223372036854775807",
        "STATUS blurdybloop (UIDNEXT HIGHESTMODSEQ)",
        "CREATE owatagusiam/",
        "CREATE MySent (USE (\\Sent))",
        "DELETE blurdybloop",
        "RENAME INBOX old-mail",
        "SUBSCRIBE #news.comp.mail.mime",
        "UNSUBSCRIBE &Jjo-!",
        "LIST \"\" \"\"",
        "LIST ~/Mail/ \"%\"",
        "LIST (SPECIAL-USE) \"\" \"*\"",
        "LIST () \"\" (\"INBOX\" \"a/%\") RETURN (SPECIAL-USE CHILDREN)",
        "LIST (SUBSCRIBED RECURSIVEMATCH REMOTE) \"\" \"%\" RETURN (SUBSCRIBED)",
        "LIST \"\" \"%\" RETURN (STATUS (MESSAGES UNSEEN) METADATA (/shared/vendor/cmu/cyrus-imapd/color))",
        "STATUS INBOX (MESSAGES DELETED DELETED-STORAGE)",
        "GETMETADATA \"\" (/shared/comment \"/private/a \\\"(b\")",
        "GETMETADATA (MAXSIZE 1024) INBOX (/shared/comment /private/comment)",
        "GETMETADATA (MAXSIZE 1024 DEPTH infinity) INBOX (/private)",
        "GETMETADATA (DEPTH 1) INBOX (/private/filters/values)",
        "SETMETADATA INBOX (/private/comment \"My new comment\" /shared/comment \"This one is for you!\")",
        "SETMETADATA \"\" (/private/vendor/a/b NIL)",
        "SETMETADATA INBOX (/private/comment ~{5+}\r\na\0b\r\n)",
        "GETQUOTA \"\"",
        "GETQUOTA !partition/sda4",
        "GETQUOTAROOT INBOX",
        "SETQUOTA #user/alice (STORAGE 510 X-NEW 9223372036854775807)",
        "SETQUOTA \"\" ()",
        "LSUB #news. \"comp.*\"",
        "NAMESPACE",
        "GETJMAPACCESS",
        "STATUS blurdybloop (UIDNEXT MESSAGES RECENT UNSEEN UIDVALIDITY)",
        "STATUS x (DELETED SIZE MAILBOXID APPENDLIMIT)",
        "IDLE",
        "CHECK",
        "CLOSE",
        "UNSELECT",
        "EXPUNGE",
        "UID EXPUNGE 3000:3002",
        "SEARCH FLAGGED SINCE 1-Feb-1994 NOT FROM Smith",
        "SEARCH CHARSET UTF-8 TEXT {6+}\r\n\u{43c}\u{430}\u{439}",
        "UID SEARCH OR (UNSEEN OLD) UID 1:*,7 KEYWORD $Junk UNKEYWORD a LARGER 5 SMALLER 6",
        "SEARCH 2:4 HEADER Message-ID \"\" SENTON 29-Feb-2024 BEFORE 1-Jan-2000 NEW RECENT ALL",
        "SEARCH RETURN (MIN COUNT) FLAGGED SINCE 1-Feb-1994 NOT FROM Smith",
        "SEARCH RETURN () FLAGGED",
        "UID SEARCH RETURN (SAVE MAX ALL) CHARSET UTF-8 UID $",
        "SEARCH OR $ 1,3000:3021,$ SMALLER 4096",
        "UID SEARCH RETURN (PARTIAL -1:-100) UNDELETED UNKEYWORD $Junk",
        "UID SEARCH RETURN (PARTIAL 500:400 UPDATE CONTEXT) ALL",
        "SEARCH UNSEEN YOUNGER 259200 OLDER 1",
        "SEARCH RETURN (RELEVANCY ALL) FUZZY (SUBJECT \"IMAP break\") FUZZY TEXT Helo",
        "SEARCH UID 300:900 FILTER on-the-road SINCE 3-Dec-2002",
        "ESEARCH UNSEEN",
        "ESEARCH IN (mailboxes folder1 subtree folder2) UNSEEN",
        "ESEARCH IN (mailboxes (a \"b c\") subtree-one x personal) RETURN (COUNT) SUBJECT chad",
        "ESEARCH IN (selected inboxes subscribed) RETURN (SAVE) CHARSET UTF-8 ALL",
        "SORT (SUBJECT REVERSE DATE) UTF-8 ALL",
        "UID SORT RETURN (PARTIAL 1:10) (RELEVANCY) UTF-8 FUZZY TEXT World",
        "SORT (ARRIVAL CC DATE DISPLAYFROM DISPLAYTO FROM SIZE SUBJECT TO) US-ASCII SINCE 1-Feb-1994",
        "THREAD ORDEREDSUBJECT UTF-8 SINCE 5-Mar-2000",
        "UID THREAD REFERENCES US-ASCII TEXT gewp",
        "CANCELUPDATE \"B01\" \"B02\"",
        "STORE $ +FLAGS.SILENT (\\Deleted)",
        "UID EXPUNGE $",
        "FETCH 2:4 (FLAGS BODY[HEADER.FIELDS (DATE FROM)])",
        "UID FETCH 1:* (UID RFC822.SIZE INTERNALDATE ENVELOPE BODY BODYSTRUCTURE RFC822 RFC822.HEADER RFC822.TEXT)",
        "SEARCH EMAILID M6d99ac3275bb4e THREADID T64b478a75b7ea9",
        "SEARCH SAVEDATESUPPORTED SAVEDON 28-Dec-2014 SAVEDSINCE 1-Jan-2015 NOT SAVEDBEFORE 2-Jan-2015",
        "FETCH 1 (EMAILID THREADID SAVEDATE)",
        "FETCH 1 (RFC822.SIZE PREVIEW)",
        "FETCH 1:4 (ENVELOPE PREVIEW (LAZY) UID)",
        "FETCH 4294967295 (BODY.PEEK[4.2.1.MIME]<0.2048> BODY[] BODY[TEXT] BODY[1] BODY[2.HEADER.FIELDS.NOT (X \"a b\")])",
        "FETCH 1 (BINARY[1.2]<0.9> BINARY.PEEK[3]<5> BINARY[] BINARY.SIZE[1])",
        "RESETKEY",
        "RESETKEY INBOX",
        "RESETKEY INBOX XSAMPLE INTERNAL",
        "GENURLAUTH imap://joe@example.com/INBOX/;uid=20/;section=1.2;urlauth=submit+fred INTERNAL",
        "URLFETCH imap://joe@example.com/x/;uid=20;urlauth=anonymous:internal:91354a473744909de610943775f92038 y",
        "STORE 2:4 +FLAGS (\\Deleted)",
        "STORE * -FLAGS.SILENT ($Forwarded \\Draft)",
        "UID STORE 9 FLAGS ()",
        "COPY 2:4 MEETING",
        "UID COPY 4:2,* \"a b\"",
        "MOVE 1 Trash",
        "UID MOVE 42:69 foo",
        "LOGOUT",
        "NOOP",
    ] {
        let line = format!("a {line}\r\n");
        let back = written(&parsed(&line), Literals::NonSynchronizing);
        assert_eq!(String::from_utf8_lossy(&back), line);
    }
}

/// Other spellings of the same command.
#[test]
fn same_meaning() {
    for (line, same) in [
        ("select inbox", "SELECT INBOX"),
        ("SELECT \"Inbox\"", "SELECT INBOX"),
        ("SELECT inbox/x", "SELECT \"INBOX/x\""),
        ("SELECT {5+}\r\ninbox", "SELECT INBOX"),
        ("SELECT \"Entw\u{fc}rfe\"", "SELECT Entw&APw-rfe"),
        ("uid fetch 1 full", "UID FETCH 1 (FLAGS INTERNALDATE RFC822.SIZE ENVELOPE BODY)"),
        ("FETCH 1 fast", "FETCH 1 (FLAGS INTERNALDATE RFC822.SIZE)"),
        ("FETCH 1 ALL", "FETCH 1 (FLAGS INTERNALDATE RFC822.SIZE ENVELOPE)"),
        ("FETCH 1 preview", "FETCH 1 (PREVIEW)"),
        ("FETCH 1 preview (lazy lazy)", "FETCH 1 (PREVIEW (LAZY))"),
        ("STATUS x (mailboxid size)", "STATUS x (MAILBOXID SIZE)"),
        ("FETCH 1 body.peek[text]", "FETCH 1 (BODY.PEEK[TEXT])"),
        ("FETCH 1 (bodystructure) ", "FETCH 1 (BODYSTRUCTURE)"),
        ("STORE 1 +flags.silent \\seen \\DELETED Work", "STORE 1 +FLAGS.SILENT (\\Seen \\Deleted Work)"),
        ("SEARCH since \"1-feb-1994\" on 01-Jan-2000", "SEARCH SINCE 1-Feb-1994 ON 1-Jan-2000"),
        ("SEARCH NOT RECENT UNSEEN", "SEARCH NOT (RECENT) UNSEEN"),
        ("SEARCH FROM \"nil\"", "SEARCH FROM nil"),
        (
            "GETMETADATA \"INBOX\" (DEPTH 1) (/private/filters/values)",
            "GETMETADATA (DEPTH 1) INBOX (/private/filters/values)",
        ),
        (
            "getmetadata (depth 0 maxsize 5) INBOX /Private/Comment /shared/comment",
            "GETMETADATA (MAXSIZE 5) INBOX (/private/comment /shared/comment)",
        ),
        ("LIST \"\" *", "LIST \"\" \"*\""),
        ("LIST \"\" {1+}\r\n%", "LIST \"\" \"%\""),
        ("STATUS x (messages)", "STATUS x (MESSAGES)"),
        ("ID nil", "ID NIL"),
        ("AUTHENTICATE plain ", "AUTHENTICATE PLAIN"),
        ("search return (all min) fuzzy all", "SEARCH RETURN (ALL MIN) FUZZY ALL"),
        ("sort (reverse subject) \"utf-8\" all", "SORT (REVERSE SUBJECT) utf-8 ALL"),
        ("thread references utf-8 all", "THREAD REFERENCES utf-8 ALL"),
        ("esearch in (MAILBOXES (x)) all", "ESEARCH IN (mailboxes x) ALL"),
        ("cancelupdate B01", "CANCELUPDATE \"B01\""),
        ("CREATE x (use (\\sent \\x))", "CREATE x (USE (\\Sent \\X))"),
    ] {
        let (mut found, mut expected) = (parsed(&format!("a {line}\r\n")), parsed(&format!("a {same}\n")));
        // `NOT (RECENT)` and `NOT RECENT` differ by a list of one.
        for command in [&mut found, &mut expected] {
            if let CommandBody::Search(search) = &mut command.body {
                for key in &mut search.keys {
                    if let SearchKey::Not(inner) = key
                        && let SearchKey::And(keys) = &mut **inner
                        && keys.len() == 1
                    {
                        let only = keys.remove(0);
                        **inner = only;
                    }
                }
            }
        }
        assert_eq!(found, expected, "{line}");
    }
}

#[test]
fn refused() {
    let deep = |open: &str, n: usize| format!("SEARCH {}ALL", open.repeat(n));
    let many = |what: &str, n: usize| vec![what; n].join(" ");
    let cases = [
        "",
        "NOOP x",
        "LOGIN x",
        "LOGIN x y z",
        "LOGIN  x y",
        "LOGIN x \"y",
        "LOGIN x \"a\\b\"",
        "LOGIN x \"a\0b\"",
        "LOGIN x \"a\rb\"",
        "LOGIN x (y)",
        "LOGIN x {1+}\r\n\0",
        "LOGIN x {1+} \r\n",
        "LOGIN x {99999999999999999999+}\r\n",
        "LOGIN x ~{1+}\r\ny",
        "LOGIN x {}\r\n",
        "LOGIN x {-1}\r\n",
        "AUTHENTICATE",
        "AUTHENTICATE PLAIN %",
        "AUTHENTICATE PLAIN = =",
        "ENABLE",
        "SELECT",
        "SELECT a b",
        "SELECT a*",
        "SELECT \u{e9}",
        "SELECT a ()",
        "SELECT a (CONDSTORE CONDSTORE)",
        "SELECT a (FOO)",
        "SELECT a (CONDSTORE",
        "SELECT a (QRESYNC)",
        "SELECT a (QRESYNC ())",
        "SELECT a (QRESYNC (1))",
        "SELECT a (QRESYNC (0 1))",
        "SELECT a (QRESYNC (1 0))",
        "SELECT a (QRESYNC (1 9223372036854775808))",
        "SELECT a (QRESYNC (1 1 *))",
        "SELECT a (QRESYNC (1 1 1:*))",
        "SELECT a (QRESYNC (1 1 1 1))",
        "SELECT a (QRESYNC (1 1 1 (1)))",
        "SELECT a (QRESYNC (1 1 (1 1) 1))",
        "SELECT a (QRESYNC (1 1 (1:* 1)))",
        "FETCH 1 FLAGS ()",
        "FETCH 1 FLAGS (CHANGEDSINCE)",
        "FETCH 1 FLAGS (CHANGEDSINCE 0)",
        "FETCH 1 FLAGS (CHANGEDSINCE 1 CHANGEDSINCE 2)",
        "FETCH 1 FLAGS CHANGEDSINCE 1",
        "FETCH 1 FLAGS (FOO)",
        "FETCH 1 FLAGS (PARTIAL 1)",
        "FETCH 1 FLAGS (PARTIAL 1:2 PARTIAL 1:2)",
        "SELECT a (QRESYNC (1 1 $))",
        "STORE 1 () FLAGS a",
        "STORE 1 (UNCHANGEDSINCE) FLAGS a",
        "STORE 1 (UNCHANGEDSINCE -1) FLAGS a",
        "STORE 1 (UNCHANGEDSINCE 1)",
        "STORE 1 (UNCHANGEDSINCE 1 UNCHANGEDSINCE 1) FLAGS a",
        "SEARCH MODSEQ",
        "SEARCH MODSEQ x",
        "SEARCH MODSEQ \"/flags/a\" 5",
        "SEARCH MODSEQ \"/flags/a\" none 5",
        "SEARCH MODSEQ \"/flags/\\\\Recent\" all 5",
        "SEARCH MODSEQ \"/flags/\" all 5",
        "SEARCH MODSEQ \"/comment\" all 5",
        "CREATE x (COLOR (\\Red))",
        "RENAME a",
        "STATUS x",
        "STATUS x ()",
        "STATUS x (SIZES)",
        "STATUS x MESSAGES",
        "ID",
        "ID (\"name\")",
        "ID (\"name\" x)",
        "ID (name \"x\")",
        "LIST \"\"",
        "LIST (REMOTE2) \"\" *",
        "LIST (RECURSIVEMATCH) \"\" *",
        "LIST (REMOTE RECURSIVEMATCH) \"\" *",
        "LIST (SPECIAL-USE RECURSIVEMATCH) \"\" *",
        "LIST \"\" * RETURN (STATUS)",
        "LIST \"\" * RETURN (STATUS (COLOR))",
        "LIST \"\" * RETURN (METADATA ())",
        "GETMETADATA INBOX",
        "GETMETADATA INBOX ()",
        "GETMETADATA INBOX /private/*",
        "GETMETADATA INBOX /private//a",
        "GETMETADATA INBOX /private/a/",
        "GETMETADATA INBOX /public/a",
        "GETMETADATA (DEPTH 2) INBOX /private/a",
        "GETMETADATA (COLOR 2) INBOX /private/a",
        "SETMETADATA INBOX ()",
        "SETMETADATA INBOX (/private/a)",
        "SETMETADATA INBOX (/private/a b)",
        "SETMETADATA INBOX (/private \"b\")",
        "SETMETADATA INBOX (/shared/vendor/a \"b\")",
        "SETQUOTA \"\" (STORAGE)",
        "SETQUOTA \"\" STORAGE 5",
        "SETQUOTA \"\" (STORAGE 9223372036854775808)",
        "LIST \"\" * RETURN (COLOR)",
        "LIST \"\" ()",
        "UID NOOP",
        "UID",
        "SEARCH",
        "SEARCH FOO",
        "SEARCH ()",
        "SEARCH (ALL",
        "SEARCH ALL)",
        "SEARCH OR ALL",
        "SEARCH NOT",
        "SEARCH KEYWORD \\Seen",
        "SEARCH RETURN",
        "SEARCH RETURN (MIN)",
        "SEARCH RETURN (MIN ALL",
        "SEARCH RETURN (FOO) ALL",
        "SEARCH RETURN (PARTIAL) ALL",
        "SEARCH RETURN (PARTIAL 0:1) ALL",
        "SEARCH RETURN (PARTIAL 1:*) ALL",
        "SEARCH RETURN (PARTIAL 1) ALL",
        "SEARCH RETURN (PARTIAL 1:-1) ALL",
        "SEARCH RETURN (PARTIAL -1:1) ALL",
        "SEARCH RETURN (PARTIAL 1:2 PARTIAL 3:4) ALL",
        "SEARCH RETURN (PARTIAL 1:2 ALL) ALL",
        "SEARCH $,1",
        "SEARCH YOUNGER 0",
        "SEARCH OLDER",
        "SEARCH OLDER 4294967296",
        "SEARCH FUZZY",
        "SEARCH FILTER",
        "SEARCH FILTER a/b",
        "ESEARCH",
        "ESEARCH IN ALL",
        "ESEARCH IN () ALL",
        "ESEARCH IN (selected-delayed) ALL",
        "ESEARCH IN (mailboxes) ALL",
        "ESEARCH IN (mailboxes ()) ALL",
        "ESEARCH IN (subtree x",
        "SORT ALL",
        "SORT () UTF-8 ALL",
        "SORT (COLOR) UTF-8 ALL",
        "SORT (REVERSE) UTF-8 ALL",
        "SORT (DATE) UTF-8",
        "SORT (DATE)",
        "THREAD",
        "THREAD FOO UTF-8 ALL",
        "THREAD REFERENCES ALL",
        "THREAD REFERENCES UTF-8",
        "CANCELUPDATE",
        "CANCELUPDATE (a)",
        "SEARCH SINCE 30-Feb-2024",
        "SEARCH SINCE 1-Foo-2024",
        "SEARCH SINCE 1-Feb-24",
        "SEARCH SINCE \"1-Feb-2024",
        "SEARCH LARGER 9223372036854775808",
        "SEARCH LARGER x",
        "SEARCH CHARSET UTF-8",
        "SEARCH 0",
        "SEARCH 1:",
        "SEARCH 1,",
        "SEARCH 4294967296",
        "SEARCH 99999999999999999999999",
        "FETCH 1",
        "FETCH 1 ()",
        "FETCH 1 (ALL)",
        "FETCH 1 FOO",
        "FETCH x FLAGS",
        "FETCH -1 FLAGS",
        "FETCH 1 FLAGS UID",
        "FETCH 1 (PREVIEW ())",
        "FETCH 1 (PREVIEW (EAGER))",
        "FETCH 1 (PREVIEW (LAZY)",
        "SEARCH EMAILID",
        "SEARCH EMAILID (a)",
        "SEARCH THREADID a.b",
        "SEARCH SAVEDON",
        "SEARCH SAVEDATESUPPORTED x",
        "FETCH 1 BODY[",
        "FETCH 1 BODY[MIME]",
        "FETCH 1 BODY[0]",
        "FETCH 1 BODY[1.]",
        "FETCH 1 BODY[1.FOO]",
        "FETCH 1 BODY[HEADER.FIELDS]",
        "FETCH 1 BODY[HEADER.FIELDS ()]",
        "FETCH 1 BODY[HEADER.FIELDS X]",
        "FETCH 1 BODY[]<0>",
        "FETCH 1 BODY[]<0.0>",
        "FETCH 1 BODY[]<0.1",
        "FETCH 1 BODY[]<99999999999999999999.1>",
        "FETCH 1 BODY.PEEK",
        "GENURLAUTH",
        "GENURLAUTH x",
        "URLFETCH",
        &format!("URLFETCH {}", many("x", limits::IMAP_URLS + 1)),
        &format!("RESETKEY x {}", many("y", limits::IMAP_URLS + 1)),
        "FETCH 1 BINARY",
        "FETCH 1 BINARY.SIZE[1]<0.1>",
        "FETCH 1 BINARY[1]<0.0>",
        "FETCH 1 BINARY[1.FOO]",
        "FETCH 1 UID[]",
        "STORE 1 FLAGS",
        "STORE 1 LABELS (x)",
        "STORE 1 +FLAGS (\\*)",
        "STORE 1 +FLAGS (a  b)",
        "STORE 1 +FLAGS (a",
        "STORE 1 + FLAGS a",
        "COPY 1",
        "APPEND x",
        "APPEND x (a b)",
        &deep("(", limits::IMAP_NESTING + 1),
        &deep("NOT ", limits::IMAP_NESTING + 1),
        &deep("(", 100_000),
        &format!("SEARCH {}", many("ALL", limits::IMAP_SEARCH_KEYS + 1)),
        &format!("FETCH 1 ({})", many("UID", limits::IMAP_ITEMS + 1)),
        &format!("FETCH 1 BODY[HEADER.FIELDS ({})]", many("X", limits::IMAP_ITEMS + 1)),
        &format!("FETCH 1 BODY[{}1]", "1.".repeat(limits::IMAP_NESTING)),
        &format!("FETCH {}1 UID", "1,".repeat(limits::IMAP_SEQUENCE_RANGES)),
        &format!("SEARCH RETURN ({}) ALL", many("MIN", limits::IMAP_ITEMS + 1)),
        &format!("SORT ({}) UTF-8 ALL", many("DATE", limits::IMAP_SORT_CRITERIA + 1)),
        &format!("ESEARCH IN (mailboxes ({})) ALL", many("x", limits::IMAP_ITEMS)),
        &format!("CANCELUPDATE {}", many("x", limits::IMAP_ITEMS + 1)),
        &deep("FUZZY ", limits::IMAP_NESTING + 1),
        &format!("STATUS x ({})", many("UNSEEN", limits::IMAP_ITEMS + 1)),
        &format!("LIST \"\" ({})", many("x", limits::IMAP_LIST_PATTERNS + 1)),
        &format!("ID ({})", many("\"a\" NIL", limits::IMAP_ID_FIELDS + 1)),
        &format!("STORE 1 FLAGS ({})", "x".repeat(limits::KEYWORD_BYTES + 1)),
    ];
    for line in cases {
        let line = format!("a {line}\r\n");
        match command(line.as_bytes(), false) {
            Err(Refused::Bad { tag: Some(tag), .. }) => assert_eq!(tag.as_str(), "a"),
            Err(Refused::Incomplete) if line.contains("+}") => {}
            other => panic!("{other:?} for {line:?}"),
        }
    }
}

#[test]
fn at_the_limits() {
    for line in [
        format!("SEARCH {}ALL{}", "(".repeat(limits::IMAP_NESTING), ")".repeat(limits::IMAP_NESTING)),
        format!("SEARCH {}", vec!["ALL"; limits::IMAP_SEARCH_KEYS].join(" ")),
        format!("FETCH {}1 UID", "1,".repeat(limits::IMAP_SEQUENCE_RANGES - 1)),
        format!("FETCH 1 ({})", vec!["UID"; limits::IMAP_ITEMS].join(" ")),
        format!("FETCH 1 BODY[{}1]", "1.".repeat(limits::IMAP_NESTING - 1)),
        format!("{} NOOP", "x".repeat(limits::IMAP_TAG_BYTES - 2)),
    ] {
        assert!(
            command(format!("a {line}\r\n").as_bytes(), false).is_ok() || line.ends_with("NOOP"),
            "{line}"
        );
    }
    let tag = "x".repeat(limits::IMAP_TAG_BYTES);
    assert!(command(format!("{tag} NOOP\r\n").as_bytes(), false).is_ok());
    assert_eq!(
        command(format!("{tag}x NOOP\r\n").as_bytes(), false),
        Err(Refused::Bad { tag: None, reason: "a tag is missing".into() })
    );
}

#[test]
fn names_that_are_no_names() {
    for (line, invalid) in [
        ("SELECT A&B", InvalidMailbox::Encoding),
        ("SELECT \"a\tb\"", InvalidMailbox::Control),
        ("SELECT \"\u{85}\"", InvalidMailbox::Control),
        (&*format!("SELECT {}", "x".repeat(limits::MAILBOX_NAME_BYTES + 1)), InvalidMailbox::TooLong),
        ("LIST \"\" \"a\tb\"", InvalidMailbox::Control),
    ] {
        let tag = Tag::new("a").unwrap();
        assert_eq!(command(format!("a {line}\r\n").as_bytes(), false), Err(Refused::Name { tag, invalid }));
    }
    assert!(command(b"a SELECT A&B\r\n", true).is_ok());
    // A pattern need not be one.
    assert!(command(b"a LIST \"\" &\r\n", false).is_ok());
}

#[test]
fn notify_is_read_as_the_rfc_writes_it() {
    let read = |line: &str| command(format!("a {line}\r\n").as_bytes(), false).map(|command| command.body);
    // RFC 5465 §3.1, §6
    for line in [
        "NOTIFY NONE",
        "notify set status (selected MessageNew (uid body.peek[header.fields (from to subject)]) MessageExpunge) (subtree Lists MessageNew)",
        "notify set (mailboxes INBOX (Messagenew messageExpunge)) (personal (SubscriptionChange))",
        "notify set (selected (Messagenew (uid flags) messageExpunge)) (personal (MessageNew FlagChange MessageExpunge))",
        "NOTIFY SET (selected-delayed NONE) (subtree (a b) (MailboxName Weather))",
    ] {
        // The RFC's own first example leaves out the list's parentheses and an event that belongs to another.
        let parsed = read(line);
        assert_eq!(parsed.is_ok(), !line.contains("Lists MessageNew"), "{line}: {parsed:?}");
    }
    for line in [
        "NOTIFY",
        "NOTIFY SOME",
        "NOTIFY SET",
        "NOTIFY SET (selected (MessageNew))",
        "NOTIFY SET (selected (MessageExpunge))",
        "NOTIFY SET (personal (FlagChange))",
        "NOTIFY SET (personal (AnnotationChange))",
        "NOTIFY SET (selected (MailboxName))",
        "NOTIFY SET (selected NONE) (selected-delayed NONE)",
        "NOTIFY SET (personal (MessageNew (UID) MessageExpunge))",
        "NOTIFY SET (subtree-one a (MailboxName))",
        "NOTIFY SET (personal ())",
    ] {
        assert!(read(line).is_err(), "{line}");
    }
}
