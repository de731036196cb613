//! scratch
#[path = "/tmp/t/zz_world.rs"]
#[allow(dead_code)]
mod imap_world;
use imap_world::World;
use sealpost_server::Settings;
use sealpost_vault::Store;
use tokio::io::AsyncReadExt;

fn message(n: u32) -> Vec<u8> {
    let mut state = n.wrapping_mul(2654435761).wrapping_add(12345);
    let mut next = || { state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223); state >> 8 };
    let mut m = format!("From: Someone {n} <s{n}@example.org>\r\nTo: me@example.org, you@example.org\r\nSubject: message number {n} about things\r\nDate: Mon, 7 Feb 2022 21:52:25 +0000\r\nMessage-ID: <{n}@example.org>\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n").into_bytes();
    let words = ["alpha","beta","gamma","delta","lorem","ipsum","report","meeting","tomorrow","budget","invoice","project"];
    let text = 4000 + next() % 20000;
    let mut col = 0;
    while (m.len() as u32) < text { let w = words[(next() as usize) % words.len()]; m.extend_from_slice(w.as_bytes()); col += 1; if col % 12 == 0 { m.extend_from_slice(b"\r\n") } else { m.push(b' ') } }
    m.extend_from_slice(b"\r\n--b\r\nContent-Type: application/pdf; name=x.pdf\r\nContent-Disposition: attachment; filename=x.pdf\r\nContent-Transfer-Encoding: base64\r\n\r\n");
    let size = match n % 50 { 0 => 5_000_000, 1..=4 => 800_000, 5..=20 => 100_000, _ => 10_000 };
    const A: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut i = 0;
    while i < size { m.push(A[(next() & 63) as usize]); i += 1; if i % 76 == 0 { m.extend_from_slice(b"\r\n") } }
    m.extend_from_slice(b"\r\n--b--\r\n");
    m
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(clippy::disallowed_methods)]
async fn speed() {
    let dir = std::path::PathBuf::from("/tmp/t/imap/speed");
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    let mut world = World::over(Store::local(&dir).await.unwrap(), Settings::default(), None).await;
    let now = std::time::Instant::now;
    let t = now();
    let mut total = 0;
    for n in 0..1000 { let m = message(n); total += m.len(); world.deliver(None, &m).await; }
    println!("delivered {} MB in {:?}", total / 1_000_000, t.elapsed());
    let mut client = world.login().await;
    for command in ["SELECT INBOX", "FETCH 1:* FAST", "FETCH 1:* ALL", "FETCH 1:* ALL", "FETCH 1:* FULL", "FETCH 1:* BODYSTRUCTURE", "FETCH 1:* (BODY.PEEK[HEADER.FIELDS (Subject)])", "FETCH 1:* (BODY.PEEK[HEADER])",
        "SEARCH SUBJECT \"number 77 \"", "SEARCH TEXT nothinglikethis", "SEARCH TEXT nothinglikethis", "SEARCH SENTSINCE 1-Jan-2023",
        "STORE 1:* +FLAGS (\\Flagged)", "STORE 1:* -FLAGS.SILENT (\\Flagged)", "COPY 1:* Archive", "MOVE 1:* Trash"] {
        let t = now();
        let lines = client.command(command).await;
        println!("{command}: {:?} {}", t.elapsed(), lines.last().unwrap().chars().take(60).collect::<String>());
    }
    client.ok("SELECT Trash").await;
    for command in ["FETCH 1:* BODY.PEEK[]", "FETCH 1:* BODY.PEEK[]", "FETCH 1:* RFC822"] {
        let t = now();
        client.send(format!("x {command}\r\n").as_bytes()).await;
        let n = client.drain_until(b"x OK FETCH").await;
        println!("{command}: {:?} {} MB", t.elapsed(), n / 1_000_000);
    }
    let _ = tokio::io::empty().read(&mut [0; 1]).await;
}
