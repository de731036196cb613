//! Modifiers and parameters in parentheses (RFC 4466): of SELECT, FETCH and STORE.

use super::cursor::{Cursor, Failure, Parsed};
use super::search::partial_range;
use crate::types::{FetchModifier, QResync, SelectParameter, SequenceMatch, SequenceSet, StoreModifier};

/// `[SP "(" select-param *(SP select-param) ")"]` (RFC 4466 §2.1)
pub(super) fn select_parameters(cursor: &mut Cursor<'_>) -> Parsed<Vec<SelectParameter>> {
    let parameters = after_space(cursor, |cursor| match &*word(cursor) {
        "CONDSTORE" => Ok(SelectParameter::CondStore),
        "QRESYNC" => {
            cursor.space()?;
            qresync(cursor).map(SelectParameter::QResync)
        }
        word => Err(Cursor::unknown("unknown SELECT parameter", word)),
    })?;
    once(parameters, "a SELECT parameter is given twice")
}

/// `[SP "(" fetch-modifier *(SP fetch-modifier) ")"]` (RFC 4466 §2.4)
pub(super) fn fetch_modifiers(cursor: &mut Cursor<'_>) -> Parsed<Vec<FetchModifier>> {
    let modifiers = after_space(cursor, |cursor| match &*word(cursor) {
        "CHANGEDSINCE" => {
            cursor.space()?;
            positive(cursor).map(FetchModifier::ChangedSince)
        }
        "VANISHED" => Ok(FetchModifier::Vanished),
        "PARTIAL" => {
            cursor.space()?;
            partial_range(cursor).map(FetchModifier::Partial)
        }
        word => Err(Cursor::unknown("unknown FETCH modifier", word)),
    })?;
    once(modifiers, "a FETCH modifier is given twice")
}

/// `["(" store-modifier *(SP store-modifier) ")" SP]` (RFC 4466 §2.5), after the set and its space.
pub(super) fn store_modifiers(cursor: &mut Cursor<'_>) -> Parsed<Vec<StoreModifier>> {
    if cursor.peek() != Some(b'(') {
        return Ok(Vec::new());
    }
    let modifiers = cursor.list1(|cursor| match &*word(cursor) {
        "UNCHANGEDSINCE" => {
            cursor.space()?;
            cursor.number().map(StoreModifier::UnchangedSince)
        }
        word => Err(Cursor::unknown("unknown STORE modifier", word)),
    })?;
    cursor.space()?;
    once(modifiers, "a STORE modifier is given twice")
}

/// The list after a space, if the command continues.
fn after_space<'a, T>(
    cursor: &mut Cursor<'a>,
    item: impl Fn(&mut Cursor<'a>) -> Parsed<T>,
) -> Parsed<Vec<T>> {
    if cursor.at_end() || !cursor.eat(b' ') || cursor.at_end() {
        return Ok(Vec::new());
    }
    cursor.list1(item)
}

fn word(cursor: &mut Cursor<'_>) -> String {
    cursor.word(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.')).to_ascii_uppercase()
}

/// Refuses repeated modifiers.
fn once<T>(items: Vec<T>, otherwise: &'static str) -> Parsed<Vec<T>> {
    let kinds: Vec<_> = items.iter().map(std::mem::discriminant).collect();
    let twice = kinds.iter().enumerate().any(|(i, kind)| kinds[..i].contains(kind));
    if twice { Err(Failure::Bad(otherwise)) } else { Ok(items) }
}

/// `mod-sequence-value`: 63 bits, not 0 (RFC 7162 §7)
fn positive(cursor: &mut Cursor<'_>) -> Parsed<u64> {
    match cursor.number()? {
        0 => Err(Failure::Bad("0 is no mod-sequence")),
        n => Ok(n),
    }
}

/// `"(" uidvalidity SP mod-sequence-value [SP known-uids] [SP seq-match-data] ")"` (RFC 7162 §7)
fn qresync(cursor: &mut Cursor<'_>) -> Parsed<QResync> {
    cursor.expect(b'(', "QRESYNC needs a list")?;
    let uid_validity = cursor.number32()?;
    if uid_validity == 0 {
        return Err(Failure::Bad("0 is no UIDVALIDITY"));
    }
    cursor.space()?;
    let modseq = positive(cursor)?;
    let (mut known_uids, mut matches) = (None, None);
    while matches.is_none() && cursor.eat(b' ') {
        if cursor.peek() == Some(b'(') {
            matches = Some(sequence_match(cursor)?);
        } else if known_uids.is_none() {
            known_uids = Some(starless(cursor)?);
        } else {
            return Err(Failure::Bad("too many arguments of QRESYNC"));
        }
    }
    cursor.expect(b')', "the list of QRESYNC does not end")?;
    Ok(QResync { uid_validity, modseq, known_uids, matches })
}

/// `seq-match-data = "(" known-sequence-set SP known-uid-set ")"`
fn sequence_match(cursor: &mut Cursor<'_>) -> Parsed<SequenceMatch> {
    cursor.expect(b'(', "a list is missing")?;
    let numbers = starless(cursor)?;
    cursor.space()?;
    let uids = starless(cursor)?;
    cursor.expect(b')', "a list does not end")?;
    Ok(SequenceMatch { numbers, uids })
}

/// A set in which neither `*` nor `$` is allowed (RFC 7162 §7, `known-uids`)
pub(super) fn starless(cursor: &mut Cursor<'_>) -> Parsed<SequenceSet> {
    let set = cursor.sequence_set()?;
    if set.has_star() || set.has_saved() { Err(Failure::Bad("* is not allowed here")) } else { Ok(set) }
}
