//! Parameters of MAIL and RCPT: `esmtp-param = esmtp-keyword ["=" esmtp-value]` (RFC 5321 §4.1.2).
//!
//! Each may appear once (RFC 1870 §6, RFC 3461 §4.5). An unknown parameter gets another reply than
//! an invalid value (RFC 5321 §4.1.1.11).

use super::cursor::Cursor;
use crate::types::{
    Body, ForwardPath, Hold, Mail, Misuse, Notify, OriginalRecipient, Rcpt, Return, ReversePath,
};

/// Bytes of ENVID, decoded (RFC 3461 §4.4).
const ENVID_BYTES: usize = 100;
/// Bytes of AUTH, decoded.
const AUTH_BYTES: usize = 500;
/// Bytes of the address in ORCPT, decoded (RFC 3461 §4.2).
const ORCPT_BYTES: usize = 500;

const TWICE: Misuse = Misuse::Arguments("A parameter appears twice");

/// `Mail-parameters`
pub(super) fn mail(from: ReversePath, cursor: &mut Cursor) -> Result<Mail, Misuse> {
    let mut mail = Mail::new(from);
    while let Some((keyword, value)) = parameter(cursor)? {
        match keyword.to_ascii_uppercase().as_str() {
            "SIZE" => once(&mut mail.size, size(value))?,
            "BODY" => once(&mut mail.body, body(value))?,
            "RET" => once(&mut mail.ret, ret(value))?,
            "ENVID" => once(&mut mail.envid, value.and_then(|value| xtext(value, ENVID_BYTES)))?,
            // RFC 6531 §3.4: "it MUST not accept a value".
            "SMTPUTF8" if value.is_some() => return Err(Misuse::Arguments("SMTPUTF8 has no value")),
            "SMTPUTF8" if mail.utf8 => return Err(TWICE),
            "SMTPUTF8" => mail.utf8 = true,
            "AUTH" => once(&mut mail.auth, auth(value))?,
            // RFC 8689 §3: "without any value".
            "REQUIRETLS" if value.is_some() => return Err(Misuse::Arguments("REQUIRETLS has no value")),
            "REQUIRETLS" if mail.require_tls => return Err(TWICE),
            "REQUIRETLS" => mail.require_tls = true,
            // RFC 4865 §5: one of the two at most.
            "HOLDFOR" => once(&mut mail.hold, hold_for(value))?,
            "HOLDUNTIL" => once(&mut mail.hold, hold_until(value))?,
            _ => return Err(Misuse::Parameter),
        }
    }
    Ok(mail)
}

/// `Rcpt-parameters`
pub(super) fn rcpt(to: ForwardPath, cursor: &mut Cursor) -> Result<Rcpt, Misuse> {
    let mut rcpt = Rcpt::new(to);
    while let Some((keyword, value)) = parameter(cursor)? {
        match keyword.to_ascii_uppercase().as_str() {
            "NOTIFY" => once(&mut rcpt.notify, notify(value))?,
            "ORCPT" => once(&mut rcpt.orcpt, orcpt(value))?,
            _ => return Err(Misuse::Parameter),
        }
    }
    Ok(rcpt)
}

fn once<T>(slot: &mut Option<T>, value: Option<T>) -> Result<(), Misuse> {
    let value = value.ok_or(Misuse::Arguments("A parameter has a wrong value"))?;
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(TWICE),
    }
}

/// The next parameter; `None` at the end of the line.
fn parameter<'a>(cursor: &mut Cursor<'a>) -> Result<Option<(&'a str, Option<&'a str>)>, Misuse> {
    if cursor.is_empty() {
        return Ok(None);
    }
    let wrong = Misuse::Arguments("Parameters are KEYWORD=value, with spaces between them");
    if cursor.spaces() == 0 {
        return Err(wrong);
    }
    let keyword = cursor.take_while(|c| c.is_ascii_alphanumeric() || c == '-');
    if keyword.is_empty() || keyword.starts_with('-') {
        return Err(wrong);
    }
    if cursor.tag("=").is_none() {
        return Ok(Some((keyword, None)));
    }
    // esmtp-value = 1*(%d33-60 / %d62-126), with UTF8-non-ascii by RFC 6531 §3.3.
    let value = cursor.take_while(|c| c > ' ' && c != '=');
    if value.is_empty() { Err(wrong) } else { Ok(Some((keyword, Some(value)))) }
}

/// `size-value = 1*20DIGIT` (RFC 1870 §3); a number that does not fit is larger than any limit.
fn size(value: Option<&str>) -> Option<u64> {
    let digits = value?;
    let valid = digits.len() <= 20 && digits.bytes().all(|b| b.is_ascii_digit());
    valid.then(|| digits.parse().unwrap_or(u64::MAX))
}

/// `body-value = "7BIT" / "8BITMIME" / "BINARYMIME"` (RFC 3030 §3)
fn body(value: Option<&str>) -> Option<Body> {
    match value?.to_ascii_uppercase().as_str() {
        "7BIT" => Some(Body::SevenBit),
        "8BITMIME" => Some(Body::EightBitMime),
        "BINARYMIME" => Some(Body::BinaryMime),
        _ => None,
    }
}

/// `"FULL" / "HDRS"` (RFC 3461 §4.3)
fn ret(value: Option<&str>) -> Option<Return> {
    match value?.to_ascii_uppercase().as_str() {
        "FULL" => Some(Return::Full),
        "HDRS" => Some(Return::Headers),
        _ => None,
    }
}

/// `AUTH=` xtext of an address, or `<>` (RFC 4954 §5).
fn auth(value: Option<&str>) -> Option<String> {
    match value? {
        "<>" => Some(String::new()),
        value => xtext(value, AUTH_BYTES).filter(|address| !address.is_empty()),
    }
}

/// `future-release-integer = 1*9DIGIT` (RFC 4865 §5), not zero.
fn hold_for(value: Option<&str>) -> Option<Hold> {
    let digits = value?;
    let valid = digits.len() <= 9 && digits.bytes().all(|b| b.is_ascii_digit());
    let seconds = valid.then(|| digits.parse().ok()).flatten()?;
    (seconds > 0).then_some(Hold::For(seconds))
}

/// `future-release-date-time = date-time` (RFC 4865 §5, RFC 3339 §5.6).
fn hold_until(value: Option<&str>) -> Option<Hold> {
    super::date_time::parse(value?).map(Hold::Until)
}

/// `notify-esmtp-value = "NEVER" / 1#( "SUCCESS" / "FAILURE" / "DELAY" )` (RFC 3461 §4.1)
fn notify(value: Option<&str>) -> Option<Notify> {
    let value = value?.to_ascii_uppercase();
    if value == "NEVER" {
        return Some(Notify::Never);
    }
    let (mut success, mut failure, mut delay) = (false, false, false);
    for word in value.split(',') {
        match word {
            "SUCCESS" => success = true,
            "FAILURE" => failure = true,
            "DELAY" => delay = true,
            _ => return None,
        }
    }
    Some(Notify::On { success, failure, delay })
}

/// `original-recipient-address = addr-type ";" xtext` (RFC 3461 §4.2)
fn orcpt(value: Option<&str>) -> Option<OriginalRecipient> {
    let (kind, address) = value?.split_once(';')?;
    let valid = !kind.is_empty() && kind.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    valid.then_some(())?;
    Some(OriginalRecipient { kind: kind.to_owned(), address: xtext(address, ORCPT_BYTES)? })
}

/// `xtext = *( xchar / "+" 2HEXDIG )` (RFC 3461 §4); the decoded text must be printable (§4.2,
/// §4.4).
fn xtext(text: &str, longest: usize) -> Option<String> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'+' => {
                let (high, low) = (upper_hex(bytes.next()?)?, upper_hex(bytes.next()?)?);
                high << 4 | low
            }
            _ => byte,
        });
    }
    String::from_utf8(decoded)
        .ok()
        .filter(|text| text.len() <= longest && !text.chars().any(char::is_control))
}

/// RFC 3461 §4: "two upper case hexadecimal digits"; the server has to refuse any others (§5.1).
fn upper_hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}
