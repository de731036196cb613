//! Errors on three levels (RFC 8620 §3.6): of a request ([`Problem`]), of a method
//! ([`MethodError`]), of one object ([`SetError`]).

mod method;
mod problem;
mod set;

pub use method::{MethodError, MethodErrorType};
pub use problem::{Problem, ProblemType};
pub use set::{SetError, SetErrorDetail, SetErrorType};
