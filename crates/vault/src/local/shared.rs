//! Files that several objects share: objects that come together are written one after the other
//! into one file, and two syncs make all of them durable. A file each costs two for every object, a
//! row each writes every byte twice.
//!
//! A row has the place of its object: `xx/yyyy…+offset`. One transaction inserts all rows of a
//! file. So once one of its rows was removed, a file without rows never gets any. Before that, a
//! removed object leaves a hole: the file system gets the blocks back, and no other object moves.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use rusqlite::{Connection, params};
use sealpost_base::limits::INLINE_OBJECT_BYTES;

use crate::local::files::{self, Files, NewFile};
use crate::local::schema::HEAD_BYTES;
use crate::local::writer::Body;

/// Objects up to this size are rows always: a block of the file system is no smaller.
const ROW_BYTES: usize = HEAD_BYTES;
/// What comes together and is less than this is not worth a file.
const FILE_BYTES: usize = 256 * 1024;
/// What separates a file's name from the offset. The next character in ASCII ends the range of a file's rows.
const AT: char = '+';
const AFTER_AT: char = ',';
/// Where a hole may begin or end, in every file system.
const PAGE: u64 = 4096;
/// No sealed bytes are so many zeros.
const ZEROS: usize = 16;

/// Objects that become durable together. Dropped before [`Shared::keep`], it leaves nothing behind.
pub(crate) struct Shared {
    files: Arc<Files>,
    state: Mutex<WriterState>,
}

#[derive(Default)]
struct WriterState {
    /// Objects for which there is no file yet, and the bytes of those that would go there.
    waiting: Vec<(String, Bytes)>,
    waiting_bytes: usize,
    rows: Vec<(String, Body)>,
    file: Option<NewFile>,
}

impl Shared {
    pub(super) fn new(files: Arc<Files>) -> Self {
        Shared { files, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, WriterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes objects, several threads at once if need be. Blocks the thread.
    ///
    /// # Errors
    /// What the file system says; the whole is of no more use then.
    pub(super) fn add(&self, objects: Vec<(String, Bytes)>) -> io::Result<()> {
        let (alone, objects): (Vec<_>, Vec<_>) =
            objects.into_iter().partition(|(path, _)| files::holds_slots(path));
        let mut rows = Vec::with_capacity(alone.len());
        for (path, object) in alone {
            let mut file = self.files.create_for(&path)?;
            file.append(&object)?;
            rows.push((path, file.keep()?));
        }
        let mut state = self.lock();
        state.rows.extend(rows);
        let (mut bytes, mut needed) = (state.waiting_bytes, state.file.is_some());
        for (_, object) in objects.iter().filter(|(_, object)| object.len() > ROW_BYTES) {
            bytes += object.len();
            needed |= object.len() > INLINE_OBJECT_BYTES;
        }
        state.waiting.extend(objects);
        state.waiting_bytes = bytes;
        if bytes == 0 || !(needed || bytes >= FILE_BYTES) {
            return Ok(());
        }
        state.waiting_bytes = 0;
        let objects = std::mem::take(&mut state.waiting);
        let file = match &mut state.file {
            Some(file) => file,
            none => none.insert(self.files.create()?),
        };
        let name = file.name().to_owned();
        let (file, mut at) = file.reserve(bytes);
        let mut written = Vec::new();
        for (path, object) in objects {
            if object.len() <= ROW_BYTES {
                state.rows.push((path, Body::Inline(object)));
                continue;
            }
            let body = Body::File { name: format!("{name}{AT}{at}"), size: object.len() as u64, _held: None };
            state.rows.push((path, body));
            written.push((at, object));
            at += written.last().map_or(0, |(_, object)| object.len() as u64);
        }
        // Others may reserve and write what comes behind meanwhile.
        drop(state);
        written.iter().try_for_each(|(at, object)| file.write_all_at(object, *at))
    }

    /// Makes the file durable, if there is one: the rows to be written, in one transaction, and the
    /// syncs it took. Blocks the thread.
    ///
    /// # Errors
    /// What the file system says; nothing is left behind.
    pub(super) fn keep(&self) -> io::Result<(Vec<(String, Body)>, u64)> {
        let WriterState { waiting, mut rows, file, .. } = std::mem::take(&mut *self.lock());
        rows.extend(waiting.into_iter().map(|(path, object)| (path, Body::Inline(object))));
        match file {
            Some(file) => file.keep().map(|_| (rows, 2)),
            None => Ok((rows, 0)),
        }
    }
}

/// A row's file, and where in it the object begins, if the file is shared.
pub(super) fn place(name: &str) -> (&str, Option<u64>) {
    match name.split_once(AT) {
        Some((file, offset)) => (file, Some(offset.parse().unwrap_or(u64::MAX))),
        None => (name, None),
    }
}

/// Whether the row's file has other objects too.
pub(super) fn is_shared(name: &str) -> bool {
    place(name).1.is_some()
}

/// What the rows of a shared file are between.
fn bounds(file: &str) -> [String; 2] {
    [format!("{file}{AT}"), format!("{file}{AFTER_AT}")]
}

/// Whether there are rows of this file, shared or not.
pub(super) fn has_rows(connection: &Connection, file: &str) -> rusqlite::Result<bool> {
    let [first, end] = bounds(file);
    connection
        .prepare_cached("SELECT 1 FROM objects WHERE file = ?1 OR (file > ?2 AND file < ?3) LIMIT 1")?
        .exists(params![file, first, end])
}

/// Gives back what these rows had, which are gone: names as rows have them, and sizes. What cannot
/// be given back now is by the next sweep.
pub(super) fn release(connection: &Connection, files: &Files, gone: &[(String, u64)]) {
    let mut of_files: BTreeMap<&str, Vec<Range<u64>>> = BTreeMap::new();
    for (name, size) in gone {
        match place(name) {
            (file, None) => files.remove(file),
            (file, Some(at)) => of_files.entry(file).or_default().push(at..at.saturating_add(*size)),
        }
    }
    for (file, holes) in of_files {
        match has_rows(connection, file) {
            Ok(true) => files.punch(file, &holes),
            Ok(false) => files.remove(file),
            Err(e) => {
                tracing::debug!(error = %e, file, "removed objects keep their place until the next sweep")
            }
        }
    }
}

/// What of a shared file no row names: holes that a crash kept from being made.
pub(super) fn gaps(connection: &Connection, file: &str, size: u64) -> rusqlite::Result<Vec<Range<u64>>> {
    let [first, end] = bounds(file);
    let mut query =
        connection.prepare_cached("SELECT file, size FROM objects WHERE file > ?1 AND file < ?2")?;
    let rows = query.query_map([first, end], |row| Ok((row.get::<_, String>(0)?, row.get::<_, u64>(1)?)))?;
    let mut kept = Vec::new();
    for row in rows {
        let (name, size) = row?;
        if let (_, Some(at)) = place(&name) {
            kept.push(at..at.saturating_add(size));
        }
    }
    if kept.is_empty() {
        return Ok(Vec::new());
    }
    kept.sort_by_key(|range| range.start);
    let (mut gaps, mut from) = (Vec::new(), 0);
    for range in kept {
        if range.start > from {
            gaps.push(from..range.start);
        }
        from = from.max(range.end);
    }
    if size > from {
        gaps.push(from..size);
    }
    Ok(gaps)
}

/// Whether `bytes`, which begin at `start` of a file, may come from a hole, or from one that was
/// just being made: there are zeros where a page begins or ends.
pub(super) fn may_be_hole(bytes: &[u8], start: u64) -> bool {
    let zeros = |from: usize, to: usize| bytes[from..to].iter().all(|byte| *byte == 0);
    let end = bytes.len();
    let mut page = 0;
    while page < end {
        let next = (page as u64 + PAGE - (start + page as u64) % PAGE).min(end as u64) as usize;
        if zeros(page, (page + ZEROS).min(next)) || zeros(next.saturating_sub(ZEROS).max(page), next) {
            return true;
        }
        page = next;
    }
    false
}

#[cfg(test)]
mod tests;
