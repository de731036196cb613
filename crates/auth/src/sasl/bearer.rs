//! Messages of OAUTHBEARER (RFC 7628) and its forerunner XOAUTH2: an app password of the account
//! (`sealpost account app-password add`), or an access token of the authorization server (crate
//! `oauth`), as a bearer token.
//!
//! A token says of which account it is, so that a name need not be given with it.

use sealpost_vault::slot::account_of_app_password;
use zeroize::Zeroizing;

use super::Credentials;
use crate::grant_token::is_access_token;

/// The mechanisms with bearer tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// RFC 7628.
    OAuthBearer,
    /// Google's predecessor.
    XOAuth2,
}

/// Why a message is refused before its token is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// It is malformed.
    Syntax,
    /// It requests an unsupported feature.
    Request,
    /// It has no bearer token, or one of a wrong form.
    NoToken,
    /// Its token is not for mail.
    Scope,
}

/// `{"status":"invalid_token","schemes":"bearer"}` (RFC 7628 §3.2.2, RFC 6750 §3.1)
const INVALID_TOKEN: &str = "eyJzdGF0dXMiOiJpbnZhbGlkX3Rva2VuIiwic2NoZW1lcyI6ImJlYXJlciJ9";
/// `{"status":"invalid_request","schemes":"bearer"}`
const INVALID_REQUEST: &str = "eyJzdGF0dXMiOiJpbnZhbGlkX3JlcXVlc3QiLCJzY2hlbWVzIjoiYmVhcmVyIn0=";
/// `{"status":"insufficient_scope","scope":"urn:ietf:params:oauth:scope:mail"}`
const INSUFFICIENT_SCOPE: &str =
    "eyJzdGF0dXMiOiJpbnN1ZmZpY2llbnRfc2NvcGUiLCJzY29wZSI6InVybjppZXRmOnBhcmFtczpvYXV0aDpzY29wZTptYWlsIn0=";
/// `{"status":"401","schemes":"bearer","scope":"mail"}`: what XOAUTH2 clients know.
const STATUS_401: &str = "eyJzdGF0dXMiOiI0MDEiLCJzY2hlbWVzIjoiYmVhcmVyIiwic2NvcGUiOiJtYWlsIn0=";
/// `{"status":"400","schemes":"bearer","scope":"mail"}`
const STATUS_400: &str = "eyJzdGF0dXMiOiI0MDAiLCJzY2hlbWVzIjoiYmVhcmVyIiwic2NvcGUiOiJtYWlsIn0=";

/// Separates the parts of a message (RFC 7628 §3.1).
const SEPARATOR: u8 = 1;

impl Mechanism {
    /// The mechanism with that name in capitals.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "OAUTHBEARER" => Some(Mechanism::OAuthBearer),
            "XOAUTH2" => Some(Mechanism::XOAuth2),
            _ => None,
        }
    }

    /// Name and token of a message; the name is empty if only the token knows it. `server_name` is the server's name in the client's TLS
    /// handshake: the message must not contradict it (RFC 7628 §3.2).
    ///
    /// # Errors
    /// Why it is refused; [`Mechanism::challenge`] reports it to the client, except for `Syntax`.
    pub fn read(self, message: &[u8], server_name: Option<&str>) -> Result<Credentials, Wrong> {
        match self {
            Mechanism::OAuthBearer => oauthbearer(message, server_name),
            Mechanism::XOAuth2 => xoauth2(message),
        }
    }

    /// The name in a message, if any; for the log only.
    pub fn name_in(self, message: &[u8]) -> Option<String> {
        match self {
            Mechanism::OAuthBearer => gs2_name(split(message, SEPARATOR)?.0).ok()?,
            Mechanism::XOAuth2 => {
                let user = split(message, SEPARATOR)?.0.strip_prefix(b"user=")?;
                Some(String::from_utf8_lossy(user).into_owned())
            }
        }
    }

    /// The error that the server sends as a challenge, in base64, before the exchange fails (RFC 7628
    /// §3.2.3).
    pub fn challenge(self, wrong: Wrong) -> &'static str {
        match (self, wrong) {
            (Mechanism::OAuthBearer, Wrong::NoToken) => INVALID_TOKEN,
            (Mechanism::OAuthBearer, Wrong::Scope) => INSUFFICIENT_SCOPE,
            (Mechanism::OAuthBearer, _) => INVALID_REQUEST,
            (Mechanism::XOAuth2, Wrong::NoToken | Wrong::Scope) => STATUS_401,
            (Mechanism::XOAuth2, _) => STATUS_400,
        }
    }
}

/// `client-resp = (gs2-header kvsep *kvpair kvsep) / kvsep` (RFC 7628 §3.1)
///
/// `server_name` is the server name from the client's TLS handshake, which `host` must not contradict (RFC
/// 7628 §3.2). `port` is not checked, since a proxy may forward connections.
fn oauthbearer(message: &[u8], server_name: Option<&str>) -> Result<Credentials, Wrong> {
    if message == [SEPARATOR] {
        return Err(Wrong::Request);
    }
    let (header, rest) = split(message, SEPARATOR).ok_or(Wrong::Syntax)?;
    let name = gs2_name(header)?;
    let (mut auth, mut host) = (None, None);
    for (key, value) in pairs(rest)? {
        match key {
            b"auth" if auth.is_some() => return Err(Wrong::Syntax),
            b"auth" => auth = Some(value),
            b"host" => host = Some(value),
            // RFC 7628 §3.1: ignore unknown keys.
            _ => {}
        }
    }
    if let (Some(host), Some(server_name)) = (host, server_name)
        && !host.eq_ignore_ascii_case(server_name.as_bytes())
    {
        return Err(Wrong::Request);
    }
    let secret = bearer(auth.ok_or(Wrong::Request)?)?;
    // An access token is sealed: whose it is turns out when it is checked.
    let of_token = || is_access_token(&secret).then(String::new).or_else(|| account_of_app_password(&secret));
    let name = name.or_else(of_token).ok_or(Wrong::NoToken)?;
    Ok(Credentials { name, secret })
}

/// `"user=" name kvsep "auth=Bearer " token kvsep kvsep`
fn xoauth2(message: &[u8]) -> Result<Credentials, Wrong> {
    let (mut user, mut auth) = (None, None);
    for (key, value) in pairs(message)? {
        match key {
            b"user" => user = Some(value),
            b"auth" => auth = Some(value),
            _ => {}
        }
    }
    let (Some(user), Some(auth)) = (user, auth) else { return Err(Wrong::Syntax) };
    let name = String::from_utf8_lossy(user).into_owned();
    Ok(Credentials { name, secret: bearer(auth)? })
}

/// `gs2-header = [gs2-nonstd-flag ","] gs2-cb-flag "," [gs2-authzid] ","` (RFC 5801 §4): the name after `a=`.
fn gs2_name(header: &[u8]) -> Result<Option<String>, Wrong> {
    let (binding, rest) = split(header, b',').ok_or(Wrong::Syntax)?;
    let (name, rest) = split(rest, b',').ok_or(Wrong::Syntax)?;
    if !rest.is_empty() {
        return Err(Wrong::Syntax);
    }
    match binding {
        b"n" | b"y" => {}
        // Channel binding, or a mechanism outside GS2.
        [b'p', b'=', ..] | b"F" => return Err(Wrong::Request),
        _ => return Err(Wrong::Syntax),
    }
    if name.is_empty() {
        return Ok(None);
    }
    let name = name.strip_prefix(b"a=").ok_or(Wrong::Syntax)?;
    let name = std::str::from_utf8(name).map_err(|_| Wrong::Syntax)?;
    // saslname: "," and "=" only as =2C and =3D.
    let mut parts = name.split('=');
    let mut decoded = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (byte, rest) = match part.get(..2) {
            Some("2C") => (',', &part[2..]),
            Some("3D") => ('=', &part[2..]),
            _ => return Err(Wrong::Syntax),
        };
        decoded.push(byte);
        decoded.push_str(rest);
    }
    Ok(Some(decoded))
}

/// Key and value.
type Pair<'a> = (&'a [u8], &'a [u8]);

/// `*kvpair kvsep`, where `kvpair = key "=" value kvsep`
fn pairs(text: &[u8]) -> Result<Vec<Pair<'_>>, Wrong> {
    // The separator of the last pair and the final one; without pairs only the latter.
    let text = match text {
        [SEPARATOR] => return Ok(Vec::new()),
        _ => text.strip_suffix(&[SEPARATOR, SEPARATOR]).ok_or(Wrong::Syntax)?,
    };
    text.split(|byte| *byte == SEPARATOR)
        .map(|pair| {
            let (key, value) = split(pair, b'=').ok_or(Wrong::Syntax)?;
            let letters = !key.is_empty() && key.iter().all(u8::is_ascii_alphabetic);
            if letters { Ok((key, value)) } else { Err(Wrong::Syntax) }
        })
        .collect()
}

/// `Bearer token`, the scheme in any case (RFC 7628 §4, RFC 6750 §2.1).
fn bearer(auth: &[u8]) -> Result<Zeroizing<Vec<u8>>, Wrong> {
    let (scheme, token) = split(auth, b' ').ok_or(Wrong::NoToken)?;
    if !scheme.eq_ignore_ascii_case(b"Bearer") || token.is_empty() {
        return Err(Wrong::NoToken);
    }
    Ok(Zeroizing::new(token.to_vec()))
}

fn split(text: &[u8], at: u8) -> Option<Pair<'_>> {
    let at = memchr::memchr(at, text)?;
    Some((&text[..at], &text[at + 1..]))
}

#[cfg(test)]
mod tests {
    use sealpost_base::{AccountId, SeededRandom};
    use sealpost_vault::RootKey;
    use sealpost_vault::slot::Slot;

    use super::*;
    use crate::sasl::base64;

    fn read(message: &str) -> Result<(String, String), Wrong> {
        let read = oauthbearer(message.as_bytes(), Some("mail.example"));
        read.map(|given| (given.name, String::from_utf8(given.secret.to_vec()).unwrap()))
    }

    fn read_xoauth2(message: &str) -> Result<(String, String), Wrong> {
        let read = xoauth2(message.as_bytes());
        read.map(|given| (given.name, String::from_utf8(given.secret.to_vec()).unwrap()))
    }

    #[test]
    fn the_examples_of_the_rfc() {
        let read = |message: &str| {
            let message = base64(message.as_bytes()).unwrap();
            let read = oauthbearer(&message, None);
            read.map(|given| (given.name, String::from_utf8(given.secret.to_vec()).unwrap()))
        };
        // RFC 7628 §4.1
        let first = "bixhPXVzZXJAZXhhbXBsZS5jb20sAWhvc3Q9c2VydmVyLmV4YW1wbGUuY29tAXBvcnQ9MTQzAWF1dGg9QmVhcmVyI\
            HZGOWRmdDRxbVRjMk52YjNSbGNrQmhiSFJoZG1semRHRXVZMjl0Q2c9PQEB";
        let token = "vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==".to_owned();
        assert_eq!(read(first), Ok(("user@example.com".to_owned(), token)));
        // RFC 7628 §4.3
        let empty = "bixhPXVzZXJAZXhhbXBsZS5jb20sAWhvc3Q9c2VydmVyLmV4YW1wbGUuY29tAXBvcnQ9MTQzAWF1dGg9AQE=";
        assert_eq!(read(empty), Err(Wrong::NoToken));
    }

    #[test]
    fn names_schemes_and_unknown_keys() {
        let ok = |name: &str, token: &str| Ok((name.to_owned(), token.to_owned()));
        assert_eq!(read("n,a=me@x,\x01auth=Bearer t\x01\x01"), ok("me@x", "t"));
        assert_eq!(read("y,a=me=2Cyou=3D@x,\x01x=\x01auth=bEARER t u\x01\x01"), ok("me,you=@x", "t u"));
        assert_eq!(read("n,a=me,\x01host=MAIL.example\x01port=993\x01auth=Bearer t\x01\x01"), ok("me", "t"));
        assert_eq!(read_xoauth2("user=me@x\x01auth=Bearer t\x01\x01"), ok("me@x", "t"));
    }

    #[test]
    fn a_token_names_its_account() {
        let random = SeededRandom::new(1);
        let root = RootKey::generate(&random);
        let (_, token) = Slot::token(&root, AccountId([1; 16]), "me@x", &random);
        let message = format!("n,,\x01auth=Bearer {}\x01\x01", token.as_str());
        assert_eq!(read(&message), Ok(("me@x".to_owned(), token.to_string())));
    }

    #[test]
    fn an_access_token_needs_no_name() {
        let message = "n,,\x01auth=Bearer sa_AAAA\x01\x01";
        assert_eq!(read(message), Ok((String::new(), "sa_AAAA".to_owned())));
        let named = "n,a=me@x,\x01auth=Bearer sa_AAAA\x01\x01";
        assert_eq!(read(named), Ok(("me@x".to_owned(), "sa_AAAA".to_owned())));
    }

    #[test]
    fn malformed_messages_are_refused() {
        for (message, wrong) in [
            ("", Wrong::Syntax),
            ("\x01", Wrong::Request),
            ("n,,\x01auth=Bearer t\x01\x01", Wrong::NoToken),
            ("p=tls-exporter,a=me,\x01auth=Bearer t\x01\x01", Wrong::Request),
            ("n,a=me,\x01host=other.example\x01auth=Bearer t\x01\x01", Wrong::Request),
            ("n,a=me,\x01host=x\x01\x01", Wrong::Request),
            ("n,a=me,\x01\x01", Wrong::Request),
            ("n,a=me,\x01auth=Basic t\x01\x01", Wrong::NoToken),
            ("n,a=me,\x01auth=Bearer\x01\x01", Wrong::NoToken),
            ("n,a=me,\x01auth=Bearer \x01\x01", Wrong::NoToken),
            ("n,a=me,\x01auth=Bearer t\x01", Wrong::Syntax),
            ("n,a=me,\x01auth=Bearer t", Wrong::Syntax),
            ("n,a=me,\x01auth=Bearer t\x01auth=Bearer u\x01\x01", Wrong::Syntax),
            ("n,a=me,\x01=x\x01\x01", Wrong::Syntax),
            ("n,a=m=e,\x01auth=Bearer t\x01\x01", Wrong::Syntax),
            ("n,a=me=2,\x01auth=Bearer t\x01\x01", Wrong::Syntax),
            ("n,b=me,\x01auth=Bearer t\x01\x01", Wrong::Syntax),
            ("n,a=me\x01auth=Bearer t\x01\x01", Wrong::Syntax),
            ("me\0me\0secret", Wrong::Syntax),
        ] {
            assert_eq!(read(message), Err(wrong), "{message:?}");
        }
        assert_eq!(read_xoauth2("user=me@x\x01\x01"), Err(Wrong::Syntax));
        assert_eq!(read_xoauth2("user=me@x\x01auth=Bearer \x01\x01"), Err(Wrong::NoToken));
    }

    #[test]
    fn challenges_decode_to_their_json() {
        for (encoded, text) in [
            (INVALID_TOKEN, r#"{"status":"invalid_token","schemes":"bearer"}"#),
            (INVALID_REQUEST, r#"{"status":"invalid_request","schemes":"bearer"}"#),
            (
                INSUFFICIENT_SCOPE,
                r#"{"status":"insufficient_scope","scope":"urn:ietf:params:oauth:scope:mail"}"#,
            ),
            (STATUS_401, r#"{"status":"401","schemes":"bearer","scope":"mail"}"#),
            (STATUS_400, r#"{"status":"400","schemes":"bearer","scope":"mail"}"#),
        ] {
            assert_eq!(&base64(encoded.as_bytes()).unwrap()[..], text.as_bytes());
        }
    }
}
