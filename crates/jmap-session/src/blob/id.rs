//! Blob ids. A message is `B` and the object that first held it; a part adds `-` and its section number with
//! `_` between the levels: `B{32 hex digits}-1_2`. A part may itself contain a message, whatever its media
//! type. A part of that inner message appends its own number: `B…-1_2-1`.
//!
//! An upload is `U` and what the account has of it; its parts are numbered in the same way. One for
//! the account of another owner, which is the caller's all the same, is `V`, the first digits of the
//! owner's id, and that.
//!
//! Each blob has exactly one id, since clients cache blobs by id.

use std::fmt;

use sealpost_base::limits::{JMAP_BLOB_STEPS, MIME_DEPTH};
use sealpost_base::{AccountId, ObjectId};
use sealpost_jmap::id::BlobId;
use sealpost_mailbox::shared_accounts::Reach;

/// A parsed blob id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlobName {
    /// The message or upload that contains the blob.
    pub(crate) base: BlobBase,
    /// Section numbers: first a part of the message, then a part of the message inside that part, and so on.
    /// Empty for the whole message.
    pub(crate) steps: Vec<Vec<u32>>,
}

/// The object that a blob is, or is a part of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BlobBase {
    /// A message, by the object that first held it.
    Message(ObjectId),
    /// An upload, by the text that [`sealpost_account::Account::uploaded`] reads.
    Upload(Box<str>),
    /// The same for the account of another owner: the first digits of the owner's id, and the text.
    SharedUpload(Box<str>, Box<str>),
}

/// Digits of an owner's id in the id of an upload.
const OWNER_DIGITS: usize = 8;

/// The id of an upload for that account, of which the caller's own account made this text.
pub(crate) fn upload_id(reach: Reach, text: &str) -> BlobId {
    let name = BlobName { base: BlobBase::upload(reach, text), steps: Vec::new() };
    name.id().expect("hexadecimal digits and underscores are safe characters")
}

fn digits_of(owner: AccountId) -> Box<str> {
    owner.to_string()[..OWNER_DIGITS].into()
}

impl BlobBase {
    /// An upload for that account, of which the caller's own account made this text.
    pub(crate) fn upload(reach: Reach, text: &str) -> Self {
        match reach {
            Reach::Own => BlobBase::Upload(text.into()),
            Reach::SharedBy(owner) => BlobBase::SharedUpload(digits_of(owner), text.into()),
        }
    }

    /// The text of an upload for that account; `None` if it is another account's, or a message.
    pub(crate) fn upload_for(&self, reach: Reach) -> Option<&str> {
        match (self, reach) {
            (BlobBase::Upload(text), Reach::Own) => Some(text),
            (BlobBase::SharedUpload(digits, text), Reach::SharedBy(owner)) => {
                (*digits == digits_of(owner)).then_some(text)
            }
            _ => None,
        }
    }
}

impl BlobName {
    /// The id of the whole message.
    pub(crate) fn of_message(object: ObjectId) -> Self {
        BlobName { base: BlobBase::Message(object), steps: Vec::new() }
    }

    /// Parses an id. `None` if no blob can have it.
    pub(crate) fn parse(id: &str) -> Option<Self> {
        let mut parts = id.split('-');
        let first = parts.next()?;
        let (kind, text) = first.split_at_checked(1)?;
        let base = match kind {
            "U" => BlobBase::Upload(text.into()),
            "V" => {
                let (owner, text) = text.split_at_checked(OWNER_DIGITS)?;
                BlobBase::SharedUpload(owner.into(), text.into())
            }
            "B" => BlobBase::Message(text.parse().ok()?),
            _ => return None,
        };
        let steps = parts.map(numbers).collect::<Option<Vec<_>>>()?;
        let name = BlobName { base, steps };
        // Reject other spellings, so that each blob has one id.
        (name.steps.len() <= JMAP_BLOB_STEPS && name.to_string() == id).then_some(name)
    }

    /// A part of the message in this blob. `None` if it is nested too deeply.
    pub(crate) fn part(&self, path: &[u32]) -> Option<Self> {
        let mut name = self.clone();
        name.steps.push(path.to_vec());
        (name.steps.len() <= JMAP_BLOB_STEPS).then_some(name)
    }

    /// The id as text. `None` if it would be longer than ids may be.
    pub(crate) fn id(&self) -> Option<BlobId> {
        BlobId::new(self.to_string())
    }
}

/// Parses a section number.
fn numbers(text: &str) -> Option<Vec<u32>> {
    let numbers = text.split('_').map(|number| number.parse().ok().filter(|number| *number > 0));
    let numbers: Vec<u32> = numbers.take(MIME_DEPTH + 2).collect::<Option<_>>()?;
    (numbers.len() <= MIME_DEPTH + 1).then_some(numbers)
}

impl fmt::Display for BlobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.base {
            BlobBase::Message(object) => write!(f, "B{object}")?,
            BlobBase::Upload(text) => write!(f, "U{text}")?,
            BlobBase::SharedUpload(owner, text) => write!(f, "V{owner}{text}")?,
        }
        for step in &self.steps {
            for (index, number) in step.iter().enumerate() {
                write!(f, "{}{number}", if index == 0 { '-' } else { '_' })?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: BlobName = BlobName { base: BlobBase::Message(ObjectId([0xab; 16])), steps: Vec::new() };

    #[test]
    fn names_are_read_back() {
        let part = MESSAGE.part(&[1, 2]).unwrap().part(&[1]).unwrap();
        let id = part.id().unwrap();
        assert_eq!(id.as_str(), format!("B{}-1_2-1", "ab".repeat(16)));
        assert_eq!(BlobName::parse(id.as_str()), Some(part));
        assert_eq!(BlobName::parse(&MESSAGE.to_string()), Some(MESSAGE));
    }

    #[test]
    fn other_ids_are_of_no_blob() {
        let base = MESSAGE.to_string();
        for end in
            ["-", "-0", "-01", "-1_", "-_1", "-+1", "-1-", "--1", "-1_2_x", "-4294967296", "1", "-1-1-1-1-1"]
        {
            assert_eq!(BlobName::parse(&format!("{base}{end}")), None, "{end}");
        }
        let deep = format!("{base}-{}", ["1"; MIME_DEPTH + 2].join("_"));
        for id in ["", "B", "B1", &base.to_uppercase(), &base[1..], &deep] {
            assert_eq!(BlobName::parse(id), None, "{id}");
        }
    }

    #[test]
    fn uploads_have_parts_too() {
        let id = upload_id(Reach::Own, "ab_1_2");
        let upload = BlobName::parse(id.as_str()).unwrap();
        assert_eq!(upload.base.upload_for(Reach::Own), Some("ab_1_2"));
        assert_eq!(upload.base, BlobBase::Upload("ab_1_2".into()));
        let part = upload.part(&[1, 2]).unwrap();
        assert_eq!(part.to_string(), "Uab_1_2-1_2");
        assert_eq!(BlobName::parse("Uab_1_2-1_2"), Some(part));
    }

    #[test]
    fn uploads_are_of_one_account() {
        let [alice, bob] = [7, 8].map(|byte| Reach::SharedBy(AccountId([byte; 16])));
        let id = upload_id(alice, "ab_1_2");
        assert_eq!(id.as_str(), "V07070707ab_1_2");
        let base = BlobName::parse(id.as_str()).unwrap().base;
        let found = [alice, bob, Reach::Own].map(|reach| base.upload_for(reach));
        assert_eq!(found, [Some("ab_1_2"), None, None]);
        let own = BlobName::parse("Uab_1_2").unwrap().base;
        assert_eq!(own.upload_for(alice), None);
    }

    #[test]
    fn messages_are_not_inside_each_other_without_end() {
        let mut name = MESSAGE;
        for _ in 0..JMAP_BLOB_STEPS {
            name = name.part(&[1]).unwrap();
        }
        assert_eq!(name.part(&[1]), None);
    }

    proptest::proptest! {
        #[test]
        fn one_blob_has_one_id(text in "[BUV](ab){15,16}(-[0-9_]{0,4}){0,3}|.*") {
            if let Some(name) = BlobName::parse(&text) {
                proptest::prop_assert_eq!(name.to_string(), text);
            }
        }
    }
}
