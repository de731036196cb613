//! Which mailbox an archive goes to.

use std::path::Path;

use anyhow::{Result, anyhow};
use sealpost_account::name;
use sealpost_archive::discover::{Format, Found};

use super::Args;

/// The mailbox for `archive`, which was found below `path`.
pub fn mailbox(archive: &Found, path: &Path, args: &Args) -> Result<String> {
    let found = match &args.mailbox {
        Some(mailbox) => mailbox.clone(),
        // A message alone is called by its file's name, which says nothing about a mailbox.
        None if archive.format == Format::Eml && archive.path == path => "INBOX".to_owned(),
        None => tame(&archive.mailbox),
    };
    let found = match &args.below {
        Some(below) => format!("{}/{found}", below.trim_end_matches('/')),
        None => found,
    };
    let found = name::canonical(&found).into_owned();
    match name::check(&found) {
        Ok(()) => Ok(found),
        Err(e) => {
            let why = anyhow!("no mailbox can be called {found:?}; name one with --mailbox");
            Err(why.context(format!("{}: {e}", archive.path.display())))
        }
    }
}

/// A folder's name without what cannot be in a mailbox's.
fn tame(name: &str) -> String {
    let wrong = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    let levels = name.split('/').filter(|level| !level.is_empty());
    let levels: Vec<_> = levels.map(|level| level.replace(wrong, "_")).collect();
    if levels.is_empty() { "INBOX".to_owned() } else { levels.join("/") }
}

#[cfg(test)]
mod tests {
    use super::tame;

    #[test]
    fn names_are_tamed() {
        assert_eq!(tame("a//b\nc/"), "a/b_c");
        assert_eq!(tame("/"), "INBOX");
    }
}
