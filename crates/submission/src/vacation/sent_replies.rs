//! [`SentReplies`]: to whom an account has replied within the last week.
//!
//! Senders are held as tags, an HMAC under the mail key, and the list is sealed under that key
//! besides: a reader of the store does not learn the senders. It learns how many replies there
//! were, and when: each of them writes a version, and the last two versions stay.
//! The list bounds everything: an entry is added before its reply is queued, so no sender gets a second
//! reply within the week, whatever crashes, and the limits of an account hold over restarts and on
//! all nodes together.

use std::time::Duration;

use sealpost_base::{AccountId, Error, Random, Result, Timestamp, limits};
use sealpost_directory::Directory;
use sealpost_vault::mail_key::MailKeys;

/// How long a sender gets no other reply (RFC 5230 §4.1: seven days by default).
pub(super) const PERIOD: Duration = Duration::from_secs(7 * 86_400);
const HOUR: Duration = Duration::from_secs(3600);

const LABEL: &str = "vacation replies";
/// What the tags of senders are derived for.
const TAG: &str = "vacation sender";
const TAG_BYTES: usize = 8;
const ENTRY_BYTES: usize = TAG_BYTES + 4;
/// Length of what is sealed, before it.
const LENGTH_BYTES: usize = 4;

/// A sender, which only a process with the mail key can recognize.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SenderTag([u8; TAG_BYTES]);

/// Whether a sender gets a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It gets one.
    Reply,
    /// It has had one within [`PERIOD`].
    Replied,
    /// The account has replied too often.
    Limited,
}

/// The replies of one account within the last [`PERIOD`], oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SentReplies(Vec<(SenderTag, u32)>);

/// The tags of a sender, for that account and vacation: the one to write first, then those under
/// other mail keys. The case of letters does not matter.
pub(super) fn tags(keys: &MailKeys, account: AccountId, round: u64, sender: &str) -> Vec<SenderTag> {
    let text = format!("{account} {round} {}", sender.to_lowercase());
    let short = |mac: [u8; 32]| {
        let mut tag = [0; TAG_BYTES];
        tag.copy_from_slice(&mac[..TAG_BYTES]);
        SenderTag(tag)
    };
    keys.macs(TAG, text.as_bytes()).map(short).collect()
}

impl SentReplies {
    /// What becomes of mail from a sender with these tags.
    pub(super) fn verdict(&self, tags: &[SenderTag], now: Timestamp) -> Verdict {
        let young = |period: Duration| self.0.iter().filter(move |(_, at)| age(*at, now) < period);
        if young(PERIOD).any(|(tag, _)| tags.contains(tag)) {
            Verdict::Replied
        } else if young(PERIOD).count() >= limits::VACATION_SENDERS
            || young(HOUR).count() >= limits::VACATION_REPLIES_PER_HOUR
        {
            Verdict::Limited
        } else {
            Verdict::Reply
        }
    }

    /// The same with one more, and without those that are over.
    pub(super) fn with(&self, tag: SenderTag, now: Timestamp) -> Self {
        let young = self.0.iter().filter(|(_, at)| age(*at, now) < PERIOD).copied();
        SentReplies(young.chain([(tag, seconds(now))]).collect())
    }

    fn encode(&self) -> Vec<u8> {
        self.0.iter().flat_map(|(tag, at)| tag.0.into_iter().chain(at.to_be_bytes())).collect()
    }

    fn decode(plain: &[u8]) -> Option<Self> {
        let (entries, rest) = plain.as_chunks::<ENTRY_BYTES>();
        let entry = |bytes: &[u8; ENTRY_BYTES]| {
            let (tag, at) = bytes.split_first_chunk::<TAG_BYTES>()?;
            Some((SenderTag(*tag), u32::from_be_bytes(at.try_into().ok()?)))
        };
        rest.is_empty().then(|| entries.iter().map(entry).collect::<Option<_>>().map(SentReplies))?
    }

    /// The newest list of an account in the store, and the version behind which the next one is.
    pub(super) async fn read(
        directory: &Directory,
        keys: &MailKeys,
        account: AccountId,
    ) -> Result<(Self, u64)> {
        let (bytes, version) = directory.vacation_replies(account).await?;
        let sent = bytes.map(|bytes| SentReplies::open(keys, account, &bytes)).transpose()?;
        Ok((sent.unwrap_or_default(), version))
    }

    /// Writes an empty list if there is none, or none that opens. A node without the mail key sees by
    /// it that the store has something that it opens, and makes no other key.
    pub(super) async fn begin(
        directory: &Directory,
        keys: &MailKeys,
        account: AccountId,
        random: &dyn Random,
    ) -> Result<()> {
        let (bytes, version) = directory.vacation_replies(account).await?;
        if bytes.is_none_or(|bytes| SentReplies::open(keys, account, &bytes).is_err()) {
            SentReplies::default().write(directory, keys, account, version, random).await?;
        }
        Ok(())
    }

    /// The list in a version of the record.
    fn open(keys: &MailKeys, account: AccountId, bytes: &[u8]) -> Result<Self> {
        let corrupt = || Error::corrupt(format!("the vacation replies of {account} cannot be read"));
        let (length, rest) = bytes.split_first_chunk::<LENGTH_BYTES>().ok_or_else(corrupt)?;
        let sealed = rest.get(..u32::from_be_bytes(*length) as usize).ok_or_else(corrupt)?;
        let plain = keys.open_note(LABEL, &account.to_string(), sealed)?;
        SentReplies::decode(&plain).ok_or_else(corrupt)
    }

    /// Writes the list behind that version; `false` if another writer was first.
    pub(super) async fn write(
        &self,
        directory: &Directory,
        keys: &MailKeys,
        account: AccountId,
        version: u64,
        random: &dyn Random,
    ) -> Result<bool> {
        let sealed = keys.seal_note(LABEL, &account.to_string(), &self.encode(), random);
        let sealed: &[u8] = sealed.as_ref();
        // Random bytes follow in the record.
        let length =
            u32::try_from(sealed.len()).map_err(|_| Error::internal("a list of replies is too long"))?;
        let bytes = [&length.to_be_bytes(), sealed].concat();
        directory.put_vacation_replies(account, version, &bytes).await
    }

    /// Senders that it has.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// How old an entry is; one of a clock that was ahead is new.
fn age(at: u32, now: Timestamp) -> Duration {
    Duration::from_secs(u64::from(seconds(now).saturating_sub(at)))
}

fn seconds(at: Timestamp) -> u32 {
    u32::try_from(at.seconds().max(0)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use sealpost_base::SeededRandom;

    use super::*;

    const NOW: Timestamp = Timestamp(1_800_000_000_000);

    fn tag(n: u64) -> SenderTag {
        SenderTag(n.to_be_bytes())
    }

    #[test]
    fn a_sender_gets_one_reply_in_a_week() {
        let sent = SentReplies::default().with(tag(1), NOW);
        let at = |after: Duration| NOW.after(after);
        assert_eq!(sent.verdict(&[tag(1)], NOW), Verdict::Replied);
        assert_eq!(sent.verdict(&[tag(2), tag(1)], NOW), Verdict::Replied);
        assert_eq!(sent.verdict(&[tag(2)], NOW), Verdict::Reply);
        assert_eq!(sent.verdict(&[tag(1)], at(PERIOD - Duration::from_secs(1))), Verdict::Replied);
        assert_eq!(sent.verdict(&[tag(1)], at(PERIOD)), Verdict::Reply);
        // The clock went back.
        assert_eq!(sent.verdict(&[tag(1)], Timestamp(0)), Verdict::Replied);
        assert_eq!(sent.with(tag(2), at(PERIOD)).len(), 1);
    }

    #[test]
    fn an_account_replies_so_often_and_no_more() {
        let (mut sent, mut now) = (SentReplies::default(), NOW);
        for n in 0..10 * limits::VACATION_SENDERS as u64 {
            if sent.verdict(&[tag(n)], now) == Verdict::Reply {
                sent = sent.with(tag(n), now);
            }
            let in_hour = sent.0.iter().filter(|(_, at)| age(*at, now) < HOUR).count();
            assert!(in_hour <= limits::VACATION_REPLIES_PER_HOUR && sent.len() <= limits::VACATION_SENDERS);
            now = now.after(Duration::from_secs(30));
        }
        assert_eq!(sent.len(), limits::VACATION_SENDERS);
        assert_eq!(sent.verdict(&[tag(0)], now), Verdict::Replied);
        assert_eq!(SentReplies::decode(&sent.encode()), Some(sent.clone()));
        assert_eq!(SentReplies::decode(&sent.encode()[1..]), None);
    }

    #[test]
    fn tags_differ_by_account_vacation_and_sender() {
        let keys = MailKeys::generate(&SeededRandom::new(1));
        let (a, b) = (AccountId([1; 16]), AccountId([2; 16]));
        let of = |account, round, sender: &str| tags(&keys, account, round, sender)[0];
        let one = of(a, 1, "jane@a.example");
        assert_eq!(one, of(a, 1, "Jane@A.example"));
        for other in [of(b, 1, "jane@a.example"), of(a, 2, "jane@a.example"), of(a, 1, "joe@a.example")] {
            assert_ne!(one, other);
        }
        // After a rotation of the mail key the earlier tag is still among them.
        let rotated = keys.with_next(&SeededRandom::new(2)).unwrap().rotated();
        assert!(tags(&rotated, a, 1, "jane@a.example")[1..].contains(&one));
    }
}
