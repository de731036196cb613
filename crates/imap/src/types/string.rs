//! The smallest words: [`Tag`], [`Atom`], [`AString`], [`Secret`].

use std::fmt;
use std::sync::Arc;

use sealpost_base::limits;
use zeroize::Zeroizing;

/// The error of a constructor in this module: the bytes cannot be that kind of word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Invalid(pub &'static str);

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Invalid {}

/// `ATOM-CHAR`: any CHAR except atom-specials (RFC 3501 §9).
pub fn is_atom_char(byte: u8) -> bool {
    matches!(byte, 0x21..=0x7e) && !matches!(byte, b'(' | b')' | b'{' | b'%' | b'*' | b'"' | b'\\' | b']')
}

/// `ASTRING-CHAR = ATOM-CHAR / resp-specials`.
pub fn is_astring_char(byte: u8) -> bool {
    is_atom_char(byte) || byte == b']'
}

/// `tag = 1*<any ASTRING-CHAR except "+">`.
pub fn is_tag_char(byte: u8) -> bool {
    is_astring_char(byte) && byte != b'+'
}

/// A command tag, given back with its completion. Cloning is cheap.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Tag(Arc<str>);

impl Tag {
    /// A tag of 1 to [`limits::IMAP_TAG_BYTES`] tag characters.
    pub fn new(tag: &str) -> Result<Self, Invalid> {
        Self::from_bytes(tag.as_bytes())
    }

    /// As [`Tag::new`], from bytes.
    pub fn from_bytes(tag: &[u8]) -> Result<Self, Invalid> {
        if tag.is_empty() || tag.len() > limits::IMAP_TAG_BYTES || !tag.iter().all(|&b| is_tag_char(b)) {
            return Err(Invalid("not a tag"));
        }
        std::str::from_utf8(tag).map(|tag| Tag(tag.into())).map_err(|_| Invalid("not a tag"))
    }

    /// The tag as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

/// An atom: 1 or more atom characters. Compared without regard to ASCII case, written as it was given.
#[derive(Clone)]
pub struct Atom(Box<str>);

impl Atom {
    /// An atom; `Err` if `text` is empty or holds anything but atom characters.
    pub fn new(text: &str) -> Result<Self, Invalid> {
        if text.is_empty() || !text.bytes().all(is_atom_char) {
            return Err(Invalid("not an atom"));
        }
        Ok(Atom(text.into()))
    }

    /// The atom as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl PartialEq for Atom {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl Eq for Atom {}

impl PartialEq<str> for Atom {
    fn eq(&self, other: &str) -> bool {
        self.0.eq_ignore_ascii_case(other)
    }
}

impl fmt::Display for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

/// The bytes of an atom, quoted string or literal: anything but NUL (RFC 3501 §9, `CHAR8`), of no
/// known charset.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct AString(Vec<u8>);

impl AString {
    /// A string; `Err` if it holds a NUL.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self, Invalid> {
        let bytes = bytes.into();
        if bytes.contains(&0) { Err(Invalid("NUL in a string")) } else { Ok(AString(bytes)) }
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes as text, if they are UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// The bytes, owned.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

impl From<&str> for AString {
    /// NULs are left out.
    fn from(text: &str) -> Self {
        AString(text.bytes().filter(|&b| b != 0).collect())
    }
}

impl fmt::Debug for AString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

/// A password or SASL response: wiped when dropped, never printed.
#[derive(Clone)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Takes the bytes over.
    pub fn new(bytes: Vec<u8>) -> Self {
        Secret(Zeroizing::new(bytes))
    }

    /// The secret itself; do not copy it anywhere that is not wiped.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// For tests and round trips; not constant-time, so never for checking a password.
impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}
