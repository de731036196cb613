//! Conditions on the content of messages: texts, by a search of their own, and attachments, by the structures
//! in segments.

use std::collections::BTreeMap;
use std::sync::Arc;

use sealpost_account::{Account, MessageNumber};
use sealpost_base::{AccountId, Error, Kind, MailboxId, ObjectId, Result, Timestamp, Uid, UidSet};
use sealpost_index::{Index, PieceReads, Pieces};
use sealpost_mime::structure::StoredStructure;

use super::list::Entry;
use super::plan::{Content, Plan};
use super::scan::KnownContents;
use super::{EmailSearch, IsAttached};
use crate::engine::Engine;
use crate::matches::{Match, ResultPermit};
use crate::progress::{Failure, Progress};
use crate::scope::{MailboxScope, Scope};

/// Structures to read before other tasks run.
const STEP_MESSAGES: usize = 512;
/// The time for ages, which these searches do not have.
const NO_AGE: Timestamp = Timestamp(0);

/// Messages by log and mailbox.
pub(super) type Places = BTreeMap<(u16, MailboxId), UidSet>;

/// The results of the conditions on content, with their memory.
pub(super) struct Contents {
    pub(super) known: Arc<KnownContents>,
    _memory: Option<ResultPermit>,
}

/// How the user reads the mailbox `place`.
fn scope_of(
    search: EmailSearch<'_>,
    (log, mailbox): (u16, MailboxId),
    uids: &UidSet,
) -> Option<MailboxScope> {
    let account = search.logs.get(usize::from(log))?;
    let access = search.reach.access(search.user, account.id());
    let uid_validity = account.state().mailbox(mailbox)?.uid_validity();
    Some(MailboxScope {
        account: account.clone(),
        access,
        mailbox,
        uid_validity,
        uids: uids.clone(),
        marked: UidSet::new(),
    })
}

/// The mailboxes of these messages, those that are there.
pub(super) fn scopes(search: EmailSearch<'_>, places: &Places) -> Vec<MailboxScope> {
    places.iter().filter_map(|(place, uids)| scope_of(search, *place, uids)).collect()
}

/// The index of an account among these logs.
pub(super) fn index_of(logs: &[Arc<Account>], account: AccountId) -> u16 {
    logs.iter().position(|log| log.id() == account).unwrap_or(0) as u16
}

impl Engine {
    /// For each condition of the plan on content, the messages for which it holds.
    ///
    /// # Errors
    /// `Retry` if some messages are temporarily unreadable; those of a search.
    pub(super) async fn contents<P: Progress>(
        &self,
        search: EmailSearch<'_>,
        plan: &Plan,
        places: &Places,
        progress: &mut P,
    ) -> Result<Contents, Failure<P::Interruption>> {
        let scopes = scopes(search, places);
        let scope = Scope::several(&scopes).map_err(Failure::Error)?;
        // For all searches together: a search that holds some memory must not wait for more.
        let memory = self.acquire_for(scope.messages() * plan.contents.len(), progress).await?;
        let mut known = Vec::new();
        for content in &plan.contents {
            let found = match content {
                Content::Text(query) => {
                    let (findings, found) = self.find_within(scope, query, NO_AGE, progress).await?;
                    if findings.unavailable {
                        return Err(Failure::Error(unavailable()));
                    }
                    found
                }
                Content::Attached => self.with_attachments(scope, search.is_attached, progress).await?,
            };
            known.push(entries(search.logs, scope, &found));
        }
        Ok(Contents { known: Arc::new(known), _memory: memory })
    }

    /// The messages of the scope that have attachments.
    async fn with_attachments<P: Progress>(
        &self,
        scope: Scope<'_>,
        is_attached: IsAttached,
        progress: &mut P,
    ) -> Result<Vec<Match>, Failure<P::Interruption>> {
        let mut list = Vec::new();
        for (index, mailbox) in scope.mailboxes() {
            let reads = PieceReads::new(&Index::of(&mailbox.account), Pieces::Structures, &self.budget);
            let mut uids = mailbox.uids.iter();
            loop {
                let step: Vec<Uid> = uids.by_ref().take(STEP_MESSAGES).collect();
                if step.is_empty() {
                    break;
                }
                progress.yield_or_shutdown().await.map_err(Failure::Interrupted)?;
                let work = attached(&mailbox.account, mailbox, &step, &reads, is_attached);
                let found = progress.await_with_progress(work).await.map_err(Failure::Interrupted)?;
                let found = found.map_err(Failure::Error)?.into_iter();
                list.extend(found.map(|uid| Match { mailbox: index, uid, relevance: 100 }));
            }
        }
        Ok(list)
    }
}

fn unavailable() -> Error {
    Error::retry("some messages cannot be read now")
}

/// The messages with an attachment.
async fn attached(
    account: &Account,
    scope: &MailboxScope,
    uids: &[Uid],
    reads: &PieceReads,
    is_attached: IsAttached,
) -> Result<Vec<Uid>> {
    let messages: Vec<(Uid, MessageNumber, ObjectId)> = {
        let state = account.state();
        let Ok(mailbox) = scope.mailbox_in(&state) else { return Ok(Vec::new()) };
        let rows = uids.iter().filter_map(|uid| mailbox.row(*uid));
        rows.filter_map(|row| Some((row.uid, row.message, state.message_object(row.message)?))).collect()
    };
    reads.expect(messages.iter().map(|(_, number, _)| *number)).await;
    let (mut found, mut stored) = (Vec::new(), Vec::new());
    for (uid, number, object) in messages {
        stored.clear();
        let in_segment = reads.get(number, object, &mut stored).await;
        let decided = if in_segment { StoredStructure::decode(&stored).ok() } else { None };
        let is = match decided {
            Some(structure) => is_attached(&structure),
            None => by_message(account, number, is_attached).await?,
        };
        if is {
            found.push(uid);
        }
        tokio::task::consume_budget().await;
    }
    Ok(found)
}

/// The same from the structure stored with the message. A damaged one has no attachments.
async fn by_message(account: &Account, number: MessageNumber, is_attached: IsAttached) -> Result<bool> {
    let Some(message) = account.state().message(number) else { return Ok(false) };
    match account.structure(&message).await {
        Ok(structure) => Ok(is_attached(&StoredStructure::of(&structure))),
        Err(error) if matches!(error.kind(), Kind::Corrupt | Kind::NotFound) => Ok(false),
        Err(error) => {
            tracing::warn!(%error, "the structure of a message could not be read");
            Err(unavailable())
        }
    }
}

/// The messages of these placements that still exist, sorted.
fn entries(logs: &[Arc<Account>], scope: Scope<'_>, found: &[Match]) -> Vec<Entry> {
    let mut entries = Vec::with_capacity(found.len());
    for found in found.chunk_by(|a, b| a.mailbox == b.mailbox) {
        let Some(mailbox) = scope.mailbox(found[0].mailbox) else { continue };
        let log = index_of(logs, mailbox.account.id());
        for found in found.chunks(STEP_MESSAGES) {
            let state = mailbox.account.state();
            let Ok(mailbox) = mailbox.mailbox_in(&state) else { break };
            let rows = found.iter().filter_map(|found| mailbox.row(found.uid));
            entries.extend(rows.map(|row| Entry { log, number: row.message.0 }));
        }
    }
    entries.sort_unstable();
    entries
}
