//! From one backup to another, in any formats: `archive export`.
//!
//! Messages that the target has are not written again, only their flags are updated. So an
//! interrupted transfer can be run again, and a repeated one costs little.

use std::collections::BTreeSet;
use std::io::Read;

use sealpost_base::{Error, Result, Uid, UidSet, counted};

use super::sent::received_or_sent;
use super::{Arrived, Folder, KnownMessages, is_among};
use crate::same::is_same;

/// Messages of one commit.
const COMMIT_MESSAGES: usize = 4096;
/// Bytes of one commit.
const COMMIT_BYTES: u64 = 64 * 1024 * 1024;
/// Bytes that are read at a time.
const PIECE_BYTES: usize = 64 * 1024;

/// What a transfer did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Transferred {
    /// Messages that were written.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Messages that the target had already.
    pub present: u64,
    /// Messages that could not be read: the UID (0: not known), and why. They are not in the other
    /// backup.
    pub failed: Vec<(u32, String)>,
    /// It was stopped before it was done: what was written is committed.
    pub interrupted: bool,
}

/// Writes all messages of `from` to `to`, one of each group of `twins`, and closes `to`. `progress`
/// gets the bytes of each piece, and returns whether to continue with the next message.
///
/// # Errors
/// The errors of `to`. A message of `from` that cannot be read is reported, and the next one
/// follows.
pub fn transfer(
    from: &dyn Folder,
    twins: &[BTreeSet<u32>],
    mut to: Box<dyn Folder>,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<Transferred> {
    let mut done = Transferred { failed: unread(from), ..Transferred::default() };
    let (mut messages, mut bytes) = (0, 0);
    let (resume, superfluous) = (from.resume(), superfluous(from, twins));
    for stored in from.messages()? {
        if !progress(0) {
            done.interrupted = true;
            break;
        }
        let stored = match stored {
            Ok(stored) => stored,
            Err(e) => {
                done.failed.push((0, e.to_string()));
                continue;
            }
        };
        if is_among(&superfluous, stored.uid) {
            continue;
        }
        if to.known().contains(stored.uid) {
            to.flags(stored.uid, &stored.flags)?;
            done.present += 1;
        } else {
            let internaldate = received_or_sent(from, &stored);
            let arrived = Arrived { uid: stored.uid, flags: stored.flags.clone(), internaldate };
            match hand_over(from, stored.uid, &mut *to, &arrived, stored.size, progress)? {
                Ok(()) => {
                    done.messages += 1;
                    done.bytes += stored.size;
                    messages += 1;
                    bytes += stored.size;
                }
                Err(why) => done.failed.push((stored.uid, why)),
            }
        }
        if stored.gone {
            to.mark_deleted_upstream(stored.uid)?;
        }
        if messages >= COMMIT_MESSAGES || bytes >= COMMIT_BYTES {
            to.commit(&super::Resume::default())?;
            (messages, bytes) = (0, 0);
        }
    }
    let whole = super::Resume { whole: resume.whole && done.failed.is_empty(), ..resume };
    to.commit(&if done.interrupted { super::Resume::default() } else { whole })?;
    to.close()?;
    Ok(done)
}

/// What [`transfer`] would do, as far as it is known without reading a message, except for twins.
/// `there`: the other folder's messages.
///
/// # Errors
/// As [`Folder::messages`]. A message that is known to be damaged is reported, and the next one follows.
pub fn planned(from: &dyn Folder, twins: &[BTreeSet<u32>], there: &KnownMessages) -> Result<Transferred> {
    let mut planned = Transferred { failed: unread(from), ..Transferred::default() };
    let superfluous = superfluous(from, twins);
    for stored in from.messages()? {
        match stored {
            Ok(stored) if is_among(&superfluous, stored.uid) => {}
            Ok(stored) if there.contains(stored.uid) => planned.present += 1,
            Ok(stored) => {
                planned.messages += 1;
                planned.bytes += stored.size;
            }
            Err(e) => planned.failed.push((0, e.to_string())),
        }
    }
    Ok(planned)
}

/// Of each group of twins, put back under other UIDs, all but those that the server has, or all but
/// one: as far as their bytes are the same.
fn superfluous(from: &dyn Folder, twins: &[BTreeSet<u32>]) -> UidSet {
    let mut superfluous = UidSet::new();
    for twins in twins {
        let (gone, there): (Vec<u32>, Vec<u32>) =
            twins.iter().partition(|uid| from.known().is_deleted_upstream(**uid));
        // The last one is the one that the server had last.
        let Some(stays) = there.last().or(gone.last()).copied() else { continue };
        let same = gone.into_iter().filter(|uid| *uid != stays && is_same(from, *uid, from, stays));
        same.filter_map(Uid::new).for_each(|uid| superfluous.insert(uid));
    }
    superfluous
}

/// The failures reported for messages that cannot be listed.
fn unread(from: &dyn Folder) -> Vec<(u32, String)> {
    match from.unread() {
        0 => Vec::new(),
        n => vec![(
            0,
            format!(
                "{} from the damaged part of the journal; fetch with `archive pull` or `archive verify --all --repair`",
                counted(n, "message", "messages")
            ),
        )],
    }
}

/// Copies one message of `from` to `to`, as `arrived`; the inner error is about reading it.
///
/// # Errors
/// The errors of `to`.
pub(crate) fn hand_over(
    from: &dyn Folder,
    uid: u32,
    to: &mut dyn Folder,
    arrived: &Arrived,
    size: u64,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<Result<(), String>> {
    let mut bytes = match from.read(uid) {
        Ok(bytes) => bytes,
        Err(e) => return Ok(Err(e.to_string())),
    };
    to.begin(size)?;
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match bytes.read(&mut piece) {
            Ok(0) => {
                to.finish(arrived)?;
                return Ok(Ok(()));
            }
            Ok(n) => {
                to.write(&piece[..n]).map_err(|e: Error| e.context(format!("UID {}", arrived.uid)))?;
                progress(n as u64);
            }
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => {
                to.abandon()?;
                return Ok(Err(e.to_string()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::backup::format_tests::*;
    use crate::backup::{imap_backup, maildir};

    #[test]
    fn conversion_keeps_bytes_and_makes_no_duplicates() {
        let directory = tempfile::tempdir().unwrap();
        let source = imap_backup::open(&directory.path().join("source")).unwrap();
        let name = folder_name("a");
        let mails: Mails = [
            (1, mail("bare\nLF")),
            (2, mail("A: b\r\n\r\nx\r\n")),
            (5, mail_of(&b"0123456789abcdef".repeat(20_000))),
        ]
        .into();
        let mut folder = source.open(&name, &identity(7)).unwrap();
        mails.iter().for_each(|(uid, mail)| give(&mut *folder, *uid, mail, 70_000).unwrap());
        folder.mark_deleted_upstream(2).unwrap();
        folder.commit(&resume(6)).unwrap();
        let target = maildir::open(&directory.path().join("target")).unwrap();
        let mut seen = 0;
        let plan = planned(&*folder, &[], &KnownMessages::new()).unwrap();
        let to = target.open(&name, &identity(7)).unwrap();
        let done = transfer(&*folder, &[], to, &mut |bytes| {
            seen += bytes;
            true
        })
        .unwrap();
        assert_eq!((done.messages, done.bytes, done.failed.len()), (3, seen, 0));
        assert_eq!(plan, done);
        let there = target.open_to_read(&name).unwrap();
        assert_eq!(read_all(&*there), mails);
        assert!(there.known().is_deleted_upstream(2));
        assert_eq!(there.resume(), resume(6));
        let plan = planned(&*folder, &[], there.known()).unwrap();
        assert_eq!((plan.messages, plan.bytes, plan.present), (0, 0, 3));
        drop(there);
        let again =
            transfer(&*folder, &[], target.open(&name, &identity(7)).unwrap(), &mut |_| true).unwrap();
        assert_eq!((again.messages, again.present), (0, 3));
    }

    #[test]
    fn a_stopped_transfer_continues_next_time() {
        let directory = tempfile::tempdir().unwrap();
        let source = imap_backup::open(&directory.path().join("source")).unwrap();
        let name = folder_name("a");
        let mut folder = source.open(&name, &identity(7)).unwrap();
        for uid in 1..=5 {
            give(&mut *folder, uid, &mail("A: b\r\n\r\nx\r\n"), 9).unwrap();
        }
        folder.commit(&resume(6)).unwrap();
        let target = maildir::open(&directory.path().join("target")).unwrap();
        let mut bytes = 0;
        let stopped = transfer(&*folder, &[], target.open(&name, &identity(7)).unwrap(), &mut |more| {
            bytes += more;
            bytes < 25
        });
        let stopped = stopped.unwrap();
        assert_eq!((stopped.messages, stopped.interrupted), (3, true));
        let there = target.open_to_read(&name).unwrap();
        assert_eq!(read_all(&*there).keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(there.resume(), Default::default());
        drop(there);
        let rest = transfer(&*folder, &[], target.open(&name, &identity(7)).unwrap(), &mut |_| true).unwrap();
        assert_eq!((rest.messages, rest.present, rest.interrupted), (2, 3, false));
        assert_eq!(target.open_to_read(&name).unwrap().resume(), resume(6));
    }

    #[test]
    fn an_undated_message_gets_its_header_date() {
        let directory = tempfile::tempdir().unwrap();
        let source = imap_backup::open(&directory.path().join("source")).unwrap();
        let name = folder_name("a");
        let mut folder = source.open(&name, &identity(7)).unwrap();
        for (uid, bytes) in [(1, "Date: Mon, 16 Nov 2020 09:05:07 +0100\r\n\r\nx\r\n"), (2, "A: b\r\n\r\n")] {
            give(&mut *folder, uid, &Mail { date: None, ..mail(bytes) }, 9).unwrap();
        }
        folder.commit(&resume(3)).unwrap();
        let target = maildir::open(&directory.path().join("target")).unwrap();
        transfer(&*folder, &[], target.open(&name, &identity(7)).unwrap(), &mut |_| true).unwrap();
        let dates: Vec<_> =
            read_all(&*target.open_to_read(&name).unwrap()).into_values().map(|mail| mail.date).collect();
        assert_eq!(dates, [mail("").date, None]);
    }

    #[test]
    fn a_damaged_message_is_reported_and_others_follow() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("source");
        let source = imap_backup::open(&root).unwrap();
        let name = folder_name("a");
        let mut folder = source.open(&name, &identity(7)).unwrap();
        for uid in 1..=3 {
            give(&mut *folder, uid, &mail(&format!("A: b\r\n\r\nnumber {uid}\r\n")), 9).unwrap();
        }
        folder.commit(&resume(4)).unwrap();
        let mbox = fs::read_to_string(root.join("a.mbox")).unwrap();
        fs::write(root.join("a.mbox"), mbox.replace("number 2", "numbed 2")).unwrap();
        let target = maildir::open(&directory.path().join("target")).unwrap();
        let done = transfer(&*folder, &[], target.open(&name, &identity(7)).unwrap(), &mut |_| true).unwrap();
        assert_eq!((done.messages, done.failed.len(), done.failed[0].0), (2, 1, 2));
        let there = target.open_to_read(&name).unwrap();
        assert_eq!(read_all(&*there).keys().copied().collect::<Vec<_>>(), [1, 3]);
        assert!(!there.resume().whole);
    }
}
