//! The bench's own mailboxes over JMAP: found, filled and removed. All of them are below one, as
//! with IMAP.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use hyper::Method;
use sealpost_jmap::date::UtcDate;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::answer::{Answer, Refusal};
use super::http::{Outgoing, expanded, path_of};
use super::{Jmap, Wrong};
use crate::load::client::{Fail, MISSED_NOTIFICATIONS, notified};
use crate::load::data::About;
use crate::load::scenario::template::{MAILBOX, Template};
use crate::load::scenario::{Fill, Step};

/// Emails of one Email/import.
const IMPORTED: u64 = 50;

/// The bench's mailboxes in an account.
#[derive(Debug, Default)]
pub(super) struct Mailboxes {
    root: Option<String>,
    /// Ids and numbers of emails, by the name below the root.
    below: BTreeMap<String, (String, u64)>,
}

impl Mailboxes {
    /// Those in the response to a Mailbox/get of all mailboxes.
    pub(super) fn of(answer: &Answer) -> Self {
        let Some(all) = answer.of("Mailbox/get") else { return Mailboxes::default() };
        let root = all.list.iter().find(|m| m.parent_id.is_none() && m.name.as_deref() == Some(MAILBOX));
        let Some(root) = root.and_then(|root| root.id.clone()) else { return Mailboxes::default() };
        let below = all.list.iter().filter(|mailbox| mailbox.parent_id.as_ref() == Some(&root));
        let below = below.filter_map(|mailbox| {
            let total = mailbox.total_emails.unwrap_or(0);
            Some((mailbox.name.clone()?, (mailbox.id.clone()?, total)))
        });
        Mailboxes { below: below.collect(), root: Some(root) }
    }

    /// The id of a mailbox.
    pub(super) fn id(&self, name: &str) -> Option<&str> {
        self.below.get(name).map(|(id, _)| id.as_str())
    }

    /// How many emails it has.
    pub(super) fn total(&self, name: &str) -> Option<u64> {
        self.below.get(name).map(|(_, total)| *total)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Uploaded {
    blob_id: String,
}

impl Jmap {
    /// Asks for the bench's mailboxes; not counted.
    pub(super) async fn find_mailboxes(&mut self) -> Result<(), Wrong> {
        let properties = ["id", "name", "parentId", "totalEmails"];
        let answer = self.query("Mailbox/get", json!({"ids": null, "properties": properties})).await?;
        self.mailboxes = Mailboxes::of(&answer);
        Ok(())
    }

    /// Makes a mailbox with so many emails, unless it has them.
    pub(super) async fn fill(&mut self, fill: &Fill) -> Result<(), Wrong> {
        let name = self.below_root(&fill.mailbox);
        self.find_mailboxes().await?;
        if self.mailboxes.total(&name) == Some(fill.count) {
            return Ok(());
        }
        if let Some(id) = self.mailboxes.id(&name).map(str::to_owned) {
            self.destroy(id).await?;
        }
        let mailbox = self.made(&name).await?;
        let data = self.client.thread.shared.data.get(&fill.data).cloned();
        let Some(data) = data else { return Ok(()) };
        for first in (0..fill.count).step_by(IMPORTED as usize) {
            let mut emails = Map::new();
            for nth in first..fill.count.min(first + IMPORTED) {
                let blob = self.uploaded(Bytes::copy_from_slice(&data.message(nth))).await?;
                let email = imported(&blob, &mailbox, data.about(nth, fill.count));
                emails.insert(format!("e{nth}"), email);
            }
            self.query("Email/import", json!({ "emails": emails })).await?;
        }
        self.find_mailboxes().await
    }

    /// Uploads the next message of a data set and imports it. Counted are both and the whole.
    pub(super) async fn append(
        &mut self,
        (mailbox, data, flags): (&Template, &str, &str),
        name: &str,
        step: &Step,
        from: Duration,
    ) -> Result<(), Wrong> {
        let thread = self.client.thread.clone();
        let mailbox_name = self.below_root(mailbox);
        if self.mailboxes.id(&mailbox_name).is_none() {
            self.find_mailboxes().await?;
        }
        let mailbox = self.made(&mailbox_name).await?;
        let Some(data) = thread.shared.data.get(data).cloned() else { return Ok(()) };
        // Other messages than those of FILL, which some servers would not import twice.
        let base = *self.first_appended.get_or_insert_with(|| (1 << 32) + self.client.random.below(1 << 32));
        let nth = base + self.client.messages.replace(self.client.messages.get() + 1);
        let message = data.message(nth);
        let blob = self.uploaded(Bytes::copy_from_slice(&message)).await?;
        let (sent, received) = self.count_traffic();
        thread.ok("upload", from, sent, received);
        let announced = thread.shared.notices.announce(self.client.account, thread.now());
        let email = imported(&blob, &mailbox, About { received: None, ..About::default() });
        let email = with_keywords(email, flags);
        let begun = thread.now();
        let imported = self.query("Email/import", json!({ "emails": { "e": email } })).await;
        if let (Err(_), Some(announced)) = (&imported, &announced) {
            thread.shared.notices.retract(announced);
        }
        imported?;
        let (sent, received) = self.count_traffic();
        thread.ok("Email/import", begun, sent, received);
        thread.ok(name, from, 0, 0);
        if let Some(announced) = announced.filter(|_| step.notified) {
            let was_notified = notified(&thread, &[announced]).await;
            self.missed = if was_notified { 0 } else { self.missed + 1 };
        }
        if self.missed >= MISSED_NOTIFICATIONS { Err(Fail::NotNotified.into()) } else { Ok(()) }
    }

    /// Removes all mailboxes of the bench, with their emails.
    pub(super) async fn clean(&mut self) -> Result<(), Wrong> {
        self.find_mailboxes().await?;
        let Mailboxes { root, below } = std::mem::take(&mut self.mailboxes);
        for (id, _) in below.into_values() {
            self.destroy(id).await?;
        }
        match root {
            Some(root) => self.destroy(root).await,
            None => Ok(()),
        }
    }

    /// The id of the mailbox of that name, which is made if it is missing.
    async fn made(&mut self, name: &str) -> Result<String, Wrong> {
        if let Some(id) = self.mailboxes.id(name) {
            return Ok(id.to_owned());
        }
        if self.mailboxes.root.is_none() {
            self.query("Mailbox/set", json!({"create": {"m": {"name": MAILBOX, "parentId": null}}})).await?;
            self.find_mailboxes().await?;
        }
        let missing = || Refusal::wrong(format!("the mailbox {name} was created and is not listed"));
        let root = self.mailboxes.root.clone().ok_or_else(missing)?;
        self.query("Mailbox/set", json!({"create": {"m": {"name": name, "parentId": root}}})).await?;
        self.find_mailboxes().await?;
        Ok(self.mailboxes.id(name).ok_or_else(missing)?.to_owned())
    }

    /// RFC 8621 §2.5.
    async fn destroy(&mut self, id: String) -> Result<(), Wrong> {
        self.query("Mailbox/set", json!({"destroy": [id], "onDestroyRemoveEmails": true})).await?;
        self.mailboxes.below.retain(|_, (other, _)| *other != id);
        Ok(())
    }

    /// Uploads a message (RFC 8620 §6.1); returns its blob id.
    async fn uploaded(&mut self, message: Bytes) -> Result<String, Wrong> {
        let url = expanded(&self.session.upload_url, &[("accountId", &self.session.account)]);
        let path = path_of(&url)?;
        let outgoing = Outgoing {
            method: Method::POST,
            path: &path,
            accept: "application/json",
            body: Some(("message/rfc822", message)),
        };
        let received = self.exchange(outgoing).await?;
        // RFC 8620 §6.1: 201; some servers answer 200.
        if !matches!(received.status, 200 | 201) {
            return Err(Refusal::of_status(received.status, &received.body).into());
        }
        let uploaded: Uploaded = serde_json::from_slice(&received.body)
            .map_err(|e| Refusal::wrong(format!("the response to an upload: {e}")))?;
        Ok(uploaded.blob_id)
    }
}

/// An email of Email/import (RFC 8621 §4.8).
fn imported(blob: &str, mailbox: &str, about: About) -> Value {
    let mut email = json!({"blobId": blob, "mailboxIds": {mailbox: true}});
    if let Some(received) = about.received {
        email["receivedAt"] = json!(UtcDate::new(received).to_string());
    }
    with_keywords(email, about.flags)
}

/// With IMAP's flags as keywords (RFC 8621 §4.1.1).
fn with_keywords(mut email: Value, flags: &str) -> Value {
    let flags = flags.trim_matches(['(', ')']).split_whitespace();
    let keywords = flags.map(|flag| (flag.replace('\\', "$").to_ascii_lowercase(), Value::from(true)));
    email["keywords"] = Value::Object(keywords.collect());
    email
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_become_keywords() {
        let email = with_keywords(json!({}), "(\\Seen \\Flagged Work)");
        assert_eq!(email, json!({"keywords": {"$seen": true, "$flagged": true, "work": true}}));
        let about = About { flags: "\\Seen", received: Some(sealpost_base::Timestamp(0)) };
        let email = imported("b", "m", about);
        assert_eq!(email["receivedAt"], "1970-01-01T00:00:00Z");
        assert_eq!(email["mailboxIds"], json!({"m": true}));
    }
}
