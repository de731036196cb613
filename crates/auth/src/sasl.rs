//! SASL messages for every protocol: base64, PLAIN (RFC 4616), and the bearer mechanisms (`bearer.rs`). The
//! session runs the exchange itself: lines, prompts, replies.

use zeroize::Zeroizing;

pub mod bearer;

/// The name and secret in a message.
pub struct Credentials {
    /// The name as the client wrote it.
    pub name: String,
    /// A password or an app password.
    pub secret: Zeroizing<Vec<u8>>,
}

/// Why a PLAIN message has no usable credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlainError {
    /// It is malformed.
    Syntax,
    /// It requests to act for another account, which is unsupported; the name that it logs in with.
    Authorization(String),
}

/// Parses `authzid NUL authcid NUL passwd` (RFC 4616 §2).
///
/// # Errors
/// `Authorization` if authzid is neither empty nor authcid; otherwise `Syntax`.
pub fn plain(message: &[u8]) -> Result<Credentials, PlainError> {
    let mut parts = message.splitn(3, |byte| *byte == 0);
    let (Some(authzid), Some(authcid), Some(password)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(PlainError::Syntax);
    };
    let name = String::from_utf8_lossy(authcid).into_owned();
    if !authzid.is_empty() && authzid != authcid {
        return Err(PlainError::Authorization(name));
    }
    Ok(Credentials { name, secret: Zeroizing::new(password.to_vec()) })
}

/// Decodes an initial response, in which "=" is the empty one (RFC 4959 §3, RFC 4954 §4). `None` if it is not
/// base64.
pub fn initial_response(text: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    base64(if text == b"=" { b"" } else { text })
}

/// The name in an initial response of the mechanism (in capitals), if any; for the log only.
pub fn name_in(mechanism: &str, initial: &[u8]) -> Option<String> {
    let message = base64(initial)?;
    match mechanism {
        "PLAIN" => {
            let authcid = message.split(|byte| *byte == 0).nth(1)?;
            Some(String::from_utf8_lossy(authcid).into_owned())
        }
        "LOGIN" => Some(String::from_utf8_lossy(&message).into_owned()),
        _ => bearer::Mechanism::named(mechanism)?.name_in(&message),
    }
}

/// Decodes base64 strictly: whole groups of four, padding only at the end (RFC 4648 §4).
pub fn base64(text: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let padding = text.iter().rev().take_while(|byte| **byte == b'=').count();
    if padding > 2 {
        return None;
    }
    let mut out = Zeroizing::new(Vec::with_capacity(text.len() / 4 * 3));
    for group in text.chunks(4) {
        let last = group.len() == 4 && out.len() / 3 == text.len() / 4 - 1;
        let mut bits = 0u32;
        for (i, byte) in group.iter().enumerate() {
            let value = match byte {
                b'A'..=b'Z' => byte - b'A',
                b'a'..=b'z' => byte - b'a' + 26,
                b'0'..=b'9' => byte - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                b'=' if last && i >= 4 - padding => 0,
                _ => return None,
            };
            bits = bits << 6 | u32::from(value);
        }
        out.extend_from_slice(&bits.to_be_bytes()[1..]);
    }
    let len = out.len() - padding;
    out.truncate(len);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_strict() {
        let decode = |text: &str| base64(text.as_bytes()).map(|bytes| bytes.to_vec());
        assert_eq!(decode("").unwrap(), b"");
        assert_eq!(decode("AGFsaWNlAHNlY3JldA==").unwrap(), b"\0alice\0secret");
        assert_eq!(decode("YWI=").unwrap(), b"ab");
        assert_eq!(decode("YWJj").unwrap(), b"abc");
        for bad in ["Y", "YQ", "YQ=", "Y===", "YQ==YQ==", "=YQ=", "YW Jj", "YQ=a", "===="] {
            assert!(decode(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn plain_takes_the_name_and_refuses_to_act_for_others() {
        let read = |message: &[u8]| plain(message).map(|given| (given.name, given.secret.to_vec()));
        assert_eq!(read(b"\0me\0pass"), Ok(("me".to_owned(), b"pass".to_vec())));
        assert_eq!(read(b"me\0me\0a\0b"), Ok(("me".to_owned(), b"a\0b".to_vec())));
        assert_eq!(read(b"you\0me\0pass"), Err(PlainError::Authorization("me".to_owned())));
        assert_eq!(read(b"me\0pass"), Err(PlainError::Syntax));
    }

    #[test]
    fn names_for_the_log() {
        assert_eq!(name_in("PLAIN", b"AG1lAHBhc3M=").as_deref(), Some("me"));
        assert_eq!(name_in("LOGIN", b"bWU=").as_deref(), Some("me"));
        assert_eq!(name_in("XOAUTH2", b"dXNlcj1tZQFhdXRoPUJlYXJlciB0AQE=").as_deref(), Some("me"));
        assert_eq!(name_in("SCRAM-SHA-1", b"bWU="), None);
    }
}
