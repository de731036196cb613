//! Checking packs against the messages they are made of, for `sealpost check`.

use sealpost_base::{AccountId, Error, Kind, Result};
use sealpost_vault::pack::Pack;
use sealpost_vault::{AccountKeys, Store, message};

use sealpost_account::{AccountState, MessageNumber};

/// Reads the pack at `path` back and compares the pieces of messages that there still are with
/// their objects. A message that cannot be read says nothing about the pack.
///
/// # Errors
/// `Corrupt` if the pack cannot be read or says something else; what the store says.
pub async fn verify(
    store: &Store,
    keys: &AccountKeys,
    account: AccountId,
    state: &AccountState,
    path: &str,
) -> Result<()> {
    let wrong = |what: &str| Error::corrupt(format!("{path}: {what}"));
    let (_, name) = super::parse(path).ok_or_else(|| wrong("not the path of a pack"))?;
    let pack = Pack::open(keys, account, path, &store.read(path).await?)?;
    let mut counted = 0;
    for member in pack.members() {
        let member = member.map_err(|e| e.context(path))?;
        counted += 1;
        if !name.covers(member.number) {
            return Err(wrong("it holds a message that its name does not cover"));
        }
        let number = MessageNumber(member.number);
        if state.message(number).is_none_or(|message| message.object != member.object) {
            continue;
        }
        let range = member.piece.start()..member.piece.start() + member.piece.bytes().len() as u64;
        match store.read_range(&message::path(account, member.object), range).await {
            Ok(bytes) if bytes == member.piece.bytes() => {}
            Ok(_) => return Err(wrong(&format!("it holds other bytes than message {}", member.object))),
            Err(e) if matches!(e.kind(), Kind::Corrupt | Kind::NotFound) => {}
            Err(e) => return Err(e),
        }
    }
    if counted != name.entries {
        return Err(wrong("it holds more or fewer messages than its name says"));
    }
    Ok(())
}
