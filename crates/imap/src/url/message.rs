//! `icommand = imessagepart [iurlauth]`: mailbox, UID, section, partial, authorization (RFC 5092 §6, §11).

use std::num::NonZeroU32;

use sealpost_base::Timestamp;

use super::{Access, ImapUrl, InvalidUrl, UrlAuth, UrlToken, decoded, path};
use crate::parse::{self, Cursor};
use crate::types::{Date, DateTime, Mailbox, Partial, Section};

/// The parameters, in the order in which they may stand.
const NAMES: [&str; 6] = ["UIDVALIDITY", "UID", "SECTION", "PARTIAL", "EXPIRE", "URLAUTH"];
const UIDVALIDITY: usize = 0;
const UID: usize = 1;
const SECTION: usize = 2;
const PARTIAL: usize = 3;
const EXPIRE: usize = 4;
const URLAUTH: usize = 5;

/// `enc-mailbox [uidvalidity] iuid [isection] [ipartial] [iurlauth]`; `path` begins with `/`.
pub(super) fn parse(path: &str) -> Result<ImapUrl, InvalidUrl> {
    if path.contains(['[', ']']) {
        return Err(InvalidUrl("the URL has characters that must be encoded"));
    }
    let resolved = path::resolved(path);
    let mut parts = resolved.split(';');
    let mut before = parts.next().unwrap_or_default().strip_prefix('/').unwrap_or_default();
    let mut values: [Option<&str>; NAMES.len()] = [None; NAMES.len()];
    let mut mailbox = None;
    let mut last = None;
    for part in parts {
        let (name, value) = part.split_once('=').ok_or(InvalidUrl("a parameter has no value"))?;
        let which = NAMES.iter().position(|known| known.eq_ignore_ascii_case(name));
        let which = which.filter(|which| last.is_none_or(|last| *which > last));
        let which = which.ok_or(InvalidUrl("a parameter is not known, or out of place"))?;
        // "/" comes before those that go further down: iuid, isection, ipartial.
        let ended = match (which, before.strip_suffix('/')) {
            (UID | SECTION | PARTIAL, Some(ended)) => ended,
            (UIDVALIDITY | EXPIRE | URLAUTH, None) => before,
            _ => return Err(InvalidUrl("a parameter is out of place")),
        };
        match last {
            None => mailbox = Some(ended),
            Some(last) => values[last] = Some(ended),
        }
        (last, before) = (Some(which), value);
    }
    let last = last.ok_or(InvalidUrl("the URL names no message"))?;
    values[last] = Some(before);
    let name = decoded(mailbox.unwrap_or_default())?;
    let mailbox = Mailbox::new(&name).map_err(|_| InvalidUrl("the mailbox cannot be one"))?;
    if mailbox.as_str().is_empty() {
        return Err(InvalidUrl("the URL names no mailbox"));
    }
    let uid = values[UID].ok_or(InvalidUrl("the URL names no message"))?;
    let auth = match (values[URLAUTH], values[EXPIRE]) {
        // With dot segments, the resolved URL would differ from the signed one.
        (Some(_), _) if resolved != path => return Err(InvalidUrl("dot segments in an authorized URL")),
        (Some(auth), expire) => Some(authorization(path.len(), auth, expire)?),
        (None, Some(_)) => return Err(InvalidUrl("EXPIRE without URLAUTH")),
        (None, None) => None,
    };
    Ok(ImapUrl {
        server: None,
        mailbox,
        uid_validity: values[UIDVALIDITY].map(number).transpose()?,
        uid: number(uid)?,
        section: values[SECTION].map(section).transpose()?.unwrap_or_default(),
        partial: values[PARTIAL].map(partial).transpose()?,
        auth,
    })
}

/// `nz-number`
fn number(text: &str) -> Result<NonZeroU32, InvalidUrl> {
    digits(text)?.parse().map_err(|_| InvalidUrl("a number is out of range"))
}

fn digits(text: &str) -> Result<&str, InvalidUrl> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        Ok(text)
    } else {
        Err(InvalidUrl("a number is missing"))
    }
}

/// `enc-section`: a percent-encoded `section-spec` (RFC 3501 §9).
fn section(text: &str) -> Result<Section, InvalidUrl> {
    let spec = format!("[{}]", decoded(text)?);
    let mut cursor = Cursor::new(spec.as_bytes(), true);
    match parse::section(&mut cursor) {
        Ok(section) if cursor.rest().is_empty() && section != Section::default() => Ok(section),
        _ => Err(InvalidUrl("the URL's section is malformed")),
    }
}

/// `partial-range = number ["." nz-number]`
fn partial(text: &str) -> Result<Partial, InvalidUrl> {
    let wrong = InvalidUrl("a number is out of range");
    let (start, count) = text.split_once('.').map_or((text, None), |(start, count)| (start, Some(count)));
    let start = digits(start)?.parse().map_err(|_| wrong)?;
    match count {
        None => Ok(Partial { start, count: u64::MAX }),
        Some(count) => match digits(count)?.parse() {
            Ok(count @ 1..) => Ok(Partial { start, count }),
            _ => Err(wrong),
        },
    }
}

/// `iurlauth-rump = [expire] ";URLAUTH=" access`, `iua-verifier = ":" uauth-mechanism ":"
/// enc-urlauth`; it ends at `end`.
fn authorization(end: usize, text: &str, expire: Option<&str>) -> Result<UrlAuth, InvalidUrl> {
    let (access, verifier) = match text.split_once(':') {
        Some((access, verifier)) => (access, Some(verifier)),
        None => (text, None),
    };
    let rump = end - verifier.map_or(0, |verifier| verifier.len() + 1);
    Ok(UrlAuth {
        expire: expire.map(moment).transpose()?,
        access: self::access(access)?,
        rump,
        token: verifier.map(token).transpose()?,
    })
}

/// `access = ("submit+" enc-user) / ("user+" enc-user) / "authuser" / "anonymous"` (RFC 4467 §9). A
/// user may have `+` in its name (`enc-user = 1*achar`, RFC 5092 §11). A plain `@` is not in that
/// grammar, but clients and Dovecot write it, and it is unambiguous: the token is made for the
/// bytes as they are.
fn access(text: &str) -> Result<Access, InvalidUrl> {
    let wrong = InvalidUrl("the access identifier is malformed");
    let user = |encoded: &str| match decoded(encoded)? {
        user if user.is_empty() || encoded.contains('/') => Err(wrong),
        user => Ok(user),
    };
    match text.split_once('+') {
        Some((kind, name)) if kind.eq_ignore_ascii_case("user") => user(name).map(Access::User),
        Some((kind, name)) if kind.eq_ignore_ascii_case("submit") => user(name).map(Access::Submit),
        None if text.eq_ignore_ascii_case("authuser") => Ok(Access::AuthUser),
        None if text.eq_ignore_ascii_case("anonymous") => Ok(Access::Anonymous),
        _ => Err(wrong),
    }
}

fn token(text: &str) -> Result<UrlToken, InvalidUrl> {
    let wrong = InvalidUrl("the token is malformed");
    let (mechanism, hex) = text.split_once(':').ok_or(wrong)?;
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let token: Option<Vec<u8>> = hex
        .as_bytes()
        .chunks(2)
        .map(|pair| match pair {
            [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
            _ => None,
        })
        .collect();
    let named = !mechanism.is_empty()
        && mechanism.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'));
    match token {
        Some(token) if named && token.len() >= 16 => {
            Ok(UrlToken { mechanism: mechanism.to_ascii_uppercase(), token })
        }
        _ => Err(wrong),
    }
}

/// `date-time` of RFC 3339 §5.6: `2026-11-20T12:00:00Z`
fn moment(text: &str) -> Result<Timestamp, InvalidUrl> {
    let wrong = InvalidUrl("EXPIRE is not a time");
    let text = decoded(text)?.to_ascii_uppercase();
    read_moment(&text).ok_or(wrong)
}

fn read_moment(text: &str) -> Option<Timestamp> {
    let number = |from: usize, to: usize| {
        let digits = text.get(from..to)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<u16>().ok())?
    };
    let small = |from: usize| number(from, from + 2).and_then(|n| u8::try_from(n).ok());
    let marks = [(4, "-"), (7, "-"), (10, "T"), (13, ":"), (16, ":")];
    if !marks.iter().all(|(at, mark)| text.get(*at..at + 1) == Some(*mark)) {
        return None;
    }
    let mut zone = text.get(19..)?;
    if let Some(fraction) = zone.strip_prefix('.') {
        zone = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
        if zone.len() == fraction.len() {
            return None;
        }
    }
    let zone = match (zone, zone.as_bytes()) {
        ("Z", _) => 0,
        (_, [sign @ (b'+' | b'-'), _, _, b':', _, _]) => {
            let at = text.len() - 5;
            let (hours, minutes) = (small(at)?, small(at + 3)?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            let minutes = i16::from(hours) * 60 + i16::from(minutes);
            if *sign == b'-' { -minutes } else { minutes }
        }
        _ => return None,
    };
    let date = Date::new(number(0, 4)?, small(5)?, small(8)?)?;
    Some(DateTime::new(date, small(11)?, small(14)?, small(17)?, zone)?.timestamp())
}
