//! Limits on search, sort and threads, for every protocol.

/// Fuzzy strings of one search; each costs a hundred times as much as an exact one.
pub const FUZZY_STRINGS: usize = 16;
/// Different words of one string of a FUZZY search key; later ones are ignored.
pub const FUZZY_WORDS: usize = 16;
/// Bytes of a string that SORT compares.
pub const SORT_KEY_BYTES: usize = 1000;
/// References of one message that THREAD uses: the last ones.
pub const THREAD_REFERENCES: usize = 1000;
/// Different keywords that the filter and the sort of one query over emails name: a bit each.
pub const QUERY_KEYWORDS: usize = 64;
/// Conditions on message content in one query over emails; each is a search of its own. Adjacent ones count
/// as one.
pub const QUERY_CONTENTS: usize = 16;
