//! Access control lists (RFC 4314 §7).

use super::Writer;
use crate::types::{AString, AclCommand, AclData};

impl Writer {
    /// The arguments of the command.
    pub(super) fn acl_command(&mut self, command: &AclCommand) -> &mut Self {
        self.space();
        match command {
            AclCommand::Get(mailbox) | AclCommand::MyRights(mailbox) => self.mailbox(mailbox),
            AclCommand::Delete { mailbox, identifier } | AclCommand::ListRights { mailbox, identifier } => {
                self.mailbox(mailbox).each_astring([identifier])
            }
            AclCommand::Set { mailbox, identifier, rights } => {
                self.mailbox(mailbox).each_astring([identifier, rights])
            }
        }
    }

    /// The response without its line end.
    pub(super) fn acl_data(&mut self, data: &AclData) -> &mut Self {
        match data {
            AclData::Acl { mailbox, entries } => {
                self.raw(b"* ACL ").mailbox(mailbox);
                self.each_astring(entries.iter().flat_map(|(identifier, rights)| [identifier, rights]))
            }
            AclData::ListRights { mailbox, identifier, required, optional } => {
                self.raw(b"* LISTRIGHTS ").mailbox(mailbox);
                self.each_astring([identifier, required].into_iter().chain(optional))
            }
            AclData::MyRights { mailbox, rights } => {
                self.raw(b"* MYRIGHTS ").mailbox(mailbox).each_astring([rights])
            }
        }
    }

    fn each_astring<'a>(&mut self, strings: impl IntoIterator<Item = &'a AString>) -> &mut Self {
        strings.into_iter().fold(self, |w, string| w.space().astring(string.as_bytes()))
    }
}
