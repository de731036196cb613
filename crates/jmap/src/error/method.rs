//! Method-level errors (RFC 8620 §3.6.2 and the methods of §5, RFC 8621, RFC 9404).

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::Value;

use crate::read::{Fields, FromJson, Mismatch, string_enum};

string_enum! {
    /// Why a method did nothing.
    pub enum MethodErrorType {
        /// Temporary; try again later.
        ServerUnavailable = "serverUnavailable",
        /// A mistake in the server.
        ServerFail = "serverFail",
        /// Some of the changes were made.
        ServerPartialFail = "serverPartialFail",
        /// No such method, or its capability is not in `using`.
        UnknownMethod = "unknownMethod",
        /// An argument is missing or wrong.
        InvalidArguments = "invalidArguments",
        /// A result reference leads nowhere.
        InvalidResultReference = "invalidResultReference",
        /// Not allowed.
        Forbidden = "forbidden",
        /// No such account.
        AccountNotFound = "accountNotFound",
        /// The account has no such data.
        AccountNotSupportedByMethod = "accountNotSupportedByMethod",
        /// The account cannot be changed.
        AccountReadOnly = "accountReadOnly",
        /// More objects than `maxObjectsInGet` or `maxObjectsInSet` (§5.1, §5.3).
        RequestTooLarge = "requestTooLarge",
        /// `ifInState` is not the state (§5.3).
        StateMismatch = "stateMismatch",
        /// The state is unknown or too old (§5.2).
        CannotCalculateChanges = "cannotCalculateChanges",
        /// No account to copy from (§5.4).
        FromAccountNotFound = "fromAccountNotFound",
        /// The account to copy from has no such data (§5.4).
        FromAccountNotSupportedByMethod = "fromAccountNotSupportedByMethod",
        /// The anchor is not among the results (§5.5).
        AnchorNotFound = "anchorNotFound",
        /// A sort that the server cannot do (§5.5).
        UnsupportedSort = "unsupportedSort",
        /// A filter that the server cannot do (§5.5).
        UnsupportedFilter = "unsupportedFilter",
        /// More changes than `maxChanges` (§5.6).
        TooManyChanges = "tooManyChanges",
        /// Blob/lookup of a type that is not supported (RFC 9404 §4.3).
        UnknownDataType = "unknownDataType",
    }
}

/// The arguments of an `error` response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MethodError {
    /// The type.
    pub error: MethodErrorType,
    /// What was wrong, for developers of clients.
    pub description: Option<String>,
}

impl MethodError {
    /// With a description.
    #[must_use]
    pub fn describe(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// `invalidArguments` with what is wrong.
    pub fn invalid_arguments(description: impl Into<String>) -> Self {
        MethodError::from(MethodErrorType::InvalidArguments).describe(description)
    }

    /// `requestTooLarge` with the limit that was passed.
    pub fn too_large(limit: &str, most: usize, given: usize) -> Self {
        let error = MethodError::from(MethodErrorType::RequestTooLarge);
        error.describe(format!("{given} objects in one call; {limit} is {most}"))
    }
}

impl From<MethodErrorType> for MethodError {
    fn from(error: MethodErrorType) -> Self {
        MethodError { error, description: None }
    }
}

impl From<Mismatch> for MethodError {
    fn from(wrong: Mismatch) -> Self {
        MethodError::invalid_arguments(wrong.to_string())
    }
}

impl Serialize for MethodError {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", &self.error)?;
        if let Some(description) = &self.description {
            map.serialize_entry("description", description)?;
        }
        map.end()
    }
}

impl FromJson for MethodError {
    fn expected() -> String {
        "an error".into()
    }

    fn from_json(value: Value) -> Result<Self, Mismatch> {
        let mut fields = Fields::from_json(value)?;
        Ok(MethodError { error: fields.required("type")?, description: fields.optional("description")? })
    }
}
