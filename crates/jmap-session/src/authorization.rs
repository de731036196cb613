//! The value of an `Authorization` header field (RFC 9110 §11.6.2): Basic (RFC 7617) or Bearer
//! (RFC 6750 §2.1).

use sealpost_auth::sasl;
use sealpost_base::limits::JMAP_CREDENTIALS_BYTES;
use zeroize::Zeroizing;

/// Credentials of an HTTP request.
pub enum Authorization {
    /// A name with a password or an app password.
    Basic {
        /// The name as the client wrote it.
        name: String,
        /// The secret.
        secret: Zeroizing<Vec<u8>>,
    },
    /// An app password, which names its account.
    Bearer(Zeroizing<Vec<u8>>),
}

/// A header field with no credentials that could be checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotAuthorization;

impl Authorization {
    /// Reads the value of the field.
    ///
    /// # Errors
    /// If it has another scheme, is not formed as its scheme demands, or has more than
    /// [`JMAP_CREDENTIALS_BYTES`].
    pub fn parse(field: &[u8]) -> Result<Self, NotAuthorization> {
        let field = field.trim_ascii();
        let space = field.iter().position(|byte| *byte == b' ').ok_or(NotAuthorization)?;
        let (scheme, credentials) = (&field[..space], field[space..].trim_ascii_start());
        if credentials.is_empty() || credentials.len() > JMAP_CREDENTIALS_BYTES {
            return Err(NotAuthorization);
        }
        // RFC 9110 §11.1: in any case.
        if scheme.eq_ignore_ascii_case(b"Bearer") {
            let is_token = credentials.iter().all(u8::is_ascii_graphic);
            return is_token
                .then(|| Authorization::Bearer(Zeroizing::new(credentials.to_vec())))
                .ok_or(NotAuthorization);
        }
        if !scheme.eq_ignore_ascii_case(b"Basic") {
            return Err(NotAuthorization);
        }
        let message = sasl::base64(credentials).ok_or(NotAuthorization)?;
        // RFC 7617 §2: a name has no colon, a password may have some.
        let colon = message.iter().position(|byte| *byte == b':').ok_or(NotAuthorization)?;
        // A name that is not UTF-8 belongs to no account; it is checked like any other.
        let name = String::from_utf8_lossy(&message[..colon]).into_owned();
        Ok(Authorization::Basic { name, secret: Zeroizing::new(message[colon + 1..].to_vec()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(field: &str) -> Option<(String, String)> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        match Authorization::parse(field.as_bytes()).ok()? {
            Authorization::Basic { name, secret } => Some((name, text(&secret))),
            Authorization::Bearer(token) => Some(("(bearer)".to_owned(), text(&token))),
        }
    }

    fn pair(name: &str, secret: &str) -> Option<(String, String)> {
        Some((name.to_owned(), secret.to_owned()))
    }

    #[test]
    fn basic_credentials_are_read() {
        // RFC 7617 §2: the example.
        assert_eq!(read("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="), pair("Aladdin", "open sesame"));
        assert_eq!(read(" basic  bWU6YTpi "), pair("me", "a:b"));
        assert_eq!(read("Bearer sp_x"), pair("(bearer)", "sp_x"));
    }

    #[test]
    fn what_is_not_credentials_is_refused() {
        for bad in
            ["", "Basic", "Basic ", "Basic bWU=", "Basic bWU6YQ", "Digest bWU6YQ==", "Bearer a b", "Bearer"]
        {
            assert!(read(bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn credentials_are_bounded() {
        let token = "t".repeat(JMAP_CREDENTIALS_BYTES);
        assert!(read(&format!("Bearer {token}")).is_some());
        assert!(read(&format!("Bearer {token}t")).is_none());
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(field: Vec<u8>, text in "(?i)(basic|bearer) +[a-z0-9+/=]{0,40}") {
            let _ = (Authorization::parse(&field), Authorization::parse(text.as_bytes()));
        }
    }
}
