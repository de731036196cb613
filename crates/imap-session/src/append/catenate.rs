//! Parts of a new message that exist already: URLs of CATENATE (RFC 4469, RFC 5092, RFC 5550 for partials).
//!
//! Bytes are copied from one sealed message to the other, a few chunks at a time, and never leave the server.
//! No `\Seen` is set, and the selected mailbox stays as it is (RFC 4469 §3).

use std::ops::Range;
use std::sync::Arc;

use futures::StreamExt;
use sealpost_account::decoded::Span;
use sealpost_account::rights::Rights;
use sealpost_account::{Account, Message};
use sealpost_base::limits::CHUNK_BYTES;
use sealpost_base::{Error, Kind, Uid};
use sealpost_imap::types::{AString, Atom, Code, Partial};
use sealpost_imap::url::ImapUrl;
use sealpost_mailbox::resolve::ResolvedMailbox;
use sealpost_mime::header::HeaderFilter;

use super::receive::Received;
use crate::fetch::section::{self, SectionBytes};
use crate::reply::{Failure, Reply};
use crate::responses::Responses;
use crate::user::User;

/// Bytes read at once.
const WINDOW_BYTES: u64 = 2 * CHUNK_BYTES as u64;
/// Memory for these bytes, sealed and opened; acquired together with that for storing the message.
pub(super) const READ_BYTES: usize = 4 * CHUNK_BYTES;

/// Appends the bytes that a URL names to the incomplete message.
pub(super) async fn catenate(
    user: &User,
    responses: &mut Responses,
    received: &mut Received,
    text: &AString,
) -> Result<(), Failure> {
    let bad = |why: &'static str| bad_url(text, why);
    received.part()?;
    let url = ImapUrl::parse(text.as_bytes()).map_err(|invalid| bad(invalid.0))?;
    // RFC 4469 §3: only relative URLs, which this session authorizes.
    if url.server.is_some() || url.auth.is_some() {
        return Err(bad("only URLs relative to this session can be used"));
    }
    let (account, message) = message_at(user, &url).await.map_err(|failure| match failure {
        Failure::Reply(_) => bad("there is no such message"),
        end => end,
    })?;
    let bytes = if url.section == Default::default() {
        SectionBytes::At(Span { range: 0..message.size(), ..Span::default() })
    } else {
        section::locate(&url.section, &account.structure(&message).await?.outline())
    };
    match bytes {
        SectionBytes::Nowhere => Err(bad("the message has no such part")),
        SectionBytes::At(span) => {
            let span = Span { range: section::cut(span.range, url.partial), ..span };
            received.expect(user, responses, span.range.end - span.range.start).await?;
            copy_bytes(&account, &message, span, received).await
        }
        SectionBytes::Fields(span, filter) => {
            copy_fields(user, responses, (&account, &message), span, filter, url.partial, received).await
        }
    }
}

/// The message that a URL of this session names.
async fn message_at(user: &User, url: &ImapUrl) -> Result<(Arc<Account>, Message), Failure> {
    let resolved = user.resolve(&url.mailbox).await?.require(Rights::READ)?;
    resolved.account.catch_up().await?;
    message_in(resolved, url)
}

async fn copy_bytes(
    account: &Account,
    message: &Message,
    span: Span,
    received: &mut Received,
) -> Result<(), Failure> {
    for range in windows(span.range) {
        let mut left = range.end - range.start;
        let mut raw = account.bytes(message, Span { range, layers: span.layers.clone() }).await?;
        while let Some(piece) = raw.next().await {
            let piece = piece?;
            left = left.saturating_sub(piece.len() as u64);
            received.write(&piece).await?;
        }
        if left > 0 {
            return Err(Error::corrupt("a message is shorter than its structure says").into());
        }
    }
    Ok(())
}

async fn copy_fields(
    user: &User,
    responses: &mut Responses,
    (account, message): (&Account, &Message),
    header: Span,
    mut filter: HeaderFilter,
    partial: Option<Partial>,
    received: &mut Received,
) -> Result<(), Failure> {
    let wanted = section::cut(0..u64::MAX, partial);
    let (mut at, mut passed) = (0, Vec::new());
    for range in windows(header.range) {
        let mut raw = account.bytes(message, Span { range, layers: header.layers.clone() }).await?;
        while let Some(piece) = raw.next().await {
            filter.push(&piece?, &mut |bytes| within(&wanted, &mut at, bytes, &mut passed));
            received.expect(user, responses, passed.len() as u64).await?;
            received.write(&passed).await?;
            passed.clear();
        }
    }
    filter.finish(&mut |bytes| within(&wanted, &mut at, bytes, &mut passed));
    received.expect(user, responses, passed.len() as u64).await?;
    received.write(&passed).await
}

/// The message that a URL names in that state.
pub(crate) fn message_in(
    resolved: ResolvedMailbox,
    url: &ImapUrl,
) -> Result<(Arc<Account>, Message), Failure> {
    let gone = || Error::new(Kind::NotFound, "no such message");
    let state = resolved.account.state();
    let mailbox = resolved.mailbox_in(&state)?;
    // RFC 5092 §5: with another UIDVALIDITY the mailbox counts as missing.
    if url.uid_validity.is_some_and(|validity| validity != mailbox.uid_validity().0) {
        return Err(gone().into());
    }
    let row = Uid::new(url.uid.get()).and_then(|uid| mailbox.row(uid));
    let message = row.and_then(|row| state.message(row.message));
    drop(state);
    Ok((resolved.account, message.ok_or_else(gone)?))
}

/// Splits the range into windows that end at chunk borders.
fn windows(range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        let end = (at / WINDOW_BYTES + 1).saturating_mul(WINDOW_BYTES).min(range.end);
        (at < range.end).then(|| std::mem::replace(&mut at, end)..end)
    })
}

/// Appends the wanted ones of the bytes, which begin at `at`.
fn within(wanted: &Range<u64>, at: &mut u64, bytes: &[u8], out: &mut Vec<u8>) {
    let len = bytes.len() as u64;
    let start = wanted.start.saturating_sub(*at).min(len);
    let end = wanted.end.saturating_sub(*at).min(len).max(start);
    out.extend_from_slice(&bytes[start as usize..end as usize]);
    *at += len;
}

/// `NO [BADURL …]` (RFC 4469 §4.1).
fn bad_url(url: &AString, why: &'static str) -> Failure {
    /// Characters of the URL that the reply repeats.
    const REPEATED: usize = 1000;
    let text: String = String::from_utf8_lossy(url.as_bytes()).chars().take(REPEATED).collect();
    match Atom::new("BADURL") {
        Ok(name) => Reply::no(Code::Other(name, Some(text)), why).into(),
        Err(_) => Reply::refused(why).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_cover_the_range_and_end_at_chunks() {
        assert_eq!(windows(5..5).count(), 0);
        assert_eq!(windows(5..9).next(), Some(5..9));
        let w = WINDOW_BYTES;
        assert_eq!(windows(w - 1..2 * w + 1).collect::<Vec<_>>(), [w - 1..w, w..2 * w, 2 * w..2 * w + 1]);
    }

    #[test]
    fn filtered_bytes_are_cut_to_the_range() {
        let mut out = Vec::new();
        let mut at = 0;
        for piece in [&b"abc"[..], b"", b"defg", b"h"] {
            within(&(2..6), &mut at, piece, &mut out);
        }
        assert_eq!((&out[..], at), (&b"cdef"[..], 8));
    }
}
