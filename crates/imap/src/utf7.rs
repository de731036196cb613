//! Modified UTF-7 (RFC 3501 §5.1.3).

/// The modified UTF-7 form of a mailbox name.
pub fn encode(name: &str) -> String {
    name.to_string()
}
