//! Listening sockets: what is accepted, refused, replaced and cleaned up.

use sealpost_base::{Kind, SeededRandom, SystemClock};
use sealpost_vault::Store;
use sealpost_vault::record::ServerKey;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::settings::{Connections, Settings};

fn context(settings: Settings) -> Arc<Context> {
    let random = Arc::new(SeededRandom::new(1));
    let key = ServerKey::generate(&*random);
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
    Service { protocol: "echo", tls: false, refusal: "later\r\n".into(), serve: echo }
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

/// What a connection is charged for has to have room for what it is.
#[tokio::test]
async fn the_tasks_of_sessions_are_small() {
    let ctx = context(Settings::default());
    let stream = || Stream::pair().unwrap().0;
    let listening = size_of_val(&session(stream(), service(), ctx.clone()));
    let imap = size_of_val(&crate::imap::serve(stream(), ctx.clone()));
    let lmtp = size_of_val(&crate::smtp::serve(stream(), ctx.clone(), crate::smtp::Protocol::Lmtp));
    assert!(listening <= 1280 && imap <= 3584 && lmtp <= 1280, "{listening}, {imap}, {lmtp} bytes");
}

#[tokio::test]
async fn one_too_many_is_told_to_come_back_and_may() {
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
async fn a_unix_socket_is_private_replaces_a_dead_one_and_is_removed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("lmtp.sock");
    // What a server that was killed leaves behind.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let listener = Listener::unix(&path, 0o660).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
    assert_eq!(Listener::unix(&path, 0o660).err().unwrap().kind(), Kind::Conflict, "it is in use");

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
    assert_eq!(Listener::unix(&path, 0o660).err().unwrap().kind(), Kind::Conflict);
    assert!(path.exists(), "what is not ours stays");
}

#[tokio::test]
async fn an_address_in_use_is_named() {
    let first = Listener::tcp("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = first.address().unwrap();
    let error = Listener::tcp(address).err().unwrap();
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}

#[tokio::test]
async fn a_session_that_panics_takes_nobody_with_it() {
    fn panics(_: Stream, _: Arc<Context>) -> BoxFuture<'static, ()> {
        Box::pin(async { std::panic::resume_unwind(Box::new("gone")) })
    }
    let ctx = context(Settings::default());
    let listener = Listener::tcp("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.address().unwrap();
    let admission = Admission::new(Connections { total: 1, per_address: 1 }, usize::MAX);
    let running =
        tokio::spawn(run(listener, Service { serve: panics, ..service() }, ctx.clone(), admission.clone()));
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
