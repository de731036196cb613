//! The access control list of a shared mailbox (RFC 4314 §2).

use minicbor::{Decode, Encode};
use sealpost_base::{AccountId, Error, Result, limits};

use crate::rights::Rights;

/// The rights of other users. The owner has all rights and is not in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Acl {
    /// In the order in which the identifiers were first named.
    #[n(0)]
    entries: Vec<AclEntry>,
}

/// The rights of one identifier.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct AclEntry {
    /// The account: a later one with the same name does not inherit.
    #[n(0)]
    pub account: AccountId,
    /// Its name.
    #[n(1)]
    pub name: String,
    /// Whether the rights are denied instead of granted: the identifier begins with `-` (RFC 4314 §2).
    #[n(2)]
    pub negative: bool,
    /// The rights.
    #[n(3)]
    pub rights: Rights,
    /// Whether the account got its first right and was not yet offered the share. `None` in negative entries,
    /// and in entries of versions without this field.
    #[n(4)]
    offer_due: Option<bool>,
}

impl AclEntry {
    fn new(account: AccountId, name: &str, negative: bool, rights: Rights) -> Self {
        AclEntry { account, name: name.to_owned(), negative, rights, offer_due: None }
    }
}

impl Acl {
    /// Its entries.
    pub fn entries(&self) -> &[AclEntry] {
        &self.entries
    }

    /// The granted rights of an account without the denied ones.
    pub fn rights_of(&self, account: AccountId) -> Rights {
        let of = |negative| {
            let entries = self.entries.iter().filter(|e| e.account == account && e.negative == negative);
            entries.fold(Rights::NONE, |rights, entry| rights.with(entry.rights))
        };
        of(false).without(of(true))
    }

    /// The accounts that have any right.
    pub fn members(&self) -> impl Iterator<Item = &AclEntry> {
        self.entries.iter().filter(|e| !e.negative && !self.rights_of(e.account).is_empty())
    }

    /// Whether an account is to be offered the share: it has rights, and has got no offer since its first
    /// one. So changes of existing rights never make its log grow.
    pub fn is_offer_due(&self, account: AccountId) -> bool {
        let mut entries = self.entries.iter().filter(|e| e.account == account);
        entries.any(|e| e.offer_due == Some(true)) && !self.rights_of(account).is_empty()
    }

    /// Sets whether an account is to be offered the share.
    pub fn set_offer_due(&mut self, account: AccountId, is_due: bool) {
        let entries = self.entries.iter_mut().filter(|e| e.account == account && !e.negative);
        entries.for_each(|entry| entry.offer_due = Some(is_due));
    }

    /// The same list for another share, with no offers made yet.
    #[must_use]
    pub fn for_new_share(mut self) -> Self {
        let accounts: Vec<_> = self.entries.iter().map(|entry| entry.account).collect();
        accounts.into_iter().for_each(|account| self.set_offer_due(account, true));
        self
    }

    /// Sets the rights of an identifier; without rights it is removed from the list.
    ///
    /// # Errors
    /// `Limit` if the list is full.
    pub fn set(
        &mut self,
        account: AccountId,
        name: &str,
        negative: bool,
        change: impl FnOnce(Rights) -> Rights,
    ) -> Result<()> {
        let had = self.rights_of(account);
        // A removed account does not own its name; the account that now has it counts.
        self.entries.retain(|e| e.name != name || e.account == account);
        let at = self.entries.iter().position(|e| e.account == account && e.negative == negative);
        let rights = change(at.map_or(Rights::NONE, |at| self.entries[at].rights));
        match at {
            Some(at) if rights.is_empty() => drop(self.entries.remove(at)),
            Some(at) => self.entries[at].rights = rights,
            None if rights.is_empty() => {}
            None if self.entries.len() >= limits::ACL_ENTRIES => {
                let most = limits::ACL_ENTRIES;
                return Err(Error::limit(format!("a mailbox is shared with at most {most} identifiers")));
            }
            None => self.entries.push(AclEntry::new(account, name, negative, rights)),
        }
        self.note_change(account, had);
        Ok(())
    }

    /// Removes an identifier; returns whether it was there.
    pub fn remove(&mut self, name: &str, negative: bool) -> bool {
        let of = self.entries.iter().filter(|e| e.name == name && e.negative == negative);
        let had: Vec<_> = of.map(|e| (e.account, self.rights_of(e.account))).collect();
        self.entries.retain(|e| e.name != name || e.negative != negative);
        had.iter().for_each(|(account, had)| self.note_change(*account, *had));
        !had.is_empty()
    }

    /// An account that gets its first right becomes due for an offer; one without rights is not due.
    fn note_change(&mut self, account: AccountId, had: Rights) {
        match (had.is_empty(), self.rights_of(account).is_empty()) {
            (true, false) => self.set_offer_due(account, true),
            (_, true) => self.set_offer_due(account, false),
            (false, false) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRED: AccountId = AccountId([1; 16]);
    const CHRIS: AccountId = AccountId([2; 16]);

    fn rights(letters: &str) -> Rights {
        Rights::parse(letters).unwrap()
    }

    #[test]
    fn entries_are_added_changed_and_removed() {
        let mut acl = Acl::default();
        acl.set(FRED, "fred", false, |_| rights("lrs")).unwrap();
        acl.set(CHRIS, "chris", false, |_| rights("lr")).unwrap();
        acl.set(FRED, "fred", false, |had| had.with(rights("wi"))).unwrap();
        assert_eq!((acl.rights_of(FRED), acl.rights_of(CHRIS)), (rights("lrswi"), rights("lr")));
        acl.set(FRED, "fred", false, |had| had.without(rights("lrswi"))).unwrap();
        assert_eq!(acl.entries().len(), 1);
        assert!(acl.remove("chris", false) && !acl.remove("chris", false));
        assert_eq!(acl, Acl::default());
    }

    /// RFC 4314 §2: a negative right is part of the calculation, DELETEACL is not.
    #[test]
    fn negative_rights_are_subtracted() {
        let mut acl = Acl::default();
        acl.set(FRED, "fred", false, |_| rights("lrsw")).unwrap();
        acl.set(FRED, "fred", true, |_| rights("wx")).unwrap();
        assert_eq!(acl.rights_of(FRED), rights("lrs"));
        assert_eq!(acl.members().count(), 1);
        acl.remove("fred", false);
        assert_eq!((acl.rights_of(FRED), acl.members().count()), (Rights::NONE, 0));
    }

    #[test]
    fn a_new_account_of_an_old_name_does_not_inherit() {
        let mut acl = Acl::default();
        acl.set(FRED, "fred", false, |_| rights("lrsw")).unwrap();
        acl.set(CHRIS, "fred", false, |had| had.with(rights("l"))).unwrap();
        assert_eq!((acl.rights_of(CHRIS), acl.rights_of(FRED)), (rights("l"), Rights::NONE));
    }

    #[test]
    fn an_offer_is_due_once_for_each_grant() {
        let mut acl = Acl::default();
        let set = |acl: &mut Acl, negative, letters| {
            acl.set(FRED, "fred", negative, |_| rights(letters)).unwrap();
            acl.is_offer_due(FRED)
        };
        assert!(set(&mut acl, false, "lr") && !acl.is_offer_due(CHRIS));
        assert!(set(&mut acl, false, "lrs"), "until it was made");
        acl.set_offer_due(FRED, false);
        for letters in ["lr", "lrs", "lr"] {
            assert!(!set(&mut acl, false, letters) && !set(&mut acl, true, "s"));
        }
        assert!(!set(&mut acl, true, "lrs"), "nothing is left");
        assert!(set(&mut acl, true, "s"), "something is again");
        acl.set_offer_due(FRED, false);
        assert!(acl.remove("fred", false) && !acl.is_offer_due(FRED) && set(&mut acl, false, "lr"));
        acl.set_offer_due(FRED, false);
        assert!(!set(&mut acl, true, "lr") && acl.remove("fred", true) && acl.is_offer_due(FRED));
        acl.set_offer_due(FRED, false);
        assert!(acl.clone().for_new_share().is_offer_due(FRED) && !acl.is_offer_due(FRED));
    }

    /// A list of a version without offers, and a present one as read by such a version.
    #[test]
    fn lists_of_earlier_versions_are_read() {
        #[derive(Encode, Decode)]
        struct Before(#[n(0)] Vec<(AccountId, String, bool, Rights)>);
        let before = Before(vec![(FRED, "fred".to_owned(), false, rights("lr"))]);
        let read: Acl = minicbor::decode(&minicbor::to_vec(&before).unwrap()).unwrap();
        assert!(read.rights_of(FRED) == rights("lr") && !read.is_offer_due(FRED));
        assert_eq!(minicbor::to_vec(&read).unwrap(), minicbor::to_vec(&before).unwrap());
    }

    #[test]
    fn the_list_is_bounded_and_fits_into_an_object() {
        let mut acl = Acl::default();
        let long = "n".repeat(limits::LOCAL_PART_BYTES + limits::DOMAIN_BYTES + 1);
        for n in 0..limits::ACL_ENTRIES {
            let id = AccountId([n as u8; 16]);
            let name = format!("{long}{n}");
            acl.set(id, &name[name.len() - long.len()..], n % 2 == 1, |_| Rights::ALL).unwrap();
        }
        let full = acl.set(AccountId([255; 16]), "one", false, |_| Rights::ALL).unwrap_err();
        assert_eq!(full.kind(), sealpost_base::Kind::Limit);
        assert!(minicbor::to_vec(&acl).unwrap().len() <= limits::ACCOUNT_OBJECT_BYTES);
    }
}
