//! Numbers with a noun for humans: `1 message`, `2 messages`.

/// The number with a noun: `one` if it is 1, else `many`. The noun may include a verb:
/// `counted(n, "message is missing", "messages are missing")`.
pub fn counted(n: impl TryInto<u64>, one: &str, many: &str) -> String {
    // Counts that do not fit into 64 bits do not occur.
    let n = n.try_into().unwrap_or(u64::MAX);
    format!("{n} {}", if n == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular() {
        let messages = |n: usize| counted(n, "message", "messages");
        assert_eq!([0, 1, 2].map(messages), ["0 messages", "1 message", "2 messages"]);
        assert_eq!(counted(1u32, "object is lost", "objects are lost"), "1 object is lost");
    }
}
