//! Shared by all /query methods (RFC 8620 §5.5): the index of the first result, and filters whose conditions
//! are decided independently.

use sealpost_jmap::error::MethodErrorType;
use sealpost_jmap::id::Id;
use sealpost_jmap::standard::{Filter, Operator, QueryRequest};

use crate::scope::Scope;

/// The index of the first requested result out of `total`; `index_of` finds an anchor.
///
/// # Errors
/// `anchorNotFound`.
pub(crate) fn first_index<C, K>(
    query: &QueryRequest<C, K>,
    scope: &Scope<'_>,
    total: usize,
    index_of: impl Fn(&Id) -> Option<usize>,
) -> Result<usize, MethodErrorType> {
    let first = match &query.anchor {
        Some(anchor) => {
            let index = anchor.resolve(&scope.created).and_then(index_of);
            let index = index.ok_or(MethodErrorType::AnchorNotFound)?;
            (index as i64).saturating_add(query.anchor_offset)
        }
        None if query.position < 0 => (total as i64).saturating_add(query.position),
        None => query.position,
    };
    Ok(usize::try_from(first.max(0)).unwrap_or(usize::MAX))
}

/// The most results to return.
pub(crate) fn limit_of<C, K>(query: &QueryRequest<C, K>) -> usize {
    query.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}

/// Whether a filter matches, where `meets` decides its conditions.
pub(crate) fn passes<C>(filter: &Filter<C>, meets: &impl Fn(&C) -> bool) -> bool {
    match filter {
        Filter::Condition(condition) => meets(condition),
        Filter::Operator { operator, conditions } => {
            let mut each = conditions.iter().map(|condition| passes(condition, meets));
            match operator {
                Operator::And => each.all(|passes| passes),
                Operator::Or => each.any(|passes| passes),
                Operator::Not => !each.any(|passes| passes),
            }
        }
    }
}
