//! [`Vacations`]: the vacation responses of accounts (RFC 8621 §8), and the replies that they cause
//! (RFC 5230, RFC 3834).
//!
//! Replies are made at delivery, while the owner is not logged in. So the text is sealed under the
//! mail key, as the keys of domains are: a store or a backup of it shows nothing, and no process
//! without the key can make one. Each change writes a new object and then names it in the record of the
//! account, which nodes read at each delivery; a reader sees all of a change or nothing.
//!
//! - [`settings`]: what is answered, and when.
//! - [`original`]: what a delivered message says that matters here, found as it streams by.
//! - [`unanswerable`]: mail that gets no reply.
//! - [`reply`]: the message that is the reply.
//! - [`responder`]: decides and replies, behind deliveries. Nothing waits for it.
//!
//! Format: `docs/format/vacation.md`. Reasons: `docs/decisions/0103-vacation-responses.md`.

pub mod original;
pub mod reply;
pub mod responder;
mod sent_replies;
pub mod settings;
#[cfg(test)]
mod tests;
pub mod unanswerable;

use std::sync::Arc;

use futures::TryStreamExt;
use sealpost_base::{AccountId, Error, Kind, Random, Result, limits};
use sealpost_directory::{AccountName, AccountRecord, Directory, VacationMark};
use sealpost_vault::mail_key::MailKeys;
use sealpost_vault::{Put, Sealed};

use sent_replies::SentReplies;
use settings::VacationSettings;

/// What the text is sealed for.
const LABEL: &str = "vacation response";

/// The vacation responses of all accounts. Cheap to clone.
#[derive(Clone)]
pub struct Vacations(Arc<Inner>);

struct Inner {
    directory: Directory,
    mail_keys: MailKeys,
    random: Arc<dyn Random>,
}

/// The vacation response of an account.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Vacation {
    /// Counts its changes; 0 before the first.
    pub number: u64,
    /// What is answered, and when.
    pub settings: VacationSettings,
}

/// A vacation response that was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VacationChanged {
    /// As it was before.
    pub before: Vacation,
    /// As it is now.
    pub now: Vacation,
}

impl Vacations {
    /// Those of the accounts of `directory`, which `mail_keys` open.
    pub fn new(directory: Directory, mail_keys: MailKeys, random: Arc<dyn Random>) -> Self {
        Vacations(Arc::new(Inner { directory, mail_keys, random }))
    }

    /// That of an account as the store has it now.
    ///
    /// # Errors
    /// `NotFound` if there is no such account; `Corrupt` if the text cannot be opened; what the
    /// store says.
    pub async fn get(&self, name: &AccountName) -> Result<Vacation> {
        for _ in 0..limits::RECORD_ATTEMPTS {
            let record = self.0.directory.get(name).await?;
            match self.of_record(&record).await {
                // Replaced between the two reads; else the record still names it.
                Err(e) if e.kind() == Kind::NotFound => {
                    if self.0.directory.get(name).await?.vacation == record.vacation {
                        return Err(missing(&record.name, e));
                    }
                }
                read => return read,
            }
        }
        Err(Error::retry(format!("the vacation response of {name} changes too quickly to be read")))
    }

    /// Changes that of an account; `change` may run again, on a newer one, after a concurrent
    /// change. Nothing is written if it changes nothing. One that cannot be opened any more counts as
    /// empty: the mail key may be lost.
    ///
    /// # Errors
    /// Errors of `change`; `Invalid` or `Limit` for settings that cannot be; as [`Vacations::get`].
    pub async fn change(
        &self,
        name: &AccountName,
        mut change: impl FnMut(&Vacation) -> Result<VacationSettings> + Send,
    ) -> Result<VacationChanged> {
        for _ in 0..limits::RECORD_ATTEMPTS {
            let before = self.get_to_change(name).await?;
            let mut settings = change(&before)?;
            settings.check()?;
            let number = before.number.saturating_add(1);
            settings.begin_round(&before.settings, number);
            if settings == before.settings {
                return Ok(VacationChanged { now: before.clone(), before });
            }
            if self.replace(name, &before, number, &settings).await? {
                return Ok(VacationChanged { before, now: Vacation { number, settings } });
            }
        }
        Err(Error::retry(format!("too many concurrent changes of the vacation response of {name}; retry")))
    }

    async fn get_to_change(&self, name: &AccountName) -> Result<Vacation> {
        match self.get(name).await {
            Err(e) if e.kind() == Kind::Corrupt => {
                let Some(mark) = self.0.directory.get(name).await?.vacation else { return Err(e) };
                tracing::error!(account = %name, error = %e, "a damaged vacation response is replaced");
                Ok(Vacation { number: mark.number, ..Vacation::default() })
            }
            read => read,
        }
    }

    /// Writes the text, names it in the record and removes those before; `false` if another writer
    /// was first.
    async fn replace(
        &self,
        name: &AccountName,
        before: &Vacation,
        number: u64,
        settings: &VacationSettings,
    ) -> Result<bool> {
        let Inner { directory, mail_keys, random } = &*self.0;
        let id = directory.get(name).await?.id;
        SentReplies::begin(directory, mail_keys, id, &**random).await?;
        let mark = VacationMark { number, unique: random.next_u64() };
        self.write(id, mark, settings).await?;
        let named = directory.update(name, |record| {
            let is_same = record.id == id && record.vacation.map_or(0, |mark| mark.number) == before.number;
            if is_same {
                record.vacation = Some(mark);
            }
            Ok(is_same)
        });
        // After an error the record may name it.
        let is_named = named.await?;
        if is_named {
            self.remove_before(id, number).await;
        } else if let Err(error) = directory.store().delete(&path(id, mark)).await {
            tracing::debug!(account = %name, %error, "cannot remove an unused vacation response");
        }
        Ok(is_named)
    }

    /// Removes the texts before `number`, and what interrupted changes left. A writer that has begun
    /// since writes a later number.
    async fn remove_before(&self, id: AccountId, number: u64) {
        let store = self.0.directory.store();
        let is_old = |path: &String| {
            let digits = path.rsplit('/').next().and_then(|name| name.get(..16));
            digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()).is_some_and(|found| found < number)
        };
        let listed = store.list(&folder(id), None).map_ok(|object| object.path);
        let removed = async {
            let paths: Vec<String> = listed.try_collect().await?;
            store.delete_in_order(paths.into_iter().filter(is_old).collect()).await
        };
        if let Err(error) = removed.await {
            tracing::debug!(account = %id, %error, "cannot remove earlier vacation responses");
        }
    }

    /// That which a record names.
    async fn of_record(&self, record: &AccountRecord) -> Result<Vacation> {
        let Some(mark) = record.vacation else { return Ok(Vacation::default()) };
        let settings = self.read(record.id, mark).await?;
        Ok(Vacation { number: mark.number, settings })
    }

    /// The settings of that mark. `NotFound` if they were replaced since.
    async fn read(&self, id: AccountId, mark: VacationMark) -> Result<VacationSettings> {
        let path = path(id, mark);
        let open = |object: &bytes::Bytes| self.0.mail_keys.open_note(LABEL, &path, object);
        let plain = self.0.directory.store().read_opened(&path, open).await?;
        VacationSettings::decode(&plain).map_err(|e| e.context(path.clone()))
    }

    async fn write(&self, id: AccountId, mark: VacationMark, settings: &VacationSettings) -> Result<()> {
        let (path, plain) = (path(id, mark), settings.encode()?);
        let sealed: Sealed = self.0.mail_keys.seal_note(LABEL, &path, &plain, &*self.0.random);
        match self.0.directory.store().put_new(&path, sealed).await? {
            Put::Created => Ok(()),
            Put::Exists => Err(Error::retry(format!("{path} exists already; retry"))),
        }
    }
}

fn missing(name: &AccountName, e: Error) -> Error {
    Error::corrupt(format!("the vacation response of {name} is missing in the store")).with_source(e)
}

fn folder(id: AccountId) -> String {
    format!("acct/{id}/vacation")
}

fn path(id: AccountId, mark: VacationMark) -> String {
    format!("{}/{:016x}{:016x}", folder(id), mark.number, mark.unique)
}
