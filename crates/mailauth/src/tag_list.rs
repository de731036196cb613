//! Tag lists, `name=value; name=value`: signature fields and key records (RFC 6376 §3.2).

/// The tags of a list, in order, with values as they stand, white space around them removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagList<'a>(Vec<(&'a str, &'a str)>);

impl<'a> TagList<'a> {
    /// Parses `text`; `None` if it is no tag list, or if a tag occurs twice (RFC 6376 §3.2: such a
    /// list is invalid).
    pub fn parse(text: &'a str) -> Option<Self> {
        let mut tags: Vec<(&str, &str)> = Vec::new();
        let mut specs = text.split(';').peekable();
        while let Some(spec) = specs.next() {
            // RFC 6376 §3.2: one semicolon may stand after the last tag.
            if specs.peek().is_none() && !tags.is_empty() && trim(spec).is_empty() {
                break;
            }
            let (name, value) = spec.split_once('=')?;
            let (name, value) = (trim(name), trim(value));
            let is_new = tags.iter().all(|(other, _)| *other != name);
            if !is_name(name) || !is_value(value) || !is_new {
                return None;
            }
            tags.push((name, value));
        }
        Some(TagList(tags))
    }

    /// The value of the tag called `name`; names are case-sensitive.
    pub fn value(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(tag, _)| *tag == name).map(|(_, value)| *value)
    }

    /// The name of the first tag.
    pub fn first(&self) -> Option<&'a str> {
        self.0.first().map(|(name, _)| *name)
    }
}

/// `tag-name = ALPHA *ALNUMPUNC`
fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// `tval = 1*VALCHAR`, with folding white space between; empty too. UTF-8 is let in for RFC 8616.
fn is_value(value: &str) -> bool {
    value.chars().all(|c| is_space(c) || (c > ' ' && c != '\u{7f}'))
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

/// `text` without the white space around it.
pub(crate) fn trim(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// `text` without any white space: base64 and numbers may be folded anywhere.
pub(crate) fn without_space(text: &str) -> String {
    text.chars().filter(|c| !is_space(*c)).collect()
}

/// The items of a list whose separator is a colon, without white space around them (RFC 6376 §3.5,
/// tags `h=` and `q=`).
pub(crate) fn colon_list(text: &str) -> impl Iterator<Item = &str> {
    text.split(':').map(trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_parsed_and_duplicates_refused() {
        let list = TagList::parse(" v=1;\r\n a = rsa-sha256 ;b=ab c\r\n\td=; d_2=x; ").unwrap();
        assert_eq!(list.first(), Some("v"));
        assert_eq!(list.value("a"), Some("rsa-sha256"));
        assert_eq!(list.value("b"), Some("ab c\r\n\td="));
        assert_eq!(list.value("d_2"), Some("x"));
        assert_eq!(list.value("A"), None);
        for wrong in ["", ";", "v", "v=1;;a=b", "v=1;v=2", "1v=1", "v-1=1", "=1", "v=1;a=\u{1}", "v=1; ;"] {
            assert_eq!(TagList::parse(wrong), None, "{wrong:?}");
        }
        assert_eq!(TagList::parse("v=").unwrap().value("v"), Some(""));
    }

    #[test]
    fn colon_lists_drop_space() {
        assert_eq!(colon_list(" from : to:\r\n subject").collect::<Vec<_>>(), ["from", "to", "subject"]);
        assert_eq!(without_space(" a\r\n\tb c"), "abc");
    }
}
