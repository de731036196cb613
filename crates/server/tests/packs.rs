//! Requests to a remote store: reading a thousand messages takes few.

#![allow(clippy::print_stderr, reason = "docs/benchmarks.md has what is counted here")]

#[path = "support/deflate_wire.rs"]
mod deflate_wire;
#[allow(dead_code, reason = "the transcripts are for another test")]
#[path = "support/imap_world.rs"]
mod imap_world;
#[allow(dead_code, reason = "the transcripts are for another test")]
#[path = "support/smtp_world.rs"]
mod smtp_world;
#[allow(dead_code, reason = "nothing is played here")]
#[path = "support/transcript.rs"]
mod transcript;

use std::sync::Arc;

use futures::TryStreamExt;
use imap_world::{Client, NOW, TestServer, dial};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, PutPayload};
use sealpost_account::MessageNumber;
use sealpost_base::{Budget, FakeClock, MemoryDivision, Random, SeededRandom};
use sealpost_imap_session::ImapShared;
use sealpost_index::{Index, PackReads, Packed};
use sealpost_session::net::Stream;
use sealpost_session::{Context, Settings};
use sealpost_smtp::client::Protocol;
use sealpost_testkit::faulty::{Faulty, Plan};
use sealpost_vault::server_key::ServerKeys;
use sealpost_vault::{AppendMode, Backend, Store};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

/// How long the server may take for a reply.
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(20);
/// Requests that open an account which the process does not know, at most.
const COLD_REQUESTS: u64 = 40;
const MESSAGES: u64 = 1000;

/// A store that counts, and an account in it with a thousand small messages.
struct Bucket {
    objects: Arc<InMemory>,
    calls: Faulty,
    world: TestServer,
}

/// Some 8 KiB that compress to about half.
fn message(n: u64) -> Vec<u8> {
    let random = SeededRandom::new(n);
    let mut message =
        format!("Subject: message {n}\r\nFrom: a{n}@example.org\r\n\r\nthis is number {n}.\r\n");
    for _ in 0..128 {
        for _ in 0..4 {
            message += &format!("{:016x}", random.next_u64());
        }
        message += "\r\n";
    }
    message.into_bytes()
}

fn settings() -> Settings {
    settings_with(MemoryDivision::DEFAULT_BOUND)
}

fn settings_with(bound: usize) -> Settings {
    let memory = MemoryDivision::of(bound);
    Settings { hostname: "localhost".to_owned(), memory, ..Settings::default() }
}

impl Bucket {
    async fn new(messages: u64) -> Self {
        let objects = Arc::new(InMemory::new());
        let calls = Faulty::new(objects.clone(), Plan::default(), 1);
        let world = TestServer::over(Store::over(Arc::new(calls.clone())).packing(), settings(), None).await;
        for n in 0..messages {
            world.deliver(None, &message(n)).await;
        }
        let account = world.account().await;
        account.refresh().await.unwrap();
        account.checkpoint().await.unwrap();
        Index::of(&account).compact_packs().await.unwrap();
        Bucket { objects, calls, world }
    }

    /// A client of another process, which knows nothing yet, in the inbox.
    async fn cold(&self) -> (Arc<Context>, Client) {
        self.cold_with(settings()).await
    }

    async fn cold_with(&self, settings: Settings) -> (Arc<Context>, Client) {
        self.cold_over(Store::over(Arc::new(self.calls.clone())).packing(), settings).await
    }

    async fn cold_over(&self, store: Store, settings: Settings) -> (Arc<Context>, Client) {
        cold_over(store, settings).await
    }

    /// How many requests a command takes, and what is answered, but for how far it is.
    async fn requests(&self, client: &mut Client, command: &str) -> (u64, Vec<String>) {
        let before = self.calls.calls();
        let mut lines = client.ok(command).await;
        lines.retain(|line| !line.starts_with("* OK [INPROGRESS"));
        let requests = self.calls.calls() - before;
        eprintln!("{command}: {requests} requests");
        (requests, lines)
    }

    async fn packs(&self) -> Vec<Path> {
        let listed: Vec<_> = self.objects.list(None).try_collect().await.unwrap();
        listed
            .into_iter()
            .map(|object| object.location)
            .filter(|path| path.as_ref().contains("/pack/"))
            .collect()
    }
}

/// A client of a process that knows nothing yet, in the inbox.
async fn cold_over(store: Store, settings: Settings) -> (Arc<Context>, Client) {
    let key = ServerKeys::generate(&SeededRandom::new(1));
    let (clock, random) = (Arc::new(FakeClock::new(NOW)), Arc::new(SeededRandom::new(2)));
    let ctx = Arc::new(Context::new(settings, store, key.clone(), None, clock, random).unwrap());
    let (mut client, _) = dial(&Arc::new(ImapShared::new(ctx.clone(), &key)));
    client.login().await;
    client.ok("SELECT INBOX").await;
    (ctx, client)
}

#[tokio::test]
async fn a_thousand_messages_are_read_in_a_few_requests() {
    let bucket = Bucket::new(MESSAGES).await;
    let commands = [
        ("FETCH 1:* FULL", 20, MESSAGES),
        ("FETCH 1:* (BODY.PEEK[])", 40, MESSAGES),
        ("FETCH 1:* (BODY.PEEK[TEXT])", 40, MESSAGES),
        // The last messages are in no pack, since a few are not worth one; they are read twice, and
        // segments are written.
        ("SEARCH BODY \"is number 77.\"", 60, 1),
        ("SORT (SUBJECT) UTF-8 ALL", 40, 1),
    ];
    for bound in [MemoryDivision::DEFAULT_BOUND, 64 << 20] {
        for (command, most, lines) in commands {
            let (_ctx, mut client) = bucket.cold_with(settings_with(bound)).await;
            let (requests, found) = bucket.requests(&mut client, command).await;
            assert_eq!(found.len() as u64, lines + 1, "{command}");
            assert!(requests <= most, "{command}: {requests} requests");
        }
    }
    // What packs are for, and that it is counted. Structures are in segments by now.
    for (command, most, lines) in &commands[..3] {
        let (_ctx, mut client) =
            bucket.cold_over(Store::over(Arc::new(bucket.calls.clone())), settings()).await;
        let (requests, found) = bucket.requests(&mut client, command).await;
        let expected = if command.contains("BODY") { requests >= MESSAGES } else { requests <= *most };
        assert!(found.len() as u64 == lines + 1 && expected, "{command}: {requests} requests");
    }
}

/// What clients ask for at a first synchronisation, once there are segments.
#[tokio::test]
async fn headers_of_ten_thousand_messages_take_forty_requests() {
    const MESSAGES: u64 = 10_000;
    const MOST: u64 = 40;
    let commands = [
        "UID FETCH 1:* (UID RFC822.SIZE FLAGS BODY.PEEK[HEADER.FIELDS (From To Cc Bcc Subject Date Message-ID \
         Priority X-Priority References Newsgroups In-Reply-To Content-Type Reply-To)])",
        "FETCH 1:* (UID FLAGS INTERNALDATE RFC822.SIZE BODY.PEEK[HEADER])",
        "FETCH 1:* (UID ENVELOPE BODYSTRUCTURE)",
    ];
    let bucket = Bucket::new(0).await;
    for n in 0..MESSAGES {
        let from = format!("From: sender {n} <s{}@example.org>\r\nTo: me@localhost\r\n", n % 40);
        let ids = format!("Message-ID: <{n}@example.org>\r\nReferences: <{}@example.org>\r\n", n / 2);
        let message = format!("Subject: message {n}\r\n{from}{ids}\r\nthis is number {n}.\r\n");
        bucket.world.deliver(None, message.as_bytes()).await;
    }
    let account = bucket.world.account().await;
    account.refresh().await.unwrap();
    account.checkpoint().await.unwrap();
    let (_ctx, mut first) = bucket.cold().await;
    for command in commands {
        first.ok(command).await;
    }
    Index::of(&account).compact_summaries().await.unwrap();
    for bound in [MemoryDivision::DEFAULT_BOUND, 64 << 20] {
        for command in commands {
            let (_ctx, mut client) = bucket.cold_with(settings_with(bound)).await;
            let (requests, found) = bucket.requests(&mut client, command).await;
            assert_eq!(found.len() as u64, MESSAGES + 1, "{command}");
            assert!(requests <= MOST, "{command}: {requests} requests");
        }
    }
}

/// However messages were moved about, and however little memory there is.
#[tokio::test]
async fn a_search_reads_each_segment_once() {
    let bucket = Bucket::new(MESSAGES).await;
    let settings = || settings_with(64 << 20);
    let (_ctx, mut client) = bucket.cold_with(settings()).await;
    client.ok("SEARCH BODY \"is number 77.\"").await;
    client.ok("SEARCH SUBJECT \"message 77\"").await;
    let account = bucket.world.account().await;
    account.refresh().await.unwrap();
    Index::of(&account).compact_summaries().await.unwrap();
    for n in 0..50 {
        // Every fiftieth, so that neighbours come from everywhere.
        let set: Vec<_> = (0..20).map(|i| (1 + n + 50 * i).to_string()).collect();
        client.ok(&format!("COPY {} Archive", set.join(","))).await;
    }
    let search =
        ["SEARCH BODY \"is number 77.\"", "SEARCH SUBJECT \"message 77\"", "SORT (SUBJECT) UTF-8 ALL"];
    for command in search {
        let (_ctx, mut client) = bucket.cold_with(settings()).await;
        client.ok("EXAMINE Archive").await;
        let (requests, found) = bucket.requests(&mut client, command).await;
        assert!(found.len() == 2 && requests <= 20, "{command}: {requests} requests");
    }
}

/// Packs are opened in the memory that is given for them, and in no other; what does not fit is done without.
#[tokio::test]
async fn packs_are_opened_where_there_is_room() {
    let account = Bucket::new(500).await.world.account().await;
    let numbers: Vec<MessageNumber> = account.state().messages().map(|(number, _)| number).collect();
    let (first, second, other) = (numbers[0], numbers[1], numbers[300]);
    let memory = Budget::new(3 << 19);
    let packs = PackReads::new(&Index::of(&account), Packed::Messages, &memory);
    packs.expect(numbers).await;
    assert!(packs.are_together(first, second) && !packs.are_together(first, other));
    assert!(packs.has_memory(first) && packs.has_memory(other));
    let message = account.state().message(first).unwrap();
    let reader = packs.reader(first, &message).await;
    assert!(memory.in_use() > 1_000_000, "a pack");
    assert!(packs.has_memory(second) && !packs.has_memory(other), "one pack fits");
    drop(reader);
    packs.free_memory(other);
    assert!(packs.has_memory(other) && memory.in_use() == 0);
    // Another request holds all of it.
    let _all = memory.try_acquire_large(3 << 19).unwrap();
    assert!(!packs.has_memory(other));
    packs.free_memory(other);
    assert!(packs.has_memory(other) && !packs.has_memory(first));
}

/// Deliveries have only the public key. The next login has the private one.
#[tokio::test]
async fn deliveries_without_sessions_are_packed_at_the_next_login() {
    let objects = Arc::new(InMemory::new());
    let calls = Faulty::new(objects.clone(), Plan::default(), 1);
    let store = || Store::over(Arc::new(calls.clone())).packing();
    let mut world = smtp_world::TestServer::over(store(), settings()).await;
    let mut client = Lmtp::new(world.connect_as(Protocol::Lmtp)).await;
    for n in 0..40 {
        client.deliver("me@localhost", &message(n)).await;
    }
    let packs = || async {
        let listed: Vec<_> = objects.list(None).try_collect().await.unwrap();
        listed.into_iter().filter(|object| object.location.as_ref().contains("/pack/")).count()
    };
    assert_eq!(packs().await, 0);
    world.inbox("me@localhost").await.unwrap();
    let packed = async {
        while packs().await < 2 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, packed).await.expect("packs are made");
}

/// Structures come with the log, and whole messages are packed a moment later: no client waits for
/// the packs.
#[tokio::test]
async fn deliveries_without_sessions_are_fetched_in_few_requests() {
    let calls = Faulty::new(Arc::new(InMemory::new()), Plan::default(), 1);
    let store = || Store::over(Arc::new(calls.clone())).packing();
    let mut world = smtp_world::TestServer::over(store(), settings()).await;
    let mut client = Lmtp::new(world.connect_as(Protocol::Lmtp)).await;
    for n in 0..MESSAGES {
        client.deliver("me@localhost", &message(n)).await;
    }
    let mut shown = Vec::new();
    for round in ["the first", "packed"] {
        let (_ctx, mut client) = cold_over(store(), settings()).await;
        let before = calls.calls();
        let mut lines = client.ok("FETCH 1:* FULL").await;
        let requests = calls.calls() - before;
        eprintln!("FETCH 1:* FULL, {round}, of what came while nobody was logged in: {requests} requests");
        assert!(requests <= 20, "{round}: {requests} requests");
        lines.retain(|line| !line.starts_with("* OK [INPROGRESS"));
        // Only the first session sees them.
        shown.push(lines.into_iter().map(|line| line.replace("\\Recent", "")).collect::<Vec<_>>());
    }
    assert!(shown[0].len() as u64 == MESSAGES + 1 && shown[0][0].contains("message 0"), "{}", shown[0][0]);
    assert!(shown[0] == shown[1]);
}

#[tokio::test]
async fn changes_of_a_thousand_messages_take_few_requests() {
    let bucket = Bucket::new(MESSAGES).await;
    let (_ctx, mut client) = bucket.cold().await;
    for command in ["STORE 1:* +FLAGS.SILENT (\\Flagged)", "COPY 1:* Archive", "MOVE 1:* Archive"] {
        let (requests, _) = bucket.requests(&mut client, command).await;
        assert!(requests <= 3, "{command}: {requests} requests");
    }
}

/// A login and SELECT in a process that knows nothing: the record of the account, the end of its
/// log, the manifests, the checkpoint and its chunks. It does not grow with the length of the log.
#[tokio::test]
async fn a_cold_account_opens_in_few_requests() {
    for append_mode in [AppendMode::Conditional, AppendMode::Siblings] {
        let calls = Faulty::new(Arc::new(InMemory::new()), Plan::default(), 1);
        let store = || Store::with(Arc::new(calls.clone()), Backend { append_mode }).packing();
        let world = TestServer::over(store(), settings(), None).await;
        let mut counted = Vec::new();
        for round in 0..4 {
            for n in 0..10 {
                world.deliver(None, &message(10 * round + n)).await;
                world.account().await.refresh().await.unwrap();
            }
            let account = world.account().await;
            account.checkpoint().await.unwrap();
            let before = calls.calls();
            let (_ctx, mut client) = cold_over(store(), settings()).await;
            counted.push(calls.calls() - before);
            client.ok("LOGOUT").await;
        }
        eprintln!("a cold account, {append_mode:?}: {counted:?} requests");
        assert!(counted.iter().all(|requests| *requests <= COLD_REQUESTS), "{append_mode:?}: {counted:?}");
    }
}

/// The whole of it, as a client of LMTP causes it: whose address it is, the message, and the entry;
/// on stores of both kinds.
#[tokio::test]
async fn a_delivery_takes_three_requests() {
    for append_mode in [AppendMode::Conditional, AppendMode::Siblings] {
        let calls = Faulty::new(Arc::new(InMemory::new()), Plan::default(), 1);
        let store = Store::with(Arc::new(calls.clone()), Backend { append_mode }).packing();
        let mut world = smtp_world::TestServer::over(store, settings()).await;
        let mut client = Lmtp::new(world.connect_as(Protocol::Lmtp)).await;
        client.deliver("me@localhost", &message(1)).await;
        for n in 2..5 {
            let before = calls.calls();
            client.deliver("me@localhost", &message(n)).await;
            let requests = calls.calls() - before;
            eprintln!("a delivery, {append_mode:?}: {requests} requests");
            assert!(requests <= 3, "{append_mode:?}: {requests}");
        }
        // A connection of its own for each, after an idle period.
        world.clock.advance(std::time::Duration::from_secs(3600));
        let before = calls.calls();
        let mut client = Lmtp::new(world.connect_as(Protocol::Lmtp)).await;
        client.deliver("me@localhost", &message(9)).await;
        eprintln!("the first after an hour, {append_mode:?}: {} requests", calls.calls() - before);
        assert!(calls.calls() - before <= 6);
        assert_eq!(world.inbox("me@localhost").await.unwrap().len(), 5);
    }
}

/// A client of LMTP.
struct Lmtp(BufReader<Stream>);

impl Lmtp {
    async fn new(stream: Stream) -> Self {
        let mut client = Lmtp(BufReader::new(stream));
        client.reply("220").await;
        client.say("LHLO client.example").await;
        client.reply("250").await;
        client
    }

    async fn say(&mut self, line: &str) {
        self.0.get_mut().write_all(format!("{line}\r\n").as_bytes()).await.unwrap();
        self.0.get_mut().flush().await.unwrap();
    }

    /// The last line of the next reply has that code.
    async fn reply(&mut self, code: &str) {
        loop {
            let mut line = String::new();
            let read = tokio::time::timeout(TIMEOUT, self.0.read_line(&mut line)).await;
            read.expect("the server answers").unwrap();
            assert!(line.starts_with(code), "expected {code}, got {line:?}");
            if line.as_bytes()[3] == b' ' {
                return;
            }
        }
    }

    async fn deliver(&mut self, to: &str, message: &[u8]) {
        for (line, code) in [
            ("MAIL FROM:<a@example.org>".to_owned(), "250"),
            (format!("RCPT TO:<{to}>"), "250"),
            ("DATA".to_owned(), "354"),
        ] {
            self.say(&line).await;
            self.reply(code).await;
        }
        self.0.get_mut().write_all(message).await.unwrap();
        self.say(".").await;
        self.reply("250").await;
    }
}

/// What is read is the same with packs, without, and with damaged ones.
#[tokio::test]
async fn missing_and_damaged_packs_cost_requests_and_nothing_else() {
    let bucket = Bucket::new(100).await;
    let commands = ["FETCH 1:* (ENVELOPE BODY)", "FETCH 1:* (BODY.PEEK[])"];
    let (_ctx, mut client) = bucket.cold().await;
    let mut expected = Vec::new();
    for command in commands {
        expected.push(client.ok(command).await);
    }
    let packs = bucket.packs().await;
    assert_eq!(packs.len(), 2, "{packs:?}");
    for damage in ["a bit in the middle", "a bit at the beginning", "cut", "gone after it was listed"] {
        let (_ctx, mut client) = bucket.cold().await;
        if damage.starts_with("gone") {
            client.ok("FETCH 1:50 (ENVELOPE BODY.PEEK[TEXT])").await;
        }
        for path in &packs {
            let Ok(found) = bucket.objects.get(path).await else { continue };
            let mut bytes = found.bytes().await.unwrap().to_vec();
            let middle = bytes.len() / 2;
            match damage {
                "cut" => bytes.truncate(middle),
                "a bit in the middle" => bytes[middle] ^= 1,
                "a bit at the beginning" => bytes[0] ^= 1,
                _ => {
                    bucket.objects.delete(path).await.unwrap();
                    continue;
                }
            }
            bucket.objects.put(path, PutPayload::from(bytes)).await.unwrap();
        }
        for (command, expected) in commands.iter().zip(&expected) {
            assert!(&client.ok(command).await == expected, "{command}: {damage}");
        }
        // They are rebuilt.
        Index::of(&bucket.world.account().await).compact_packs().await.unwrap();
        assert_eq!(bucket.packs().await, packs, "{damage}");
    }
}

/// What was purged is in no pack, and what is left is packed.
#[tokio::test]
async fn purged_messages_are_in_no_pack() {
    let bucket = Bucket::new(100).await;
    let account = bucket.world.account().await;
    let before = bucket.packs().await;
    let (_ctx, mut client) = bucket.cold().await;
    client.ok("STORE 3:12 +FLAGS.SILENT (\\Deleted)").await;
    client.ok("EXPUNGE").await;
    account.refresh().await.unwrap();
    let objects = |packs: Vec<Path>| packs.iter().map(Path::to_string).collect::<Vec<_>>();
    assert_eq!(objects(bucket.packs().await), objects(before.clone()), "the grace period is not over");
    bucket.world.clock.advance(std::time::Duration::from_secs(8 * 24 * 3600));
    assert_eq!(account.collect_garbage().await.unwrap().purged, 10);
    let after = bucket.packs().await;
    assert_eq!(after.len(), 2, "{after:?}");
    for path in &after {
        assert!(path.as_ref().ends_with("-0000005a") && !before.contains(path), "{path}");
    }
    let (_ctx, mut client) = bucket.cold().await;
    let (requests, lines) = bucket.requests(&mut client, "FETCH 1:* (BODY.PEEK[])").await;
    assert!(lines.len() == 91 && requests <= 3, "{requests}");
}

/// What segments of headers and structures answer is what the messages say, in few requests, and
/// not what they said before something was expunged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn segments_give_the_same_answers_as_messages() {
    let bucket = Bucket::new(400).await;
    let multipart = "Subject: parts\r\nReferences: <a@b>\r\n <c@d>\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n\
                     --b\r\nX-A: 1\r\n\r\none\r\n--b\r\nContent-Type: message/rfc822\r\n\r\nSubject: in\r\n\r\ntwo\r\n--b--\r\n";
    let long = format!("Subject: long\r\nX-Long: {}\r\n\r\nbody\r\n", "y".repeat(20_000));
    let odd = [multipart, "no header at all", "\r\n", "Subject : odd\r\nsubject: again\r\n more\r\n", &long];
    for message in odd.iter().cycle().take(20) {
        bucket.world.deliver(None, message.as_bytes()).await;
    }
    let messages: usize = 420;
    let items = [
        "(UID RFC822.SIZE BODY.PEEK[HEADER.FIELDS (From To Cc Subject References)])",
        "(BODY.PEEK[HEADER.FIELDS.NOT (Subject X-Long)])",
        "(BODY.PEEK[HEADER] BODY.PEEK[HEADER]<3.20>)",
        "(ENVELOPE BODY.PEEK[HEADER.FIELDS (References)])",
        "(BODYSTRUCTURE INTERNALDATE PREVIEW)",
        "(BODY.PEEK[TEXT] BODY.PEEK[TEXT]<2.5>)",
        "(BODY.PEEK[1] BODY.PEEK[2.HEADER.FIELDS (Subject)] BODY.PEEK[1.MIME] BODY.PEEK[3])",
        "(BINARY.PEEK[1] BODY.PEEK[HEADER])",
    ];
    let store = || Store::over(Arc::new(bucket.calls.clone()));
    // Of a few messages at a time everything is read from the messages.
    let (_ctx, mut client) = bucket.cold_over(store(), settings()).await;
    let mut expected = Vec::new();
    for items in items {
        let mut lines = Vec::new();
        for first in (1..=messages).step_by(10) {
            let mut some = client.ok(&format!("UID FETCH {first}:{} {items}", first + 9)).await;
            some.pop();
            lines.extend(some);
        }
        assert_eq!(lines.len(), messages, "{items}");
        expected.push(lines);
    }
    let segments = async || {
        let listed: Vec<_> = bucket.objects.list(None).try_collect().await.unwrap();
        let paths = listed.into_iter().map(|object| object.location.to_string());
        paths
            .filter(|path| path.contains("/idx/header/") || path.contains("/idx/structure/"))
            .collect::<Vec<_>>()
    };
    assert!(segments().await.is_empty());
    // A request for all of them creates the segments.
    client.ok("FETCH 1:* (ENVELOPE)").await;
    client.ok("FETCH 1:* (BODY.PEEK[HEADER])").await;
    let made = async {
        while segments().await.len() < 2 {
            client.ok("NOOP").await;
        }
    };
    tokio::time::timeout(TIMEOUT, made).await.expect("segments are made");
    let (_ctx, mut client) = bucket.cold_over(store(), settings()).await;
    for (items, expected) in items.iter().zip(&expected) {
        let (requests, mut found) = bucket.requests(&mut client, &format!("UID FETCH 1:* {items}")).await;
        found.pop();
        assert!(&found == expected, "{items}");
        let reads_messages = items.contains("TEXT") || items.contains("[1]");
        // The long headers are read one by one.
        assert!(reads_messages || requests <= 20, "{items}: {requests} requests");
    }
    client.ok("UID STORE 1:50 +FLAGS (\\Deleted)").await;
    client.ok("EXPUNGE").await;
    for (items, expected) in items.iter().zip(&expected) {
        let mut found = client.ok(&format!("UID FETCH 1:* {items}")).await;
        found.pop();
        let after_number = |line: &String| line.split_once(" FETCH ").unwrap().1.to_owned();
        let found: Vec<_> = found.iter().map(after_number).collect();
        assert!(found == expected[50..].iter().map(after_number).collect::<Vec<_>>(), "{items}");
    }
}
