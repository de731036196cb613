//! One pass over all cards: those that match, in their order.

use std::ops::Bound;

use sealpost_account::AccountState;
use sealpost_account::contacts::CardId;
use sealpost_account::state::ObjectKind;
use sealpost_base::{Permit, Position, Result};
use serde_json::Map;

use super::filter::CardFilter;
use super::order::{CardOrder, Keys};
use crate::scope::Scope;

/// Cards that are looked at while the state is held: each may be parsed.
const STEP: usize = 128;
/// Bytes of their texts, beside those of the last one.
const STEP_BYTES: usize = 256 * 1024;

/// How often the cards are read while others change them.
const ATTEMPTS: usize = 4;

/// Cards that match, and something of the state in which they do.
pub(super) struct Scanned<T> {
    /// The position of the last change of a card.
    pub(super) changed: Position,
    /// What was asked of that state.
    pub(super) value: T,
    pub(super) cards: Vec<CardId>,
    /// For the memory of `cards`.
    pub(super) permit: Option<Permit>,
}

/// The cards that match, sorted, as they are in one state, and what `look` finds in that state. `None` if
/// others change cards all the time.
pub(super) async fn scan_in_one_state<T>(
    scope: &Scope<'_>,
    filter: &CardFilter,
    order: &CardOrder,
    look: impl Fn(&AccountState) -> T,
) -> Result<Option<Scanned<T>>> {
    for _ in 0..ATTEMPTS {
        let now = |state: &AccountState| {
            (state.last_change(ObjectKind::Cards), state.contacts().len(), look(state))
        };
        let (changed, count, value) = scope.own_state(now).await?;
        let permit = scope.permit(count * order.bytes()).await;
        let cards = scan(scope, filter, order).await?;
        if scope.account().state().last_change(ObjectKind::Cards) == changed {
            return Ok(Some(Scanned { changed, value, cards, permit }));
        }
    }
    Ok(None)
}

/// The cards that match, sorted. What changes meanwhile may be found as it was or as it is.
async fn scan(scope: &Scope<'_>, filter: &CardFilter, order: &CardOrder) -> Result<Vec<CardId>> {
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
