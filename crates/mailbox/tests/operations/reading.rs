//! Reading many messages in order, ahead of the caller that responds with them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sealpost_account::{Flags, Message, MessageNumber, NewMessage};
use sealpost_base::{Result, Timestamp};
use sealpost_index::{Index, PackReads, Packed, PieceReads, Pieces};
use sealpost_mailbox::read_ahead::{MessageRow, MessageSource, ReadAhead, ReadPlan};
use sealpost_mime::Outline;
use sealpost_vault::message;

use crate::fixture::{Fixture, MESSAGE, Member};

#[derive(Clone)]
struct Row {
    number: MessageNumber,
    message: Message,
}

impl MessageRow for Row {
    fn number(&self) -> MessageNumber {
        self.number
    }

    fn message(&self) -> &Message {
        &self.message
    }
}

/// Whether to read structures, or whole messages.
struct Plan {
    whole: bool,
}

impl ReadPlan for Plan {
    type Opened = Option<Vec<u8>>;

    fn reads_structure(&self) -> bool {
        !self.whole
    }

    fn reads_outline(&self) -> bool {
        false
    }

    fn locates_in_bytes(&self) -> bool {
        false
    }

    fn reads_bytes(&self) -> bool {
        self.whole
    }

    fn begins_with_all(&self) -> bool {
        self.whole
    }

    fn reads_bytes_of(&self, _: &Outline) -> bool {
        self.whole
    }

    fn decodes(&self) -> bool {
        false
    }

    async fn open(
        &self,
        _source: MessageSource,
        whole: Option<Vec<Bytes>>,
        outline: Option<Result<Outline>>,
    ) -> Option<Vec<u8>> {
        assert!(outline.is_none());
        whole.map(|pieces| pieces.concat())
    }
}

/// Reads the body of each message itself.
struct OwnBody;

impl ReadPlan for OwnBody {
    type Opened = Result<(Outline, bool)>;

    fn reads_structure(&self) -> bool {
        false
    }

    fn reads_outline(&self) -> bool {
        true
    }

    fn locates_in_bytes(&self) -> bool {
        true
    }

    fn reads_bytes(&self) -> bool {
        true
    }

    fn begins_with_all(&self) -> bool {
        false
    }

    fn reads_bytes_of(&self, _: &Outline) -> bool {
        true
    }

    fn decodes(&self) -> bool {
        false
    }

    async fn open(
        &self,
        _source: MessageSource,
        whole: Option<Vec<Bytes>>,
        outline: Option<Result<Outline>>,
    ) -> Result<(Outline, bool)> {
        outline.expect("it locates sections").map(|outline| (outline, whole.is_some()))
    }
}

fn rows(of: &Member) -> Vec<Row> {
    let state = of.account.state();
    let rows = state.inbox().all_rows();
    let row =
        |row: sealpost_account::Row| Some(Row { number: row.message, message: state.message(row.message)? });
    rows.filter_map(row).collect()
}

fn read(of: &Member, whole: bool) -> ReadAhead<Row, Plan> {
    read_with(of, Plan { whole })
}

fn read_with<P: ReadPlan>(of: &Member, plan: P) -> ReadAhead<Row, P> {
    let kind = if plan.reads_bytes() { Packed::Messages } else { Packed::Structures };
    let index = Index::of(&of.account);
    let packs = PackReads::new(&index, kind, of.account.reading());
    let structures = PieceReads::new(&index, Pieces::Structures, of.account.reading());
    let mut reading = ReadAhead::new(of.account.clone(), Arc::new(plan), packs, structures);
    reading.push(rows(of));
    reading
}

async fn append(w: &Fixture, text: &str) {
    let mut ingest = w.me.account.ingest().await.unwrap();
    ingest.write(text.as_bytes()).await.unwrap();
    let stored = ingest.finish().await.unwrap();
    let inbox = w.me.account.state().inbox().id();
    let new = NewMessage { stored, flags: Flags::default().into(), received: Timestamp(0) };
    w.me.account.append(inbox, vec![new]).await.unwrap();
}

#[tokio::test]
async fn structures_come_in_order_and_damage_stops_nothing() {
    let w = Fixture::new().await;
    for n in 0..40 {
        append(&w, &format!("Subject: {n}\r\n\r\nx\r\n")).await;
    }
    let damaged = {
        let state = w.me.account.state();
        let row = state.inbox().all_rows().nth(7).unwrap();
        message::path(w.me.id(), state.message(row.message).unwrap().object)
    };
    w.store.delete(&damaged).await.unwrap();
    let mut reading = read(&w.me, false);
    for n in 0..40 {
        let prepared = reading.next().await.unwrap().expect("there are forty");
        match prepared.structure.expect("it was asked for") {
            Ok(found) => assert_eq!(found.read().unwrap().envelope.subject, Some(&*n.to_string())),
            Err(_) => assert_eq!(n, 7),
        }
    }
    assert!(reading.next().await.unwrap().is_none());
}

#[tokio::test]
async fn small_messages_are_read_whole() {
    let w = Fixture::new().await;
    for _ in 0..20 {
        w.append(&w.me, "INBOX", Flags::default()).await.unwrap();
    }
    let mut reading = read(&w.me, true);
    for _ in 0..20 {
        let prepared = reading.next().await.unwrap().unwrap();
        assert!(prepared.structure.is_none());
        assert_eq!(prepared.opened.as_deref(), Some(MESSAGE));
    }
    assert!(reading.next().await.unwrap().is_none());
}

#[tokio::test]
async fn messages_that_come_later_are_read_behind_the_others() {
    let w = Fixture::new().await;
    for n in 0..40 {
        append(&w, &format!("Subject: {n}\r\n\r\nx\r\n")).await;
    }
    let mut reading = read(&w.me, true);
    for n in 0..120 {
        assert_eq!(reading.len(), if n < 30 { 40 - n } else { 120 - n });
        let prepared = reading.next().await.unwrap().unwrap();
        let expected = format!("Subject: {}\r\n\r\nx\r\n", n % 40);
        assert_eq!(prepared.opened.as_deref(), Some(expected.as_bytes()), "{n}");
        if n == 29 {
            reading.push(rows(&w.me));
            reading.push(rows(&w.me));
        }
    }
    assert!(reading.is_empty() && reading.next().await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_large_structure_waits_for_memory_and_keeps_order() {
    let w = Fixture::new().await;
    let part = "--b\r\nContent-Type: text/plain; name=\"a name that takes some memory\"\r\n\r\nx\r\n";
    let parts = part.repeat(300);
    let head = "Subject: large\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n";
    append(&w, "Subject: small\r\n\r\nx\r\n").await;
    append(&w, &format!("{head}{parts}--b--\r\n")).await;
    append(&w, "Subject: last\r\n\r\nx\r\n").await;
    let much = w.me.account.reading_much();
    let held = much.acquire_large(much.total()).await;
    let mut reading = read(&w.me, false);
    let subject = |prepared: Option<sealpost_mailbox::read_ahead::Prepared<Row, _>>| {
        let found = prepared.unwrap().structure.unwrap().unwrap();
        found.read().unwrap().envelope.subject.unwrap().to_owned()
    };
    assert_eq!(subject(reading.next().await.unwrap()), "small");
    let waiting = tokio::time::timeout(Duration::from_secs(60), reading.next()).await;
    assert!(waiting.is_err(), "there is no memory for it");
    drop(held);
    let mut reading = read(&w.me, false);
    for expected in ["small", "large", "last"] {
        assert_eq!(subject(reading.next().await.unwrap()), expected);
    }
}

#[tokio::test]
async fn small_messages_are_located_without_their_structures() {
    let w = Fixture::new().await;
    let head = "Subject: x\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n";
    let message = |text: &str| format!("{head}--b\r\n\r\n{text}\r\n--b--\r\n");
    let large = message(&"a line\r\n".repeat(10_000));
    append(&w, "").await;
    append(&w, &message("small")).await;
    append(&w, &large).await;
    append(&w, &message("removed")).await;
    let removed = {
        let rows = rows(&w.me);
        message::path(w.me.id(), rows[3].message.object)
    };
    w.store.delete(&removed).await.unwrap();
    let mut reading = read_with(&w.me, OwnBody);
    for (size, has_parts, whole) in
        [(0, false, true), (message("small").len(), false, true), (large.len(), true, false)]
    {
        let (outline, was_whole) = reading.next().await.unwrap().unwrap().opened.unwrap();
        let (own, _) = outline.part_within(&[]).unwrap();
        assert_eq!(own.body(), head.len().min(size) as u64..size as u64);
        assert_eq!((outline.part_within(&[2]).is_some(), was_whole), (false, whole));
        assert_eq!(own.is_multipart(), has_parts, "{size}");
    }
    assert!(reading.next().await.unwrap().unwrap().opened.is_err(), "its structure is gone with it");
}
