//! Replaces NUL in literals.
//!
//! `literal = "{" number "}" CRLF *CHAR8`, and CHAR8 is any byte but NUL (RFC 3501 §9, RFC 9051 §9): client
//! parsers stop at NUL. Messages may contain it, since they are stored as received. So a literal has a
//! substitute byte that cannot be text, as with other servers; sizes and offsets do not change. The original
//! bytes are sent in a literal8, which BINARY has (RFC 3516 §4.3), or in a literal for a client that enabled
//! [`sealpost_imap::NUL_EXTENSION`].

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};

/// The substitute for NUL.
const SUBSTITUTE: u8 = 0x80;

/// The bytes with NUL replaced.
pub(super) fn bytes(bytes: &[u8]) -> Cow<'_, [u8]> {
    match memchr::memchr(0, bytes) {
        None => Cow::Borrowed(bytes),
        Some(first) => {
            let mut bytes = bytes.to_vec();
            substitute(&mut bytes[first..]);
            Cow::Owned(bytes)
        }
    }
}

/// As `bytes`, for an owned piece.
pub(super) fn piece(piece: Bytes) -> Bytes {
    if memchr::memchr(0, &piece).is_none() {
        return piece;
    }
    let mut piece = piece.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]));
    substitute(&mut piece);
    piece.freeze()
}

fn substitute(bytes: &mut [u8]) {
    bytes.iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = SUBSTITUTE);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_nul_is_one_other_byte_and_nothing_else_changes() {
        for text in [&b""[..], b"abc", b"\0", b"\0a\0\0", b"\x7f\x80\xff\0", b"a\r\n\0\r\n"] {
            let expected: Vec<u8> = text.iter().map(|b| if *b == 0 { SUBSTITUTE } else { *b }).collect();
            assert_eq!(*bytes(text), expected[..]);
            let shared = Bytes::copy_from_slice(text);
            let other = shared.clone();
            assert_eq!(piece(shared), expected);
            assert_eq!(other, text, "another owner's bytes stay");
            assert_eq!(piece(other), expected);
        }
        assert!(matches!(bytes(b"plain"), Cow::Borrowed(_)));
    }
}
