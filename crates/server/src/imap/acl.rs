//! SETACL, DELETEACL, GETACL, LISTRIGHTS, MYRIGHTS in IMAP's words (RFC 4314 §3): who may do what is for
//! [`sealpost_mailbox::rights`] to say. Identifiers are names of accounts; `-name` takes rights away.

use sealpost_account::rights::Rights;
use sealpost_imap::types::{AString, AclCommand, AclData, Mailbox, Response};
use sealpost_mailbox::rights::{AccessList, Granted, Grantee, RightsChange, access_list};

use super::reply::{Failure, Outcome, Reply};
use super::session::Session;

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
        let change = rights_change(rights)?;
        let to = self.grantee(identifier)?;
        let place = self.place(mailbox).await?;
        let (log, id) = (place.account.clone(), place.mailbox);
        let granted = self.sharing()?.grant(place, &to, change).await?;
        if granted == Granted::InPlace {
            return Ok(Reply::ok("SETACL completed"));
        }
        if self.view.as_ref().is_some_and(|view| view.is_at(&log, id)) {
            (self.view, self.moved) = (None, true);
        }
        Ok(Reply::ok("SETACL completed, the mailbox is shared now"))
    }

    async fn delete_acl(&mut self, mailbox: &Mailbox, identifier: &AString) -> Outcome {
        let from = self.grantee(identifier)?;
        let place = self.place(mailbox).await?;
        self.sharing()?.revoke(place, &from).await?;
        Ok(Reply::ok("DELETEACL completed"))
    }

    async fn get_acl(&mut self, mailbox: &Mailbox) -> Outcome {
        let AccessList { owner, entries } = access_list(self.place(mailbox).await?)?;
        let owner = owner.as_deref().unwrap_or(&self.user);
        let owner = (AString::from(owner), said(Rights::ALL));
        let others = entries.iter().map(|entry| {
            let sign = if entry.negative { "-" } else { "" };
            (AString::from(format!("{sign}{}", entry.name).as_str()), said(entry.rights))
        });
        let entries = [owner].into_iter().chain(others).collect();
        self.connection.out().response(&Response::Acl(AclData::Acl { mailbox: mailbox.clone(), entries }));
        Ok(Reply::ok("GETACL completed"))
    }

    async fn list_rights(&mut self, mailbox: &Mailbox, identifier: &AString) -> Outcome {
        let to = self.grantee(identifier)?;
        let place = self.place(mailbox).await?;
        let grantable = self.sharing()?.grantable(place, &to).await?;
        let (required, optional) = (said(grantable.always), each_of(grantable.each));
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
    fn grantee(&self, identifier: &AString) -> Result<Grantee, Reply> {
        let bad = || Reply::bad("that cannot be an identifier");
        let text = identifier.as_str().ok_or_else(bad)?;
        let (negative, name) = match text.strip_prefix('-') {
            Some(name) => (true, name),
            None => (false, text),
        };
        if name.eq_ignore_ascii_case("anyone") {
            return Ok(Grantee::Anyone);
        }
        let name = self.ctx.directory.account_name(name).map_err(|_| bad())?;
        Ok(Grantee::Account { name, negative })
    }
}

/// `mod-rights`
fn rights_change(rights: &AString) -> Result<RightsChange, Reply> {
    let text = rights.as_str().ok_or_else(|| Reply::bad("rights are letters"))?;
    let (change, letters): (fn(Rights) -> RightsChange, &str) = match text.as_bytes().first() {
        Some(b'+') => (RightsChange::Add, &text[1..]),
        Some(b'-') => (RightsChange::Remove, &text[1..]),
        _ => (RightsChange::Replace, text),
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

fn said(rights: Rights) -> AString {
    AString::from(rights.to_string().as_str())
}

/// These rights, none tied to another, the obsolete ones after them (RFC 4314 §2.1.1).
fn each_of(rights: Rights) -> Vec<AString> {
    let obsolete: &[char] = if rights.is_empty() { &[] } else { &['c', 'd'] };
    let letters = rights.letters().chain(obsolete.iter().copied());
    letters.map(|letter| AString::from(letter.to_string().as_str())).collect()
}
