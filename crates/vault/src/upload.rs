//! Uploads: bytes that a client sent and that nothing refers to yet, such as the attachment of a
//! draft.
//!
//! Each is an object of its account, sealed under a key made of the account's key for uploads and
//! of the object's id. Nothing is written down about it: what opens it is in its text
//! ([`Upload::to_text`]), which clients have as a blob id, so every node with the account's key
//! reads it. A MAC in the text keeps clients from making texts of their own, and the text of
//! another account means nothing. Format: `docs/format/upload.md`.

use sealpost_base::{AccountId, Budget, ObjectId, Random, Result};

use crate::cipher::{ObjectCipher, equal, hmac_sha256, sha256};
use crate::keys::{AccountKeys, Epoch};
use crate::message::{Layout, MessageReader, MessageWriter};
use crate::{Hash, Store};

/// Bytes of the MAC that a text has.
const TAG_BYTES: usize = 16;
/// Hexadecimal digits of an object id.
const OBJECT_DIGITS: usize = 32;

/// The folder of the uploads of an account.
pub fn folder(account: AccountId) -> String {
    format!("acct/{account}/upload")
}

/// The path of an upload.
pub fn path(account: AccountId, object: ObjectId) -> String {
    format!("{}/{object}", folder(account))
}

/// An upload that is complete: where it is, and what it takes to open it beside the account's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upload {
    object: ObjectId,
    epoch: Epoch,
    layout: Layout,
}

impl Upload {
    /// Its object.
    pub fn object(&self) -> ObjectId {
        self.object
    }

    /// Its bytes.
    pub fn size(&self) -> u64 {
        self.layout.raw_bytes
    }

    /// What clients have of it: hexadecimal digits and underscores, always the same.
    ///
    /// # Errors
    /// `Corrupt` if it is under a key that the account does not have.
    pub fn to_text(&self, keys: &AccountKeys, account: AccountId) -> Result<String> {
        let text = self.numbers();
        let tag = tag(keys, self.epoch, account, &text)?;
        Ok(format!("{text}_{}", &Hash(tag).to_string()[..2 * TAG_BYTES]))
    }

    /// The upload of that text; `None` if it is of another account, or no text of this server.
    pub fn of_text(keys: &AccountKeys, account: AccountId, text: &str) -> Option<Self> {
        let (numbers, _) = text.rsplit_once('_')?;
        let upload = Self::of_numbers(numbers)?;
        let wanted = upload.to_text(keys, account).ok()?;
        // By their hashes, in constant time: the length of what they have in common says nothing.
        equal(&sha256(&[wanted.as_bytes()]), &sha256(&[text.as_bytes()])).then_some(upload)
    }

    fn numbers(&self) -> String {
        let Upload { object, epoch: Epoch(epoch), layout } = self;
        let Layout { raw_bytes, sealed_raw, sealed_text, sealed_structure, sealed_index } = layout;
        format!(
            "{object}_{epoch:x}_{raw_bytes:x}_{sealed_raw:x}_{sealed_text:x}_{sealed_structure:x}_\
             {sealed_index:x}"
        )
    }

    fn of_numbers(numbers: &str) -> Option<Self> {
        let mut parts = numbers.split('_');
        let object = parts.next().filter(|digits| digits.len() == OBJECT_DIGITS)?.parse().ok()?;
        let mut number = || u64::from_str_radix(parts.next()?, 16).ok();
        let epoch = Epoch(u32::try_from(number()?).ok()?);
        let layout = Layout {
            raw_bytes: number()?,
            sealed_raw: number()?,
            sealed_text: u32::try_from(number()?).ok()?,
            sealed_structure: u32::try_from(number()?).ok()?,
            sealed_index: u32::try_from(number()?).ok()?,
        };
        let upload = Upload { object, epoch, layout };
        // One upload has one text.
        (parts.next().is_none() && upload.numbers() == numbers).then_some(upload)
    }

    /// Reads it, as if it were a message. Errors of the reader: `NotFound` if it was collected,
    /// `Corrupt`, what the store says.
    ///
    /// # Errors
    /// `Corrupt` if it is under a key that the account does not have.
    pub fn reader(&self, store: &Store, keys: &AccountKeys, account: AccountId) -> Result<MessageReader> {
        let cipher = cipher(keys, self.epoch, account, self.object)?;
        Ok(MessageReader::at(store, path(account, self.object), cipher, self.layout))
    }
}

/// An upload that is coming in. Dropped before [`UploadWriter::finish`], it leaves nothing.
pub struct UploadWriter {
    object: ObjectId,
    epoch: Epoch,
    writer: MessageWriter,
}

impl UploadWriter {
    /// Starts an upload; waits for [`crate::message::WRITER_BYTES`] of budget.
    ///
    /// # Errors
    /// `Retry` if the store failed.
    pub async fn new(
        store: &Store,
        keys: &AccountKeys,
        account: AccountId,
        random: &dyn Random,
        budget: &Budget,
    ) -> Result<Self> {
        let (object, epoch) = (ObjectId::random(random), keys.epoch());
        let cipher = cipher(keys, epoch, account, object)?;
        let writer = MessageWriter::at(store, path(account, object), cipher, budget, 0).await?;
        Ok(UploadWriter { object, epoch, writer })
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// `Retry` if the store failed; the writer is of no more use then.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.writer.write(bytes).await
    }

    /// Bytes written so far.
    pub fn size(&self) -> u64 {
        self.writer.size()
    }

    /// Completes the upload. Durable when it returns.
    ///
    /// # Errors
    /// `Retry` if the store failed.
    pub async fn finish(self) -> Result<Upload> {
        let UploadWriter { object, epoch, writer } = self;
        Ok(Upload { object, epoch, layout: writer.finish(&[], &[]).await? })
    }
}

fn cipher(keys: &AccountKeys, epoch: Epoch, account: AccountId, object: ObjectId) -> Result<ObjectCipher> {
    let key = &keys.in_epoch(epoch)?.uploads;
    // Salted with the object's id, which is random: a key of its own.
    let context = sha256(&[b"sealpost upload v1", &account.0, &object.0]);
    Ok(ObjectCipher::new(&object.0, key.bytes(), context))
}

fn tag(keys: &AccountKeys, epoch: Epoch, account: AccountId, text: &str) -> Result<[u8; 32]> {
    let key = &keys.in_epoch(epoch)?.uploads;
    Ok(hmac_sha256(key, &[b"sealpost upload text v1", &account.0, text.as_bytes()]))
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use bytes::Bytes;
    use futures::TryStreamExt;
    use proptest::prelude::*;
    use sealpost_base::{Kind, SeededRandom};

    use super::*;
    use crate::RootKey;

    const ME: AccountId = AccountId([5; 16]);
    const OTHER: AccountId = AccountId([6; 16]);

    async fn written(store: &Store, keys: &AccountKeys, random: &SeededRandom, bytes: &[u8]) -> Upload {
        let budget = Budget::new(8 << 20);
        let mut writer = UploadWriter::new(store, keys, ME, random, &budget).await.unwrap();
        writer.write(bytes).await.unwrap();
        assert_eq!(writer.size(), bytes.len() as u64);
        writer.finish().await.unwrap()
    }

    async fn read(upload: &Upload, store: &Store, keys: &AccountKeys, range: Range<u64>) -> Result<Vec<u8>> {
        let pieces: Vec<Bytes> = upload.reader(store, keys, ME)?.raw(range).try_collect().await?;
        Ok(pieces.concat())
    }

    #[tokio::test]
    async fn uploads_are_read_back_in_part() {
        let (store, random) = (Store::memory(), SeededRandom::new(1));
        let keys = AccountKeys::derive(&RootKey::generate(&random), ME);
        for size in [0, 1, 70_000, 400_000] {
            let bytes: Vec<u8> = (0..size).map(|n: u32| (n % 251) as u8).collect();
            let upload = written(&store, &keys, &random, &bytes).await;
            let text = upload.to_text(&keys, ME).unwrap();
            assert_eq!(Upload::of_text(&keys, ME, &text), Some(upload));
            assert_eq!(read(&upload, &store, &keys, 0..u64::MAX).await.unwrap(), bytes);
            let (from, to) = (bytes.len() / 3, bytes.len() / 2);
            assert_eq!(
                read(&upload, &store, &keys, from as u64..to as u64).await.unwrap(),
                &bytes[from..to],
                "{size}"
            );
        }
    }

    #[tokio::test]
    async fn a_later_epoch_reads_earlier_uploads() {
        let (store, random) = (Store::memory(), SeededRandom::new(2));
        let root = RootKey::generate(&random);
        let upload = written(&store, &AccountKeys::derive(&root, ME), &random, b"abc").await;
        let later = AccountKeys::derive(&root.next(&random).unwrap(), ME);
        let text = upload.to_text(&later, ME).unwrap();
        assert_eq!(text, upload.to_text(&AccountKeys::derive(&root, ME), ME).unwrap());
        assert_eq!(read(&upload, &store, &later, 0..3).await.unwrap(), b"abc");
        let newest = written(&store, &later, &random, b"").await.to_text(&later, ME).unwrap();
        assert_eq!(Upload::of_text(&AccountKeys::derive(&root, ME), ME, &newest), None);
    }

    #[tokio::test]
    async fn a_text_means_nothing_to_others() {
        let (store, random) = (Store::memory(), SeededRandom::new(3));
        let root = RootKey::generate(&random);
        let keys = AccountKeys::derive(&root, ME);
        let upload = written(&store, &keys, &random, b"abc").await;
        let text = upload.to_text(&keys, ME).unwrap();
        assert_eq!(Upload::of_text(&AccountKeys::derive(&root, OTHER), OTHER, &text), None);
        let another = AccountKeys::derive(&RootKey::generate(&random), ME);
        assert_eq!(Upload::of_text(&another, ME, &text), None);
        for changed in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[changed] = if bytes[changed] == b'0' { b'1' } else { b'0' };
            assert_eq!(Upload::of_text(&keys, ME, std::str::from_utf8(&bytes).unwrap()), None, "{changed}");
        }
        assert_eq!(Upload::of_text(&keys, ME, &text.to_uppercase()), None);
        store.delete(&path(ME, upload.object())).await.unwrap();
        assert_eq!(read(&upload, &store, &keys, 0..3).await.unwrap_err().kind(), Kind::NotFound);
    }

    proptest! {
        #[test]
        fn any_text_is_refused(text in "[0-9a-f]{32}(_[0-9a-f]{0,17}){0,8}|.*") {
            let keys = AccountKeys::derive(&RootKey::generate(&SeededRandom::new(4)), ME);
            prop_assert_eq!(Upload::of_text(&keys, ME, &text), None);
        }
    }
}
