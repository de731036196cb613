//! NOTIFY (RFC 5465 §8), for the client, and the code that names the events a server knows.

use super::Writer;
use crate::types::{EventGroup, Notify, NotifyEvent, NotifyFilter};

impl Writer {
    pub(super) fn notify(&mut self, notify: &Notify) -> &mut Self {
        match notify {
            Notify::None => self.raw(b" NONE"),
            Notify::Set { status, groups } => {
                self.raw(if *status { &b" SET STATUS"[..] } else { b" SET" });
                groups.iter().fold(self, |w, group| w.space().event_group(group))
            }
        }
    }

    fn event_group(&mut self, group: &EventGroup) -> &mut Self {
        self.raw(b"(");
        match &group.mailboxes {
            NotifyFilter::SelectedDelayed => self.raw(group.mailboxes.name()),
            NotifyFilter::Mailboxes(filter) => self.mailbox_filter(filter),
        };
        self.space();
        if group.events.is_empty() {
            return self.raw(b"NONE)");
        }
        self.list(&group.events, Self::notify_event).raw(b")")
    }

    fn notify_event(&mut self, event: &NotifyEvent) {
        self.raw(event.name());
        if let NotifyEvent::MessageNew(items) = event
            && !items.is_empty()
        {
            self.space().list(items, Self::fetch_item);
        }
    }
}
