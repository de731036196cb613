//! Names of mailboxes in [`AccountState::apply`]: renamed, deleted, subscribed to, and what they are for.

use std::collections::BTreeSet;

use sealpost_base::{MailboxId, Timestamp, limits};

use super::apply::tombstone;
use super::maps::Edit;
use super::visible::shows;
use super::{AccountState, Applied, INBOX};
use crate::event::SpecialUse;
use crate::metadata::{Change, Holder, SPECIAL_USE};
use crate::name;
use crate::sort_order;
use crate::special_use::SpecialUses;

impl AccountState {
    pub(super) fn rename(&mut self, id: MailboxId, to: &str) -> Applied {
        let Some(from) = self.mailboxes.get(&id).map(|m| m.name.clone()) else { return Applied::Nothing };
        let below_itself = to.strip_prefix(&from).is_some_and(|rest| rest.starts_with('/'));
        if from == INBOX || self.by_name.contains_key(to) || below_itself {
            return Applied::Nothing;
        }
        // RFC 3501 §6.3.5: inferior hierarchical names are renamed too.
        let inferiors = self.inferior_names(&from, to);
        self.move_names(std::iter::once((from, to.to_owned())).chain(inferiors).collect())
    }

    /// A level is no mailbox: what is below it moves.
    pub(super) fn rename_hierarchy(&mut self, from: &str, to: &str) -> Applied {
        let below_itself = to.strip_prefix(from).is_some_and(|rest| rest.starts_with('/'));
        if from == INBOX || from == to || below_itself || self.by_name.contains_key(from) {
            return Applied::Nothing;
        }
        self.move_names(self.inferior_names(from, to))
    }

    /// The names below `from`, and what they become below `to`.
    fn inferior_names(&self, from: &str, to: &str) -> Vec<(String, String)> {
        let prefix = format!("{from}/");
        let names = self.by_name.range(prefix.clone()..).map(|(name, _)| name);
        let names = names.take_while(|name| name.starts_with(&prefix));
        names.map(|name| (name.clone(), format!("{to}/{}", &name[prefix.len()..]))).collect()
    }

    /// All or none. A new name may be one of the old ones, which is free by then: `a/b` becomes `a`
    /// above `a/b/b`.
    fn move_names(&mut self, names: Vec<(String, String)>) -> Applied {
        let old: BTreeSet<&str> = names.iter().map(|(old, _)| old.as_str()).collect();
        let taken = |new: &str| self.by_name.contains_key(new) && !old.contains(new);
        if names.is_empty() || names.iter().any(|(_, new)| taken(new) || name::check(new).is_err()) {
            return Applied::Nothing;
        }
        let parents = self.parents_now();
        let ids: Vec<_> = names.iter().map(|(old, _)| self.by_name.remove(old)).collect();
        for (id, (_, new)) in ids.into_iter().zip(names) {
            let Some(id) = id else { continue };
            self.by_name.insert(new.clone(), id);
            if let Some(mailbox) = self.mailboxes.get_mut(&id) {
                mailbox.name = new;
                mailbox.properties_changed = self.position;
            }
        }
        if self.parents_now() != parents {
            self.parents_changed = self.position;
        }
        Applied::Done
    }

    pub(super) fn set_special_uses(&mut self, id: MailboxId, uses: SpecialUses) -> Applied {
        if !self.mailboxes.contains_key(&id) {
            return Applied::Nothing;
        }
        for mailbox in self.mailboxes.values_mut() {
            let now = if mailbox.id == id { uses } else { mailbox.special_uses.without(uses) };
            if now != mailbox.special_uses {
                mailbox.special_uses = now;
                mailbox.highest_modseq = self.position;
                mailbox.properties_changed = self.position;
                let holder = Holder::Mailbox(mailbox.id);
                let entry = SPECIAL_USE.to_owned();
                self.objects.note_change(Change { at: self.position, holder, entry });
            }
        }
        // What is in the trash counts in another way.
        self.forget_counts();
        Applied::Done
    }

    /// Whether an object changed, which may be of a mailbox: with an annotation that has a new
    /// HIGHESTMODSEQ (RFC 7162 §3.2), with a sort order other properties.
    pub(super) fn object_changed(&mut self, name: &str, changed: bool) -> Applied {
        if !changed {
            return Applied::Nothing;
        }
        if let Some((Holder::Mailbox(id), _)) = Holder::of_object(name)
            && let Some(mailbox) = self.mailboxes.get_mut(&id)
        {
            mailbox.highest_modseq = self.position;
        }
        if let Some(id) = sort_order::mailbox_of(name)
            && let Some(mailbox) = self.mailboxes.get_mut(&id)
        {
            mailbox.properties_changed = self.position;
        }
        Applied::Done
    }

    pub(super) fn delete(&mut self, id: MailboxId, at: Timestamp) -> Applied {
        match self.mailboxes.get(&id) {
            None => return Applied::Nothing,
            Some(m) if m.name == INBOX => return Applied::Nothing,
            Some(_) => {}
        }
        let recount = self.recount_all_of(id);
        let Some(mailbox) = self.mailboxes.remove(&id) else { return Applied::Nothing };
        self.by_name.remove(&mailbox.name);
        if self.changes_parents(&mailbox.name) {
            self.parents_changed = self.position;
        }
        match mailbox.link {
            None => {
                let validity = mailbox.uid_validity.0.get();
                self.departed.mailboxes.push([self.position.0, mailbox.created.0, validity.into()]);
            }
            // What clients call it is in the other log.
            Some(_) => self.departed.mailboxes.forget_up_to(self.position),
        }
        if mailbox.special_uses.contains(SpecialUse::Trash) {
            self.forget_counts();
        }
        // RFC 5464 §4.1: a mailbox that is made later under the same name does not inherit them.
        self.objects.remove_of(Holder::Mailbox(id));
        self.objects.remove(&sort_order::object_of(id), self.position);
        self.tombstones.extend(mailbox.all_rows().map(|row| tombstone(id, &row, at)));
        let mut edit = Edit::removing();
        for row in mailbox.all_rows() {
            edit.push(&mut self.maps, row.message, id, row.uid);
            if shows(self.flags.set(row.flags).system) {
                self.visibility().lose(row.message);
            }
        }
        edit.finish(&mut self.maps);
        self.recounted(recount);
        Applied::Done
    }

    pub(super) fn subscribe(&mut self, name: &str, on: bool) -> Applied {
        let changed = if !on {
            self.subscriptions.remove(name)
        } else if self.subscriptions.len() < limits::MAILBOXES && name.len() <= limits::MAILBOX_NAME_BYTES {
            self.subscriptions.insert(name.to_owned())
        } else {
            false
        };
        let (position, id) = (self.position, self.by_name.get(name));
        if let (true, Some(mailbox)) = (changed, id.and_then(|id| self.mailboxes.get_mut(id))) {
            mailbox.properties_changed = position;
        }
        if changed { Applied::Done } else { Applied::Nothing }
    }
}
