//! An account over a store in memory that may fail, and what its summaries should be.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::{ObjectStore, PutPayload, path::Path};
use sealpost_account::{Account, Accounts, Flags, NewMessage, Options};
use sealpost_base::{
    AccountId, Budget, FakeClock, MailboxId, Random, Result, SeededRandom, Timestamp, Uid, UidSet,
};
use sealpost_index::summary::ShortText;
use sealpost_index::{
    Index, Indexer, Parts, PieceReads, Pieces, ReadOrder, Summary, SummaryAddress, summary,
};
use sealpost_mime::Structure;
use sealpost_testkit::faulty::{Faulty, Plan};
use sealpost_vault::entry::LogKey;
use sealpost_vault::{AccountKeys, RootKey, Store};

pub const ID: AccountId = AccountId([9; 16]);

pub struct Fixture {
    pub objects: Arc<InMemory>,
    pub faults: Faulty,
    pub store: Store,
    pub clock: Arc<FakeClock>,
    pub random: Arc<SeededRandom>,
    root: RootKey,
}

impl Fixture {
    pub fn new(seed: u64) -> Self {
        let random = Arc::new(SeededRandom::new(seed));
        let objects = Arc::new(InMemory::new());
        let plan = Plan {
            fail: 30,
            lose_reply: 60,
            delay: 100,
            delay_max: Duration::from_millis(2),
            ..Plan::default()
        };
        let faults = Faulty::new(objects.clone(), plan, seed);
        faults.calm(true);
        Fixture {
            store: Store::over(Arc::new(faults.clone())),
            faults,
            objects,
            clock: Arc::new(FakeClock::new(Timestamp(1_700_000_000_000))),
            root: RootKey::generate(&*random),
            random,
        }
    }

    /// The account as another process would have it.
    pub async fn process(&self) -> Process {
        self.process_with(Budget::new(64 << 20)).await
    }

    pub async fn process_with(&self, budget: Budget) -> Process {
        let random: Arc<dyn Random> = self.random.clone();
        let options = Options::default();
        let derived = Some(Indexer::new(&options.memory) as _);
        let options = Options { budget, derived, ..options };
        let accounts =
            Accounts::with(self.store.clone(), LogKey::for_tests(), self.clock.clone(), random, options);
        let account = accounts.open(ID, &self.root).await.unwrap();
        Process { accounts, account }
    }

    pub async fn segments(&self) -> Vec<String> {
        let listed = self.store.list(&format!("acct/{ID}/idx"), None);
        listed.map(|object| object.unwrap().path).collect().await
    }

    /// What `sealpost check` says about a segment.
    pub async fn verify(&self, process: &Process, path: &str) -> Result<()> {
        let keys = AccountKeys::derive(&self.root, ID);
        let state = process.account.state().clone();
        summary::verify(&self.store, &keys, ID, &state, path).await
    }

    pub async fn copy(&self, from: &str, to: &str) {
        self.objects.copy(&Path::parse(from).unwrap(), &Path::parse(to).unwrap()).await.unwrap();
    }

    /// Damages an object: one bit of it, or all but its beginning.
    pub async fn damage(&self, path: &str) {
        let path = Path::parse(path).unwrap();
        let mut bytes = self.objects.get(&path).await.unwrap().bytes().await.unwrap().to_vec();
        let at = self.random.below(bytes.len() as u64) as usize;
        if self.random.below(2) == 0 {
            bytes[at] ^= 1;
        } else {
            bytes.truncate(at);
        }
        self.objects.put(&path, PutPayload::from(bytes)).await.unwrap();
    }
}

#[derive(Clone)]
pub struct Process {
    pub accounts: Accounts,
    pub account: Arc<Account>,
}

impl Process {
    pub fn index(&self) -> Index {
        Index::of(&self.account)
    }

    pub fn mailbox(&self, name: &str) -> MailboxId {
        self.account.state().mailbox_named(name).unwrap().id()
    }

    pub async fn append(&self, mailbox: &str, mails: &[String]) {
        let mut new = Vec::new();
        for mail in mails {
            let mut ingest = self.accounts.ingest(ID).await.unwrap();
            ingest.write(mail.as_bytes()).await.unwrap();
            let stored = ingest.finish().await.unwrap();
            new.push(NewMessage { stored, flags: Flags::default().into(), received: Timestamp(0) });
        }
        self.account.append(self.mailbox(mailbox), new).await.unwrap();
    }

    pub async fn summaries(&self, mailbox: &str, uids: UidSet, parts: Parts) -> Vec<(Uid, Result<Summary>)> {
        let summaries = self.index().summaries(self.mailbox(mailbox), uids, ReadOrder::Uids, parts, 64);
        summaries.map(futures::stream::iter).flatten().collect().await
    }

    /// What the summaries of a mailbox are.
    pub async fn told(&self, mailbox: &str) -> Vec<(Uid, String)> {
        let summaries = self.summaries(mailbox, all(), Parts::ALL).await;
        summaries.iter().map(|(uid, summary)| (*uid, describe(summary.as_ref().unwrap()))).collect()
    }

    /// What they should be: each made from the stored structure and text.
    pub async fn expected(&self, mailbox: &str) -> Vec<(Uid, String)> {
        let rows: Vec<_> = {
            let state = self.account.state();
            let mailbox = state.mailbox_named(mailbox).unwrap();
            mailbox.all_rows().map(|row| (row.uid, state.message(row.message).unwrap())).collect()
        };
        let mut expected = Vec::new();
        for (uid, message) in rows {
            let structure = self.account.structure(&message).await.unwrap();
            let text = self.account.text(&message).await.unwrap();
            expected.push((uid, describe(&Summary::new(&structure, &text))));
        }
        expected
    }

    /// The texts that segments have of a mailbox, which are those of the messages; how many there
    /// are, short ones and longer ones. Of others they know at most what these cannot hold.
    pub async fn texts(&self, mailbox: &str) -> [usize; 2] {
        let id = self.mailbox(mailbox);
        let index = self.index();
        let short = self.check_texts(id, |headers| index.short_texts(id, all(), headers, 64)).await;
        let longer = self.check_texts(id, |headers| index.longer_texts(id, all(), headers, 64)).await;
        [short, longer]
    }

    /// How many headers and structures segments have of a mailbox, each of which is what the
    /// message itself says.
    pub async fn pieces(&self, mailbox: &str) -> [usize; 2] {
        let mut found = [0; 2];
        for (at, kind) in [Pieces::Headers, Pieces::Structures].into_iter().enumerate() {
            let rows: Vec<_> = {
                let state = self.account.state();
                let rows = state.mailbox_named(mailbox).unwrap().all_rows();
                rows.map(|row| (row.message, state.message(row.message).unwrap())).collect()
            };
            let reads = PieceReads::new(&self.index(), kind, self.account.budget());
            reads.expect(rows.iter().map(|(number, _)| *number)).await;
            for (number, message) in rows {
                let mut piece = b"before ".to_vec();
                if !reads.get(number, message.object, &mut piece).await {
                    assert_eq!(piece, b"before ");
                    continue;
                }
                found[at] += 1;
                let reader = self.account.reader(&message);
                let structure = reader.structure().await.unwrap();
                let expected = match kind {
                    Pieces::Structures => structure,
                    Pieces::Headers => {
                        let header = Structure::decode(&structure).unwrap().root.header;
                        let raw: Vec<_> = reader.raw(header).map(Result::unwrap).collect().await;
                        raw.concat()
                    }
                };
                assert!(piece.strip_prefix(b"before ").unwrap() == expected, "{mailbox} {kind:?}");
            }
        }
        found
    }

    async fn check_texts(
        &self,
        id: MailboxId,
        stream: impl Fn(bool) -> BoxStream<'static, Vec<(Uid, ShortText)>>,
    ) -> usize {
        let texts: Vec<_> = stream(true).collect::<Vec<_>>().await.concat();
        let bodies: Vec<_> = stream(false).collect::<Vec<_>>().await.concat();
        let mut uids = HashSet::new();
        for (uid, text) in &texts {
            assert!(uids.insert(*uid));
            let message = {
                let state = self.account.state();
                let row = state.mailbox(id).unwrap().row(*uid).unwrap();
                state.message(row.message).unwrap()
            };
            let stored = self.account.text(&message).await.unwrap();
            if text.is_long() {
                let parts =
                    [&stored.headers, &stored.body].map(|text| text.as_bytes().windows(12).step_by(97));
                assert!(!stored.truncated && parts.into_iter().flatten().all(|part| text.may_hold(part)));
                assert!(!text.may_hold(b"zephyrine"));
                continue;
            }
            let sent = self.account.structure(&message).await.unwrap().envelope.sent_day();
            assert_eq!((text.headers(), text.body()), (stored.headers.as_str(), stored.body.as_str()));
            assert_eq!((text.is_truncated(), text.sent_day()), (stored.truncated, sent));
        }
        // Making a segment also yields texts that are too long for it, so one may have more than
        // the other.
        let bodies: HashMap<_, _> = bodies.into_iter().collect();
        for (uid, text) in &texts {
            let other = bodies.get(uid).filter(|other| !other.is_long() && !text.is_long());
            assert!(other.is_none_or(|other| other.body() == text.body()));
        }
        texts.iter().filter(|(_, text)| !text.is_long()).count()
    }

    /// Lets all background work end.
    pub async fn settle(&self) {
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
        self.index().compact_summaries().await.unwrap();
    }
}

/// Everything that a summary says.
pub fn describe(summary: &Summary) -> String {
    let list =
        |found: &mut dyn Iterator<Item = SummaryAddress<'_>>| format!("{:?}", found.collect::<Vec<_>>());
    format!(
        "{:?} {:?} {} {} {} {} {} {} {:?} {:?} {:?} {} {:?}",
        summary.sent(),
        summary.subject(),
        list(&mut summary.from()),
        list(&mut summary.to()),
        list(&mut summary.cc()),
        list(&mut summary.bcc()),
        list(&mut summary.sender()),
        list(&mut summary.reply_to()),
        summary.message_id(),
        summary.in_reply_to().collect::<Vec<_>>(),
        summary.references().collect::<Vec<_>>(),
        summary.headers_complete(),
        summary.headers(),
    )
}

/// A message of many shapes, some of them too much for a segment.
pub fn mail(random: &SeededRandom) -> String {
    let n = random.next_u64();
    let mut mail = format!("Received: from {n}\r\nFrom: =?utf-8?q?J=C3=B6rg_{n}?= <a{n}@example.org>\r\n");
    match n % 7 {
        0 => {}
        1 => mail += "Date: yesterday\r\nSubject:\r\n",
        2 => mail += "Date: Fri, 21 Nov 1997 09:55:06 -0600\r\nTo: A Group:Ed <c@a.test>,joe@where.test;\r\n",
        3 => mail += &format!("Message-ID: <{n}@x>\r\nReferences: <a@b>\r\n <c@d>\r\nIn-Reply-To: <c@d>\r\n"),
        4 => {
            mail += &format!("Sender: s@x\r\nReply-To: r@x\r\nCc: {}\r\n", "someone@example.org, ".repeat(30))
        }
        5 => mail += "Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?= an alle\r\nsubject: a second one\r\nBcc: x@y\r\n",
        _ if n % 21 == 6 => mail += &format!("To: {}\r\n", "a.rather.long.address@example.org, ".repeat(400)),
        _ => mail += &format!("Subject: number {n}\r\nDate: Mon, 1 Jan 2024 10:00:00 +0100\r\n"),
    }
    mail + "\r\nBody\r\n"
}

pub fn mails(random: &SeededRandom, count: usize) -> Vec<String> {
    (0..count).map(|_| mail(random)).collect()
}

pub fn all() -> UidSet {
    UidSet::range(Uid::MIN, Uid::new(u32::MAX).unwrap())
}

pub fn uid(n: u32) -> Uid {
    Uid::new(n).unwrap()
}
