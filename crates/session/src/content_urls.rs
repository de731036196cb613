//! Content at a URL: what a submission session asks of the IMAP side for BURL (RFC 4468).
//!
//! The IMAP side knows URLs, their tokens and mailboxes; submission knows who has logged in. Neither
//! knows the other: the server hands one to the other as a [`ContentUrls`].

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use sealpost_base::{AccountId, Error, Result};
use sealpost_vault::RootKey;

/// Resolves URLs of message content for submission.
pub trait ContentUrls: Send + Sync {
    /// Opens what `url` names, if it is of this server, and of a mailbox of that user, who made it
    /// for submission by the same user (`submit+`, RFC 4467 §3).
    ///
    /// Returns the content before any byte of it is read; it holds memory from then on, and the
    /// caller must already have drawn what it needs to take the content.
    ///
    /// # Errors
    /// Why there is none.
    fn open<'a>(&'a self, url: &'a str, user: ContentUser<'a>) -> BoxFuture<'a, Result<Content, UrlRefusal>>;
}

/// The user who submits.
#[derive(Clone, Copy)]
pub struct ContentUser<'a> {
    /// The account.
    pub id: AccountId,
    /// Its name.
    pub name: &'a str,
    /// Its key.
    pub root: &'a RootKey,
}

/// Content that a URL names.
pub struct Content {
    /// Its bytes.
    pub size: u64,
    /// The same as they are read. Ends with an error if fewer come than `size`.
    pub pieces: BoxStream<'static, Result<Bytes>>,
}

/// Why a URL gives no content.
#[derive(Debug)]
pub enum UrlRefusal {
    /// It is no URL of a message; the text says what is wrong.
    Invalid(&'static str),
    /// It is a URL of another server.
    OtherServer,
    /// It is not for submission by this user, has expired or has a wrong token.
    Unauthorized,
    /// The message, or the part of it, does not exist, or its owner may not read it any more.
    Missing,
    /// It cannot be read now.
    Unavailable(Error),
}

impl From<Error> for UrlRefusal {
    fn from(error: Error) -> Self {
        UrlRefusal::Unavailable(error)
    }
}
