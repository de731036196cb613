//! Arguments of the standard methods (RFC 8620 §5), for any data type.
//!
//! Each request has `from_arguments`, which refuses what it does not know, and `read`, which leaves
//! it in the [`Fields`] for methods with more arguments. Limits are checked there.

mod changes;
mod copy;
mod filter;
mod get;
mod query;
mod query_changes;
mod set;
mod sort;

pub use changes::{ChangesRequest, ChangesResponse};
pub use copy::{CopyRequest, CopyResponse};
pub use filter::{Condition, Filter, Operator};
pub use get::{GetRequest, GetResponse};
pub use query::{QueryRequest, QueryResponse};
pub use query_changes::{AddedItem, QueryChangesRequest, QueryChangesResponse};
pub use set::{ObjectMap, SetRequest, SetResponse};
pub use sort::{Comparator, SortKey};

use crate::error::{MethodError, MethodErrorType};
use crate::id::{AccountId, GivenId};
use crate::read::Fields;

/// An argument with the id of an account. A string that can be none is an account not found.
pub(crate) fn account(fields: &mut Fields) -> Result<AccountId, MethodError> {
    account_named(fields, "accountId", MethodErrorType::AccountNotFound)
}

pub(crate) fn from_account(fields: &mut Fields) -> Result<AccountId, MethodError> {
    account_named(fields, "fromAccountId", MethodErrorType::FromAccountNotFound)
}

fn account_named(fields: &mut Fields, name: &str, error: MethodErrorType) -> Result<AccountId, MethodError> {
    let given: GivenId = fields.required(name)?;
    given.id().cloned().map(AccountId::from).ok_or_else(|| error.into())
}

/// Whether an argument need not be written, as it has its default value.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
