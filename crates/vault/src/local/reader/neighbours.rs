//! Finding many objects, of which most were stored one after the other.
//!
//! Messages of a mailbox mostly were, so their rows are neighbours, though not always in the same
//! order. Their paths are random: each would take a page of the index. So the other rows are
//! searched first around a row that was found by its path.

use std::collections::VecDeque;

use rusqlite::Connection;

use super::Found;
use super::queries::{failed, find, found_in};

/// Rows that are read before the found one.
const BEFORE: i64 = 8;
/// Consecutive rows that are skipped: other objects stored between two messages.
const PASSED_OVER: usize = 16;
/// Paths that a row is compared with.
const COMPARED: usize = 32;

/// Calls `each` with the number of each path and what is found of it, in any order.
pub(super) fn find_each(
    connection: &Connection,
    paths: &[&str],
    mut each: impl FnMut(usize, object_store::Result<Option<Found<'_>>>),
) {
    let mut left: VecDeque<usize> = (0..paths.len()).collect();
    // Paths whose rows are no neighbours cost one look around the first, and not more.
    let mut are_neighbours = true;
    while let Some(at) = left.pop_front() {
        let mut id = None;
        let found = find(connection, paths[at], |found| {
            id = Some(found.0.id);
            each(at, Ok(Some(found)));
        });
        match found {
            Ok(Some(())) => {}
            Ok(None) => each(at, Ok(None)),
            Err(e) => each(at, Err(e)),
        }
        if let (Some(id), true) = (id, are_neighbours && !left.is_empty()) {
            // What cannot be read here is found by its path, or the error is.
            let count = find_around(connection, id, paths, &mut left, &mut each);
            are_neighbours = count.is_ok_and(|count| count > 0);
        }
    }
}

/// Takes those of the paths that are left whose rows are around the row `id`; how many. Rows behind it
/// come first: messages that are requested in the order of their arrival are all there.
fn find_around(
    connection: &Connection,
    id: i64,
    paths: &[&str],
    left: &mut VecDeque<usize>,
    each: &mut impl FnMut(usize, object_store::Result<Option<Found<'_>>>),
) -> rusqlite::Result<usize> {
    let count = find_between(connection, (id, i64::MAX), paths, left, each)?;
    Ok(count + find_between(connection, (id.saturating_sub(BEFORE + 1), id), paths, left, each)?)
}

/// Takes those of the paths that are left from rows between two.
fn find_between(
    connection: &Connection,
    between: (i64, i64),
    paths: &[&str],
    left: &mut VecDeque<usize>,
    each: &mut impl FnMut(usize, object_store::Result<Option<Found<'_>>>),
) -> rusqlite::Result<usize> {
    if left.is_empty() {
        return Ok(0);
    }
    let mut query = connection.prepare_cached(
        "SELECT id, size, modified, file, head, path FROM objects WHERE id > ?1 AND id < ?2 ORDER BY id",
    )?;
    let mut rows = query.query(between)?;
    let (mut count, mut passed_over) = (0, 0);
    while !left.is_empty() && passed_over <= PASSED_OVER {
        let Some(row) = rows.next()? else { break };
        let path = row.get_ref(5)?.as_str()?;
        let nth = left.iter().take(COMPARED).position(|at| paths[*at] == path);
        match nth.and_then(|nth| left.remove(nth)) {
            Some(at) => {
                each(at, found_in(row).map(Some).map_err(failed));
                (count, passed_over) = (count + 1, 0);
            }
            None => passed_over += 1,
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::schema;

    /// A store with objects of these paths, each of which holds its path.
    fn store(paths: &[&str]) -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        schema::make_tables(&connection).unwrap();
        for path in paths {
            let columns = "INSERT INTO objects (path, size, modified, head) VALUES (?1, ?2, 0, ?3)";
            connection.execute(columns, (path, path.len() as i64, path.as_bytes())).unwrap();
        }
        connection
    }

    fn found(connection: &Connection, paths: &[&str]) -> Vec<Option<String>> {
        let mut all = vec![None; paths.len()];
        let mut count = 0;
        find_each(connection, paths, |at, found| {
            count += 1;
            all[at] = found.unwrap().map(|(row, head)| {
                let head = String::from_utf8(head.unwrap().to_vec()).unwrap();
                assert_eq!(row.size, head.len() as u64);
                head
            });
        });
        assert_eq!(count, paths.len());
        all
    }

    #[test]
    fn each_path_gets_its_own_object_whatever_the_order() {
        let stored =
            ["m/7", "m/3", "log/1", "m/9", "m/1", "log/2", "log/3", "log/4", "log/5", "log/6", "m/5"];
        let connection = store(&stored);
        for wanted in [
            &["m/7", "m/3", "m/9", "m/1", "m/5"][..],
            &["m/5", "m/1", "m/9", "m/3", "m/7"],
            &["m/7", "m/none", "m/3", "m/3", "log/6"],
            &["m/none"],
            &["m/5", "m/none", "m/5"],
            &[],
        ] {
            let expected: Vec<_> =
                wanted.iter().map(|path| stored.contains(path).then(|| (*path).to_owned())).collect();
            assert_eq!(found(&connection, wanted), expected, "{wanted:?}");
        }
    }

    #[test]
    fn neighbours_are_found_around_the_first() {
        let others: Vec<String> = (0..=PASSED_OVER).map(|n| format!("log/{n}")).collect();
        let mut stored = vec!["m/1", "m/7", "m/3", "log/x", "m/9"];
        stored.extend(others.iter().map(String::as_str));
        stored.push("m/5");
        let connection = store(&stored);
        let around = |id, wanted: &[&str]| {
            let mut left = (0..wanted.len()).collect();
            let count = find_around(&connection, id, wanted, &mut left, &mut |at, found| {
                assert_eq!(found.unwrap().unwrap().1.unwrap(), wanted[at].as_bytes());
            });
            assert_eq!(left.len() + count.as_ref().unwrap(), wanted.len());
            count.unwrap()
        };
        assert_eq!(around(2, &["m/3", "m/9"]), 2);
        assert_eq!(around(2, &["m/9", "m/1", "m/3"]), 3, "in another order");
        assert_eq!(around(2, &["m/3", "m/9", "m/5"]), 2, "too much was stored between them");
        assert_eq!(around(2, &["m/none"]), 0);
    }
}
