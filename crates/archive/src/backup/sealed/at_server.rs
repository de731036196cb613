//! Where the server has a message of the backup.

use sealpost_account::AccountState;
use sealpost_base::ObjectId;

use super::records::{records, uid};
use super::uids::Uids;
use crate::backup::FolderName;

/// Where the server has a message: folder, UIDVALIDITY and UID, as far as the backup knows. `gone`:
/// the server no longer has it.
pub(crate) struct AtServer {
    pub(crate) folder: FolderName,
    pub(crate) uidvalidity: u32,
    pub(crate) uid: u32,
    pub(crate) gone: bool,
}

/// Where the server has the message with that object. Looks through all messages of the account.
pub(crate) fn at_server(state: &AccountState, object: ObjectId) -> Vec<AtServer> {
    let records = records(state);
    let places = state.places_of(object).into_iter();
    let there = places.filter_map(|(id, local)| {
        let (record, mailbox) = (records.get(&id)?, state.mailbox(id)?);
        let uids = Uids::read(state, mailbox);
        let (server, _) = uids.iter().find(|(_, found)| *found == local.get())?;
        Some(AtServer {
            folder: FolderName::new(record.name.clone(), record.delimiter),
            uidvalidity: record.uidvalidity,
            uid: server,
            gone: record.gone.contains(uid(server)),
        })
    });
    there.collect()
}
