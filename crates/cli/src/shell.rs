//! Words as a shell takes them: for commands that are printed to be run.

/// A word, in quotes if it needs them.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-@+:,=%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_words_that_a_shell_would_change_are_quoted() {
        for (word, wanted) in [
            ("a/b-c_1.toml", "a/b-c_1.toml"),
            ("a b'c", "'a b'\\''c'"),
            ("$x", "'$x'"),
            ("", "''"),
            ("~/x", "'~/x'"),
        ] {
            assert_eq!(quoted(word), wanted);
        }
    }
}
