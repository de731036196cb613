//! The queries of the reader threads.

use std::ops::Range;

use object_store::GetRange;
use rusqlite::{Connection, params};
use sealpost_base::Timestamp;

use super::{Found, LIST_ROWS, Mark, NEWER, Newer, Page, Row};
use crate::local::failure::{Damaged, generic};
use crate::local::schema;
use crate::local::unsound::Unsound;

/// Sorts after every path.
pub(super) const AFTER_ALL_PATHS: &str = "\u{10FFFF}";

/// A row from the columns `id, size, modified, file, head`.
pub(super) fn found_in<'a>(row: &'a rusqlite::Row<'_>) -> rusqlite::Result<Found<'a>> {
    let (id, size, modified, file) = (row.get(0)?, row.get(1)?, Timestamp(row.get(2)?), row.get(3)?);
    Ok((Row { id, size, modified, file }, row.get_ref(4)?.as_blob_or_null()?))
}

/// What `take` makes of the row of `path`, if there is one.
pub(super) fn find<T>(
    connection: &Connection,
    path: &str,
    take: impl FnOnce(Found<'_>) -> T,
) -> object_store::Result<Option<T>> {
    let find = || {
        let mut query = connection
            .prepare_cached("SELECT id, size, modified, file, head FROM objects WHERE path = ?1")?;
        let mut rows = query.query([path])?;
        rows.next()?.map(|row| found_in(row).map(take)).transpose()
    };
    find().map_err(failed)
}

/// The bytes `range` of an object, if all of them are in the head of its row.
pub(super) fn head_part<'a>(row: &Row, head: Option<&'a [u8]>, range: &Range<u64>) -> Option<&'a [u8]> {
    let end = usize::try_from(range.end).ok().filter(|_| row.file.is_none() && range.end <= row.size)?;
    head?.get(usize::try_from(range.start).ok()?..end)
}

pub(super) fn inline(
    connection: &Connection,
    row: &Row,
    head: Option<&[u8]>,
    range: Range<u64>,
) -> object_store::Result<Vec<u8>> {
    let head = head.unwrap_or_default();
    let (start, end) = (range.start as usize, range.end as usize);
    if let Some(part) = head.get(start..end) {
        return Ok(part.to_vec());
    }
    let mut bytes = head.to_vec();
    let mut read = || {
        let mut query = connection.prepare_cached("SELECT rest FROM objects WHERE id = ?1")?;
        query.query_row([row.id], |found| {
            if let Some(rest) = found.get_ref(0)?.as_blob_or_null()? {
                bytes.reserve_exact(rest.len());
                bytes.extend_from_slice(rest);
            }
            Ok(())
        })
    };
    read().map_err(failed)?;
    if bytes.len() < end {
        return Err(generic(Damaged(format!("its row has {} bytes and not {}", bytes.len(), row.size))));
    }
    bytes.truncate(end);
    bytes.drain(..start);
    Ok(bytes)
}

pub(super) fn resolve(range: Option<GetRange>, size: u64) -> object_store::Result<Range<u64>> {
    let range = match range {
        None => 0..size,
        Some(GetRange::Bounded(range)) => range.start..range.end.min(size),
        Some(GetRange::Offset(start)) => start..size,
        Some(GetRange::Suffix(length)) => size.saturating_sub(length)..size,
    };
    if range.start > range.end {
        let why = format!("a range from {} of an object of {size} bytes", range.start);
        return Err(generic(Damaged(why)));
    }
    Ok(range)
}

/// One page of a listing. A damaged row hides no other, and a damaged index that goes back does not
/// make the listing endless: both are reported to `unsound`.
pub(super) fn list(
    connection: &Connection,
    after: &str,
    before: Option<&str>,
    unsound: &Unsound,
) -> rusqlite::Result<Page> {
    // Plain bounds, so that the index ends the scan too, not the limit alone. The limit is no parameter:
    // SQLite plans by its value, and would prepare the statement again for every listing.
    let mut query = connection.prepare_cached(&format!(
        "SELECT id, size, modified, path FROM objects WHERE path > ?1 AND path < ?2 ORDER BY path LIMIT {LIST_ROWS}"
    ))?;
    let before = before.unwrap_or(AFTER_ALL_PATHS);
    let mut found = query.query([after, before])?;
    let (mut rows, mut count) = (Vec::new(), 0);
    while let Some(row) = found.next()? {
        count += 1;
        let Ok(path) = row.get_ref(3)?.as_str() else {
            unsound.found(format!("an index has a path that is no text, after {after}"));
            continue;
        };
        let last = rows.last().map_or(after, |(path, _): &(String, Row)| path.as_str());
        if path <= last {
            unsound.found(format!("an index is out of order: {path} comes after {last}"));
            continue;
        }
        // A row with a damaged time counts as new: new objects are never removed.
        let (size, modified) = (row.get(1).unwrap_or(0), row.get(2).unwrap_or(i64::MAX));
        let path = path.to_owned();
        rows.push((path, Row { id: row.get(0)?, size, modified: Timestamp(modified), file: None }));
    }
    Ok(Page { more: count == LIST_ROWS, rows })
}

/// Log entries behind a mark. SQLite numbers a new row above all others: while the marked row exists,
/// all new rows are behind it.
pub(super) fn newer(connection: &Connection, mark: Mark) -> rusqlite::Result<Newer> {
    let complete = match &mark.0 {
        None => true,
        Some((id, path)) => connection
            .prepare_cached("SELECT 1 FROM objects WHERE id = ?1 AND path = ?2")?
            .exists(params![id, path])?,
    };
    let known = if complete { mark.0.as_ref().map_or(0, |(id, _)| *id) } else { 0 };
    if known == 0 {
        let mut query =
            connection.prepare_cached("SELECT id, path FROM objects ORDER BY id DESC LIMIT ?1")?;
        let rows = query.query_map([NEWER as i64], |row| Ok((row.get(0)?, row.get(1)?)))?;
        for row in rows {
            let (id, path): (i64, String) = row?;
            if is_log_entry(&path) {
                return Ok(Newer {
                    entries: Vec::new(),
                    mark: Mark(Some((id, path))),
                    more: false,
                    complete: false,
                });
            }
        }
        return Ok(Newer { entries: Vec::new(), mark: Mark(None), more: false, complete: false });
    }
    let mut query =
        connection.prepare_cached("SELECT id, path FROM objects WHERE id > ?1 ORDER BY id LIMIT ?2")?;
    let rows = query.query_map(params![known, NEWER as i64], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let (mut entries, mut mark, mut count) = (Vec::new(), mark, 0);
    for row in rows {
        let (id, path): (i64, String) = row?;
        count += 1;
        if is_log_entry(&path) {
            mark = Mark(Some((id, path.clone())));
            entries.push(path);
        }
    }
    let more = count == NEWER && !entries.is_empty();
    Ok(Newer { entries, mark, more, complete: true })
}

/// Only log entries serve as marks: spooled messages and checkpoints are removed soon.
pub(super) fn is_log_entry(path: &str) -> bool {
    path.starts_with("acct/") && path.contains("/log/")
}

pub(super) fn failed(e: rusqlite::Error) -> object_store::Error {
    if schema::is_damage(&e) { generic(Damaged(e.to_string())) } else { generic(e) }
}
