//! A server's reply, in a form that can be stored and shown.

use std::fmt;

use minicbor::{Decode, Encode};
use sealpost_smtp::types::{Enhanced, Reply};

/// Characters of a server's reply that are kept.
pub const REPLY_TEXT_CHARS: usize = 400;

/// A server's reply, bounded and printable.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct PeerReply {
    /// The three-digit code.
    #[n(0)]
    pub code: u16,
    /// The enhanced code, if the server gave one.
    #[n(1)]
    #[cbor(with = "enhanced_code")]
    pub enhanced: Option<Enhanced>,
    /// Its text in one line, at most [`REPLY_TEXT_CHARS`] characters, none of them a control character.
    #[n(2)]
    pub text: String,
}

impl PeerReply {
    /// Keeps the bounded part of `reply`.
    pub fn new(reply: &Reply) -> Self {
        let lines = reply.lines.iter().flat_map(|line| [" ", line]).skip(1);
        let printable = |c: char| if c.is_control() { '?' } else { c };
        let text = lines.flat_map(str::chars).take(REPLY_TEXT_CHARS).map(printable).collect();
        PeerReply { code: reply.code, enhanced: reply.enhanced, text }
    }
}

impl fmt::Display for PeerReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.code)?;
        if let Some(enhanced) = self.enhanced {
            write!(f, " {enhanced}")?;
        }
        if !self.text.is_empty() {
            write!(f, " {}", self.text)?;
        }
        Ok(())
    }
}

/// An enhanced code as an array of three numbers, or null.
mod enhanced_code {
    use minicbor::decode::{Decoder, Error as DecodeError};
    use minicbor::encode::{Encoder, Error as EncodeError, Write};
    use sealpost_smtp::types::Enhanced;

    pub(super) fn encode<C, W: Write>(
        value: &Option<Enhanced>,
        e: &mut Encoder<W>,
        ctx: &mut C,
    ) -> Result<(), EncodeError<W::Error>> {
        let numbers = value.map(|code| (code.class, code.subject, code.detail));
        e.encode_with(numbers, ctx)?.ok()
    }

    pub(super) fn decode<C>(d: &mut Decoder<'_>, ctx: &mut C) -> Result<Option<Enhanced>, DecodeError> {
        let numbers: Option<(u8, u16, u16)> = d.decode_with(ctx)?;
        Ok(numbers.map(|(class, subject, detail)| Enhanced::new(class, subject, detail)))
    }
}
