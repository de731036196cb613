//! The body of the fuzz target for summary segments.

use std::sync::Arc;

use sealpost_base::ObjectId;
use sealpost_mime::Scanner;

use super::content::Content;
use super::segment::{Found, Segment, SegmentWriter};
use super::{Block, Entry, Parts, Summary, bloom};

/// See [`crate::fuzz::fuzz_summaries`].
pub(crate) fn fuzz(data: &[u8]) {
    let mut rest = data;
    let mut next = || {
        let (length, after) = rest.split_first_chunk::<2>()?;
        let (section, after) = after.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        rest = after;
        Some(section.to_vec())
    };
    let Some(directory) = next() else { return };
    let texts = [next(), next(), next()];
    let all = texts.iter().all(Option::is_some);
    let Ok(segment) = Segment::decode(Content::Summaries, &directory, texts) else { return };
    let mut writer = SegmentWriter::new(Content::Summaries);
    for (number, object, found) in segment.entries() {
        match found {
            Found::Summary(sent, complete, parts) => {
                read_fields(sent, complete, parts);
                writer.push(number, object, sent, complete, parts);
            }
            Found::Elsewhere(signature) => {
                let _ = bloom::may_hold(signature, b"something");
                writer.push_elsewhere(number, object, signature);
            }
        }
    }
    if all {
        let [directory, texts @ ..] = writer.sections().expect("what was read can be written");
        Segment::decode(Content::Summaries, &directory, texts.map(Some)).expect("and read again");
    }
}

fn read_fields(sent: Option<super::Sent>, complete: bool, parts: [&str; 3]) {
    let mut block = Block { parts: Parts::ALL, ..Block::default() };
    block.push(sent, complete, parts);
    let summary = Summary { block: Arc::new(block), at: 0 };
    let addresses =
        [summary.from().count(), summary.to().count(), summary.cc().count(), summary.bcc().count()];
    let ids = summary.references().count() + summary.in_reply_to().count();
    // Each takes a byte at least.
    assert!(addresses.iter().sum::<usize>() + summary.sender().count() <= 2 * parts[0].len());
    assert!(ids <= parts[1].len() && summary.headers() == parts[2]);
    let _ = (summary.sent_day(), summary.subject(), summary.message_id(), summary.reply_to().count());
}

/// See [`crate::fuzz::summary_bytes`].
pub(crate) fn fuzz_seed(mails: &[&[u8]]) -> Vec<u8> {
    let mut writer = SegmentWriter::new(Content::Summaries);
    for (number, mail) in mails.iter().enumerate() {
        let mut scanner = Scanner::new();
        scanner.push(mail);
        let (structure, text) = scanner.finish();
        let entry = Entry::new(&structure.envelope, &text.into_text());
        let number = number as u32;
        writer.push(number, ObjectId([number as u8; 16]), entry.sent, entry.headers_complete, entry.parts());
    }
    let mut bytes = Vec::new();
    for section in writer.sections().unwrap_or_default() {
        bytes.extend(u16::try_from(section.len()).unwrap_or(u16::MAX).to_be_bytes());
        bytes.extend(section);
    }
    bytes
}
