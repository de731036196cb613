//! The account that a backup belongs to: messages of another account are not put into it, and do
//! not put its folders aside.

use sealpost_base::{Error, Result};

use super::{Backup, Source};

/// Makes sure that `backup` is of the same account's mail as `from`, whose messages are to be put
/// into it, and records that unless it is only read.
///
/// # Errors
/// `Conflict` if it is of another account, or `from` records no account and `backup` does; the
/// backups' errors.
pub fn claim_like(backup: &dyn Backup, from: &dyn Backup, look: bool) -> Result<()> {
    match (from.source()?, backup.source()?) {
        (Some(source), _) => claim(backup, &source, false, look),
        (None, Some(owner)) if !backup.folders()?.is_empty() => Err(Error::conflict(format!(
            "the destination is a backup of the mail of {owner}, and the source does not name its account: \
             choose another directory"
        ))),
        (None, _) => Ok(()),
    }
}

/// Makes sure that `backup` is of `source`'s mail, and records that unless it is only read. A
/// backup that is unclaimed, or has no folders, accepts any account; `renamed`: the same mailbox
/// had another name.
///
/// # Errors
/// `Conflict` if it is of another account; the backup's errors.
pub(crate) fn claim(backup: &dyn Backup, source: &Source, renamed: bool, look: bool) -> Result<()> {
    let owner = backup.source()?;
    if owner.as_ref() == Some(source) {
        return Ok(());
    }
    if let Some(owner) = owner.filter(|_| !renamed)
        && !backup.folders()?.is_empty()
    {
        return Err(Error::conflict(format!(
            "the backup has the mail of {owner}, not of {source}: choose another directory, or, if the same \
             mailbox has a new host or user name, run `archive pull --source-renamed` once"
        )));
    }
    if look { Ok(()) } else { backup.set_source(source) }
}

#[cfg(test)]
mod tests {
    use sealpost_base::Kind;

    use super::*;
    use crate::backup::format_tests::{folder_name, identity};
    use crate::backup::imap_backup;

    #[test]
    fn copies_of_two_accounts_are_not_put_together() {
        let directory = tempfile::tempdir().unwrap();
        let backup_of = |name: &str, user: Option<&str>| {
            let backup = imap_backup::open(&directory.path().join(name)).unwrap();
            let source = user.map(|user| Source { host: "example.org".into(), user: user.into() });
            if let Some(source) = source {
                backup.set_source(&source).unwrap();
            }
            drop(backup.open(&folder_name("INBOX"), &identity(7)).unwrap());
            backup
        };
        let (ada, other, nobodys) =
            (backup_of("ada", Some("ada")), backup_of("other", Some("bob")), backup_of("plain", None));
        let refused = |backup: &dyn Backup, from: &dyn Backup| {
            claim_like(backup, from, false).err().is_some_and(|e| e.kind() == Kind::Conflict)
        };
        assert!(refused(&*ada, &*other) && refused(&*ada, &*nobodys));
        assert_eq!(ada.source().unwrap().unwrap().user, "ada");
        assert!(!refused(&*ada, &*backup_of("again", Some("ada"))));
        claim_like(&*nobodys, &*ada, true).unwrap();
        assert_eq!(nobodys.source().unwrap(), None);
        claim_like(&*nobodys, &*ada, false).unwrap();
        assert_eq!(nobodys.source().unwrap(), ada.source().unwrap());
    }
}
