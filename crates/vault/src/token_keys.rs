//! Seals the tokens that the authorization server gives out: any node opens them, without a read
//! of the store, and nothing outside of the installation can read, change or invent one.
//!
//! The key comes of `server.key`. Each token has a random salt, so a key of its own, and names the
//! server key that it was made under: an invented one costs at most one derivation. The kind of a
//! token is bound to it, so that none is taken for another. Format: `docs/format/keys-and-slots.md`.

use std::sync::Arc;

use sealpost_base::Random;
use zeroize::Zeroizing;

use crate::cipher::{ObjectCipher, PiecePosition, Secret, TAG_BYTES, sha256};
use crate::server_key::{KeyId, Role, ServerKeys};

/// Version 1: what a sealed token begins with.
const VERSION: u8 = 1;
const ID_BYTES: usize = 4;
const SALT_BYTES: usize = 32;
const HEAD_BYTES: usize = 1 + ID_BYTES + SALT_BYTES;
const PLACE: PiecePosition = PiecePosition { section: 0, number: 0, last: true };
const HEADER: [u8; 4] = *b"SPT\x01";

/// What a token is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// The id of a client: what it registered.
    Client,
    /// An authorization code.
    Code,
    /// An access token.
    Access,
    /// A refresh token.
    Refresh,
}

impl TokenKind {
    fn label(self) -> &'static [u8] {
        match self {
            TokenKind::Client => b"client",
            TokenKind::Code => b"code",
            TokenKind::Access => b"access",
            TokenKind::Refresh => b"refresh",
        }
    }

    /// Whether a token under `role` opens. A refresh token lasts for months, and its own secret is
    /// checked too, so it outlives its server key; all others are made again soon.
    fn opens_under(self, role: Role) -> bool {
        role != Role::Retired || self == TokenKind::Refresh
    }
}

/// Seals and opens tokens. Cheap to clone.
#[derive(Clone)]
pub struct TokenKeys(Arc<[(Role, KeyId, Secret)]>);

impl TokenKeys {
    /// Under these server keys.
    pub fn of(keys: &ServerKeys) -> Self {
        TokenKeys(keys.purposes_by_id("oauth tokens").into())
    }

    /// Seals `plaintext` as a token of that kind.
    pub fn seal(&self, kind: TokenKind, plaintext: &[u8], random: &dyn Random) -> Vec<u8> {
        let (_, id, secret) = &self.0[0];
        let mut token = Vec::with_capacity(HEAD_BYTES + plaintext.len() + TAG_BYTES);
        token.push(VERSION);
        token.extend_from_slice(&id.0);
        token.resize(HEAD_BYTES, 0);
        random.fill(&mut token[1 + ID_BYTES..]);
        let cipher = cipher(kind, secret, &token[1 + ID_BYTES..]);
        token.extend_from_slice(plaintext);
        cipher.seal(PLACE, HEADER, &mut token, HEAD_BYTES);
        token
    }

    /// What was sealed in `token`; `None` if this installation made no token of that kind like it.
    pub fn open(&self, kind: TokenKind, token: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let (head, sealed) = token.split_at_checked(HEAD_BYTES)?;
        let (&[version, ref id @ ..], salt) = head.split_first_chunk::<{ 1 + ID_BYTES }>()?;
        let (_, _, secret) = self
            .0
            .iter()
            .find(|(role, known, _)| version == VERSION && known.0 == *id && kind.opens_under(*role))?;
        let mut plain = Zeroizing::new(sealed.to_vec());
        let opened = cipher(kind, secret, salt).open(PLACE, HEADER, &mut plain).ok()?;
        plain.truncate(opened);
        Some(plain)
    }
}

fn cipher(kind: TokenKind, secret: &Secret, salt: &[u8]) -> ObjectCipher {
    ObjectCipher::new(salt, secret.bytes(), sha256(&[b"sealpost oauth token v1 ", kind.label()]))
}

#[cfg(test)]
mod tests {
    use sealpost_base::SeededRandom;

    use super::*;

    #[test]
    fn a_token_opens_as_its_own_kind_alone() {
        let random = SeededRandom::new(1);
        let keys = ServerKeys::generate(&random);
        let (tokens, node) = (TokenKeys::of(&keys), TokenKeys::of(&keys));
        let foreign = TokenKeys::of(&ServerKeys::generate(&random));
        let token = tokens.seal(TokenKind::Access, b"text", &random);
        assert_eq!(node.open(TokenKind::Access, &token).unwrap()[..], b"text"[..], "on another node");
        assert!(foreign.open(TokenKind::Access, &token).is_none());
        for kind in [TokenKind::Client, TokenKind::Code, TokenKind::Refresh] {
            assert!(tokens.open(kind, &token).is_none(), "{kind:?}");
        }
        for at in 0..token.len() {
            let mut changed = token.clone();
            changed[at] ^= 1;
            assert!(tokens.open(TokenKind::Access, &changed).is_none(), "byte {at}");
            assert!(tokens.open(TokenKind::Access, &token[..at]).is_none(), "{at} bytes");
        }
        assert_ne!(token, tokens.seal(TokenKind::Access, b"text", &random), "each has its own salt");
    }

    #[test]
    fn refresh_tokens_alone_outlive_their_server_key() {
        let random = SeededRandom::new(2);
        let old = ServerKeys::generate(&random);
        let rotated = old.with_next(&random).unwrap().rotated();
        let kinds = [TokenKind::Client, TokenKind::Code, TokenKind::Access, TokenKind::Refresh];
        let tokens = kinds.map(|kind| (kind, TokenKeys::of(&old).seal(kind, b"x", &random)));
        let (during, after) = (TokenKeys::of(&rotated), TokenKeys::of(&rotated.settled()));
        for (kind, token) in tokens {
            assert!(during.open(kind, &token).is_some(), "{kind:?}");
            assert_eq!(after.open(kind, &token).is_some(), kind == TokenKind::Refresh, "{kind:?}");
        }
    }
}
