//! The requests of a comparison to the server.

use ring::digest::{Context, SHA256};
use sealpost_base::{Result, UidSet};
use sealpost_imap::client::{Event, FetchData};
use sealpost_imap::types::{Response, Status};

use crate::backup::digest::finish;
use crate::client::{Connection, Done, lowest};

/// UIDs and sizes of all messages of the selected mailbox.
pub(super) async fn sizes_of(connection: &mut Connection, on: &mut impl FnMut(u32, u64)) -> Result<()> {
    let mut last = None;
    loop {
        let (mut uid, mut size) = (0, 0);
        let take = |event| {
            match event {
                Event::FetchBegin(_) => (uid, size) = (0, 0),
                Event::Fetch(FetchData::Uid(n)) => uid = n,
                Event::Fetch(FetchData::Rfc822Size(n)) => size = n,
                Event::FetchEnd => on(uid, size),
                _ => {}
            }
            Ok(())
        };
        let to = last.map_or("*".to_owned(), |last: u32| last.to_string());
        let command = format!("UID FETCH 1:{to} (UID RFC822.SIZE)");
        let done = connection.run(|w| w.raw(&command), take).await?;
        // RFC 9738 §3.1: those below were left out.
        match done.code.as_ref().and_then(lowest).filter(|uid| last.is_none_or(|last| *uid <= last)) {
            Some(uid) if uid > 1 => last = Some(uid - 1),
            Some(_) => return Ok(()),
            None => return done.ok("asking for sizes").map(drop),
        }
    }
}

/// The hashes of messages, as the server sends them.
pub(super) async fn hashes(
    connection: &mut Connection,
    set: &UidSet,
    mut on: impl FnMut(u32, [u8; 32]),
) -> Result<()> {
    let tag = connection.queue(|w| w.raw(format!("UID FETCH {set} (UID BODY.PEEK[])")));
    connection.flush().await?;
    let (mut uid, mut hash) = (None, None);
    loop {
        let event = connection.next().await?;
        if Connection::completion(&event) == Some(tag)
            && let Event::Response(Response::Status { status, code, text, .. }) = event
        {
            let done = Done { status, code, text };
            return if done.status == Status::Ok { Ok(()) } else { done.ok("fetching messages").map(drop) };
        }
        match event {
            Event::FetchBegin(_) => (uid, hash) = (None, None),
            Event::Fetch(FetchData::Uid(n)) => uid = Some(n),
            Event::Fetch(FetchData::Body(_, Some(bytes))) => {
                let mut whole = Context::new(&SHA256);
                whole.update(&bytes);
                hash = Some(whole);
            }
            Event::LiteralBegin(..) => hash = Some(Context::new(&SHA256)),
            Event::LiteralData(bytes) => {
                if let Some(hash) = &mut hash {
                    hash.update(&bytes);
                }
            }
            Event::FetchEnd => {
                if let (Some(uid), Some(hash)) = (uid.take(), hash.take()) {
                    on(uid, finish(hash));
                }
            }
            _ => {}
        }
    }
}
