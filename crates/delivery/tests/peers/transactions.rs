//! The commands sent for a mail, and the outcome of each recipient.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use sealpost_base::{Error, Result};
use sealpost_delivery::envelope::{
    BodyForm, Envelope, MessageFacts, MessageReader, MessageSource, Recipient, TlsDemand,
};
use sealpost_delivery::outcome::{Attempt, Outcome, Reason, Scope, Step, SuccessReports};
use sealpost_smtp::types::{Notify, OriginalRecipient, Return, ReversePath};

use crate::net::{MESSAGE, World, envelope, failure, is_delivered, mailbox, message, reason};
use crate::server::{Act, Server};

async fn deliver(server: &Server, envelope: &Envelope, source: &dyn MessageSource) -> Attempt {
    let world = World::new(server);
    let mut connection = world.connect("d.example", TlsDemand::Policy).await.unwrap();
    let attempt = connection.send(envelope, source).await;
    connection.quit().await;
    attempt
}

#[tokio::test(start_paused = true)]
async fn a_plain_server_gets_plain_commands() {
    let server = Server::new(&[]);
    let attempt = deliver(&server, &envelope(&["bob@d.example"]), &message(MESSAGE)).await;
    assert!(is_delivered(&attempt));
    assert_eq!(
        server.commands(),
        ["EHLO me.example", "MAIL FROM:<alice@me.example>", "RCPT TO:<bob@d.example>", "DATA", "QUIT"]
    );
    assert_eq!(server.messages(), ["Subject: x\r\n\r\n..\r\nhello\r\n"]);
    let Outcome::Delivered(delivered) = &attempt.recipients[0] else { panic!() };
    assert_eq!(delivered.reply.to_string(), "250 2.0.0 taken");
    assert_eq!(delivered.reports, SuccessReports::Relayed);
    assert_eq!(attempt.server.unwrap().host, "mx.d.example");
}

#[tokio::test(start_paused = true)]
async fn a_server_without_ehlo_gets_helo() {
    let server = Server::new(&[]).at("EHLO", Act::Say("502 what?\r\n"));
    assert!(is_delivered(&deliver(&server, &envelope(&["bob@d.example"]), &message(MESSAGE)).await));
    assert_eq!(server.commands()[1], "HELO me.example");
}

#[tokio::test(start_paused = true)]
async fn extensions_are_used_as_far_as_they_are_offered() {
    let mut wanted = envelope(&["bob@d.example"]);
    wanted.facts.eight_bit = true;
    (wanted.ret, wanted.envid) = (Some(Return::Headers), Some("id+1".into()));
    wanted.recipients[0].notify = Some(Notify::On { success: true, failure: true, delay: false });
    wanted.recipients[0].orcpt = Some(OriginalRecipient { kind: "rfc822".into(), address: "b=b@x".into() });
    let server = Server::modern();
    let attempt = deliver(&server, &wanted, &message(MESSAGE)).await;
    let Outcome::Delivered(delivered) = &attempt.recipients[0] else { panic!() };
    assert_eq!(delivered.reports, SuccessReports::NextServer);
    assert_eq!(
        server.commands()[1..],
        [
            "MAIL FROM:<alice@me.example> SIZE=24 BODY=8BITMIME RET=HDRS ENVID=id+2B1",
            "RCPT TO:<bob@d.example> NOTIFY=SUCCESS,FAILURE ORCPT=rfc822;b+3Db@x",
            "BDAT 24 LAST",
            "QUIT"
        ]
    );
    assert_eq!(server.messages(), [format!("{MESSAGE}\0")]);
    // And a server without them.
    let server = Server::new(&["PIPELINING"]);
    let attempt = deliver(&server, &wanted, &message(MESSAGE)).await;
    assert!(attempt.lacking.dsn && attempt.lacking.eight_bit_mime && !attempt.lacking.smtputf8);
    assert_eq!(server.commands()[1], "MAIL FROM:<alice@me.example>");
}

#[tokio::test(start_paused = true)]
async fn large_messages_go_in_chunks_and_lines_end_in_crlf() {
    let text = "x".repeat(70) + "\n.\r";
    let whole = text.repeat(3000);
    let clean = whole.replace(['\n', '\r'], "\r\n");
    for (server, by_data) in [(Server::modern(), false), (Server::new(&["PIPELINING"]), true)] {
        let attempt = deliver(&server, &envelope(&["bob@d.example"]), &message(&whole)).await;
        assert!(is_delivered(&attempt));
        let got = server.messages().concat();
        let got = if by_data { got.replace("\r\n..\r\n", "\r\n.\r\n") } else { got.replace('\0', "") };
        assert!(got == clean, "{} of {} bytes", got.len(), clean.len());
        assert_eq!(server.commands().iter().any(|line| line.starts_with("BDAT 16")), !by_data);
    }
}

#[tokio::test(start_paused = true)]
async fn each_recipient_has_its_own_outcome() {
    for extensions in [&["PIPELINING"][..], &[], &["PIPELINING", "CHUNKING"]] {
        let server = Server::new(extensions)
            .at("bad@", Act::Say("550 5.1.1 no such user\r\n"))
            .at("full@", Act::Say("452 4.2.2 over quota\r\n"))
            .at("many@", Act::Say("552 5.5.3 too many recipients\r\n"));
        let to = ["bad@d.example", "bob@d.example", "full@d.example", "many@d.example", "eve@d.example"];
        let attempt = deliver(&server, &envelope(&to), &message(MESSAGE)).await;
        let summary: Vec<String> = attempt.recipients.iter().map(summary).collect();
        assert_eq!(summary, ["failed 5.1.1", "delivered", "deferred 4.2.2", "deferred 5.5.3", "delivered"]);
        assert_eq!(server.messages().len(), 1);
    }
}

fn summary(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Delivered(_) => "delivered".into(),
        Outcome::Deferred(failure) => format!("deferred {}", failure.status()),
        Outcome::Failed(failure) => format!("failed {}", failure.status()),
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_if_no_recipient_is_accepted() {
    for extensions in [&["PIPELINING"][..], &[], &["PIPELINING", "CHUNKING"]] {
        let server = Server::new(extensions).at("RCPT", Act::Say("550 5.1.1 no\r\n"));
        let world = World::new(&server);
        let mut connection = world.connect("d.example", TlsDemand::Policy).await.unwrap();
        for _ in 0..2 {
            let attempt =
                connection.send(&envelope(&["a@d.example", "b@d.example"]), &message(MESSAGE)).await;
            let reasons: Vec<_> = attempt.recipients.iter().map(|o| o.failure().unwrap().reason).collect();
            assert_eq!(reasons, [Reason::RecipientRefused; 2]);
        }
        assert!(connection.is_reusable());
        assert!(server.messages().iter().all(String::is_empty), "{:?}", server.messages());
        let resets = server.commands().iter().filter(|line| *line == "RSET").count();
        // With DATA the empty message ended the transaction.
        assert_eq!(resets, usize::from(extensions != ["PIPELINING"]));
    }
}

#[tokio::test(start_paused = true)]
async fn many_recipients_go_in_bounded_batches() {
    let to: Vec<String> = (0..1000).map(|i| format!("user{i}@d.example")).collect();
    let to: Vec<&str> = to.iter().map(String::as_str).collect();
    for extensions in [&["PIPELINING"][..], &[]] {
        let server = Server::new(extensions);
        let attempt = deliver(&server, &envelope(&to), &message(MESSAGE)).await;
        assert_eq!(attempt.recipients.len(), 1000);
        assert!(is_delivered(&attempt));
        assert_eq!(server.commands().len(), 1000 + 4);
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_used_for_as_many_mails_as_allowed() {
    let server = Server::modern();
    let mut world = World::new(&server);
    world.settings.mails_per_connection = 3;
    let mut connection = world.connect("d.example", TlsDemand::Policy).await.unwrap();
    let mut mails = 0;
    while connection.is_reusable() {
        let attempt = connection.send(&envelope(&["bob@d.example"]), &message(MESSAGE)).await;
        assert!(is_delivered(&attempt));
        assert_eq!(attempt.timing.connect, Duration::ZERO, "the test's clock stands");
        mails += 1;
    }
    assert_eq!((mails, world.net.dialled().len()), (3, 1));
    assert!(server.commands().iter().all(|line| line != "RSET"));
}

#[tokio::test(start_paused = true)]
async fn a_refused_message_leaves_the_connection_usable() {
    for extensions in [&["PIPELINING"][..], &["PIPELINING", "CHUNKING"]] {
        let server = Server::new(extensions).at("message", Act::Say("554 5.7.1 spam\r\n"));
        let world = World::new(&server);
        let mut connection = world.connect("d.example", TlsDemand::Policy).await.unwrap();
        let attempt = connection.send(&envelope(&["bob@d.example"]), &message(MESSAGE)).await;
        let failed = failure(&attempt);
        assert_eq!(
            (failed.reason, failed.scope, failed.permanent),
            (Reason::MessageRefused, Scope::Message, true)
        );
        assert!(failed.concerns_route());
        assert!(connection.is_reusable());
        let attempt = connection.send(&envelope(&["bob@d.example"]), &message(MESSAGE)).await;
        assert_eq!(reason(&attempt), Reason::MessageRefused);
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_too_large_is_not_offered() {
    let server = Server::new(&["SIZE 20"]);
    let attempt = deliver(&server, &envelope(&["bob@d.example"]), &message(MESSAGE)).await;
    let failed = failure(&attempt);
    assert_eq!((failed.reason, failed.permanent), (Reason::TooLarge, true));
    assert_eq!(failed.status().to_string(), "5.3.4");
    assert_eq!(server.commands().len(), 2, "EHLO and QUIT");
}

#[tokio::test(start_paused = true)]
async fn addresses_beyond_ascii_need_smtputf8_or_a_domain_in_ascii() {
    let utf8 = envelope(&["bücher@bücher.example"]);
    let server = Server::modern();
    assert!(is_delivered(&deliver(&server, &utf8, &message(MESSAGE)).await));
    assert_eq!(server.commands()[1], "MAIL FROM:<alice@me.example> SIZE=24 SMTPUTF8");
    assert_eq!(server.commands()[2], "RCPT TO:<bücher@bücher.example>");
    // Without the extension: the domain has another form, the local part has none.
    let server = Server::new(&["8BITMIME"]);
    let both = envelope(&["bücher@bücher.example", "bob@bücher.example"]);
    let attempt = deliver(&server, &both, &message(MESSAGE)).await;
    let failed = attempt.recipients[0].failure().unwrap();
    assert_eq!((failed.reason, failed.scope), (Reason::SmtpUtf8Lacking, Scope::Recipient));
    assert_eq!(failed.status().to_string(), "5.6.7");
    assert!(matches!(attempt.recipients[1], Outcome::Delivered(_)));
    assert_eq!(server.commands()[2], "RCPT TO:<bob@xn--bcher-kva.example>");
    assert!(attempt.lacking.smtputf8);
    // A header field or a sender beyond ASCII has no other form.
    let mut header = envelope(&["bob@d.example"]);
    header.facts = MessageFacts { eight_bit: true, utf8_header: true };
    let mut sender = envelope(&["bob@d.example"]);
    sender.sender = ReversePath::Mailbox(mailbox("ä@me.example"));
    for mail in [header, sender] {
        let server = Server::new(&["8BITMIME"]);
        let attempt = deliver(&server, &mail, &message(MESSAGE)).await;
        let failed = failure(&attempt);
        assert_eq!(
            (failed.reason, failed.permanent, failed.scope),
            (Reason::SmtpUtf8Lacking, true, Scope::Message)
        );
        assert_eq!(server.commands().len(), 2);
    }
}

/// Has another text for servers without 8BITMIME.
struct TwoForms;

#[async_trait]
impl MessageSource for TwoForms {
    fn size(&self, form: BodyForm) -> u64 {
        if form == BodyForm::AsIs { 100 } else { 300 }
    }

    async fn open(&self, form: BodyForm) -> Result<Box<dyn MessageReader>> {
        let text = if form == BodyForm::AsIs { "as is\r\n" } else { "seven bits\r\n" };
        message(text).open(form).await
    }
}

#[tokio::test(start_paused = true)]
async fn eight_bit_messages_change_their_form_for_old_servers() {
    let mut mail = envelope(&["bob@d.example"]);
    mail.facts.eight_bit = true;
    for (server, parameters, text) in [
        (Server::new(&["8BITMIME", "SIZE"]), " SIZE=100 BODY=8BITMIME", "as is\r\n"),
        (Server::new(&["SIZE"]), " SIZE=300", "seven bits\r\n"),
    ] {
        let attempt = deliver(&server, &mail, &TwoForms).await;
        assert!(is_delivered(&attempt));
        assert_eq!(server.commands()[1], format!("MAIL FROM:<alice@me.example>{parameters}"));
        assert_eq!(server.messages(), [text]);
    }
}

/// Fails at once, or after a piece.
struct Broken {
    opens: bool,
}

#[async_trait]
impl MessageSource for Broken {
    fn size(&self, _form: BodyForm) -> u64 {
        1000
    }

    async fn open(&self, _form: BodyForm) -> Result<Box<dyn MessageReader>> {
        if self.opens { Ok(Box::new(BrokenReader(false))) } else { Err(Error::retry("the disk is away")) }
    }
}

struct BrokenReader(bool);

#[async_trait]
impl MessageReader for BrokenReader {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        match std::mem::replace(&mut self.0, true) {
            false => Ok(Some(Bytes::from_static(b"Subject: half\r\n\r\n"))),
            true => Err(Error::retry("the disk is away")),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_message_is_never_accepted_as_complete() {
    for (extensions, opens) in
        [(&["PIPELINING"][..], false), (&[], true), (&["PIPELINING", "CHUNKING"], true)]
    {
        let server = Server::new(extensions);
        let world = World::new(&server);
        let mut connection = world.connect("d.example", TlsDemand::Policy).await.unwrap();
        let attempt = connection.send(&envelope(&["bob@d.example"]), &Broken { opens }).await;
        let failed = failure(&attempt);
        assert_eq!(
            (failed.reason, failed.scope, failed.permanent),
            (Reason::LocalFailure, Scope::Local, false)
        );
        assert_eq!(connection.is_reusable(), !opens);
        assert!(server.messages().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn no_address_breaks_out_of_its_command() {
    let mut mail = envelope(&["bob@d.example"]);
    mail.envid = Some("a\r\nRCPT TO:<eve@d.example>".into());
    mail.recipients.push(Recipient::new(mailbox("> SIZE=1@d.example")));
    let server = Server::new(&["DSN"]);
    deliver(&server, &mail, &message(MESSAGE)).await;
    assert_eq!(server.commands()[1], "MAIL FROM:<alice@me.example> ENVID=a+0D+0ARCPT+20TO:<eve@d.example>");
    assert_eq!(server.commands()[3], "RCPT TO:<\"> SIZE=1\"@d.example>");
}

#[tokio::test(start_paused = true)]
async fn the_next_mail_detects_a_closed_idle_connection() {
    let server = Server::new(&[]).at("RSET", Act::Close).at("RCPT", Act::Say("550 5.1.1 no\r\n"));
    let world = World::new(&server);
    let mut connection = world.connect("d.example", TlsDemand::Policy).await.unwrap();
    let attempt = connection.send(&envelope(&["bob@d.example"]), &message(MESSAGE)).await;
    assert_eq!(reason(&attempt), Reason::RecipientRefused);
    let attempt = connection.send(&envelope(&["bob@d.example"]), &message(MESSAGE)).await;
    let failed = failure(&attempt);
    assert_eq!((failed.reason, failed.scope), (Reason::ConnectionLost(Step::Reset), Scope::Connection));
    assert!(!connection.is_reusable());
    let attempt = connection.send(&envelope(&["bob@d.example"]), &message(MESSAGE)).await;
    assert_eq!(reason(&attempt), Reason::WrongConnection);
}
