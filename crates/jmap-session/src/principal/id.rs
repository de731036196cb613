//! The ids of principals.

use sealpost_jmap::id::Id;
use sealpost_vault::Hash;

/// The id of the principal of that name: made of the name alone, as one to which rights were given
/// must not tell whether it has an account (decision 72).
pub(crate) fn principal_id(name: &str) -> Id {
    let hash = Hash::of(format!("sealpost principal v1 {name}").as_bytes()).to_string();
    Id::new(format!("R{}", &hash[..32])).expect("hexadecimal digits are safe characters")
}
