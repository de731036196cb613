//! SHA-256 (FIPS 180-4), the only place of this crate that names `ring`: of messages' exact octets, and of journals.

use ring::digest::{Context, SHA256};

/// Bytes of a journal's checksums.
pub const CHECK_BYTES: usize = 16;

/// What a message's octets are known by.
pub type Digest = [u8; 32];

/// The beginning of a SHA-256: enough to notice damage.
pub type Check = [u8; CHECK_BYTES];

/// A digest in the making.
#[derive(Clone)]
pub struct Digesting(Context);

impl Default for Digesting {
    fn default() -> Self {
        Digesting(Context::new(&SHA256))
    }
}

impl Digesting {
    /// Takes the next octets.
    pub fn push(&mut self, octets: &[u8]) {
        self.0.update(octets);
    }

    /// The digest of all of them.
    pub fn finish(self) -> Digest {
        let mut out = [0; 32];
        out.copy_from_slice(self.0.finish().as_ref());
        out
    }

    /// As [`Digesting::finish`], shortened.
    pub fn check(self) -> Check {
        let mut out = [0; CHECK_BYTES];
        out.copy_from_slice(&self.finish()[..CHECK_BYTES]);
        out
    }
}

/// The digest of `octets`.
pub fn digest(octets: &[u8]) -> Digest {
    let mut digesting = Digesting::default();
    digesting.push(octets);
    digesting.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answer() {
        // FIPS 180-4, example B.1.
        assert_eq!(digest(b"abc")[..4], [0xba, 0x78, 0x16, 0xbf]);
        assert_eq!(digest(b"abc")[28..], [0xf2, 0x00, 0x15, 0xad]);
    }
}
