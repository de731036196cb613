//! A backup in memory, with committed data only.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use sealpost_base::{Error, Result, Uid, UidSet};

use crate::backup::{
    Arrived, Backup, BackupFolder, Flags, Folder, FolderName, Identity, KnownMessages, Resume, Stored,
    possible,
};

/// A message that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) arrived: Arrived,
    pub(crate) bytes: Vec<u8>,
    pub(crate) gone: bool,
}

/// What a folder holds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Contents {
    pub(crate) identity: Option<Identity>,
    pub(crate) messages: BTreeMap<u32, Message>,
    pub(crate) resume: Resume,
    pub(crate) commits: u64,
}

/// A backup in memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memory {
    pub(crate) folders: Arc<Mutex<BTreeMap<String, Contents>>>,
    /// Messages of more bytes than this are refused.
    pub(crate) most: Option<u64>,
    /// Commits fail once there are so many messages.
    pub(crate) full: Option<usize>,
    /// How often a message was read.
    pub(crate) reads: Arc<AtomicUsize>,
}

impl Memory {
    pub(crate) fn folder(&self, name: &str) -> Contents {
        self.folders.lock().unwrap().get(name).cloned().unwrap_or_default()
    }

    /// The bytes of each stored message, by UID.
    pub(crate) fn texts(&self, name: &str) -> Vec<(u32, String)> {
        let text = |m: &Message| String::from_utf8_lossy(&m.bytes).into_owned();
        self.folder(name).messages.iter().map(|(uid, message)| (*uid, text(message))).collect()
    }
}

struct OpenFolder {
    backup: Memory,
    name: String,
    now: Contents,
    known: KnownMessages,
    bytes: Option<Vec<u8>>,
    replace: UidSet,
}

impl Backup for Memory {
    fn folders(&self) -> Result<Vec<BackupFolder>> {
        let folders = self.folders.lock().unwrap();
        let kept = folders.iter().filter_map(|(name, contents)| {
            let gone = contents.messages.values().filter(|m| m.gone).count() as u64;
            Some(BackupFolder {
                name: FolderName::new(&**name, Some('/')),
                was: None,
                identity: contents.identity.clone()?,
                messages: contents.messages.len() as u64 - gone,
                gone,
                resume: contents.resume,
                as_left: true,
                closed: true,
            })
        });
        Ok(kept.collect())
    }

    fn open(&self, folder: &FolderName, server: &Identity) -> Result<Box<dyn Folder>> {
        let mut folders = self.folders.lock().unwrap();
        let name = folder.as_str().to_owned();
        let renamed = folders
            .iter()
            .find(|(_, c)| {
                let same = |i: &Identity| i.mailboxid.is_some() && i == server;
                c.identity.as_ref().is_some_and(same)
            })
            .map(|(name, _)| name.clone());
        if !folders.contains_key(&name)
            && let Some(old) = renamed
            && let Some(contents) = folders.remove(&old)
        {
            folders.insert(name.clone(), contents);
        }
        let contents = folders.entry(name.clone()).or_default();
        if contents.identity.as_ref().is_some_and(|i| i.uidvalidity != server.uidvalidity) {
            let old = std::mem::take(contents);
            let superseded = format!("{name}-{}", old.identity.as_ref().map_or(0, |i| i.uidvalidity));
            folders.insert(superseded, old);
        }
        let contents = folders.entry(name.clone()).or_default();
        contents.identity = Some(server.clone());
        let mut known = KnownMessages::new();
        for (uid, message) in &contents.messages {
            known.insert(*uid, &message.arrived.flags);
            known.set_deleted_upstream(*uid, message.gone);
        }
        let now = contents.clone();
        Ok(Box::new(OpenFolder {
            backup: self.clone(),
            name,
            now,
            known,
            bytes: None,
            replace: UidSet::new(),
        }))
    }

    fn open_to_read(&self, folder: &FolderName) -> Result<Box<dyn Folder>> {
        let identity =
            self.folder(folder.as_str()).identity.ok_or_else(|| Error::not_found("no such folder"))?;
        self.open(folder, &identity)
    }
}

impl Folder for OpenFolder {
    fn known(&self) -> &KnownMessages {
        &self.known
    }

    fn resume(&self) -> Resume {
        self.now.resume
    }

    fn begin(&mut self, size: u64) -> Result<()> {
        assert!(self.bytes.is_none(), "a message within a message");
        self.bytes = Some(Vec::new());
        match self.backup.most {
            Some(most) if size > most => Err(Error::limit("too large for this backup")),
            _ => Ok(()),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes.as_mut().expect("a message was begun").extend_from_slice(bytes);
        Ok(())
    }

    fn finish(&mut self, message: &Arrived) -> Result<()> {
        let bytes = self.bytes.take().expect("a message was begun");
        assert!(self.takes(message.uid), "{} comes twice", message.uid);
        Uid::new(message.uid).map(|uid| self.replace.remove(uid));
        let flags = self.known.flags(message.uid).unwrap_or(&message.flags).clone();
        self.known.insert(message.uid, &flags);
        let kept = Message { arrived: Arrived { flags, ..message.clone() }, bytes, gone: false };
        self.now.messages.insert(message.uid, kept);
        Ok(())
    }

    fn abandon(&mut self) -> Result<()> {
        self.bytes = None;
        Ok(())
    }

    fn flags(&mut self, uid: u32, flags: &Flags) -> Result<()> {
        if let Some(message) = self.now.messages.get_mut(&uid) {
            message.arrived.flags = flags.clone();
            self.known.insert(uid, flags);
        }
        Ok(())
    }

    fn remove(&mut self, uid: u32) -> Result<()> {
        self.now.messages.remove(&uid);
        self.known.remove(uid);
        Ok(())
    }

    fn mark_deleted_upstream(&mut self, uid: u32) -> Result<()> {
        if let Some(message) = self.now.messages.get_mut(&uid) {
            message.gone = true;
            self.known.set_deleted_upstream(uid, true);
        }
        Ok(())
    }

    fn renumber(&mut self, uids: &BTreeMap<u32, u32>) -> Result<u64> {
        let uids = possible(&self.known, uids);
        for (from, to) in &uids {
            if let Some(mut message) = self.now.messages.remove(from) {
                (message.arrived.uid, message.gone) = (*to, false);
                self.known.insert(*to, &message.arrived.flags);
                self.now.messages.insert(*to, message);
            }
            self.known.remove(*from);
        }
        let resume = self.now.resume;
        self.commit(&resume)?;
        Ok(uids.len() as u64)
    }

    fn replace(&mut self, uids: &UidSet) {
        self.replace = uids.clone();
    }

    fn takes(&self, uid: u32) -> bool {
        !self.known.contains(uid) || Uid::new(uid).is_some_and(|uid| self.replace.contains(uid))
    }

    fn commit(&mut self, resume: &Resume) -> Result<()> {
        assert!(self.bytes.is_none(), "a commit within a message");
        if self.backup.full.is_some_and(|full| self.now.messages.len() > full) {
            return Err(Error::retry("no space left on device"));
        }
        self.now.resume = *resume;
        self.now.commits += 1;
        self.backup.folders.lock().unwrap().insert(self.name.clone(), self.now.clone());
        Ok(())
    }

    fn messages(&self) -> Result<Box<dyn Iterator<Item = Result<Stored>> + '_>> {
        let stored = self.now.messages.values().map(|message| {
            let Arrived { uid, flags, internaldate } = message.arrived.clone();
            let size = message.bytes.len() as u64;
            Ok(Stored { uid, flags, internaldate, size, gone: message.gone })
        });
        Ok(Box::new(stored))
    }

    fn read(&self, uid: u32) -> Result<Box<dyn Read + '_>> {
        let message = self.now.messages.get(&uid).ok_or_else(|| Error::not_found("no such message"))?;
        self.backup.reads.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(&message.bytes[..]))
    }
}
