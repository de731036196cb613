//! [`Local`]: the backup's messages of a folder, each read and hashed.

use std::collections::{HashMap, HashSet};
use std::io::Read;

use ring::digest::{Context, SHA256};
use sealpost_base::{Error, Result, Uid, UidSet};

use crate::backup::digest::finish;
use crate::backup::{Backup, FolderName};

/// The backup's messages of a folder.
#[derive(Default)]
pub(super) struct Local {
    /// Size and hash by UID.
    pub(super) messages: HashMap<u32, (u64, [u8; 32])>,
    pub(super) uids: UidSet,
    /// Those of them with evicted bodies.
    pub(super) evicted: UidSet,
    pub(super) damaged: Vec<String>,
    pub(super) damaged_uids: UidSet,
}

impl Local {
    /// Those of these messages that have the same bytes as one of the others.
    pub(super) fn alike(&self, these: &UidSet, others: &UidSet) -> UidSet {
        let of = |uids: &UidSet| {
            let messages = uids.iter().filter_map(|uid| Some((uid, *self.messages.get(&uid.get())?)));
            messages.collect::<Vec<_>>()
        };
        if these.is_empty() {
            return UidSet::new();
        }
        let others: HashSet<_> = of(others).into_iter().map(|(_, message)| message).collect();
        of(these).into_iter().filter(|(_, message)| others.contains(message)).map(|(uid, _)| uid).collect()
    }
}

/// Most damages that are reported one by one.
const DAMAGES_REPORTED: usize = 1000;

/// All messages of a folder of the backup, read and hashed.
pub(super) fn read(backup: &dyn Backup, name: &FolderName, looked: &dyn Fn(&str)) -> Result<Local> {
    let folder = backup.open_to_read(name)?;
    let mut local = Local::default();
    let (mut uids, mut evicted, mut damaged) = (Vec::new(), Vec::new(), Vec::new());
    let mut damage = |uid: Option<u32>, text: String| {
        damaged.extend(uid.and_then(Uid::new));
        if local.damaged.len() < DAMAGES_REPORTED {
            local.damaged.push(uid.map_or(text.clone(), |uid| format!("UID {uid}: {text}")));
        }
    };
    let mut piece = vec![0; 64 * 1024];
    for stored in folder.messages()? {
        looked(name.as_str());
        let stored = match stored {
            Ok(stored) => stored,
            Err(e) => {
                damage(None, e.to_string());
                continue;
            }
        };
        let uid = stored.uid;
        match folder.evicted(uid) {
            Ok(Some(sha256)) => {
                local.messages.insert(uid, (stored.size, sha256));
                uids.extend(Uid::new(uid));
                evicted.extend(Uid::new(uid));
                continue;
            }
            Ok(None) => {}
            Err(e) => {
                damage(Some(uid), e.to_string());
                continue;
            }
        }
        let hashed = folder.read(uid).and_then(|mut reader| {
            let (mut hash, mut size) = (Context::new(&SHA256), 0);
            loop {
                match reader.read(&mut piece) {
                    Ok(0) => return Ok((size, finish(hash))),
                    Ok(n) => {
                        size += n as u64;
                        hash.update(&piece[..n]);
                    }
                    Err(e) => return Err(Error::retry("it cannot be read").with_source(e)),
                }
            }
        });
        match hashed {
            Err(e) => damage(Some(uid), e.to_string()),
            Ok((size, _)) if size != stored.size => {
                damage(Some(uid), format!("{size} bytes instead of {}", stored.size));
            }
            Ok((size, hash)) => {
                local.messages.insert(uid, (size, hash));
                uids.extend(Uid::new(uid));
            }
        }
    }
    local.uids = uids.into_iter().collect();
    local.evicted = evicted.into_iter().collect();
    local.damaged_uids = damaged.into_iter().collect();
    Ok(local)
}
