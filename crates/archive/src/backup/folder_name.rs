//! [`FolderName`]: the name of a folder on the server.

use std::fmt;

/// A folder's name, in UTF-8, and its hierarchy delimiter; `None`: it has none.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FolderName {
    name: Box<str>,
    delimiter: Option<char>,
}

impl FolderName {
    /// A name from its UTF-8 form.
    pub fn new(name: impl Into<Box<str>>, delimiter: Option<char>) -> Self {
        FolderName { name: name.into(), delimiter }
    }

    /// The name, as the server writes it, decoded.
    pub fn as_str(&self) -> &str {
        &self.name
    }

    /// What separates its levels on the server.
    pub fn delimiter(&self) -> Option<char> {
        self.delimiter
    }

    /// Its levels, from the top.
    pub fn levels(&self) -> impl Iterator<Item = &str> {
        // NUL cannot be part of a name that came over IMAP.
        self.name.split(self.delimiter.unwrap_or('\0'))
    }
}

impl fmt::Display for FolderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_levels() {
        let levels = |name: &str, delimiter| {
            FolderName::new(name, delimiter).levels().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(levels("a/b.c", Some('/')), ["a", "b.c"]);
        assert_eq!(levels("a/b.c", Some('.')), ["a/b", "c"]);
        assert_eq!(levels("a/b.c", None), ["a/b.c"]);
    }
}
