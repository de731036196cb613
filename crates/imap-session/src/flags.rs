//! Converts flags between the protocol and the account: names to sets, sets to names.

use std::sync::Arc;

use sealpost_account::rights::Rights;
use sealpost_account::state::{AccountState, FlagSetId, KeywordId, Mailbox};
use sealpost_account::{Account, FlagAction, Flags, SystemFlags};
use sealpost_base::limits;
use sealpost_imap::types::{Flag, StoreAction};
use sealpost_imap::write::Writer;
use sealpost_mailbox::flags::FLAG_RIGHTS;

use super::connection::{Connection, End};
use super::reply::Reply;

/// Flags of STORE or APPEND for the account. Only the server sets `\Recent`, so it is ignored (RFC 3501
/// §2.3.2).
///
/// # Errors
/// `BAD` for an unknown system flag: accepting it would promise to store it.
pub(super) fn from_wire(flags: &[Flag]) -> Result<Flags, Reply> {
    let mut out = Flags::default();
    for flag in flags {
        match flag {
            Flag::Seen => out.system = out.system.with(SystemFlags::SEEN),
            Flag::Answered => out.system = out.system.with(SystemFlags::ANSWERED),
            Flag::Flagged => out.system = out.system.with(SystemFlags::FLAGGED),
            Flag::Deleted => out.system = out.system.with(SystemFlags::DELETED),
            Flag::Draft => out.system = out.system.with(SystemFlags::DRAFT),
            Flag::Recent => {}
            Flag::Extension(name) => return Err(Reply::bad(format!("there is no system flag \\{name}"))),
            Flag::Keyword(name) => {
                if !out.keywords.iter().any(|k| k.eq_ignore_ascii_case(name.as_str())) {
                    out.keywords.push(name.as_str().to_owned());
                }
            }
        }
    }
    Ok(out)
}

/// The account's action for that of STORE.
pub(super) fn action(action: StoreAction) -> FlagAction {
    match action {
        StoreAction::Replace => FlagAction::Replace,
        StoreAction::Add => FlagAction::Add,
        StoreAction::Remove => FlagAction::Remove,
    }
}

/// `FLAGS (…)` of a FETCH response. The session decides on `recent`.
pub(super) fn write(out: &mut Writer, state: &AccountState, id: FlagSetId, recent: bool) {
    let set = state.flags(id);
    out.raw(b"FLAGS (");
    let mut first = true;
    let mut name = |out: &mut Writer, name: &str| {
        if !std::mem::take(&mut first) {
            out.space();
        }
        out.raw(name);
    };
    for system in set.system.names() {
        name(out, system);
    }
    for keyword in &set.keywords {
        name(out, state.keyword_name(*keyword));
    }
    if recent {
        name(out, "\\Recent");
    }
    out.close();
}

/// The flags in FLAGS and PERMANENTFLAGS (RFC 3501 §7.2.6, §7.1) at one moment: the system flags, and the
/// keywords that messages of the mailbox have had. They may take hundreds of kilobytes, so they are written
/// in pieces. The names stay in the account's state, where a keyword keeps its number.
pub(super) struct FlagList {
    account: Arc<Account>,
    keywords: Vec<KeywordId>,
    /// The rights of the user.
    rights: Rights,
    /// Whether the user may create keywords.
    any: bool,
}

impl FlagList {
    /// The flags of a mailbox of that account, for a user with these rights.
    pub(super) fn of(
        account: &Arc<Account>,
        state: &AccountState,
        mailbox: &Mailbox,
        rights: Rights,
    ) -> Self {
        let any = rights.contains(Rights::WRITE) && state.keywords().len() < limits::KEYWORDS;
        FlagList { account: account.clone(), keywords: mailbox.keywords().collect(), rights, any }
    }

    /// `* FLAGS (…)`
    pub(super) async fn write(&self, connection: &mut Connection) -> Result<(), End> {
        connection.out().raw(b"* FLAGS ");
        self.write_list(connection, FLAG_RIGHTS, false).await?;
        connection.out().crlf();
        Ok(())
    }

    /// `* OK [PERMANENTFLAGS (…)] text`: the flags that the user may change with these rights (RFC 4314 §4,
    /// §5.1.1), and `\*` if keywords can be created in that account.
    pub(super) async fn write_permanent(&self, connection: &mut Connection, text: &str) -> Result<(), End> {
        connection.out().raw(b"* OK [PERMANENTFLAGS ");
        self.write_list(connection, self.rights, self.any).await?;
        connection.out().raw(b"] ").raw(text).crlf();
        Ok(())
    }

    /// `(…)`
    async fn write_list(&self, connection: &mut Connection, rights: Rights, any: bool) -> Result<(), End> {
        let system = SYSTEM.iter().filter(|(_, right)| rights.contains(*right)).map(|(name, _)| *name);
        let system: Vec<&str> = system.collect();
        connection.out().raw(b"(").raw(system.join(" "));
        let mut between = if system.is_empty() { "" } else { " " };
        let keywords = if rights.contains(Rights::WRITE) { &self.keywords[..] } else { &[] };
        for some in keywords.chunks(LISTED_TOGETHER) {
            self.write_names(some, &mut between, connection.out());
            connection.relieve().await?;
        }
        if any {
            connection.out().raw(between).raw(b"\\*");
        }
        connection.out().close();
        Ok(())
    }

    fn write_names(&self, keywords: &[KeywordId], between: &mut &str, out: &mut Writer) {
        let state = self.account.state();
        for keyword in keywords {
            out.raw(std::mem::replace(between, " ")).raw(state.keyword_name(*keyword));
        }
    }
}

/// The system flags in the order of listing, each with the right to change it (RFC 4314 §4).
const SYSTEM: [(&str, Rights); 5] = [
    ("\\Answered", Rights::WRITE),
    ("\\Flagged", Rights::WRITE),
    ("\\Deleted", Rights::DELETE_MESSAGES),
    ("\\Seen", Rights::SEEN),
    ("\\Draft", Rights::WRITE),
];
/// Keywords whose names are written at once: about 4 KiB at the maximum length.
const LISTED_TOGETHER: usize = limits::IMAP_OUTPUT_FREE_BYTES / limits::KEYWORD_BYTES;

#[cfg(test)]
mod tests {
    use sealpost_imap::types::Atom;

    use super::*;

    #[test]
    fn recent_is_ignored_and_unknown_system_flags_are_not() {
        let flags = [Flag::Seen, Flag::Recent, Flag::new("$A").unwrap(), Flag::new("$a").unwrap()];
        let flags = from_wire(&flags).unwrap();
        assert_eq!(flags, Flags { system: SystemFlags::SEEN, keywords: vec!["$A".to_owned()] });
        assert!(from_wire(&[Flag::Extension(Atom::new("Starred").unwrap())]).is_err());
    }
}
