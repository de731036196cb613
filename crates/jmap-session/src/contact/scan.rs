//! One pass over all cards: those that match, in their order.

use std::ops::Bound;

use sealpost_account::contacts::CardId;
use sealpost_base::{Position, Result};
use serde_json::Map;

use super::filter::CardFilter;
use super::order::{CardOrder, Keys};
use crate::scope::Scope;

/// Cards that are looked at while the state is held: each may be parsed.
const STEP: usize = 128;
/// Bytes of their texts, beside those of the last one.
const STEP_BYTES: usize = 256 * 1024;

/// As [`scan`], with no change after `since`; `None` if others change cards all the time.
pub(super) async fn scan_unchanged(
    scope: &Scope<'_>,
    filter: &CardFilter,
    order: &CardOrder,
    since: Position,
) -> Result<Option<Vec<CardId>>> {
    let found = scan(scope, filter, order).await?;
    let (_, has_changed) = scope.account().state().contacts().changed_since(since);
    Ok((!has_changed).then_some(found))
}

/// The cards that match, sorted. What changes meanwhile may be found as it was or as it is: the caller
/// gives a state from before, since when clients ask for changes.
pub(super) async fn scan(scope: &Scope<'_>, filter: &CardFilter, order: &CardOrder) -> Result<Vec<CardId>> {
    let mut found: Vec<Keys> = Vec::new();
    let mut after = Bound::Unbounded;
    loop {
        let (some, last) = step(scope, filter, order, after);
        found.extend(some);
        match last {
            Some(last) => after = Bound::Excluded(last),
            None => break,
        }
        tokio::task::yield_now().await;
    }
    found.sort_unstable();
    Ok(found.into_iter().map(|(_, id)| id).collect())
}

/// Looks at the next cards; the last of them, unless there are no more.
fn step(
    scope: &Scope<'_>,
    filter: &CardFilter,
    order: &CardOrder,
    after: Bound<CardId>,
) -> (Vec<Keys>, Option<CardId>) {
    let reads_text = filter.reads_text() || order.reads_text();
    let (mut found, mut last, mut bytes) = (Vec::new(), None, 0);
    let state = scope.account().state();
    for card in state.contacts().cards_from(after).take(STEP) {
        let object = match reads_text {
            true => serde_json::from_str(&card.json).unwrap_or_default(),
            false => Map::new(),
        };
        if filter.matches(card, &object) {
            found.push(order.keys(&object, card.id));
        }
        last = Some(card.id);
        bytes += card.json.len();
        if bytes > STEP_BYTES {
            break;
        }
    }
    (found, last)
}
