//! Damage to a directory that no server has open: flipped bits, and foreign objects.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rusqlite::{Connection, params};
use sealpost_base::{Random, SeededRandom};

use super::super::ACCOUNTS;

const PAGE_BYTES: u64 = 8192;
/// The first bytes of a row.
const HEAD_BYTES: usize = 4096;
/// The size of the database header: without it nothing can be read, and a backup is needed.
const HEADER_BYTES: u64 = 100;

/// One damage.
pub struct Planted {
    /// Its kind, for counting.
    pub kind: &'static str,
    /// The path of the object, if it is one.
    path: Option<String>,
    how: String,
}

impl fmt::Display for Planted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.how)
    }
}

/// All objects of a store.
pub struct Objects {
    digests: BTreeMap<String, u64>,
    /// The id of each account, as it is in paths.
    ids: [String; ACCOUNTS.len()],
}

impl Objects {
    /// Those of the store in `dir`. Unreadable ones are left out.
    pub fn read(dir: &Path) -> Result<Self> {
        let database = open(dir)?;
        let mut select = database.prepare("SELECT path, size, file, head, rest FROM objects")?;
        let rows = select.query_map([], |row| {
            let blob = |at| Ok::<_, rusqlite::Error>(row.get::<_, Option<Vec<u8>>>(at)?.unwrap_or_default());
            let inline = [blob(3)?, blob(4)?].concat();
            Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?, row.get::<_, Option<String>>(2)?, inline))
        })?;
        let (mut digests, mut records) = (BTreeMap::new(), BTreeMap::new());
        for row in rows {
            let (path, size, file, inline) = row?;
            let Some(bytes) = file.map_or(Some(inline), |file| in_file(dir, &file, size)) else { continue };
            if let Some(name) = path.strip_prefix("accounts/").and_then(|path| path.split('/').next()) {
                records.insert(name.to_owned(), bytes.clone());
            }
            digests.insert(path, digest(&bytes));
        }
        let ids =
            ACCOUNTS.map(|name| records.get(name).and_then(|record| account_id(record)).unwrap_or_default());
        Ok(Objects { digests, ids })
    }

    /// How many messages of each account may be lost with objects that `after` lacks or has
    /// changed: those whose own bytes are in them. A log entry that no checkpoint includes may hold
    /// `batch` deliveries.
    pub fn lost_messages(&self, after: &Objects, batch: usize) -> [usize; ACCOUNTS.len()] {
        let mut lost = [0usize; ACCOUNTS.len()];
        for (account, id) in self.ids.iter().enumerate() {
            let is_same = |path: &&String| after.digests.get(*path) == self.digests.get(*path);
            // Each version of a record is stored twice.
            let mut versions = self.below(&format!("accounts/{}/", ACCOUNTS[account]));
            if !versions.any(|path| is_same(&path)) {
                lost[account] = usize::MAX;
                continue;
            }
            let log = format!("acct/{id}/log/");
            let checkpoints: Vec<u64> = self.positions(&format!("acct/{id}/manifest/")).collect();
            let is_sound = |position: &&u64| {
                let manifest = format!("acct/{id}/manifest/{position:016x}");
                let mut chunks = self.below(&format!("acct/{id}/snap/{position:016x}/"));
                is_same(&&manifest) && chunks.all(|path| is_same(&path))
            };
            let included = checkpoints.iter().filter(is_sound).max().copied();
            if included.is_none() && self.positions(&log).next() != Some(1) {
                // Trimmed messages were in checkpoints alone.
                lost[account] = usize::MAX;
                continue;
            }
            let later = self.positions(&log).filter(|position| Some(*position) > included);
            let entries = later.filter(|position| !is_same(&&format!("{log}{position:016x}"))).count();
            let bodies = self.below(&format!("acct/{id}/msg/")).filter(|path| !is_same(path)).count();
            lost[account] = entries * batch + bodies;
        }
        lost
    }

    /// The positions that have an object in a folder, ascending.
    fn positions<'a>(&'a self, below: &str) -> impl DoubleEndedIterator<Item = u64> + use<'a> {
        self.below(below).filter_map(|path| {
            let name = path.rsplit('/').next().filter(|name| name.len() == 16)?;
            u64::from_str_radix(name, 16).ok()
        })
    }

    fn below<'a>(&'a self, prefix: &str) -> impl DoubleEndedIterator<Item = &'a String> + use<'a> {
        let after = format!("{prefix}\u{10ffff}");
        self.digests.range(prefix.to_owned()..after).map(|(path, _)| path)
    }

    fn last_position(&self, below: &str) -> u64 {
        self.positions(below).next_back().unwrap_or(0)
    }
}

/// Does one random damage.
pub fn anything(dir: &Path, objects: &Objects, random: &SeededRandom) -> Result<Planted> {
    match random.below(15) {
        0..3 => flip_in_database(dir, random),
        3..5 => flip_in_a_file(dir, random),
        5..8 => plant(dir, objects, random, "log noise", |id, _| format!("acct/{id}/log/")),
        8..10 => plant(dir, objects, random, "manifest noise", |id, _| format!("acct/{id}/manifest/")),
        10 => plant(dir, objects, random, "copy of a record", |_, name| format!("accounts/{name}/")),
        11 => plant(dir, objects, random, "noise beside the server key", |_, _| "server/key/".to_owned()),
        12 | 13 => plant_marks(dir, objects, random),
        _ => plant_derived(dir, objects, random),
    }
}

fn flip_in_database(dir: &Path, random: &SeededRandom) -> Result<Planted> {
    let path = dir.join("objects.sqlite");
    let file = OpenOptions::new().read(true).write(true).open(&path)?;
    let bytes = file.metadata()?.len();
    let mut how = Vec::new();
    let indexes = index_pages(&file, bytes)?;
    for _ in 0..=random.below(8) {
        let at = match random.below(2) {
            0 if !indexes.is_empty() => {
                indexes[random.below(indexes.len() as u64) as usize] * PAGE_BYTES + random.below(PAGE_BYTES)
            }
            _ => HEADER_BYTES + random.below(bytes - HEADER_BYTES),
        };
        how.push(flip(&file, at.max(HEADER_BYTES), random)?);
    }
    Ok(Planted { kind: "bits in the database", path: None, how: how.join(", ") })
}

/// Pages of indexes, inner ones and leaves, by their number from 0.
fn index_pages(file: &File, bytes: u64) -> Result<Vec<u64>> {
    let mut pages = Vec::new();
    for page in 1..bytes / PAGE_BYTES {
        let mut kind = [0];
        file.read_exact_at(&mut kind, page * PAGE_BYTES)?;
        if matches!(kind[0], 2 | 10) {
            pages.push(page);
        }
    }
    Ok(pages)
}

fn flip_in_a_file(dir: &Path, random: &SeededRandom) -> Result<Planted> {
    let mut files = files_in(&dir.join("objects"))?;
    files.sort();
    let path = files.get(random.below(files.len().max(1) as u64) as usize).context("there are no files")?;
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let bytes = file.metadata()?.len();
    if bytes == 0 {
        return Ok(Planted { kind: "an empty file", path: None, how: path.display().to_string() });
    }
    let how = format!("{}: {}", path.display(), flip(&file, random.below(bytes), random)?);
    Ok(Planted { kind: "bits in a file", path: None, how })
}

fn flip(file: &File, at: u64, random: &SeededRandom) -> Result<String> {
    let (mut byte, bit) = ([0], random.below(8));
    file.read_exact_at(&mut byte, at)?;
    file.write_all_at(&[byte[0] ^ (1 << bit)], at)?;
    Ok(format!("byte {at} bit {bit}"))
}

/// Plants an object at a number after the last one of a folder.
fn plant(
    dir: &Path,
    objects: &Objects,
    random: &SeededRandom,
    kind: &'static str,
    folder: impl Fn(&str, &str) -> String,
) -> Result<Planted> {
    let account = random.below(ACCOUNTS.len() as u64) as usize;
    let below = folder(&objects.ids[account], ACCOUNTS[account]);
    let ahead = match random.below(4) {
        0 | 1 => 1,
        2 => 2 + random.below(100),
        _ => 1 << (10 + random.below(40)),
    };
    let path = format!("{below}{:016x}", objects.last_position(&below) + ahead);
    insert(
        dir,
        objects,
        random,
        kind,
        path,
        &[folder(&objects.ids[0], ACCOUNTS[0]), folder(&objects.ids[1], ACCOUNTS[1])],
    )
}

/// Plants objects that look like marks of positions, a witness or a list of retired keys.
fn plant_marks(dir: &Path, objects: &Objects, random: &SeededRandom) -> Result<Planted> {
    let id = &objects.ids[random.below(ACCOUNTS.len() as u64) as usize];
    let (folder, number) = (format!("acct/{id}/manifest/"), random.next_u64());
    let next = objects.last_position(&format!("acct/{id}/log/")) + 1;
    let name = match random.below(3) {
        0 => format!("s{next:016x}-{number:016x}"),
        1 => format!("m{next:016x}-{number:016x}"),
        _ => format!("k{number:016x}"),
    };
    insert(dir, objects, random, "noise among marks", format!("{folder}{name}"), &[folder])
}

/// Plants an object that looks like a message, or like derived data.
fn plant_derived(dir: &Path, objects: &Objects, random: &SeededRandom) -> Result<Planted> {
    let id = &objects.ids[random.below(ACCOUNTS.len() as u64) as usize];
    let folder = ["msg", "thin", "idx/summary", "idx/text"][random.below(4) as usize];
    let path = format!("acct/{id}/{folder}/{:016x}{:016x}", random.next_u64(), random.next_u64());
    insert(dir, objects, random, "noise among messages", path, &[format!("acct/{id}/{folder}/")])
}

/// Inserts noise, or a copy of an object of one of these folders.
fn insert(
    dir: &Path,
    objects: &Objects,
    random: &SeededRandom,
    kind: &'static str,
    path: String,
    like: &[String],
) -> Result<Planted> {
    let folder = &like[random.below(like.len() as u64) as usize];
    let models: Vec<&String> = objects.below(folder).collect();
    let (bytes, how) = match models.len() as u64 {
        0 => (noise(random), "noise".to_owned()),
        _ if random.below(2) == 0 => (noise(random), "noise".to_owned()),
        count => {
            let model = models[random.below(count) as usize];
            (object(dir, model)?.unwrap_or_else(|| noise(random)), format!("a copy of {model}"))
        }
    };
    let (head, rest) = bytes.split_at(bytes.len().min(HEAD_BYTES));
    let rest = (!rest.is_empty()).then_some(rest);
    let sql = "INSERT OR IGNORE INTO objects (path, size, modified, head, rest) VALUES (?1, ?2, ?3, ?4, ?5)";
    let inserted =
        open(dir)?.execute(sql, params![path, bytes.len() as i64, 1_700_000_000_000i64, head, rest]);
    let how = match inserted {
        Ok(_) => format!("{path}: {how}"),
        // An object that was damaged before.
        Err(e) => format!("{path}: could not be planted: {e}"),
    };
    Ok(Planted { kind, path: Some(path), how })
}

/// Removes planted objects that `named` names; returns how many.
pub fn remove_named(dir: &Path, planted: &[Planted], named: &str) -> Result<usize> {
    let database = open(dir)?;
    let paths =
        planted.iter().filter_map(|planted| planted.path.as_ref()).filter(|path| named.contains(*path));
    paths.map(|path| Ok(database.execute("DELETE FROM objects WHERE path = ?1", [path])?)).sum()
}

/// Replaces a directory by a copy of a store's directory.
pub fn copy_anew(from: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        std::fs::remove_dir_all(to)?;
    }
    copy(from, to)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        let kind = entry.file_type()?;
        // The log index is rebuilt, and sockets are not copied.
        if kind.is_dir() {
            copy(&entry.path(), &to)?;
        } else if kind.is_file() && !entry.file_name().to_string_lossy().ends_with("-shm") {
            std::fs::copy(entry.path(), &to)?;
        }
    }
    Ok(())
}

fn noise(random: &SeededRandom) -> Vec<u8> {
    let mut bytes = vec![0; 5 + random.below(300) as usize];
    random.fill(&mut bytes);
    bytes
}

fn open(dir: &Path) -> Result<Connection> {
    Ok(Connection::open(dir.join("objects.sqlite"))?)
}

fn object(dir: &Path, path: &str) -> Result<Option<Vec<u8>>> {
    let sql = "SELECT size, file, head, rest FROM objects WHERE path = ?1";
    let row = open(dir)?.query_row(sql, [path], |row| {
        let blob = |at| Ok::<_, rusqlite::Error>(row.get::<_, Option<Vec<u8>>>(at)?.unwrap_or_default());
        Ok((row.get::<_, i64>(0)?, row.get::<_, Option<String>>(1)?, [blob(2)?, blob(3)?].concat()))
    });
    Ok(row.ok().and_then(|(size, file, inline)| file.map_or(Some(inline), |file| in_file(dir, &file, size))))
}

/// The bytes of an object that is stored as, or in, a file.
fn in_file(dir: &Path, file: &str, size: i64) -> Option<Vec<u8>> {
    let (name, offset) = file.split_once('+').unwrap_or((file, "0"));
    let mut bytes = vec![0; usize::try_from(size).ok().filter(|size| *size < 1 << 30)?];
    File::open(dir.join("objects").join(name)).ok()?.read_exact_at(&mut bytes, offset.parse().ok()?).ok()?;
    Some(bytes)
}

fn files_in(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for folder in std::fs::read_dir(dir)? {
        for file in std::fs::read_dir(folder?.path())? {
            files.push(file?.path());
        }
    }
    Ok(files)
}

fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

/// The account id in a record: field 0 of a CBOR map after four bytes.
fn account_id(record: &[u8]) -> Option<String> {
    let id = record.get(5..23)?.strip_prefix(&[0x00, 0x50])?;
    Some(id.iter().map(|byte| format!("{byte:02x}")).collect())
}
