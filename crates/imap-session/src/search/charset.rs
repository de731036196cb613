//! The charset that a SEARCH command names for its strings (RFC 3501 §6.4.4).

use sealpost_imap::types::AString;
use sealpost_mime::decode::charset;

/// How to decode the strings of a search.
pub(crate) struct Charset(Option<String>);

impl Charset {
    /// The charset with that name; `None` if it is unknown.
    pub(super) fn named(name: Option<&AString>) -> Option<Self> {
        if Charset::is_utf8(name) {
            return Some(Charset(None));
        }
        let name = name?.as_str()?;
        charset::is_known(name).then(|| Charset(Some(name.to_owned())))
    }

    /// Whether its text can be read as UTF-8: UTF-8 itself, its subset ASCII, or no charset.
    pub(crate) fn is_utf8(name: Option<&AString>) -> bool {
        let is = |name: &AString| {
            let known = ["us-ascii", "utf-8"];
            name.as_str().is_some_and(|name| known.iter().any(|known| name.eq_ignore_ascii_case(known)))
        };
        name.is_none_or(is)
    }

    /// Decodes a string. Without a charset, bytes outside ASCII are decoded by the most likely charset
    /// instead of being refused.
    pub(super) fn decode(&self, string: &AString) -> String {
        charset::decode(self.0.as_deref(), string.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charsets_are_those_that_are_known() {
        let named = |name: &str| Charset::named(Some(&AString::from(name)));
        assert!(named("utf-8").is_some() && named("US-ASCII").is_some() && named("koi8-r").is_some());
        assert!(named("klingon").is_none() && named("").is_none());
        let koi8 = named("KOI8-R").unwrap();
        assert_eq!(koi8.decode(&AString::new([0xd0, 0xd2]).unwrap()), "пр");
    }
}
