//! Entry points for fuzzing: parsers of stored bytes and of reports from other servers. A violated
//! invariant panics.

use sealpost_base::Position;

use crate::dsn::parse;
use crate::event::Batch;
use crate::state::State;

/// The plaintext of a log entry: any input is applied or refused, and the state can be restored from
/// its own checkpoint.
pub fn fuzz_entry(data: &[u8]) {
    let Ok(batch) = Batch::decode(data) else { return };
    let again = Batch::decode(&batch.encode()).expect("what was decoded is encoded");
    assert_eq!(batch.encode(), again.encode());
    let mut state = State::default();
    for position in 1..=3 {
        state.apply(Position(position), &batch);
    }
    through_chunks(&state);
}

/// A checkpoint's chunk, of the mails or of everything else, by the first byte.
pub fn fuzz_chunk(data: &[u8]) {
    let Some((kind, chunk)) = data.split_first() else { return };
    let mut state = State::default();
    let name = if *kind == 0 { "queue" } else { "mails-0000000000000000" };
    if state.restore(name, chunk).is_ok() {
        through_chunks(&state);
    }
}

/// The status part of a report that another server sent.
pub fn fuzz_report(data: &[u8]) {
    let status = parse::delivery_status(data);
    assert!(status.recipients.len() <= parse::RECIPIENTS);
    for recipient in &status.recipients {
        assert!(recipient.recipient.len() <= 2 * parse::FIELD_BYTES);
    }
}

fn through_chunks(state: &State) {
    let mut restored = State::default();
    for name in state.chunk_names() {
        restored.restore(&name, &state.chunk(&name)).expect("what was written is read");
    }
    for name in state.chunk_names() {
        assert_eq!(state.chunk(&name), restored.chunk(&name));
    }
}

#[cfg(test)]
mod tests {
    use sealpost_base::{Random, SeededRandom, Timestamp};

    use super::*;
    use crate::MailId;
    use crate::event::{Event, WriterId};
    use crate::state::tests::mail;

    /// A short run of a fuzzer: valid inputs with changed bytes.
    #[test]
    fn changed_entries_and_chunks_are_read_or_refused() {
        let random = SeededRandom::new(5);
        let mails =
            (0..3).map(|n| Event::Accepted(Box::new(mail(Timestamp(n), 1, &["a@b.example", "c@d.example"]))));
        let batch = Batch {
            at: Timestamp(1),
            writer: WriterId([1; 16]),
            nonce: 1,
            first: MailId(0),
            events: mails.collect(),
        };
        let mut state = State::default();
        state.apply(Position(1), &batch);
        let entry = batch.encode();
        let chunk = [&[1], &state.chunk("mails-0000000000000000")[..]].concat();
        let main = [&[0], &state.chunk("queue")[..]].concat();
        for _ in 0..3000 {
            let change = |bytes: &[u8]| {
                let mut bytes = bytes.to_vec();
                for _ in 0..=random.below(3) {
                    let at = random.below(bytes.len() as u64) as usize;
                    bytes[at] = random.next_u64() as u8;
                }
                bytes
            };
            fuzz_entry(&change(&entry));
            fuzz_chunk(&change(&chunk));
            fuzz_chunk(&change(&main));
        }
        fuzz_report(b"Reporting-MTA: dns; x\n\nFinal-Recipient: rfc822; a\nAction: failed\n");
    }
}
