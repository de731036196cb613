//! Encodes a state as the chunks of a checkpoint: `mails-…` have the mails, each those of 4,096
//! consecutive ids, and `queue` has the rest.
//!
//! Chunks have accounts and domains in full, not by number: equal states give equal bytes.

use std::collections::BTreeSet;

use minicbor::decode::{Decoder, Error as Wrong};
use minicbor::encode::Encoder;
use minicbor::{Decode, Encode};
use sealpost_base::{AccountId, Error, Position, Result};

use super::rows::{Flags, Place, Row, SEVERAL, decode_failure, encode_failure};
use super::sent::SentRecipients;
use super::{HourCount, Part, Parts, QueuedSubmission, Segment, State, Totals};
use crate::MailId;
use crate::event::{Adoption, Rule, WriterId};

/// The chunk with everything except the mails.
const MAIN: &str = "queue";
/// The prefix of the names of the other chunks.
const MAILS: &str = "mails-";
/// The same for submissions, by the ids of their mails.
const SUBMISSIONS: &str = "submissions-";
/// Ids of one chunk.
const IDS: u64 = 4096;

#[derive(Encode, Decode)]
#[cbor(map)]
struct Main {
    #[n(0)]
    position: Position,
    #[n(1)]
    next: u64,
    #[n(2)]
    segments: Vec<(u32, Segment)>,
    #[n(3)]
    next_segment: u32,
    #[n(4)]
    rules: Vec<Rule>,
    #[n(5)]
    next_rule: u32,
    #[n(6)]
    owner: Option<(WriterId, Adoption)>,
    #[n(7)]
    all_held: Option<String>,
    #[n(8)]
    handled: Vec<String>,
    #[n(9)]
    totals: Totals,
    /// Missing in checkpoints of earlier versions.
    #[n(10)]
    #[cbor(default)]
    sent: Vec<(AccountId, Vec<HourCount>)>,
    /// Missing in checkpoints of earlier versions.
    #[n(11)]
    #[cbor(default)]
    forgotten: String,
}

type Encoded = std::result::Result<(), minicbor::encode::Error<std::convert::Infallible>>;

impl State {
    /// The names of its chunks.
    pub fn chunk_names(&self) -> Vec<String> {
        let groups: BTreeSet<u64> = self.rows.from(MailId(0)).map(|(id, _)| id.0 / IDS).collect();
        let mails = groups.into_iter().map(|group| format!("{MAILS}{group:016x}"));
        let groups: BTreeSet<u64> = self.submissions.iter_from(MailId(0)).map(|(id, _)| id.0 / IDS).collect();
        let submissions = groups.into_iter().map(|group| format!("{SUBMISSIONS}{group:016x}"));
        std::iter::once(MAIN.to_owned()).chain(mails).chain(submissions).collect()
    }

    /// The bytes of a chunk.
    pub fn chunk(&self, name: &str) -> Vec<u8> {
        let group_of = |prefix: &str| u64::from_str_radix(name.strip_prefix(prefix)?, 16).ok();
        match (group_of(MAILS), group_of(SUBMISSIONS)) {
            (Some(group), _) => self.mails_chunk(group),
            (None, Some(group)) => self.submissions_chunk(group),
            (None, None) => self.main_chunk(),
        }
    }

    fn submissions_chunk(&self, group: u64) -> Vec<u8> {
        let submissions = self.submissions.iter_from(MailId(group.saturating_mul(IDS)));
        let submissions = submissions.take_while(|(id, _)| id.0 / IDS == group);
        minicbor::to_vec(submissions.collect::<Vec<_>>()).expect("a vector takes everything")
    }

    fn main_chunk(&self) -> Vec<u8> {
        let main = Main {
            position: self.position,
            next: self.next,
            segments: self.segments.iter().map(|(number, segment)| (*number, segment.clone())).collect(),
            next_segment: self.next_segment,
            rules: self.rules.values().cloned().collect(),
            next_rule: self.next_rule,
            owner: self.owner.clone(),
            all_held: self.all_held.clone(),
            handled: self.handled.iter().cloned().collect(),
            totals: self.totals,
            sent: self.sent.to_rows(),
            forgotten: self.forgotten.clone(),
        };
        minicbor::to_vec(main).expect("a vector takes everything")
    }

    fn mails_chunk(&self, group: u64) -> Vec<u8> {
        let mut encoder = Encoder::new(Vec::new());
        let first = MailId(group * IDS);
        let rows = self.rows.from(first).take_while(|(id, _)| id.0 / IDS == group);
        for (id, row) in rows {
            self.encode_row(id, row, &mut encoder).expect("a vector takes everything");
        }
        encoder.into_writer()
    }

    fn encode_row(&self, id: MailId, row: &Row, e: &mut Encoder<Vec<u8>>) -> Encoded {
        let (kind, a, b, c) = match row.place {
            Place::Entry(position, number) => (0, position.0, u32::from(number), 0),
            Place::Segment(segment, start, length) => (1, u64::from(segment), start, length),
        };
        e.array(17)?.u64(id.0)?.u8(kind)?.u64(a)?.u32(b)?.u32(c)?;
        e.u32(row.size)?.u32(row.accepted)?.u32(row.released)?.u32(row.next)?;
        match self.account(row) {
            Some(account) => e.bytes(&account.0)?,
            None => e.null()?,
        };
        match self.domain(row) {
            Some(domain) => e.str(domain)?,
            None => e.null()?,
        };
        e.u32(row.rule)?.u16(row.recipients)?.u8(row.attempts)?.u8(row.flags.0)?;
        match self.rows.failure(id) {
            Some(failure) => e.bytes(&encode_failure(&failure))?,
            None => e.null()?,
        };
        let Some(parts) = self.parts.get(&id) else {
            e.null()?;
            return Ok(());
        };
        e.array(parts.recipients.len() as u64)?;
        for part in &parts.recipients {
            match part {
                Part::Done => e.null()?,
                Part::Left(None) => e.bytes(&[])?,
                Part::Left(Some(failure)) => e.bytes(&encode_failure(failure))?,
            };
        }
        Ok(())
    }

    /// Adds the content of a chunk to a state that was empty at first.
    ///
    /// # Errors
    /// `Corrupt` if the bytes are no chunk of that name, `Retry` if a newer version made them.
    pub fn restore(&mut self, name: &str, chunk: &[u8]) -> Result<()> {
        let corrupt = |e: Wrong| Error::undecodable(format!("checkpoint chunk {name}"), e);
        if name.starts_with(SUBMISSIONS) {
            let all: Vec<(MailId, QueuedSubmission)> = minicbor::decode(chunk).map_err(corrupt)?;
            all.into_iter().for_each(|(id, submission)| self.submissions.restore(id, submission));
            return Ok(());
        }
        if name != MAIN {
            let mut decoder = Decoder::new(chunk);
            while decoder.position() < chunk.len() {
                self.restore_row(&mut decoder).map_err(corrupt)?;
            }
            return Ok(());
        }
        let main: Main = minicbor::decode(chunk).map_err(corrupt)?;
        self.position = main.position;
        self.next = main.next;
        self.segments = main.segments.into_iter().collect();
        self.next_segment = main.next_segment;
        self.rules = main.rules.into_iter().map(|rule| (rule.number, rule)).collect();
        self.next_rule = main.next_rule;
        self.owner = main.owner;
        self.all_held = main.all_held;
        self.handled = main.handled.into();
        self.forgotten = main.forgotten;
        self.totals = main.totals;
        self.sent = SentRecipients::from_rows(main.sent);
        Ok(())
    }

    fn restore_row(&mut self, d: &mut Decoder<'_>) -> std::result::Result<(), Wrong> {
        let wrong = |why: &'static str| Wrong::message(why);
        if d.array()? != Some(17) {
            return Err(wrong("not a row"));
        }
        let id = MailId(d.u64()?);
        let (kind, a, b, c) = (d.u8()?, d.u64()?, d.u32()?, d.u32()?);
        let narrow = |_| wrong("a number is too large");
        let place = match kind {
            0 => Place::Entry(Position(a), u16::try_from(b).map_err(narrow)?),
            1 => Place::Segment(u32::try_from(a).map_err(narrow)?, b, c),
            _ => return Err(wrong("unknown place")),
        };
        let (size, accepted, released, next) = (d.u32()?, d.u32()?, d.u32()?, d.u32()?);
        let account: Option<&minicbor::bytes::ByteSlice> = d.decode()?;
        let account = account.map(|id| id[..].try_into().map(AccountId));
        let account = account.transpose().map_err(|_| wrong("not an account"))?;
        let domain: Option<&str> = d.decode()?;
        let (rule, recipients, attempts, flags) = (d.u32()?, d.u16()?, d.u8()?, Flags(d.u8()?));
        let failure: Option<&minicbor::bytes::ByteSlice> = d.decode()?;
        let failure = failure.map(|bytes| decode_failure(bytes).ok_or_else(|| wrong("not a failure")));
        let failure = failure.transpose()?;
        let account = self.accounts.hold(&account);
        let domain = domain.map_or(SEVERAL, |domain| self.domains.hold(&domain.into()));
        let row = Row::new(place, size, (accepted, released), account, domain, recipients, flags);
        self.rows.insert(id, Row { next, rule, attempts, ..row });
        self.rows.set_failure(id, failure.as_ref());
        if let Some(parts) = decode_parts(d)? {
            self.parts.insert(id, Box::new(parts));
        }
        Ok(())
    }
}

fn decode_parts(d: &mut Decoder<'_>) -> std::result::Result<Option<Parts>, Wrong> {
    let all: Option<Vec<Option<&minicbor::bytes::ByteSlice>>> = d.decode()?;
    let part = |part: Option<&minicbor::bytes::ByteSlice>| match part {
        None => Ok(Part::Done),
        Some(bytes) if bytes.is_empty() => Ok(Part::Left(None)),
        Some(bytes) => match decode_failure(bytes) {
            Some(failure) => Ok(Part::Left(Some(Box::new(failure)))),
            None => Err(Wrong::message("not a failure")),
        },
    };
    let Some(all) = all else { return Ok(None) };
    let recipients = all.into_iter().map(part).collect::<std::result::Result<_, _>>()?;
    Ok(Some(Parts { recipients }))
}

#[cfg(test)]
mod tests {
    use sealpost_base::Timestamp;

    use super::*;
    use crate::event::{Batch, Event};

    /// The chunk of an earlier version, which does not count recipients.
    #[derive(Encode, Decode)]
    #[cbor(map)]
    struct Before {
        #[n(0)]
        position: Position,
        #[n(1)]
        next: u64,
        #[n(2)]
        segments: Vec<(u32, Segment)>,
        #[n(3)]
        next_segment: u32,
        #[n(4)]
        rules: Vec<Rule>,
        #[n(5)]
        next_rule: u32,
        #[n(6)]
        owner: Option<(WriterId, Adoption)>,
        #[n(7)]
        all_held: Option<String>,
        #[n(8)]
        handled: Vec<String>,
        #[n(9)]
        totals: Totals,
    }

    #[test]
    fn checkpoints_from_before_recipients_were_counted_are_read() {
        let now = Timestamp::from_seconds(1_700_000_000);
        let mail = crate::state::tests::mail(now, 1, &["a@b.example", "c@d.example"]);
        let events = vec![Event::Accepted(Box::new(mail))];
        let batch = Batch { at: now, writer: WriterId([1; 16]), nonce: 0, first: MailId(0), events };
        let mut state = State::default();
        state.apply(Position(1), &batch);
        let counted = state.sent(AccountId([1; 16]), now);
        assert_eq!(counted.iter().map(|count| count.recipients).collect::<Vec<_>>(), [2]);

        // Either version reads chunks of the other.
        let before: Before = minicbor::decode(&state.chunk(MAIN)).unwrap();
        let mut restored = State::default();
        restored.restore(MAIN, &minicbor::to_vec(&before).unwrap()).unwrap();
        assert_eq!((restored.next_id(), restored.totals()), (state.next_id(), state.totals()));
        assert!(restored.sent(AccountId([1; 16]), now).is_empty());

        let mut restored = State::default();
        restored.restore(MAIN, &state.chunk(MAIN)).unwrap();
        assert_eq!(restored.sent(AccountId([1; 16]), now), counted);
    }
}
