//! Telling the client what changed in the selected mailbox: EXPUNGE, EXISTS, RECENT, FLAGS, FETCH (RFC 3501 §7.2.6,
//! §7.3, §7.4), at the end of commands and in IDLE.

use std::ops::RangeInclusive;

use sealpost_base::{Uid, UidSet};
use sealpost_imap::types::{Code, Response, Status};

use super::connection::End;
use super::flags;
use super::session::Session;
use super::view::Told;

/// Rows looked at while the account's state is held.
const BATCH_ROWS: usize = 256;

/// Bytes of responses after which a batch ends.
const BATCH_BYTES: usize = 32 * 1024;

/// What the client may be told at the end of a command.
#[derive(Debug, Default)]
pub(super) struct Telling {
    /// Expunges too (RFC 3501 §7.4.1).
    pub(super) expunges: bool,
    /// FETCH responses carry the UID: those caused by a UID command must (RFC 3501 §6.4.8).
    pub(super) uid: bool,
    /// Flags that it knows already.
    pub(super) known: Told,
    /// Messages whose flags it is told whether or not they changed.
    pub(super) flags: UidSet,
}

impl Telling {
    /// Everything that changed.
    pub(super) fn everything() -> Self {
        Telling { expunges: true, ..Telling::default() }
    }
}

impl Session {
    /// Brings client and view up to date, as far as `telling` allows.
    pub(super) async fn tell(&mut self, telling: &Telling) -> Result<(), End> {
        let Some(view) = &mut self.view else { return Ok(()) };
        let account = view.account().clone();
        let changes = view.changes(&account.state(), telling.expunges, &telling.known);
        let changes = changes.map_err(|_| End::MailboxGone)?;
        if changes.is_empty() && telling.flags.is_empty() {
            return Ok(());
        }
        self.tell_expunged(&changes.expunged).await?;
        self.tell_arrived(&changes.arrived);
        if changes.keywords {
            self.tell_keywords();
        }
        let mut uids = changes.flags;
        for (first, last) in telling.flags.ranges() {
            uids.insert_range(first, last);
        }
        self.tell_flags(&uids, telling.uid).await
    }

    async fn tell_expunged(&mut self, expunged: &[RangeInclusive<u32>]) -> Result<(), End> {
        for range in expunged {
            for sequence in range.clone().rev() {
                self.connection.out().response(&Response::Expunge(sequence));
                self.connection.relieve().await?;
            }
        }
        Ok(())
    }

    fn tell_arrived(&mut self, arrived: &UidSet) {
        let (Some(view), false) = (&mut self.view, arrived.is_empty()) else { return };
        let first = first_recent(view.account(), view.mailbox(), view.read_only());
        view.mark_recent(arrived, first);
        let recent = u32::try_from(view.recent().len()).unwrap_or(u32::MAX);
        let out = self.connection.out();
        out.response(&Response::Exists(view.len())).response(&Response::Recent(recent));
    }

    /// New keywords are announced before a message is shown to have them (RFC 3501 §7.2.6).
    fn tell_keywords(&mut self) {
        let Some(view) = &self.view else { return };
        let account = view.account();
        let flags = match view.mailbox_in(&account.state()) {
            Ok(mailbox) => flags::of_mailbox(&account.state(), mailbox),
            Err(_) => return,
        };
        let permanent = flags::permanent(&flags, view.read_only());
        let out = self.connection.out();
        out.response(&Response::Flags(flags));
        out.status(None, Status::Ok, Some(&Code::PermanentFlags(permanent)), "new keywords");
    }

    /// `* n FETCH (FLAGS (…))` for each of these messages that is still there.
    pub(super) async fn tell_flags(&mut self, uids: &UidSet, with_uid: bool) -> Result<(), End> {
        let mut next = uids.first();
        while let Some(from) = next {
            next = self.tell_flags_from(uids, from, with_uid);
            self.connection.relieve().await?;
        }
        Ok(())
    }

    /// The same for a batch; where the next one begins.
    fn tell_flags_from(&mut self, uids: &UidSet, from: Uid, with_uid: bool) -> Option<Uid> {
        let view = self.view.as_ref()?;
        let state = view.account().state();
        let mailbox = view.mailbox_in(&state).ok()?;
        let out = self.connection.out();
        let mut told = 0;
        for (first, last) in uids.ranges().filter(|(_, last)| *last >= from) {
            for row in mailbox.rows(first.max(from)..=last) {
                // A row may have hundreds of long keywords: what is not sent yet is bounded in bytes too.
                if told == BATCH_ROWS || out.len() > BATCH_BYTES {
                    return Some(row.uid);
                }
                told += 1;
                let Some(sequence) = view.sequence(row.uid) else { continue };
                out.fetch_begin(sequence);
                if with_uid {
                    out.raw(b"UID ").number(u64::from(row.uid.get())).space();
                }
                flags::write(out, &state, row.flags, view.recent().contains(row.uid));
                out.fetch_end();
            }
        }
        None
    }
}

/// The first UID that is recent in a session on that mailbox: one that only looks does not take it from others
/// (RFC 3501 §2.3.2, §6.3.2).
pub(super) fn first_recent(
    account: &sealpost_account::Account,
    mailbox: sealpost_base::MailboxId,
    read_only: bool,
) -> Uid {
    if read_only {
        account.state().mailbox(mailbox).map_or(Uid::MIN, |m| m.recent_from())
    } else {
        account.claim_recent(mailbox)
    }
}
