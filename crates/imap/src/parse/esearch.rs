//! The ESEARCH response, for the client (RFC 4466 §2.6.2 and the extensions that add to it).

use super::cursor::{Cursor, Failure, Parsed};
use super::search::partial_range;
use super::value::value;
use crate::types::{Correlator, ESearch, SearchData, SequenceSet, is_atom_char};

/// `esearch-response = "ESEARCH" [search-correlator] [SP "UID"] *(SP search-return-data)`
pub(super) fn esearch(cursor: &mut Cursor<'_>) -> Parsed<ESearch> {
    let mut found = ESearch::default();
    if cursor.eat_word(" (") {
        found.correlator = correlator(cursor)?;
    }
    while cursor.eat(b' ') && !cursor.at_end() {
        let word = cursor.word(is_atom_char).to_ascii_uppercase();
        if word == "UID" {
            found.uid = true;
            continue;
        }
        cursor.space()?;
        match data(cursor, &word)? {
            Some(data) => found.data.push(data),
            None => drop(value(cursor)?),
        }
    }
    Ok(found)
}

/// `search-correlator = SP "(" one-correlator *(SP one-correlator) ")"` (RFC 7377 §4), after the parenthesis
fn correlator(cursor: &mut Cursor<'_>) -> Parsed<Correlator> {
    let mut found = Correlator::default();
    loop {
        let word = cursor.word(is_atom_char).to_ascii_uppercase();
        cursor.space()?;
        match word.as_str() {
            "TAG" => found.tag = Some(cursor.astring()?),
            "MAILBOX" => found.mailbox = Some(cursor.mailbox()?),
            "UIDVALIDITY" => found.uid_validity = Some(cursor.number32()?),
            _ => drop(value(cursor)?),
        }
        if cursor.eat(b')') {
            return Ok(found);
        }
        cursor.space()?;
    }
}

fn data(cursor: &mut Cursor<'_>, word: &str) -> Parsed<Option<SearchData>> {
    Ok(Some(match word {
        "MIN" => SearchData::Min(cursor.number32()?),
        "MAX" => SearchData::Max(cursor.number32()?),
        "ALL" => SearchData::All(cursor.sequence_set()?),
        "COUNT" => SearchData::Count(cursor.number32()?),
        "MODSEQ" => SearchData::ModSeq(cursor.number()?),
        "PARTIAL" => {
            cursor.expect(b'(', "a partial result is a list")?;
            let range = partial_range(cursor)?;
            cursor.space()?;
            let results = if cursor.nil() { None } else { Some(cursor.sequence_set()?) };
            cursor.expect(b')', "a list does not end")?;
            SearchData::Partial(range, results)
        }
        "RELEVANCY" => SearchData::Relevancy(cursor.list(score)?),
        "ADDTO" => SearchData::AddTo(updates(cursor)?),
        "REMOVEFROM" => SearchData::RemoveFrom(updates(cursor)?),
        _ => return Ok(None),
    }))
}

/// `score = 1*3DIGIT` (RFC 6203 §7)
fn score(cursor: &mut Cursor<'_>) -> Parsed<u8> {
    let score = u8::try_from(cursor.number()?).ok().filter(|n| (1..=100).contains(n));
    score.ok_or(Failure::Bad("a score is from 1 to 100"))
}

/// `"(" context-position SP sequence-set *(SP context-position SP sequence-set) ")"` (RFC 5267 §5)
fn updates(cursor: &mut Cursor<'_>) -> Parsed<Vec<(u32, SequenceSet)>> {
    cursor.list1(|cursor| {
        let position = cursor.number32()?;
        cursor.space()?;
        Ok((position, cursor.sequence_set()?))
    })
}
