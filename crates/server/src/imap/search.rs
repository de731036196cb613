//! SEARCH (RFC 3501 §6.4.4).
//!
//! Three steps, each only for messages that the one before left undecided: the rows (flags, sizes, dates, numbers),
//! then what is stored with the message (structure and folded text), then the message itself, read as a stream, if its
//! stored text is cut off. The second and third run in several tasks at once, with a bounded number of messages each.

mod evaluate;
mod key;
mod scan;

use std::sync::Arc;

use futures::StreamExt;
use sealpost_account::{Account, Message};
use sealpost_base::{Budget, Kind, Result, Uid, limits};
use sealpost_imap::types::{AString, Code, Search, Status};
use sealpost_vault::message::READER_BYTES;
use tokio::task::JoinSet;

use super::connection::{Connection, End};
use super::reply::{Failure, Outcome, Reply};
use super::session::Session;
use super::targets::Cursor;
use evaluate::{Columns, Knowledge};
use key::Query;

/// Rows looked at while the account's state is held.
const BATCH_ROWS: usize = 512;
/// Messages that one task reads.
const GROUP_MESSAGES: usize = 16;
/// Of these, how many at once.
const AT_ONCE: usize = 8;
/// Tasks that read at once.
const TASKS: usize = 4;
/// Memory of one task: the texts it reads at once, or a stream of a message.
const TASK_BYTES: usize = AT_ONCE * limits::TEXT_BYTES;

/// A message that its row does not decide.
struct Candidate {
    uid: Uid,
    columns: Columns,
    message: Message,
}

/// What a task found out.
#[derive(Default)]
struct Findings {
    matches: Vec<Uid>,
    /// Messages that could not be read, because they are damaged.
    damaged: Vec<Uid>,
    /// Messages could not be read for now.
    unavailable: bool,
}

impl Session {
    /// SEARCH.
    pub(super) async fn search(&mut self, search: Search) -> Outcome {
        if search.returns.is_some() {
            return Err(Reply::bad("unknown return option").into());
        }
        let view = self.view()?;
        // RFC 6855 §3: the strings are UTF-8, whatever else might be said of them.
        if self.dialect.utf8_accept() && search.charset.is_some() {
            return Err(Reply::bad("no CHARSET after ENABLE UTF8=ACCEPT").into());
        }
        let Some(charset) = key::Charset::named(search.charset.as_ref()) else {
            let known = ["US-ASCII", "UTF-8"].map(AString::from).to_vec();
            return Err(Reply::no(Code::BadCharset(known), "charset not known").into());
        };
        let account = view.account().clone();
        let query = Arc::new(Query::new(&search.keys, view, &account.state(), &charset)?);
        let mut found = Findings::default();
        let mut tasks = JoinSet::new();
        let mut cursor = Cursor::new(view.uids().clone());
        while let Some(uids) = cursor.next_batch(BATCH_ROWS) {
            if self.connection.is_stopping() {
                return Err(End::Shutdown.into());
            }
            let mut undecided = self.search_rows(&uids, &query, &mut found)?;
            while !undecided.is_empty() {
                let rest = undecided.split_off(undecided.len().min(GROUP_MESSAGES));
                if tasks.len() >= TASKS {
                    join(&mut tasks, &mut found).await;
                }
                let group = std::mem::replace(&mut undecided, rest);
                tasks.spawn(search_group(account.clone(), query.clone(), self.ctx.budget.clone(), group));
            }
        }
        while !tasks.is_empty() {
            join(&mut tasks, &mut found).await;
        }
        if found.unavailable {
            return Err(Reply::no(Code::Unavailable, "some messages cannot be read now").into());
        }
        self.answer(found, search.uid).await
    }

    /// Decides by the rows alone where that is possible; the others.
    fn search_rows(
        &self,
        uids: &[Uid],
        query: &Query,
        found: &mut Findings,
    ) -> Result<Vec<Candidate>, Failure> {
        let view = self.view()?;
        let state = view.account().state();
        let mailbox = view.mailbox_in(&state).map_err(|_| End::MailboxGone)?;
        let mut undecided = Vec::new();
        // A message that was expunged meanwhile matches nothing (RFC 2180 §4.3).
        for row in uids.iter().filter_map(|uid| mailbox.row(*uid)) {
            let Some(message) = state.message(row.message) else { continue };
            let columns = Columns::new(&row, state.flags(row.flags), message, view);
            match query.decide(&columns, &Knowledge::none()) {
                Some(true) => found.matches.push(row.uid),
                Some(false) => {}
                None => undecided.push(Candidate { uid: row.uid, columns, message: message.clone() }),
            }
        }
        Ok(undecided)
    }

    async fn answer(&mut self, mut found: Findings, uid: bool) -> Outcome {
        for uid in &found.damaged {
            let text = format!("message UID {uid} is damaged and was not searched");
            self.connection.out().status(None, Status::No, Some(&Code::Corruption), &text);
            self.connection.relieve().await?;
        }
        found.matches.sort_unstable();
        let Session { connection, view: Some(view), .. } = self else {
            return Err(Reply::bad("select a mailbox first").into());
        };
        connection.out().raw(b"* SEARCH");
        for message in found.matches {
            let number = if uid { Some(message.get()) } else { view.sequence(message) };
            if let Some(number) = number {
                number_of(connection, number).await?;
            }
        }
        connection.out().crlf();
        Ok(Reply::ok("SEARCH completed"))
    }
}

async fn number_of(connection: &mut Connection, number: u32) -> Result<(), End> {
    connection.out().space().number(u64::from(number));
    connection.relieve().await
}

async fn join(tasks: &mut JoinSet<Findings>, found: &mut Findings) {
    match tasks.join_next().await {
        Some(Ok(findings)) => {
            found.matches.extend(findings.matches);
            found.damaged.extend(findings.damaged);
            found.unavailable |= findings.unavailable;
        }
        Some(Err(e)) => {
            tracing::error!(error = %e, "a search task failed");
            found.unavailable = true;
        }
        None => {}
    }
}

async fn search_group(
    account: Arc<Account>,
    query: Arc<Query>,
    budget: Budget,
    group: Vec<Candidate>,
) -> Findings {
    let _permit = budget.acquire(TASK_BYTES.max(READER_BYTES)).await;
    let mut found = Findings::default();
    let mut by_text = futures::stream::iter(group)
        .map(|candidate| async {
            let decided =
                scan::by_stored_text(&account, &query, &candidate.columns, &candidate.message).await;
            (candidate, decided)
        })
        .buffer_unordered(AT_ONCE);
    let mut undecided = Vec::new();
    while let Some((candidate, decided)) = by_text.next().await {
        match decided.transpose() {
            Some(decided) => found.note(candidate.uid, decided),
            None => undecided.push(candidate),
        }
    }
    drop(by_text);
    for candidate in undecided {
        let decided = scan::by_message(&account, &query, &candidate.columns, &candidate.message).await;
        found.note(candidate.uid, decided);
    }
    found
}

impl Findings {
    fn note(&mut self, uid: Uid, decided: Result<bool>) {
        match decided {
            Ok(true) => self.matches.push(uid),
            Ok(false) => {}
            Err(error) => {
                tracing::error!(%uid, %error, "a message could not be searched");
                match error.kind() {
                    Kind::Corrupt | Kind::NotFound => self.damaged.push(uid),
                    _ => self.unavailable = true,
                }
            }
        }
    }
}
