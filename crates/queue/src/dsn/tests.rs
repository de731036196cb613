//! Reports as senders get them.

use sealpost_base::SeededRandom;

use super::*;
use crate::state::tests::mail;

const MESSAGE: &[u8] =
    b"Received: from client\r\nFrom: <1@sender.example>\r\nSubject: secret plans\r\n\r\nThe body.\r\n";

fn reports(mail: &Mail, message: &[u8], action: Action, failure: Option<&Failure>) -> Vec<Mail> {
    let report = Report {
        host: "mx.here.example",
        id: MailId(0x1f4),
        mail,
        message,
        is_whole: true,
        expires: Timestamp::from_seconds(1_700_432_000),
        now: Timestamp::from_seconds(1_700_000_100),
    };
    let recipients: Vec<_> =
        mail.recipients.iter().map(|recipient| Reported { recipient, action, failure }).collect();
    report.mails(&recipients, &SeededRandom::new(4))
}

fn text_of(mail: &Mail) -> String {
    let Body::Inline(text) = &mail.body else { panic!("a report is inline") };
    String::from_utf8(text.clone()).unwrap()
}

fn refused() -> Failure {
    Failure::at("mx.there.example", Status::new(5, 1, 1), "550 5.1.1 no such user", true)
}

/// The parts of a report, as the MIME scanner reads them.
fn status_part(text: &str) -> parse::DeliveryStatus {
    let mut scanner = sealpost_mime::Scanner::new();
    scanner.push(text.as_bytes());
    let (structure, _) = scanner.finish();
    let root = &structure.root;
    assert!(root.is("multipart", "report"), "{text}");
    let parts = root.children().unwrap();
    assert_eq!(parts.len(), 3);
    let start = text.find("delivery-status\r\nContent-Transfer").unwrap();
    let body = &text[start..];
    let body = &body[body.find("\r\n\r\n").unwrap() + 4..];
    parse::delivery_status(&body.as_bytes()[..body.find("\r\n--=").unwrap()])
}

#[test]
fn a_failure_is_reported_with_the_header() {
    let mut mail = mail(Timestamp::from_seconds(1_700_000_000), 1, &["u@there.example"]);
    mail.envid = Some("QQ314159".to_owned());
    mail.recipients[0].orcpt = Some("rfc822;first@alias.example".to_owned());
    let reports = reports(&mail, MESSAGE, Action::Failed, Some(&refused()));
    let [report] = &reports[..] else { panic!("one report") };
    assert!(report.is_from_null() && report.source == Source::Report && report.is_within_limits());
    assert_eq!(report.recipients[0].address, "1@sender.example");
    let text = text_of(report);
    assert!(text.contains("Subject: secret plans") && !text.contains("The body."), "{text}");
    assert!(text.contains("Auto-Submitted: auto-replied"));
    assert!(text.contains("mx.there.example replied: 550 5.1.1 no such user"));
    let status = status_part(&text);
    assert_eq!(status.envelope_id.as_deref(), Some("QQ314159"));
    let [recipient] = &status.recipients[..] else { panic!("{text}") };
    assert_eq!(recipient.original.as_deref(), Some("first@alias.example"));
    assert_eq!(recipient.recipient, "u@there.example");
    assert_eq!((recipient.action, recipient.status.as_str()), (Some(Action::Failed), "5.1.1"));
    assert_eq!(recipient.remote_mta.as_deref(), Some("mx.there.example"));
    assert_eq!(recipient.diagnostic.as_deref(), Some("550 5.1.1 no such user"));
    // Each line ends with CRLF and has at most 998 bytes.
    assert!(text.split("\r\n").all(|line| line.len() <= 998 && !line.contains(['\r', '\n'])));
}

#[test]
fn the_whole_message_goes_back_if_asked_for_and_small() {
    let mut mail = mail(Timestamp(0), 1, &["u@there.example"]);
    mail.ret = Some(Ret::Full);
    let text = text_of(&reports(&mail, MESSAGE, Action::Failed, Some(&refused()))[0]);
    assert!(text.contains("message/rfc822\r\n") && text.contains("The body."));
    // RFC 3461 §4.3: RET concerns failures.
    let text = text_of(&reports(&mail, MESSAGE, Action::Delayed, Some(&refused()))[0]);
    assert!(!text.contains("The body."));
    let large = [MESSAGE, &b"x".repeat(60_000)].concat();
    let text = text_of(&reports(&mail, &large, Action::Failed, Some(&refused()))[0]);
    assert!(!text.contains("xxxx"));
}

#[test]
fn only_wanted_reports_are_made() {
    let mut sent = mail(Timestamp(0), 1, &["u@there.example"]);
    let count = |mail: &Mail, action| reports(mail, MESSAGE, action, None).len();
    let all = |mail: &Mail| {
        [Action::Failed, Action::Delayed, Action::Delivered, Action::Relayed, Action::Expanded]
            .map(|action| count(mail, action))
    };
    assert_eq!(all(&sent), [1, 1, 0, 0, 0]);
    for (notify, wanted) in [
        (Notify::NEVER, [0, 0, 0, 0, 0]),
        (Notify::SUCCESS, [0, 0, 1, 1, 1]),
        (Notify::FAILURE, [1, 0, 0, 0, 0]),
        (Notify::DELAY.and(Notify::SUCCESS), [0, 1, 1, 1, 1]),
    ] {
        sent.recipients[0].notify = Some(notify);
        assert_eq!(all(&sent), wanted);
    }
    let null = mail(Timestamp(0), 0, &["u@there.example"]);
    assert_eq!(all(&null), [0, 0, 0, 0, 0]);
}

#[test]
fn many_recipients_get_several_reports() {
    let addresses: Vec<String> = (0..2000).map(|n| format!("user-{n}@there.example")).collect();
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    let mail = mail(Timestamp(0), 1, &addresses);
    let long = Failure::at("mx.there.example", Status::new(5, 1, 1), &"no such user ".repeat(500), true);
    let header = [b"X: y\r\n".repeat(30_000), b"\r\n".to_vec()].concat();
    let reports = reports(&mail, &header, Action::Failed, Some(&long));
    assert!(reports.len() > 50 && reports.iter().all(Mail::is_within_limits));
    let named: usize = reports.iter().map(|report| status_part(&text_of(report)).recipients.len()).sum();
    assert_eq!(named, 2000);
}

#[test]
fn hostile_text_stays_in_its_place() {
    let mut mail = mail(Timestamp(0), 1, &["u@there.example"]);
    mail.envid = Some("x\r\nBcc: evil@example.org".to_owned());
    mail.recipients[0].orcpt = Some("rfc822;a@b\r\n\r\nAction: delivered".to_owned());
    let said = format!("550 {}\r\n--=\r\n", "z".repeat(3000));
    let failure = Failure::at("h\r\nX: y", Status::new(5, 0, 0), &said, true);
    let reports = reports(&mail, MESSAGE, Action::Failed, Some(&failure));
    let text = text_of(&reports[0]);
    assert!(
        !text.contains("\r\nBcc:") && !text.contains("\r\nX: y") && !text.contains("\r\nAction: delivered")
    );
    assert_eq!(status_part(&text).recipients.len(), 1);
}

#[test]
fn other_text_in_utf8_uses_the_global_types_too() {
    let plain = mail(Timestamp(0), 1, &["u@there.example"]);
    let (mut of_envid, mut of_orcpt) = (plain.clone(), plain.clone());
    of_envid.envid = Some("ä".to_owned());
    of_orcpt.recipients[0].orcpt = Some("utf-8;用户@例え.example".to_owned());
    let refused_in_utf8 = Failure { text: "550 5.1.1 沒有這個用戶".to_owned(), ..refused() };
    for (mail, failure) in [(&of_envid, &refused()), (&of_orcpt, &refused()), (&plain, &refused_in_utf8)] {
        let text = text_of(&reports(mail, MESSAGE, Action::Failed, Some(failure))[0]);
        assert!(text.contains("Content-Type: message/global-delivery-status"), "{text}");
        let (head, _) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("Content-Transfer-Encoding: 8bit"), "{text}");
    }
    let text = text_of(&reports(&plain, MESSAGE, Action::Failed, Some(&refused()))[0]);
    assert!(text.contains("message/delivery-status") && !text.contains("8bit"), "{text}");
}

#[test]
fn addresses_in_utf8_use_the_global_types() {
    let mail = mail(Timestamp(0), 1, &["用户@例え.example"]);
    let failure = Failure { status: EXPIRED, ..refused() };
    let report = &reports(&mail, MESSAGE, Action::Failed, Some(&failure))[0];
    let text = text_of(report);
    assert!(text.contains("Content-Type: message/global-delivery-status"));
    assert!(text.contains("Final-Recipient: utf-8; 用户@例え.example"));
    assert!(text.contains("message/global-headers"));
    assert!(text.contains("Status: 4.4.7"), "what is given up for its age keeps its class");
    assert!(report.facts.eight_bit && !report.facts.utf8_header);
}
