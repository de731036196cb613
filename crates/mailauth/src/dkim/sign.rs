//! Signing a message while it streams (RFC 6376 §5).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest;
use sealpost_base::{Error, Result};
use sealpost_mime::header;

use super::{FIELD, SigningKey, signed_bytes};
use crate::canonical::{BodyCanonicalizer, Canonicalization};

/// Fields that are signed once more than they occur, so that none can be added: those that readers
/// see or programs act on. Mailing lists add none of them.
const CLOSED: [&str; 11] = [
    "From",
    "To",
    "Cc",
    "Subject",
    "Date",
    "Message-ID",
    "In-Reply-To",
    "References",
    "MIME-Version",
    "Content-Type",
    "Content-Transfer-Encoding",
];
/// Fields that are signed as often as they are there.
const OPEN: [&str; 13] = [
    "Sender",
    "Reply-To",
    "Resent-Date",
    "Resent-From",
    "Resent-To",
    "Resent-Cc",
    "List-Id",
    "List-Help",
    "List-Unsubscribe",
    "List-Unsubscribe-Post",
    "List-Subscribe",
    "List-Post",
    "Autocrypt",
];
/// Fields of one name that are signed; a message with more has them unsigned from there upwards.
const REPEATED: usize = 8;
/// Characters of a line of the field.
const LINE: usize = 76;

/// The domain and the time of a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SigningOptions<'a> {
    /// The domain that signs: `d=`, as A-labels.
    pub domain: &'a str,
    /// The time, in seconds since 1970: `t=`.
    pub timestamp: u64,
    /// When the signatures end, in seconds since 1970: `x=`.
    pub expiry: Option<u64>,
}

/// The hash of a body, relaxed, computed while it streams. Memory: 4 KiB.
pub struct BodyHash {
    canonicalizer: BodyCanonicalizer,
    hash: digest::Context,
}

impl Default for BodyHash {
    fn default() -> Self {
        let canonicalizer = BodyCanonicalizer::new(Canonicalization::Relaxed);
        BodyHash { canonicalizer, hash: digest::Context::new(&digest::SHA256) }
    }
}

impl BodyHash {
    /// Takes the next piece of the body.
    pub fn push(&mut self, piece: &[u8]) {
        self.canonicalizer.push(piece, &mut |bytes| self.hash.update(bytes));
    }

    /// The body is over: what `bh=` says.
    pub fn finish(self) -> String {
        let BodyHash { canonicalizer, mut hash } = self;
        canonicalizer.finish(&mut |bytes| hash.update(bytes));
        STANDARD.encode(hash.finish())
    }
}

/// The signature fields of a message, relaxed/relaxed, with their line ends, to put before the
/// header: one for each of `keys`, which are selectors and their keys. `header` is with or without
/// the empty line after it.
///
/// # Errors
/// Invalid, if there is no From: such a message cannot be signed (RFC 6376 §5.4). Internal: a key
/// is of no use.
pub fn sign(
    header: &[u8],
    body: BodyHash,
    options: SigningOptions<'_>,
    keys: &[(&str, &SigningKey)],
) -> Result<Vec<u8>> {
    let fields: Vec<(&[u8], &[u8])> = header::raw_fields(header).collect();
    if !fields.iter().any(|(name, _)| name.eq_ignore_ascii_case(b"from")) {
        return Err(Error::invalid("a message without a From field cannot be signed"));
    }
    let (names, body_hash) = (names(&fields), body.finish());
    let mut out = Vec::new();
    for (selector, key) in keys {
        let mut field = unsigned_field(&options, selector, key, &names, &body_hash);
        let signed = signed_bytes(Canonicalization::Relaxed, &fields, &names, field.text.as_bytes());
        field.folded(&STANDARD.encode(key.sign(&signed)?));
        out.extend_from_slice(field.text.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    Ok(out)
}

/// Signs a message with one or more keys, relaxed/relaxed. Memory: its header, and 4 KiB.
pub struct Signer<'a> {
    options: SigningOptions<'a>,
    header: &'a [u8],
    body: BodyHash,
}

impl<'a> Signer<'a> {
    /// Begins with the header of a message, with or without the empty line after it.
    ///
    /// # Errors
    /// Invalid, if it has no From: such a message cannot be signed (RFC 6376 §5.4).
    pub fn new(header: &'a [u8], options: SigningOptions<'a>) -> Result<Self> {
        if !header::raw_fields(header).any(|(name, _)| name.eq_ignore_ascii_case(b"from")) {
            return Err(Error::invalid("a message without a From field cannot be signed"));
        }
        Ok(Signer { options, header, body: BodyHash::default() })
    }

    /// Takes the next piece of the body.
    pub fn push(&mut self, piece: &[u8]) {
        self.body.push(piece);
    }

    /// The body is over: the signature fields, with their line ends, to put before the header.
    /// `keys` are selectors and their keys.
    ///
    /// # Errors
    /// Internal: a key is of no use.
    pub fn finish(self, keys: &[(&str, &SigningKey)]) -> Result<Vec<u8>> {
        sign(self.header, self.body, self.options, keys)
    }
}

/// The names for `h=`.
fn names(fields: &[(&[u8], &[u8])]) -> Vec<String> {
    let count = |name: &str| {
        fields.iter().filter(|(field, _)| field.eq_ignore_ascii_case(name.as_bytes())).count().min(REPEATED)
    };
    let closed = CLOSED.iter().flat_map(|name| std::iter::repeat_n(*name, count(name) + 1));
    let open = OPEN.iter().flat_map(|name| std::iter::repeat_n(*name, count(name)));
    closed.chain(open).map(str::to_owned).collect()
}

/// The signature field up to `b=`, without a line end.
fn unsigned_field(
    options: &SigningOptions<'_>,
    selector: &str,
    key: &SigningKey,
    names: &[String],
    body_hash: &str,
) -> Folded {
    let mut field = Folded::new(FIELD);
    field.tag(" v=1;");
    field.tag(&format!(" a={};", key.algorithm().name()));
    field.tag(" c=relaxed/relaxed;");
    field.tag(&format!(" d={};", options.domain));
    field.tag(&format!(" s={selector};"));
    field.tag(&format!(" t={};", options.timestamp));
    if let Some(expiry) = options.expiry {
        field.tag(&format!(" x={expiry};"));
    }
    for (at, name) in names.iter().enumerate() {
        let begin = if at == 0 { " h=" } else { "" };
        let end = if at + 1 == names.len() { ";" } else { ":" };
        field.tag(&format!("{begin}{name}{end}"));
    }
    field.tag(&format!(" bh={body_hash};"));
    field.tag(" b=");
    field
}

/// A field that is folded as it grows.
struct Folded {
    text: String,
    column: usize,
}

impl Folded {
    fn new(name: &str) -> Self {
        Folded { text: format!("{name}:"), column: name.len() + 1 }
    }

    /// Adds text that must not be cut, on a new line if this one is full. It may begin with a
    /// space.
    fn tag(&mut self, text: &str) {
        if self.column + text.len() > LINE {
            self.text.push_str("\r\n\t");
            let text = text.trim_start();
            self.text.push_str(text);
            self.column = 8 + text.len();
        } else {
            self.text.push_str(text);
            self.column += text.len();
        }
    }

    /// Adds text that may be cut anywhere.
    fn folded(&mut self, mut text: &str) {
        while !text.is_empty() {
            if self.column >= LINE {
                self.text.push_str("\r\n\t");
                self.column = 8;
            }
            let (line, rest) = text.split_at((LINE - self.column).min(text.len()));
            self.text.push_str(line);
            self.column += line.len();
            text = rest;
        }
    }
}
