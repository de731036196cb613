use super::*;
use crate::types::{ForwardPath, Host, LocalPart, Mail, Mailbox, Rcpt, ReversePath};

fn rcpt(local: &str) -> Command {
    let local = LocalPart::new(local).unwrap();
    Command::Rcpt(Rcpt::new(ForwardPath::Mailbox(Mailbox { local, host: Host::domain("b").unwrap() })))
}

fn answers(client: &mut Client, wire: &str) -> Vec<(String, u16)> {
    client.feed(wire.as_bytes());
    let mut answers = Vec::new();
    while let Some(Answer { to, reply }) = client.next_answer().unwrap() {
        let to = match to {
            Sent::Command(command) => {
                let mut out = BytesMut::new();
                write::command(&command, &mut out);
                String::from_utf8_lossy(&out).trim_end().to_owned()
            }
            other => format!("{other:?}"),
        };
        answers.push((to, reply.code));
    }
    answers
}

fn greeted(protocol: Protocol) -> Client {
    let mut client = Client::new(protocol);
    let mut out = BytesMut::new();
    client.hello(ClientName::new("me.example").unwrap(), &mut out);
    let wire = "220 mx\r\n250-mx\r\n250-size 100\r\n250-PIPELINING\r\n250 CHUNKING\r\n";
    answers(&mut client, wire);
    client
}

#[test]
fn extensions_are_learnt_and_forgotten() {
    let mut client = greeted(Protocol::Smtp);
    assert_eq!(client.extensions().size(), Some(100));
    assert!(client.extensions().has("pipelining") && !client.extensions().has("STARTTLS"));
    client.feed(b"250 injected\r\n");
    assert_eq!(client.tls_started(), 14);
    assert!(!client.extensions().has("PIPELINING"));
    assert_eq!(client.next_answer(), Ok(None));
}

#[test]
fn smtp_pipelined() {
    let (mut client, mut out) = (greeted(Protocol::Smtp), BytesMut::new());
    client.command(Command::Mail(Mail::new(ReversePath::Null)), &mut out);
    client.command(rcpt("x"), &mut out);
    client.command(rcpt("y"), &mut out);
    client.command(Command::Data, &mut out);
    assert_eq!(&out[..], b"MAIL FROM:<>\r\nRCPT TO:<x@b>\r\nRCPT TO:<y@b>\r\nDATA\r\n");
    let got = answers(&mut client, "250 ok\r\n250 ok\r\n550 no\r\n354 go\r\n");
    let codes: Vec<_> = got.iter().map(|(_, code)| *code).collect();
    assert_eq!(codes, [250, 250, 550, 354]);
    assert!(client.is_idle());
    out.clear();
    client.data(b".a\r\nb", &mut out);
    client.data(b"c", &mut out);
    client.end_data(&mut out);
    assert_eq!(&out[..], b"..a\r\nbc\r\n.\r\n");
    assert_eq!(answers(&mut client, "250 ok\r\n"), [("Message { recipient: 0 }".to_owned(), 250)]);
    client.feed(b"250 what\r\n");
    assert_eq!(client.next_answer(), Err(ClientError::Unexpected));
}

#[test]
fn lmtp_replies_once_for_each_accepted_recipient() {
    let (mut client, mut out) = (greeted(Protocol::Lmtp), BytesMut::new());
    client.command(Command::Mail(Mail::new(ReversePath::Null)), &mut out);
    for local in ["x", "y", "z"] {
        client.command(rcpt(local), &mut out);
    }
    client.chunk(b"abc", false, &mut out);
    client.chunk(b"", true, &mut out);
    client.command(Command::Quit, &mut out);
    assert!(out.ends_with(b"BDAT 3\r\nabcBDAT 0 LAST\r\nQUIT\r\n"));
    let got =
        answers(&mut client, "250 m\r\n250 x\r\n550 y\r\n250 z\r\n250 3\r\n250 x\r\n451 z\r\n221 bye\r\n");
    let last = |n: usize| format!("LastChunk {{ recipient: {n} }}");
    assert_eq!(got[5..], [(last(0), 250), (last(1), 451), ("QUIT".to_owned(), 221)]);
}

/// RFC 2033 §4.3: "then the BDAT LAST command returns zero replies".
#[test]
fn lmtp_without_recipients_owes_nothing() {
    let (mut client, mut out) = (greeted(Protocol::Lmtp), BytesMut::new());
    client.command(Command::Mail(Mail::new(ReversePath::Null)), &mut out);
    client.command(rcpt("x"), &mut out);
    client.chunk(b"abc", true, &mut out);
    assert!(!client.is_idle());
    let got = answers(&mut client, "250 m\r\n550 x\r\n");
    assert_eq!(got.len(), 2);
    assert!(client.is_idle());
    client.command(Command::Quit, &mut out);
    assert_eq!(answers(&mut client, "221 bye\r\n"), [("QUIT".to_owned(), 221)]);
}
