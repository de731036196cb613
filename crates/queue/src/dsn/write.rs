//! The text of a report.

use std::fmt::Write as _;

use sealpost_base::{Timestamp, limits};
use sealpost_mime::header::date;

use super::{Action, Report, Reported};
use crate::event::{Failure, printable};

/// Bytes about recipients in one report; more recipients get another report.
pub(super) const RECIPIENTS_BYTES: usize = 16 * 1024;
/// Bytes of the header of the message that a report returns.
const HEADER_BYTES: usize = 24 * 1024;
/// Bytes of an address in a report.
const ADDRESS_BYTES: usize = 1024;

/// As many recipients in each group as fit into a report.
pub(super) fn groups<'a, 'b>(recipients: &'a [Reported<'b>]) -> Vec<&'a [Reported<'b>]> {
    let (mut groups, mut start, mut bytes) = (Vec::new(), 0, 0);
    for (at, reported) in recipients.iter().enumerate() {
        let text = reported.failure.map_or(0, |failure| failure.text.len() + failure.host.len());
        let orcpt = reported.recipient.orcpt.as_ref().map_or(0, String::len);
        // Each recipient appears twice: in the text and in the status part.
        let more = 400 + 2 * (reported.recipient.address.len().min(ADDRESS_BYTES) + text) + orcpt;
        if at > start && bytes + more > RECIPIENTS_BYTES {
            groups.push(&recipients[start..at]);
            (start, bytes) = (at, 0);
        }
        bytes += more;
    }
    if start < recipients.len() {
        groups.push(&recipients[start..]);
    }
    groups
}

pub(super) fn message(report: &Report<'_>, recipients: &[Reported<'_>], action: Action, id: &str) -> Vec<u8> {
    let all = report.returns_all(action);
    let returned = if all { report.message } else { header_of(report.message) };
    // RFC 6533 §4: addresses or a header in UTF-8 need the internationalized parts.
    let is_utf8 = report.mail.facts.utf8_header
        || !report.mail.from.is_ascii()
        || !returned.is_ascii()
        || report.mail.envid.as_ref().is_some_and(|envid| !envid.is_ascii())
        || recipients.iter().any(|reported| !is_ascii(reported));
    let explained = explanation(report, recipients, action);
    let status = status(report, recipients, is_utf8);
    let parts = [explained.as_bytes(), status.as_bytes(), returned];
    let boundary = boundary(&parts, id);
    let (subject, kind) = match action {
        Action::Failed => ("Undelivered mail returned to sender", "failed"),
        Action::Delayed => ("Delayed mail (still being retried)", "delayed"),
        Action::Delivered | Action::Relayed | Action::Expanded => {
            ("Successful mail delivery report", "success")
        }
    };
    let content = match (all, is_utf8) {
        (true, false) => "message/rfc822",
        // RFC 6533 §5.
        (true, true) => "message/global",
        (false, false) => "text/rfc822-headers",
        (false, true) => "message/global-headers",
    };
    let status_type = if is_utf8 { "message/global-delivery-status" } else { "message/delivery-status" };
    let encoding = |text: &[u8]| if text.is_ascii() { "7bit" } else { "8bit" };
    let mut text = String::with_capacity(2048 + explained.len() + status.len());
    let _ = write!(
        text,
        "From: Mail Delivery System <MAILER-DAEMON@{host}>\r\n\
         To: <{to}>\r\n\
         Subject: {subject}\r\n\
         Date: {date}\r\n\
         Message-ID: <{id}>\r\n\
         Auto-Submitted: auto-replied ({kind})\r\n\
         MIME-Version: 1.0\r\n\
         Content-Type: multipart/report; report-type=delivery-status;\r\n\tboundary=\"{boundary}\"\r\n\
         Content-Transfer-Encoding: {whole}\r\n\
         \r\n\
         --{boundary}\r\n\
         Content-Type: text/plain; charset=utf-8\r\n\
         Content-Transfer-Encoding: {of_text}\r\n\
         \r\n\
         {explained}\r\n\
         --{boundary}\r\n\
         Content-Description: Delivery report\r\n\
         Content-Type: {status_type}\r\n\
         Content-Transfer-Encoding: {of_status}\r\n\
         \r\n\
         {status}\r\n\
         --{boundary}\r\n\
         Content-Description: {what}\r\n\
         Content-Type: {content}\r\n\
         Content-Transfer-Encoding: {of_returned}\r\n\
         \r\n",
        host = report.host,
        to = plain(&report.mail.from, ADDRESS_BYTES),
        date = date_of(report.now),
        // RFC 2045 §6.4: no part has an encoding that goes beyond that of the whole.
        whole = if parts.iter().all(|part| part.is_ascii()) { "7bit" } else { "8bit" },
        of_text = encoding(explained.as_bytes()),
        of_status = encoding(status.as_bytes()),
        of_returned = encoding(returned),
        what = if all { "Undelivered message" } else { "Header of the message" },
    );
    let mut message = text.into_bytes();
    message.extend_from_slice(returned);
    if !returned.ends_with(b"\r\n") {
        message.extend_from_slice(b"\r\n");
    }
    message.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    debug_assert!(message.len() <= limits::QUEUE_INLINE_BYTES);
    message
}

/// Whether the addresses of a recipient, and what was said of it, need no internationalized parts.
fn is_ascii(reported: &Reported<'_>) -> bool {
    let Reported { recipient, failure, .. } = reported;
    recipient.address.is_ascii()
        && recipient.orcpt.as_ref().is_none_or(|orcpt| orcpt.is_ascii())
        && failure.is_none_or(|failure| failure.text.is_ascii() && failure.host.is_ascii())
}

/// The text for people.
fn explanation(report: &Report<'_>, recipients: &[Reported<'_>], action: Action) -> String {
    let mut text = format!("This is the mail system at {}.\r\n\r\n", report.host);
    text += match action {
        Action::Failed => {
            "Your message could not be delivered to the recipients below. It is not tried again.\r\n"
        }
        Action::Delayed => {
            "Your message could not be delivered to the recipients below yet. It is tried again; you need not\r\n\
             send it again.\r\n"
        }
        Action::Delivered => "Your message was delivered to the recipients below.\r\n",
        Action::Relayed => {
            "Your message was passed on for the recipients below, to a server that does not report what\r\n\
             becomes of it.\r\n"
        }
        Action::Expanded => {
            "Your message was sent on to the several addresses that each recipient below stands for. If it cannot\r\n\
             be delivered to one of them, you get another report.\r\n"
        }
    };
    if action == Action::Delayed {
        let _ =
            write!(text, "If it cannot be delivered before {}, it is returned.\r\n", date_of(report.expires));
    }
    text += "\r\n";
    for Reported { recipient, failure, .. } in recipients {
        let _ = write!(text, "<{}>", plain(&recipient.address, ADDRESS_BYTES));
        if let Some(failure) = failure {
            let _ = write!(
                text,
                ":\r\n    {}",
                wrapped(&plain(&failure.to_string(), limits::QUEUE_REPLY_BYTES + 80))
            );
        }
        text += "\r\n";
    }
    text
}

/// The status part for programs: `delivery-status-content` (RFC 3464 §2.1).
fn status(report: &Report<'_>, recipients: &[Reported<'_>], is_utf8: bool) -> String {
    let mut text = String::new();
    if let Some(envid) = &report.mail.envid {
        // RFC 3464 §2.2.1.
        let _ = write!(text, "Original-Envelope-Id: {}\r\n", plain(envid, 200));
    }
    let _ = write!(text, "Reporting-MTA: dns; {}\r\n", report.host);
    let _ = write!(text, "Arrival-Date: {}\r\n", date_of(report.mail.accepted));
    for Reported { recipient, action, failure } in recipients {
        text += "\r\n";
        if let Some(orcpt) = &recipient.orcpt {
            let orcpt = plain(orcpt, ADDRESS_BYTES);
            let orcpt = orcpt.split_once(';').unwrap_or(("rfc822", orcpt.as_str()));
            let _ = write!(text, "Original-Recipient: {}; {}\r\n", orcpt.0, orcpt.1);
        }
        let address = plain(&recipient.address, ADDRESS_BYTES);
        // RFC 6533 §3: the address type `utf-8`.
        let kind = if is_utf8 && !address.is_ascii() { "utf-8" } else { "rfc822" };
        let _ = write!(text, "Final-Recipient: {kind}; {address}\r\n");
        let (name, class) = match action {
            Action::Failed => ("failed", 5),
            Action::Delayed => ("delayed", 4),
            Action::Delivered => ("delivered", 2),
            Action::Relayed => ("relayed", 2),
            Action::Expanded => ("expanded", 2),
        };
        let _ = write!(text, "Action: {name}\r\n");
        match failure {
            Some(Failure { status, host, text: said, is_reply }) => {
                // RFC 3463 §2: a failure because the time is over keeps its class 4.
                let class = if *action == Action::Failed && status.class == 4 { 4 } else { class };
                let _ = write!(text, "Status: {class}.{}.{}\r\n", status.subject, status.detail);
                if !host.is_empty() {
                    let _ = write!(text, "Remote-MTA: dns; {}\r\n", plain(host, 255));
                }
                let kind = if *is_reply { "smtp" } else { "x-sealpost" };
                let _ = write!(
                    text,
                    "Diagnostic-Code: {kind}; {}\r\n",
                    folded(&plain(said, limits::QUEUE_REPLY_BYTES))
                );
            }
            None => {
                let _ = write!(text, "Status: {class}.0.0\r\n");
            }
        }
        let _ = write!(text, "Last-Attempt-Date: {}\r\n", date_of(report.now));
        let _ = write!(text, "Final-Log-ID: {}\r\n", report.id);
        if *action == Action::Delayed {
            let _ = write!(text, "Will-Retry-Until: {}\r\n", date_of(report.expires));
        }
    }
    text
}

/// The header of a message, cut after a line.
fn header_of(message: &[u8]) -> &[u8] {
    let end = message.windows(4).position(|end| end == b"\r\n\r\n").map_or(message.len(), |at| at + 2);
    let header = &message[..end];
    if header.len() <= HEADER_BYTES {
        return header;
    }
    let cut = header[..HEADER_BYTES].windows(2).rposition(|end| end == b"\r\n");
    &header[..cut.map_or(0, |at| at + 2)]
}

/// One line of at most `limit` bytes.
fn plain(text: &str, limit: usize) -> String {
    printable(text, limit)
}

/// A field's value in lines of some 76 bytes; a word of more than 900 is cut, for a line has 998
/// (RFC 5322 §2.1.1).
fn folded(text: &str) -> String {
    lines(text, "\r\n\t")
}

/// The same as indented text.
fn wrapped(text: &str) -> String {
    lines(text, "\r\n    ")
}

fn lines(text: &str, end: &str) -> String {
    let (mut out, mut width) = (String::with_capacity(text.len() + 64), 0);
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let word = printable(word, 900);
        if width > 0 && width + 1 + word.len() > 76 {
            out += end;
            width = 0;
        } else if width > 0 {
            out.push(' ');
            width += 1;
        }
        width += word.len();
        out += &word;
    }
    out
}

/// A boundary that no part contains.
fn boundary(parts: &[&[u8]], id: &str) -> String {
    let base: String = id.chars().filter(char::is_ascii_alphanumeric).take(32).collect();
    for number in 0u32.. {
        let boundary = format!("={base}.{number}=");
        let is_in = |part: &&[u8]| part.windows(boundary.len()).any(|some| some == boundary.as_bytes());
        if !parts.iter().any(is_in) {
            return boundary;
        }
    }
    base
}

fn date_of(time: Timestamp) -> String {
    date::format(time.seconds(), 0)
}
