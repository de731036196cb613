//! Suggests the existing name that a mistyped one probably means.

/// The nearest of `names`, if it is near enough. It may be the right key in another section.
pub fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_ascii_lowercase().replace('-', "_");
    let allowed = (name.len() / 3).clamp(1, 4);
    names
        .map(|candidate| {
            let whole = distance(&name, candidate);
            let short = distance(short(&name), short(candidate));
            // A wrong section costs one, like a typing error.
            (whole.min(short + 1), candidate)
        })
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

fn short(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(_, short)| short)
}

/// The edit distance of two names in bytes: insertions, removals and replacements.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_suggested() {
        let names = ["memory", "message_size", "listen.imap", "listen.imaps", "timeouts.imap", "log.level"];
        let nearest = |name| nearest(name, names.into_iter());
        assert_eq!(nearest("memmory"), Some("memory"));
        assert_eq!(nearest("message-size"), Some("message_size"));
        assert_eq!(nearest("lisen.imaps"), Some("listen.imaps"));
        assert_eq!(nearest("level"), Some("log.level"));
        assert_eq!(nearest("server.memory"), Some("memory"));
        assert_eq!(nearest("colour"), None);
    }

    #[test]
    fn distances() {
        assert_eq!((distance("", "abc"), distance("abc", "abc"), distance("kitten", "sitting")), (3, 0, 3));
    }
}
