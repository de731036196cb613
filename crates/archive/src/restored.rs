//! [`Restored`]: what the record of restores lists as put back into the account of a backup.
//!
//! A message that a restore puts back gets a new UID. A pull would take it for a new message, and
//! the next restore would still miss the previous one. So a restore records which message of the
//! backup got which UID, and before that, which messages it is about to append and where: a run may
//! be killed before the server's answer. The file is the UID map of [`crate::push`], and
//! `docs/format/archive-journal.md` describes its lines; this module reads it for pull, restore and
//! verify.
//!
//! The record may be lost, truncated, or from a server that was set up again: nothing is removed
//! from a backup because of the record alone.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sealpost_base::{Result, Timestamp, Uid, UidSet};
use sealpost_files::{io_error, replace};
use serde::{Deserialize, Serialize};

use crate::backup::Source;

/// Where a backup keeps the record, at its top.
pub const RECORD_FILE: &str = "sealpost.restored";
/// Where a backup keeps how far pulls have read the records.
const READ_FILE: &str = "sealpost.restored.read";
/// The longest line of the record.
const LINE_BYTES: u64 = 64 * 1024;
/// A server may still process what a dead connection sent: until the record is this old, messages
/// that were about to be appended are expected.
const IN_FLIGHT: Duration = Duration::from_secs(3600);

/// A line of the record.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Line {
    /// A message was appended.
    Message { folder: String, from_uidvalidity: u32, uid: u32, to: String, uidvalidity: u32, there: u32 },
    /// These messages are about to be appended; they get UIDs from `uidnext` on. `below`: below a
    /// folder that was named.
    Putting {
        folder: String,
        from_uidvalidity: u32,
        putting: String,
        to: String,
        uidvalidity: u32,
        uidnext: u32,
        below: bool,
    },
    /// Appends into this folder are in progress; or all of them were answered.
    State { folder_there: String, unanswered: bool },
    /// The lines that follow concern these accounts.
    Accounts { from: String, to: String },
}

/// The lines of a record, those that can be read.
pub(crate) struct Lines<R> {
    from: BufReader<R>,
    line: Vec<u8>,
}

impl<R: Read> Lines<R> {
    pub(crate) fn of(from: R) -> Self {
        Lines { from: BufReader::new(from), line: Vec::new() }
    }

    /// The next line. Lines that cannot be parsed are skipped, such as the last one of a killed
    /// run.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(crate) fn next(&mut self) -> std::io::Result<Option<Line>> {
        loop {
            self.line.clear();
            if (&mut self.from).take(LINE_BYTES).read_until(b'\n', &mut self.line)? == 0 {
                return Ok(None);
            }
            if let Ok(line) = serde_json::from_slice(&self.line) {
                return Ok(Some(line));
            }
        }
    }
}

/// Whether an account of the record, as [`crate::client::Server`] writes it, is this one. The port
/// does not count.
fn is_account(written: &str, account: &Source) -> bool {
    let rest = written.strip_prefix(&*account.user).and_then(|rest| rest.strip_prefix(" at "));
    let host = rest.and_then(|rest| rest.rsplit_once(" port ")).map(|(host, _)| host);
    host.is_some_and(|host| host.eq_ignore_ascii_case(&account.host))
}

/// A set of UIDs, as IMAP writes it.
pub(crate) fn uid_set(text: &str) -> UidSet {
    let range = |part: &str| {
        let (first, last) = part.split_once(':').unwrap_or((part, part));
        let (first, last) = (Uid::new(first.parse().ok()?)?, Uid::new(last.parse().ok()?)?);
        (first <= last).then_some((first, last))
    };
    let mut ranges: Vec<_> = text.split(',').filter_map(range).collect();
    ranges.sort_unstable();
    UidSet::from_ranges(ranges)
}

/// A record file to read.
#[derive(Debug, Clone)]
pub struct RecordFile {
    /// Its path.
    pub path: PathBuf,
    /// Lines written for a backup with another name do not count.
    pub from: Option<String>,
}

/// What was put into a folder of a server from a folder of the backup with one UIDVALIDITY.
#[derive(Debug, Default, Clone)]
pub struct Restoration {
    /// The folder of the backup.
    pub folder: String,
    /// Its UIDVALIDITY at that time.
    pub uidvalidity: u32,
    /// It was put below a folder that was named; `None`: not recorded.
    pub below: Option<bool>,
    /// UIDs in the backup and UIDs on the server, in the order of the appends.
    pairs: Vec<(u32, u32)>,
    /// Messages that were about to be appended and whose outcome is unknown.
    unanswered: UidSet,
    /// Those of them that the server has after all, until [`Restoration::settle`] removes them.
    answered: Vec<Uid>,
}

impl Restoration {
    /// The last UID that each message got: the highest (RFC 3501 §2.3.1.1).
    pub fn latest(&self) -> BTreeMap<u32, u32> {
        let mut latest = BTreeMap::new();
        for (uid, there) in &self.pairs {
            let last = latest.entry(*uid).or_insert(*there);
            *last = (*last).max(*there);
        }
        latest
    }

    /// All appended messages: UIDs in the backup and on the server.
    pub fn pairs(&self) -> &[(u32, u32)] {
        &self.pairs
    }

    /// Messages that the server may have under unknown UIDs.
    pub fn unanswered(&self) -> &UidSet {
        &self.unanswered
    }

    fn put(&mut self, uid: u32, there: u32) {
        self.pairs.push((uid, there));
        self.answered.extend(Uid::new(uid));
    }

    /// Removes the answered messages from `unanswered`, all at once however many there are.
    fn settle(&mut self) {
        let answered: UidSet = std::mem::take(&mut self.answered).into_iter().collect();
        self.unanswered = self.unanswered.difference(&answered);
    }
}

/// What the records list for one account.
#[derive(Debug, Default, Clone)]
pub struct Restored {
    /// By folder of the account and its UIDVALIDITY.
    into: HashMap<(String, u32), Vec<Restoration>>,
    account: Option<Source>,
    /// A line was added since a pull last applied the whole record.
    is_new: bool,
    /// The lengths of the record files, by path.
    lengths: BTreeMap<String, u64>,
    /// The file that keeps how far they were read.
    read: Option<PathBuf>,
    changed: Timestamp,
}

impl Restored {
    /// What the records of the backup in `directory`, its own and `others`, list as put into
    /// `account`. Only lines written since the last pull that applied them all make them new
    /// ([`Restored::is_new`]); with `all` the records are read even if nothing was added.
    ///
    /// # Errors
    /// If a record cannot be read. A missing record counts as empty.
    pub fn read(directory: &Path, others: &[RecordFile], account: &Source, all: bool) -> Result<Self> {
        let own = RecordFile { path: directory.join(RECORD_FILE), from: None };
        let read = directory.join(READ_FILE);
        let files: Vec<&RecordFile> = std::iter::once(&own).chain(others).collect();
        let mut restored =
            Restored { read: Some(read.clone()), account: Some(account.clone()), ..Restored::default() };
        for RecordFile { path, .. } in &files {
            match fs::metadata(path) {
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                metadata => {
                    let metadata = metadata.map_err(|e| io_error(path, e))?;
                    let changed = metadata.modified().ok().and_then(timestamp).unwrap_or_default();
                    restored.changed = restored.changed.max(changed);
                    restored.lengths.insert(path.display().to_string(), metadata.len());
                }
            }
        }
        // A file that cannot be parsed counts as empty.
        let before: BTreeMap<String, u64> =
            fs::read(&read).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        restored.is_new = restored.lengths.iter().any(|(path, length)| before.get(path) != Some(length));
        if restored.is_new || all {
            for file in files {
                restored.read_file(file, account)?;
            }
        }
        restored.into.values_mut().flatten().for_each(Restoration::settle);
        restored.is_new &= !restored.into.is_empty();
        Ok(restored)
    }

    fn read_file(&mut self, RecordFile { path, from }: &RecordFile, account: &Source) -> Result<()> {
        let file = match File::open(path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            file => file.map_err(|e| io_error(path, e))?,
        };
        let (mut lines, mut ours) = (Lines::of(file), false);
        while let Some(line) = lines.next().map_err(|e| io_error(path, e))? {
            match line {
                Line::Accounts { from: of, to } => {
                    ours = from.as_ref().is_none_or(|from| *from == of) && is_account(&to, account);
                }
                line if ours => self.take(line),
                _ => {}
            }
        }
        Ok(())
    }

    fn take(&mut self, line: Line) {
        match line {
            Line::Message { folder, from_uidvalidity, uid, to, uidvalidity, there } => {
                // In one mailbox UIDs only grow (RFC 3501 §2.3.1.1).
                if (folder != to || from_uidvalidity != uidvalidity || there > uid) && there > 0 {
                    self.restoration(to, uidvalidity, folder, from_uidvalidity).put(uid, there);
                }
            }
            Line::Putting { folder, from_uidvalidity, putting, to, uidvalidity, below, .. } => {
                let restoration = self.restoration(to, uidvalidity, folder, from_uidvalidity);
                restoration.below = Some(below);
                restoration.settle();
                restoration.unanswered = restoration.unanswered.union(&uid_set(&putting));
            }
            Line::State { .. } | Line::Accounts { .. } => {}
        }
    }

    fn restoration(&mut self, to: String, there: u32, folder: String, uidvalidity: u32) -> &mut Restoration {
        let restorations = self.into.entry((to, there)).or_default();
        let at = restorations
            .iter()
            .position(|restoration| restoration.folder == folder && restoration.uidvalidity == uidvalidity);
        let at = at.unwrap_or_else(|| {
            restorations.push(Restoration { folder, uidvalidity, ..Restoration::default() });
            restorations.len() - 1
        });
        &mut restorations[at]
    }

    /// Whether it is about this account.
    pub fn is_of(&self, account: &Source) -> bool {
        self.account.as_ref() == Some(account)
    }

    /// Whether something was put into the folder since the last pull.
    pub fn is_new_in(&self, folder: &str) -> bool {
        self.is_new && self.into.keys().any(|(to, _)| to == folder)
    }

    /// Whether something was put into any folder since the last pull.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// The folders of the account into which something was put.
    pub fn folders(&self) -> HashSet<&str> {
        self.into.keys().map(|(to, _)| &**to).collect()
    }

    /// What was put into a folder of this name and UIDVALIDITY.
    pub fn restorations(&self, folder: &str, uidvalidity: u32) -> &[Restoration] {
        self.into.get(&(folder.to_owned(), uidvalidity)).map_or(&[], |restorations| &restorations[..])
    }

    /// What was put into folders with this UIDVALIDITY that have another name than `folder` and
    /// that the server no longer lists: they may have been renamed since.
    pub fn restorations_of_renamed<'a>(
        &'a self,
        folder: &'a str,
        uidvalidity: u32,
        listed: &'a HashSet<String>,
    ) -> impl Iterator<Item = &'a Restoration> {
        let may_be_it =
            move |(to, there): &(String, u32)| *there == uidvalidity && to != folder && !listed.contains(to);
        self.into.iter().filter(move |(to, _)| may_be_it(to)).flat_map(|(_, restorations)| restorations)
    }

    /// What was put back into its original folder.
    pub fn back(&self, folder: &str, uidvalidity: u32) -> Option<&Restoration> {
        let is_back = |restoration: &&Restoration| {
            restoration.folder == folder && restoration.uidvalidity == uidvalidity
        };
        self.restorations(folder, uidvalidity).iter().find(is_back)
    }

    /// Groups of these messages that are one message, put back under several UIDs.
    pub fn twins(&self, folder: &str, uidvalidity: u32, among: &UidSet) -> Vec<BTreeSet<u32>> {
        let Some(restoration) = self.back(folder, uidvalidity) else { return Vec::new() };
        let mut first: HashMap<u32, u32> = HashMap::new();
        // In the order of the appends, so that earlier UIDs are known first.
        let mut pairs = restoration.pairs.clone();
        pairs.sort_unstable_by_key(|(_, there)| *there);
        for (uid, there) in &pairs {
            let origin = *first.get(uid).unwrap_or(uid);
            first.insert(*there, origin);
        }
        let mut twins: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        let is_there = |uid: u32| Uid::new(uid).is_some_and(|uid| among.contains(uid));
        for (uid, origin) in first.iter().filter(|(uid, _)| is_there(**uid)) {
            twins.entry(*origin).or_default().insert(*uid);
        }
        for (origin, twins) in &mut twins {
            twins.extend(Some(*origin).filter(|origin| is_there(*origin)));
        }
        twins.into_values().filter(|twins| twins.len() > 1).collect()
    }

    /// A pull at `now` applied the whole record: the next one need not read it, unless a server may
    /// still process appends that a run did not see answered.
    ///
    /// # Errors
    /// If that cannot be recorded.
    pub fn done(&self, now: Timestamp) -> Result<()> {
        let open = self.into.values().flatten().any(|restoration| !restoration.unanswered.is_empty());
        let (Some(read), false) = (&self.read, open && now.since(self.changed) < IN_FLIGHT) else {
            return Ok(());
        };
        let text = serde_json::to_string(&self.lengths).unwrap_or_default();
        replace(read, read.with_extension("read.new"), |out| {
            writeln!(out, "{text}").map_err(|e| io_error(read, e))
        })
    }
}

fn timestamp(time: std::time::SystemTime) -> Option<Timestamp> {
    let since = time.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(Timestamp(i64::try_from(since.as_millis()).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = r#"{"from":"this copy","to":"Me at Mail.example.org port 993"}"#;

    fn account() -> Source {
        Source { host: "mail.example.org".into(), user: "Me".into() }
    }

    fn put(folder: &str, uid: u32, to: &str, there: u32) -> String {
        format!(
            r#"{{"folder":"{folder}","from_uidvalidity":7,"uid":{uid},"to":"{to}","uidvalidity":7,"there":{there}}}"#
        )
    }

    fn putting(putting: &str) -> String {
        format!(
            r#"{{"folder":"INBOX","from_uidvalidity":7,"putting":"{putting}","to":"INBOX","uidvalidity":7,"uidnext":9,"below":false}}"#
        )
    }

    fn read(lines: &[String]) -> (tempfile::TempDir, Restored) {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(RECORD_FILE), lines.join("\n") + "\n").unwrap();
        let restored = Restored::read(directory.path(), &[], &account(), false).unwrap();
        (directory, restored)
    }

    fn all() -> UidSet {
        uid_set("1:100")
    }

    #[test]
    fn only_restores_into_this_account_count() {
        let other = HEAD.replace("Me at", "You at");
        let lines =
            [put("INBOX", 1, "INBOX", 2), other, put("INBOX", 3, "INBOX", 4), HEAD.into(), "{\"fol".into()];
        let (_directory, restored) = read(&lines);
        assert!(!restored.is_new() && restored.restorations("INBOX", 7).is_empty());
        let lines = [lines.as_slice(), &[put("INBOX", 5, "INBOX", 6), put("a.b", 5, "a_b", 1)]].concat();
        let (_directory, restored) = read(&lines);
        assert!(restored.is_new_in("INBOX") && restored.is_new_in("a_b") && !restored.is_new_in("a.b"));
        assert_eq!(restored.back("INBOX", 7).unwrap().pairs(), [(5, 6)]);
        assert!(restored.back("a_b", 7).is_none() && restored.restorations("INBOX", 8).is_empty());
        assert_eq!(restored.restorations("a_b", 7)[0].folder, "a.b");
    }

    #[test]
    fn a_message_is_one_however_often_it_was_put_back() {
        let puts = [(1, 6), (2, 7), (1, 11), (6, 16), (7, 3), (30, 31)];
        let mut lines = vec![HEAD.to_owned()];
        lines.extend(puts.map(|(uid, there)| put("INBOX", uid, "INBOX", there)));
        let (_directory, restored) = read(&lines);
        let twins = |among: &str| restored.twins("INBOX", 7, &uid_set(among));
        assert_eq!(twins("1:100"), [[1, 6, 11, 16].into(), [2, 7].into(), [30, 31].into()]);
        // UIDs grow: 7 did not become 3.
        assert_eq!(twins("3,7,11,16"), [[11, 16].into()]);
        assert!(restored.twins("INBOX", 8, &all()).is_empty() && restored.twins("a", 7, &all()).is_empty());
        assert_eq!(restored.back("INBOX", 7).unwrap().latest()[&1], 11);
    }

    #[test]
    fn unacknowledged_messages_are_expected_for_a_while() {
        let lines = [HEAD.into(), putting("1:3,9"), put("INBOX", 2, "INBOX", 9)];
        let (directory, restored) = read(&lines);
        assert_eq!(restored.back("INBOX", 7).unwrap().unanswered().to_string(), "1,3,9");
        let is_new = || Restored::read(directory.path(), &[], &account(), false).unwrap().is_new();
        let soon = restored.changed.after(Duration::from_secs(60));
        restored.done(soon).unwrap();
        assert!(is_new());
        restored.done(soon.after(IN_FLIGHT)).unwrap();
        assert!(!is_new());
        // Unless it is asked for.
        let again = Restored::read(directory.path(), &[], &account(), true).unwrap();
        assert!(again.back("INBOX", 7).is_some() && !again.is_new());
        let path = directory.path().join(RECORD_FILE);
        let mut text = fs::read_to_string(&path).unwrap();
        text.push_str(&(put("INBOX", 3, "INBOX", 10) + "\n"));
        fs::write(&path, text).unwrap();
        assert!(is_new());
    }

    #[test]
    fn records_kept_elsewhere_count_if_they_are_of_this_copy() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("work.copy-work.uids");
        let head = |from: &str| HEAD.replace("this copy", from);
        let lines = [head("work"), put("INBOX", 1, "INBOX", 2), head("other"), put("INBOX", 1, "INBOX", 3)];
        fs::write(&path, lines.join("\n")).unwrap();
        let others = [RecordFile { path, from: Some("work".into()) }];
        let restored = Restored::read(directory.path(), &others, &account(), false).unwrap();
        assert_eq!(restored.back("INBOX", 7).unwrap().pairs(), [(1, 2)]);
    }
}
