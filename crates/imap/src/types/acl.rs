//! The commands and responses of access control lists (RFC 4314). Rights are strings here: which
//! letters there are is the server's business.

use super::mailbox::Mailbox;
use super::string::AString;

/// A client's command about an access control list (RFC 4314 §3.1 to §3.5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AclCommand {
    /// `SETACL`
    Set {
        /// The mailbox.
        mailbox: Mailbox,
        /// The grantee.
        identifier: AString,
        /// `mod-rights`: rights, or `+` or `-` and rights.
        rights: AString,
    },
    /// `DELETEACL`
    Delete {
        /// The mailbox.
        mailbox: Mailbox,
        /// The grantee to remove.
        identifier: AString,
    },
    /// `GETACL`
    Get(Mailbox),
    /// `LISTRIGHTS`
    ListRights {
        /// The mailbox.
        mailbox: Mailbox,
        /// The grantee.
        identifier: AString,
    },
    /// `MYRIGHTS`
    MyRights(Mailbox),
}

/// A server's response about access control lists (RFC 4314 §3.6 to §3.8).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AclData {
    /// `ACL`
    Acl {
        /// The mailbox.
        mailbox: Mailbox,
        /// Identifiers, each with its rights.
        entries: Vec<(AString, AString)>,
    },
    /// `LISTRIGHTS`
    ListRights {
        /// The mailbox.
        mailbox: Mailbox,
        /// The grantee.
        identifier: AString,
        /// Rights that are always granted.
        required: AString,
        /// Rights that can be granted; those of one string only together.
        optional: Vec<AString>,
    },
    /// `MYRIGHTS`
    MyRights {
        /// The mailbox.
        mailbox: Mailbox,
        /// The client's rights there.
        rights: AString,
    },
}

impl AclCommand {
    /// The command's name.
    pub fn name(&self) -> &'static str {
        match self {
            AclCommand::Set { .. } => "SETACL",
            AclCommand::Delete { .. } => "DELETEACL",
            AclCommand::Get(_) => "GETACL",
            AclCommand::ListRights { .. } => "LISTRIGHTS",
            AclCommand::MyRights(_) => "MYRIGHTS",
        }
    }
}
