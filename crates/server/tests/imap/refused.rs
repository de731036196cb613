//! What is refused leaves nothing: the store has the same objects before and after each command
//! that is answered NO or BAD.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::TryStreamExt;
use sealpost_base::limits;
use sealpost_directory::{Quotas, Role};
use sealpost_session::Settings;

use crate::imap_world::{Client, TestServer};

/// Where another account has a mailbox that this one may read and nothing else.
const THEIRS: &str = "\"Other Users/bob@localhost/Work\"";

/// Every object there is, and its size; without how much accounts hold, which sessions write down
/// in the background when they begin and end.
async fn objects(world: &TestServer) -> BTreeMap<String, u64> {
    let listed = world.ctx.store.list("", None).map_ok(|object| (object.path, object.size));
    let all: BTreeMap<_, _> = listed.try_collect().await.unwrap();
    all.into_iter().filter(|(path, _)| !path.starts_with("usage/")).collect()
}

/// Sends a command that must be refused, and waits until there is nothing of it: what was stored
/// before it was refused is removed in the background.
async fn leaves_nothing(world: &TestServer, client: &mut Client, command: &[u8]) {
    let before = objects(world).await;
    let shown = String::from_utf8_lossy(&command[..command.len().min(100)]).into_owned();
    client.send(&[b"x ", command, b"\r\n"].concat()).await;
    let answer = client.answer().await;
    let last = answer.last().unwrap();
    assert!(last.starts_with("x NO") || last.starts_with("x BAD"), "{shown}: {last}");
    for _ in 0..500 {
        if objects(world).await == before {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let after = objects(world).await;
    let new: Vec<_> = after.iter().filter(|object| before.get(object.0) != Some(object.1)).collect();
    panic!("{shown}: {last}\nleaves {new:?}");
}

/// Two accounts, one of which shares a mailbox with the other; its client, with a message selected.
async fn world(quotas: Quotas) -> (TestServer, Client) {
    let settings = Settings { message_size: 300_000, ..Settings::default() };
    let mut world = TestServer::new(settings).await;
    let name = world.name().clone();
    let limited = world.ctx.directory.update(&name, |record| {
        record.set_quotas(quotas);
        Ok(())
    });
    limited.await.unwrap();
    world.add_account("bob", None).await;
    let mut bob = world.connect();
    bob.login_as("bob").await;
    bob.ok("CREATE Work").await;
    bob.ok("SETACL Work me@localhost lr").await;
    bob.ok("APPEND Work {3+}\r\na\r\n").await;
    let mut client = world.login().await;
    client.ok("APPEND INBOX {9+}\r\na: b\r\n\r\nx").await;
    client.ok(&format!("SELECT {THEIRS}")).await;
    client.ok("SELECT INBOX").await;
    (world, client)
}

const REFUSED: &[&str] = &[
    // Sharing
    "SETACL INBOX bob@localhost lr",
    "SETACL INBOX bob@localhost lrswipkxtea",
    "SETACL INBOX bob@localhost +lr",
    "SETACL {5+}\r\nINBOX {13+}\r\nbob@localhost {2+}\r\nlr",
    "SETACL Nowhere bob@localhost lr",
    "SETACL Archive anyone lr",
    "SETACL Archive bob@localhost Q",
    "SETACL Archive bob@localhost LR",
    "SETACL Archive anyone lr",
    "SETACL Archive me@localhost r",
    "SETACL Archive -me@localhost r",
    "SETACL \"Other Users/bob@localhost/Work\" me@localhost lrswi",
    "DELETEACL Nowhere bob@localhost",
    "DELETEACL Archive me@localhost",
    "DELETEACL \"Other Users/bob@localhost/Work\" me@localhost",
    // Names
    "CREATE INBOX",
    "CREATE Archive",
    "CREATE \"\"",
    "CREATE /",
    "CREATE \"a//b\"",
    "CREATE \"a\tb\"",
    "CREATE A&B",
    "CREATE \"Other Users/x\"",
    "CREATE \"Other Users/bob@localhost/Work\"",
    "CREATE \"Other Users/bob@localhost/Work/Sub\"",
    "CREATE \"Other Users/bob@localhost/Work/Sub\" (USE (\\Sent))",
    "CREATE New (USE (\\All))",
    "CREATE New (USE (\\Sent \\Flagged))",
    "CREATE New/Sub (COLOUR (red))",
    "DELETE INBOX",
    "DELETE Nowhere",
    "DELETE \"Other Users\"",
    "RENAME Nowhere Somewhere",
    "RENAME Nowhere a/b/c",
    "RENAME Archive INBOX",
    "RENAME Archive Drafts",
    "RENAME Archive Archive/x",
    "RENAME Archive \"a//b\"",
    "RENAME Archive \"Other Users/x\"",
    "RENAME \"Other Users/bob@localhost/Work\" Mine",
    "RENAME INBOX Archive",
    "SUBSCRIBE \"a//b\"",
    "SUBSCRIBE A&B",
    "SELECT Nowhere",
    "STATUS Nowhere (MESSAGES)",
    // Messages
    "COPY 1 Nowhere",
    "COPY 1 a/b/c",
    "COPY 9 Archive",
    "COPY 1 \"Other Users/bob@localhost/Work\"",
    "MOVE 1 Nowhere",
    "MOVE 1 \"Other Users/bob@localhost/Work\"",
    "UID MOVE 1 \"Other Users\"",
    "STORE 1 +FLAGS (a]b)",
    "STORE 9 +FLAGS (\\Seen)",
    "STORE 1 (UNCHANGEDSINCE 1) +FLAGS (a]b)",
    "FETCH 9 BODY[]",
    "APPEND Nowhere {3+}\r\na\r\n",
    "APPEND \"Other Users/bob@localhost/Work\" {3+}\r\na\r\n",
    "APPEND INBOX {0+}\r\n",
    "APPEND INBOX (\\Seen a]b) {3+}\r\na\r\n",
    "APPEND INBOX {3+}\r\na\r\n {0+}\r\n",
    "APPEND INBOX {3+}\r\na\r\n (a]b) {3+}\r\nb\r\n",
    "APPEND INBOX {3+}\r\na\r\n \"yesterday\" {3+}\r\nb\r\n",
    "APPEND INBOX {3+}\r\na\r\n {3+}\r\nb\r\n {3+}\r\nc\r\n ~{3+}\r\na\0b",
    "APPEND INBOX CATENATE (TEXT {3+}\r\na\r\n URL \"/INBOX/;UID=9\")",
    "APPEND INBOX CATENATE (URL \"/INBOX/;UID=1\" URL \"/Nowhere/;UID=1\")",
    "APPEND INBOX CATENATE ()",
    "REPLACE 1 Nowhere {3+}\r\na\r\n",
    "REPLACE 9 INBOX {3+}\r\na\r\n",
    "REPLACE 1 INBOX {0+}\r\n",
    "UID REPLACE 1 INBOX ~{3+}\r\na\0b",
    "UID REPLACE 1 \"Other Users/bob@localhost/Work\" {3+}\r\na\r\n",
    "REPLACE 1 INBOX {3+}\r\na\r\n {3+}\r\nb\r\n",
    // Metadata, quota, keys
    "SETMETADATA Nowhere (/private/comment x)",
    "SETMETADATA \"\" (/shared/comment x)",
    "SETMETADATA \"\" (/private/comment x /shared/comment x)",
    "SETMETADATA INBOX (/private/comment x /private/specialuse \"\\\\Sent\")",
    "SETMETADATA Archive (/private/comment x /private/specialuse \"\\\\All\")",
    "SETMETADATA INBOX (/private/comment x /nonsense/x y)",
    "SETMETADATA \"Other Users/bob@localhost/Work\" (/private/comment x /shared/comment x)",
    "SETMETADATA \"\" (/private/comment x /private/filters/values/f \"NONSENSE x\")",
    "SETQUOTA me@localhost (STORAGE 1)",
    "SETQUOTA bob@localhost (STORAGE 1)",
    "GENURLAUTH \"imap://me@localhost/INBOX/;uid=1;urlauth=anonymous\" INTERNAL \"imap://me@localhost/Nowhere/;uid=1;urlauth=anonymous\" INTERNAL",
    "GENURLAUTH \"imap://me@localhost/INBOX/;uid=1;urlauth=anonymous\" INTERNAL \"imap://bob@localhost/INBOX/;uid=1;urlauth=anonymous\" INTERNAL",
    "GENURLAUTH \"imap://me@localhost/INBOX/;uid=1;urlauth=anonymous\" XSAMPLE",
    "RESETKEY Nowhere",
    "RESETKEY INBOX XSAMPLE",
    "NOTIFY SET (selected (MessageNew))",
    "SEARCH RETURN (SAVE) NONSENSE",
    "ESEARCH IN (mailboxes Nowhere) SUBJECT",
];

#[tokio::test]
async fn a_refused_command_leaves_the_store_as_it_was() {
    let (world, mut client) = world(Quotas::default()).await;
    for (nth, command) in REFUSED.iter().enumerate() {
        leaves_nothing(&world, &mut client, command.as_bytes()).await;
        if nth % 8 == 0 {
            // Too many in a row end the connection.
            client.ok("NOOP").await;
        }
    }
    let name = "x".repeat(limits::MAILBOX_NAME_BYTES);
    let deep = "a/".repeat(limits::MAILBOX_LEVELS + 1);
    let value = "x".repeat(limits::METADATA_VALUE_BYTES + 1);
    for command in [
        format!("CREATE a/{name}"),
        format!("CREATE {deep}b"),
        format!("RENAME Archive a/{name}"),
        format!("SETMETADATA INBOX (/private/comment x /private/a {{{}+}}\r\n{value})", value.len()),
        format!(
            "STORE 1 +FLAGS ({})",
            (0..=limits::FLAG_SET_KEYWORDS).map(|n| format!("k{n} ")).collect::<String>().trim_end()
        ),
    ] {
        leaves_nothing(&world, &mut client, command.as_bytes()).await;
        client.ok("NOOP").await;
    }
}

/// Messages that came before the one that is refused, small ones and such as have an object of many parts.
#[tokio::test]
async fn messages_of_a_refused_command_are_removed() {
    let (world, mut client) = world(Quotas::default()).await;
    // It does not compress.
    let mut noise: u32 = 1;
    let large: Vec<u8> = std::iter::repeat_with(|| {
        noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        b'0' + (noise >> 24) as u8 % 75
    })
    .take(200_000)
    .collect();
    let literal = |bytes: &[u8]| [format!("{{{}+}}\r\n", bytes.len()).as_bytes(), bytes].concat();
    let (small, large, empty) = (literal(b"a\r\n"), literal(&large), literal(b""));
    let too_big = literal(&vec![b'x'; 300_001]);
    for (what, refused) in [("empty", &empty), ("too big", &too_big)] {
        for messages in [&[&large][..], &[&small, &small, &small], &[&large, &small, &large, &small]] {
            let mut command = b"APPEND INBOX".to_vec();
            for message in messages.iter().copied().chain([refused]) {
                command.push(b' ');
                command.extend_from_slice(message);
            }
            leaves_nothing(&world, &mut client, &command).await;
            assert!(client.ok("STATUS INBOX (MESSAGES)").await[0].contains("MESSAGES 1"), "{what}");
        }
    }
    let parts =
        [b"APPEND INBOX CATENATE (TEXT ".to_vec(), large.clone(), b" URL \"/INBOX/;UID=9\")".to_vec()];
    leaves_nothing(&world, &mut client, &parts.concat()).await;
    // A message that comes whole, and finds nothing to replace.
    let mut other = world_login(&world).await;
    other.ok("SELECT INBOX").await;
    client.send(&[b"x REPLACE 1 INBOX ".to_vec(), large[..100_000].to_vec()].concat()).await;
    other.ok("STORE 1 +FLAGS.SILENT (\\Deleted)").await;
    other.ok("EXPUNGE").await;
    let before = objects(&world).await;
    client.send(&[&large[100_000..], b"\r\n"].concat()).await;
    let answer = client.answer().await;
    assert!(answer.last().unwrap().starts_with("x NO"), "{answer:?}");
    for _ in 0..500 {
        if objects(&world).await == before {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("there is something left of a message that replaces nothing");
}

async fn world_login(world: &TestServer) -> Client {
    let (mut client, _) = crate::imap_world::dial(&world.imap);
    client.login().await;
    client
}

#[tokio::test]
async fn commands_over_quota_leave_nothing() {
    let quotas =
        Quotas { storage: Some(3000), messages: Some(3), mailboxes: Some(20), annotations: Some(100) };
    let (world, mut client) = world(quotas).await;
    client.ok("APPEND INBOX {3+}\r\na\r\n").await;
    let mut made = 0;
    while client.command(&format!("CREATE m{made}")).await.last().unwrap().starts_with("x OK") {
        made += 1;
        assert!(made < 20);
    }
    let value = "x".repeat(200);
    let large = "y".repeat(2990);
    for command in [
        "CREATE one/two/three".to_owned(),
        "CREATE another".to_owned(),
        "RENAME INBOX copies/of/it".to_owned(),
        format!("APPEND INBOX {{3000+}}\r\n{}", "x".repeat(3000)),
        format!("APPEND INBOX {{2990+}}\r\n{large}"),
        "APPEND INBOX {3+}\r\na\r\n {3+}\r\nb\r\n".to_owned(),
        "COPY 1:2 Archive".to_owned(),
        format!("SETMETADATA INBOX (/private/comment \"{value}\")"),
        format!("SETMETADATA {THEIRS} (/private/comment \"{value}\")"),
    ] {
        leaves_nothing(&world, &mut client, command.as_bytes()).await;
        client.ok("NOOP").await;
    }
}

/// SETQUOTA is for administrators, and refused for what is no resource.
#[tokio::test]
async fn an_administrators_refused_command_leaves_nothing_either() {
    let (world, mut client) = world(Quotas::default()).await;
    let admin = |record: &mut sealpost_directory::AccountRecord| {
        record.role = Role::Admin;
        Ok(())
    };
    world.ctx.directory.update(world.name(), admin).await.unwrap();
    for command in [
        "SETQUOTA nobody@localhost (STORAGE 1)",
        "SETQUOTA bob@localhost (STORAGE 1 COLOUR 2)",
        "SETQUOTA \"\" ()",
    ] {
        leaves_nothing(&world, &mut client, command.as_bytes()).await;
    }
}

#[tokio::test]
async fn an_account_makes_so_many_shared_mailboxes_and_no_more() {
    let (world, mut client) = world(Quotas::default()).await;
    for n in 0..limits::SHARES {
        client.ok(&format!("CREATE s{n}")).await;
        client.ok(&format!("SETACL s{n} bob@localhost lr")).await;
        // What was deleted counts while it is kept, or there would be no limit.
        client.ok(&format!("DELETE s{n}")).await;
    }
    leaves_nothing(&world, &mut client, b"SETACL Archive bob@localhost lr").await;
    let answer = client.command("SETACL Archive bob@localhost lr").await;
    assert!(answer[0].starts_with("x NO [LIMIT]"), "{answer:?}");
}
