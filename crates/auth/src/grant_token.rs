//! The tokens of an OAuth grant: authorization codes, access tokens and refresh tokens. Each is a
//! sealed blob that carries the secret of the grant's slot, so any node opens the account with it,
//! and a client that reads its own token learns nothing ([`TokenKeys`]).
//!
//! Format: `docs/format/keys-and-slots.md`.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sealpost_base::{Random, Timestamp, limits};
use sealpost_vault::slot::{SlotId, SlotSecret};
use sealpost_vault::{TokenKeys, TokenKind};
use zeroize::Zeroizing;

use crate::scopes::Scopes;

/// Bytes of a digest.
const DIGEST_BYTES: usize = 32;
/// All but the name.
const FIXED_BYTES: usize = 8 + 32 + 4 + 8 + 8 + 2 * DIGEST_BYTES;

/// What a token of a grant says.
#[derive(Clone)]
pub struct GrantToken {
    /// The name of the account.
    pub account: String,
    /// The grant's slot.
    pub slot: SlotId,
    /// Opens the slot.
    pub secret: SlotSecret,
    /// What the client may do.
    pub scopes: Scopes,
    /// Until when a code or an access token is good; when a refresh token was made.
    pub at: Timestamp,
    /// Which refresh token of the grant it is; 0: a code.
    pub generation: u64,
    /// SHA-256 of the client's id.
    pub client: [u8; DIGEST_BYTES],
    /// Of a code: SHA-256 over its challenge and its redirect URI; else zeros.
    pub binding: [u8; DIGEST_BYTES],
}

/// What the text of a token of that kind begins with: readers of a client's log and scanners for leaked
/// secrets distinguish kinds by it.
fn prefix(kind: TokenKind) -> &'static str {
    match kind {
        TokenKind::Client => "si_",
        TokenKind::Code => "sc_",
        TokenKind::Access => "sa_",
        TokenKind::Refresh => "sr_",
    }
}

/// The text of a sealed token.
pub fn sealed_text(
    kind: TokenKind,
    plain: &[u8],
    keys: &TokenKeys,
    random: &dyn Random,
) -> Zeroizing<String> {
    let mut text = Zeroizing::new(prefix(kind).to_owned());
    URL_SAFE_NO_PAD.encode_string(keys.seal(kind, plain, random), &mut text);
    text
}

/// What was sealed in that text; `None` if this installation made no such token.
pub fn opened_text(kind: TokenKind, text: &[u8], keys: &TokenKeys) -> Option<Zeroizing<Vec<u8>>> {
    if text.len() > limits::OAUTH_PARAMETER_BYTES {
        return None;
    }
    let sealed = URL_SAFE_NO_PAD.decode(text.strip_prefix(prefix(kind).as_bytes())?).ok()?;
    keys.open(kind, &sealed)
}

/// Whether a text looks like an access token.
pub fn is_access_token(text: &[u8]) -> bool {
    text.starts_with(prefix(TokenKind::Access).as_bytes())
}

impl GrantToken {
    /// The token as its client gets it.
    pub fn seal(&self, kind: TokenKind, keys: &TokenKeys, random: &dyn Random) -> Zeroizing<String> {
        let mut plain = Zeroizing::new(Vec::with_capacity(FIXED_BYTES + self.account.len()));
        plain.extend_from_slice(&self.slot.0);
        plain.extend_from_slice(self.secret.bytes());
        plain.extend_from_slice(&self.scopes.bits().to_be_bytes());
        plain.extend_from_slice(&self.at.0.to_be_bytes());
        plain.extend_from_slice(&self.generation.to_be_bytes());
        plain.extend_from_slice(&self.client);
        plain.extend_from_slice(&self.binding);
        plain.extend_from_slice(self.account.as_bytes());
        sealed_text(kind, &plain, keys, random)
    }

    /// The token in that text; `None` if this installation made no such token.
    pub fn open(kind: TokenKind, text: &[u8], keys: &TokenKeys) -> Option<Self> {
        let plain = opened_text(kind, text, keys)?;
        let mut rest = &plain[..];
        let slot = SlotId(take(&mut rest)?);
        let secret = SlotSecret::copied(rest.split_off(..32)?)?;
        let scopes = Scopes::of_bits(u32::from_be_bytes(take(&mut rest)?));
        let at = Timestamp(i64::from_be_bytes(take(&mut rest)?));
        let generation = u64::from_be_bytes(take(&mut rest)?);
        let (client, binding) = (take(&mut rest)?, take(&mut rest)?);
        let account = String::from_utf8(rest.to_vec()).ok()?;
        Some(GrantToken { account, slot, secret, scopes, at, generation, client, binding })
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    rest.split_off(..N)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use sealpost_base::SeededRandom;
    use sealpost_vault::server_key::ServerKeys;

    use super::*;
    use crate::scopes::Scope;

    #[test]
    fn a_token_comes_back_as_its_own_kind() {
        let random = SeededRandom::new(1);
        let keys = TokenKeys::of(&ServerKeys::generate(&random));
        let token = GrantToken {
            account: "jané@example.org".to_owned(),
            slot: SlotId([1; 8]),
            secret: SlotSecret::copied(&[2; 32]).unwrap(),
            scopes: Scopes::NONE.with(Scope::Mail),
            at: Timestamp(-3),
            generation: 4,
            client: [5; 32],
            binding: [6; 32],
        };
        let text = token.seal(TokenKind::Access, &keys, &random);
        assert!(is_access_token(text.as_bytes()) && text.len() < 400, "{} bytes", text.len());
        let is_token = |c: u8| c.is_ascii_alphanumeric() || c == b'-' || c == b'_';
        assert!(text.bytes().all(is_token), "RFC 6750 §2.1");
        let back = GrantToken::open(TokenKind::Access, text.as_bytes(), &keys).unwrap();
        assert_eq!((back.account, back.slot, back.secret.bytes()), (token.account, token.slot, &[2; 32]));
        assert_eq!((back.scopes, back.at, back.generation), (token.scopes, token.at, 4));
        assert_eq!((back.client, back.binding), ([5; 32], [6; 32]));
        for kind in [TokenKind::Code, TokenKind::Refresh] {
            assert!(GrantToken::open(kind, text.as_bytes(), &keys).is_none());
            let renamed = text.replace("sa_", prefix(kind));
            assert!(GrantToken::open(kind, renamed.as_bytes(), &keys).is_none());
        }
        for wrong in ["", "sa_", "sa_AAAA", &text[..text.len() - 1], &format!("{}=", text.as_str())] {
            assert!(GrantToken::open(TokenKind::Access, wrong.as_bytes(), &keys).is_none(), "{wrong}");
        }
    }
}
