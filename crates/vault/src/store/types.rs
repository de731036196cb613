//! What backends and the store say of objects and of themselves.

use sealpost_base::Timestamp;

/// What became of a conditional write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    /// The object was created and is durable.
    Created,
    /// An object of that path was there already and is unchanged.
    Exists,
}

/// How writers find out which of them was first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AppendMode {
    /// The store creates an object only if it is absent: of two writers of one path one gets
    /// [`Put::Exists`].
    #[default]
    Conditional,
    /// It does not, whatever it replies: [`super::Store::put_new`] may return [`Put::Created`] to
    /// both, and one has overwritten the other. A writer that must not lose to others writes to a
    /// path of its own.
    Siblings,
}

/// What [`super::Store::with`] knows of a backend.
#[derive(Debug, Clone, Copy, Default)]
pub struct Backend {
    /// What its conditional writes are worth.
    pub append_mode: AppendMode,
}

/// One line of [`super::Store::list`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedObject {
    /// The object's whole path.
    pub path: String,
    /// Its size in bytes.
    pub size: u64,
    /// When it was written, by the store's clock.
    pub modified: Timestamp,
}

/// What a store has done since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Transactions committed (local backend), each one wait for the disk shared by all it carries.
    pub commits: u64,
    /// Waits for the disk: one for each commit, two for each object that is a file. Checkpoints of
    /// the write-ahead log are not counted; they happen after the writers have been answered.
    pub fsyncs: u64,
    /// Objects written.
    pub objects: u64,
    /// Bytes of objects written.
    pub bytes: u64,
}
