//! Content at a URL: what a submission session requests from the IMAP side for BURL (RFC 4468).
//!
//! The IMAP side knows URLs, their tokens and mailboxes; submission knows the user. Neither knows the other:
//! the server passes a [`ContentUrls`] to submission.

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use sealpost_base::{AccountId, Error, Result};
use sealpost_vault::RootKey;

/// Resolves URLs of message content for submission.
pub trait ContentUrls: Send + Sync {
    /// Opens the content of `url`, if it is a URL of this server, in a mailbox of that user, made for
    /// submission by the same user (`submit+`, RFC 4467 §3).
    ///
    /// Returns before any byte is read. The content holds memory from then on, and the caller must already
    /// hold the memory to take it.
    ///
    /// # Errors
    /// Why there is none.
    fn open<'a>(&'a self, url: &'a str, user: ContentUser<'a>) -> BoxFuture<'a, Result<Content, UrlRefusal>>;
}

/// The submitting user.
#[derive(Clone, Copy)]
pub struct ContentUser<'a> {
    /// The account.
    pub id: AccountId,
    /// Its name.
    pub name: &'a str,
    /// Its root key.
    pub root: &'a RootKey,
}

/// The content of a URL.
pub struct Content {
    /// Its size in bytes.
    pub size: u64,
    /// Its bytes, read on demand. Ends with an error if there are fewer than `size`.
    pub pieces: BoxStream<'static, Result<Bytes>>,
}

/// Why a URL gives no content.
#[derive(Debug)]
pub enum UrlRefusal {
    /// It is no URL of a message; the text has the reason.
    Invalid(&'static str),
    /// It is a URL of another server.
    OtherServer,
    /// It is not for submission by this user, has expired or has a wrong token.
    Unauthorized,
    /// The message, or the part of it, does not exist, or its owner may no longer read it.
    Missing,
    /// It is temporarily unreadable.
    Unavailable(Error),
}

impl From<Error> for UrlRefusal {
    fn from(error: Error) -> Self {
        UrlRefusal::Unavailable(error)
    }
}
