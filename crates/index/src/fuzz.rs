//! Entry points for fuzzing what this crate reads back from a store. They panic when something is wrong.

use crate::summary;

/// The sections of a summary segment, each behind its length (two bytes): it is read or refused,
/// and everything read gives the same segment again.
pub fn fuzz_summaries(data: &[u8]) {
    summary::fuzz(data);
}

/// A header segment: the length of its directory (two bytes), the directory, and the pieces. It is
/// read or refused, and everything read can be written again unchanged.
pub fn fuzz_headers(data: &[u8]) {
    summary::fuzz_pieces(data);
}

/// These headers as the input of [`fuzz_headers`]; what its corpus starts from.
pub fn header_bytes(headers: &[&[u8]]) -> Vec<u8> {
    summary::fuzz_seed_pieces(headers)
}

/// Summaries of some messages as the input of [`fuzz_summaries`]; what its corpus starts from.
pub fn summary_bytes(mails: &[&[u8]]) -> Vec<u8> {
    summary::fuzz_seed(mails)
}
