//! SETACL, DELETEACL, GETACL, LISTRIGHTS, MYRIGHTS (RFC 4314 §3).
//!
//! A mailbox that was never shared has no list: its owner has all rights. The first right for somebody else makes it a
//! share (`sharing.rs`). Identifiers are names of accounts; `-name` takes rights away; `anyone` has none, ever
//! (`docs/decisions/0010-sharing.md`).

use sealpost_account::acl::Acl;
use sealpost_account::directory::{AccountName, AccountRecord};
use sealpost_account::rights::Rights;
use sealpost_imap::types::{AString, AclCommand, AclData, Code, Mailbox, Response};
use sealpost_mailbox::Access;
use sealpost_mailbox::resolve::ResolvedMailbox;

use super::reply::{Failure, Outcome, Reply};
use super::session::Session;

/// Whom an identifier means.
enum Identifier {
    /// An account's rights, or the ones taken away from it.
    Account { name: AccountName, negative: bool },
    /// Everybody.
    Anyone,
}

/// What SETACL does to rights (RFC 4314 §3.1).
#[derive(Clone, Copy)]
enum Change {
    Replace(Rights),
    Add(Rights),
    Remove(Rights),
}

impl Session {
    /// Runs one of the commands.
    pub(super) async fn acl(&mut self, command: &AclCommand) -> Outcome {
        match command {
            AclCommand::Set { mailbox, identifier, rights } => {
                self.set_acl(mailbox, identifier, rights).await
            }
            AclCommand::Delete { mailbox, identifier } => self.delete_acl(mailbox, identifier).await,
            AclCommand::Get(mailbox) => self.get_acl(mailbox).await,
            AclCommand::ListRights { mailbox, identifier } => self.list_rights(mailbox, identifier).await,
            AclCommand::MyRights(mailbox) => self.my_rights(mailbox).await,
        }
    }

    async fn set_acl(&mut self, mailbox: &Mailbox, identifier: &AString, rights: &AString) -> Outcome {
        let change = Change::parse(rights)?;
        let identifier = self.identifier(identifier)?;
        let place = self.place(mailbox).await?.require(Rights::ADMINISTER)?;
        let Identifier::Account { name, negative } = identifier else {
            if change.applied(Rights::NONE).is_empty() {
                return Ok(Reply::ok("SETACL completed"));
            }
            let text = "rights for anyone would include the operator, but only the owner and named users may \
                        read this mailbox";
            return Err(Reply::no(Code::Cannot, text).into());
        };
        let record = self.member(&name).await?;
        if owns(&place, &record) {
            let kept = if negative {
                Rights::ALL.without(change.applied(Rights::NONE))
            } else {
                change.applied(Rights::ALL)
            };
            return match kept {
                Rights::ALL => Ok(Reply::ok("SETACL completed")),
                _ => Err(Reply::no(Code::Cannot, "the owner always has all rights").into()),
            };
        }
        let set =
            |acl: &mut Acl| acl.set(record.id, record.name.as_str(), negative, |had| change.applied(had));
        match place.access {
            Access::Share { .. } => self.change_acl(&place, set).await?,
            Access::Own => {
                let mut acl = Acl::default();
                set(&mut acl)?;
                if acl.members().next().is_none() {
                    return Ok(Reply::ok("SETACL completed"));
                }
                let moved = self.view.as_ref().is_some_and(|view| view.is_at(&place.account, place.mailbox));
                let place = self.make_share(&place, &acl).await?;
                self.offer_to(&place, &record).await?;
                if moved {
                    (self.view, self.moved) = (None, true);
                }
                return Ok(Reply::ok("SETACL completed, the mailbox is shared now"));
            }
        }
        self.offer_to(&place, &record).await?;
        Ok(Reply::ok("SETACL completed"))
    }

    async fn delete_acl(&mut self, mailbox: &Mailbox, identifier: &AString) -> Outcome {
        let identifier = self.identifier(identifier)?;
        let place = self.place(mailbox).await?.require(Rights::ADMINISTER)?;
        let Identifier::Account { name, negative } = identifier else {
            return Ok(Reply::ok("DELETEACL completed"));
        };
        // An account that is gone can be taken off the list too.
        let record = self.ctx.directory.find(&name).await?;
        if record.as_ref().is_some_and(|record| !negative && owns(&place, record)) {
            return Err(Reply::no(Code::Cannot, "the owner always has all rights").into());
        }
        if let Access::Share { .. } = place.access {
            self.change_acl(&place, |acl| {
                acl.remove(name.as_str(), negative);
                Ok(())
            })
            .await?;
            // Without what was taken away there may be something left again.
            if let (true, Some(record)) = (negative, &record) {
                self.offer_to(&place, record).await?;
            }
        }
        Ok(Reply::ok("DELETEACL completed"))
    }

    async fn get_acl(&mut self, mailbox: &Mailbox) -> Outcome {
        let place = self.place(mailbox).await?.require(Rights::ADMINISTER)?;
        let mut entries = Vec::new();
        {
            let state = place.account.state();
            let about = state.about();
            let owner = match (&place.access, &about) {
                (Access::Own, _) | (Access::Share { .. }, None) => &self.user,
                (Access::Share { .. }, Some(about)) => &about.owner_name,
            };
            entries.push((AString::from(owner.as_str()), said(Rights::ALL)));
            for entry in state.acl().entries() {
                let sign = if entry.negative { "-" } else { "" };
                entries.push((AString::from(format!("{sign}{}", entry.name).as_str()), said(entry.rights)));
            }
        }
        self.connection.out().response(&Response::Acl(AclData::Acl { mailbox: mailbox.clone(), entries }));
        Ok(Reply::ok("GETACL completed"))
    }

    async fn list_rights(&mut self, mailbox: &Mailbox, identifier: &AString) -> Outcome {
        let who = self.identifier(identifier)?;
        let place = self.place(mailbox).await?.require(Rights::ADMINISTER)?;
        let none = || (said(Rights::NONE), Vec::new());
        let (required, optional) = match who {
            Identifier::Anyone => none(),
            Identifier::Account { name, negative } => {
                let record = self.member(&name).await?;
                match (owns(&place, &record), negative) {
                    (true, false) => (said(Rights::ALL), Vec::new()),
                    // The inbox cannot be shared.
                    _ if owns(&place, &record) || mailbox.is_inbox() => none(),
                    _ => (said(Rights::NONE), each_right()),
                }
            }
        };
        // RFC 4314 §3.4: the identifier as the client wrote it.
        let (mailbox, identifier) = (mailbox.clone(), identifier.clone());
        let data = AclData::ListRights { mailbox, identifier, required, optional };
        self.connection.out().response(&Response::Acl(data));
        Ok(Reply::ok("LISTRIGHTS completed"))
    }

    async fn my_rights(&mut self, mailbox: &Mailbox) -> Outcome {
        let place = self.place(mailbox).await?;
        self.tell_rights(mailbox, place.rights);
        Ok(Reply::ok("MYRIGHTS completed"))
    }

    /// The rights to a mailbox that LIST returns (RFC 8440 §3).
    pub(super) async fn tell_rights_of(&mut self, mailbox: &Mailbox) -> Result<(), Failure> {
        let rights = self.place(mailbox).await?.rights;
        self.tell_rights(mailbox, rights);
        Ok(())
    }

    /// `* MYRIGHTS`
    pub(super) fn tell_rights(&mut self, mailbox: &Mailbox, rights: Rights) {
        let data = AclData::MyRights { mailbox: mailbox.clone(), rights: said(rights) };
        self.connection.out().response(&Response::Acl(data));
    }

    /// Whom the identifier means, prepared the way that names at login are (RFC 4314 §3).
    fn identifier(&self, identifier: &AString) -> Result<Identifier, Reply> {
        let bad = || Reply::bad("that cannot be an identifier");
        let text = identifier.as_str().ok_or_else(bad)?;
        let (negative, name) = match text.strip_prefix('-') {
            Some(name) => (true, name),
            None => (false, text),
        };
        if name.eq_ignore_ascii_case("anyone") {
            return Ok(Identifier::Anyone);
        }
        let name = self.ctx.directory.account_name(name).map_err(|_| bad())?;
        Ok(Identifier::Account { name, negative })
    }

    async fn member(&self, name: &AccountName) -> Result<AccountRecord, Failure> {
        match self.ctx.directory.find(name).await? {
            Some(record) => Ok(record),
            None => Err(Reply::no(Code::Cannot, format!("there is no account {name}")).into()),
        }
    }

    /// Changes the list of a share, as one entry in its log, if the right to do so is still there.
    async fn change_acl(
        &self,
        place: &ResolvedMailbox,
        change: impl Fn(&mut Acl) -> sealpost_base::Result<()> + Send + Sync,
    ) -> Result<(), Failure> {
        let access = place.access;
        let committed = place.account.commit(|state| {
            if !access.rights(state).contains(Rights::ADMINISTER) {
                return Err(sealpost_base::Error::denied("you may no longer administer this mailbox"));
            }
            let before = state.acl();
            let mut acl = before.clone();
            change(&mut acl)?;
            Ok((if acl == before { Vec::new() } else { vec![acl.event()] }, ()))
        });
        committed.await?;
        Ok(())
    }
}

impl Change {
    /// `mod-rights`
    fn parse(rights: &AString) -> Result<Self, Reply> {
        let text = rights.as_str().ok_or_else(|| Reply::bad("rights are letters"))?;
        let (change, letters): (fn(Rights) -> Change, &str) = match text.as_bytes().first() {
            Some(b'+') => (Change::Add, &text[1..]),
            Some(b'-') => (Change::Remove, &text[1..]),
            _ => (Change::Replace, text),
        };
        // RFC 4314 §3.1: MUST be BAD.
        let rights = Rights::parse(letters).map_err(|letter| {
            Reply::bad(match letter {
                'A'..='Z' => "uppercase rights are not allowed".to_owned(),
                letter => format!("the {letter:?} right is not supported"),
            })
        })?;
        Ok(change(rights))
    }

    fn applied(self, had: Rights) -> Rights {
        match self {
            Change::Replace(rights) => rights,
            Change::Add(rights) => had.with(rights),
            Change::Remove(rights) => had.without(rights),
        }
    }
}

/// Whether the mailbox is that account's.
fn owns(place: &ResolvedMailbox, record: &AccountRecord) -> bool {
    match place.access {
        Access::Own => place.account.id() == record.id,
        Access::Share { user, owner } => match place.account.state().about() {
            Some(about) => about.owner == record.id,
            None => owner && user == record.id,
        },
    }
}

fn said(rights: Rights) -> AString {
    AString::from(rights.to_string().as_str())
}

/// All rights, none tied to another, the obsolete ones after them (RFC 4314 §2.1.1).
fn each_right() -> Vec<AString> {
    Rights::ALL.letters().chain(['c', 'd']).map(|letter| AString::from(letter.to_string().as_str())).collect()
}
