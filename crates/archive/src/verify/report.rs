//! The result of comparing a folder.

use sealpost_base::UidSet;

/// The result for one folder.
#[derive(Debug, Default, Clone)]
pub struct FolderReport {
    /// Its name.
    pub name: String,
    /// Messages in the backup.
    pub kept: u64,
    /// Messages at the server.
    pub messages: u64,
    /// UIDs that the server has and the backup does not.
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
    /// Messages of the backup with evicted bodies: their metadata is compared.
    pub evicted: u64,
    /// UIDs of those of them that the server no longer has: these bodies are lost.
    pub lost: UidSet,
    /// Damage in the backup itself.
    pub damaged: Vec<String>,
    /// UIDs of damaged messages.
    pub damaged_uids: UidSet,
    /// UIDs of those of them that the server has.
    pub reparable: UidSet,
    /// UIDs of those of them that the server no longer has: they are lost.
    pub beyond_repair: UidSet,
    /// UIDs that were missing, different or damaged, and are not any more.
    pub repaired: UidSet,
    /// Why the folder was not compared.
    pub error: Option<String>,
}

impl FolderReport {
    /// Whether the backup matches the server.
    pub fn is_good(&self) -> bool {
        self.missing.is_empty()
            && self.different.is_empty()
            && self.lost.is_empty()
            && self.damaged.is_empty()
            && self.error.is_none()
    }
}
