//! Messages from another server.

use std::collections::HashMap;

use sealpost_base::{Error, Result, Uid, UidSet};
use sealpost_imap::client::{Event, FetchData};
use sealpost_imap::types::{DateTime, Response};
use tokio::sync::mpsc;

use super::key::Keys;
use super::target::list;
use super::{Head, Item};
use crate::client::{Connection, Done, Found, Server};
use crate::keep::Flags;

/// Messages whose flags and dates are asked for at a time, before their octets.
const GROUP: usize = 200;

/// The server's folders.
pub(super) async fn folders(server: &Server) -> Result<Vec<Found>> {
    let mut connection = Connection::open(server).await?;
    let listing = connection.listing().await?;
    connection.logout().await;
    Ok(listing.folders)
}

/// The UIDs of the messages that are not `there`, and how many are.
pub(super) async fn missing(server: &Server, found: &Found, there: &mut Keys) -> Result<(UidSet, u64)> {
    let mut connection = Connection::open(server).await?;
    let selected = connection.examine(&found.wire).await?;
    let (mut missing, mut present) = (Vec::new(), 0);
    if selected.messages > 0 {
        list(&mut connection, "1:*", |uid, key| {
            if there.take(&key) { present += 1 } else { missing.extend(Uid::new(uid)) }
        })
        .await?;
    }
    connection.logout().await;
    Ok((missing.into_iter().collect(), present))
}

/// Sends these messages.
pub(super) async fn send(
    server: &Server,
    found: &Found,
    missing: &UidSet,
    to: &mpsc::Sender<Item>,
) -> Result<()> {
    let mut connection = Connection::open(server).await?;
    connection.examine(&found.wire).await?;
    for at in (0..missing.len()).step_by(GROUP) {
        let group = missing.slice(at..missing.len().min(at + GROUP));
        if !send_group(&mut connection, &group, to).await? {
            return Ok(());
        }
    }
    connection.logout().await;
    Ok(())
}

/// `false`: nobody takes them any more.
async fn send_group(connection: &mut Connection, group: &UidSet, to: &mpsc::Sender<Item>) -> Result<bool> {
    let set: Vec<String> = group.ranges().map(|(first, last)| format!("{first}:{last}")).collect();
    let set = set.join(",");
    // What stands before a message's octets in APPEND may come behind them in FETCH.
    let mut heads: HashMap<u32, (Flags, Option<DateTime>)> = HashMap::new();
    connection.queue(|w| w.raw(format!("UID FETCH {set} (UID FLAGS INTERNALDATE)")));
    let last = connection.queue(|w| w.raw(format!("UID FETCH {set} (UID BODY.PEEK[])")));
    connection.flush().await?;
    let mut left = group.clone();
    let (mut uid, mut flags, mut date, mut body, mut large) = (None, None, None, None, false);
    loop {
        let event = connection.next().await?;
        if Connection::completion(&event) == Some(last)
            && let Event::Response(Response::Status { status, code, text, .. }) = event
        {
            let refused = Done { status, code, text }.ok("FETCH").err();
            for uid in left.iter() {
                let reason = refused.as_ref().map_or("the server did not send it".into(), Error::to_string);
                if to.send(Item::Failed(uid.get(), reason)).await.is_err() {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        match event {
            Event::FetchBegin(_) => (uid, flags, date, body, large) = (None, None, None, None, false),
            Event::Fetch(FetchData::Uid(n)) => uid = Some(n),
            Event::Fetch(FetchData::Flags(list)) => {
                let names: Vec<String> = list.iter().map(ToString::to_string).collect();
                flags = Some(Flags::from_names(names.iter().map(String::as_str)));
            }
            Event::Fetch(FetchData::InternalDate(at)) => date = Some(at),
            Event::Fetch(FetchData::Body(_, octets)) => body = octets,
            Event::LiteralBegin(_, size) => {
                let Some(uid) = uid else {
                    return Err(Error::retry("the server sends a message before it says which one"));
                };
                let (flags, date) = heads.remove(&uid).unwrap_or_default();
                large = true;
                if to.send(Item::Begin(Head { uid, flags, date, size })).await.is_err() {
                    return Ok(false);
                }
            }
            Event::LiteralData(bytes) => {
                let taken = !large || to.send(Item::Octets(bytes)).await.is_ok();
                if !taken {
                    return Ok(false);
                }
            }
            Event::FetchEnd => {
                let Some(uid) = uid else { continue };
                if let Some(octets) = body.take() {
                    let (flags, date) = heads.remove(&uid).unwrap_or_default();
                    let head = Head { uid, flags, date, size: octets.len() as u64 };
                    if to.send(Item::Begin(head)).await.is_err()
                        || to.send(Item::Octets(octets.into())).await.is_err()
                    {
                        return Ok(false);
                    }
                    large = true;
                } else if let Some(flags) = flags.take() {
                    heads.insert(uid, (flags, date));
                }
                if large {
                    if let Some(uid) = Uid::new(uid) {
                        left.remove(uid);
                    }
                    if to.send(Item::End).await.is_err() {
                        return Ok(false);
                    }
                }
            }
            _ => {}
        }
    }
}
