//! The installation identifies itself to push services (RFC 8292, RFC 9749).

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sealpost_base::{Result, Timestamp};

use crate::crypto::SigningKey;
use crate::url::PushUrl;

/// How long a token is valid: RFC 8292 §2 allows 24 hours, and clocks differ.
const VALID: Duration = Duration::from_secs(12 * 3600);

/// Signs pushes.
pub(crate) struct Vapid {
    key: SigningKey,
    public: String,
    contact: String,
}

impl Vapid {
    /// With the key of the installation; `contact` is a URI at which the operator is reached.
    pub(crate) fn new(key: SigningKey, contact: String) -> Self {
        let public = URL_SAFE_NO_PAD.encode(key.public());
        Vapid { key, public, contact }
    }

    /// The public key, as the Session object has it (RFC 9749 §3).
    pub(crate) fn public(&self) -> &str {
        &self.public
    }

    /// The `Authorization` field of a push to `url` (RFC 8292 §3).
    pub(crate) fn authorization(&self, url: &PushUrl, now: Timestamp) -> Result<String> {
        let expires = now.after(VALID).seconds();
        let signed = signed_part(&url.origin(), expires, &self.contact);
        let signature = URL_SAFE_NO_PAD.encode(self.key.sign(signed.as_bytes())?);
        Ok(format!("vapid t={signed}.{signature}, k={}", self.public))
    }
}

/// Header and claims of the token (RFC 8292 §2, RFC 7515 §7.1).
fn signed_part(audience: &str, expires: i64, contact: &str) -> String {
    let header = URL_SAFE_NO_PAD.encode(r#"{"typ":"JWT","alg":"ES256"}"#);
    let (audience, contact) = (quoted(audience), quoted(contact));
    let claims = format!(r#"{{"aud":{audience},"exp":{expires},"sub":{contact}}}"#);
    format!("{header}.{}", URL_SAFE_NO_PAD.encode(claims))
}

/// A JSON string.
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};

    use super::*;

    fn verifies(token: &str, key: &str) -> bool {
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let (key, signature) =
            (URL_SAFE_NO_PAD.decode(key).unwrap(), URL_SAFE_NO_PAD.decode(signature).unwrap());
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key).verify(signed.as_bytes(), &signature).is_ok()
    }

    #[test]
    fn the_example_of_the_rfc_is_written_and_verified() {
        // RFC 8292 §2.4.
        let token = "eyJ0eXAiOiJKV1QiLCJhbGciOiJFUzI1NiJ9.eyJhdWQiOiJodHRwczovL3B1c2guZXhhbXBsZS5uZXQiLCJleHAi\
                     OjE0NTM1MjM3NjgsInN1YiI6Im1haWx0bzpwdXNoQGV4YW1wbGUuY29tIn0.i3CYb7t4xfxCDquptFOepC9GAu_HLGkM\
                     lMuCGSK2rpiUfnK9ojFwDXb1JrErtmysazNjjvW2L9OkSSHzvoD1oA";
        let key = "BA1Hxzyi1RUM1b5wjxsn7nGxAszw2u61m164i3MrAIxHF6YK5h4SDYic-dRuU_RCPCfA5aq9ojSwk5Y2EmClBPs";
        let written = signed_part("https://push.example.net", 1_453_523_768, "mailto:push@example.com");
        assert_eq!(Some(written.as_str()), token.rsplit_once('.').map(|(signed, _)| signed));
        assert!(verifies(token, key));
    }

    #[test]
    fn tokens_name_the_origin_and_end_within_a_day() {
        let key = SigningKey::from_pkcs8(&SigningKey::generate().unwrap()).unwrap();
        let vapid = Vapid::new(key, "mailto:\"a\\b\"@example.org".to_owned());
        let url = PushUrl::parse("https://push.example.net:8443/p/secret").unwrap();
        let now = Timestamp::from_seconds(1_795_000_000);
        let field = vapid.authorization(&url, now).unwrap();
        let (token, key) = field.strip_prefix("vapid t=").unwrap().split_once(", k=").unwrap();
        assert_eq!(key, vapid.public());
        assert!(verifies(token, key));
        let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
        let claims = String::from_utf8(claims).unwrap();
        assert_eq!(
            claims,
            r#"{"aud":"https://push.example.net:8443","exp":1795043200,"sub":"mailto:\"a\\b\"@example.org"}"#
        );
    }
}
