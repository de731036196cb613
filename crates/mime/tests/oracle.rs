//! Compares with mail-parser: where both define a result, the scanner's must be the same.
//!
//! Intended differences:
//! - Sizes inside a nested message that is encoded in base64 count decoded bytes here and positions
//!   in the raw message there, so these are not compared.
//! - A multipart without a usable boundary is text to the scanner (RFC 2045 §5.2), an empty
//!   multipart to mail-parser; a multipart whose boundary never comes has one empty part here
//!   (BODYSTRUCTURE cannot show none), none there.
//! - A part may end inside its header, at a boundary or the end of the message; mail-parser drops
//!   some of these, the scanner never does, so malformed messages are compared only as far as
//!   mail-parser goes.
//! - Of a message that is cut off after a nested message, mail-parser loses the part that was cut.
//! - Bytes that are not in the charset they claim are windows-1252 here and U+FFFD there.
//! - A character cut in two by neighbouring encoded-words is put together here, and lost there.
//! - Base64 without its padding is decoded to the end here, and loses its last bytes there.
//! - A field that the end of the message cuts off counts here; a boundary counts only at the start of a line.
//! - HTML is turned to text here; mail-parser returns it unchanged, so it is compared after its
//!   tags are removed here.

use mail_parser::{Addr, Message, MessageParser, MimeHeaders, PartType};
use proptest::prelude::*;
use sealpost_mime::decode::html::HtmlText;
use sealpost_mime::header::word;
use sealpost_mime::{Address, Entity, MessageBuilder, Part, PartKind, Scanner, Structure, Text, fold};

fn scan(message: &[u8]) -> (Structure, Text) {
    let mut scanner = Scanner::new();
    message.chunks(100).for_each(|chunk| scanner.push(chunk));
    let (structure, sink) = scanner.finish();
    (structure, sink.into_text())
}

/// The tree, each leaf with its type and the size of its encoded body without its final line end.
fn ours(message: &[u8], part: &Part) -> String {
    match &part.kind {
        PartKind::Leaf => {
            leaf(&format!("{}/{}", part.media_type, part.subtype), message, part.body.start, part.body.end)
        }
        PartKind::Multipart(parts) => {
            format!(
                "{}({})",
                part.subtype,
                parts.iter().map(|p| ours(message, p)).collect::<Vec<_>>().join(", ")
            )
        }
        PartKind::Message(_, inside) => format!("[{}]", ours(message, inside)),
    }
}

fn leaf(kind: &str, message: &[u8], start: u64, end: u64) -> String {
    let body = &message[(start as usize).min(end as usize)..end as usize];
    let body = body.strip_suffix(b"\n").unwrap_or(body);
    format!("{kind} {}", body.strip_suffix(b"\r").unwrap_or(body).len())
}

fn theirs(raw: &[u8], message: &Message, id: u32) -> String {
    let part = &message.parts[id as usize];
    let declared = part.content_type();
    let kind = declared
        .map_or("text/plain".into(), |t| format!("{}/{}", t.ctype(), t.subtype().unwrap_or_default()));
    match &part.body {
        PartType::Multipart(ids) => {
            let inside: Vec<_> = ids.iter().map(|id| theirs(raw, message, *id)).collect();
            format!(
                "{}({})",
                declared.and_then(|t| t.subtype()).unwrap_or_default().to_lowercase(),
                inside.join(", ")
            )
        }
        PartType::Message(inside) => format!("[{}]", theirs(raw, inside, 0)),
        _ => leaf(&kind.to_lowercase(), raw, part.offset_body.into(), part.offset_end.into()),
    }
}

fn show(name: Option<&str>, address: &str) -> String {
    let words = |s: &str| s.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{} <{address}>", name.map(words).unwrap_or_default())
}

fn our_addresses(list: &[Address]) -> Vec<String> {
    let real = list.iter().filter(|a| a.is_mailbox());
    real.map(|a| {
        let (mailbox, host) = (a.mailbox.clone().unwrap(), a.host.clone().unwrap());
        let address = if host.is_empty() { mailbox } else { format!("{mailbox}@{host}") };
        show(a.name.as_deref().map(word::decode).as_deref(), &address)
    })
    .collect()
}

fn their_addresses(list: Option<&mail_parser::Address>) -> Vec<String> {
    let one = |a: &Addr| show(a.name.as_deref(), a.address.as_deref().unwrap_or_default());
    list.map(|list| list.iter().map(one).collect()).unwrap_or_default()
}

/// Text for comparison: folded, white space collapsed.
fn plain(text: &str) -> String {
    fold(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

fn their_text(message: &Message) -> String {
    let mut all = String::new();
    for part in &message.parts {
        match &part.body {
            PartType::Text(text) => all.push_str(text),
            PartType::Html(html) => {
                let mut text = HtmlText::default();
                text.push(html, &mut all);
                text.finish(&mut all);
            }
            PartType::Message(inside) => all.push_str(&their_text(inside)),
            _ => {}
        }
        all.push('\n');
    }
    plain(&all)
}

/// Compares everything that both define; `Err` describes the difference.
fn compare(raw: &[u8]) -> Result<(), String> {
    let (structure, _) = scan(raw);
    let message = MessageParser::default().parse(raw).ok_or("mail-parser finds nothing")?;
    let same = |what: &str, ours: String, theirs: String| {
        if ours == theirs { Ok(()) } else { Err(format!("{what}\n  ours:   {ours}\n  theirs: {theirs}")) }
    };
    same("structure", ours(raw, &structure.root), theirs(raw, &message, 0))?;
    let e = &structure.envelope;
    let subject = e.subject.as_deref().map(word::decode).unwrap_or_default();
    same("subject", plain(&subject), plain(message.subject().unwrap_or_default()))?;
    for (what, ours, theirs) in
        [("from", &e.from, message.from()), ("to", &e.to, message.to()), ("cc", &e.cc, message.cc())]
    {
        same(what, format!("{:?}", our_addresses(ours)), format!("{:?}", their_addresses(theirs)))?;
    }
    same("date", format!("{:?}", e.sent_date), format!("{:?}", message.date().map(|d| d.to_timestamp())))
}

/// The text of a message built here, both ways.
fn compare_text(raw: &[u8]) -> Result<(), String> {
    let (_, text) = scan(raw);
    let message = MessageParser::default().parse(raw).ok_or("mail-parser finds nothing")?;
    let theirs = their_text(&message);
    // Ours also has file names and the headers of nested messages: the words of theirs must occur
    // in order in it.
    let ours = plain(&text.body);
    let mut words = ours.split(' ');
    match theirs.split(' ').filter(|w| !w.is_empty()).find(|word| !words.any(|w| w == *word)) {
        None => Ok(()),
        Some(word) => Err(format!("text: {word:?} is missing\n  ours:   {ours}\n  theirs: {theirs}")),
    }
}

#[derive(Debug, Clone)]
enum Tree {
    Text(String),
    Html(String),
    File(String, Vec<u8>),
    Multi(&'static str, Vec<Tree>),
    Message(String, Box<Tree>),
}

impl Tree {
    /// A message whose body is a message: inside a multipart, mail-parser loses its position,
    /// assigns the parts after it to no part of that multipart, or panics ("Invalid part ID, could
    /// not find multipart").
    fn confuses_them(&self) -> bool {
        match self {
            Tree::Message(_, body) => matches!(**body, Tree::Message(..)) || body.confuses_them(),
            Tree::Multi(_, parts) => parts.iter().any(Tree::confuses_them),
            Tree::Text(_) | Tree::Html(_) | Tree::File(..) => false,
        }
    }

    fn entity(&self) -> Entity {
        match self {
            Tree::Text(text) => Entity::text(text),
            Tree::Html(text) => Entity::html(&format!("<p>{text}</p>\n<div><b>{text}</b></div>")),
            Tree::File(name, bytes) => Entity::attachment("application/pdf", name, bytes),
            Tree::Multi(subtype, parts) => {
                Entity::multipart(subtype, parts.iter().map(Tree::entity).collect())
            }
            Tree::Message(subject, body) => Entity::message(message(subject, body)),
        }
    }
}

fn message(subject: &str, body: &Tree) -> Vec<u8> {
    MessageBuilder::new()
        .addresses("From", &[(subject, "from@example.org")])
        .addresses("To", &[("", "a@example.org"), ("Müller, J.", "b@example.org"), ("C", "c@example.org")])
        .addresses("Cc", &[("x \"y\" z", "d@example.org")])
        .date(1_600_000_000, -90)
        .subject(subject)
        .body(body.entity())
        .build()
}

fn tree(messages: u32) -> impl Strategy<Value = Tree> {
    let words = "[a-zA-Zäöß日本привет0-9=.]{1,12}( [a-zA-Zé0-9,=-]{1,9}){0,8}(\n[a-z .]{0,30}x)?";
    let leaf = prop_oneof![
        3 => words.prop_map(Tree::Text),
        1 => "[a-zéA-Z]{1,8}( [a-zа-я]{1,8}){0,5}".prop_map(Tree::Html),
        1 => ("[a-zé ]{1,20}x.pdf", proptest::collection::vec(any::<u8>(), 1..100)).prop_map(|(n, b)| Tree::File(n, b)),
    ];
    leaf.prop_recursive(4, 16, 4, move |inner| {
        let subtype = prop_oneof![Just("mixed"), Just("alternative"), Just("related")];
        prop_oneof![
            3 => (subtype, proptest::collection::vec(inner.clone(), 1..4)).prop_map(|(s, p)| Tree::Multi(s, p)),
            messages => ("[a-zé]{1,9}( [a-zд]{1,9}){0,3}", inner).prop_map(|(s, t)| Tree::Message(s, Box::new(t))),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(250))]

    #[test]
    fn generated_messages(subject in "[a-zA-Zéß日0-9]{1,12}( [a-zA-Z0-9é]{1,9}){0,8}", tree in tree(1)) {
        prop_assume!(!tree.confuses_them());
        let raw = message(&subject, &tree);
        prop_assert_eq!(compare(&raw), Ok(()));
        prop_assert_eq!(compare_text(&raw), Ok(()));
        // The same with bare LF.
        let lf: Vec<u8> = raw.iter().copied().filter(|b| *b != b'\r').collect();
        prop_assert_eq!(compare(&lf), Ok(()));
        prop_assert_eq!(compare_text(&lf), Ok(()));
    }

    /// Cut anywhere in its last part, a message keeps its shape up to there.
    #[test]
    fn truncated_messages(tree in tree(0), cut in 0.0f64..1.0) {
        let raw = message("subject", &Tree::Multi("mixed", vec![Tree::Text("first".into()), tree, Tree::Text("last words\n".repeat(20))]));
        let end = raw.windows(11).position(|w| w == b"last words\r").unwrap() + 12;
        let raw = &raw[..end + ((raw.len() - end - 30) as f64 * cut) as usize];
        prop_assert_eq!(compare(raw), Ok(()));
        prop_assert_eq!(compare_text(raw), Ok(()));
    }
}

/// Damage that both are expected to handle in the same way.
#[test]
fn malformed_messages() {
    let part = "Content-Type: text/plain\n\n";
    let mixed = "From: a@b.example\nSubject: s\nContent-Type: multipart/mixed; boundary=";
    for raw in [
        // No header, no body, no line end.
        "Subject: only a header\n".to_owned(),
        "Subject: only a header\n\n".to_owned(),
        "\nonly a body".to_owned(),
        // Header damage.
        format!("Subject : obsolete\nfrom:A <a@b.example>\nbroken line\n{part}x\n"),
        "Subject: =?utf-8?Q?a?= =?utf-8?Q?=C3=A4b?=\nFrom: =?iso-8859-1?B?5A==?= <a@b.example>\n\nx"
            .to_owned(),
        "Subject: =?iso-2022-jp?B?GyRCJDMkcyRLJEEkTxsoQg==?=\n\nx".to_owned(),
        "To: \"Last, First\" <a@b.example>, c@d.example (Comment), Group: e@f.example, g@h.example;\n\nx"
            .to_owned(),
        "Date: 1 Jan 20 10:00:00 EST\n\nx".to_owned(),
        // Types and encodings that are missing, unknown or false.
        "Content-Type: text/plain; charset=no-such-charset\n\nplain".to_owned(),
        "Content-Type: text/plain; charset=\"utf-8\n\nnever closed".to_owned(),
        "Content-Transfer-Encoding: 8-bit\n\ntext".to_owned(),
        "Content-Transfer-Encoding: base64\n\naGVs\n bG8=\n".to_owned(),
        "Content-Transfer-Encoding: quoted-printable\n\nsoft =\n  break =3D\n".to_owned(),
        // Multiparts: preamble and epilogue, never closed, white space after boundaries, no final
        // line end.
        format!("{mixed}b\n\npreamble\n--b\n{part}one\n--b\n\ntwo\n--b--\nepilogue\n"),
        format!("{mixed}b\n\n--b\n{part}one\n--b\n{part}two"),
        format!("{mixed}\"b c\"\n\n--b c\n{part}one\n--b c--"),
        format!("{mixed}b\n\n--b  \n{part}one\n--b--\t\n"),
        format!(
            "{mixed}b\n\n--b\nContent-Type: multipart/alternative; boundary=c\n\n--c\n{part}one\n--c--\n--b\n{part}two\n--b--\n"
        ),
        format!("{mixed}b\n\n--b\nContent-Type: message/rfc822\n\nSubject: in\n\ninside\n--b--\n"),
    ] {
        for raw in [raw.replace('\n', "\r\n"), raw] {
            assert_eq!(compare(raw.as_bytes()), Ok(()), "{raw}");
            assert_eq!(compare_text(raw.as_bytes()), Ok(()), "{raw}");
        }
    }
}
