//! Hostile input before login, after it, and compressed: a clear BAD or BYE, bounded memory, and no
//! other client waits for it.

use std::time::Duration;

use sealpost_base::limits;
use sealpost_session::Settings;

use crate::imap_world::{Client, TestServer};

/// The state of the hostile client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum As {
    Anonymous,
    LoggedIn,
    Compressed,
}

const EVERYBODY: [As; 3] = [As::Anonymous, As::LoggedIn, As::Compressed];

async fn client(world: &mut TestServer, who: As) -> Client {
    if who == As::Anonymous {
        let mut client = world.connect();
        client.line().await;
        return client;
    }
    let mut client = world.login().await;
    if who == As::Compressed {
        client.compress().await;
    }
    client
}

async fn world() -> TestServer {
    let world = TestServer::new(Settings::default()).await;
    for n in 0..3 {
        world.deliver(None, format!("Subject: n{n}\r\n\r\nbody {n}\r\n").as_bytes()).await;
    }
    world
}

fn is_refusal(line: &str) -> bool {
    line.starts_with("x BAD ") || line.starts_with("x NO ")
}

#[tokio::test]
async fn literals_that_wait_are_refused_before_they_are_sent() {
    let mut world = world().await;
    for who in EVERYBODY {
        let mut client = client(&mut world, who).await;
        for command in [
            "LOGIN {300000}",
            "LOGIN {4294967295}",
            "LOGIN {18446744073709551615}",
            "LOGIN {99999999999999999999999999}",
            "SEARCH TEXT {9000000}",
            "APPEND INBOX {4294967296000}",
            "APPEND INBOX (\\Seen) {99999999999999999999999999}",
            "NOOP {5}",
            "{5}",
        ] {
            let answer = client.command(command).await;
            assert!(answer.len() == 1 && is_refusal(&answer[0]), "{who:?} {command}: {answer:?}");
        }
        assert_eq!(client.command("NOOP").await, ["x OK NOOP completed"], "{who:?}: it goes on");
    }
}

#[tokio::test]
async fn refused_nonsynchronizing_literals_are_discarded_or_end_the_connection() {
    let mut world = world().await;
    for who in EVERYBODY {
        // Short enough to be read to its end.
        let mut client = client(&mut world, who).await;
        let bytes = vec![b'x'; 40_000];
        client.send(&[b"x NOOP {40000+}\r\n", &bytes[..], b"\r\nx NOOP\r\n"].concat()).await;
        assert!(is_refusal(&client.line().await), "{who:?}");
        assert_eq!(client.line().await, "x OK NOOP completed");
        // Longer than anything that is ever thrown away: nothing of it is waited for.
        client.send(b"x SEARCH TEXT {99999999999+}\r\n").await;
        assert_eq!(client.rest_or_reset().await, "* BYE too much of a refused command\r\n", "{who:?}");
    }
}

#[tokio::test]
async fn lines_without_end() {
    let mut world = world().await;
    let piece = vec![b'x'; 64 * 1024];
    let mut anonymous = client(&mut world, As::Anonymous).await;
    for _ in 0..3 {
        anonymous.try_send(&piece).await;
    }
    let rest = anonymous.rest_or_reset().await;
    assert!(rest.is_empty() || rest == "* BYE too much of a refused command\r\n", "{rest}");
    for who in [As::LoggedIn, As::Compressed] {
        let mut client = client(&mut world, who).await;
        for _ in 0..15 {
            client.send(&piece).await;
        }
        client.send(b"\r\nx NOOP\r\n").await;
        assert_eq!(client.line().await, "* BAD the command is too long", "{who:?}");
        assert_eq!(client.line().await, "x OK NOOP completed");
        for _ in 0..17 {
            client.try_send(&piece).await;
        }
        let rest = client.rest_or_reset().await;
        assert!(rest.is_empty() || rest == "* BYE too much of a refused command\r\n", "{who:?}: {rest}");
    }
}

#[tokio::test]
async fn lines_of_an_exchange_are_bounded() {
    let mut world = world().await;
    let mut client = client(&mut world, As::Anonymous).await;
    client.send(b"x AUTHENTICATE PLAIN\r\n").await;
    assert_eq!(client.line().await, "+ ");
    client.send(&[&vec![b'A'; limits::IMAP_LINE_BYTES + 4][..], b"\r\nx NOOP\r\n"].concat()).await;
    assert_eq!(client.line().await, "x BAD the line is too long");
    assert_eq!(client.line().await, "x OK NOOP completed");
}

#[tokio::test]
async fn sets_of_everything_many_times() {
    let mut world = world().await;
    for who in [As::LoggedIn, As::Compressed] {
        let mut client = client(&mut world, who).await;
        client.ok("SELECT INBOX").await;
        let set = vec!["1:4294967295"; 10_000].join(",");
        assert_eq!(client.ok(&format!("UID FETCH {set} UID")).await.len(), 4, "each message once");
        assert_eq!(client.ok("UID FETCH 4294967295:1 UID").await.len(), 4);
        assert_eq!(client.ok(&format!("UID SEARCH UID {set}")).await[0], "* SEARCH 1 2 3");
        assert_eq!(client.ok(&format!("SEARCH NOT UID {set}")).await[0], "* SEARCH");
        client.ok(&format!("UID STORE {set} +FLAGS.SILENT (\\Seen)")).await;
        client.ok(&format!("UID COPY {set} Archive")).await;
        let lines = client.ok("STATUS Archive (MESSAGES)").await;
        assert!(lines[0].ends_with("3)") || lines[0].ends_with("6)"), "{lines:?}");
        for command in [
            format!("FETCH {set} UID"),
            "FETCH 1:4294967296 UID".to_owned(),
            "FETCH 0 UID".to_owned(),
            "FETCH 1:99999999999999999999 UID".to_owned(),
            format!("UID FETCH {} UID", vec!["1:4294967295"; 40_000].join(",")),
            format!("UID FETCH {} UID", "1,".repeat(30_000)),
        ] {
            let answer = client.command(&command).await;
            assert!(is_refusal(&answer[0]), "{who:?} {}: {answer:?}", &command[..command.len().min(60)]);
        }
        client.ok("NOOP").await;
    }
}

#[tokio::test]
async fn depth_is_bounded_everywhere() {
    let mut world = world().await;
    for who in EVERYBODY {
        let mut client = client(&mut world, who).await;
        if who != As::Anonymous {
            client.ok("SELECT INBOX").await;
        }
        let depth = 2000;
        for (open, middle, close) in [
            ("SEARCH ", "(", ")"),
            ("SEARCH ", "NOT ", ""),
            ("SEARCH ", "OR ALL ", ""),
            ("SEARCH ", "FUZZY ", ""),
            ("FETCH 1 ", "(", ")"),
            ("FETCH 1 BODY[", "1.", ""),
            ("ID ", "(", ")"),
            ("LIST (", "(", ")"),
            ("STATUS INBOX ", "(", ")"),
            ("STORE 1 FLAGS ", "(", ")"),
            ("CREATE x ", "(", ")"),
        ] {
            let command = format!("{open}{}ALL{}", middle.repeat(depth), close.repeat(depth));
            let answer = client.command(&command).await;
            assert!(is_refusal(&answer[0]), "{who:?} {open}{middle}: {answer:?}");
        }
        assert_eq!(client.command("NOOP").await, ["x OK NOOP completed"]);
    }
}

#[tokio::test]
async fn a_client_that_sends_nonsense_is_disconnected() {
    let mut world = world().await;
    for who in EVERYBODY {
        let mut client = client(&mut world, who).await;
        let nonsense: Vec<u8> = (0..=255u8).filter(|b| !b"\r\n".contains(b)).collect();
        for _ in 0..=limits::IMAP_ERRORS {
            client.try_send(&[&nonsense[..], b"\r\n\r\n"].concat()).await;
        }
        let rest = client.rest_or_reset().await;
        assert!(rest.lines().filter(|line| line.starts_with("* BAD ")).count() <= limits::IMAP_ERRORS + 1);
        assert!(rest.ends_with("* BYE too many bad commands\r\n"), "{who:?}: {rest}");
    }
}

#[tokio::test]
async fn thousands_of_pipelined_commands_are_answered_and_fairly_scheduled() {
    const COMMANDS: usize = 20_000;
    for who in EVERYBODY {
        let mut world = world().await;
        let mut hostile = client(&mut world, who).await;
        let mut other = world.login().await;
        let flood = async {
            let commands: String = (0..COMMANDS).map(|n| format!("{n} NOOP\r\n")).collect();
            hostile.send_and_read(commands.as_bytes(), COMMANDS).await
        };
        tokio::pin!(flood);
        // The other client is through with its commands long before.
        for _ in 0..20 {
            tokio::select! {
                biased;
                _ = &mut flood => panic!("{who:?} had it all its own way"),
                _ = other.ok("STATUS INBOX (MESSAGES)") => {}
            }
        }
        let lines = flood.await;
        assert!(
            lines.iter().enumerate().all(|(n, line)| *line == format!("{n} OK NOOP completed")),
            "{who:?}"
        );
    }
}

#[tokio::test]
async fn a_stalled_client_is_not_read_and_then_disconnected() {
    for who in EVERYBODY {
        let mut world = world().await;
        let mut hostile = client(&mut world, who).await;
        let mut other = world.login().await;
        if who != As::Anonymous {
            hostile.ok("SELECT INBOX").await;
        }
        tokio::time::pause();
        // Every command has a longer answer; nothing of them is read.
        let command =
            if who == As::Anonymous { "1 CAPABILITY\r\n" } else { "1 FETCH 1:* (FLAGS UID BODY.PEEK[])\r\n" };
        let flood = command.repeat(2000);
        // What a socket holds, which is a thousand times as much if it was compressed.
        let most = if who == As::Compressed { 400_000_000 } else { 4_000_000 };
        let mut sent = 0;
        let stuck = async {
            while hostile.sends(flood.as_bytes()).await {
                sent += flood.len();
                assert!(sent < most, "{who:?}: somebody holds all of this");
            }
        };
        // Writes stop, and then fail: when nothing was taken for the time that is allowed.
        let within = world.ctx.settings.timeouts.write * 3;
        tokio::time::timeout(within, stuck).await.expect("the connection ends");
        other.ok("NOOP").await;
        assert!(world.ctx.budget.in_use() == 0, "{who:?}: {}", world.ctx.budget.in_use());
        tokio::time::resume();
    }
}

#[tokio::test]
async fn half_closed_connections_get_their_answers_and_end() {
    for who in [As::Anonymous, As::LoggedIn] {
        let mut world = world().await;
        let mut half = client(&mut world, who).await;
        half.send(b"1 NOOP\r\n2 CAPABILITY\r\n3 NOOP\r\n").await;
        half.close_writing().await;
        let rest = half.rest().await;
        assert!(rest.starts_with("1 OK ") && rest.ends_with("3 OK NOOP completed\r\n"), "{who:?}: {rest}");
        for cut in
            ["1 LOGIN", "1 LOGIN {5+}\r\nab", "1 AUTHENTICATE PLAIN\r\nAG1l", "1 LOGIN {300000+}\r\nab"]
        {
            let mut half = client(&mut world, who).await;
            half.send(cut.as_bytes()).await;
            half.close_writing().await;
            let rest = half.rest().await;
            assert!(!rest.contains("OK"), "{who:?} {cut:?}: {rest}");
        }
    }
    // Half a message is no message.
    let mut world = world().await;
    for cut in ["1 APPEND INBOX {100+}\r\nSubject: half\r\n", "1 APPEND INBOX {3+}\r\nabc", "1 IDLE\r\nDON"] {
        let mut half = world.login().await;
        half.send(cut.as_bytes()).await;
        half.close_writing().await;
        assert!(!half.rest().await.contains("1 OK"), "{cut:?}");
    }
    let mut other = world.login().await;
    assert_eq!(other.ok("STATUS INBOX (MESSAGES)").await[0], "* STATUS INBOX (MESSAGES 3)");
}

#[tokio::test]
async fn bytes_that_trickle_in_do_not_keep_a_stranger_connected() {
    let mut world = world().await;
    let mut stranger = client(&mut world, As::Anonymous).await;
    tokio::time::pause();
    let start = tokio::time::Instant::now();
    let most = world.ctx.settings.timeouts.imap_anonymous * 11;
    let trickle = async {
        loop {
            // One command a minute, and never a login.
            if !stranger.sends(b"1 NOOP\r\n").await
                || stranger.line_or_end().await.is_none_or(|line| line.starts_with("* BYE"))
            {
                return;
            }
            tokio::time::sleep(Duration::from_secs(50)).await;
        }
    };
    tokio::time::timeout(most, trickle).await.expect("the stranger is sent away");
    assert!(start.elapsed() >= world.ctx.settings.timeouts.imap_anonymous);
}

/// More long commands than there is memory for: clients without a login get a temporary error,
/// users wait, and short commands continue unaffected.
#[tokio::test]
async fn long_commands_share_the_memory_set_aside_for_them() {
    let mut world = TestServer::new(Settings {
        memory: sealpost_base::MemoryDivision { work: 8 * 1024 * 1024, ..Default::default() },
        ..Settings::default()
    })
    .await;
    let long = vec![b'x'; 2 * limits::IMAP_COMMAND_FREE_BYTES];
    // A megabyte is set aside; each command takes 80 KiB of it before login.
    let mut strangers = Vec::new();
    for _ in 0..12 {
        let mut stranger = client(&mut world, As::Anonymous).await;
        stranger.send(&[b"x LOGIN ", &long[..]].concat()).await;
        strangers.push(stranger);
    }
    while world.ctx.budget.in_use() < 12 * 80 * 1024 {
        tokio::task::yield_now().await;
    }
    let mut late = client(&mut world, As::Anonymous).await;
    late.send(&[b"x LOGIN ", &long[..]].concat()).await;
    assert_eq!(
        late.rest_or_reset().await,
        "* BYE [UNAVAILABLE] not enough memory for long commands; retry later\r\n"
    );
    let mut users = Vec::new();
    for _ in 0..9 {
        let mut user = world.login().await;
        user.send(&[b"x SEARCH SUBJECT ", &long[..]].concat()).await;
        users.push(user);
    }
    let mut other = world.login().await;
    other.ok("STATUS INBOX (MESSAGES)").await;
    // The one that waits has its turn when another is done.
    for mut user in users {
        user.send(b"\r\n").await;
        let line = user.line().await;
        assert!(line.starts_with("x BAD ") || line.starts_with("x NO "), "{line}");
    }
    drop(strangers);
    other.ok("NOOP").await;
}
