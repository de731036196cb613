//! What a comparison found in a folder.

use sealpost_base::UidSet;

/// What was found in one folder.
#[derive(Debug, Default, Clone)]
pub struct FolderReport {
    /// Its name.
    pub name: String,
    /// Messages in the backup.
    pub kept: u64,
    /// Messages at the server.
    pub messages: u64,
    /// UIDs that the server has and of which the backup has nothing.
    pub missing: UidSet,
    /// Messages of the backup that the server no longer has.
    pub gone: u64,
    /// UIDs of those of them whose bytes the server has under another UID.
    pub doubled: UidSet,
    /// UIDs for which the server reports another size than the backup has.
    pub sizes: UidSet,
    /// Messages whose bytes were compared with the server's.
    pub compared: u64,
    /// UIDs whose bytes are not the server's.
    pub different: UidSet,
    /// Messages of the backup with evicted bodies: what is known of them is compared.
    pub evicted: u64,
    /// UIDs of those of them that the server has no more: these bodies are nowhere.
    pub lost: UidSet,
    /// What is damaged in the backup itself.
    pub damaged: Vec<String>,
    /// UIDs of messages that are.
    pub damaged_uids: UidSet,
    /// UIDs of those of them that the server has.
    pub reparable: UidSet,
    /// UIDs of those of them that the server has no more: nobody has them.
    pub beyond_repair: UidSet,
    /// UIDs of what was missing, different or damaged, and is not any more.
    pub repaired: UidSet,
    /// What kept the folder from being compared.
    pub error: Option<String>,
}

impl FolderReport {
    /// Whether the backup has what the server has.
    pub fn is_good(&self) -> bool {
        self.missing.is_empty()
            && self.different.is_empty()
            && self.lost.is_empty()
            && self.damaged.is_empty()
            && self.error.is_none()
    }
}
