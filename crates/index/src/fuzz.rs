//! Entry points for fuzzing what this crate reads back from a store. They panic when something is wrong.

use crate::summary;

/// The sections of a summary segment, each behind its length (two bytes): it is read or refused, and whatever is read can
/// be told and gives the same segment again.
pub fn fuzz_summaries(data: &[u8]) {
    summary::fuzz(data);
}

/// Summaries of some messages as the input of [`fuzz_summaries`]; what its corpus starts from.
pub fn summary_bytes(mails: &[&[u8]]) -> Vec<u8> {
    summary::fuzz_seed(mails)
}
