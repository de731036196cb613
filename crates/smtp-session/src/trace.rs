//! The fields put before every message: `Return-Path` and `Received` (RFC 5321 §4.4).

use std::net::IpAddr;

use sealpost_base::Timestamp;
use sealpost_base::calendar::civil_from_days;
use sealpost_smtp::types::{ClientName, ForwardPath, ReversePath, Verb};

use sealpost_session::net::TlsInfo;

/// The content of the fields.
pub(super) struct Trace<'a> {
    pub(super) from: &'a ReversePath,
    pub(super) verb: Verb,
    pub(super) name: &'a ClientName,
    pub(super) peer: Option<IpAddr>,
    pub(super) tls: Option<&'a TlsInfo>,
    pub(super) hostname: &'a str,
    /// Whether MAIL had SMTPUTF8.
    pub(super) utf8: bool,
    pub(super) id: &'a str,
    /// The recipient, if there is only one: several would reveal each to the others (RFC 5321 §7.2).
    pub(super) recipient: Option<&'a ForwardPath>,
    pub(super) at: Timestamp,
}

impl Trace<'_> {
    /// Both fields, `Return-Path` first, each with its CRLF.
    pub(super) fn fields(&self) -> Vec<u8> {
        let mut text = format!("Return-Path: <{}>\r\nReceived: from {}\r\n", self.from, self.client());
        text += &format!("\tby {} with {}", self.hostname, self.protocol());
        if let Some(tls) = self.tls {
            text += &format!(" ({} {})", tls.version, tls.cipher);
        }
        text += &format!("\r\n\tid {}", self.id);
        if let Some(recipient) = self.recipient {
            text += &format!("\r\n\tfor <{recipient}>");
        }
        text += &format!(";\r\n\t{}\r\n", date_time(self.at));
        text.into_bytes()
    }

    /// `Extended-Domain = Domain [ FWS "(" TCP-info ")" ] / address-literal FWS "(" TCP-info ")"`.
    /// A name that is neither goes into a comment.
    fn client(&self) -> String {
        let address = match self.peer {
            Some(IpAddr::V4(address)) => Some(format!("[{address}]")),
            Some(IpAddr::V6(address)) => Some(format!("[IPv6:{address}]")),
            None => None,
        };
        match (self.name, address) {
            (ClientName::Host(host), Some(address)) => format!("{host} ({address})"),
            (ClientName::Host(host), None) => format!("{host} (local socket)"),
            (odd @ ClientName::Odd(_), address) => {
                let address = address.unwrap_or_else(|| "localhost".to_owned());
                format!("{address} (HELO {})", comment(&odd.to_string()))
            }
        }
    }

    /// RFC 3848 §1, RFC 6531 §4.3.
    fn protocol(&self) -> &'static str {
        match (self.verb, self.utf8, self.tls.is_some()) {
            (Verb::Helo, false, _) => "SMTP",
            (Verb::Ehlo, false, false) => "ESMTP",
            (Verb::Ehlo, false, true) => "ESMTPS",
            (Verb::Helo | Verb::Ehlo, true, false) => "UTF8SMTP",
            (Verb::Helo | Verb::Ehlo, true, true) => "UTF8SMTPS",
            (Verb::Lhlo, false, false) => "LMTP",
            (Verb::Lhlo, false, true) => "LMTPS",
            (Verb::Lhlo, true, false) => "UTF8LMTP",
            (Verb::Lhlo, true, true) => "UTF8LMTPS",
        }
    }
}

/// The protocol of a submission.
#[derive(Debug, Clone, Copy)]
pub(super) struct With {
    pub(super) tls: bool,
    pub(super) login: bool,
}

/// The Received field of a submitted message. It has no `from`, which would reveal the user's address. RFC
/// 5321 §4.4 wants it of servers, and RFC 6409 §8 leaves trace fields to the site.
pub(super) fn submission_field(hostname: &str, with: With, utf8: bool, id: &str, at: Timestamp) -> Vec<u8> {
    // RFC 3848 §1, RFC 6531 §4.3.
    let protocol = if utf8 { "UTF8SMTP" } else { "ESMTP" };
    let (tls, login) = (if with.tls { "S" } else { "" }, if with.login { "A" } else { "" });
    let date = date_time(at);
    format!("Received: by {hostname} with {protocol}{tls}{login}\r\n\tid {id};\r\n\t{date}\r\n").into_bytes()
}

/// `ccontent` (RFC 5322 §3.2.2) of graphic ASCII.
fn comment(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '(' | ')' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// `date-time` (RFC 5322 §3.3) in UTC, with a numeric zone as RFC 5321 §4.4 asks.
fn date_time(at: Timestamp) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let seconds = at.seconds();
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil_from_days(days);
    let weekday = DAYS[usize::try_from(days.rem_euclid(7)).unwrap_or(0)];
    let month = MONTHS[(month as usize - 1) % 12];
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{weekday}, {day} {month} {year:04} {hour:02}:{minute:02}:{second:02} +0000")
}

#[cfg(test)]
mod tests {
    use sealpost_smtp::types::{Host, LocalPart, Mailbox};

    use super::*;

    #[test]
    fn dates() {
        for (seconds, written) in [
            (0, "Thu, 1 Jan 1970 00:00:00 +0000"),
            (951_827_696, "Tue, 29 Feb 2000 12:34:56 +0000"),
            (1_735_689_599, "Tue, 31 Dec 2024 23:59:59 +0000"),
            (4_107_542_400, "Mon, 1 Mar 2100 00:00:00 +0000"),
            (-1, "Wed, 31 Dec 1969 23:59:59 +0000"),
        ] {
            assert_eq!(date_time(Timestamp::from_seconds(seconds)), written);
        }
    }

    fn trace<'a>(name: &'a ClientName, from: &'a ReversePath) -> Trace<'a> {
        Trace {
            from,
            verb: Verb::Ehlo,
            name,
            peer: Some([192, 0, 2, 1].into()),
            tls: None,
            hostname: "mx.example",
            utf8: false,
            id: "abc",
            recipient: None,
            at: Timestamp(0),
        }
    }

    #[test]
    fn fields() {
        let (name, from) = (ClientName::new("client.example").unwrap(), ReversePath::Null);
        let text = String::from_utf8(trace(&name, &from).fields()).unwrap();
        assert_eq!(
            text,
            "Return-Path: <>\r\nReceived: from client.example ([192.0.2.1])\r\n\tby mx.example with ESMTP\r\n\
             \tid abc;\r\n\tThu, 1 Jan 1970 00:00:00 +0000\r\n"
        );
    }

    #[test]
    fn fields_with_everything() {
        let mailbox =
            |local| Mailbox { local: LocalPart::new(local).unwrap(), host: Host::domain("b").unwrap() };
        let (name, from) = (ClientName::new("my_(laptop").unwrap(), ReversePath::Mailbox(mailbox("x y")));
        let tls = TlsInfo { version: "TLSv1.3", cipher: "TLS13_AES_256_GCM_SHA384".into() };
        let to = ForwardPath::Mailbox(mailbox("z"));
        let trace = Trace {
            tls: Some(&tls),
            utf8: true,
            verb: Verb::Lhlo,
            recipient: Some(&to),
            peer: Some("2001:db8::1".parse().unwrap()),
            ..trace(&name, &from)
        };
        assert_eq!(
            String::from_utf8(trace.fields()).unwrap(),
            "Return-Path: <\"x y\"@b>\r\nReceived: from [IPv6:2001:db8::1] (HELO my_\\(laptop)\r\n\
             \tby mx.example with UTF8LMTPS (TLSv1.3 TLS13_AES_256_GCM_SHA384)\r\n\tid abc\r\n\tfor <z@b>;\r\n\
             \tThu, 1 Jan 1970 00:00:00 +0000\r\n"
        );
    }
}
