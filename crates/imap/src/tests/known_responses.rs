//! Responses as the RFCs and real servers write them, both ways.

use crate::client::{BodyName, Event, FetchData, Limits, ResponseDecoder, Value};
use crate::parse::response;
use crate::types::*;
use crate::write::Writer;

/// Read, and written as the same bytes.
#[test]
fn both_ways() {
    for line in [
        "* OK [CAPABILITY IMAP4rev1 LITERAL+] hello",
        "* OK [ALERT] System shutdown in 10 minutes",
        "* PREAUTH IMAP4rev1 server logged in as Smith",
        "* BYE Autologout; idle for too long",
        "a1 NO [TRYCREATE] no such mailbox",
        "a1 BAD [PARSE] x",
        "* NO [BADCHARSET (UTF-8 \"US ASCII\")] x",
        "* NO [BADCHARSET] x",
        "* OK [PERMANENTFLAGS (\\Deleted \\Seen $a \\*)] Limited",
        "a OK [READ-WRITE] SELECT completed",
        "* OK [UIDVALIDITY 3857529045] UIDs valid",
        "* OK [UIDNEXT 4392] Predicted next UID",
        "* OK [UNSEEN 12] Message 12 is first unseen",
        "a OK [APPENDUID 38505 3955] APPEND completed",
        "a OK [COPYUID 38505 304,319:320 3956:3958] Done",
        "a NO [AUTHENTICATIONFAILED] Authentication failed",
        "a NO [OVERQUOTA] x",
        "a NO [INUSE] x",
        "a NO [LIMIT] x",
        "a NO [X-SPECIAL some text (even parens)] x",
        "* OK [HIGHESTMODSEQ 715194045007] x",
        "+ idling",
        "* ACL INBOX Fred rwipslxetad -Fred wetd $team w",
        "* ACL a",
        "* LISTRIGHTS ~/Mail/saved smith la r swicdkxte",
        "* LISTRIGHTS archive/imap anyone \"\" l r s",
        "* MYRIGHTS INBOX rwiptsldaex",
        "* MYRIGHTS \"Other Users/a@b/c\" \"\"",
        "* CAPABILITY IMAP4rev1 STARTTLS AUTH=PLAIN",
        "* LIST (\\Noselect) \"/\" foo",
        "* LIST (\\HasNoChildren \\Sent) NIL \"&AMk-\"",
        "* LIST (\\Subscribed \\NonExistent) \"/\" Fruit/Peach",
        "* LIST () \"/\" Foo (\"CHILDINFO\" (\"SUBSCRIBED\"))",
        "* METADATA \"\" (/shared/comment \"Shared comment\")",
        "* METADATA INBOX (/private/comment NIL /shared/comment \"\")",
        "* METADATA \"\" /shared/comment",
        "* METADATA INBOX /shared/comment /private/comment",
        "a OK [METADATA LONGENTRIES 2199] x",
        "a NO [METADATA MAXSIZE 1024] x",
        "a NO [METADATA TOOMANY] x",
        "a NO [METADATA NOPRIVATE] x",
        "* QUOTA !partition/sda4 (STORAGE 104 10923847)",
        "* QUOTA \"\" (STORAGE 10 512 MESSAGE 42 1000)",
        "* QUOTA \"\" ()",
        "* QUOTAROOT INBOX #user/alice !partition/sda4",
        "* QUOTAROOT comp.mail.mime",
        "* LIST () \"/\" INBOX (\"OLDNAME\" (\"inbox\"))",
        "* LSUB () \".\" #news.comp.mail.misc",
        "* STATUS blurdybloop (MESSAGES 231 UIDNEXT 44292)",
        "* STATUS foo (MAILBOXID (F2212ea87-6097-4256-9d51-71338625) SIZE 9223372036854775807)",
        "* STATUS INBOX (APPENDLIMIT 257890 DELETED 0)",
        "* STATUS INBOX (APPENDLIMIT NIL)",
        "3 OK [MAILBOXID (F2212ea87-6097-4256-9d51-71338625)] Completed",
        "* SEARCH 2 84 882",
        "* SEARCH",
        "* ESEARCH (TAG \"A282\") MIN 2 COUNT 3",
        "* ESEARCH (TAG \"A283\") ALL 2,10:11",
        "* ESEARCH (TAG \"a4\") MIN 2 COUNT 10 MODSEQ 917162500",
        "* ESEARCH",
        "* ESEARCH UID COUNT 5 ALL 4:19,21,28",
        "* ESEARCH (TAG \"A04\") UID PARTIAL (24000:24500 NIL)",
        "* ESEARCH (TAG \"A01\") UID PARTIAL (-1:-100 4:7,9)",
        "* ESEARCH (TAG \"B1\") ALL 1,5,10 RELEVANCY (4 99 42)",
        "* ESEARCH (TAG \"C01\") UID ADDTO (1 2733) ADDTO (1 2731:2732)",
        "* ESEARCH (TAG \"B01\") UID REMOVEFROM (0 32768 4 7:8)",
        "* ESEARCH (TAG \"tag1\" MAILBOX folder2/banana UIDVALIDITY 503) UID ALL 3002,4004",
        "* SORT 5 3 4 1 2",
        "* SORT",
        "B283 NO [NOTSAVED] too many",
        "a NO [UNDEFINED-FILTER on-the-road] x",
        "* NO [NOUPDATE \"B02\"] Too many contexts",
        "* FLAGS (\\Answered \\Seen work)",
        "* SEARCH 2 5 6 7 (MODSEQ 917162500)",
        "* SEARCH (MODSEQ 1)",
        "* VANISHED 300:310,405,411",
        "* VANISHED (EARLIER) 41,43:116",
        "d105 OK [MODIFIED 7,9] Conditional STORE failed",
        "* OK [NOMODSEQ] Sorry, this mailbox format doesn't support modsequences",
        "a001 BAD [UIDREQUIRED] Message numbers are not allowed once UIDONLY is enabled",
        "* 18 EXISTS",
        "* 0 RECENT",
        "* 44 EXPUNGE",
        "* ENABLED CONDSTORE",
        "* NAMESPACE ((\"\" \"/\")) ((\"~\" \"/\")) NIL",
        "* JMAPACCESS \"https://example.com/.well-known/jmap\"",
        "* ID NIL",
        "* ID (\"name\" \"Sealpost\" \"os\" NIL)",
        "* XUNKNOWN (some \"thing\") 12",
    ] {
        let wire = format!("{line}\r\n");
        let parsed = response(wire.as_bytes(), false).unwrap();
        if line.starts_with("* XUN") {
            assert!(matches!(parsed, Response::Other(_)));
        } else {
            assert!(!matches!(parsed, Response::Other(_)), "{line}");
        }
        let mut writer = Writer::new();
        writer.response(&parsed);
        let back = String::from_utf8_lossy(writer.as_bytes()).into_owned();
        assert_eq!(
            back.to_lowercase().replace("\"&amk-\"", "&amk-"),
            wire.to_lowercase().replace("\"&amk-\"", "&amk-")
        );
    }
}

#[test]
fn deviations_of_servers_are_read() {
    let parse = |line: &str| response(line.as_bytes(), false).unwrap();
    assert_eq!(parse("* SEARCH 1 2 \r\n"), Response::Search { numbers: vec![1, 2], modseq: None });
    assert_eq!(parse("+\r\n"), Response::Continue(String::new()));
    assert_eq!(
        parse("* LIST () \"/\" A&B\r\n"),
        Response::ListUndecodable { attributes: vec![], delimiter: Some('/'), wire: AString::from("A&B") }
    );
    // UTF-8 that was not enabled is no modified UTF-7, either: it has to be sent back as it came.
    assert_eq!(
        parse("* LIST () \"/\" \"Entw\u{fc}rfe\"\r\n"),
        Response::ListUndecodable {
            attributes: vec![],
            delimiter: Some('/'),
            wire: AString::new("Entw\u{fc}rfe".as_bytes()).unwrap(),
        }
    );
    assert!(matches!(parse("* LIST () \"/\" a (CHILDINFO (\"SUBSCRIBED\"))\r\n"), Response::List(_)));
    let Response::MailboxStatus { values, .. } = parse("* STATUS a (HIGHESTMODSEQ 7 MESSAGES 1 X (a b))\r\n")
    else {
        panic!("no STATUS")
    };
    assert_eq!(
        values,
        [
            StatusValue { item: StatusItem::HighestModSeq, value: StatusData::Number(7) },
            StatusValue { item: StatusItem::Messages, value: StatusData::Number(1) },
        ]
    );
    for id in [&b"(\xe3e\xafU9V)"[..], b"()", b"(\0 \"{3})", b"(((a b)"] {
        let line = [b"* STATUS a (MESSAGES 1 MAILBOXID ", id, b" HIGHESTMODSEQ 7)\r\n"].concat();
        let Response::MailboxStatus { values, .. } = response(&line, false).unwrap() else {
            panic!("{id:?}")
        };
        let items: Vec<_> = values.iter().map(|value| value.item).collect();
        assert_eq!(items, [StatusItem::Messages, StatusItem::HighestModSeq], "{id:?}");
    }
    assert!(matches!(parse("a OK\r\n"), Response::Status { text, .. } if text.is_empty()));
    assert!(
        matches!(parse("a OK [unclosed\r\n"), Response::Status { code: None, text, .. } if text == "[unclosed")
    );
    assert!(matches!(parse("* 5 WHAT\r\n"), Response::Other(_)));
    assert!(response(b"hello\r\n", false).is_err());
    assert!(response(b"\r\n", false).is_err());
}

/// Values that cannot be written must not inject anything else.
#[test]
fn hostile_values_are_written_harmless() {
    let mut w = Writer::new();
    w.status(None, Status::No, None, "x\r\na1 OK fine\0\u{e9}");
    assert_eq!(w.take(), "* NO x  a1 OK fine??\r\n");
    w.status(None, Status::Ok, Some(&Code::Other(Atom::new("X").unwrap(), Some("a] b\r\n".into()))), "");
    assert_eq!(w.take(), "* OK [X a? b  ] .\r\n");
    w.status(None, Status::Ok, None, "[ALERT] x");
    assert_eq!(w.take(), "* OK (ALERT] x\r\n");
    w.string("a\r\nb");
    assert_eq!(w.take(), "{4}\r\na\r\nb");
    w.string("a\0b\"\\");
    assert_eq!(w.take(), "\"ab\\\"\\\\\"");
    w.string("\u{e9}");
    assert_eq!(w.take(), "{2}\r\n\u{e9}");
    w.set_utf8_text(true);
    w.status(None, Status::No, None, "caf\u{e9}\u{85}\r\n");
    assert_eq!(w.take(), "* NO caf\u{e9}?  \r\n");
    w.set_utf8(true);
    w.string("\u{e9}");
    assert_eq!(w.take(), "\"\u{e9}\"");
    w.string(b"\xff");
    assert_eq!(&w.take()[..], b"{1}\r\n\xff");
    w.astring("nil").space().astring("").space().astring("a]").space().astring("a%");
    assert_eq!(w.take(), "\"nil\" \"\" a] \"a%\"");
}

#[test]
fn fetch() {
    let limits = Limits { inline_bytes: 10, response_bytes: 1000 };
    let mut decoder = ResponseDecoder::new(limits);
    decoder.feed(
        b"* 12 FETCH (FLAGS (\\Seen) UID 7 INTERNALDATE \"17-Jul-1996 02:44:25 -0700\" ENVELOPE (NIL {2}\r\nab ((\"a\")(\"b\"))) \
          BODY[HEADER.FIELDS (A B)]<5> {3}\r\n{1} BODY[] {12}\r\n0123456789ab RFC822.SIZE 4286 X-GM-LABELS (\\Inbox \"a b\"))\r\n* 2 EXISTS\r\n",
    );
    let fields = SectionText::HeaderFields(vec![AString::from("A"), AString::from("B")]);
    let date = DateTime::new(Date::new(1996, 7, 17).unwrap(), 2, 44, 25, -420).unwrap();
    let text = |text: &str| Value::String(text.into());
    let addresses = Value::List(vec![Value::List(vec![text("a")]), Value::List(vec![text("b")])]);
    let expected = [
        Event::FetchBegin(12),
        Event::Fetch(FetchData::Flags(vec![Flag::Seen])),
        Event::Fetch(FetchData::Uid(7)),
        Event::Fetch(FetchData::InternalDate(date)),
        Event::Fetch(FetchData::Envelope(Value::List(vec![Value::Nil, text("ab"), addresses]))),
        Event::Fetch(FetchData::Body(
            BodyName::Section { section: Section { path: vec![], text: fields }, start: Some(5) },
            Some(b"{1}".to_vec()),
        )),
        Event::LiteralBegin(BodyName::Section { section: Section::default(), start: None }, 12),
        Event::LiteralData("0123456789ab".into()),
        Event::LiteralEnd,
        Event::Fetch(FetchData::Rfc822Size(4286)),
        Event::Fetch(FetchData::Other(
            "X-GM-LABELS".into(),
            Value::List(vec![Value::Atom("\\Inbox".into()), text("a b")]),
        )),
        Event::FetchEnd,
        Event::Response(Response::Exists(2)),
    ];
    for event in expected {
        assert_eq!(decoder.next(), Some(event));
    }
    assert_eq!(decoder.next(), None);
}

fn items(attributes: &[u8]) -> Vec<FetchData> {
    let mut decoder = ResponseDecoder::new(Limits::default());
    decoder.feed(&[b"* 1 FETCH (UID 5 ", attributes, b" RFC822.SIZE 7)\r\n"].concat());
    let mut items = Vec::new();
    while let Some(event) = decoder.next() {
        if let Event::Fetch(data) = event {
            items.push(data);
        }
    }
    assert_eq!(items.last(), Some(&FetchData::Rfc822Size(7)), "{}", String::from_utf8_lossy(attributes));
    items
}

#[test]
fn flags_that_cannot_be_read_cost_nothing_else() {
    let long = "k".repeat(3000);
    let unreadable: [(&[u8], &str); 13] = [
        (b"a]b", "a]b"),
        (b"$a]", "$a]"),
        (b"[x]", "[x]"),
        (b"a%b", "a%b"),
        (b"a*b", "a*b"),
        (b"\\*", "\\\\*"),
        (b"\\", "\\\\"),
        (b"a\\b", "a\\\\b"),
        (b"\"q\"", "q"),
        (b"a\"b", "a\\\"b"),
        (b"a(b", "a(b"),
        (b"{3}\r\na)b", "a)b"),
        (b"\xe4\0", "\u{fffd}\\0"),
    ];
    for (flag, named) in unreadable {
        let read = items(&[b"FLAGS (\\Seen ", flag, b" $a)"].concat());
        let (FetchData::FlagsInPart(flags, unread), 3) = (&read[1], read.len()) else { panic!("{read:?}") };
        assert_eq!((flags.len(), &flags[0], &*unread[0]), (2, &Flag::Seen, named));
    }
    let read = items(format!("FLAGS ({long})").as_bytes());
    let FetchData::FlagsInPart(_, unread) = &read[1] else { panic!("{read:?}") };
    assert_eq!((unread.len(), unread[0].chars().count()), (1, 41));
    let many = items(["FLAGS (", &"] ".repeat(1000), ")"].concat().as_bytes());
    assert!(
        matches!(&many[1], FetchData::FlagsInPart(flags, unread) if flags.is_empty() && unread.len() == 8)
    );
    for spaced in ["( \\Seen)", "(\\Seen )", "(  \\Seen  )"] {
        assert_eq!(items(format!("FLAGS {spaced}").as_bytes())[1], FetchData::Flags(vec![Flag::Seen]));
    }
    assert_eq!(items(b"FLAGS NIL")[1], FetchData::Flags(vec![]));
}

#[test]
fn dates_that_cannot_be_read_cost_nothing_else() {
    let no = [
        "NIL",
        "\"\"",
        "\"00-Jan-2020 00:00:00 +0000\"",
        "\"31-Feb-2020 00:00:00 +0000\"",
        "{2}\r\nno",
        "7",
        "\"01-Jan-2020 24:00:00 +0000\"",
        "\"01-Jan-2020 00:00:00 +9999\"",
        "\"01-Jan-2020 00:00:00\"",
        "\"01-Jan-2020 00:00:00 +00:00:00\"",
        "\"01-Jan-2020-7 00:00:00 +0000\"",
        "\"1-J\u{e9}n-2020 0:0 +0000\"",
        "\"01-Jan-2020 300:00:00 +0000\"",
        "\"01-Jan-2020 00:00:00 +\u{e9}00\"",
    ];
    for date in no {
        let read = items(format!("INTERNALDATE {date}").as_bytes());
        assert!(matches!(&read[1], FetchData::NoDate(_)), "{date}: {read:?}");
    }
    let first = DateTime::new(Date::new(2020, 1, 1).unwrap(), 0, 0, 0, 0).unwrap();
    for date in [
        "01-Jan-2020 00:00:00 GMT",
        "01-Jan-20 00:00:00 +0000",
        "Wed, 01 Jan 2020 00:00:00 +0000",
        "01-Jan-2020 00:00:00 -00:00",
        "1 Jan 2020 0:00 UTC",
        "1-Jan-2020 00:00:00 -0000",
    ] {
        let read = items(format!("INTERNALDATE \"{date}\"").as_bytes());
        assert_eq!(read[1], FetchData::InternalDate(first), "{date}");
    }
    let west = DateTime::new(Date::new(1999, 12, 31).unwrap(), 23, 59, 60, -330).unwrap();
    assert_eq!(items(b"INTERNALDATE \"31 Dec 99 23:59:60 -05:30\"")[1], FetchData::InternalDate(west));
}

#[test]
fn fetch_by_uid() {
    let mut decoder = ResponseDecoder::new(Limits::default());
    decoder.feed(b"* 25997 UIDFETCH (FLAGS (\\Seen) MODSEQ (320162338))\r\n");
    assert_eq!(decoder.next(), Some(Event::UidFetchBegin(25997)));
    assert_eq!(decoder.next(), Some(Event::Fetch(FetchData::Flags(vec![Flag::Seen]))));
    assert_eq!(decoder.next(), Some(Event::Fetch(FetchData::ModSeq(320_162_338))));
    assert_eq!(decoder.next(), Some(Event::FetchEnd));
}

#[test]
fn broken_responses_end_the_decoder() {
    let broken = |input: &[u8]| {
        let mut decoder = ResponseDecoder::new(Limits { inline_bytes: 10, response_bytes: 100 });
        decoder.feed(input);
        let mut last = None;
        while let Some(event) = decoder.next() {
            last = Some(event);
        }
        matches!(last, Some(Event::Broken(_)))
    };
    assert!(broken(b"hello\r\n"));
    assert!(broken(&[b'x'; 101]));
    assert!(broken(b"* LIST () NIL {99}\r\n"));
    assert!(broken(b"* LIST () NIL {18446744073709551615}\r\n"));
    assert!(broken(b"* 1 FETCH (BODY[] {12}\r\n0123456789ab OOPS\r\n"));
    assert!(!broken(b"* 1 FETCH (OOPS\r\n"), "nothing was handed out: unknown data");
    assert!(!broken(b"* OK text that ends like a literal {5}\r\n* OK x\r\n"));
    let deep = format!("* 1 FETCH (ENVELOPE {}\r\n", "(".repeat(60));
    assert!(!broken(deep.as_bytes()));
    let mut decoder = ResponseDecoder::new(Limits::default());
    decoder.feed(format!("* 1 FETCH (ENVELOPE {})\r\n", "(".repeat(1_000_000)).as_bytes());
    assert!(matches!(decoder.next(), Some(Event::Response(Response::Other(_)))));
}
