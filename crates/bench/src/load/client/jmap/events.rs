//! Event streams (RFC 8620 §7.3): clients that wait for changes, and how long the news took.

use std::collections::BTreeMap;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::Method;
use hyper::body::Incoming;
use sealpost_base::limits::BENCH_EVENT_BYTES;
use serde::Deserialize;
use tokio::time::timeout;

use super::answer::Refusal;
use super::http::{Outgoing, closed, expanded, path_of};
use super::{Jmap, Wrong};
use crate::load::client::{Fail, count};

/// The states of an account's types.
type States = BTreeMap<String, String>;

/// `StateChange` (RFC 8620 §7.1).
#[derive(Deserialize)]
struct StateChange {
    changed: BTreeMap<String, States>,
}

impl Jmap {
    /// Receives events until the client is to stop.
    pub(super) async fn events(&mut self, name: &str, from: Duration) -> Result<(), Wrong> {
        let (client, thread) = (self.client.clone(), self.client.thread.clone());
        let url = expanded(
            &self.session.event_source_url,
            &[("types", "Email"), ("closeafter", "no"), ("ping", "0")],
        );
        let path = path_of(&url)?;
        let outgoing = Outgoing { method: Method::GET, path: &path, accept: "text/event-stream", body: None };
        let opened = timeout(thread.shared.command_timeout, self.http.send(outgoing)).await;
        let response = opened.map_err(|_| Fail::Timeout)??;
        let status = response.status().as_u16();
        if status != 200 {
            return Err(Refusal::of_status(status, b"the server has no event stream").into());
        }
        self.count_traffic();
        thread.ok(name, from, 0, 0);
        let mut next = thread.shared.notices.enter(client.account);
        (client.settled)();
        let over = tokio::select! {
            over = self.receive(response.into_body(), &mut next) => over,
            () = client.stopped() => Ok(()),
        };
        thread.shared.notices.leave(client.account, next);
        Ok(over?)
    }

    /// Counts each change of the account's emails.
    async fn receive(&self, mut stream: Incoming, next: &mut u64) -> Result<(), Fail> {
        let thread = &self.client.thread;
        let (mut lines, mut known) = (Lines::default(), None);
        loop {
            let frame = stream.frame().await.ok_or_else(|| Fail::Closed("the event stream ended".into()))?;
            let frame = frame.map_err(closed)?;
            let Some(data) = frame.data_ref() else { continue };
            let mut changes = 0;
            lines.feed(data, |event| {
                changes += u32::from(is_news(event, &self.session.account, &mut known))
            })?;
            let (sent, received) = self.http.traffic();
            count(&thread.shared.sent, sent);
            count(&thread.shared.received, received);
            for _ in 0..changes {
                if let Some(sent) = thread.shared.notices.notified(self.client.account, next) {
                    thread.ok("notification", sent, 0, 0);
                }
            }
        }
    }
}

/// Whether an event reports a state of emails that the client does not know yet.
fn is_news(event: &str, account: &str, known: &mut Option<String>) -> bool {
    let Ok(mut change) = serde_json::from_str::<StateChange>(event) else { return false };
    let state = change.changed.remove(account).and_then(|mut states| states.remove("Email"));
    let is_news = state.is_some() && state != *known;
    if is_news {
        *known = state;
    }
    is_news
}

/// Cuts a stream into events (HTML Living Standard §9.2.6).
#[derive(Default)]
struct Lines {
    /// The beginning of a line, without its end.
    line: Vec<u8>,
    /// The lines of data of the unfinished event.
    data: String,
    /// The last byte was CR: an LF after it ends no further line.
    after_cr: bool,
}

impl Lines {
    /// Passes the data of each complete event to `event`.
    ///
    /// # Errors
    /// If an event is too long.
    fn feed(&mut self, bytes: &[u8], mut event: impl FnMut(&str)) -> Result<(), Fail> {
        for byte in bytes {
            let is_second = std::mem::replace(&mut self.after_cr, *byte == b'\r') && *byte == b'\n';
            match byte {
                b'\n' if is_second => {}
                b'\r' | b'\n' => self.end_line(&mut event),
                byte => self.line.push(*byte),
            }
            if self.line.len() + self.data.len() > BENCH_EVENT_BYTES {
                return Err(Fail::Protocol(format!("an event of more than {BENCH_EVENT_BYTES} bytes")));
            }
        }
        Ok(())
    }

    fn end_line(&mut self, event: &mut impl FnMut(&str)) {
        if self.line.is_empty() && !self.data.is_empty() {
            event(self.data.trim_end_matches('\n'));
            // A waiting client keeps no buffer.
            self.data = String::new();
        }
        if let Some(data) = self.line.strip_prefix(b"data:") {
            self.data.push_str(String::from_utf8_lossy(data.strip_prefix(b" ").unwrap_or(data)).as_ref());
            self.data.push('\n');
        }
        self.line = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn events(parts: &[&[u8]]) -> Vec<String> {
        let (mut lines, mut events) = (Lines::default(), Vec::new());
        for part in parts {
            lines.feed(part, |event| events.push(event.to_owned())).unwrap();
        }
        events
    }

    const STREAM: &[u8] =
        b": hello\r\n\r\nevent: state\ndata: {\"a\":1}\nid: 5\n\ndata:b\rdata: c\r\r\nevent: ping\n\ndata: x\r\n\r\n";

    #[test]
    fn events_end_at_empty_lines() {
        assert_eq!(events(&[STREAM]), ["{\"a\":1}", "b\nc", "x"]);
    }

    proptest! {
        #[test]
        fn events_are_the_same_however_they_are_cut(cuts in proptest::collection::vec(0..STREAM.len(), 0..6)) {
            let mut cuts = cuts;
            cuts.extend([0, STREAM.len()]);
            cuts.sort_unstable();
            let parts: Vec<&[u8]> = cuts.windows(2).map(|cut| &STREAM[cut[0]..cut[1]]).collect();
            prop_assert_eq!(events(&parts), events(&[STREAM]));
        }

        #[test]
        fn any_bytes_are_read_within_the_limit(bytes in proptest::collection::vec(any::<u8>(), 0..500)) {
            let mut lines = Lines::default();
            prop_assert!(lines.feed(&bytes, |_| ()).is_ok());
        }
    }

    #[test]
    fn an_event_without_end_is_refused() {
        let mut lines = Lines::default();
        assert!(lines.feed(&vec![b'x'; BENCH_EVENT_BYTES], |_| ()).is_ok());
        assert!(lines.feed(b"x", |_| ()).is_err());
    }

    #[test]
    fn only_new_states_of_emails_are_news() {
        let mut known = None;
        let change = |account: &str, data_type: &str, state: &str| {
            format!(
                "{{\"@type\":\"StateChange\",\"changed\":{{\"{account}\":{{\"{data_type}\":\"{state}\"}}}}}}"
            )
        };
        assert!(is_news(&change("a", "Email", "1"), "a", &mut known));
        for other in
            [change("a", "Email", "1"), change("b", "Email", "2"), change("a", "Mailbox", "2"), "?".into()]
        {
            assert!(!is_news(&other, "a", &mut known), "{other}");
        }
        assert!(is_news(&change("a", "Email", "2"), "a", &mut known));
    }
}
