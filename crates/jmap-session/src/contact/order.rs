//! In which order cards are (RFC 9610 §3.3.2); those that are equal are in the order in which they
//! were made.

use sealpost_account::contacts::CardId;
use sealpost_base::limits::CARD_SORT_BYTES;
use sealpost_jmap::MethodError;
use sealpost_jmap::contact::CardSortKey;
use sealpost_jmap::standard::Comparator;
use sealpost_search::emails::Collation;
use serde_json::{Map, Value};

use super::filter::date_of;
use crate::collation::collation;

/// What a query is sorted by: each key once, as later ones that are alike decide nothing.
pub(super) struct CardOrder(Vec<(CardSortKey, Collation, bool)>);

/// By what a card is compared: its keys, then its number.
pub(super) type Keys = (Vec<Vec<u8>>, CardId);

impl CardOrder {
    /// # Errors
    /// `unsupportedSort` for a collation that is not known.
    pub(super) fn new(sort: &[Comparator<CardSortKey>]) -> Result<Self, MethodError> {
        let mut keys: Vec<(CardSortKey, Collation, bool)> = Vec::new();
        for comparator in sort {
            let collation = collation(comparator.collation.as_deref())?;
            let is_known = |(key, known, _): &(CardSortKey, Collation, bool)| {
                *key == comparator.key && *known == collation
            };
            if !keys.iter().any(is_known) {
                keys.push((comparator.key, collation, comparator.is_ascending));
            }
        }
        Ok(CardOrder(keys))
    }

    /// Whether only a card's own text can decide.
    pub(super) fn reads_text(&self) -> bool {
        !self.0.is_empty()
    }

    /// Memory for the keys of a card, at most, in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Keys>() + self.0.len() * (size_of::<Vec<u8>>() + CARD_SORT_BYTES)
    }

    /// The keys of a card: the smaller come first.
    pub(super) fn keys(&self, object: &Map<String, Value>, id: CardId) -> Keys {
        let key = |(key, collation, is_ascending): &(CardSortKey, Collation, bool)| {
            let mut bytes = of(*key, *collation, object);
            if !is_ascending {
                bytes.iter_mut().for_each(|byte| *byte = !*byte);
                // What begins another comes behind it.
                bytes.push(u8::MAX);
            }
            bytes
        };
        (self.0.iter().map(key).collect(), id)
    }
}

fn of(key: CardSortKey, collation: Collation, object: &Map<String, Value>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut text = |kind: &str| {
        let value = sorted_as(object, kind).unwrap_or_default();
        // One byte less: see `CardOrder::keys`.
        collation.key(value, CARD_SORT_BYTES - 1, &mut bytes);
    };
    match key {
        CardSortKey::Given => text("given"),
        CardSortKey::Surname => text("surname"),
        CardSortKey::Surname2 => text("surname2"),
        CardSortKey::Created | CardSortKey::Updated => {
            // A card without the date is older than all others.
            let date = date_of(object, key.name()).map_or(i64::MIN, |date| date.timestamp().0);
            bytes.extend((date as u64 ^ 1 << 63).to_be_bytes());
        }
    }
    bytes
}

/// What the name says to compare by (RFC 9553 §2.2.1.1), or its first component of that kind.
fn sorted_as<'a>(object: &'a Map<String, Value>, kind: &str) -> Option<&'a str> {
    let name = object.get("name")?;
    let said = name.get("sortAs").and_then(|sort_as| sort_as.get(kind)).and_then(Value::as_str);
    let mut components = name.get("components").and_then(Value::as_array).into_iter().flatten();
    let mut first =
        || components.find(|component| component.get("kind").and_then(Value::as_str) == Some(kind));
    said.or_else(|| first()?.get("value")?.as_str())
}
