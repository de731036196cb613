//! Command lines → [`Command`]. The ABNF stands above each parser.
//!
//! Tolerated beyond the grammar, because real clients do it and nothing becomes ambiguous: white space at the
//! end of a line (RFC 5321 §4.1.1 asks for that), spaces after `FROM:` and `TO:`, and local parts such as
//! `a..b@example.org`, which are taken as if they had been quoted.

mod cursor;
mod date_time;
mod parameters;
mod path;
mod reply;

#[cfg(test)]
mod tests;

use cursor::Cursor;

pub use reply::{ReplyDecoder, ReplyError};

use crate::types::{Auth, Burl, Chunk, ClientName, Command, Hello, Misuse, ReversePath, Secret, Verb};

/// Parses one command line without its CRLF.
///
/// # Errors
/// The kind of error; [`Misuse::reply`] is the answer.
pub fn command(line: &[u8]) -> Result<Command, Misuse> {
    // RFC 6531 §3.3 allows UTF-8; control characters appear in no command.
    let line = std::str::from_utf8(line).map_err(|_| Misuse::Characters)?;
    if line.chars().any(|c| c.is_control() && c != '\t') {
        return Err(Misuse::Characters);
    }
    let line = line.trim_end_matches([' ', '\t']);
    let (verb, rest) = match line.find(' ') {
        Some(space) => (&line[..space], Some(&line[space + 1..])),
        None => (line, None),
    };
    // RFC 5321 §2.4: verbs are not case sensitive.
    match verb.to_ascii_uppercase().as_str() {
        "EHLO" => hello(Verb::Ehlo, rest),
        "HELO" => hello(Verb::Helo, rest),
        "LHLO" => hello(Verb::Lhlo, rest),
        "MAIL" => mail(rest.unwrap_or_default()),
        "RCPT" => rcpt(rest.unwrap_or_default()),
        "DATA" => alone(Command::Data, rest),
        "BDAT" => bdat(rest.unwrap_or_default()),
        "BURL" => burl(rest.unwrap_or_default()),
        "RSET" => alone(Command::Rset, rest),
        // RFC 5321 §4.1.1.9: an argument SHOULD be ignored.
        "NOOP" => Ok(Command::Noop),
        "QUIT" => alone(Command::Quit, rest),
        "VRFY" => string(rest).map(Command::Vrfy),
        "EXPN" => string(rest).map(Command::Expn),
        "HELP" => Ok(Command::Help(rest.map(str::to_owned))),
        "STARTTLS" => alone(Command::StartTls, rest),
        "AUTH" => auth(rest.unwrap_or_default()),
        "TURN" | "ATRN" | "ETRN" | "SEND" | "SOML" | "SAML" => Err(Misuse::NotImplemented),
        _ => Err(Misuse::Unrecognized),
    }
}

/// The digits of the size in a BDAT line that is otherwise wrong: the server has to skip its bytes all the
/// same (RFC 3030 §2). `None` if the line is no BDAT or has no size.
pub(crate) fn bdat_digits(line: &[u8]) -> Option<&str> {
    let (verb, rest) = line.split_at_checked(4)?;
    if !verb.eq_ignore_ascii_case(b"BDAT") {
        return None;
    }
    let blank = rest.iter().take_while(|b| matches!(b, b' ' | b'\t')).count();
    let digits = rest[blank..].iter().take_while(|b| b.is_ascii_digit()).count();
    std::str::from_utf8(&rest[blank..blank + digits]).ok().filter(|digits| blank > 0 && !digits.is_empty())
}

/// Commands that "SHOULD reject parameters" (RFC 5321 §4.1.1).
fn alone(command: Command, rest: Option<&str>) -> Result<Command, Misuse> {
    match rest {
        None => Ok(command),
        Some(_) => Err(Misuse::Arguments("This command has no arguments")),
    }
}

/// `ehlo = "EHLO" SP ( Domain / address-literal ) CRLF`
fn hello(verb: Verb, rest: Option<&str>) -> Result<Command, Misuse> {
    let name = rest.map(str::trim).and_then(ClientName::new);
    let name = name.ok_or(Misuse::Arguments("Give the name of your host"))?;
    Ok(Command::Hello(Hello { verb, name }))
}

/// `mail = "MAIL FROM:" Reverse-path [SP Mail-parameters] CRLF`
fn mail(rest: &str) -> Result<Command, Misuse> {
    let mut cursor = Cursor::new(rest);
    cursor.keyword("FROM:").ok_or(Misuse::Arguments("MAIL FROM:<address> is the form"))?;
    cursor.spaces();
    let from = match cursor.tag("<>") {
        Some(()) => ReversePath::Null,
        None => ReversePath::Mailbox(path::path(&mut cursor).ok_or(Misuse::Sender)?),
    };
    parameters::mail(from, &mut cursor).map(Command::Mail)
}

/// `rcpt = "RCPT TO:" ( "<Postmaster@" Domain ">" / "<Postmaster>" / Forward-path ) [SP
/// Rcpt-parameters] CRLF`
fn rcpt(rest: &str) -> Result<Command, Misuse> {
    let mut cursor = Cursor::new(rest);
    cursor.keyword("TO:").ok_or(Misuse::Arguments("RCPT TO:<address> is the form"))?;
    cursor.spaces();
    let to = path::forward_path(&mut cursor).ok_or(Misuse::Recipient)?;
    parameters::rcpt(to, &mut cursor).map(Command::Rcpt)
}

/// `bdat-cmd = "BDAT" SP chunk-size [ SP "LAST" ] CRLF` (RFC 3030 §2)
fn bdat(rest: &str) -> Result<Command, Misuse> {
    let wrong = Misuse::Arguments("BDAT size [LAST] is the form");
    let mut cursor = Cursor::new(rest);
    cursor.spaces();
    let size = cursor.number().ok_or(wrong)?;
    let last = cursor.spaces() > 0;
    if last {
        cursor.keyword("LAST").ok_or(wrong)?;
    }
    if !cursor.is_empty() {
        return Err(wrong);
    }
    Ok(Command::Bdat(Chunk { size, last }))
}

/// `burl-cmd = "BURL" SP absolute-URI [SP end-marker] CRLF`, `end-marker = "LAST"` (RFC 4468 §3.5)
fn burl(rest: &str) -> Result<Command, Misuse> {
    let wrong = Misuse::Arguments("BURL URL [LAST] is the form");
    let mut words = rest.split(' ').filter(|word| !word.is_empty());
    let url = words.next().filter(|url| url.bytes().all(|b| b.is_ascii_graphic())).ok_or(wrong)?.to_owned();
    let last = match words.next() {
        None => false,
        Some(word) if word.eq_ignore_ascii_case("LAST") => true,
        Some(_) => return Err(wrong),
    };
    match words.next() {
        None => Ok(Command::Burl(Burl { url, last })),
        Some(_) => Err(wrong),
    }
}

/// `String = Atom / Quoted-string`, or any other text: clients send addresses too.
fn string(rest: Option<&str>) -> Result<String, Misuse> {
    let text = rest.unwrap_or_default().trim();
    if text.is_empty() {
        return Err(Misuse::Arguments("This command needs an argument"));
    }
    Ok(text.to_owned())
}

/// `auth-command = "AUTH" SP sasl-mech [SP initial-response]` (RFC 4954 §8)
fn auth(rest: &str) -> Result<Command, Misuse> {
    let mut words = rest.split(' ').filter(|word| !word.is_empty());
    let mechanism = words.next().filter(|name| name.len() <= 20 && name.bytes().all(is_mechanism_char));
    let mechanism = mechanism.ok_or(Misuse::Arguments("AUTH mechanism is the form"))?.to_ascii_uppercase();
    let initial = words.next().map(Secret::new);
    if words.next().is_some() {
        return Err(Misuse::Arguments("AUTH has at most two arguments"));
    }
    Ok(Command::Auth(Auth { mechanism, initial }))
}

/// `sasl-char` (RFC 4422 §3.1)
fn is_mechanism_char(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_')
}
