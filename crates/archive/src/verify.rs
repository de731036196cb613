//! Comparing a copy with its server: counts, UIDs, sizes, and the octets of some messages or all.
//!
//! First the copy against itself: each message is read, and its hash compared with the one it was stored under. Then the
//! copy against the server: a message that the server has and the copy has not is missing; one of another size is told,
//! not counted as wrong, since servers are known to say wrong sizes; one of other octets is wrong. Octets are compared by
//! their SHA-256, whatever the format is. Folders that only the copy has are compared with themselves.
//!
//! A lost connection is made again, and what was compared is not compared again.
//!
//! [`repair()`] fetches again what is missing, different or damaged, and compares once more.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::Read;
use std::sync::Arc;

use ring::digest::{Context, SHA256};
use sealpost_base::{Error, Kind, Random, Result, Uid, UidSet};

use crate::client::{Backoff, Connection, Found, Server, commands, is_later};
use crate::keep::digest::finish;
use crate::keep::{Copy, FolderName, Kept, ownership};
use crate::pull::gmail;
use crate::restored::Restored;

mod asked;
mod repair;
#[cfg(test)]
mod tests;

pub use repair::repair;

use asked::{hashes, sizes_of};

/// What to compare.
#[derive(Clone)]
pub struct Options {
    /// Messages of each folder that are fetched and compared octet by octet.
    pub sample: Sample,
    /// Which folders, by their names.
    pub wanted: Arc<dyn Fn(&str) -> bool + Send + Sync>,
    /// What restores put back into the account.
    pub restored: Arc<Restored>,
    /// Told the folder of each message that was read in the copy, or compared with the server's.
    pub looked: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Options {
    /// Everything, octet by octet, and nobody is told how it goes.
    pub fn all() -> Self {
        let (wanted, looked) = (Arc::new(|_: &str| true), Arc::new(|_: &str| ()));
        Options { sample: Sample::All, wanted, restored: Arc::default(), looked }
    }
}

/// How many messages are fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sample {
    /// So many of each folder, at random.
    Some(u32),
    /// Every one.
    All,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Report {
    /// By folder.
    pub folders: Vec<FolderReport>,
}

/// What was found in one folder.
#[derive(Debug, Default, Clone)]
pub struct FolderReport {
    /// Its name.
    pub name: String,
    /// Messages in the copy.
    pub kept: u64,
    /// Messages at the server.
    pub messages: u64,
    /// UIDs that the server has and of which the copy has nothing.
    pub missing: UidSet,
    /// Messages of the copy that the server no longer has.
    pub gone: u64,
    /// UIDs of those of them whose octets the server has under another UID.
    pub doubled: UidSet,
    /// UIDs for which the server reports another size than the copy has.
    pub sizes: UidSet,
    /// Messages whose octets were compared with the server's.
    pub compared: u64,
    /// UIDs whose octets are not the server's.
    pub different: UidSet,
    /// Messages of the copy whose bodies were given up: what is known of them is compared.
    pub given_up: u64,
    /// UIDs of those of them that the server has no more: these bodies are nowhere.
    pub lost: UidSet,
    /// What is damaged in the copy itself.
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
    /// Whether the copy has what the server has.
    pub fn is_good(&self) -> bool {
        self.missing.is_empty()
            && self.different.is_empty()
            && self.lost.is_empty()
            && self.damaged.is_empty()
            && self.error.is_none()
    }
}

/// A folder that was compared.
struct Compared {
    report: FolderReport,
    /// What both sides have.
    common: UidSet,
    /// Those whose octets were compared.
    done: UidSet,
}

/// What the copy has of a folder.
#[derive(Default)]
struct Local {
    /// Size and hash by UID.
    messages: HashMap<u32, (u64, [u8; 32])>,
    uids: UidSet,
    /// Those of them whose bodies are not here.
    given_up: UidSet,
    damaged: Vec<String>,
    damaged_uids: UidSet,
}

impl Local {
    /// Those of these messages that have the octets of one of the others.
    fn alike(&self, these: &UidSet, others: &UidSet) -> UidSet {
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

/// Damages that are told one by one.
const DAMAGES_TOLD: usize = 1000;

/// How often a message may be what a connection ended with.
const ATTEMPTS: u32 = 3;

/// Compares `copy` with `server`.
///
/// # Errors
/// What keeps it from beginning, or from going on. What is wrong in single folders is in the report.
pub async fn verify(
    server: &Server,
    copy: Arc<dyn Copy>,
    options: &Options,
    random: &dyn Random,
) -> Result<Report> {
    let folders = compare(server, copy, options, random, None).await?;
    Ok(Report { folders: folders.into_iter().map(|compared| compared.report).collect() })
}

/// As [`verify`]; with which messages were compared. `only`: these messages are compared, of these folders.
async fn compare(
    server: &Server,
    copy: Arc<dyn Copy>,
    options: &Options,
    random: &dyn Random,
    only: Option<&HashMap<String, UidSet>>,
) -> Result<Vec<Compared>> {
    let backoff = Backoff::new(server.patience.retry);
    let mut there = There { server, connection: None, backoff, random };
    let (folders, all) = loop {
        match there.folders(options).await {
            Err(e) if e.kind() == Kind::Retry => there.lost(e).await?,
            folders => break folders?,
        }
    };
    let (kept, aside) = {
        let (copy, source) = (copy.clone(), server.source());
        blocking(move || {
            ownership::claim(&*copy, &source, false, true)?;
            Ok((copy.folders()?, copy.put_aside()?))
        })
        .await?
    };
    let mut reports = Vec::new();
    let wanted = |found: &&Found| only.is_none_or(|only| only.contains_key(found.name.as_str()));
    for found in folders.iter().filter(|found| found.selectable).filter(wanted) {
        let kept = kept.iter().find(|kept| kept.name == found.name);
        let mut folder = Comparing {
            copy: &copy,
            found,
            kept,
            options,
            local: None,
            lost: HashMap::new(),
            done: UidSet::new(),
            chosen: only.and_then(|only| only.get(found.name.as_str()).cloned()),
            common: UidSet::new(),
        };
        let mut said = FolderReport { name: found.name.to_string(), ..FolderReport::default() };
        loop {
            let before = folder.done.len();
            let compared = match there.connection().await {
                Ok(connection) => folder.compare(connection, random, &mut said).await,
                Err(e) if e.kind() != Kind::Retry => return Err(e),
                Err(e) => Err(e),
            };
            if folder.done.len() > before {
                there.backoff.progress();
            }
            match compared {
                Ok(()) => break,
                Err(e) if e.kind() == Kind::Retry => {
                    folder.lost(&e);
                    there.lost(e).await?;
                }
                Err(e) => {
                    said.error = Some(e.to_string());
                    break;
                }
            }
        }
        reports.push(Compared { report: said, common: folder.common, done: folder.done });
    }
    there.logout().await;
    let is_found = |kept: &&Kept| folders.iter().any(|found| found.selectable && found.name == kept.name);
    let alone = kept.iter().filter(|kept| !is_found(kept)).chain(&aside);
    for kept in alone.filter(|kept| only.is_none() && (options.wanted)(kept.name.as_str())) {
        let report = compare_alone(&copy, kept, all.contains(&kept.name), options).await;
        reports.push(Compared { report, common: UidSet::new(), done: UidSet::new() });
    }
    Ok(reports)
}

/// Compares with itself a folder that is not compared with the server: which may have it all the same.
async fn compare_alone(copy: &Arc<dyn Copy>, kept: &Kept, is_there: bool, options: &Options) -> FolderReport {
    let mut report = FolderReport { name: kept.name.to_string(), ..FolderReport::default() };
    let (copy, name, looked) = (copy.clone(), kept.name.clone(), options.looked.clone());
    match blocking(move || read(&*copy, &name, &*looked)).await {
        Ok(local) => {
            report.kept = local.messages.len() as u64;
            report.given_up = local.given_up.len() as u64;
            if kept.was.is_some() || !is_there {
                report.gone = report.kept;
                report.beyond_repair.clone_from(&local.damaged_uids);
            }
            // Of what was put aside, the server may have all under other UIDs.
            if kept.was.is_none() && !is_there {
                report.lost = local.given_up;
            }
            (report.damaged, report.damaged_uids) = (local.damaged, local.damaged_uids);
        }
        Err(e) => report.error = Some(e.to_string()),
    }
    report
}

/// The server, and a connection that is made again when it is lost.
struct There<'a> {
    server: &'a Server,
    connection: Option<Connection>,
    backoff: Backoff,
    random: &'a dyn Random,
}

impl There<'_> {
    async fn connection(&mut self) -> Result<&mut Connection> {
        if self.connection.is_none() {
            self.connection = Some(Connection::open(self.server).await?);
        }
        self.connection.as_mut().ok_or_else(|| Error::internal("there is no connection"))
    }

    /// The folders that a pull would keep, and the names of all.
    async fn folders(&mut self, options: &Options) -> Result<(Vec<Found>, HashSet<FolderName>)> {
        let connection = self.connection().await?;
        let listing = connection.listing().await?;
        let all =
            listing.folders.iter().filter(|found| found.selectable).map(|found| found.name.clone()).collect();
        let wanted = |found: &Found| (options.wanted)(found.name.as_str());
        Ok((gmail::once(connection.capabilities(), listing.folders, &wanted), all))
    }

    /// Waits before the next attempt; the error if there is none.
    async fn lost(&mut self, error: Error) -> Result<()> {
        self.connection = None;
        let Some(wait) = self.backoff.next(&error, self.random) else { return Err(error) };
        tokio::time::sleep(wait).await;
        Ok(())
    }

    async fn logout(self) {
        if let Some(connection) = self.connection {
            connection.logout().await;
        }
    }
}

/// A folder that is being compared, over as many connections as it takes.
struct Comparing<'a> {
    copy: &'a Arc<dyn Copy>,
    found: &'a Found,
    kept: Option<&'a Kept>,
    options: &'a Options,
    local: Option<Local>,
    /// The messages to compare octet by octet, those that were, and how often a connection ended with one.
    chosen: Option<UidSet>,
    done: UidSet,
    /// What both sides have.
    common: UidSet,
    lost: HashMap<Uid, u32>,
}

impl Comparing<'_> {
    /// A connection ended: the first message that did not come is to blame.
    fn lost(&mut self, error: &Error) {
        let Some(chosen) = &self.chosen else { return };
        if let Some(first) = chosen.difference(&self.done).first().filter(|_| !is_later(&error.to_string())) {
            *self.lost.entry(first).or_default() += 1;
        }
    }

    async fn compare(
        &mut self,
        connection: &mut Connection,
        random: &dyn Random,
        report: &mut FolderReport,
    ) -> Result<()> {
        let selected = connection.examine(&self.found.wire).await?;
        report.messages = u64::from(selected.messages);
        if let Some(kept) = self.kept.filter(|kept| kept.identity.uidvalidity != selected.uidvalidity) {
            let why = format!(
                "the server's UIDVALIDITY is {}, not {}: pull first",
                selected.uidvalidity, kept.identity.uidvalidity
            );
            return Err(Error::conflict(why));
        }
        if self.local.is_none() {
            let local = match self.kept {
                Some(kept) => {
                    let (copy, name, looked) =
                        (self.copy.clone(), kept.name.clone(), self.options.looked.clone());
                    // Another connection does not make the copy better.
                    blocking(move || read(&*copy, &name, &*looked)).await.map_err(|e| match e.kind() {
                        Kind::Retry => Error::internal(e.to_string()).with_source(e),
                        _ => e,
                    })?
                }
                None => Local::default(),
            };
            report.damaged.clone_from(&local.damaged);
            report.damaged_uids.clone_from(&local.damaged_uids);
            self.local = Some(local);
        }
        let Some(local) = &self.local else { return Ok(()) };
        report.kept = local.messages.len() as u64;
        let mut there = UidSet::new();
        let mut sizes = UidSet::new();
        let mut on = |uid: u32, size: u64| {
            let Some(id) = Uid::new(uid) else { return };
            there.insert(id);
            if local.messages.get(&uid).is_some_and(|(kept, _)| *kept != size) {
                sizes.insert(id);
            }
        };
        if selected.messages > 0 {
            sizes_of(connection, &mut on).await?;
        }
        if there.len() < selected.messages as usize {
            let (listed, all) = (there.len(), selected.messages);
            return Err(Error::invalid(format!("the server lists {listed} of {all} messages of the folder")));
        }
        report.missing = there.difference(&local.uids).difference(&local.damaged_uids);
        report.given_up = local.given_up.len() as u64;
        report.lost = local.given_up.difference(&there);
        report.reparable = local.damaged_uids.intersection(&there);
        report.beyond_repair = local.damaged_uids.difference(&there);
        let gone = local.uids.difference(&there);
        report.gone = gone.len() as u64;
        report.doubled = local.alike(&gone, &there);
        report.sizes = sizes;
        self.common = local.uids.intersection(&there);
        let common = &self.common;
        let chosen = self.chosen.get_or_insert_with(|| choose(common, self.options.sample, random));
        let given_up: UidSet =
            self.lost.iter().filter(|(_, times)| **times >= ATTEMPTS).map(|(uid, _)| *uid).collect();
        // What went meanwhile cannot be compared.
        let left = chosen.intersection(common).difference(&self.done).difference(&given_up);
        let done = &mut self.done;
        for part in commands(&left) {
            hashes(connection, &part, |uid, hash| {
                if let (Some(id), Some((_, kept))) = (Uid::new(uid), local.messages.get(&uid))
                    && !done.contains(id)
                {
                    done.insert(id);
                    (self.options.looked)(&report.name);
                    if *kept != hash {
                        report.different.insert(id);
                    }
                    report.compared = done.len() as u64;
                }
            })
            .await?;
        }
        let unsent = chosen.intersection(common).difference(done);
        match unsent.is_empty() {
            true => Ok(()),
            false => {
                let some: String = unsent.to_string().chars().take(200).collect();
                Err(Error::invalid(format!("the server did not send UID {some}")))
            }
        }
    }
}

/// All messages of a folder of the copy, read and hashed.
fn read(copy: &dyn Copy, name: &FolderName, looked: &dyn Fn(&str)) -> Result<Local> {
    let folder = copy.look(name)?;
    let mut local = Local::default();
    let (mut uids, mut given_up, mut damaged) = (Vec::new(), Vec::new(), Vec::new());
    let mut damage = |uid: Option<u32>, text: String| {
        damaged.extend(uid.and_then(Uid::new));
        if local.damaged.len() < DAMAGES_TOLD {
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
        match folder.given_up(uid) {
            Ok(Some(sha256)) => {
                local.messages.insert(uid, (stored.size, sha256));
                uids.extend(Uid::new(uid));
                given_up.extend(Uid::new(uid));
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
    local.given_up = given_up.into_iter().collect();
    local.damaged_uids = damaged.into_iter().collect();
    Ok(local)
}

fn choose(uids: &UidSet, sample: Sample, random: &dyn Random) -> UidSet {
    let count = uids.len();
    match sample {
        Sample::All => uids.clone(),
        Sample::Some(n) if n as usize >= count => uids.clone(),
        Sample::Some(n) => {
            // Floyd: each set of n places is as likely as any other, and n draws make n places.
            let mut places = BTreeSet::new();
            for last in count - n as usize..count {
                let place = (random.next_u64() % (last as u64 + 1)) as usize;
                if !places.insert(place) {
                    places.insert(last);
                }
            }
            places.into_iter().filter_map(|place| uids.nth(place)).collect()
        }
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|e| Error::internal("a task did not finish").with_source(e))?
}
