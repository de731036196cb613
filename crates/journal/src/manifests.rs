//! The folder of manifests: the checkpoints of a log, marks of skipped positions, and attestations for older
//! keys.
//!
//! A listing gives names; an object counts only with a MAC of the installation ([`sealpost_vault::mark`]). An
//! object without one is noise: it is reported, and every user of this folder ignores it. Most names carry a
//! tag under `server.key`, so their objects need not be read. For a checkpoint, a *witness* has such a name.
//! Only noise and objects of older versions are read, at most a few, and once as long as a log is in use,
//! since objects never change. Only a trim, which removes data permanently, reads again.

use std::collections::BTreeSet;

use bytes::Bytes;
use futures::TryStreamExt;
use futures::future::{BoxFuture, FutureExt, try_join_all};
use sealpost_base::{Error, Kind, Position, Result, limits};
use sealpost_vault::mark::NameVerdict;
use sealpost_vault::{AppendMode, Hash, Store, mark};

use crate::Journal;
use crate::ballot::position_in;
use crate::noise::Judge;

/// The prefix of the names of marks of skipped positions; they sort after those of all checkpoints.
const PASSED_OVER: char = 's';
/// The prefix of the names of attestations; they sort after those of all checkpoints too.
const ATTESTATION: char = 'k';
/// The prefix of the names of witnesses; they sort after those of all checkpoints too.
const WITNESS: char = 'm';
/// Objects read at once.
pub(crate) const READ_AHEAD: usize = 16;
/// Objects that one attestation lists: as many hashes as a manifest may hold.
const ATTESTED_TOGETHER: usize = (limits::MANIFEST_BYTES - limits::SEALING_BYTES) / size_of::<Hash>();
/// How often a listing is repeated because a listed object is missing: newer checkpoints exist then.
const LISTINGS: u32 = 6;

/// The name of an object in the folder of manifests, ballots excluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Name {
    /// A checkpoint's manifest.
    Checkpoint(Position),
    /// A mark of a skipped position. The number is a [tag](mark::number), so that no attacker can occupy the
    /// name; older versions chose it at random.
    PassedOver(Position, u64),
    /// An attestation for objects under older keys, with such a number.
    Attestation(u64),
    /// A witness: its name shows that the checkpoint at that position is authentic.
    Witness(Position, u64),
}

impl Name {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        if let Some(position) = position_in(name) {
            return Some(Name::Checkpoint(position));
        }
        if let Some(number) = name.strip_prefix(ATTESTATION) {
            return Some(Name::Attestation(position_in(number)?.0));
        }
        if let Some(numbered) = name.strip_prefix(WITNESS) {
            let (position, number) = numbered.split_once('-')?;
            return Some(Name::Witness(position_in(position)?, position_in(number)?.0));
        }
        let (position, number) = name.strip_prefix(PASSED_OVER)?.split_once('-')?;
        Some(Name::PassedOver(position_in(position)?, position_in(number)?.0))
    }

    pub(crate) fn file_name(self) -> String {
        match self {
            Name::Checkpoint(position) => format!("{:016x}", position.0),
            Name::PassedOver(position, number) => format!("{PASSED_OVER}{:016x}-{number:016x}", position.0),
            Name::Attestation(number) => format!("{ATTESTATION}{number:016x}"),
            Name::Witness(position, number) => format!("{WITNESS}{:016x}-{number:016x}", position.0),
        }
    }

    pub(crate) fn position(self) -> Position {
        match self {
            Name::Checkpoint(position) | Name::PassedOver(position, _) | Name::Witness(position, _) => {
                position
            }
            Name::Attestation(_) => Position::ZERO,
        }
    }

    pub(crate) fn kind(self) -> mark::Kind {
        match self {
            Name::Checkpoint(_) => mark::Kind::Checkpoint,
            Name::PassedOver(..) => mark::Kind::PassedOver,
            Name::Attestation(_) => mark::Kind::Attestation,
            Name::Witness(..) => mark::Kind::Witness,
        }
    }

    fn number(self) -> Option<u64> {
        match self {
            Name::Checkpoint(_) => None,
            Name::PassedOver(_, number) | Name::Attestation(number) | Name::Witness(_, number) => {
                Some(number)
            }
        }
    }
}

/// Whether an object in the folder of manifests with this name is neither a checkpoint nor a ballot.
pub fn is_mark(name: &str) -> bool {
    matches!(Name::parse(name), Some(Name::PassedOver(..) | Name::Attestation(_) | Name::Witness(..)))
}

/// Positions in the folder of manifests.
#[derive(Debug, Default)]
pub(crate) struct Marked {
    /// Positions with checkpoints, newest first.
    pub checkpoints: Vec<Position>,
    /// Skipped positions: entries written there do not count.
    pub passed_over: Vec<Position>,
    /// Positions whose checkpoint path holds an object that is no checkpoint.
    pub noise: Vec<Position>,
}

impl Marked {
    /// Whether enough checkpoints are above `position` that its entry may have been removed.
    pub(crate) fn is_trimmed(&self, position: Position) -> bool {
        above(&self.checkpoints, position) >= 2
    }

    /// Whether that holds only if noise objects were once manifests of checkpoints.
    pub(crate) fn may_be_trimmed(&self, position: Position) -> bool {
        let checkpoints = above(&self.checkpoints, position);
        checkpoints < 2 && checkpoints + above(&self.noise, position) >= 2
    }
}

fn above(positions: &[Position], position: Position) -> usize {
    positions.iter().filter(|at| **at > position).count()
}

/// The result of reading a mark.
pub(crate) enum MarkRead {
    /// The object matches its name.
    Authentic(Bytes),
    /// It does not; the reason, for the operator.
    Noise(String),
    /// An attestation from an earlier retirement of keys.
    Superseded,
    /// The object does not exist.
    Gone,
}

/// The objects with these names that count. `None` if one of them has been removed, unless it is `withheld`:
/// an object that the store lists and does not return is noise. Skipped positions matter only as far behind
/// `known` as the next entry may be. Names decide most of this. Of the other objects, as many are read as
/// earlier versions may have left; the rest is noise.
pub(crate) async fn judged(
    judge: &Judge,
    names: &[Name],
    known: Position,
    withheld: bool,
) -> Result<Option<Marked>> {
    let last = Position(known.0.saturating_add(limits::LOG_GAP + 1));
    let is_of_interest = |name: &Name| match name {
        Name::PassedOver(position, _) => *position > known && *position <= last,
        Name::Checkpoint(_) | Name::Attestation(_) | Name::Witness(..) => true,
    };
    let names: Vec<Name> = names.iter().copied().filter(is_of_interest).collect();
    let (likely, others) = judge.likely(&names);
    let mut marked = Marked::default();
    for name in likely {
        match name {
            Name::Checkpoint(position) => marked.checkpoints.push(position),
            Name::PassedOver(position, _) => marked.passed_over.push(position),
            Name::Attestation(_) | Name::Witness(..) => {}
        }
    }
    let (mut checkpoints, mut passed_over): (Vec<_>, Vec<_>) =
        others.into_iter().partition(|name| matches!(name, Name::Checkpoint(_)));
    for unread in [&mut checkpoints, &mut passed_over] {
        let beyond = unread.split_off(unread.len().min(limits::LOG_NOISE));
        judge.note_unread(beyond.len());
        let manifests = beyond.iter().filter(|name| matches!(name, Name::Checkpoint(_)));
        marked.noise.extend(manifests.map(|name| name.position()));
    }
    let unread = [checkpoints, passed_over].concat();
    let attempts = judge.attempts(unread.len());
    for some in unread.chunks(READ_AHEAD) {
        let found = try_join_all(some.iter().map(|name| judge.is_mark(*name, attempts))).await?;
        for (name, is_mark) in some.iter().zip(found) {
            match (name, is_mark) {
                (Name::Checkpoint(position), None) if withheld => marked.noise.push(*position),
                (_, None) if withheld => {}
                (_, None) => return Ok(None),
                (Name::Checkpoint(position), Some(true)) => marked.checkpoints.push(*position),
                (Name::Checkpoint(position), Some(false)) => marked.noise.push(*position),
                (Name::PassedOver(position, _), Some(true)) => marked.passed_over.push(*position),
                (Name::PassedOver(..) | Name::Attestation(_) | Name::Witness(..), Some(_)) => {}
            }
        }
    }
    marked.checkpoints.sort_unstable_by(|a, b| b.cmp(a));
    Ok(Some(marked))
}

/// The error of a store that lists an object of this folder and does not return it.
pub(crate) fn not_given_out(folder: &str) -> Error {
    Error::retry(format!("an object in {folder} is listed but GET returns 404"))
}

/// The rounds of repeated listings.
pub(crate) fn listings() -> std::ops::Range<u32> {
    0..LISTINGS
}

/// Whether this is the last round. An object that the store still does not return is withheld.
pub(crate) fn is_last(round: u32) -> bool {
    round + 1 == LISTINGS
}

/// The names in a folder of manifests after `after`, without ballots.
pub(crate) async fn names(store: &Store, folder: &str, after: Option<&str>) -> Result<Vec<Name>> {
    let listed = store.list(folder, after);
    let name = |path: &str| path.rsplit('/').next().and_then(Name::parse);
    listed.try_filter_map(|object| std::future::ready(Ok(name(&object.path)))).try_collect().await
}

impl Journal {
    /// The positions in the folder: all, or those after one.
    pub(crate) async fn marked(&self, after: Option<Position>) -> Result<Marked> {
        let folder = self.manifest_prefix();
        let from = after.map(|position| self.manifest_path(position));
        for round in listings() {
            let names = names(&self.store, &folder, from.as_deref()).await?;
            let withheld = is_last(round) && self.store.serves_reads().await;
            if let Some(marked) = judged(&self.judge, &names, after.unwrap_or_default(), withheld).await? {
                return Ok(marked);
            }
            self.chain.wait(round).await;
        }
        Err(not_given_out(&folder))
    }

    /// Marks `position` as skipped, so that no entry written there counts; durable on return.
    pub(crate) async fn mark(&self, position: Position) -> Result<()> {
        let before = Position(position.0.saturating_sub(1));
        if self.marked(Some(before)).await?.passed_over.contains(&position) {
            return Ok(());
        }
        let name = Name::PassedOver(position, self.number(position, mark::Kind::PassedOver));
        let sealed = mark::passed_over(self.judge.key(), self.account, position);
        self.store.put_new(&self.judge.mark_path(name), sealed).await?;
        Ok(())
    }

    fn number(&self, position: Position, kind: mark::Kind) -> u64 {
        mark::number(self.judge.key(), self.account, position, kind, &*self.random)
    }

    /// Adds a witness for the checkpoint at `position`, whose manifest exists, so that a listing vouches for
    /// it.
    pub(crate) async fn witness(&self, position: Position) -> Result<()> {
        let name = Name::Witness(position, self.number(position, mark::Kind::Witness));
        let sealed = mark::witness(self.judge.key(), self.account, position);
        self.store.put_new(&self.judge.mark_path(name), sealed).await?;
        Ok(())
    }

    /// Gives objects of older versions, or under replaced keys, names that a listing can distinguish from
    /// noise. Checkpoints get witnesses, and an attestation a second name.
    pub(crate) async fn adopt(&self) -> Result<()> {
        let names = names(&self.store, &self.manifest_prefix(), None).await?;
        let is_authentic = |name: &Name| self.judge.name_of(*name) == NameVerdict::Authentic;
        let authentic: BTreeSet<Name> = names.iter().copied().filter(is_authentic).collect();
        let is_witnessed =
            |at: &Position| authentic.iter().any(|name| matches!(name, Name::Witness(of, _) if of == at));
        let lacks_one = |name: &Name| matches!(name, Name::Checkpoint(at) if !is_witnessed(at));
        if names.iter().any(lacks_one) {
            for position in self.newest_two().await?.iter().filter(|at| !is_witnessed(at)) {
                self.witness(*position).await?;
            }
        }
        let is_attestation = |name: &&Name| matches!(name, Name::Attestation(_));
        if authentic.iter().any(|name| is_attestation(&name)) {
            return Ok(());
        }
        for name in names.iter().filter(is_attestation).take(limits::LOG_GAP as usize) {
            if let MarkRead::Authentic(_) = self.judge.read_mark(*name).await? {
                let named = Name::Attestation(self.number(Position::ZERO, mark::Kind::Attestation));
                let (from, to) = (self.judge.mark_path(*name), self.judge.mark_path(named));
                self.store.put_again(&from, &to).await?;
            }
        }
        Ok(())
    }

    /// The paths of all marks of skipped positions before `end`, by any writer.
    pub(crate) async fn marks_below(&self, end: Position) -> Result<Vec<String>> {
        self.marked_below(PASSED_OVER, end).await
    }

    /// The paths of all witnesses of checkpoints before `end`, by any writer.
    pub(crate) async fn witnesses_below(&self, end: Position) -> Result<Vec<String>> {
        self.marked_below(WITNESS, end).await
    }

    async fn marked_below(&self, prefix: char, end: Position) -> Result<Vec<String>> {
        let after = format!("{}/{prefix}", self.manifest_prefix());
        let names = names(&self.store, &self.manifest_prefix(), Some(&after)).await?;
        let old =
            names.into_iter().filter(|name| name.position() < end && name.file_name().starts_with(prefix));
        Ok(old.map(|name| self.judge.mark_path(name)).collect())
    }

    /// Attests every object of the log under older keys, because those are about to be retired. From then on
    /// an attacker with one of these keys can add nothing. No process may write under them any more. Returns
    /// the number of objects.
    ///
    /// # Errors
    /// Store errors. The call can be repeated.
    pub async fn attest(&self) -> Result<usize> {
        self.look_again();
        let old = names(&self.store, &self.manifest_prefix(), None).await?;
        let mut objects = self.entries_under_older_keys().await?;
        let (likely, mut others) = self.judge.likely(&old);
        others.truncate(limits::LOG_NOISE);
        for some in [likely, others].concat().chunks(READ_AHEAD) {
            for found in try_join_all(some.iter().map(|name| self.judge.read_mark(*name))).await? {
                if let MarkRead::Authentic(object) = found
                    && !mark::is_current(self.judge.key(), &object)
                {
                    objects.push(Hash::of(&object));
                }
            }
        }
        for some in objects.chunks(ATTESTED_TOGETHER) {
            let name = Name::Attestation(self.number(Position::ZERO, mark::Kind::Attestation));
            let sealed = mark::attestation(self.judge.key(), self.account, some);
            self.store.put_new(&self.judge.mark_path(name), sealed).await?;
        }
        // The new attestations cover all of them.
        let old = old.into_iter().filter(|name| matches!(name, Name::Attestation(_)));
        self.store.delete_in_order(old.map(|name| self.judge.mark_path(name)).collect()).await?;
        // Witnesses under the old key no longer count.
        for position in self.newest_two().await? {
            self.witness(position).await?;
        }
        Ok(objects.len())
    }
}

impl Judge {
    pub(crate) fn mark_path(&self, name: Name) -> String {
        format!("{}/manifest/{}", self.folder(), name.file_name())
    }

    /// The verdict on the name alone.
    pub(crate) fn name_of(&self, name: Name) -> NameVerdict {
        let Some(number) = name.number() else { return NameVerdict::Unknown };
        mark::judge_name(self.key(), self.account(), name.position(), name.kind(), number)
    }

    /// Splits `names` into checkpoints and marks with a valid tag, and the others.
    fn likely(&self, names: &[Name]) -> (Vec<Name>, Vec<Name>) {
        let is_authentic = |name: &Name| self.name_of(*name) == NameVerdict::Authentic;
        let witnesses = names.iter().filter(|name| matches!(name, Name::Witness(..)) && is_authentic(name));
        let witnessed: BTreeSet<Position> = witnesses.map(|name| name.position()).collect();
        let said = names.iter().filter(|name| matches!(name, Name::Checkpoint(_) | Name::PassedOver(..)));
        said.copied().partition(|name| match name {
            Name::Checkpoint(position) => witnessed.contains(position),
            _ => is_authentic(name),
        })
    }

    /// How often to read each of this many objects before it counts as noise. No log has more objects without
    /// tags than are read at once. So with more, most are noise, and repeated reads of each would delay the
    /// first caller.
    fn attempts(&self, objects: usize) -> u32 {
        let is_local = self.store().directory().is_some();
        if is_local || objects > READ_AHEAD { 1 } else { super::read::READ_ATTEMPTS }
    }

    /// Whether the object with that name counts; `None` if it does not exist. Reads it once.
    async fn is_mark(&self, name: Name, attempts: u32) -> Result<Option<bool>> {
        if let Some(known) = self.known_mark(name) {
            return Ok(Some(known));
        }
        self.is_mark_as_read(name, attempts).await
    }

    /// As `is_mark`, with a new read.
    pub(crate) async fn is_mark_now(&self, name: Name) -> Result<Option<bool>> {
        self.is_mark_as_read(name, self.attempts(1)).await
    }

    async fn is_mark_as_read(&self, name: Name, attempts: u32) -> Result<Option<bool>> {
        Ok(match self.read_mark_often(name, attempts).boxed().await? {
            MarkRead::Authentic(_) => {
                self.knows(name);
                Some(true)
            }
            MarkRead::Noise(why) => {
                self.note_mark(name, &why);
                Some(false)
            }
            MarkRead::Superseded => Some(false),
            MarkRead::Gone => None,
        })
    }

    /// Reads the object with that name. Like an entry, one that does not count is read several times, over
    /// half a second.
    pub(crate) fn read_mark(&self, name: Name) -> BoxFuture<'_, Result<MarkRead>> {
        self.read_mark_often(name, self.attempts(1)).boxed()
    }

    async fn read_mark_often(&self, name: Name, attempts: u32) -> Result<MarkRead> {
        let path = self.mark_path(name);
        let store = self.store();
        let is_local = store.directory().is_some();
        // An object that was noise a minute ago hardly ever counts now.
        let attempts = if self.was_noise(name) { 1 } else { attempts };
        let mut found = MarkRead::Gone;
        for round in 0..=attempts {
            let read = if round == 0 { store.read(&path).await } else { store.read_confirmed(&path).await };
            found = match read {
                Ok(object) => match self.is_wrong(name, &object).await? {
                    None => return Ok(MarkRead::Authentic(object)),
                    Some(_) if self.is_superseded(name, &object) => return Ok(MarkRead::Superseded),
                    Some(why) => MarkRead::Noise(why),
                },
                Err(e) if e.kind() == Kind::NotFound && store.append_mode() == AppendMode::Conditional => {
                    return Ok(MarkRead::Gone);
                }
                Err(e) if e.kind() == Kind::NotFound => MarkRead::Gone,
                Err(e) if e.kind() == Kind::Corrupt => MarkRead::Noise(e.to_string()),
                Err(e) => return Err(e),
            };
            if round < attempts && !is_local {
                super::noise::pause(round).await;
            }
        }
        Ok(found)
    }

    fn is_superseded(&self, name: Name, object: &[u8]) -> bool {
        let judged = mark::judge(self.key(), self.account(), name.position(), name.kind(), object);
        matches!((name, judged), (Name::Attestation(_), mark::Verdict::Retired(_)))
    }

    /// Why an object does not match its name; `None` if it does.
    async fn is_wrong(&self, name: Name, object: &Bytes) -> Result<Option<String>> {
        Ok(match mark::judge(self.key(), self.account(), name.position(), name.kind(), object) {
            mark::Verdict::Authentic(_) => None,
            mark::Verdict::Noise(why) => Some(why),
            mark::Verdict::Retired(_) if matches!(name, Name::Attestation(_)) => {
                Some("it was written under a retired server key".to_owned())
            }
            mark::Verdict::Retired(_) => {
                let vouched = self.vouched().await?;
                (!vouched.names(object)).then(|| super::attested::NOT_VOUCHED_FOR.to_owned())
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_sort_behind_checkpoints() {
        let checkpoint = Name::Checkpoint(Position(u64::MAX));
        let witness = Name::Witness(Position(7), 1 << 63);
        for name in [checkpoint, Name::PassedOver(Position(7), 1 << 63), Name::Attestation(5), witness] {
            assert_eq!(Name::parse(&name.file_name()), Some(name));
            assert!(name.file_name() >= checkpoint.file_name());
            assert!(*name.file_name() < *"v");
        }
        for strange in ["", "s", "k", "s0000000000000001", "s0000000000000001-x", "0000000000000001-"] {
            assert_eq!(Name::parse(strange), None, "{strange}");
        }
    }
}
