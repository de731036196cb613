//! The mailbox for an archive.

use std::path::Path;

use sealpost_account::name;
use sealpost_base::Result;
use sealpost_mailformat::discover::{Format, FoundArchive};

use super::Args;

/// The mailbox for `archive`, which was found below `path`.
///
/// # Errors
/// If no mailbox can be called so.
pub fn mailbox(archive: &FoundArchive, path: &Path, args: &Args) -> Result<String> {
    let found = match &args.mailbox {
        Some(mailbox) => mailbox.clone(),
        // A message alone is called by its file's name, which says nothing about a mailbox.
        None if archive.format == Format::Eml && archive.path == path => "INBOX".to_owned(),
        None => tame(&archive.mailbox),
    };
    let found = name::normal(&below(args.prefix.as_deref(), &found)).into_owned();
    name::check(&found).map_err(|e| {
        e.context(format!("{found:?} cannot be the name of a mailbox; choose one with --mailbox"))
    })?;
    Ok(found)
}

/// The mailbox called `name`, below that of the command line.
pub fn below(prefix: Option<&str>, name: &str) -> String {
    match prefix {
        Some(prefix) => format!("{}/{name}", prefix.trim_end_matches('/')),
        None => name.to_owned(),
    }
}

/// A folder's name without what cannot be in a mailbox's.
pub fn tame(name: &str) -> String {
    let wrong = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    let levels = name.split('/').filter(|level| !level.is_empty());
    let levels: Vec<_> = levels.map(|level| level.replace(wrong, "_")).collect();
    if levels.is_empty() { "INBOX".to_owned() } else { levels.join("/") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_tamed() {
        assert_eq!(tame("a//b\nc/"), "a/b_c");
        assert_eq!(tame("/"), "INBOX");
        assert_eq!(below(Some("Old/"), "a"), "Old/a");
    }
}
