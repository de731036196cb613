//! Former names of options that still work, hidden from `--help`: all of them are here.
//!
//! Test suites that drive releases before 0.1.0 as well pass these names. An option that such a
//! suite does not pass has no former name; nothing else may depend on one ([decision
//! 68](../../../docs/decisions/0068-names.md)).

/// Of `--log-level`.
pub const LOG_LEVEL: &str = "log";
/// Of `--prefix`, in `import` and in `archive restore`, `migrate` and `mirror`.
pub const PREFIX: &str = "below";
