//! A client's view of the selected mailbox, and the changes still to report (RFC 3501 §7.3, §7.4, §5.2).
//!
//! The client uses sequence numbers, which are those of this view and not of the mailbox. The view changes
//! only in [`Selected::changes`], whose result must then be reported to the client. Expunges that may not be
//! reported now (RFC 3501 §7.4.1) stay in the view, so expunges and flags each have a reported position. A
//! client that caches mod-sequences must not assume more than was reported: [`Selected::due_modseq`].

use std::ops::RangeInclusive;
use std::sync::Arc;

use sealpost_account::rights::Rights;
use sealpost_account::state::{Mailbox, Row};
use sealpost_account::{Account, AccountState, Accounts, Reservation};
use sealpost_base::{MailboxId, ModSeq, Position, Uid, UidSet, UidValidity};
use sealpost_mailbox::changes::{self, KnownUpTo, MailboxChanges, Part};
use sealpost_mailbox::memory::SMALL_SETS;
use sealpost_mailbox::{Access, MailboxGone, OpenedMailbox, opened};

use super::contexts::{Contexts, Update};
use super::flags::FlagList;
use super::reply::Reply;

/// The selected mailbox as the client knows it.
///
/// While its session hibernates it has no account.
pub(super) struct Selected<A = Arc<Account>> {
    account: A,
    access: Access,
    /// The rights on which PERMANENTFLAGS is based.
    rights: Rights,
    mailbox: MailboxId,
    uid_validity: UidValidity,
    read_only: bool,
    uids: UidSet,
    recent: UidSet,
    /// The client does not know messages from this UID on.
    uid_next: Uid,
    /// The position up to which flags were reported.
    reported: Position,
    /// The position up to which expunges were reported.
    reported_expunges: Position,
    /// The mailbox's HIGHESTMODSEQ when everything was reported.
    whole: ModSeq,
    /// The highest MODSEQ in FETCH responses of the current command.
    written: ModSeq,
    /// Whether the next completion must have HIGHESTMODSEQ.
    owes: bool,
    /// Whether the client declined reports of flag changes (RFC 5465 §5.3): the mod-sequence up to which it
    /// knows everything then stays.
    frozen: bool,
    /// The number of keywords that FLAGS listed.
    keywords: usize,
    /// The value of `$`.
    saved: UidSet,
    /// Searches that are kept up to date.
    pub(super) contexts: Contexts,
    /// How often the mailbox access key was reset, as the client knows it; `None` if there is no key (RFC
    /// 4467).
    pub(super) key_resets: Option<u32>,
    /// The memory of the view, if it is large.
    charge: Option<Reservation>,
}

/// The selected mailbox.
///
/// # Errors
/// `BAD` outside the selected state.
pub(super) fn opened(selected: &mut Option<Selected>) -> Result<&mut Selected, Reply> {
    selected.as_mut().ok_or_else(|| Reply::bad("select a mailbox first"))
}

/// Rights that a client has given up by EXAMINE.
const CHANGES: Rights = Rights::SEEN.with(Rights::WRITE).with(Rights::DELETE_MESSAGES).with(Rights::EXPUNGE);

/// Flags that were sent to the client, or that it knows because it set them.
#[derive(Debug, Default)]
pub(super) struct AlreadySent {
    /// The messages.
    pub(super) uids: UidSet,
    /// The position at which they had these flags.
    pub(super) position: Position,
}

/// The changes to report to the client, in this order.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Expunged messages.
    pub(super) expunged: UidSet,
    /// Their sequence numbers, descending, so that each is correct when it is sent.
    pub(super) numbers: Vec<RangeInclusive<u32>>,
    /// New messages.
    pub(super) arrived: UidSet,
    /// Whether there are new keywords, or a different set of permitted flags.
    pub(super) keywords: bool,
    /// The first part of the messages whose flags changed after [`Changes::since`].
    pub(super) flags: Part,
    /// The position up to which the client knew flags.
    pub(super) since: ModSeq,
    /// Only messages below this UID: EXISTS reports new ones.
    pub(super) below: Option<Uid>,
}

impl<A> Selected<A> {
    /// Memory of the view, in bytes.
    fn bytes(&self) -> usize {
        let sets = [&self.uids, &self.recent, &self.saved].map(UidSet::range_count);
        (sets.iter().sum::<usize>() + self.contexts.ranges()) * UidSet::RANGE_BYTES
    }

    /// The bytes that the memory of the connection covers: all if it is small.
    pub(super) fn kept_bytes(&self) -> usize {
        if self.charge.is_some() { 0 } else { self.bytes() }
    }
}

impl Selected {
    /// A view of the mailbox in its present state.
    pub(super) fn new(
        account: Arc<Account>,
        access: Access,
        state: &AccountState,
        mailbox: &Mailbox,
        read_only: bool,
    ) -> Self {
        Selected {
            account,
            access,
            rights: if read_only { access.rights(state).without(CHANGES) } else { access.rights(state) },
            mailbox: mailbox.id(),
            uid_validity: mailbox.uid_validity(),
            read_only,
            uids: mailbox.uids(),
            recent: UidSet::new(),
            uid_next: mailbox.uid_next(),
            reported: state.position(),
            reported_expunges: state.position(),
            whole: mailbox.highest_modseq(),
            written: Position::ZERO,
            owes: false,
            frozen: false,
            keywords: mailbox.keywords().count(),
            // RFC 5182 §2.1: selecting a mailbox empties it.
            saved: UidSet::new(),
            contexts: Contexts::default(),
            key_resets: None,
            charge: None,
        }
    }

    /// The number of rows to scan for `\Deleted` messages.
    pub(super) fn rows_to_expunge(&self) -> usize {
        let state = self.account.state();
        // No message is \Deleted: no scan.
        state.mailbox(self.mailbox).map_or(0, |mailbox| if mailbox.deleted() > 0 { mailbox.len() } else { 0 })
    }

    /// Reserves the memory of the view, if it is large; returns whether there was enough.
    pub(super) fn weigh(&mut self, accounts: &Accounts) -> bool {
        let bytes = self.bytes();
        if bytes <= SMALL_SETS {
            self.charge = None;
            return true;
        }
        match &self.charge {
            Some(charge) => charge.try_set(bytes),
            None => {
                self.charge = accounts.try_reserve(bytes);
                self.charge.is_some()
            }
        }
    }

    /// The account whose log has the mailbox, which need not be the user's.
    pub(super) fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// The access with which it was opened.
    pub(super) fn access(&self) -> Access {
        self.access
    }

    /// Whether this is a view of that mailbox of that account.
    pub(super) fn is_at(&self, account: &Arc<Account>, mailbox: MailboxId) -> bool {
        Arc::ptr_eq(&self.account, account) && self.mailbox == mailbox
    }

    /// Whether the mailbox has keywords that FLAGS did not list.
    pub(super) fn misses_keywords(&self, mailbox: &Mailbox) -> bool {
        self.keywords < mailbox.keywords().count()
    }

    /// The present flags for FLAGS, which count as listed from now on.
    pub(super) fn listed(&mut self, state: &AccountState, mailbox: &Mailbox) -> FlagList {
        self.keywords = mailbox.keywords().count();
        FlagList::of(&self.account, state, mailbox, self.rights(state))
    }

    /// The client's rights in that state of the mailbox's log, without rights to change it if it was opened
    /// read-only.
    pub(super) fn rights(&self, state: &AccountState) -> Rights {
        let rights = self.access.rights(state);
        if self.read_only { rights.without(CHANGES) } else { rights }
    }

    /// The mailbox.
    pub(super) fn mailbox(&self) -> MailboxId {
        self.mailbox
    }

    /// Whether it was opened by EXAMINE.
    pub(super) fn read_only(&self) -> bool {
        self.read_only
    }

    /// The view, if the mailbox may be changed.
    ///
    /// # Errors
    /// `NO` if it was opened by EXAMINE.
    pub(super) fn writable(&self) -> Result<&Selected, Reply> {
        if self.read_only { Err(Reply::refused("the mailbox is open read-only")) } else { Ok(self) }
    }

    /// The UIDs of the messages; the n-th has sequence number n.
    pub(super) fn uids(&self) -> &UidSet {
        &self.uids
    }

    /// The messages that are `\Recent` for this session (RFC 3501 §2.3.2).
    pub(super) fn recent(&self) -> &UidSet {
        &self.recent
    }

    /// UIDVALIDITY.
    pub(super) fn uid_validity(&self) -> UidValidity {
        self.uid_validity
    }

    /// The value of `$` (RFC 5182 §2.1). It may have UIDs that are no longer in the view: they match nothing,
    /// and are never reused.
    pub(super) fn saved(&self) -> &UidSet {
        &self.saved
    }

    /// The position up to which the client knows expunges.
    pub(super) fn reported_expunges(&self) -> Position {
        self.reported_expunges
    }

    /// Sets `$`.
    pub(super) fn save(&mut self, found: UidSet) {
        self.saved = found;
    }

    /// The position up to which the client knows flags.
    pub(super) fn reported(&self) -> Position {
        self.reported
    }

    /// The sequence number of a message, from 1.
    pub(super) fn sequence(&self, uid: Uid) -> Option<u32> {
        self.uids.rank(uid).and_then(|rank| u32::try_from(rank + 1).ok())
    }

    /// The client does not know messages from this UID on.
    pub(super) fn uid_next(&self) -> Uid {
        self.uid_next
    }

    /// The number of messages.
    pub(super) fn len(&self) -> u32 {
        u32::try_from(self.uids.len()).unwrap_or(u32::MAX)
    }

    /// Marks the messages among `among`, from `first` on, as recent.
    pub(super) fn mark_recent(&mut self, among: &UidSet, first: Uid) {
        for (from, to) in among.ranges() {
            self.recent.insert_range(from.max(first), to);
        }
    }

    /// The selected mailbox, for work during which the session continues.
    pub(super) fn opened(&self) -> OpenedMailbox {
        let Selected { mailbox, uid_validity, access, .. } = *self;
        OpenedMailbox { account: self.account.clone(), mailbox, uid_validity, access }
    }

    /// The mailbox in that state, if it is still the one that was selected and may still be read (RFC 4314
    /// §5.1.1).
    pub(super) fn mailbox_in<'a>(&self, state: &'a AccountState) -> Result<&'a Mailbox, MailboxGone> {
        opened::find(state, self.mailbox, self.uid_validity, self.access)
    }

    /// Whether the mailbox is no longer the one that was selected, or may no longer be read.
    pub(super) fn is_gone(&self) -> bool {
        self.mailbox_in(&self.account.state()).is_err()
    }

    /// Updates the view; the caller must report the changes. Without `expunges`, expunged messages stay in
    /// the view. Leaves out flags that the client already knows, and without `flags` all of them.
    pub(super) fn changes(
        &mut self,
        state: &AccountState,
        expunges: bool,
        flags: bool,
        known: &AlreadySent,
    ) -> Result<Changes, MailboxGone> {
        let mailbox = self.mailbox_in(state)?;
        let highest = mailbox.highest_modseq();
        let up_to =
            KnownUpTo { flags: self.reported, expunges: self.reported_expunges, uid_next: self.uid_next };
        let MailboxChanges { created, updated, destroyed } =
            changes::since(mailbox, up_to, &self.uids, |row| self.is_news(row, known));
        let delayed = !expunges && !destroyed.is_empty();
        let mut changes = Changes {
            arrived: created,
            flags: updated,
            since: self.reported,
            below: Some(self.uid_next),
            ..Changes::default()
        };
        if expunges {
            changes.numbers = self.take_out(&destroyed);
            changes.expunged = destroyed;
        }
        // With very many changes it is not checked whether the client knows all: freezing is always safe.
        if !flags && !changes.flags.is_empty() {
            self.frozen = true;
            changes.flags = Part::default();
        }
        if mailbox.uid_next() > self.uid_next {
            self.uids = self.uids.union(&changes.arrived);
            self.uid_next = mailbox.uid_next();
        }
        let keywords = mailbox.keywords().count();
        // RFC 4314 §5.1.1: different rights, different PERMANENTFLAGS.
        let rights = self.rights(state);
        changes.keywords = keywords > self.keywords || rights != self.rights;
        self.keywords = keywords;
        self.rights = rights;
        self.reported = state.position();
        if !delayed {
            self.reported_expunges = state.position();
            self.whole = if self.frozen { self.whole } else { highest };
        }
        Ok(changes)
    }

    /// Expunged messages that leave the results of searches kept up to date, by the numbers that the client
    /// still has.
    pub(super) fn gone_from_contexts(&mut self, state: &AccountState) -> Vec<Update> {
        let mut contexts = std::mem::take(&mut self.contexts);
        let gone = match self.mailbox_in(state) {
            Ok(mailbox) => contexts.gone(mailbox, |uid| self.sequence(uid)),
            Err(MailboxGone) => Vec::new(),
        };
        self.contexts = contexts;
        gone
    }

    /// Applies only expunges to the view; the caller must report them.
    pub(super) fn expunges(&mut self, state: &AccountState) -> Result<Changes, MailboxGone> {
        let expunged = self.gone(self.mailbox_in(state)?);
        self.reported_expunges = state.position();
        Ok(Changes { numbers: self.take_out(&expunged), expunged, ..Changes::default() })
    }

    /// The messages of the view that no longer exist.
    fn gone(&self, mailbox: &Mailbox) -> UidSet {
        changes::vanished_since(mailbox, self.reported_expunges, &self.uids)
    }

    /// Removes these messages. Returns their numbers, descending, so that each is correct when it is sent.
    fn take_out(&mut self, gone: &UidSet) -> Vec<RangeInclusive<u32>> {
        let mut numbers = Vec::with_capacity(gone.range_count());
        for (first, last) in gone.ranges().rev() {
            if let (Some(first), Some(last)) = (self.sequence(first), self.sequence(last)) {
                numbers.push(first..=last);
            }
        }
        if !gone.is_empty() {
            self.uids = self.uids.difference(gone);
            self.recent = self.recent.difference(gone);
            self.saved = self.saved.difference(gone);
        }
        numbers
    }

    /// A part of the messages from that UID on whose flags changed after `since`, without known changes.
    pub(super) fn flags_changed(
        &self,
        mailbox: &Mailbox,
        since: ModSeq,
        from: Uid,
        below: Option<Uid>,
        known: &AlreadySent,
    ) -> Part {
        changes::updated(mailbox, since, from, below, |row| self.is_news(row, known))
    }

    /// Whether a change of that message must be reported.
    fn is_news(&self, row: &Row, known: &AlreadySent) -> bool {
        let is_new = row.modseq > known.position || !known.uids.contains(row.uid);
        is_new && self.uids.contains(row.uid)
    }

    /// The HIGHESTMODSEQ up to which everything was reported: flags, expunges and arrivals. At least 1, the
    /// smallest value in the grammar (RFC 7162 §7, `mod-sequence-value`).
    pub(super) fn whole(&self) -> u64 {
        self.whole.0.max(1)
    }

    /// Notes a MODSEQ in a FETCH response.
    pub(super) fn wrote_modseq(&mut self, modseq: ModSeq) {
        self.written = self.written.max(modseq);
    }

    /// Requires HIGHESTMODSEQ in the next completion.
    pub(super) fn owe_modseq(&mut self) {
        self.owes = true;
    }

    /// The HIGHESTMODSEQ to send before a command completes, if required.
    ///
    /// A client assumes that it knows everything up to the highest MODSEQ in a command's responses (RFC 7162
    /// §6). That is wrong if expunges are delayed, or if a row changed after the rest was reported;
    /// HIGHESTMODSEQ then corrects it.
    pub(super) fn due_modseq(&mut self) -> Option<u64> {
        let owes = std::mem::take(&mut self.owes);
        let written = std::mem::replace(&mut self.written, Position::ZERO);
        (owes || written > self.whole).then(|| self.whole())
    }
}

impl Selected {
    /// Releases the account.
    pub(super) fn release(self) -> Selected<()> {
        self.with(())
    }
}

impl Selected<()> {
    /// The same view, with the account again.
    pub(super) fn hold(self, account: Arc<Account>) -> Selected {
        self.with(account)
    }
}

impl<A> Selected<A> {
    fn with<B>(self, account: B) -> Selected<B> {
        Selected {
            account,
            access: self.access,
            rights: self.rights,
            mailbox: self.mailbox,
            uid_validity: self.uid_validity,
            read_only: self.read_only,
            uids: self.uids,
            recent: self.recent,
            uid_next: self.uid_next,
            reported: self.reported,
            reported_expunges: self.reported_expunges,
            whole: self.whole,
            written: self.written,
            owes: self.owes,
            frozen: self.frozen,
            keywords: self.keywords,
            saved: self.saved,
            contexts: self.contexts,
            key_resets: self.key_resets,
            charge: self.charge,
        }
    }
}

impl Changes {
    /// Whether there is nothing to report.
    pub(super) fn is_empty(&self) -> bool {
        self.expunged.is_empty() && self.arrived.is_empty() && !self.keywords && self.flags.is_empty()
    }
}
