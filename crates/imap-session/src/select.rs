//! SELECT, EXAMINE, CLOSE, UNSELECT (RFC 3501 §6.3.1, §6.3.2, §6.4.2; RFC 3691).

use sealpost_account::SystemFlags;
use sealpost_account::rights::Rights;
use sealpost_imap::types::{Code, Mailbox, QResync, Response, SelectParameter, Status};
use sealpost_mailbox::memory::reserve;
use sealpost_mailbox::opened::expunge_deleted;
use sealpost_mailbox::resolve::ResolvedMailbox;

use super::flags::FlagList;
use super::object_id;
use super::old_name;
use super::own_entries::OwnEntries;
use super::qresync::{self, ResyncDelta};
use super::reply::{Failure, Outcome, Reply};
use super::responses::Responses;
use super::selected::{Selected, opened};
use super::updates;
use super::updates::first_recent;
use super::urlauth;
use super::user::User;
use sealpost_session::session_log::SessionLog;

/// A mailbox at one moment.
struct Opened {
    view: Selected,
    /// The flags for FLAGS and PERMANENTFLAGS.
    flags: FlagList,
    /// The number of the first message without `\Seen`.
    unseen: Option<u32>,
    /// MAILBOXID.
    object_id: Option<Code>,
    /// The changes to report to a client that resynchronizes.
    missed: ResyncDelta,
}

/// SELECT, or EXAMINE. Closes the mailbox selected before, even if the command fails (RFC 3501 §6.3.1).
pub(super) async fn select(
    user: &User,
    selected: &mut Option<Selected>,
    responses: &mut Responses,
    log: &mut SessionLog,
    name: &Mailbox,
    read_only: bool,
    parameters: &[SelectParameter],
) -> Outcome {
    let known = qresync::select_parameters(responses, parameters)?;
    if selected.take().is_some() {
        // RFC 7162 §3.2.11: later responses are about another mailbox, or none.
        responses.out().status(None, Status::Ok, Some(&Code::Closed), "the mailbox is closed");
    }
    let resolved = current_place(user, name).await?.require(Rights::READ)?;
    let (examine, read_only) = (read_only, read_only || !resolved.is_writable());
    let Opened { mut view, flags, unseen, object_id, missed } =
        open(&resolved, read_only, known, !responses.dialect.rev2())?;
    if !view.weigh(user.accounts()) {
        let text = "not enough memory for a mailbox with so many gaps between UIDs; retry later";
        return Err(Reply::no(Code::Limit, text).into());
    }
    let _room = reserve(user.accounts(), &[&missed.vanished, &missed.asked]).await?;
    let dialect = responses.dialect;
    flags.write(&mut responses.connection).await?;
    let out = responses.out();
    out.response(&Response::Exists(view.len()));
    // RFC 9051 §6.3.2 has neither RECENT nor UNSEEN.
    if !dialect.rev2() {
        out.response(&Response::Recent(u32::try_from(view.recent().len()).unwrap_or(u32::MAX)));
    }
    // RFC 9586 §3: UNSEEN is a message number.
    if let Some(unseen) = unseen.filter(|_| !dialect.uid_only() && !dialect.rev2()) {
        out.status(None, Status::Ok, Some(&Code::Unseen(unseen)), "first unseen message");
    }
    flags.write_permanent(&mut responses.connection, "flags that can be changed").await?;
    let out = responses.out();
    let mut say = |code, text| {
        out.status(None, Status::Ok, Some(&code), text);
    };
    say(Code::UidValidity(view.uid_validity().0.get()), "UIDs are valid");
    say(Code::UidNext(view.uid_next().get()), "next UID");
    if let Some(code) = object_id {
        say(code, "the mailbox, by any name");
    }
    say(Code::HighestModSeq(view.whole()), "highest mod-sequence");
    say(urlauth::mechanisms(), "mechanisms that can authorize URLs");
    if dialect.rev2() {
        old_name::report_name(user, responses, name);
    }
    view.key_resets = urlauth::resets(user, &view);
    let selected = selected.insert(view);
    // RFC 7162 §3.2.5.1: after everything else, and expunges before changes.
    updates::report_vanished(responses, &missed.vanished, true).await?;
    updates::report_changed_since(selected, responses, missed.since, &missed.asked).await?;
    log.count("selected", 1);
    Ok(if examine {
        Reply::ok_with(Code::ReadOnly, "EXAMINE completed")
    } else if read_only {
        // RFC 4314 §5.2
        Reply::ok_with(Code::ReadOnly, "SELECT completed")
    } else {
        Reply::ok_with(Code::ReadWrite, "SELECT completed")
    })
}

/// Resolves the name after catching up with everything that any node has acknowledged: a client that opens a
/// mailbox may have changed it through another node (decision 29).
async fn current_place(user: &User, name: &Mailbox) -> Result<ResolvedMailbox, Failure> {
    let own = user.account();
    own.refresh().await?;
    let resolved = user.resolve(name).await?;
    if resolved.account.id() != own.id() {
        resolved.account.refresh().await?;
    }
    Ok(resolved)
}

/// CLOSE: expunges without reports, unless the mailbox is open read-only (RFC 3501 §6.4.2).
pub(super) async fn close_mailbox(selected: &mut Option<Selected>, own: &mut OwnEntries) -> Outcome {
    let view = opened(selected)?;
    if !view.read_only() {
        let (mailbox, log) = (view.mailbox(), view.account().id());
        let committed = view
            .account()
            .commit_many(view.rows_to_expunge(), |state| {
                // RFC 4314 §4: without the right the mailbox is closed all the same.
                let may = view.rights(state).contains(Rights::EXPUNGE);
                let mailbox = state.mailbox(mailbox).filter(|_| may);
                let events = mailbox.map(|mailbox| expunge_deleted(state, mailbox, None));
                Ok((events.unwrap_or_default(), ()))
            })
            .await?;
        own.note(log, &committed);
    }
    *selected = None;
    Ok(Reply::ok("CLOSE completed"))
}

/// UNSELECT: returns to the authenticated state and expunges nothing (RFC 3691 §2).
pub(super) fn unselect(selected: &mut Option<Selected>) -> Outcome {
    opened(selected)?;
    *selected = None;
    Ok(Reply::ok("UNSELECT completed"))
}

/// Opens the mailbox for a client that may know it from earlier. With `recent`, messages become `\Recent` for
/// this session.
fn open(
    resolved: &ResolvedMailbox,
    read_only: bool,
    known: Option<&QResync>,
    recent: bool,
) -> Result<Opened, Failure> {
    let state = resolved.account.state();
    let mailbox = resolved.mailbox_in(&state)?;
    let mut view = Selected::new(resolved.account.clone(), resolved.access, &state, mailbox, read_only);
    let flags = FlagList::of(&resolved.account, &state, mailbox, view.rights(&state));
    // RFC 3501 §7.1: the first message that is not \Seen.
    let unseen = (mailbox.unseen() > 0)
        .then(|| {
            let seen = |id| state.flags(id).system.contains(SystemFlags::SEEN);
            mailbox.first_with(|flags| !seen(flags)).and_then(|row| view.sequence(row.uid))
        })
        .flatten();
    let object_id = object_id::code(resolved.account.id(), mailbox);
    let missed = known.map(|known| qresync::missed(&view, mailbox, known)).unwrap_or_default();
    drop(state);
    if recent {
        let first = first_recent(&view);
        let all = view.uids().clone();
        view.mark_recent(&all, first);
    }
    Ok(Opened { view, flags, unseen, object_id, missed })
}
