//! SELECT, EXAMINE, CLOSE, UNSELECT (RFC 3501 §6.3.1, §6.3.2, §6.4.2; RFC 3691).

use sealpost_account::event::Event;
use sealpost_account::rights::Rights;
use sealpost_account::{SystemFlags, ops};
use sealpost_imap::types::{Code, Mailbox, Response, SelectParameter, Status};

use super::flags;
use super::object_id;
use super::reply::{Outcome, Reply};
use super::session::Session;
use super::tell::first_recent;
use super::view::View;

impl Session {
    /// SELECT, or EXAMINE. Whether or not it succeeds, what was selected before no longer is (RFC 3501 §6.3.1).
    pub(super) async fn select(
        &mut self,
        name: &Mailbox,
        read_only: bool,
        parameters: &[SelectParameter],
    ) -> Outcome {
        if !parameters.is_empty() {
            return Err(Reply::bad("unknown SELECT parameter").into());
        }
        self.view = None;
        let place = self.place(name).await?.require(Rights::READ)?;
        let account = place.account.clone();
        let state = account.state();
        let mailbox = place.mailbox_in(&state)?;
        let mut view = View::new(account.clone(), &state, mailbox, read_only);
        let known = flags::of_mailbox(&state, mailbox);
        let permanent = flags::permanent(&known, read_only);
        // RFC 3501 §7.1: the first message that is not \Seen.
        let unseen = (mailbox.unseen() > 0)
            .then(|| {
                let seen = |id| state.flags(id).system.contains(SystemFlags::SEEN);
                mailbox.all_rows().find(|row| !seen(row.flags)).and_then(|row| view.sequence(row.uid))
            })
            .flatten();
        let (uid_validity, uid_next) = (mailbox.uid_validity(), mailbox.uid_next());
        let object_id = object_id::code(account.id(), mailbox);
        let id = mailbox.id();
        drop(state);
        let first = first_recent(&account, id, read_only);
        let all = view.uids().clone();
        view.mark_recent(&all, first);

        let out = self.connection.out();
        out.response(&Response::Flags(known));
        out.response(&Response::Exists(view.len()));
        out.response(&Response::Recent(u32::try_from(view.recent().len()).unwrap_or(u32::MAX)));
        let mut say = |code, text| {
            out.status(None, Status::Ok, Some(&code), text);
        };
        if let Some(unseen) = unseen {
            say(Code::Unseen(unseen), "first unseen message");
        }
        say(Code::PermanentFlags(permanent), "flags that can be changed");
        say(Code::UidValidity(uid_validity.0.get()), "UIDs are valid");
        say(Code::UidNext(uid_next.get()), "next UID");
        if let Some(code) = object_id {
            say(code, "the mailbox, by any name");
        }
        self.view = Some(view);
        self.log.count("selected", 1);
        Ok(if read_only {
            Reply::ok_with(Code::ReadOnly, "EXAMINE completed")
        } else {
            Reply::ok_with(Code::ReadWrite, "SELECT completed")
        })
    }

    /// CLOSE: expunges without telling, unless the mailbox is open read-only (RFC 3501 §6.4.2).
    pub(super) async fn close_mailbox(&mut self) -> Outcome {
        let view = self.view()?;
        if !view.read_only() {
            let mailbox = view.mailbox();
            view.account()
                .commit(|state| {
                    let Some(m) = state.mailbox(mailbox).filter(|m| m.deleted() > 0) else {
                        return Ok((Vec::new(), ()));
                    };
                    let uids = ops::deleted(state, m, &m.uids());
                    let event = Event::Expunged { mailbox, uids: uids.clone() };
                    Ok((if uids.is_empty() { Vec::new() } else { vec![event] }, ()))
                })
                .await?;
        }
        self.view = None;
        Ok(Reply::ok("CLOSE completed"))
    }

    /// UNSELECT: back to the authenticated state, nothing expunged (RFC 3691 §2).
    pub(super) fn unselect(&mut self) -> Outcome {
        self.view()?;
        self.view = None;
        Ok(Reply::ok("UNSELECT completed"))
    }
}
