use proptest::prelude::*;
use sealpost_mime::{Scanner, Structure, Text};

use super::*;

fn scanned(mail: &str) -> (Structure, Text) {
    let mut scanner = Scanner::new();
    scanner.push(mail.as_bytes());
    let (structure, text) = scanner.finish();
    (structure, text.into_text())
}

fn summary(mail: &str) -> Summary {
    let (structure, text) = scanned(mail);
    Summary::new(&structure, &text)
}

fn address(address: SummaryAddress) -> String {
    let or = |s: Option<&str>| s.unwrap_or("-").to_owned();
    format!("{}|{}|{}", or(address.name), or(address.mailbox), or(address.host))
}

#[test]
fn a_summary_has_the_fields_of_sort_and_thread() {
    let s = summary(
        "Received: from x\r\nDate: Fri, 21 Nov 1997 09:55:06 -0600\r\nFrom: =?utf-8?q?J=C3=B6rg?= <J@x.example>\r\n\
         To: A Group:Ed Jones <c@a.test>,joe@where.test;, last@x\r\nSubject: Re: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\n \
         aus\r\nMessage-ID: <\"1\"@x.example>\r\nReferences: <a@b>\r\n <c@d>\r\nIn-Reply-To: <c@d>\r\n\
         X-Other: not kept\r\n\r\nBody\r\n",
    );
    assert_eq!(s.sent(), Some(Sent { seconds: 880_127_706, zone: -360 }));
    assert_eq!(s.sent_day(), Some(10_186));
    assert_eq!(s.subject(), Some("Re: Grüße aus"));
    assert_eq!(s.from().map(address).collect::<Vec<_>>(), ["Jörg|J|x.example"]);
    assert_eq!(s.sender().map(address).collect::<Vec<_>>(), ["Jörg|J|x.example"]);
    assert_eq!(
        s.to().map(address).collect::<Vec<_>>(),
        ["-|A Group|-", "Ed Jones|c|a.test", "-|joe|where.test", "-|-|-", "-|last|x"]
    );
    assert_eq!((s.cc().count(), s.bcc().count()), (0, 0));
    assert_eq!(s.message_id(), Some("1@x.example"));
    assert_eq!(s.references().collect::<Vec<_>>(), ["a@b", "c@d"]);
    assert_eq!(s.in_reply_to().collect::<Vec<_>>(), ["c@d"]);
    assert!(s.headers_complete());
    assert!(s.headers().contains("subject: re: gru\u{308}ße aus\n"));
    assert!(!s.headers().contains("x-other") && !s.headers().contains("received"));
}

#[test]
fn absent_fields_differ_from_empty_ones() {
    let s = summary("Subject:\r\n\r\n");
    assert_eq!(s.subject(), Some(""));
    let s = summary("Sender: s@x\r\n\r\n");
    assert_eq!((s.subject(), s.message_id(), s.sent()), (None, None, None));
    assert_eq!((s.from().count(), s.reply_to().count()), (0, 0));
    assert_eq!(s.sender().map(address).collect::<Vec<_>>(), ["-|s|x"]);
}

#[test]
fn field_names_are_sorted_and_known() {
    assert!(HEADER_FIELDS.is_sorted());
    assert!(Summary::has_field("subject") && Summary::has_field("bcc"));
    assert!(!Summary::has_field("received") && !Summary::has_field(""));
}

/// What a header search compares: the values of the lines that begin with `name:`.
fn values<'a>(name: &str, headers: &'a str) -> Vec<&'a str> {
    let value = |line: &'a str| line.strip_prefix(name).and_then(|rest| rest.strip_prefix(':'));
    headers.split('\n').filter_map(value).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A search of a field in the summary's lines sees what a search in the stored text sees.
    #[test]
    fn header_lines_are_those_of_the_stored_text(
        fields in prop::collection::vec((prop::sample::select(&[
            "From", "To", "CC", "Bcc", "Subject", "subject ", "Date", "X-From", "Subject-Prefix", "List-ID", "no colon",
            "Message-ID", "References", "",
        ][..]), "[ -~é\t\r\n]{0,40}"), 0..12),
        cut in 0usize..600,
    ) {
        let mail: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let (structure, mut text) = scanned(&(mail + "\r\nbody\r\n"));
        if cut < text.headers.len() {
            text = Text {
                headers: text.headers[..text.headers.floor_char_boundary(cut)].into(),
                body: String::new(),
                truncated: true,
            };
        }
        let summary = Summary::new(&structure, &text);
        prop_assert_eq!(summary.headers_complete(), !text.truncated || !text.body.is_empty());
        for name in HEADER_FIELDS {
            prop_assert_eq!(values(name, summary.headers()), values(name, &text.headers));
        }
    }
}
