//! The words and phrases of a text that is searched for (RFC 8621 §4.4.1).
//!
//! White space divides words, all of which must be there. What is between quotes is a phrase, in
//! which quotes and backslashes are escaped by a backslash. A quote inside of a word, or without
//! another one, is a character like others: people write "don't".

/// The words and phrases of a text: none is empty, and together they have no more bytes than it.
pub fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let phrase = if matches!(first, '"' | '\'') { phrase(&rest[1..], first) } else { None };
        let (word, after) = phrase.unwrap_or_else(|| {
            let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            (rest[..end].to_owned(), &rest[end..])
        });
        if !word.trim().is_empty() {
            words.push(word);
        }
        rest = after.trim_start();
    }
    words
}

/// The phrase up to the quote that ends it, and what follows. `None` if none ends it, or a word
/// continues behind it.
fn phrase(text: &str, quote: char) -> Option<(String, &str)> {
    let mut phrase = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => phrase.push(chars.next()?.1),
            _ if c == quote => {
                let after = &text[at + c.len_utf8()..];
                return after.chars().next().is_none_or(char::is_whitespace).then_some((phrase, after));
            }
            _ => phrase.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_divides_words_and_not_phrases() {
        assert_eq!(words(" one\ttwo "), ["one", "two"]);
        assert_eq!(words(r#"a "b c" 'd "e' f"#), ["a", "b c", "d \"e", "f"]);
        assert_eq!(words(r#""say \"yes\" \\ no""#), [r#"say "yes" \ no"#]);
        assert_eq!(words("don't 'tis \"open"), ["don't", "'tis", "\"open"]);
        assert_eq!(words("'a'b \"\" ' '"), ["'a'b"]);
        assert_eq!(words("\u{3000}東京\u{3000}大阪"), ["東京", "大阪"]);
    }

    proptest::proptest! {
        #[test]
        fn any_text_has_words(text in r#"[a-c"'\\ é]{0,20}"#) {
            let found = words(&text);
            proptest::prop_assert!(found.iter().all(|word| !word.trim().is_empty()));
            proptest::prop_assert!(found.len() <= text.len());
        }
    }
}
