//! Mailbox names that are too long for a file system are cut, and marked so that they stay
//! distinct.

use ring::digest::{SHA256, digest};

/// Bytes of the hash that a mark has.
const MARK_BYTES: usize = 16;

/// The mark of a name that is too long for a file: half a SHA-256 (FIPS 180-4), in hexadecimal.
pub fn mark(name: &str) -> String {
    let hash = digest(&SHA256, name.as_bytes());
    hash.as_ref().iter().take(MARK_BYTES).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_half_a_sha_256() {
        // FIPS 180-4, example B.1.
        assert_eq!(mark("abc"), "ba7816bf8f01cfea414140de5dae2223");
    }
}
