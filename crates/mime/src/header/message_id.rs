//! Message identifiers (RFC 5322 §3.6.4, obsolete forms of §4.5.4), in their normal form for
//! comparison.
//!
//! THREAD compares identifiers, not spellings: `<"a"@b>` and `<a@b>` are the same one (RFC 5256 §3,
//! REFERENCES). Comparisons are case-sensitive.

/// The identifiers in `value`, in order and without their angle brackets: quoted strings and quoted
/// pairs unquoted, comments and white space removed. Text without an `@` between two non-empty
/// parts is not an identifier.
pub fn parse_list(value: &str) -> impl Iterator<Item = String> + '_ {
    let mut parser = Parser { rest: value };
    std::iter::from_fn(move || parser.next_id())
}

struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    fn next_id(&mut self) -> Option<String> {
        while let Some(c) = self.next() {
            match c {
                '(' => self.comment(),
                // A phrase in the obsolete syntax may be quoted, and may contain the form of an
                // identifier.
                '"' => drop(self.quoted()),
                '<' => {
                    if let Some(id) = self.bracketed() {
                        return Some(id);
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// The text after `<`, up to `>`. A second `<` starts again: the first one was something else.
    fn bracketed(&mut self) -> Option<String> {
        let mut id = String::new();
        let mut at = None;
        while let Some(c) = self.next() {
            match c {
                '>' => return at.filter(|at| *at > 0 && at + 1 < id.len()).map(|_| id),
                '<' => {
                    id.clear();
                    at = None;
                }
                '(' => self.comment(),
                '"' => id.push_str(&self.quoted()),
                '\\' => id.extend(self.next()),
                c if c.is_whitespace() => {}
                c => {
                    if c == '@' {
                        at = Some(id.len());
                    }
                    id.push(c);
                }
            }
        }
        None
    }

    /// The rest of a quoted-string, unquoted; an unclosed one extends to the end.
    fn quoted(&mut self) -> String {
        let mut text = String::new();
        while let Some(c) = self.next() {
            match c {
                '"' => break,
                '\\' => text.extend(self.next()),
                c => text.push(c),
            }
        }
        text
    }

    /// Skips the rest of a comment; nested ones are counted.
    fn comment(&mut self) {
        let mut depth = 1usize;
        while depth > 0
            && let Some(c) = self.next()
        {
            match c {
                '\\' => drop(self.next()),
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
        }
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(value: &str) -> Vec<String> {
        parse_list(value).collect()
    }

    #[test]
    fn lists_of_identifiers() {
        assert_eq!(ids("<1234@local.machine.example>"), ["1234@local.machine.example"]);
        assert_eq!(
            ids("<1234@local.machine.example> <3456@example.net>"),
            ["1234@local.machine.example", "3456@example.net"]
        );
        assert_eq!(ids("<a@b><c@d>,<e@f>"), ["a@b", "c@d", "e@f"]);
        assert_eq!(ids("<a@[127.0.0.1]>"), ["a@[127.0.0.1]"]);
        assert_eq!(ids(""), [""; 0]);
    }

    /// RFC 5256 §3.
    #[test]
    fn spellings_of_one_identifier_are_one() {
        for spelling in [
            "<01KF8JCEOCBS0045PS@xxx.yyy.com>",
            "<\"01KF8JCEOCBS0045PS\"@xxx.yyy.com>",
            "<01KF8JCEOCBS0045PS@xxx(a comment).yyy.com >",
            "<\"01KF8\\JCEOCBS0045PS\"@xxx.yyy.com>",
        ] {
            assert_eq!(ids(spelling), ["01KF8JCEOCBS0045PS@xxx.yyy.com"], "{spelling}");
        }
        assert_eq!(ids("<A@b> <a@b>"), ["A@b", "a@b"]);
    }

    #[test]
    fn old_and_broken_forms() {
        assert_eq!(ids("Your message of Monday <a@b> (yes, <c@d>)"), ["a@b"]);
        assert_eq!(ids("\"x <c@d>\" <a@b>"), ["a@b"]);
        assert_eq!(ids("<broken <a@b>"), ["a@b"]);
        assert_eq!(ids("<> <a> <@> <a@> <@b> a@b"), [""; 0]);
        assert_eq!(ids("<a@b"), [""; 0]);
        assert_eq!(ids("<a\r\n @b>"), ["a@b"]);
    }

    #[test]
    fn openings_without_an_end_are_linear() {
        assert_eq!(ids(&"<(".repeat(100_000)), [""; 0]);
        assert_eq!(ids(&"<".repeat(100_000)), [""; 0]);
    }
}
