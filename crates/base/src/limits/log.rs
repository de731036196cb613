//! Limits on logs: entries, checkpoints, ballots.

/// Logs, and likewise records, of which a node keeps the last position or version seen.
pub const WATERMARKS: usize = 32_768;
/// Records in one log entry when several requests are appended together.
pub const ENTRY_RECORDS: usize = 128;
/// How far behind the last entry of a log the next one may be, if other objects occupy the positions between.
/// Entries beyond that are damage: they are not read one by one, and nothing is appended to them.
pub const LOG_GAP: u64 = 64;
/// Objects at the paths of one log's entries that are no entries. They are recorded, so that they are neither
/// read nor reported again.
pub const LOG_NOISE: usize = 1024;
/// Log entries whose hashes a loaded account keeps, to detect that another node counts different ones.
pub const ENTRIES_COMPARED: usize = 4096;
/// Bytes of one log entry.
pub const ENTRY_BYTES: usize = 8 * 1024 * 1024;
/// Bytes that sealing may add to an object; larger objects are not read.
pub const SEALING_BYTES: usize = 64 * 1024;
/// Bytes of a sealed checkpoint manifest or attestation. An account of ten million messages takes some 2 MiB.
pub const MANIFEST_BYTES: usize = 8 * 1024 * 1024;
/// Bytes of a sealed mark in the folder of manifests; its content is in its name.
pub const MARK_BYTES: usize = 4096;
/// Object ids that garbage collection holds at a time; a larger account takes several passes.
pub const GARBAGE_IDS: usize = 262_144;
/// Ballots of one log or record whose names stay in the store, where writers agree by ballots.
pub const BALLOTS: usize = 16;
