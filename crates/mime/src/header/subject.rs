//! The base subject (RFC 5256 §2.1): a subject without the marks of replies, forwards and lists.
//! All servers have to agree on it, so it follows exactly that algorithm.

use std::borrow::Cow;

/// A base subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseSubject<'a> {
    /// Without marks. Not folded: compare it by [`crate::collate`].
    pub text: Cow<'a, str>,
    /// A mark of a reply or a forward was removed (RFC 5256 §3, REFERENCES).
    pub reply: bool,
}

/// The base of a decoded subject.
pub fn base(subject: &str) -> BaseSubject<'_> {
    // (1) Tabs and line ends are spaces, several spaces are one.
    match one_spaced(subject) {
        Cow::Borrowed(spaced) => {
            let (text, reply) = without_marks(spaced);
            BaseSubject { text: Cow::Borrowed(text), reply }
        }
        Cow::Owned(spaced) => {
            let (text, reply) = without_marks(&spaced);
            BaseSubject { text: Cow::Owned(text.to_owned()), reply }
        }
    }
}

fn without_marks(spaced: &str) -> (&str, bool) {
    let (mut text, mut reply) = (spaced, false);
    loop {
        // (2)
        (text, reply) = without_trailers(text, reply);
        // (3) to (5)
        (text, reply) = without_leaders(text, reply);
        // (6)
        match forwarded(text) {
            Some(inner) => (text, reply) = (inner, true),
            None => return (text, reply),
        }
    }
}

fn one_spaced(subject: &str) -> Cow<'_, str> {
    let space = |byte: u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let bytes = subject.as_bytes();
    let spaced = bytes.iter().all(|byte| *byte == b' ' || !space(*byte))
        && !bytes.windows(2).any(|pair| pair == b"  ");
    if spaced {
        return Cow::Borrowed(subject);
    }
    let mut out = String::with_capacity(subject.len());
    for c in subject.chars() {
        match c {
            ' ' | '\t' | '\r' | '\n' if out.ends_with(' ') => {}
            ' ' | '\t' | '\r' | '\n' => out.push(' '),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// `subj-trailer = "(fwd)" / WSP`
fn without_trailers(mut text: &str, mut reply: bool) -> (&str, bool) {
    loop {
        text = text.trim_end_matches(' ');
        let Some(rest) = strip_suffix(text, "(fwd)") else { return (text, reply) };
        (text, reply) = (rest, true);
    }
}

/// `subj-leader = (*subj-blob subj-refwd) / WSP`, and blobs as long as something is left without them.
///
/// Step (4) removes one blob and step (3) then examines the next ones again. Only blobs can be
/// skipped on the way to a `subj-refwd`, so a run of blobs is decided at once.
fn without_leaders(mut text: &str, mut reply: bool) -> (&str, bool) {
    loop {
        text = text.trim_start_matches(' ');
        let (mut rest, mut last) = (text, text);
        while let Some(after) = blob(rest) {
            (rest, last) = (after, rest);
        }
        match refwd(rest) {
            Some(after) => (text, reply) = (after, true),
            // The last blob is the subject if there is nothing else.
            None if rest.is_empty() => return (last, reply),
            None => return (rest, reply),
        }
    }
}

/// `subj-blob = "[" *BLOBCHAR "]" *WSP`: returns the text after it.
fn blob(text: &str) -> Option<&str> {
    let inside = text.strip_prefix('[')?;
    let end = inside.find(['[', ']']).filter(|end| inside.as_bytes()[*end] == b']')?;
    Some(inside[end + 1..].trim_start_matches(' '))
}

/// `subj-refwd = ("re" / ("fw" ["d"])) *WSP [subj-blob] ":"`: returns the text after it.
fn refwd(text: &str) -> Option<&str> {
    let rest = ["re", "fwd", "fw"].iter().find_map(|word| strip_prefix(text, word))?;
    let rest = rest.trim_start_matches(' ');
    blob(rest).unwrap_or(rest).strip_prefix(':')
}

/// `subj-fwd = subj-fwd-hdr subject subj-fwd-trl`: returns the text inside.
fn forwarded(text: &str) -> Option<&str> {
    strip_prefix(text, "[fwd:")?.strip_suffix(']')
}

fn strip_prefix<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let (head, rest) = text.split_at_checked(word.len())?;
    head.eq_ignore_ascii_case(word).then_some(rest)
}

fn strip_suffix<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let (rest, tail) = text.split_at_checked(text.len().checked_sub(word.len())?)?;
    tail.eq_ignore_ascii_case(word).then_some(rest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn based(subject: &str) -> (String, bool) {
        let base = base(subject);
        (base.text.into_owned(), base.reply)
    }

    #[test]
    fn marks_are_removed() {
        for (subject, text, reply) in [
            ("subject", "subject", false),
            ("", "", false),
            ("  spaces\t and\r\n tabs  ", "spaces and tabs", false),
            ("Re: subject", "subject", true),
            ("RE:subject", "subject", true),
            ("re : subject", "subject", true),
            ("Fw: subject", "subject", true),
            ("Fwd: subject", "subject", true),
            ("Re: Fwd: RE: subject", "subject", true),
            ("Re[2]: subject", "subject", true),
            ("Re [list] : subject", "subject", true),
            ("Re [list]: subject", "subject", true),
            ("[list] subject", "subject", false),
            ("[a] [b] subject", "subject", false),
            ("[a] Re: [b] subject", "subject", true),
            ("[a][b]Re: subject", "subject", true),
            ("[list]", "[list]", false),
            ("[a] [b]", "[b]", false),
            ("Re: [list]", "[list]", true),
            ("[list] Re:", "", true),
            ("subject (fwd)", "subject", true),
            ("subject (FWD) (fwd) ", "subject", true),
            ("(fwd)", "", true),
            ("[fwd: subject]", "subject", true),
            ("[Fwd: Re: [list] subject]", "subject", true),
            ("Re: [fwd: [fwd: subject (fwd)]]", "subject", true),
            ("[fwd: subject] more", "more", false),
            ("[fwd:]", "", true),
            ("[fwd: x", "[fwd: x", false),
            ("[unclosed Re: x", "[unclosed Re: x", false),
            ("[a [b] c", "[a [b] c", false),
            ("reply", "reply", false),
            ("Re", "Re", false),
            ("Re:", "", true),
            ("AW: subject", "AW: subject", false),
            ("Grüße (fwd)", "Grüße", true),
            ("é", "é", false),
        ] {
            assert_eq!(based(subject), (text.to_owned(), reply), "{subject:?}");
        }
    }

    #[test]
    fn hostile_subjects_take_linear_time() {
        let n = 100_000;
        assert_eq!(based(&"[a]".repeat(n)).0, "[a]");
        assert_eq!(based(&format!("{}x", "[a]".repeat(n))).0, "x");
        assert_eq!(based(&"[fwd:".repeat(n)).0, "[fwd:".repeat(n));
        assert_eq!(based(&format!("{}{}", "[fwd:".repeat(n), "]".repeat(n))).0, "");
        assert_eq!(based(&"re: ".repeat(n)), (String::new(), true));
        assert_eq!(based(&"(fwd)".repeat(n)), (String::new(), true));
        assert_eq!(based(&"[a] re ".repeat(n)).0.len(), "[a] re ".len() * n - 5);
    }

    proptest! {
        /// RFC 5256 §2.1 (5): no matches remain.
        #[test]
        fn the_base_of_a_base_is_itself(
            parts in proptest::collection::vec(proptest::sample::select(&[
                "re", ":", "fwd", "[", "]", "[fwd:", "(fwd)", " ", "x", "é", "[a]", "Re: ",
            ][..]), 0..12)
        ) {
            let parts = parts.concat();
            let once = base(&parts);
            let twice = base(&once.text);
            prop_assert_eq!(&twice.text, &once.text);
            prop_assert!(!twice.reply);
        }
    }
}
