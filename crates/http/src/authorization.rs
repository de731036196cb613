//! The `Authorization` field (RFC 9110 §11.6.2): Basic (RFC 7617) and Bearer (RFC 6750 §2.1).
//!
//! The field holds a secret. No type here implements `Debug` or `Display`, and dropped values are wiped.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use http::{HeaderMap, header};
use sealpost_base::limits::HTTP_AUTHORIZATION_BYTES;
use zeroize::Zeroizing;

/// Some clients omit the padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The credentials of a request.
pub enum Authorization {
    /// A name and a password, both UTF-8 without control characters.
    Basic {
        /// The name; it never contains a colon.
        user: String,
        /// The password.
        password: Zeroizing<String>,
    },
    /// A token in the syntax of RFC 6750.
    Bearer(Zeroizing<String>),
}

/// Why a request has no usable credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoAuthorization {
    /// The request has no such field.
    Missing,
    /// The scheme is neither Basic nor Bearer.
    UnknownScheme,
    /// The value does not match its scheme, there are several fields, or the field is longer than
    /// [`HTTP_AUTHORIZATION_BYTES`].
    Malformed,
}

impl Authorization {
    /// Reads the credentials from a request's header fields.
    ///
    /// # Errors
    /// Why there are none.
    pub fn of(headers: &HeaderMap) -> Result<Self, NoAuthorization> {
        let mut fields = headers.get_all(header::AUTHORIZATION).iter();
        match (fields.next(), fields.next()) {
            (None, _) => Err(NoAuthorization::Missing),
            (Some(field), None) => Self::parse(field.as_bytes()),
            (Some(_), Some(_)) => Err(NoAuthorization::Malformed),
        }
    }

    /// Parses the value of an `Authorization` field.
    ///
    /// # Errors
    /// [`NoAuthorization::UnknownScheme`] and [`NoAuthorization::Malformed`].
    pub fn parse(field: &[u8]) -> Result<Self, NoAuthorization> {
        if field.len() > HTTP_AUTHORIZATION_BYTES {
            return Err(NoAuthorization::Malformed);
        }
        let field = field.trim_ascii();
        let end = field.iter().position(|byte| *byte == b' ').unwrap_or(field.len());
        let (scheme, rest) = field.split_at(end);
        let rest = rest.trim_ascii_start();
        // RFC 9110 §11.1: the scheme's name is case-insensitive.
        match scheme {
            scheme if scheme.eq_ignore_ascii_case(b"basic") => basic(rest),
            scheme if scheme.eq_ignore_ascii_case(b"bearer") => bearer(rest),
            _ => Err(NoAuthorization::UnknownScheme),
        }
    }
}

/// RFC 7617 §2: user-id, a colon, password; no control characters.
fn basic(encoded: &[u8]) -> Result<Authorization, NoAuthorization> {
    let decoded = Zeroizing::new(BASE64.decode(encoded).map_err(|_| NoAuthorization::Malformed)?);
    let text = std::str::from_utf8(&decoded).map_err(|_| NoAuthorization::Malformed)?;
    let (user, password) = text.split_once(':').ok_or(NoAuthorization::Malformed)?;
    if text.chars().any(char::is_control) {
        return Err(NoAuthorization::Malformed);
    }
    Ok(Authorization::Basic { user: user.to_owned(), password: Zeroizing::new(password.to_owned()) })
}

/// RFC 6750 §2.1: `1*( ALPHA / DIGIT / "-" / "." / "_" / "~" / "+" / "/" ) *"="`.
fn bearer(token: &[u8]) -> Result<Authorization, NoAuthorization> {
    let padding = token.iter().rev().take_while(|byte| **byte == b'=').count();
    let body = &token[..token.len() - padding];
    let is_b64token = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(byte);
    if body.is_empty() || !body.iter().all(is_b64token) {
        return Err(NoAuthorization::Malformed);
    }
    let token = std::str::from_utf8(token).map_err(|_| NoAuthorization::Malformed)?;
    Ok(Authorization::Bearer(Zeroizing::new(token.to_owned())))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn told(field: &[u8]) -> Result<(String, String), NoAuthorization> {
        Authorization::parse(field).map(|credentials| match credentials {
            Authorization::Basic { user, password } => (user, password.as_str().to_owned()),
            Authorization::Bearer(token) => (String::new(), token.as_str().to_owned()),
        })
    }

    #[test]
    fn known_fields() {
        let (malformed, unknown) = (Err(NoAuthorization::Malformed), Err(NoAuthorization::UnknownScheme));
        let ok = |user: &str, secret: &str| Ok((user.to_owned(), secret.to_owned()));
        for (field, expected) in [
            // The examples of RFC 7617 §2 and §2.1.
            (&b"Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="[..], ok("Aladdin", "open sesame")),
            (b"basic dGVzdDoxMjPCow==", ok("test", "123\u{a3}")),
            (b"BASIC   dGVzdDoxMjPCow", ok("test", "123\u{a3}")),
            (b"Basic YTpiOmM=", ok("a", "b:c")),
            (b"Basic Og==", ok("", "")),
            // "123\xa3" in ISO 8859-1.
            (b"Basic dGVzdDoxMjOj", malformed.clone()),
            (b"Basic dGVzdA==", malformed.clone()),
            (b"Basic YToKYg==", malformed.clone()),
            (b"Basic", malformed.clone()),
            (b"Basic QWx hZGRpbjo=", malformed.clone()),
            (b"Basic Q", malformed.clone()),
            (b"Bearer mF_9.B5f-4.1JqM", ok("", "mF_9.B5f-4.1JqM")),
            (b"bearer sp_a_b_c==", ok("", "sp_a_b_c==")),
            (b"Bearer ", malformed.clone()),
            (b"Bearer ==", malformed.clone()),
            (b"Bearer a=b", malformed.clone()),
            (b"Bearer a b", malformed.clone()),
            (b"Bearer \xc3\xbc", malformed.clone()),
            (b"Digest username=\"x\"", unknown.clone()),
            (b"", unknown.clone()),
            (b"Basicx YTpi", unknown.clone()),
        ] {
            assert_eq!(told(field), expected, "{}", field.escape_ascii());
        }
    }

    #[test]
    fn a_field_is_bounded_and_single() {
        let long = [b"Bearer ", "x".repeat(HTTP_AUTHORIZATION_BYTES).as_bytes()].concat();
        assert_eq!(told(&long), Err(NoAuthorization::Malformed));
        assert!(told(&long[..HTTP_AUTHORIZATION_BYTES]).is_ok());
        let mut headers = HeaderMap::new();
        assert_eq!(Authorization::of(&headers).err(), Some(NoAuthorization::Missing));
        headers.append(header::AUTHORIZATION, "Bearer a".parse().unwrap());
        assert!(Authorization::of(&headers).is_ok());
        headers.append(header::AUTHORIZATION, "Bearer b".parse().unwrap());
        assert_eq!(Authorization::of(&headers).err(), Some(NoAuthorization::Malformed));
    }

    proptest! {
        #[test]
        fn encoded_basic_credentials_are_decoded(user in "[^:\\p{Cc}]{0,20}", password in "[^\\p{Cc}]{0,20}") {
            let encoded = BASE64.encode(format!("{user}:{password}"));
            prop_assert_eq!(told(format!("Basic {encoded}").as_bytes()), Ok((user, password)));
        }
    }
}
