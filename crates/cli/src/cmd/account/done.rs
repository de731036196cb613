//! What a command did to an account, as it is printed.

use serde::Serialize;

/// What was done to which account.
#[derive(Serialize)]
pub(super) struct Done {
    /// The account.
    pub account: String,
    /// What was done, in one word.
    pub done: &'static str,
}
