//! STORE (RFC 3501 §6.4.6): one log entry for any number of messages.

use sealpost_account::state::AccountState;
use sealpost_base::Error;
use sealpost_imap::types::{Code, Store};
use sealpost_mailbox::flag_change::{FlagChange, FlagsChanged};
use sealpost_mailbox::memory::reserve_bytes;

use super::condstore::{named, unchanged_since};
use super::flags;
use super::own_entries::OwnEntries;
use super::reply::{Outcome, Reply};
use super::responses::Responses;
use super::selected::{AlreadySent, Selected};
use super::targets;
use super::updates;
use super::updates::UntaggedUpdates;
use sealpost_session::Context;

/// STORE.
pub(super) async fn store(
    ctx: &Context,
    selected: &Selected,
    responses: &mut Responses,
    own: &mut OwnEntries,
    store: &Store,
    updates: &mut UntaggedUpdates,
) -> Outcome {
    let selected = selected.writable()?;
    let targets = targets::resolve(selected, &store.set, store.uid)?;
    let change = FlagChange {
        targets,
        unchanged_since: unchanged_since(&store.modifiers),
        action: flags::action(store.action),
        flags: flags::from_wire(&store.flags)?,
    };
    let accounts = ctx.accounts.clone();
    let mut reserved = None;
    let (found, position) = loop {
        let decide = |view: &Selected, state: &AccountState| {
            let mailbox = view.mailbox_in(state).map_err(|_| Error::not_found("the mailbox is gone"))?;
            change.decide(state, mailbox, view.rights(state), view.reported(), &accounts, &mut reserved)
        };
        let committed =
            updates::change_selected(selected, responses, own, change.targets.len(), decide).await?;
        match committed.value {
            Ok(found) => break (found, committed.position),
            // Not while the account's state is borrowed for the decision.
            Err(bytes) => reserved = reserve_bytes(&accounts, bytes).await?,
        }
    };
    let FlagChange { targets, unchanged_since, .. } = change;
    let FlagsChanged { changing, passing, modified, foreign, present, reserved } = found;
    updates.room = reserved;
    let reported = !store.silent || unchanged_since.is_some();
    if store.silent {
        // Only this client's own changes are silent (RFC 3501 §6.4.6).
        updates.known = AlreadySent { uids: changing.difference(&foreign), position };
        // RFC 7162 §3.1.3: but their mod-sequences are sent, with UNCHANGEDSINCE in any case.
        updates.modseqs = if unchanged_since.is_some() { passing } else { changing };
        updates.flags = modified.clone();
    } else {
        updates.flags = targets.clone();
    }
    let modified = named(selected, &modified, store.uid).map(Code::Modified);
    // An expunged message that the client still has: existing messages were changed, and the expunges are
    // reported with the client's next command (RFC 2180 §4.2.3, RFC 5530 §3).
    let gone = present < targets.len() && !store.uid && reported;
    Ok(match modified {
        Some(modified) if gone => {
            return Err(Reply::no(modified, "some of the messages no longer exist").into());
        }
        Some(modified) => Reply::ok_with(modified, "STORE completed, not for all messages"),
        None if gone => {
            Reply::ok_with(Code::ExpungeIssued, "STORE completed, some of the messages no longer exist")
        }
        None => Reply::ok("STORE completed"),
    })
}
