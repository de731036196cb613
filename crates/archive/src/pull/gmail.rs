//! Gmail has every message in All Mail, and once more in the folder of each of its labels. Each is
//! fetched once.

use sealpost_imap::types::MailboxAttribute;

use crate::client::{Capabilities, ListedMailbox};

/// The folders to pull: those that are `wanted`; on Gmail, if All Mail is one of them, only those
/// with messages that All Mail does not have: Spam and Trash. A message's labels are kept with its
/// flags.
pub fn once(
    capabilities: &Capabilities,
    folders: Vec<ListedMailbox>,
    wanted: &(dyn Fn(&ListedMailbox) -> bool + Send + Sync),
) -> Vec<ListedMailbox> {
    let has = |found: &ListedMailbox, attribute: &MailboxAttribute| found.attributes.contains(attribute);
    let folders: Vec<ListedMailbox> = folders.into_iter().filter(|found| wanted(found)).collect();
    let all_mail = folders.iter().any(|found| found.selectable && has(found, &MailboxAttribute::All));
    if !(capabilities.gmail() && all_mail) {
        return folders;
    }
    let alone = [MailboxAttribute::All, MailboxAttribute::Junk, MailboxAttribute::Trash];
    folders.into_iter().filter(|found| alone.iter().any(|attribute| has(found, attribute))).collect()
}

#[cfg(test)]
mod tests {
    use sealpost_imap::types::Atom;

    use super::*;
    use crate::backup::FolderName;

    fn folder(name: &str, attributes: &[MailboxAttribute]) -> ListedMailbox {
        ListedMailbox {
            name: FolderName::new(name, Some('/')),
            wire: name.as_bytes().into(),
            selectable: true,
            attributes: attributes.to_vec(),
            numbers: None,
        }
    }

    fn pulled(capability: &str, wanted: &(dyn Fn(&ListedMailbox) -> bool + Send + Sync)) -> Vec<String> {
        let folders = vec![
            folder("INBOX", &[]),
            folder("Work", &[]),
            folder("[Gmail]/All Mail", &[MailboxAttribute::All]),
            folder("[Gmail]/Spam", &[MailboxAttribute::Junk]),
            folder("[Gmail]/Sent Mail", &[MailboxAttribute::Sent]),
            folder("[Gmail]/Trash", &[MailboxAttribute::Trash]),
        ];
        let capabilities = Capabilities::new(&[Atom::new(capability).unwrap()]);
        once(&capabilities, folders, wanted).iter().map(|found| found.name.as_str().to_owned()).collect()
    }

    #[test]
    fn every_message_is_in_one_of_the_folders() {
        assert_eq!(pulled("X-GM-EXT-1", &|_| true), ["[Gmail]/All Mail", "[Gmail]/Spam", "[Gmail]/Trash"]);
        assert_eq!(pulled("IMAP4rev1", &|_| true).len(), 6);
        // A wanted folder is pulled if All Mail is not wanted.
        assert_eq!(pulled("X-GM-EXT-1", &|found| found.name.as_str() == "Work"), ["Work"]);
    }
}
