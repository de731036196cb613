//! Every message of an account: its seals, and that structure and text are those of its bytes.

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, stream};
use sealpost_account::object_id::card_id;
use sealpost_account::{AccountState, Message, MessageNumber};
use sealpost_base::{AccountId, Error, Kind};
use sealpost_mime::{Scanner, Structure, Text};
use sealpost_vault::Store;
use sealpost_vault::message::{self, MessageReader};

use super::report::{Location as At, Report, Trouble};
use crate::data_dir::DataDir;

/// Messages checked at once.
const AT_ONCE: usize = 8;
/// Places of a message that a report names.
const PLACES: usize = 5;

/// Reads all messages back. Returns those whose objects are missing, which may be no damage (see
/// [`report_missing`]).
///
/// # Errors
/// If a check itself did not finish.
pub async fn check(
    data_dir: &DataDir,
    account: AccountId,
    state: &AccountState,
    report: &mut Report,
) -> Result<Vec<(MessageNumber, Message)>> {
    report.expect(state.message_count());
    let tasks = stream::iter(state.messages()).map(|(number, message)| {
        let store = data_dir.store.clone();
        tokio::spawn(async move {
            let wrong = one(&store, account, &message).await;
            (number, message, wrong)
        })
    });
    let mut tasks = tasks.buffer_unordered(AT_ONCE);
    let mut missing = Vec::new();
    while let Some(done) = tasks.next().await {
        let (number, message, wrong) = done?;
        report.progress();
        report.totals.messages += 1;
        report.totals.message_bytes += message.size();
        match wrong {
            Ok(BodyState::Complete) => {}
            Ok(BodyState::Stub) => report.totals.evicted += 1,
            Err(e) if e.kind() == Kind::NotFound => missing.push((number, message)),
            Err(e) => {
                let path = message::path(account, message.object);
                let trouble = match data_dir.store.file(&path).await {
                    Ok(Some(file)) if e.kind() == Kind::Corrupt => {
                        format!("{e}; it is the file {}", file.display()).into()
                    }
                    _ => Trouble::from(e),
                };
                report.add(At::Object(path), places(state, number), trouble);
            }
        }
    }
    missing.sort_by_key(|(number, _)| *number);
    Ok(missing)
}

/// Reports the messages whose objects are missing, unless the account as it is `now` has given them up.
pub fn report_missing(
    account: AccountId,
    missing: &[(MessageNumber, Message)],
    now: &AccountState,
    report: &mut Report,
) {
    for (number, message) in missing {
        if now.message(*number).is_some_and(|m| m.object == message.object) {
            let at = At::Object(message::path(account, message.object));
            report.add(at, places(now, *number), "the message's object is missing");
        }
    }
}

/// What there is of a message.
enum BodyState {
    Complete,
    /// All but its evicted body.
    Stub,
}

/// What is wrong with one message.
async fn one(store: &Store, account: AccountId, message: &Message) -> sealpost_base::Result<BodyState> {
    let reader = MessageReader::new(store, account, message.object, &message.key, message.layout);
    reader.verify().await?;
    if reader.evicted().await?.is_some() {
        return check_stub(&reader, account, message).await;
    }
    let mut scanner = Scanner::new();
    let mut raw = reader.raw(0..u64::MAX);
    while let Some(piece) = raw.try_next().await? {
        scanner.push(&piece);
    }
    let (structure, text) = scanner.finish();
    let path = || message::path(account, message.object);
    if structure.size != message.size() {
        let (has, said) = (structure.size, message.size());
        return Err(Error::corrupt(format!("{} has {has} bytes; the log says {said}", path())));
    }
    if Structure::decode(&reader.structure().await?)? != structure {
        return Err(Error::corrupt(format!("{}: the stored structure is not that of the message", path())));
    }
    if !text.into_text().is_stored_as(&Text::decode(&reader.text().await?)?) {
        return Err(Error::corrupt(format!("{}: the stored text is not that of the message", path())));
    }
    Ok(BodyState::Complete)
}

/// As [`one`], for a message with an evicted body: checks everything else.
async fn check_stub(
    reader: &MessageReader,
    account: AccountId,
    message: &Message,
) -> sealpost_base::Result<BodyState> {
    let path = || message::stub_path(account, message.object);
    let structure = Structure::decode(&reader.structure().await?).map_err(|e| e.context(path()))?;
    Text::decode(&reader.text().await?).map_err(|e| e.context(path()))?;
    if structure.size != message.size() {
        let (has, said) = (structure.size, message.size());
        return Err(Error::corrupt(format!(
            "{} is of a message of {has} bytes; the log says {said}",
            path()
        )));
    }
    Ok(BodyState::Stub)
}

/// Where users see a message.
fn places(state: &AccountState, number: MessageNumber) -> Vec<String> {
    let placed = state.mailboxes().flat_map(|mailbox| {
        let rows = mailbox.all_rows().filter(move |row| row.message == number);
        rows.map(move |row| format!("{} UID {}", mailbox.name(), row.uid))
    });
    let mut places: Vec<String> = placed.take(PLACES).collect();
    let cards = state.contacts().cards().filter(|card| card.media.contains(&number)).take(PLACES);
    places.extend(cards.map(|card| format!("a picture or sound of the contact {}", card_id(card.id))));
    if places.is_empty() {
        let tombstone = state.tombstones().filter(|b| b.message == number).take(PLACES);
        places.extend(tombstone.map(|b| match state.mailbox(b.mailbox) {
            Some(mailbox) => format!("expunged {} UID {}", mailbox.name(), b.uid),
            None => format!("expunged UID {} of a deleted mailbox", b.uid),
        }));
    }
    places
}
