//! The whole server on free ports of this machine: greetings, TLS, and how it stops.

use rustls::pki_types::ServerName;
use sealpost_base::{FakeClock, Kind, SeededRandom, SystemClock};
use sealpost_directory::{NewAccount, Secret};
use sealpost_vault::Sealed;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::*;
use crate::housekeeping::maintain_records;
use sealpost_session::settings::TlsSource;
use sealpost_session::settings::sending::{Sending, Switch};

async fn start(settings: Settings) -> Result<Server> {
    let random = Arc::new(SeededRandom::new(1));
    let key = ServerKeys::generate(&*random);
    Server::start(settings, Store::memory(), key, Arc::new(SystemClock::new()), random).await
}

fn local() -> Vec<std::net::SocketAddr> {
    vec!["127.0.0.1:0".parse().unwrap()]
}

async fn line(client: impl AsyncRead + Unpin) -> String {
    let mut line = String::new();
    BufReader::new(client).read_line(&mut line).await.unwrap();
    line
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_service_greets_and_says_goodbye() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("lmtp.sock");
    let listen = Listen {
        smtp: local(),
        smtps: local(),
        submission: local(),
        submissions: local(),
        lmtp: local(),
        lmtp_unix: vec![socket.clone()],
        imap: [local(), local()].concat(),
        imaps: local(),
        http: Vec::new(),
        https: Vec::new(),
        metrics: local(),
        admin: Some(directory.path().to_owned()),
    };
    let tls = TlsSource::SelfSigned { directory: directory.path().to_owned() };
    let data = Some(directory.path().to_owned());
    let server = start(Settings { listen, tls, data, ..Settings::default() }).await.unwrap();
    let addresses = server.addresses().clone();
    assert_eq!(addresses.imap.len(), 2);

    let mut clients: Vec<(&str, Box<dyn AsyncRead + Unpin + Send>)> = Vec::new();
    for (greeting, address) in [
        ("220", addresses.smtp[0]),
        ("220", addresses.submission[0]),
        ("220", addresses.lmtp[0]),
        ("* OK", addresses.imap[0]),
        ("* OK", addresses.imap[1]),
    ] {
        clients.push((greeting, Box::new(TcpStream::connect(address).await.unwrap())));
    }
    clients.push(("220", Box::new(tokio::net::UnixStream::connect(&socket).await.unwrap())));
    let trusted = crate::tls::tests::client_config(server.tls().unwrap().certificate());
    let connector = tokio_rustls::TlsConnector::from(trusted);
    for (greeting, address) in
        [("220", addresses.smtps[0]), ("220", addresses.submissions[0]), ("* OK", addresses.imaps[0])]
    {
        let socket = TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        clients.push((greeting, Box::new(connector.connect(name, socket).await.unwrap())));
    }
    for (greeting, client) in &mut clients {
        let said = line(&mut *client).await;
        assert!(said.starts_with(*greeting), "{said:?}");
    }
    assert_eq!(server.connections(), clients.len());

    let goodbyes = clients.into_iter().map(|(greeting, mut client)| async move {
        let mut said = String::new();
        client.read_to_string(&mut said).await.unwrap();
        let expected = if greeting == "220" { "421" } else { "* BYE" };
        assert!(said.starts_with(expected), "{said:?}");
    });
    let goodbyes = futures::future::join_all(goodbyes);
    let (cut_off, _) = tokio::join!(server.stop(Duration::from_secs(10)), goodbyes);
    assert_eq!(cut_off, 0);
    assert!(!socket.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_is_served_with_and_without_tls_until_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let listen = Listen { http: local(), https: local(), imaps: local(), ..Listen::default() };
    let tls = TlsSource::SelfSigned { directory: directory.path().to_owned() };
    let server = start(Settings { listen, tls, ..Settings::default() }).await.unwrap();
    let addresses = server.addresses().clone();
    let request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut plain = TcpStream::connect(addresses.http[0]).await.unwrap();
    plain.write_all(request).await.unwrap();
    assert_eq!(line(&mut plain).await, "HTTP/1.1 200 OK\r\n");

    let trusted = crate::tls::tests::client_config(server.tls().unwrap().certificate());
    let connect = async |address, protocols: &[&[u8]]| {
        let mut config = (*trusted).clone();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        let name = ServerName::try_from("localhost").unwrap();
        connector.connect(name, TcpStream::connect(address).await.unwrap()).await
    };
    let http2 = connect(addresses.https[0], &[b"http/1.1", b"h2"]).await.unwrap();
    assert_eq!(http2.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let mut secure = connect(addresses.https[0], &[]).await.unwrap();
    secure.write_all(request).await.unwrap();
    assert_eq!(line(&mut secure).await, "HTTP/1.1 200 OK\r\n");
    let imap = connect(addresses.imaps[0], &[b"h2"]).await.unwrap();
    assert_eq!(imap.get_ref().1.alpn_protocol(), None, "mail agrees on nothing");
    drop((imap, http2));
    assert_eq!(server.stop(Duration::from_secs(10)).await, 0);
    let mut rest = Vec::new();
    plain.read_to_end(&mut rest).await.unwrap();
}

#[tokio::test]
async fn an_unconfirmed_clock_years_ahead_deletes_no_account() {
    use sealpost_directory::{NewAccount, Role, Secret};
    let data = tempfile::tempdir().unwrap();
    let clock = Arc::new(FakeClock::new(Timestamp(1_700_000_000_000)));
    let random = Arc::new(SeededRandom::new(1));
    let (key, store) = (ServerKeys::generate(&*random), Store::memory());
    let start = async || {
        let settings = Settings { data: Some(data.path().to_owned()), ..Settings::default() };
        Server::start(settings, store.clone(), key.clone(), clock.clone(), random.clone()).await.unwrap()
    };
    let server = start().await;
    let directory = server.context().directory.clone();
    let name = directory.account_name("jane@example.org").unwrap();
    let password = Secret::new(b"one and two").unwrap();
    directory.create(&name, NewAccount { password, quota: None, role: Role::User }).await.unwrap();
    directory.remove(&name).await.unwrap();
    server.stop(Duration::ZERO).await;

    clock.advance(Duration::from_secs(10 * 365 * 86_400));
    let server = start().await;
    let ctx = server.context();
    assert!(ctx.clock_watch.is_doubted());
    maintain_records(ctx).await;
    directory.undelete(&name).await.unwrap();
    directory.remove(&name).await.unwrap();
    clock.advance(ctx.settings.retention + Duration::from_secs(1));
    maintain_records(ctx).await;
    sealpost_session::clock_watch::confirm(data.path(), clock.now()).unwrap();
    watch_clock(ctx, None).await;
    maintain_records(ctx).await;
    assert!(directory.undelete(&name).await.is_err(), "its time was over, and the clock is right");
    server.stop(Duration::ZERO).await;
}

#[tokio::test]
async fn a_client_without_a_handshake_does_not_delay_the_stop() {
    let directory = tempfile::tempdir().unwrap();
    let tls = TlsSource::SelfSigned { directory: directory.path().to_owned() };
    let listen = Listen { imaps: local(), ..Listen::default() };
    let server = start(Settings { listen, tls, ..Settings::default() }).await.unwrap();
    let _silent = TcpStream::connect(server.addresses().imaps[0]).await.unwrap();
    while server.connections() == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(server.stop(Duration::from_secs(10)).await, 0);
}

#[tokio::test]
async fn settings_that_cannot_be_are_refused() {
    let listen = Listen { imaps: local(), ..Listen::default() };
    let error = start(Settings { listen, ..Settings::default() }).await.err().unwrap();
    assert_eq!(error.kind(), Kind::Invalid);
    let (listen, mut sending) = (Listen { submission: local(), ..Listen::default() }, Sending::default());
    let settings = Settings { listen, ..Settings::default() };
    let without_data = start(settings.clone()).await.err().unwrap();
    assert!(without_data.to_string().contains("needs a data directory"), "{without_data}");
    sending.enabled = Switch::Off;
    let off = start(Settings { sending, ..settings }).await.err().unwrap();
    assert!(off.to_string().contains("sending.enabled"), "{off}");
    let hostname = "no host name".to_owned();
    assert_eq!(
        start(Settings { hostname, ..Settings::default() }).await.err().unwrap().kind(),
        Kind::Invalid
    );
}

#[tokio::test]
async fn a_port_in_use_leaves_nothing_behind() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("s");
    let listen = Listen { lmtp_unix: vec![socket.clone()], ..Listen::default() };
    let imap = vec![taken.local_addr().unwrap()];
    assert!(
        start(Settings { listen: Listen { imap, ..listen.clone() }, ..Settings::default() }).await.is_err()
    );
    assert!(!socket.exists());
    let server = start(Settings { listen, ..Settings::default() }).await.unwrap();
    assert!(socket.exists());
    assert!(!server.reload().await.unwrap());
    server.stop(Duration::from_secs(1)).await;
}

/// Copies of withdrawn secrets that a kill left are removed when the server starts, and later ones
/// within an hour.
#[tokio::test(start_paused = true)]
async fn an_interrupted_withdrawal_is_completed_within_an_hour() {
    const MINUTE: Duration = Duration::from_secs(60);
    let ctx = Arc::new(crate::context_for_tests());
    let name = ctx.directory.account_name("me").unwrap();
    let new = NewAccount::with_password(Secret::new(b"secret").unwrap());
    let (_, root) = ctx.directory.create(&name, new).await.unwrap();
    ctx.directory.add_app_password(&name, &root, "phone").await.unwrap();
    // The local store overwrites an earlier version before it removes it: killed in between it leaves this.
    let leave = async || {
        let version = ctx.directory.get(&name).await.unwrap().version - 1;
        let earlier = format!("{}/{version:016x}", ctx.directory.path_of(&name));
        ctx.store.delete(&earlier).await.unwrap();
        ctx.store.put_new(&earlier, Sealed::marker()).await.unwrap();
    };
    let left = async || {
        let record = ctx.directory.get(&name).await.unwrap();
        ctx.directory.withdrawn_copies(&record).await.unwrap().len()
    };
    leave().await;
    assert_eq!(left().await, 1);
    let house = tokio::spawn(keep_house(ctx.clone(), None));
    tokio::time::sleep(MINUTE / 2).await;
    assert_eq!(left().await, 0, "the start finished it");
    leave().await;
    tokio::time::sleep(58 * MINUTE).await;
    assert_eq!(left().await, 1);
    tokio::time::sleep(2 * MINUTE).await;
    assert_eq!(left().await, 0, "the hour finished it");
    ctx.shutdown.begin();
    house.await.unwrap();
}

/// The same with files of the local store that have no row any more.
#[tokio::test]
async fn files_of_removed_records_are_erased_with_them() {
    let dir = tempfile::tempdir().unwrap();
    let random = Arc::new(SeededRandom::new(1));
    let (key, store) = (ServerKeys::generate(&*random), Store::local(dir.path()).await.unwrap());
    let clock = Arc::new(SystemClock::new());
    let ctx = Context::new(Settings::default(), store, key, None, clock, random).unwrap();
    let left = dir.path().join("objects/00/0123456789.slots");
    std::fs::create_dir_all(left.parent().unwrap()).unwrap();
    std::fs::write(&left, b"a record with slots").unwrap();
    let second = dir.path().join("second-name");
    std::fs::hard_link(&left, &second).unwrap();
    maintain_records(&ctx).await;
    assert!(!left.exists());
    assert_eq!(std::fs::read(second).unwrap(), [0; 19]);
}
