//! Superseded folders: backups of mailboxes whose UIDVALIDITY changed.

use std::collections::BTreeMap;

use super::FolderName;

/// The notice that a folder is superseded: it no longer belongs to the backup, and is restored from
/// only on request.
pub(super) fn superseded_notice(folder: &FolderName, before: u32, now: u32, place: &str) -> String {
    let became = if before == now { String::new() } else { format!(" (UIDVALIDITY {before} became {now})") };
    format!(
        "{folder}: the server has a new mailbox with this name{became}; the backup's old folder is superseded \
         and is now {place}; --include-superseded restores and exports it"
    )
}

/// The names of superseded folders: each is its folder's name with the UIDVALIDITY, and a number if
/// that name is taken.
pub(super) fn name_superseded<T>(
    superseded: impl Iterator<Item = (String, u32, T)>,
    is_taken: impl Fn(&str) -> bool,
) -> BTreeMap<String, T> {
    let mut named = BTreeMap::new();
    for (folder, uidvalidity, one) in superseded {
        let plain = format!("{folder}-{uidvalidity}");
        let numbered = (1u32..).map(|n| format!("{plain}-{n}"));
        let mut names = std::iter::once(plain.clone()).chain(numbered);
        let name = names.find(|name| !is_taken(name) && !named.contains_key(name));
        named.insert(name.unwrap_or(plain), one);
    }
    named
}
