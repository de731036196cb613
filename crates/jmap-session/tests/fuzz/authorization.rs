//! The fuzz target for credentials of HTTP requests.

use sealpost_base::limits::JMAP_CREDENTIALS_BYTES;
use sealpost_jmap_session::Authorization;

/// Reads a value of the field `Authorization`; what is read is within the limit.
pub fn fuzz_authorization(field: &[u8]) {
    match Authorization::parse(field) {
        Ok(Authorization::Basic { name, secret }) => {
            assert!(!name.contains(':'));
            // A byte that is not UTF-8 becomes three.
            assert!(name.len() <= 3 * JMAP_CREDENTIALS_BYTES && secret.len() < JMAP_CREDENTIALS_BYTES);
        }
        Ok(Authorization::Bearer(token)) => {
            assert!((1..=JMAP_CREDENTIALS_BYTES).contains(&token.len()));
            assert!(token.iter().all(u8::is_ascii_graphic));
        }
        Err(_) => {}
    }
}
