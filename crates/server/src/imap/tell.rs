//! Telling the client what changed in the selected mailbox: EXPUNGE or VANISHED, EXISTS, RECENT, FLAGS, FETCH
//! (RFC 3501 §7.2.6, §7.3, §7.4; RFC 7162 §3.2.10; RFC 9586 §3.6), at the end of commands and in IDLE.

use sealpost_account::account::Committed;
use sealpost_account::event::Event;
use sealpost_account::{AccountState, Reservation};
use sealpost_base::{AccountId, ModSeq, Position, Uid, UidSet, limits};
use sealpost_imap::types::{Code, Response, Status};
use sealpost_mailbox::changes;
use sealpost_mailbox::memory::reserve;
use tokio::task::yield_now;

use super::connection::End;
use super::flags;
use super::notify::Selected;
use super::reply::{Failure, Reply};
use super::session::Session;
use super::view::{Changes, Told, View};

/// Rows looked at while the account's state is held.
const BATCH_ROWS: usize = 256;

/// Bytes of responses after which a batch ends.
const BATCH_BYTES: usize = limits::IMAP_OUTPUT_FREE_BYTES;

/// Ranges in one VANISHED response: lines that clients can take (RFC 7162 §4).
const VANISHED_RANGES: usize = 400;

/// What the client may be told at the end of a command.
#[derive(Default)]
pub(super) struct Telling {
    /// Nothing: SELECT says how the mailbox was when it was opened, and the next command what changed since.
    pub(super) nothing: bool,
    /// Expunges too (RFC 3501 §7.4.1).
    pub(super) expunges: bool,
    /// FETCH responses carry the UID: those caused by a UID command must (RFC 3501 §6.4.8).
    pub(super) uid: bool,
    /// Flags that it knows already.
    pub(super) known: Told,
    /// Messages whose flags it is told whether or not they changed.
    pub(super) flags: UidSet,
    /// Messages of which it is told the mod-sequence at least.
    pub(super) modseqs: UidSet,
    /// The command takes messages out: that is told whatever else the client wants to know.
    pub(super) takes_out: bool,
    /// The command is one that changes something: what is new by one log entry is the client's own doing.
    pub(super) own: bool,
    /// Room for the sets, if they are much.
    pub(super) room: Option<Reservation>,
}

/// What of a message is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Items {
    /// FLAGS, and MODSEQ if the client wants it.
    Flags,
    /// MODSEQ alone.
    ModSeq,
}

impl Telling {
    /// Everything that changed.
    pub(super) fn everything() -> Self {
        Telling { expunges: true, ..Telling::default() }
    }
}

impl Session {
    /// Brings client and view up to date, as far as `telling` and NOTIFY allow.
    pub(super) async fn tell(&mut self, telling: &Telling) -> Result<(), End> {
        self.tell_url_mechanisms();
        if self.view.is_some() {
            self.warn_of_quota();
        }
        if self.watch.is_none() {
            // NOTIFY says for itself whether metadata is among what is told (RFC 5465 §5.6).
            if self.metadata.is_some() {
                Box::pin(self.tell_metadata()).await?;
            }
        }
        let wanted = match &self.watch {
            Some(watch) => watch.selected().clone(),
            None => Selected::default(),
        };
        if self.watch.is_none() || wanted.messages {
            // Waiting sessions come by here: they are not to be as large as this is.
            Box::pin(self.tell_selected(telling, &wanted)).await?;
        } else {
            // RFC 5465 §3.1: of the selected mailbox the client wants to know nothing but what it does itself.
            if telling.takes_out {
                Box::pin(self.tell_taken_out()).await?;
            }
            Box::pin(self.tell_rows(&telling.flags, Items::Flags, telling.uid)).await?;
            if self.dialect.modseq() {
                let modseqs = telling.modseqs.difference(&telling.flags);
                Box::pin(self.tell_rows(&modseqs, Items::ModSeq, telling.uid)).await?;
            }
        }
        self.weigh_view()?;
        if self.watch.is_some() { Box::pin(self.tell_others()).await } else { Ok(()) }
    }

    /// EXPUNGE and MOVE are answered (RFC 3501 §6.4.3, RFC 6851 §3.3) also by who does not hear of events.
    async fn tell_taken_out(&mut self) -> Result<(), End> {
        let Some(view) = &mut self.view else { return Ok(()) };
        let account = view.account().clone();
        let (gone, changes) = {
            let state = account.state();
            (view.gone_from_contexts(&state), view.expunges(&state).map_err(|_| End::MailboxGone)?)
        };
        self.tell_gone(gone).await?;
        self.tell_expunged(&changes).await
    }

    async fn tell_selected(&mut self, telling: &Telling, wanted: &Selected) -> Result<(), End> {
        let Some(view) = self.view.as_mut().filter(|_| !telling.nothing) else { return Ok(()) };
        let account = view.account().clone();
        let (changes, own, gone, position) = {
            let state = account.state();
            let own = is_own(&self.own, account.id(), view.told(), state.position());
            let flags = self.watch.is_none() || wanted.flags;
            let gone = view.gone_from_contexts(&state);
            let changes = view.changes(&state, telling.expunges, flags, &telling.known);
            (changes, own, gone, state.position())
        };
        let changes = changes.map_err(|_| End::MailboxGone)?;
        // The numbers of those that are gone are a set too.
        self.weigh_view()?;
        let sets = [&changes.expunged, &changes.expunged, &changes.arrived];
        let _room = reserve(&self.ctx.accounts, &sets).await.map_err(|_| End::Crowded)?;
        // RFC 5267 §4.3.4: before the expunges, while the numbers mean what they did.
        self.tell_gone(gone).await?;
        if changes.is_empty() && telling.flags.is_empty() && telling.modseqs.is_empty() {
            // What the client itself changed, and silently, changes results too.
            return self.update_contexts(&changes.arrived, position).await;
        }
        self.tell_expunged(&changes).await?;
        self.tell_arrived(&changes.arrived);
        if changes.keywords {
            self.tell_keywords().await?;
        }
        let flags = changes.flags.uids.union(&telling.flags);
        self.tell_rows(&flags, Items::Flags, telling.uid).await?;
        let mut next = changes.flags.next;
        while let (Some(from), Some(view)) = (next, &self.view) {
            let part = {
                let state = account.state();
                let mailbox = view.mailbox_in(&state).map_err(|_| End::MailboxGone)?;
                view.flags_changed(mailbox, changes.since, from, changes.below, &telling.known)
            };
            next = part.next;
            self.tell_rows(&part.uids.difference(&telling.flags), Items::Flags, telling.uid).await?;
            yield_now().await;
        }
        if self.dialect.modseq() {
            self.tell_rows(&telling.modseqs.difference(&flags), Items::ModSeq, telling.uid).await?;
        }
        // RFC 5465 §5.2: of what the client put there itself it need not be told.
        if !own && !wanted.items.is_empty() && !changes.arrived.is_empty() {
            self.fetch_unasked(&changes.arrived, &wanted.items).await?;
        }
        // RFC 5267 §4.3.3: after EXISTS.
        self.update_contexts(&changes.arrived, position).await
    }

    /// Makes a change of the selected mailbox, decided on the state of its log by going through about so many rows, and tells
    /// the client meanwhile that it is being worked on.
    pub(super) async fn change_selected<T>(
        &mut self,
        rows: usize,
        mut decide: impl FnMut(&View, &AccountState) -> sealpost_base::Result<(Vec<Event>, T)> + Send,
    ) -> Result<Committed<T>, Failure> {
        let Some(view) = &self.view else { return Err(Reply::bad("select a mailbox first").into()) };
        let log = view.account().clone();
        let committing = log.commit_many(rows, |state| decide(view, state));
        let committed = self.progress.during(&mut self.connection, committing).await??;
        self.note_own(log.id(), &committed);
        Ok(committed)
    }

    /// The command at hand made this change, if it is one.
    pub(super) fn note_own<T>(&mut self, log: AccountId, committed: &Committed<T>) {
        if !committed.applied.is_empty() {
            self.own.push((log, committed.position));
        }
    }

    /// Says how far a client that remembers mod-sequences may believe what it was told, in the completion if there is
    /// room in it (RFC 7162 §3.2.7, §3.2.9, §6).
    pub(super) fn tell_modseq(&mut self, reply: &mut Reply) {
        if reply.status == Status::Ok && reply.code.is_none() {
            reply.code = self.due_modseq();
        } else {
            self.tell_modseq_alone();
        }
    }

    /// The same where there is no completion that could say it: no command is in progress (RFC 5465 §5).
    pub(super) fn tell_modseq_alone(&mut self) {
        if let Some(code) = self.due_modseq() {
            self.connection.out().status(
                None,
                Status::Ok,
                Some(&code),
                "all changes up to here were reported",
            );
        }
    }

    fn due_modseq(&mut self) -> Option<Code> {
        let due = self.view.as_mut()?.due_modseq()?;
        self.dialect.modseq().then_some(Code::HighestModSeq(due))
    }

    async fn tell_expunged(&mut self, changes: &Changes) -> Result<(), End> {
        if self.dialect.vanished() {
            if let (true, Some(view)) =
                (self.dialect.qresync() && !changes.expunged.is_empty(), &mut self.view)
            {
                view.owe_modseq();
            }
            return self.tell_vanished(&changes.expunged, false).await;
        }
        for range in &changes.numbers {
            for sequence in range.clone().rev() {
                self.connection.out().response(&Response::Expunge(sequence));
                self.connection.relieve().await?;
            }
        }
        Ok(())
    }

    /// VANISHED, as many as are needed; none for no messages.
    pub(super) async fn tell_vanished(&mut self, uids: &UidSet, earlier: bool) -> Result<(), End> {
        let mut ranges = uids.ranges().peekable();
        while ranges.peek().is_some() {
            let out = self.connection.out().vanished(earlier);
            for (i, (first, last)) in ranges.by_ref().take(VANISHED_RANGES).enumerate() {
                if i > 0 {
                    out.raw(b",");
                }
                out.number(u64::from(first.get()));
                if last > first {
                    out.raw(b":").number(u64::from(last.get()));
                }
            }
            out.crlf();
            self.connection.relieve().await?;
        }
        Ok(())
    }

    fn tell_arrived(&mut self, arrived: &UidSet) {
        let (Some(view), false) = (&mut self.view, arrived.is_empty()) else { return };
        let out = self.connection.out();
        out.response(&Response::Exists(view.len()));
        // RFC 9051 has no \Recent: it is left to sessions that have it.
        if !self.dialect.rev2() {
            let first = first_recent(view);
            view.mark_recent(arrived, first);
            let recent = u32::try_from(view.recent().len()).unwrap_or(u32::MAX);
            out.response(&Response::Recent(recent));
        }
    }

    /// FLAGS and PERMANENTFLAGS anew.
    async fn tell_keywords(&mut self) -> Result<(), End> {
        let Some(view) = &mut self.view else { return Ok(()) };
        let listed = {
            let account = view.account().clone();
            let state = account.state();
            let mailbox = view.mailbox_in(&state).map_err(|_| End::MailboxGone)?;
            view.listed(&state, mailbox)
        };
        listed.tell(&mut self.connection).await?;
        listed.tell_permanent(&mut self.connection, "new keywords").await
    }

    /// New keywords are announced before a message is shown to have them (RFC 3501 §7.2.6).
    pub(super) async fn tell_new_keywords(&mut self) -> Result<(), End> {
        let Some(view) = &self.view else { return Ok(()) };
        let misses = {
            let state = view.account().state();
            view.misses_keywords(view.mailbox_in(&state).map_err(|_| End::MailboxGone)?)
        };
        // Those who wait are not to be as large as this is.
        if misses { Box::pin(self.tell_keywords()).await } else { Ok(()) }
    }

    /// `* n FETCH (FLAGS (…))` for each of these messages that changed after `since`, as the dialect has it.
    pub(super) async fn tell_missed(&mut self, since: ModSeq, among: &UidSet) -> Result<(), End> {
        let mut next = among.first();
        while let (Some(from), Some(view)) = (next, &self.view) {
            let part = {
                let state = view.account().state();
                let mailbox = view.mailbox_in(&state).map_err(|_| End::MailboxGone)?;
                changes::updated(mailbox, since, from, None, |row| among.contains(row.uid))
            };
            next = part.next;
            self.tell_rows(&part.uids, Items::Flags, true).await?;
            yield_now().await;
        }
        Ok(())
    }

    async fn tell_rows(&mut self, uids: &UidSet, items: Items, with_uid: bool) -> Result<(), End> {
        // RFC 7162 §3.2.4, RFC 9051 §7.5.2, RFC 5465 §5.1: what nobody asked for has the UID.
        let with_uid = with_uid || self.dialect.modseq() || self.dialect.rev2() || self.watch.is_some();
        let mut next = uids.first();
        while let (Some(from), Some(view)) = (next, &self.view) {
            view.account().wait_for_bulk_update().await;
            if items == Items::Flags {
                self.tell_new_keywords().await?;
            }
            next = self.tell_batch(uids, from, items, with_uid);
            self.connection.relieve().await?;
        }
        Ok(())
    }

    /// The same for a batch; where the next one begins. That is where this one does if there are keywords to be told first.
    fn tell_batch(&mut self, uids: &UidSet, from: Uid, items: Items, with_uid: bool) -> Option<Uid> {
        let dialect = self.dialect;
        let view = self.view.as_mut()?;
        let account = view.account().clone();
        let state = account.state();
        let mailbox = view.mailbox_in(&state).ok()?;
        let out = self.connection.out();
        if items == Items::Flags && view.misses_keywords(mailbox) {
            return Some(from);
        }
        let begun = out.len();
        let (mut told, mut highest, mut next) = (0, ModSeq::ZERO, None);
        'ranges: for (first, last) in uids.ranges_from(from) {
            for row in mailbox.rows(first.max(from)..=last) {
                // A row may have hundreds of long keywords: what is not sent yet is bounded in bytes too.
                if told == BATCH_ROWS || out.len() - begun > BATCH_BYTES {
                    next = Some(row.uid);
                    break 'ranges;
                }
                told += 1;
                let Some(sequence) = view.sequence(row.uid) else { continue };
                // RFC 9586 §3.3: the UID is at the beginning.
                if dialect.uid_only() {
                    out.uid_fetch_begin(row.uid.get());
                } else {
                    out.fetch_begin(sequence);
                    if with_uid {
                        out.raw(b"UID ").number(u64::from(row.uid.get())).space();
                    }
                }
                if items == Items::Flags {
                    flags::write(out, &state, row.flags, view.recent().contains(row.uid));
                }
                if dialect.modseq() {
                    if items == Items::Flags {
                        out.space();
                    }
                    out.raw(b"MODSEQ (").number(row.modseq.0).close();
                    highest = highest.max(row.modseq);
                }
                out.fetch_end();
            }
        }
        view.wrote_modseq(highest);
        next
    }
}

/// Whether all that is new in a log since `before` is one entry, which this session made.
pub(super) fn is_own(own: &[(AccountId, Position)], log: AccountId, before: Position, now: Position) -> bool {
    now.0 == before.0 + 1 && own.contains(&(log, now))
}

/// The first UID that is recent in a session with that view: one that only looks does not take it from others
/// (RFC 3501 §2.3.2, §6.3.2). Messages that the view does not have yet are left to whoever tells of them first.
pub(super) fn first_recent(view: &View) -> Uid {
    let account = view.account();
    if !view.read_only() {
        return account.claim_recent(view.mailbox(), view.uid_next());
    }
    match account.state().mailbox(view.mailbox()) {
        Some(mailbox) => account.recent_from(mailbox),
        None => view.uid_next(),
    }
}
