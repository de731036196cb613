//! The effect of each event.

use std::collections::BTreeSet;

use sealpost_base::{Position, Timestamp, limits};

use super::rows::{Flags, Place, Row, SEVERAL, encode_failure};
use super::{Part, Parts, Segment, State, of_time};
use crate::MailId;
use crate::envelope::{Mail, Source};
use crate::event::{Attempted, Batch, Carried, Event, Failure, Held, Outcome, Rule, Status, Taken};
use crate::retry::MAX_HOLD;

/// The result of an entry for its writer.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// The mails that it accepted, in order.
    pub accepted: Vec<MailId>,
    /// For each cancellation, in order, the mail that no recipient gets now; `None` if it was too late.
    pub canceled: Vec<Option<MailId>>,
}

impl State {
    /// The state after the entry at `position`.
    pub fn apply(&mut self, position: Position, batch: &Batch) -> Applied {
        let mut applied = Applied::default();
        self.position = position;
        self.next = self.next.max(batch.first.0);
        let mut taken = None;
        for (number, event) in batch.events.iter().enumerate() {
            match event {
                Event::Accepted(mail) => {
                    let place = Place::Entry(position, u16::try_from(number).unwrap_or(u16::MAX));
                    applied.accepted.push(self.accepted(place, mail));
                }
                Event::Sending(mail) => {
                    self.flag(*mail, Flags::SENDING, true);
                    self.submissions.sending(*mail);
                }
                Event::Attempted(attempted) => {
                    let server: Option<&Taken> = taken.take();
                    self.attempted(attempted, server.filter(|server| server.mail == attempted.mail));
                }
                Event::DelayReported(mail) => self.flag(*mail, Flags::DELAY_REPORTED, true),
                Event::Held(held) => self.held(batch.at, held),
                Event::Released(mail) => self.released(batch.at, *mail),
                Event::Retried(mail) => self.retried(batch.at, *mail),
                Event::Removed(mail) => {
                    self.give_up(*mail);
                    if self.forget(*mail) {
                        self.totals.removed += 1;
                    }
                }
                Event::RuleAdded(rule) => self.rule_added(batch.at, rule),
                Event::RuleRemoved(number) => self.rule_removed(batch.at, *number),
                Event::Carried(carried) => self.carried(carried),
                Event::Adopted(adoption) => {
                    if self.owner.as_ref().is_none_or(|(writer, _)| *writer != batch.writer) {
                        self.taken_over();
                    }
                    self.owner = Some((batch.writer, adoption.clone()));
                }
                Event::AllHeld(why) => self.all_held = Some(why.clone()),
                Event::AllReleased => self.all_held = None,
                Event::Handled(name) => {
                    if self.handled.len() >= limits::QUEUE_REQUESTS
                        && let Some(oldest) = self.handled.pop_front()
                    {
                        self.forgotten = std::mem::take(&mut self.forgotten).max(oldest);
                    }
                    self.handled.push_back(name.clone());
                }
                Event::Taken(server) => taken = Some(server),
                Event::Canceled(mail) => applied.canceled.push(self.cancel(*mail)),
                Event::Told(told) => told.mails.iter().for_each(|id| self.submissions.told(*id, told.upto)),
                Event::Alive => {}
            }
        }
        applied
    }

    fn accepted(&mut self, place: Place, mail: &Mail) -> MailId {
        let id = MailId(self.next);
        self.next = self.next.saturating_add(1);
        self.totals.accepted += 1;
        if let (Some(account), Source::Submission) = (mail.account, mail.source) {
            let recipients = u32::try_from(mail.recipients.len()).unwrap_or(u32::MAX);
            self.sent.count(account, mail.accepted, recipients);
        }
        let domains: BTreeSet<String> = mail.recipients.iter().map(|recipient| recipient.domain()).collect();
        let domain = match (domains.len(), domains.into_iter().next()) {
            (1, Some(domain)) => self.domains.hold(&domain.into_boxed_str()),
            _ => SEVERAL,
        };
        let released = mail.released();
        let mut flags = Flags::default();
        flags.set(Flags::FROM_NULL, mail.is_from_null());
        flags.set(Flags::FUTURE, released > mail.accepted);
        let account = self.accounts.hold(&mail.account);
        let recipients = u16::try_from(mail.recipients.len()).unwrap_or(u16::MAX);
        let size = u32::try_from(mail.facts.size).unwrap_or(u32::MAX);
        let times = (of_time(mail.accepted), of_time(released));
        self.rows.insert(id, Row::new(place, size, times, account, domain, recipients, flags));
        if recipients > 1 {
            let recipients = vec![Part::Left(None); usize::from(recipients)];
            self.parts.insert(id, Box::new(Parts { recipients }));
        }
        if let Some(of) = &mail.submission {
            self.submissions.accepted(id, of, mail.recipients.len(), self.position);
        }
        id
    }

    /// The sender cancels a mail: it goes if no server can have it. Which one went.
    fn cancel(&mut self, id: MailId) -> Option<MailId> {
        if !self.submissions.can_cancel(id) || self.rows.get(id).is_none() {
            return None;
        }
        self.submissions.canceled(id, self.position);
        self.forget(id);
        self.totals.removed += 1;
        Some(id)
    }

    /// The operator removes a mail: those of its recipients that are left do not get it.
    fn give_up(&mut self, id: MailId) {
        let places = self.parts.get(&id).map_or(1, |parts| parts.recipients.len());
        let removed = Outcome::Failed(Failure::local(
            Status::new(5, 7, 0),
            "removed by the operator of the mail server",
        ));
        for place in (0..places).filter(|place| self.left(id, *place).is_some()).collect::<Vec<_>>() {
            let number = u16::try_from(place).unwrap_or(u16::MAX);
            self.submissions.outcome(id, number, &removed, None, self.position);
        }
    }

    fn flag(&mut self, id: MailId, flag: Flags, on: bool) {
        if let Some(row) = self.rows.get_mut(id) {
            row.flags.set(flag, on);
        }
    }

    fn attempted(&mut self, attempted: &Attempted, server: Option<&Taken>) {
        let id = attempted.mail;
        let Some(row) = self.rows.get_mut(id) else { return };
        row.attempts = row.attempts.max(attempted.attempts);
        // The end of a hold stays.
        if !row.flags.has(Flags::HELD) {
            row.next = of_time(attempted.next);
        }
        row.flags.set(Flags::SENDING, false);
        row.flags.set(Flags::FUTURE, false);
        self.submissions.attempted(id);
        let mut last = None;
        for (place, outcome) in &attempted.outcomes {
            let number = usize::from(*place);
            let part = match self.parts.get_mut(&id) {
                None if number > 0 => continue,
                None => None,
                Some(parts) => match parts.recipients.get_mut(number) {
                    None | Some(Part::Done) => continue,
                    part => part,
                },
            };
            self.submissions.outcome(id, *place, outcome, server, self.position);
            match outcome {
                Outcome::Delivered | Outcome::DeliveredHere | Outcome::Relayed | Outcome::Expanded => {
                    self.totals.delivered += 1;
                }
                Outcome::Failed(_) => self.totals.failed += 1,
                Outcome::Deferred(failure) => {
                    self.totals.deferred += 1;
                    last = Some(failure);
                    if let Some(part) = part {
                        *part = Part::Left(Some(Box::new(bounded(failure))));
                    }
                    continue;
                }
            }
            if let Some(part) = part {
                *part = Part::Done;
            }
            row.recipients = row.recipients.saturating_sub(1);
        }
        if row.recipients == 0 {
            self.forget(id);
        } else if last.is_some() {
            self.rows.set_failure(id, last);
        }
    }

    fn held(&mut self, at: Timestamp, held: &Held) {
        let Some(row) = self.rows.get_mut(held.mail) else { return };
        row.flags.set(Flags::HELD, true);
        row.flags.set(Flags::SENDING, false);
        row.rule = held.rule;
        row.next = of_time(held.until.min(at.after(MAX_HOLD)));
    }

    /// Restarts the time of a mail that was held: the hold does not count towards its expiry.
    fn released(&mut self, at: Timestamp, id: MailId) {
        let Some(row) = self.rows.get_mut(id) else { return };
        if row.flags.has(Flags::HELD) || row.flags.has(Flags::FUTURE) {
            row.flags.set(Flags::HELD, false);
            row.flags.set(Flags::FUTURE, false);
            row.rule = 0;
            row.next = of_time(at);
            row.released = of_time(at);
        }
    }

    fn retried(&mut self, at: Timestamp, id: MailId) {
        if let Some(row) = self.rows.get_mut(id)
            && !row.flags.has(Flags::HELD)
        {
            row.next = of_time(at);
        }
    }

    fn rule_added(&mut self, at: Timestamp, rule: &Rule) {
        if self.rules.len() >= limits::QUEUE_RULES {
            return;
        }
        self.next_rule += 1;
        let until = rule.until.min(at.after(MAX_HOLD));
        let number = self.next_rule;
        self.rules.insert(number, Rule { number, until, ..rule.clone() });
    }

    fn rule_removed(&mut self, at: Timestamp, number: u32) {
        if self.rules.remove(&number).is_none() {
            return;
        }
        let held = self.rows.from(MailId(0)).filter(|(_, row)| row.rule == number);
        let held: Vec<_> = held.map(|(id, _)| id).collect();
        held.into_iter().for_each(|id| self.released(at, id));
    }

    fn carried(&mut self, carried: &Carried) {
        let number = self.next_segment;
        self.next_segment += 1;
        let (object, key, layout) = (carried.object, carried.key.clone(), carried.layout);
        self.segments.insert(number, Segment { object, key, layout, mails: 0, bytes: 0 });
        for (id, start, length) in &carried.mails {
            let Some(row) = self.rows.get_mut(*id) else { continue };
            let before = std::mem::replace(&mut row.place, Place::Segment(number, *start, *length));
            if let Some(segment) = self.segments.get_mut(&number) {
                segment.mails += 1;
                segment.bytes += u64::from(*length);
            }
            self.left_place(before);
        }
        if self.segments.get(&number).is_some_and(|segment| segment.mails == 0) {
            self.segments.remove(&number);
        }
    }

    /// Another process runs the queue now: mail that was being sent may have arrived.
    fn taken_over(&mut self) {
        let sending = self.rows.from(MailId(0)).filter(|(_, row)| row.flags.has(Flags::SENDING));
        let sending: Vec<_> = sending.map(|(id, _)| id).collect();
        self.totals.repeated += sending.len() as u64;
        sending.into_iter().for_each(|id| self.flag(id, Flags::SENDING, false));
    }

    /// Removes the mail. Returns whether it was queued.
    fn forget(&mut self, id: MailId) -> bool {
        let Some(row) = self.rows.remove(id) else { return false };
        self.parts.remove(&id);
        self.accounts.release(row.account);
        if row.domain != SEVERAL {
            self.domains.release(row.domain);
        }
        self.left_place(row.place);
        self.submissions.over(id);
        true
    }

    /// Notes that a mail left that place. Drops a segment without mail.
    fn left_place(&mut self, place: Place) {
        let Place::Segment(number, _, length) = place else { return };
        let Some(segment) = self.segments.get_mut(&number) else { return };
        segment.mails = segment.mails.saturating_sub(1);
        segment.bytes = segment.bytes.saturating_sub(u64::from(length));
        if segment.mails == 0 {
            self.segments.remove(&number);
        }
    }
}

/// A failure within the limit of a row, so that each of many recipients costs no more than a lone one.
fn bounded(failure: &Failure) -> Failure {
    super::rows::decode_failure(&encode_failure(failure)).unwrap_or_default()
}
