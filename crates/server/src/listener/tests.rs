//! Listening sockets: what is accepted, refused, replaced and cleaned up.

use futures::FutureExt;
use sealpost_base::{Kind, SeededRandom, SystemClock, limits};
use sealpost_vault::Store;
use sealpost_vault::server_key::ServerKeys;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use std::time::Duration;

use super::accept::{secured, session, stay};
use super::*;
use sealpost_imap_session::ImapShared;
use sealpost_session::admission::Admission;
use sealpost_session::health::Unhealthy;
use sealpost_session::settings::{Connections, Settings};
use sealpost_smtp_session::SmtpShared;

fn context(settings: Settings) -> Arc<Context> {
    let random = Arc::new(SeededRandom::new(1));
    let key = ServerKeys::generate(&*random);
    Arc::new(
        Context::new(settings, Store::memory(), key, None, Arc::new(SystemClock::new()), random).unwrap(),
    )
}

/// Greets, echoes one byte at a time, and says goodbye when the server stops.
fn echo(mut stream: Stream, ctx: Arc<Context>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        stream.write_all(b"hello\r\n").await.unwrap();
        let mut byte = [0];
        loop {
            tokio::select! {
                () = ctx.shutdown.wait() => {
                    stream.write_all(b"bye\r\n").await.unwrap();
                    return stream.close().await;
                }
                read = stream.read(&mut byte) => match read {
                    Ok(1) => stream.write_all(&byte).await.unwrap(),
                    _ => return,
                },
            }
        }
    })
}

fn service() -> Service {
    Service { protocol: "echo", tls: None, refusal: "later\r\n".into(), serve: Arc::new(echo) }
}

async fn line(client: &mut (impl AsyncReadExt + Unpin)) -> String {
    let mut line = Vec::new();
    while !line.ends_with(b"\n") {
        let mut byte = [0];
        if client.read(&mut byte).await.unwrap() == 0 {
            break;
        }
        line.push(byte[0]);
    }
    String::from_utf8(line).unwrap()
}

#[test]
fn a_denied_port_names_the_remedy() {
    let address = "127.0.0.1:25".parse().unwrap();
    let told = |kind: io::ErrorKind| cannot_listen(address, kind.into());
    let denied = told(io::ErrorKind::PermissionDenied);
    assert!(
        denied.kind() == Kind::Invalid && denied.to_string().contains("CAP_NET_BIND_SERVICE"),
        "{denied}"
    );
    assert_eq!(told(io::ErrorKind::AddrInUse).kind(), Kind::Retry);
}

/// A connection must fit into its charge.
#[tokio::test]
async fn the_tasks_of_sessions_are_small() {
    let ctx = context(Settings::default());
    let stream = || Stream::pair().unwrap().0;
    let task = size_of_val(&stay(session(stream(), service(), ctx.clone()), Arc::default()));
    let secured =
        size_of_val(&secured(stream(), crate::tls::self_signed_for_tests(), service(), ctx.clone()));
    let key = ServerKeys::generate(&SeededRandom::new(1));
    let (imap, smtp) = (ImapShared::new(ctx.clone(), &key), SmtpShared::new(ctx.clone(), None));
    let imap = size_of_val(&sealpost_imap_session::serve(stream(), Arc::new(imap)));
    let lmtp = size_of_val(&sealpost_smtp_session::serve(
        stream(),
        Arc::new(smtp),
        sealpost_smtp_session::Service::Lmtp,
    ));
    assert!(task <= 160 && secured <= limits::SILENT_BYTES / 2, "{task}, {secured} bytes");
    assert!(imap <= 64 && lmtp <= 1280, "{imap}, {lmtp} bytes");
}

#[tokio::test]
async fn an_excess_connection_gets_a_temporary_error() {
    let ctx = context(Settings::default());
    let listener = Listener::tcp("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.address().unwrap();
    let admission = Admission::new(Connections { total: 10, per_address: 2 }, usize::MAX);
    let running = tokio::spawn(run(listener, service(), ctx.clone(), admission.clone()));

    let mut first = TcpStream::connect(address).await.unwrap();
    let mut second = TcpStream::connect(address).await.unwrap();
    assert_eq!((line(&mut first).await, line(&mut second).await), ("hello\r\n".into(), "hello\r\n".into()));
    let mut third = TcpStream::connect(address).await.unwrap();
    let mut said = String::new();
    third.read_to_string(&mut said).await.unwrap();
    assert_eq!(said, "later\r\n", "and then the connection is closed");

    drop(first);
    while admission.total() > 1 {
        tokio::task::yield_now().await;
    }
    let mut fourth = TcpStream::connect(address).await.unwrap();
    assert_eq!(line(&mut fourth).await, "hello\r\n");

    ctx.shutdown.begin();
    assert_eq!((line(&mut second).await, line(&mut fourth).await), ("bye\r\n".into(), "bye\r\n".into()));
    drop((second, fourth));
    running.await.unwrap();
    assert_eq!(admission.total(), 0);
    assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
}

#[tokio::test]
async fn a_unix_socket_is_private_and_replaces_dead_ones() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("lmtp.sock");
    // What a server that was killed leaves behind.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let listener = Listener::unix(&path, 0o660).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
    assert_eq!(Listener::unix(&path, 0o660).err().unwrap().kind(), Kind::Retry, "it is in use");

    let ctx = context(Settings::default());
    let admission = Admission::new(Connections { total: 10, per_address: 1 }, usize::MAX);
    let running = tokio::spawn(run(listener, service(), ctx.clone(), admission));
    let mut one = UnixStream::connect(&path).await.unwrap();
    let mut two = UnixStream::connect(&path).await.unwrap();
    assert_eq!((line(&mut one).await, line(&mut two).await), ("hello\r\n".into(), "hello\r\n".into()));
    ctx.shutdown.begin();
    drop((one, two));
    running.await.unwrap();
    assert!(!path.exists());

    std::fs::write(&path, "a file").unwrap();
    assert_eq!(Listener::unix(&path, 0o660).err().unwrap().kind(), Kind::Invalid);
    let nowhere = path.with_file_name("nowhere").join("socket");
    assert_eq!(Listener::unix(&nowhere, 0o660).err().unwrap().kind(), Kind::Invalid);
    assert!(path.exists(), "what is not ours stays");
}

#[tokio::test]
async fn an_address_in_use_is_named() {
    let first = Listener::tcp("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = first.address().unwrap();
    let error = Listener::tcp(address).err().unwrap();
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}

/// A server without memory for so many that say something.
#[tokio::test]
async fn waiting_sessions_are_charged_for_kept_memory() {
    const CLIENTS: usize = 70;
    let ctx = context(Settings::default());
    let imap = Arc::new(ImapShared::new(ctx.clone(), &ServerKeys::generate(&SeededRandom::new(1))));
    let serve = move |stream, _| sealpost_imap_session::serve(stream, imap.clone()).boxed();
    let service = Service { serve: Arc::new(serve), ..service() };
    let listener = Listener::tcp("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.address().unwrap();
    let admission = Admission::new(Connections { total: 1000, per_address: 1000 }, 1 << 20);
    let running = tokio::spawn(run(listener, service, ctx.clone(), admission.clone()));
    let charged = async |bytes: usize| {
        while admission.charged() != bytes {
            tokio::task::yield_now().await;
        }
    };
    let at_rest = |clients: usize| clients * limits::RESTING_BYTES;
    let mut clients = Vec::new();
    while clients.len() < CLIENTS {
        let mut client = TcpStream::connect(address).await.unwrap();
        assert!(line(&mut client).await.starts_with("* OK "));
        clients.push(client);
        charged(clients.len() * limits::SILENT_BYTES).await;
    }
    const { assert!(CLIENTS * limits::CONNECTION_BYTES > 1 << 20) };
    for client in &mut clients {
        client.write_all(b"a NOOP\r\n").await.unwrap();
        assert!(line(client).await.starts_with("a OK "));
    }
    charged(at_rest(CLIENTS)).await;
    clients[0].write_all(b"b NO").await.unwrap();
    charged(at_rest(CLIENTS - 1) + limits::CONNECTION_BYTES).await;
    clients[0].write_all(b"OP\r\n").await.unwrap();
    assert!(line(&mut clients[0]).await.starts_with("b OK "));
    charged(at_rest(CLIENTS)).await;
    drop(clients);
    charged(0).await;
    ctx.shutdown.begin();
    running.await.unwrap();
}

/// A port scan, or clients that opened connections ahead of need.
#[tokio::test]
async fn connections_before_a_tls_handshake_are_charged_little() {
    const CLIENTS: usize = 20;
    let ctx = context(Settings::default());
    let listener = Listener::tcp("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.address().unwrap();
    let admission = Admission::new(Connections { total: 100, per_address: 100 }, 1 << 20);
    let service = Service { tls: Some(crate::tls::self_signed_for_tests()), ..service() };
    let running = tokio::spawn(run(listener, service, ctx.clone(), admission.clone()));
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(TcpStream::connect(address).await.unwrap());
    }
    let charged = async |bytes: usize| {
        while admission.charged() != bytes {
            tokio::task::yield_now().await;
        }
    };
    charged(CLIENTS * limits::SILENT_BYTES).await;
    // The beginning of a handshake.
    clients[0].write_all(&[22, 3, 1, 0x40, 0]).await.unwrap();
    charged((CLIENTS - 1) * limits::SILENT_BYTES + limits::CONNECTION_BYTES + limits::TLS_BYTES).await;
    drop(clients);
    charged(0).await;
    ctx.shutdown.begin();
    running.await.unwrap();
}

#[tokio::test]
async fn a_session_that_panics_ends_no_other() {
    fn panics(_: Stream, _: Arc<Context>) -> BoxFuture<'static, ()> {
        Box::pin(async { std::panic::resume_unwind(Box::new("gone")) })
    }
    let ctx = context(Settings::default());
    let listener = Listener::tcp("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.address().unwrap();
    let admission = Admission::new(Connections { total: 1, per_address: 1 }, usize::MAX);
    let running = tokio::spawn(run(
        listener,
        Service { serve: Arc::new(panics), ..service() },
        ctx.clone(),
        admission.clone(),
    ));
    for _ in 0..3 {
        let mut client = TcpStream::connect(address).await.unwrap();
        // Closed or reset; either way it is over, and the next one is let in.
        let _ = client.read(&mut [0]).await;
        while admission.total() > 0 {
            tokio::task::yield_now().await;
        }
    }
    ctx.shutdown.begin();
    running.await.unwrap();
}

/// Reports the client's address.
fn names(mut stream: Stream, _: Arc<Context>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let (peer, local) = (stream.peer_addr().unwrap(), stream.local_addr().unwrap());
        let said = format!("{peer} {local} {}\r\n", stream.is_loopback());
        stream.write_all(said.as_bytes()).await.unwrap();
        let _ = stream.read(&mut [0]).await;
    })
}

async fn with_balancers(
    balancers: &str,
) -> (SocketAddr, Admission, Arc<Context>, tokio::task::JoinHandle<()>) {
    let balancers = vec![balancers.parse().unwrap()];
    let ctx = context(Settings { trusted_proxies: balancers, ..Settings::default() });
    let listener = Listener::tcp("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.address().unwrap();
    let admission = Admission::new(Connections { total: 10, per_address: 1 }, usize::MAX);
    let service = Service { serve: Arc::new(names), ..service() };
    let running = tokio::spawn(run(listener, service, ctx.clone(), admission.clone()));
    (address, admission, ctx, running)
}

async fn balanced(to: SocketAddr, header: &str) -> TcpStream {
    let mut balancer = TcpStream::connect(to).await.unwrap();
    balancer.write_all(header.as_bytes()).await.unwrap();
    balancer
}

#[tokio::test]
async fn a_balancer_names_the_client_of_its_connection() {
    let (address, admission, ctx, running) = with_balancers("127.0.0.0/8").await;
    let header = |client: &str| format!("PROXY TCP4 {client} 198.51.100.7 51234 143\r\n");
    let mut one = balanced(address, &header("192.0.2.1")).await;
    assert_eq!(line(&mut one).await, "192.0.2.1:51234 198.51.100.7:143 false\r\n");
    let mut two = balanced(address, &header("192.0.2.2")).await;
    assert_eq!(line(&mut two).await, "192.0.2.2:51234 198.51.100.7:143 false\r\n");
    let mut again = balanced(address, &header("192.0.2.2")).await;
    assert_eq!(line(&mut again).await, "later\r\n", "each client has its own connections");
    let mut looks = balanced(address, "PROXY UNKNOWN\r\n").await;
    let own = looks.local_addr().unwrap();
    assert_eq!(line(&mut looks).await, format!("{own} {address} true\r\n"));
    // A balancer without a header is not served, and holds no connection.
    let mut silent = balanced(address, "a LOGIN me secret\r\n").await;
    assert!(!matches!(silent.read(&mut [0]).await, Ok(1)), "closed or reset");
    let cut = balanced(address, "PROXY TCP4 192.0.").await;
    drop((cut, one, two, looks));
    while admission.total() > 0 {
        tokio::task::yield_now().await;
    }
    let waits = balanced(address, "PROXY").await;
    ctx.shutdown.begin();
    running.await.unwrap();
    drop(waits);
}

#[tokio::test]
async fn only_balancers_are_trusted() {
    let (address, _, ctx, running) = with_balancers("192.0.2.1").await;
    let mut client = balanced(address, "PROXY TCP4 192.0.2.7 198.51.100.7 51234 143\r\n").await;
    let own = client.local_addr().unwrap();
    assert_eq!(line(&mut client).await, format!("{own} {address} true\r\n"));
    drop(client);
    ctx.shutdown.begin();
    running.await.unwrap();
}

/// Panics before there is a session: in the accept loop itself.
fn explode(_: Stream, _: Arc<Context>) -> BoxFuture<'static, ()> {
    std::panic::resume_unwind(Box::new("a mistake"))
}

static EXPLODES: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

fn echo_or_explode(stream: Stream, ctx: Arc<Context>) -> BoxFuture<'static, ()> {
    let explodes = EXPLODES.swap(false, std::sync::atomic::Ordering::SeqCst);
    if explodes { explode(stream, ctx) } else { echo(stream, ctx) }
}

#[tokio::test]
async fn an_accept_loop_survives_a_panic_with_its_sessions() {
    let ctx = context(Settings::default());
    let listener = Listener::tcp("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.address().unwrap();
    let admission = Admission::new(Connections::default(), usize::MAX);
    let service = Service { serve: Arc::new(echo_or_explode), ..service() };
    let running = tokio::spawn(run(listener, service, ctx.clone(), admission.clone()));
    let mut before = TcpStream::connect(address).await.unwrap();
    assert_eq!(line(&mut before).await, "hello\r\n");
    EXPLODES.store(true, std::sync::atomic::Ordering::SeqCst);
    let mut unlucky = TcpStream::connect(address).await.unwrap();
    assert_eq!(line(&mut unlucky).await, "", "its connection is lost");
    let mut after = TcpStream::connect(address).await.unwrap();
    assert_eq!(line(&mut after).await, "hello\r\n");
    before.write_all(b"x").await.unwrap();
    let mut echoed = [0];
    before.read_exact(&mut echoed).await.unwrap();
    assert_eq!((ctx.metrics.panics.read(), admission.total()), (1, 2));
    assert_eq!(ctx.health.check(Duration::from_secs(20)).await, Ok(()));
    ctx.shutdown.begin();
    running.await.unwrap();
}

#[tokio::test]
async fn a_socket_that_no_longer_listens_is_reported_as_lost() {
    let ctx = context(Settings::default());
    let listener = Listener::tcp("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.address().unwrap();
    let Listener::Tcp(socket) = &listener else { unreachable!() };
    // Another process with the same socket may end it.
    let same = duplicate(socket);
    let admission = Admission::new(Connections::default(), usize::MAX);
    let running = tokio::spawn(run(listener, service(), ctx.clone(), admission));
    let mut client = TcpStream::connect(address).await.unwrap();
    assert_eq!(line(&mut client).await, "hello\r\n");
    rustix::net::shutdown(&same, rustix::net::Shutdown::Both).unwrap();
    assert_eq!(ctx.health.lost().await, "echo");
    assert_eq!(ctx.health.check(Duration::from_secs(20)).await, Err(Unhealthy::Lost("echo")));
    ctx.shutdown.begin();
    assert_eq!(line(&mut client).await, "bye\r\n", "sessions go on until the server stops");
    running.await.unwrap();
}

fn duplicate(socket: &TcpListener) -> std::os::fd::OwnedFd {
    use std::os::fd::AsFd;
    socket.as_fd().try_clone_to_owned().unwrap()
}
