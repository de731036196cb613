//! The error type of the storage side: a kind that tells the caller how to react, and a message.
//!
//! The kind decides the reply (each protocol has one table from kinds to replies). The message is for the
//! operator, and never contains a secret or text of a message.

use std::error::Error as StdError;
use std::fmt;

/// How the caller can react to a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Temporary: the same request may succeed later (disk full, store down).
    Retry,
    /// The request is invalid; repeating it cannot help.
    Invalid,
    /// Another writer was first; read the state and decide again.
    Conflict,
    /// The requested object does not exist.
    NotFound,
    /// Not allowed: wrong password, no right.
    Denied,
    /// A named limit was exceeded.
    Limit,
    /// Stored bytes differ from those written: a broken seal, a missing chunk.
    Corrupt,
    /// An evicted body that is not stored here, and the source server is unreachable or no longer has it.
    Offloaded,
    /// A bug in Sealpost.
    Internal,
}

/// A failure: its [`Kind`], a message for the operator, and the cause if there is one.
pub struct Error {
    kind: Kind,
    message: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of `kind`, with a message for the operator.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Error { kind, message: message.into(), source: None }
    }

    /// Attaches the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Prepends `context: ` to the message.
    #[must_use]
    pub fn context(mut self, context: impl fmt::Display) -> Self {
        self.message = format!("{context}: {}", self.message);
        self
    }

    /// `what`, which is authentic, and which a newer version of Sealpost has written: it says something that
    /// this version does not know. [`Kind::Retry`], because nothing is damaged and a newer program reads it.
    pub fn from_newer_version(what: impl fmt::Display) -> Self {
        Self::retry(format!(
            "{what} was made by a newer version of Sealpost, and nothing is damaged: update this node"
        ))
    }

    /// The error for `what`, whose bytes are authentic and cannot be decoded: made by a newer version if they
    /// have a variant that this one does not know, else [`Kind::Corrupt`].
    pub fn undecodable(what: impl fmt::Display, e: minicbor::decode::Error) -> Self {
        match e.is_unknown_variant() {
            true => Self::from_newer_version(what).with_source(e),
            false => Self::corrupt(format!("{what} cannot be read")).with_source(e),
        }
    }

    /// How the caller can react.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// [`Kind::Retry`] with a message.
    pub fn retry(message: impl Into<String>) -> Self {
        Self::new(Kind::Retry, message)
    }
    /// [`Kind::Invalid`] with a message.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Kind::Invalid, message)
    }
    /// [`Kind::Conflict`] with a message.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(Kind::Conflict, message)
    }
    /// [`Kind::NotFound`] with a message.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(Kind::NotFound, message)
    }
    /// [`Kind::Denied`] with a message.
    pub fn denied(message: impl Into<String>) -> Self {
        Self::new(Kind::Denied, message)
    }
    /// [`Kind::Limit`] with a message.
    pub fn limit(message: impl Into<String>) -> Self {
        Self::new(Kind::Limit, message)
    }
    /// [`Kind::Corrupt`] with a message.
    pub fn corrupt(message: impl Into<String>) -> Self {
        Self::new(Kind::Corrupt, message)
    }
    /// [`Kind::Offloaded`] with a message.
    pub fn offloaded(message: impl Into<String>) -> Self {
        Self::new(Kind::Offloaded, message)
    }
    /// [`Kind::Internal`] with a message.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Kind::Internal, message)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(source) = &self.source {
            write!(f, ": {source}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({self})", self.kind)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|s| s as _)
    }
}
