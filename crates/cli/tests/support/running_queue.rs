//! A queue that runs in the test, on the data of a [`Home`](super::run::Home); its mail is never
//! sent.
#![allow(dead_code, reason = "every test uses a part of it")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sealpost_base::{AccountId, Budget, Clock, Position, SystemClock, SystemRandom};
use sealpost_delivery::outcome::{Failure, Reason};
use sealpost_delivery::transport::{Choice, Destination, Transport};
use sealpost_queue::envelope::{Body, Facts, Mail, Recipient, Source, TlsDemand};
use sealpost_queue::event::{Attempted, Event, Outcome, Taken};
use sealpost_queue::runner::{AsAccepted, Runner, Settings};
use sealpost_queue::{MailId, Opening, Queue, State};
use sealpost_smtp::types::{Host, ReversePath};
use sealpost_vault::Store;
use sealpost_vault::entry::LogKey;
use sealpost_vault::mail_key::MailKeys;
use sealpost_vault::server_key::ServerKeys;

/// The name of the node whose queue it is.
pub const NODE: &str = "mx.example.org-1";

/// No destination is found.
struct Unreachable;

#[async_trait]
impl Transport for Unreachable {
    async fn resolve(
        &self,
        _: &ReversePath,
        destination: &Host,
        choice: Choice,
    ) -> Option<Result<Box<dyn Destination>, Failure>> {
        let domain = destination.to_string();
        (choice == Choice::First).then(|| Err(Failure::new(Reason::DnsFailed, domain)))
    }
}

/// A queue, and what runs it.
pub struct RunningQueue {
    runtime: tokio::runtime::Runtime,
    pub queue: Queue,
    runner: Runner,
}

impl RunningQueue {
    /// The queue of [`NODE`] in the data directory `data`.
    pub fn start(data: &Path) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.unwrap();
        let opening = async {
            let random = Arc::new(SystemRandom);
            let opening = Opening {
                store: Store::local(data).await.unwrap(),
                node: sealpost_queue::node_id(NODE),
                name: NODE.to_owned(),
                log_key: LogKey::of(&ServerKeys::load(&data.join("server.key")).unwrap()),
                mail_keys: MailKeys::load_or_create(&data.join("mail.key"), &*random).unwrap(),
                clock: Arc::new(SystemClock::new()),
                random,
                budget: Budget::new(32 << 20),
                known: Position::ZERO,
            };
            Queue::open(opening).await.unwrap()
        };
        let queue = runtime.block_on(opening);
        let settings = Settings { host: "mx.example.org".to_owned(), connections: 10 };
        let runner = Runner::new(queue.clone(), Arc::new(Unreachable), Arc::new(AsAccepted), settings);
        let (appending, sending) = (queue.clone(), runner.clone());
        runtime.spawn(async move { appending.run().await });
        runtime.spawn(async move { sending.run().await });
        RunningQueue { runtime, queue, runner }
    }

    /// Accepts a mail; the recipients' first attempt fails.
    pub fn accept(&self, from: &str, to: &[&str], message_id: &str) -> MailId {
        let id = self.runtime.block_on(self.queue.accept(mail(from, to, message_id))).unwrap();
        self.until(|state| state.rows().get(id).is_none_or(|row| row.attempts > 0));
        id
    }

    /// Waits until that is so of the queue.
    pub fn until(&self, is_so: impl Fn(&State) -> bool) {
        let mut changes = self.queue.changes();
        let waits = async {
            let is_so = changes.wait_for(|_| is_so(&self.queue.state()));
            tokio::time::timeout(Duration::from_secs(30), is_so).await.unwrap().unwrap();
        };
        self.runtime.block_on(waits);
    }

    /// Notes that a server took the mail for a recipient.
    pub fn delivered(&self, mail: MailId, place: u16) {
        let outcomes = vec![(place, Outcome::Delivered)];
        let next = SystemClock::new().now();
        let event = Event::Attempted(Attempted { mail, outcomes, attempts: 2, next });
        let server = Event::Taken(Taken::new(mail, "mx.there.example", "250 2.0.0 queued as 7"));
        self.runtime.block_on(self.queue.commit(vec![server, event])).unwrap();
    }

    /// Makes the log shorter, so often that what there was is trimmed.
    pub fn trim(&self) {
        for _ in 0..3 {
            self.runtime.block_on(self.queue.commit(vec![Event::Alive])).unwrap();
            self.runtime.block_on(self.queue.upkeep()).unwrap();
        }
    }

    /// Ends it as a server does.
    pub fn stop(self) {
        self.runner.stop();
        self.queue.close();
        let stopped = async {
            while self.queue.stopped().is_none() {
                tokio::task::yield_now().await;
            }
        };
        self.runtime.block_on(stopped);
    }
}

fn mail(from: &str, to: &[&str], message_id: &str) -> Mail {
    Mail {
        accepted: SystemClock::new().now(),
        account: Some(AccountId([7; 16])),
        from: from.to_owned(),
        recipients: to.iter().map(|address| Recipient::new(*address)).collect(),
        ret: None,
        envid: None,
        facts: Facts { size: 2048, ..Facts::default() },
        tls: TlsDemand::Policy,
        release: None,
        header: b"Received: here\r\n".to_vec(),
        body: Body::Inline(b"Subject: x\r\n\r\ntext\r\n".to_vec()),
        message_id: Some(message_id.to_owned()),
        source: Source::Submission,
        submission: None,
        report_on: None,
    }
}
