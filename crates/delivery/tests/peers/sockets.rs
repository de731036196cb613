//! Real sockets: what a server does while a connection is idle, and the addresses of its two ends.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use sealpost_delivery::dial::{Dialer, TcpDialer};
use sealpost_delivery::envelope::TlsDemand;
use sealpost_delivery::outcome::{Reason, Step};
use sealpost_delivery::routes::{Domains, Route, Smarthost, SmarthostTls, Via};
use sealpost_delivery::transport::{Choice, Connection, Transport};
use sealpost_smtp::types::{Host, ReversePath};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::net::{MESSAGE, World, envelope, is_delivered, message, reason};

/// Far more than the system needs to hand on a packet.
const SOON: Duration = Duration::from_secs(20);
const CLOSING: &str = "421 4.4.2 mx.d.example idle for too long\r\n";

/// How the server closes the connection.
enum Closing {
    /// In the same packet as the reply to the message.
    WithTheReply,
    /// When the test signals it, with 421 or without a word.
    Later { says_so: bool },
}

/// A server that takes one connection. It ends with the commands that it got after the message.
struct TcpServer {
    address: SocketAddr,
    close: oneshot::Sender<()>,
    commands_after: JoinHandle<Vec<String>>,
}

impl TcpServer {
    async fn start(closing: Closing) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (close, told) = oneshot::channel();
        let commands_after = tokio::spawn(serve(listener, closing, told));
        TcpServer { address, close, commands_after }
    }

    /// A connection to it, over which a mail was sent.
    async fn idle_connection(&self) -> Box<dyn Connection> {
        let mut world = World::empty();
        let host = Host::literal("127.0.0.1").unwrap();
        let smarthost = Smarthost::new(host, self.address.port(), SmarthostTls::None, None).unwrap();
        let via = Via::Smarthost(Arc::new(smarthost));
        world.routes.routes = vec![Route { destination: Domains::Any, sender: Domains::Any, via }];
        let deliverer = world.deliverer_by(Arc::new(TcpDialer));
        let domain = Host::domain("d.example").unwrap();
        let destination = deliverer.resolve(&ReversePath::Null, &domain, Choice::First).await;
        let mut connection = destination.unwrap().unwrap().connect(TlsDemand::Policy).await.unwrap();
        let attempt = connection.send(&envelope(&["bob@d.example"]), &message(MESSAGE)).await;
        assert!(is_delivered(&attempt), "{attempt:?}");
        connection
    }
}

async fn serve(listener: TcpListener, closing: Closing, told: oneshot::Receiver<()>) -> Vec<String> {
    let (mut stream, _) = listener.accept().await.unwrap();
    let (input, mut output) = stream.split();
    let mut lines = BufReader::new(input).lines();
    output.write_all(b"220 mx.d.example\r\n").await.unwrap();
    while let Some(line) = lines.next_line().await.unwrap() {
        let reply = match line.as_str() {
            "DATA" => "354 go on\r\n",
            "." => break,
            // Of the message.
            _ if !line.starts_with(['E', 'M', 'R']) => continue,
            _ => "250 fine\r\n",
        };
        output.write_all(reply.as_bytes()).await.unwrap();
    }
    let says_so = match closing {
        Closing::WithTheReply => {
            output.write_all(format!("250 taken\r\n{CLOSING}").as_bytes()).await.unwrap();
            false
        }
        Closing::Later { says_so } => {
            output.write_all(b"250 taken\r\n").await.unwrap();
            let _ = told.await;
            says_so
        }
    };
    if says_so {
        output.write_all(CLOSING.as_bytes()).await.unwrap();
    }
    output.shutdown().await.unwrap();
    let mut commands = Vec::new();
    while let Ok(Some(line)) = lines.next_line().await {
        commands.push(line);
    }
    commands
}

#[tokio::test]
async fn an_idle_connection_notices_a_server_that_closes_it() {
    for says_so in [true, false] {
        let server = TcpServer::start(Closing::Later { says_so }).await;
        let mut connection = server.idle_connection().await;
        tokio::select! {
            biased;
            () = connection.disturbed() => panic!("the server has done nothing yet"),
            () = std::future::ready(()) => {}
        }
        server.close.send(()).unwrap();
        timeout(SOON, connection.disturbed()).await.expect("the end of the connection goes unnoticed");
        timeout(SOON, connection.quit()).await.unwrap();
        let commands = timeout(SOON, server.commands_after).await.unwrap().unwrap();
        assert!(commands.iter().all(|line| line == "QUIT"), "{commands:?}");
    }
}

#[tokio::test]
async fn words_after_the_last_reply_disturb_a_connection() {
    let server = TcpServer::start(Closing::WithTheReply).await;
    let mut connection = server.idle_connection().await;
    timeout(SOON, connection.disturbed()).await.expect("421 behind the last reply goes unnoticed");
}

#[tokio::test]
async fn a_mail_over_a_closed_connection_fails_before_mail() {
    let server = TcpServer::start(Closing::Later { says_so: true }).await;
    let mut connection = server.idle_connection().await;
    server.close.send(()).unwrap();
    timeout(SOON, connection.disturbed()).await.unwrap();
    let attempt = connection.send(&envelope(&["bob@d.example"]), &message(MESSAGE)).await;
    // The runner sends it over a new connection then.
    assert_eq!(reason(&attempt), Reason::ConnectionLost(Step::Mail));
    assert!(!connection.is_reusable());
}

#[tokio::test]
async fn tcp_connections_know_the_address_they_leave_from() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let configured = Ipv4Addr::new(127, 0, 0, 2);
    for (asked, source) in [(None, Ipv4Addr::LOCALHOST), (Some(IpAddr::V4(configured)), configured)] {
        let dialed = timeout(SOON, TcpDialer.dial(address, asked)).await.unwrap().unwrap();
        assert_eq!(dialed.source, Some(IpAddr::V4(source)));
        assert_eq!(listener.accept().await.unwrap().1.ip(), source);
    }
}
