//! [`Reply`] and [`Command`] → bytes.

use bytes::{BufMut, BytesMut};
use sealpost_base::calendar::civil_from_days;

use crate::types::{
    Body, Chunk, Command, HOLD_SECONDS, Hello, Hold, Mail, Notify, Rcpt, Reply, Return, Secret, Verb,
};

/// Bytes of one reply line, CRLF included (RFC 5321 §4.5.3.1.5).
const REPLY_LINE_BYTES: usize = 512;

/// Appends a reply, every line of it with its code and enhanced code (RFC 5321 §4.2.1, RFC 2034 §4).
///
/// Text that could break a line or is not ASCII becomes `?`; a line too long is cut.
pub fn reply(reply: &Reply, out: &mut BytesMut) {
    let last = reply.lines.len().saturating_sub(1);
    for (i, text) in reply.lines.iter().enumerate() {
        let start = out.len();
        out.put_slice(reply.code.to_string().as_bytes());
        out.put_u8(if i == last { b' ' } else { b'-' });
        if let Some(enhanced) = reply.enhanced {
            out.put_slice(enhanced.to_string().as_bytes());
            out.put_u8(b' ');
        }
        let room = REPLY_LINE_BYTES - 2 - (out.len() - start);
        let printable = |c: char| if matches!(c, ' '..='~') { c as u8 } else { b'?' };
        out.extend(text.chars().take(room).map(printable));
        out.put_slice(b"\r\n");
    }
}

/// Appends a command with its CRLF, as a client sends it. Control characters in free text are left
/// out, so that one command never becomes two.
pub fn command(command: &Command, out: &mut BytesMut) {
    let mut line = match command {
        Command::Hello(hello) => self::hello(hello),
        Command::Mail(mail) => self::mail(mail),
        Command::Rcpt(rcpt) => self::rcpt(rcpt),
        Command::Data => "DATA".into(),
        Command::Bdat(chunk) => bdat(*chunk),
        Command::Burl(burl) => format!("BURL {}{}", burl.url, if burl.last { " LAST" } else { "" }),
        Command::Rset => "RSET".into(),
        Command::Noop => "NOOP".into(),
        Command::Quit => "QUIT".into(),
        Command::Vrfy(what) => format!("VRFY {what}"),
        Command::Expn(what) => format!("EXPN {what}"),
        Command::Help(None) => "HELP".into(),
        Command::Help(Some(topic)) => format!("HELP {topic}"),
        Command::StartTls => "STARTTLS".into(),
        Command::Auth(auth) => match &auth.initial {
            Some(initial) => format!("AUTH {} {}", auth.mechanism, initial.expose()),
            None => format!("AUTH {}", auth.mechanism),
        },
    };
    line.retain(|c| !c.is_control() || c == '\t');
    out.put_slice(line.as_bytes());
    out.put_slice(b"\r\n");
}

/// Appends a line of an authentication exchange: base64, or `*`, which cancels it (RFC 4954 §4).
/// Other characters are left out, so that it never becomes two lines.
pub fn auth_response(response: &Secret, out: &mut BytesMut) {
    let allowed = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=' | b'*');
    out.extend(response.expose().bytes().filter(allowed));
    out.put_slice(b"\r\n");
}

fn hello(hello: &Hello) -> String {
    let verb = match hello.verb {
        Verb::Helo => "HELO",
        Verb::Ehlo => "EHLO",
        Verb::Lhlo => "LHLO",
    };
    format!("{verb} {}", hello.name)
}

fn mail(mail: &Mail) -> String {
    let mut line = format!("MAIL FROM:<{}>", mail.from);
    if let Some(size) = mail.size {
        line += &format!(" SIZE={size}");
    }
    line += match mail.body {
        None => "",
        Some(Body::SevenBit) => " BODY=7BIT",
        Some(Body::EightBitMime) => " BODY=8BITMIME",
        Some(Body::BinaryMime) => " BODY=BINARYMIME",
    };
    if mail.utf8 {
        line += " SMTPUTF8";
    }
    line += match mail.ret {
        None => "",
        Some(Return::Full) => " RET=FULL",
        Some(Return::Headers) => " RET=HDRS",
    };
    if let Some(envid) = mail.envid.as_deref().filter(|envid| !envid.is_empty()) {
        line += &format!(" ENVID={}", xtext(envid));
    }
    match mail.auth.as_deref() {
        None => {}
        Some("") => line += " AUTH=<>",
        Some(address) => line += &format!(" AUTH={}", xtext(address)),
    }
    if mail.require_tls {
        line += " REQUIRETLS";
    }
    match mail.hold {
        None => {}
        Some(Hold::For(seconds)) => line += &format!(" HOLDFOR={}", seconds.min(HOLD_SECONDS)),
        Some(Hold::Until(seconds)) => line += &format!(" HOLDUNTIL={}", date_time(seconds)),
    }
    line
}

fn rcpt(rcpt: &Rcpt) -> String {
    let mut line = format!("RCPT TO:<{}>", rcpt.to);
    match rcpt.notify {
        None => {}
        Some(Notify::Never) => line += " NOTIFY=NEVER",
        Some(Notify::On { success, failure, delay }) => {
            let words = [(success, "SUCCESS"), (failure, "FAILURE"), (delay, "DELAY")];
            let words: Vec<_> = words.iter().filter(|(on, _)| *on).map(|(_, word)| *word).collect();
            line += &format!(" NOTIFY={}", words.join(","));
        }
    }
    if let Some(orcpt) = &rcpt.orcpt {
        line += &format!(" ORCPT={};{}", orcpt.kind, xtext(&orcpt.address));
    }
    line
}

fn bdat(chunk: Chunk) -> String {
    format!("BDAT {}{}", chunk.size, if chunk.last { " LAST" } else { "" })
}

/// `date-time` of RFC 3339 §5.6 in UTC.
pub fn date_time(seconds: i64) -> String {
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil_from_days(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// `xtext` (RFC 3461 §4): `+`, `=` and all characters that are not graphic ASCII become `+XX`.
fn xtext(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'!'..=b'~' if !matches!(byte, b'+' | b'=') => out.push(char::from(byte)),
            _ => out += &format!("+{byte:02X}"),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(r: &Reply) -> String {
        let mut out = BytesMut::new();
        reply(r, &mut out);
        String::from_utf8(out.to_vec()).unwrap()
    }

    #[test]
    fn replies() {
        assert_eq!(written(&Reply::new(354, "Go")), "354 Go\r\n");
        let two = Reply::status(250, (2, 0, 0), "one").with_line("two");
        assert_eq!(written(&two), "250-2.0.0 one\r\n250 2.0.0 two\r\n");
    }

    #[test]
    fn no_text_breaks_a_reply() {
        assert_eq!(written(&Reply::new(550, "a\r\nb\0é")), "550 a??b??\r\n");
        let long = written(&Reply::status(550, (5, 1, 1), "x".repeat(5000)));
        assert_eq!(long.len(), 512);
        assert!(long.ends_with("x\r\n"));
    }
}
