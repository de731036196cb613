//! COMPRESS=DEFLATE (RFC 4978): everything works as without it, within bounds, and ends with UNAUTHENTICATE.

use sealpost_base::{MemoryDivision, limits};
use sealpost_session::Settings;

use crate::imap_world::{Client, TestServer};

async fn compressed(world: &mut TestServer) -> Client {
    let mut client = world.login().await;
    client.compress().await;
    client
}

fn letters(len: usize) -> Vec<u8> {
    let mut state = 7u32;
    let mut next = || {
        state = state.wrapping_mul(1_103_515_245).wrapping_add(12_345);
        b'a' + (state >> 16) as u8 % 26
    };
    (0..len).map(|n| if n % 70 == 69 { b'\n' } else { next() }).collect()
}

#[tokio::test]
async fn compress_needs_a_login_and_refuses_a_second_start() {
    let mut world = TestServer::new(Settings::default()).await;
    let mut client = world.connect();
    client.line().await;
    assert_eq!(client.command("COMPRESS DEFLATE").await, ["x BAD log in first"]);
    let mut client = world.login().await;
    assert_eq!(client.command("COMPRESS").await, ["x BAD arguments are missing"]);
    assert_eq!(client.command("COMPRESS LZ4").await, ["x BAD only DEFLATE is supported"]);
    assert_eq!(client.command("COMPRESS DEFLATE now").await.len(), 1);
    assert_eq!(client.ok("NOOP").await, ["x OK NOOP completed"], "not compressed after BAD");
    client.compress().await;
    assert_eq!(
        client.command("compress deflate").await,
        ["x BAD [COMPRESSIONACTIVE] DEFLATE is already active"]
    );
    client.ok("SELECT INBOX").await;
    client.ok("LOGOUT").await;
}

#[tokio::test]
async fn commands_literals_messages_and_idle() {
    let mut world = TestServer::new(Settings::default()).await;
    let mut client = compressed(&mut world).await;
    let mut other = world.login().await;
    client.ok("SELECT INBOX").await;
    // Pipelined, with a literal, and an APPEND that the client waits for.
    client.send(b"1 NOOP\r\n2 STATUS {5+}\r\nINBOX (MESSAGES)\r\n3 NOOP\r\n").await;
    for expected in
        ["1 OK NOOP completed", "* STATUS INBOX (MESSAGES 0)", "2 OK STATUS completed", "3 OK NOOP completed"]
    {
        assert_eq!(client.line().await, expected);
    }
    for message in [letters(3_000_000), vec![b'x'; 3_000_000], b"Subject: small\r\n\r\nx\r\n".to_vec()] {
        client.send(format!("4 APPEND INBOX {{{}}}\r\n", message.len()).as_bytes()).await;
        assert_eq!(client.line().await, "+ send the message");
        client.send(&[&message[..], b"\r\n"].concat()).await;
        while !client.line().await.starts_with("4 OK") {}
        for reader in [&mut client, &mut other] {
            reader.ok("EXAMINE INBOX").await;
            let lines = reader.ok("FETCH * BODY.PEEK[]").await;
            let (head, bytes) = lines[0].split_once("}\r\n").unwrap();
            assert!(head.ends_with(&format!("{{{}", message.len())));
            assert!(bytes.as_bytes()[..message.len()] == message[..], "byte for byte");
        }
    }
    // What happens elsewhere is seen at once.
    client.ok("SELECT INBOX").await;
    client.send(b"5 IDLE\r\n").await;
    assert_eq!(client.line().await, "+ idling");
    world.deliver(None, b"Subject: new\r\n\r\nx\r\n").await;
    assert_eq!(client.line().await, "* 4 EXISTS");
    assert_eq!(client.line().await, "* 3 RECENT");
    client.send(b"DONE\r\n").await;
    assert_eq!(client.line().await, "5 OK IDLE completed");
}

#[tokio::test]
async fn many_messages_at_once_and_a_rest_in_between() {
    let mut world = TestServer::new(Settings::default()).await;
    for n in 0..200 {
        let body = letters(500 + 17 * n);
        world.deliver(None, &[format!("Subject: n{n}\r\n\r\n").as_bytes(), &body].concat()).await;
    }
    let mut plain = world.login().await;
    let mut client = compressed(&mut world).await;
    let command = "FETCH 1:* (UID ENVELOPE BODYSTRUCTURE BODY.PEEK[])";
    plain.ok("EXAMINE INBOX").await;
    client.ok("EXAMINE INBOX").await;
    let expected = plain.ok(command).await;
    assert_eq!(client.ok(command).await, expected);
    // The compressor is released while the client sends nothing, and another one continues.
    tokio::time::pause();
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert!(world.ctx.budget.in_use() < 64 * 1024, "{}", world.ctx.budget.in_use());
    tokio::time::resume();
    assert_eq!(client.ok(command).await, expected);
    drop(client);
}

#[tokio::test]
async fn over_tls() {
    let mut world = TestServer::new(Settings::default()).await;
    world.deliver(None, b"Subject: a\r\n\r\nx\r\n").await;
    let mut client = world.connect();
    client.line().await;
    client.ok("STARTTLS").await;
    let mut client = client.start_tls(&world).await;
    client.ok("LOGIN me@localhost secret").await;
    client.compress().await;
    client.ok("SELECT INBOX").await;
    let lines = client.ok("FETCH 1 BODY.PEEK[]").await;
    assert_eq!(lines[0], "* 1 FETCH (BODY[] {17}\r\nSubject: a\r\n\r\nx\r\n)");
}

#[tokio::test]
async fn the_next_login_is_not_compressed() {
    let mut world = TestServer::new(Settings::default()).await;
    let mut client = compressed(&mut world).await;
    for round in 0..2 {
        client.ok("SELECT INBOX").await;
        client.send(b"u UNAUTHENTICATE\r\n").await;
        client.end_compressed_writing();
        if round == 0 {
            // Pipelined (RFC 8437 §3).
            client.send(b"l LOGIN me@localhost secret\r\n").await;
            assert_eq!(client.line().await, "u OK UNAUTHENTICATE completed");
        } else {
            assert_eq!(client.line().await, "u OK UNAUTHENTICATE completed");
            client.send(b"l LOGIN me@localhost secret\r\n").await;
        }
        assert!(client.line().await.starts_with("l OK [CAPABILITY"));
        client.ok("NOOP").await;
        client.compress().await;
    }
    client.ok("NOOP").await;
}

#[tokio::test]
async fn uncompressed_input_ends_the_connection_with_a_reason() {
    let mut world = TestServer::new(Settings::default()).await;
    let mut client = compressed(&mut world).await;
    client.end_compressed_writing();
    client.try_send(b"\xff\xff\xff not DEFLATE at all\r\n").await;
    assert_eq!(client.rest_or_reset().await, "* BYE invalid compressed data\r\n");
    // Compressed on where it should have ended.
    let mut client = compressed(&mut world).await;
    client.send(b"1 UNAUTHENTICATE\r\n2 NOOP\r\n").await;
    assert_eq!(client.line().await, "1 OK UNAUTHENTICATE completed");
    assert_eq!(client.rest_or_reset().await, "* BYE compression ends with UNAUTHENTICATE\r\n");
}

#[tokio::test]
async fn limits_apply_to_decompressed_input() {
    let mut world = TestServer::new(Settings::default()).await;
    let mut client = compressed(&mut world).await;
    let mut other = world.login().await;
    // A command of 64 MiB, from 64 KiB: not buffered, refused after a megabyte, and no other client
    // waits for it.
    let piece = vec![b'x'; 4 * 1024 * 1024];
    let bomb = async {
        client.send(b"1 ").await;
        for _ in 0..16 {
            client.try_send(&piece).await;
        }
        client.rest_or_reset().await
    };
    let others = async {
        for _ in 0..50 {
            other.ok("NOOP").await;
        }
    };
    let (rest, ()) = tokio::join!(bomb, others);
    assert!(rest.is_empty() || rest == "* BYE too much of a refused command\r\n", "{rest}");
    let most = limits::IMAP_COMMAND_BYTES + 1024 * 1024;
    assert!(world.ctx.budget.in_use() < most, "{}", world.ctx.budget.in_use());
    let mut client = compressed(&mut world).await;
    let literal = client.command("LOGIN {999999999}").await;
    assert!(literal[0].starts_with("x BAD"), "{literal:?}");
}

#[tokio::test]
async fn a_connection_beyond_the_limit_continues_uncompressed() {
    let settings = Settings {
        memory: MemoryDivision { work: 4 * 1024 * 1024, ..Default::default() },
        ..Settings::default()
    };
    let mut world = TestServer::new(settings).await;
    let mut clients = Vec::new();
    let refused = loop {
        let mut client = world.login().await;
        let answer = client.command("COMPRESS DEFLATE").await.remove(0);
        if answer != "x OK DEFLATE active" {
            clients.push(client);
            break answer;
        }
        client.begin_compressed();
        clients.push(client);
    };
    assert_eq!(refused, "x NO [LIMIT] too many compressed connections; continue without compression");
    assert_eq!(clients.len(), 1024 * 1024 / (44 * 1024) + 1);
    for client in &mut clients {
        client.ok("NOOP").await;
    }
    // A closed connection frees its memory.
    clients.remove(0).ok("LOGOUT").await;
    loop {
        let answer = clients.last_mut().unwrap().command("COMPRESS DEFLATE").await;
        if answer[0] == "x OK DEFLATE active" {
            break;
        }
        tokio::task::yield_now().await;
    }
}
