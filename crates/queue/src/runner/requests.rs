//! Executes requests of other processes.

use std::sync::Arc;
use std::time::Duration;

use sealpost_base::{Kind, Result, limits};

use super::Shared;
use super::prepare::View;
use crate::MailId;
use crate::envelope::Mail;
use crate::event::{Event, Failure, Held, Outcome, Rule, Selector, printable};
use crate::request::{self, Action, BOUNCED, Request};
use crate::state::SEVERAL;

/// How often the writer lists requests in a store that does not notify it of changes.
const LOOK: Duration = Duration::from_secs(30);
/// Mails whose change is one entry.
const AT_ONCE: usize = 500;

impl Shared {
    /// Executes requests as they arrive.
    pub(super) async fn handle_requests(self: Arc<Self>) {
        let mut changes = self.queue.inner().store.changes();
        while !self.is_stopping() {
            if let Err(e) = self.handle_pending().await {
                tracing::warn!(error = %e, "requests to the queue were not carried out; this is tried again");
            }
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { tokio::time::sleep(LOOK).await; },
                () = tokio::time::sleep(LOOK) => {}
                () = self.stopped() => {}
            }
        }
    }

    async fn handle_pending(self: &Arc<Self>) -> Result<()> {
        let inner = self.queue.inner().clone();
        loop {
            let found = request::pending(&inner.store, &inner.mail_keys, inner.node, self.now()).await?;
            if found.is_empty() {
                return Ok(());
            }
            for (path, request) in found {
                let name = path.rsplit('/').next().unwrap_or_default().to_owned();
                let is_handled = self.queue.state().is_handled(&name);
                match request {
                    Some(request) if !is_handled => self.carry_out(&name, request).await?,
                    Some(_) => tracing::debug!(path, "a request to the queue was handled before"),
                    None => tracing::warn!(
                        path,
                        "this is no request to the queue, or an old one: it is removed and not carried out"
                    ),
                }
                inner.store.delete(&path).await?;
            }
        }
    }

    async fn carry_out(self: &Arc<Self>, name: &str, request: Request) -> Result<()> {
        let Request { action, selector, by } = request;
        let mut count = 0;
        if action.is_about_mail() {
            let mut from = MailId(0);
            // In pieces: the queue may hold very many mails, and changes meanwhile.
            while let Some((ids, next)) = self.some_ids(&selector, from) {
                from = next;
                let (mut events, mut bodies) = (Vec::new(), Vec::new());
                for id in ids {
                    let Some(mail) = self.selected(id, &selector).await? else { continue };
                    count += 1;
                    if action == Action::Bounce {
                        for group in self.bounced(id, &mail).await {
                            self.queue.commit(group).await?;
                        }
                    } else {
                        events.extend(event_of(&action, id));
                    }
                    if matches!(action, Action::Bounce | Action::Remove) {
                        bodies.extend(self.queue.body_path(&mail).map(|path| (id, path)));
                    }
                }
                if !events.is_empty() {
                    self.queue.commit(events).await?;
                }
                self.remove_bodies(bodies).await;
            }
        }
        if let Action::Cancel(submission) = &action {
            count += u64::from(self.queue.cancel(*submission).await?);
        }
        let mut events = self.events_about_all(&action, &selector);
        events.push(Event::Handled(name.to_owned()));
        self.queue.commit(events).await?;
        tracing::info!(request = ?action, mails = count, by = %printable(&by, 100), "a request to the queue was carried out");
        self.wake.notify_one();
        Ok(())
    }

    /// Some mails that may be selected, from `from` on, and where the next ones begin.
    fn some_ids(&self, selector: &Selector, from: MailId) -> Option<(Vec<MailId>, MailId)> {
        let state = self.queue.state();
        let domain = selector.domain.as_deref();
        let may_match = |id: &MailId| {
            let Some(row) = state.rows().get(*id) else { return false };
            row.domain == SEVERAL || domain.is_none_or(|domain| state.domain(row) == Some(domain))
        };
        let ids: Vec<MailId> = match &selector.mails {
            Some(mails) => {
                let mut mails: Vec<MailId> = mails.iter().copied().filter(|id| *id >= from).collect();
                mails.sort_unstable();
                mails.truncate(AT_ONCE);
                mails
            }
            None => state.rows().from(from).map(|(id, _)| id).take(AT_ONCE).collect(),
        };
        let next = MailId(ids.iter().max()?.0.saturating_add(1));
        Some((ids.into_iter().filter(may_match).collect(), next))
    }

    /// The mail, if it is selected.
    async fn selected(&self, id: MailId, selector: &Selector) -> Result<Option<Arc<Mail>>> {
        let mail = match self.queue.read(id).await {
            Ok(mail) => mail,
            Err(e) if matches!(e.kind(), Kind::NotFound | Kind::Corrupt) => return Ok(None),
            Err(e) => return Err(e),
        };
        // After a restart the scheduler knows no site of mail that waits: there its last failure tells.
        let site = |place: usize, domain: &str| match &selector.site {
            None => true,
            Some(site) => {
                self.dispatch().scheduler.is_at(domain, &mail.from, site)
                    || self.queue.state().was_last_at(id, place, site)
            }
        };
        let mut recipients = mail.recipients.iter().enumerate();
        let matches = recipients.any(|(place, recipient)| {
            let domain = recipient.domain();
            selector.matches(&mail.from, &domain) && site(place, &domain)
        });
        Ok(matches.then_some(mail))
    }

    /// Removes the bodies of those mails that are not queued any more. The log must say so first: else a
    /// process that adopts the queue would have mail without its body.
    async fn remove_bodies(&self, bodies: Vec<(MailId, String)>) {
        for (id, path) in bodies {
            if self.queue.state().rows().get(id).is_some() {
                continue;
            }
            if let Err(e) = self.queue.inner().store.delete(&path).await {
                tracing::debug!(error = %e, "the body of a removed mail is removed at a later start");
            }
        }
    }

    /// The events that make a mail fail and report it, in groups that each fit into an entry.
    async fn bounced(&self, id: MailId, mail: &Arc<Mail>) -> Vec<Vec<Event>> {
        let view = View::of(&self.queue.state(), id, mail);
        let Some(view) = view else { return Vec::new() };
        let why = |last: &Option<Failure>| match last {
            Some(last) => Failure { status: BOUNCED, ..last.clone() },
            None => Failure::local(BOUNCED, "returned by the operator of the mail server"),
        };
        let outcomes = view.left.iter().map(|(place, last)| (*place, Outcome::Failed(why(last))));
        let outcomes = outcomes.collect();
        self.outcome_groups(id, mail, &view.row, (view.row.attempts, self.now()), outcomes).await
    }

    fn events_about_all(&self, action: &Action, selector: &Selector) -> Vec<Event> {
        match action {
            Action::AddRule(until, note) => {
                let note = printable(note, limits::QUEUE_NOTE_BYTES);
                let (until, selector) = (*until, Selector { mails: None, all: None, ..selector.clone() });
                vec![Event::RuleAdded(Rule { number: 0, selector, until, note })]
            }
            Action::RemoveRule(0) => {
                let state = self.queue.state();
                let same = state.rules().filter(|rule| rule.selector == *selector);
                same.map(|rule| Event::RuleRemoved(rule.number)).collect()
            }
            Action::RemoveRule(number) => vec![Event::RuleRemoved(*number)],
            Action::HoldAll(why) => vec![Event::AllHeld(printable(why, limits::QUEUE_NOTE_BYTES))],
            Action::ReleaseAll => vec![Event::AllReleased],
            Action::Retry
            | Action::Hold(_)
            | Action::Release
            | Action::Bounce
            | Action::Remove
            | Action::Cancel(_) => Vec::new(),
        }
    }
}

/// The event by which a request changes one mail; `None` if that takes several events.
fn event_of(action: &Action, id: MailId) -> Option<Event> {
    match action {
        Action::Retry => Some(Event::Retried(id)),
        Action::Hold(until) => Some(Event::Held(Held { mail: id, until: *until, rule: 0 })),
        Action::Release => Some(Event::Released(id)),
        Action::Remove => Some(Event::Removed(id)),
        _ => None,
    }
}
