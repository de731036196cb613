//! Messages that a FETCH cannot return, and its tagged reply.

use sealpost_base::{Error, Kind, Uid, UidSet};
use sealpost_imap::types::{Code, Status};

use crate::reply::Reply;
use crate::responses::Responses;
use crate::selected::Selected;

/// Failures of some of the messages.
#[derive(Default)]
pub(super) struct Trouble {
    /// Messages that another session expunged, unreported to this client so far.
    pub(super) gone: usize,
    /// Whether the log was read to its end after an object was missing.
    pub(super) caught_up: bool,
    /// Damaged messages.
    pub(super) damaged: UidSet,
    /// Whether a message is temporarily unreadable.
    pub(super) unavailable: bool,
    /// Whether a part has an unknown encoding.
    pub(super) unknown_encoding: bool,
}

impl Trouble {
    pub(super) fn reply(&self, uid: bool) -> Reply {
        if !self.damaged.is_empty() {
            return Reply::no(Code::Corruption, format!("damaged messages, by UID: {}", self.damaged));
        }
        if self.unavailable {
            return Reply::no(Code::Unavailable, "some messages cannot be read now");
        }
        if self.unknown_encoding {
            return Reply::no(Code::UnknownCte, "a part has an unknown transfer encoding");
        }
        // RFC 2180 §4.1.2; a UID that no longer exists is skipped (RFC 3501 §6.4.8).
        if self.gone > 0 && !uid {
            return Reply::no(Code::ExpungeIssued, "some of the messages no longer exist");
        }
        Reply::ok("FETCH completed")
    }
}

/// Reports an unreadable message as untagged data, and records it for the tagged reply.
pub(super) async fn report(
    selected: &Selected,
    responses: &mut Responses,
    uid: Uid,
    mut error: Error,
    trouble: &mut Trouble,
) {
    if error.kind() == Kind::NotFound {
        match is_gone(selected, uid, trouble).await {
            Ok(true) => {
                trouble.gone += 1;
                return;
            }
            Ok(false) => {}
            Err(unknown) => error = unknown,
        }
    }
    let damaged = matches!(error.kind(), Kind::Corrupt | Kind::NotFound);
    if error.kind() == Kind::Offloaded {
        // This error text tells the owner what to do, and nothing about the store.
        tracing::warn!(%uid, %error, "a body is not stored here");
        trouble.unavailable = true;
        let text = format!("message UID {uid}: {error}");
        responses.out().status(None, Status::No, Some(&Code::Unavailable), &text);
        return;
    }
    tracing::error!(%uid, %error, "a message could not be read");
    let (code, text) = if damaged {
        trouble.damaged.insert(uid);
        (Code::Corruption, format!("message UID {uid} is damaged"))
    } else {
        trouble.unavailable = true;
        (Code::Unavailable, format!("message UID {uid} cannot be read now"))
    };
    responses.out().status(None, Status::No, Some(&code), &text);
}

/// Whether a missing message was expunged. A suspended node may not have read yet that other nodes have
/// expunged and collected it.
async fn is_gone(selected: &Selected, uid: Uid, trouble: &mut Trouble) -> Result<bool, Error> {
    if !trouble.caught_up {
        selected.account().refresh().await?;
        trouble.caught_up = true;
    }
    let state = selected.account().state();
    Ok(selected.mailbox_in(&state).map_or(true, |mailbox| mailbox.row(uid).is_none()))
}
