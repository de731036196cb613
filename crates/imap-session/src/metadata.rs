//! GETMETADATA, SETMETADATA and METADATA (RFC 5464, RFC 6154 §4, RFC 9590).
//!
//! Private entries are in the user's log, shared ones in the log that has the mailbox's messages. The
//! server's shared entries come from the operator's settings; no client can set them.

mod set;
mod watch;

use std::sync::Arc;

use sealpost_account::metadata::{self, Holder};
use sealpost_account::rights::Rights;
use sealpost_account::{Account, AccountState, SpecialUses, ops};
use sealpost_base::{Permit, limits};
use sealpost_imap::types::{Code, Depth, Entry, GetMetadata, Mailbox, MetadataCode, Response};
use sealpost_mailbox::memory::unless_pressed;
use sealpost_mailbox::resolve::ResolvedMailbox;

use super::filters;
use super::reply::{Failure, Outcome, Reply};

use super::responses::Responses;
use super::user::User;
pub(super) use set::set_metadata;
pub(super) use watch::{MetadataSubscription, report_metadata, watch_metadata};

/// Bytes of names and values copied from the state and written at once. One value may exceed it, with a
/// permit if it is long.
const BATCH_BYTES: usize = limits::IMAP_OUTPUT_FREE_BYTES;
/// Memory to send a name and a value: copied, and written into a buffer that doubles as it grows.
const LONG_VALUE_BYTES: usize = 3 * (limits::METADATA_VALUE_BYTES + limits::METADATA_ENTRY_BYTES);
/// Entries read while the state is borrowed.
const BATCH_ENTRIES: usize = 256;
/// How to reach the administrator (RFC 5464 §3.2.1.1).
const ADMIN: &str = "/shared/admin";

/// The place of a mailbox's entries, or of the server's.
struct Source {
    mailbox: Option<Mailbox>,
    private: Shelf,
    shared: Shelf,
    /// The resolved mailbox.
    resolved: Option<ResolvedMailbox>,
}

/// The entries in one log.
#[derive(Clone)]
struct Shelf {
    account: Arc<Account>,
    holder: Holder,
}

/// Where to continue.
enum Next {
    /// There are no more.
    End,
    /// After that entry.
    Behind(String),
    /// At the same entry: it is long and needs memory.
    Long,
}

/// Entries to send to the client.
struct Outgoing<'a> {
    mailbox: Option<&'a Mailbox>,
    max_size: Option<u64>,
    /// The longest omitted value, in bytes.
    longest: Option<u64>,
    waiting: Vec<(Entry, Option<Vec<u8>>)>,
    bytes: usize,
    /// The memory for a long value, until it is sent.
    room: Option<Permit>,
}

/// GETMETADATA.
pub(super) async fn get_metadata(user: &User, responses: &mut Responses, get: &GetMetadata) -> Outcome {
    let source = source(user, get.mailbox.as_ref()).await?;
    let longest = write_values(user, responses, &source, &get.entries, get.depth, get.max_size).await?;
    Ok(match longest {
        // RFC 5464 §4.2.1
        Some(bytes) => Reply::ok_with(
            Code::Metadata(MetadataCode::LongEntries(bytes)),
            "GETMETADATA completed, some values are too long",
        ),
        None => Reply::ok("GETMETADATA completed"),
    })
}

/// Writes `* METADATA` for a name that LIST returns (RFC 9590 §3); an entry without a value is NIL.
pub(super) async fn report_listed(
    user: &User,
    responses: &mut Responses,
    mailbox: &Mailbox,
    entries: &[Entry],
) -> Result<(), Failure> {
    let source = source(user, Some(mailbox)).await?;
    write_values(user, responses, &source, entries, Depth::Zero, None).await?;
    Ok(())
}

/// Resolves a mailbox; `None` is the server.
async fn source(user: &User, mailbox: Option<&Mailbox>) -> Result<Source, Failure> {
    let account = user.account().clone();
    let Some(name) = mailbox else {
        let shelf = Shelf { account, holder: Holder::Server };
        return Ok(Source { mailbox: None, private: shelf.clone(), shared: shelf, resolved: None });
    };
    let resolved = user.resolve(name).await?.require(Rights::LOOKUP)?;
    // RFC 5464 §3.3: "l", and any of these.
    let one_of = Rights::READ.with(Rights::SEEN).with(Rights::WRITE).with(Rights::INSERT).with(Rights::POST);
    if !resolved.rights.intersects(one_of) {
        return Err(Reply::no(Code::NoPerm, "you do not have the right to see its metadata").into());
    }
    let own = ops::existing(&account.state(), name.as_str())?.id();
    Ok(Source {
        mailbox: Some(name.clone()),
        private: Shelf { account, holder: Holder::Mailbox(own) },
        shared: Shelf { account: resolved.account.clone(), holder: Holder::Mailbox(resolved.mailbox) },
        resolved: Some(resolved),
    })
}

/// Writes entries with their values, in bounded pieces; returns the longest omitted value.
async fn write_values(
    user: &User,
    responses: &mut Responses,
    source: &Source,
    entries: &[Entry],
    depth: Depth,
    max_size: Option<u64>,
) -> Result<Option<u64>, Failure> {
    let mailbox = source.mailbox.as_ref();
    let mut out = Outgoing { mailbox, max_size, longest: None, waiting: Vec::new(), bytes: 0, room: None };
    for top in distinct(entries, depth) {
        let shelf = source.shelf(top);
        if out.room.is_none() && is_long(source, shelf, top.as_str()) {
            write_entries(responses, &mut out, 0).await?;
            out.room = Some(room_for_a_long_value(user, responses).await?);
        }
        let value = value(user, source, shelf, top.as_str());
        // An entry requested by name alone is always returned.
        if depth == Depth::Zero || value.is_some() {
            out.add(top.clone(), value);
            write_entries(responses, &mut out, BATCH_BYTES).await?;
        }
        if depth == Depth::Zero {
            continue;
        }
        for entry in computed_below(user, source, top, depth) {
            let value = computed(user, source, entry.as_str());
            out.add(entry, value);
        }
        let mut after = top.as_str().to_owned();
        loop {
            let next = out.collect(&shelf.account.state(), shelf.holder, top, depth, &after);
            write_entries(responses, &mut out, BATCH_BYTES).await?;
            match next {
                Next::End => break,
                Next::Behind(name) => after = name,
                Next::Long => {
                    write_entries(responses, &mut out, 0).await?;
                    out.room = Some(room_for_a_long_value(user, responses).await?);
                }
            }
            tokio::task::yield_now().await;
        }
    }
    write_entries(responses, &mut out, 0).await?;
    Ok(out.longest)
}

/// Writes pending entries if they exceed `limit` bytes.
async fn write_entries(
    responses: &mut Responses,
    out: &mut Outgoing<'_>,
    limit: usize,
) -> Result<(), Failure> {
    if out.waiting.is_empty() || out.bytes < limit {
        return Ok(());
    }
    out.bytes = 0;
    let response =
        Response::Metadata { mailbox: out.mailbox.cloned(), entries: std::mem::take(&mut out.waiting) };
    responses.out().response(&response);
    drop(response);
    responses.relieve().await?;
    out.room = None;
    Ok(())
}

/// Memory for a value longer than a connection may hold without a permit. Held until the client has taken the
/// value; a stalled client is disconnected while others wait for such memory.
async fn room_for_a_long_value(user: &User, responses: &mut Responses) -> Result<Permit, Failure> {
    let (room, accounts) = (user.shared.long_values.acquire(LONG_VALUE_BYTES), user.accounts());
    let room = responses.await_with_progress(unless_pressed(|| accounts.is_pressure_severe(), room)).await?;
    room.ok_or_else(|| Reply::no(Code::Unavailable, "not enough memory for long values; retry later").into())
}

fn is_long(source: &Source, shelf: &Shelf, entry: &str) -> bool {
    let state = shelf.account.state();
    let stored = metadata::value(&state, shelf.holder, entry);
    !is_computed(source, entry) && stored.is_some_and(|value| value.len() > BATCH_BYTES)
}

/// The value of an entry, stored or computed.
fn value(user: &User, source: &Source, shelf: &Shelf, entry: &str) -> Option<Vec<u8>> {
    if is_computed(source, entry) {
        return computed(user, source, entry);
    }
    metadata::value(&shelf.account.state(), shelf.holder, entry).map(<[u8]>::to_vec)
}

/// The value of an entry that is computed instead of stored.
fn computed(user: &User, source: &Source, entry: &str) -> Option<Vec<u8>> {
    match (entry, source.private.holder) {
        // RFC 6154 §4: "a space-separated list of special-use attributes", or NIL.
        (metadata::SPECIAL_USE, Holder::Mailbox(id)) => {
            let uses = source.private.account.state().any_mailbox(id)?.special_uses();
            attributes(uses).map(String::into_bytes)
        }
        (ADMIN, Holder::Server) => user.shared.ctx.settings.admin_uri().map(String::into_bytes),
        (entry, Holder::Server) => filters::shared(&user.shared.ctx.settings, entry).map(<[u8]>::to_vec),
        _ => None,
    }
}

/// The computed entries below `top` that have a value.
fn computed_below(user: &User, source: &Source, top: &Entry, depth: Depth) -> Vec<Entry> {
    let fixed = [metadata::SPECIAL_USE, ADMIN].map(str::to_owned);
    let all = fixed.into_iter().chain(filters::shared_entries(&user.shared.ctx.settings));
    let below = all.filter(|entry| {
        is_computed(source, entry) && entry != top.as_str() && is_reached(entry, top.as_str(), depth)
    });
    below
        .filter(|entry| computed(user, source, entry).is_some())
        .filter_map(|entry| Entry::new(&entry).ok())
        .collect()
}

impl Source {
    fn shelf(&self, entry: &Entry) -> &Shelf {
        if entry.is_private() { &self.private } else { &self.shared }
    }
}

impl Outgoing<'_> {
    fn add(&mut self, entry: Entry, value: Option<Vec<u8>>) {
        let size = value.as_ref().map_or(0, |value| value.len() as u64);
        if self.max_size.is_some_and(|most| size > most) {
            self.longest = self.longest.max(Some(size));
            return;
        }
        self.bytes += entry.as_str().len() + value.as_ref().map_or(0, Vec::len);
        self.waiting.push((entry, value));
    }

    /// Copies entries below `top`, starting after `after`; returns where to continue.
    fn collect(
        &mut self,
        state: &AccountState,
        holder: Holder,
        top: &Entry,
        depth: Depth,
        after: &str,
    ) -> Next {
        let mut last = None;
        for (looked, (name, value)) in metadata::entries(state, holder, top.as_str(), Some(after)).enumerate()
        {
            if looked == BATCH_ENTRIES || self.bytes >= BATCH_BYTES {
                return last.map_or(Next::End, Next::Behind);
            }
            let before = last.replace(name.to_owned());
            if !is_reached(name, top.as_str(), depth) {
                continue;
            }
            let Ok(entry) = Entry::new(name) else { continue };
            if self.max_size.is_some_and(|most| value.len() as u64 > most) {
                self.longest = self.longest.max(Some(value.len() as u64));
            } else if value.len() > BATCH_BYTES && self.room.is_none() {
                return before.map_or(Next::Long, Next::Behind);
            } else {
                self.add(entry, Some(value.to_vec()));
            }
        }
        Next::End
    }
}

/// Whether `entry` is `top`, or below it within the depth (RFC 5464 §4.2.2).
fn is_reached(entry: &str, top: &str, depth: Depth) -> bool {
    let Some(rest) = entry.strip_prefix(top) else { return false };
    match depth {
        Depth::Zero => rest.is_empty(),
        Depth::One => rest.is_empty() || rest.starts_with('/') && !rest[1..].contains('/'),
        Depth::Infinity => rest.is_empty() || rest.starts_with('/'),
    }
}

fn is_computed(source: &Source, entry: &str) -> bool {
    match source.private.holder {
        Holder::Mailbox(_) => entry == metadata::SPECIAL_USE,
        Holder::Server => entry == ADMIN || entry.starts_with(filters::SHARED),
    }
}

/// Each entry once, without entries that another one includes.
fn distinct(entries: &[Entry], depth: Depth) -> Vec<&Entry> {
    let mut distinct: Vec<&Entry> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for entry in entries {
        if seen.insert(entry) {
            distinct.push(entry);
        }
    }
    if depth == Depth::Infinity {
        let covered = |entry: &Entry| {
            entry.as_str().match_indices('/').skip(1).any(|(at, _)| {
                Entry::new(&entry.as_str()[..at]).is_ok_and(|superior| seen.contains(&superior))
            })
        };
        distinct.retain(|entry| !covered(entry));
    }
    distinct
}

/// The attributes as in LIST; `None` if there are none.
fn attributes(uses: SpecialUses) -> Option<String> {
    let names: Vec<&str> = uses.iter().map(|one| one.attribute()).collect();
    (!names.is_empty()).then(|| names.join(" "))
}
