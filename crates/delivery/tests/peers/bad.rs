//! Servers that stall, lie, babble and hang up: each delivery ends in time, in little memory, and says why.

use std::time::Duration;

use sealpost_delivery::outcome::{Reason, Scope, Step};
use sealpost_dns::scripted::Script;

use crate::net::{World, a, envelope, failure, is_delivered, message, mx, reason, timed};
use crate::server::{Act, Identity, Server};

/// Bytes that a server can make this client read at most: a reply of the largest size, and the
/// buffers.
const MOST_BYTES: usize = 100_000;

#[tokio::test(start_paused = true)]
async fn a_stall_at_each_step_ends_in_its_time() {
    let plain = |verb| Server::new(&[]).at(verb, Act::Stall);
    let identity = Identity::new("mx.d.example");
    for (server, step, seconds) in [
        (Server::silent(), Step::Connect, 30),
        (plain("greeting"), Step::Greeting, 300),
        (plain("EHLO"), Step::Hello, 300),
        (plain("MAIL"), Step::Mail, 300),
        (plain("RCPT"), Step::Rcpt, 300),
        (plain("DATA"), Step::Data, 120),
        (plain("message"), Step::MessageEnd, 600),
    ] {
        let world = World::new(&server);
        let (attempt, took) = timed(world.send()).await;
        let failure = failure(&attempt);
        assert_eq!(failure.reason, Reason::TimedOut(step));
        assert!(!failure.permanent);
        // QUIT is not even tried on a broken connection.
        assert_eq!(took, Duration::from_secs(seconds), "{step}");
    }
    // A stall in TLS is no reason not to deliver without it.
    for server in [
        Server::new(&[]).with_tls(&identity).at("tls", Act::Stall),
        Server::new(&[]).with_tls(&identity).at("STARTTLS", Act::Stall),
    ] {
        let (attempt, took) = timed(World::new(&server).send()).await;
        assert!(is_delivered(&attempt));
        assert_eq!(took, Duration::from_secs(60));
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_takes_no_data_is_left() {
    let server = Server::new(&[]).at("body", Act::Stall);
    let world = World::new(&server);
    let mut connection = world.connect("d.example", Default::default()).await.unwrap();
    let large = "x".repeat(998) + "\r\n";
    let send = connection.send(&envelope(&["bob@d.example"]), &message(&large.repeat(300))).await;
    assert_eq!(reason(&send), Reason::TimedOut(Step::Message));
    assert!(!connection.is_reusable());
}

#[tokio::test(start_paused = true)]
async fn a_dripping_reply_ends_in_the_time_of_its_step() {
    for (verb, step) in [("greeting", Step::Greeting), ("RCPT", Step::Rcpt)] {
        let world = World::new(&Server::new(&[]).at(verb, Act::Drip));
        let (attempt, took) = timed(world.send()).await;
        assert_eq!(reason(&attempt), Reason::TimedOut(step));
        assert_eq!(took, Duration::from_secs(300));
    }
}

#[tokio::test(start_paused = true)]
async fn many_stalling_servers_end_in_the_total_time() {
    let world = World::empty();
    for i in 0..50 {
        let host = format!("mx{i}.d.example");
        world.zone.add("d.example", mx(i, &host));
        world.zone.add(&host, a(&format!("192.0.2.{i}")));
        world.net.put(&format!("192.0.2.{i}:25"), &Server::new(&[]).at("greeting", Act::Stall));
    }
    let (attempt, took) = timed(world.send()).await;
    assert_eq!(took, Duration::from_secs(15 * 60));
    assert_eq!((reason(&attempt), failure(&attempt).scope), (Reason::TimedOut(Step::Greeting), Scope::Site));
    // And with servers that refuse at once, in a bounded number of connections.
    let world = World::empty();
    for i in 0..50 {
        let host = format!("mx{i}.d.example");
        world.zone.add("d.example", mx(i, &host));
        world.zone.add(&host, a(&format!("192.0.2.{i}")));
    }
    assert_eq!(reason(&world.send().await), Reason::ConnectionRefused);
    assert_eq!(world.net.dialled().len(), 10);
}

#[tokio::test(start_paused = true)]
async fn endless_and_huge_replies_are_cut_off() {
    let long_line = Box::leak("x".repeat(3_000_000).into_boxed_str());
    for (verb, step) in [
        ("greeting", Step::Greeting),
        ("EHLO", Step::Hello),
        ("MAIL", Step::Mail),
        ("DATA", Step::Data),
        ("message", Step::MessageEnd),
    ] {
        for text in ["250-and more\r\n", "250-", long_line] {
            let server = Server::new(&[]).at(verb, Act::Endless(text));
            let (attempt, took) = timed(World::new(&server).send()).await;
            assert_eq!(reason(&attempt), Reason::ProtocolViolation(step), "{}", &text[..4]);
            assert_eq!(took, Duration::ZERO);
            assert!(server.bytes_sent() < MOST_BYTES, "{}", server.bytes_sent());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn garbage_is_a_violation_and_ends_the_connection() {
    for (verb, step) in [("greeting", Step::Greeting), ("EHLO", Step::Hello), ("RCPT", Step::Rcpt)] {
        for garbage in ["hello\r\n", "\0\u{7f}\u{80}\r\n", "99 x\r\n", "250-a\r\n550 b\r\n", "\r\n"] {
            let world = World::new(&Server::new(&[]).at(verb, Act::Say(garbage)));
            let attempt = world.send().await;
            assert_eq!(reason(&attempt), Reason::ProtocolViolation(step), "{garbage:?} at {verb}");
            assert!(!failure(&attempt).permanent);
        }
    }
    // Unsolicited replies.
    let world = World::new(&Server::new(&[]).at("EHLO", Act::Say("250 a\r\n250 b\r\n250 c\r\n")));
    let attempt = world.send().await;
    assert!(!is_delivered(&attempt));
}

#[tokio::test(start_paused = true)]
async fn a_close_at_each_step_is_a_lost_connection() {
    for (verb, step) in [
        ("greeting", Step::Greeting),
        ("EHLO", Step::Hello),
        ("MAIL", Step::Mail),
        ("RCPT", Step::Rcpt),
        ("DATA", Step::Data),
        ("message", Step::MessageEnd),
    ] {
        let world = World::new(&Server::new(&[]).at(verb, Act::Close));
        let attempt = world.send().await;
        assert_eq!(reason(&attempt), Reason::ConnectionLost(step));
        assert!(!failure(&attempt).permanent);
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_before_the_end_of_a_message_is_read() {
    let server = Server::new(&[]).at("body", Act::SayAndClose("552 5.3.4 too much\r\n"));
    let world = World::new(&server);
    let mut connection = world.connect("d.example", Default::default()).await.unwrap();
    let line = "x".repeat(998) + "\r\n";
    let attempt = connection.send(&envelope(&["bob@d.example"]), &message(&line.repeat(500))).await;
    assert_eq!(reason(&attempt), Reason::MessageRefused);
    assert!(failure(&attempt).permanent);
    assert!(!connection.is_reusable());
}

#[tokio::test(start_paused = true)]
async fn endless_refusals_stay_temporary() {
    for (verb, expected) in [
        ("greeting", Reason::GreetingRefused),
        ("EHLO", Reason::GreetingRefused),
        ("MAIL", Reason::SenderRefused),
        ("RCPT", Reason::RecipientRefused),
        ("DATA", Reason::MessageRefused),
        ("message", Reason::MessageRefused),
    ] {
        let world = World::new(&Server::new(&[]).at(verb, Act::Say("451 4.7.1 later\r\n")));
        for _ in 0..3 {
            let attempt = world.send().await;
            let failure = failure(&attempt);
            assert_eq!((failure.reason, failure.permanent), (expected, false));
            assert_eq!(failure.status().to_string(), "4.7.1");
        }
    }
    // 421 means that the server closes: the connection is of no more use, whatever it answers.
    let world = World::new(&Server::new(&[]).at("RCPT", Act::SayAndClose("421 4.3.2 going down\r\n")));
    let attempt = world.send().await;
    assert_eq!(reason(&attempt), Reason::ConnectionLost(Step::Rcpt));
    assert_eq!(failure(&attempt).reply.unwrap().code, 421);
}

#[tokio::test(start_paused = true)]
async fn dns_that_fails_says_so() {
    for (script, expected) in [(Script::Fail, Reason::DnsFailed), (Script::Bogus, Reason::DnsBogus)] {
        let world = World::new(&Server::modern());
        world.zone.script("d.example", script);
        let failed = world.destination("d.example").await.err().unwrap();
        assert_eq!((failed.reason, failed.permanent, failed.scope), (expected, false, Scope::Site));
        // The same for the address of its server.
        let world = World::new(&Server::modern());
        world.zone.script("mx.d.example", script);
        let attempt = world.send().await;
        assert!(!failure(&attempt).permanent);
    }
    let world = World::new(&Server::modern());
    world.zone.script("mx.d.example", Script::Stall);
    let (attempt, took) = timed(world.send()).await;
    assert_eq!((reason(&attempt), took), (Reason::TooSlow, Duration::from_secs(15 * 60)));
}
