//! Turns a mailbox into a share: seals its messages again for the share's log, then switches the name with
//! one entry in the account's log.
//!
//! Before that entry the mailbox is unchanged, and the share is a log without a link. After it the share is
//! complete: the entry is decided on a state in which the mailbox is as it was copied.

use sealpost_base::{Error, MailboxId, ModSeq, Result, Uid, limits};

use super::{Account, NewMessage};
use crate::acl::Acl;
use crate::event::{Event, FlagAction, Flags, Message};
use crate::metadata::{self, Holder, Refused};
use crate::share::{About, Link, check_can_be_linked};

/// How often concurrent changes are copied before the mailbox counts as too busy.
const ROUNDS: usize = 64;
/// Messages appended to the share's log together.
const BATCH: usize = limits::ENTRY_RECORDS;

/// The content of the share so far.
struct ShareFill<'a> {
    from: &'a Account,
    mailbox: MailboxId,
    to: &'a Account,
    inbox: MailboxId,
    /// UIDs in the mailbox and in the share, both ascending.
    uids: Vec<(Uid, Uid)>,
    /// The share has the mailbox's state at this position.
    upto: ModSeq,
}

impl Account {
    /// Moves a mailbox into a share, an unused account, and links its name to it. The share has no name
    /// before ([`crate::share::unlinked`]): a process that deletes leftover shares must cancel it first.
    ///
    /// # Errors
    /// `NotFound` if there is no such mailbox, `Invalid` for the inbox, `Limit` for too many links, `Retry`
    /// if the mailbox changes faster than it is copied or the share was cancelled meanwhile, `Corrupt` if a
    /// message is unreadable, and store errors. The mailbox is then unchanged, except after a store error at
    /// the last step, which may have succeeded.
    pub async fn move_into_share(
        &self,
        mailbox: MailboxId,
        share: &Account,
        link: Link,
        about: &About,
        acl: &Acl,
    ) -> Result<()> {
        check_can_be_linked(&self.state(), mailbox)?;
        let inbox = share.state().inbox().id();
        let uid_validity = self.state().mailbox(mailbox).map(|m| m.uid_validity());
        let mut copy =
            ShareFill { from: self, mailbox, to: share, inbox, uids: Vec::new(), upto: ModSeq::ZERO };
        for round in 0..ROUNDS {
            copy.catch_up().await?;
            if round == 0 {
                share.commit(|_| Ok((vec![about.event(), acl.event()], ()))).await?;
            }
            copy.take_recent().await?;
            let done = self.commit(|state| {
                check_can_be_linked(state, mailbox)?;
                let m = state.mailbox(mailbox).ok_or_else(gone)?;
                if Some(m.uid_validity()) != uid_validity {
                    return Err(Error::retry("the mailbox was renumbered during the copy"));
                }
                if !state.unlinked_shares().any(|unlinked| unlinked.share == link.share) {
                    return Err(Error::retry("the share was taken for one that is left over, and deleted"));
                }
                if m.highest_modseq() != copy.upto {
                    return Ok((Vec::new(), false));
                }
                let linked = Event::Linked { mailbox, link: link.clone() };
                // Entries that the share now has are removed from the account.
                let mut events =
                    metadata::set_shared(state, Holder::Mailbox(mailbox), &[]).map_err(Refused::error)?;
                events.extend([linked, crate::share::forgotten(link.share)]);
                Ok((events, true))
            });
            if done.await?.value {
                return Ok(());
            }
        }
        Err(Error::retry("the mailbox changes too quickly to be shared"))
    }
}

impl ShareFill<'_> {
    /// Copies messages that the share does not have, and repeats changes in the share.
    async fn catch_up(&mut self) -> Result<()> {
        let (changed, gone, shared, upto) = {
            let state = self.from.state();
            let m = state.mailbox(self.mailbox).ok_or_else(gone)?;
            let changed: Vec<Uid> = m.changed_since(self.upto).map(|row| row.uid).collect();
            let gone: Vec<Uid> =
                self.uids.iter().filter(|(uid, _)| m.row(*uid).is_none()).map(|(_, copy)| *copy).collect();
            let shared = metadata::shared(&state, Holder::Mailbox(self.mailbox));
            (changed, gone, shared, m.highest_modseq())
        };
        for uids in changed.chunks(BATCH) {
            self.copy(uids).await?;
        }
        if !gone.is_empty() {
            self.uids.retain(|(_, copy)| gone.binary_search(copy).is_err());
            let event = Event::Expunged { mailbox: self.inbox, uids: gone.into_iter().collect() };
            self.to.commit(|_| Ok((vec![event.clone()], ()))).await?;
        }
        self.copy_metadata(shared).await?;
        self.upto = upto;
        Ok(())
    }

    /// Shared entries are in the log of the messages; private ones stay in the account's log (RFC 5464 §3.1).
    async fn copy_metadata(&self, entries: Vec<(String, Vec<u8>)>) -> Result<()> {
        let holder = Holder::Mailbox(self.inbox);
        let copying = self
            .to
            .commit(|state| Ok((metadata::set_shared(state, holder, &entries).map_err(Refused::error)?, ())));
        copying.await?;
        Ok(())
    }

    async fn copy(&mut self, uids: &[Uid]) -> Result<()> {
        let (mut known, mut new) = (Vec::new(), Vec::new());
        for uid in uids {
            let Some((message, flags)) = self.read(*uid) else { continue };
            match self.uids.binary_search_by_key(uid, |(uid, _)| *uid) {
                Ok(at) => known.push(Event::FlagsStored {
                    mailbox: self.inbox,
                    uids: std::iter::once(self.uids[at].1).collect(),
                    action: FlagAction::Replace,
                    flags,
                    unchanged_since: None,
                }),
                Err(_) => {
                    let stored = self.from.reseal(&message, self.to.id()).await;
                    let stored = stored.map_err(|e| e.context(format!("message UID {uid}")))?;
                    new.push((*uid, NewMessage { stored, flags: flags.into(), received: message.received }));
                }
            }
        }
        if !known.is_empty() {
            self.to.commit(|_| Ok((known.clone(), ()))).await?;
        }
        if !new.is_empty() {
            let (uids, messages): (Vec<_>, Vec<_>) = new.into_iter().unzip();
            let (_, copies) = self.to.append(self.inbox, messages).await?;
            self.uids.extend(uids.into_iter().zip(copies));
        }
        Ok(())
    }

    fn read(&self, uid: Uid) -> Option<(Message, Flags)> {
        let state = self.from.state();
        let row = state.mailbox(self.mailbox)?.row(uid)?;
        Some((state.message(row.message)?, state.flags_by_name(row.flags)))
    }

    /// Messages that sessions have reported as recent are not recent in the share.
    async fn take_recent(&self) -> Result<()> {
        let below = {
            let state = self.from.state();
            let m = state.mailbox(self.mailbox).ok_or_else(gone)?;
            let recent = self.from.recent_from(m);
            let first = self.uids.partition_point(|(uid, _)| *uid < recent);
            self.uids.get(first).map(|(_, copy)| *copy)
        };
        let mailbox = self.inbox;
        self.to
            .commit(|state| {
                let inbox = state.inbox();
                let below = below.unwrap_or(inbox.uid_next());
                let event = Event::RecentTaken { mailbox, below };
                Ok((if inbox.recent_from() < below { vec![event] } else { Vec::new() }, ()))
            })
            .await?;
        Ok(())
    }
}

fn gone() -> Error {
    Error::not_found("the mailbox is gone")
}
