//! Sends HTTP/1.1 requests again and again over several connections, and says how long the answers took.
//!
//! It knows no protocol above HTTP, so the same load reaches any server. One thread and no parser beyond
//! what the framing needs: it must leave the processors to the server.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use sealpost_base::{Clock, SystemClock};
use sealpost_bench::process::{Tree, own_cpu};
use serde::Serialize;

use crate::quiet::Percentiles;
use crate::wire::Wire;

/// How long one answer may take.
const ANSWER: Duration = Duration::from_secs(120);

/// The options.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where the server listens.
    pub address: SocketAddr,
    /// The target of the request, such as `/jmap/api`.
    pub path: String,
    /// The name of the account.
    pub user: String,
    /// Its password.
    pub password: String,
    /// The files with the bodies, JSON, sent in turn.
    pub bodies: Vec<PathBuf>,
    /// How many connections.
    pub connections: usize,
    /// How many requests, all connections together.
    pub requests: u64,
    /// No request begins after so long.
    pub seconds: f64,
    /// The server's process, of which CPU time is measured with that of its children.
    pub pid: Option<u32>,
    /// Fail if an answer contains this.
    pub refuse: Vec<String>,
}

/// What was measured.
#[derive(Debug, Serialize)]
struct Measured {
    requests: usize,
    per_second: f64,
    first_ms: f64,
    p50_ms: f64,
    p99_ms: f64,
    longest_ms: f64,
    /// Of the last body, as it came.
    bytes: usize,
    /// CPU time of the server for one request, in milliseconds.
    server_cpu_ms: Option<f64>,
    /// CPU time of this program for one request, in milliseconds.
    client_cpu_ms: f64,
}

/// Runs the load and prints the result as a line of JSON.
///
/// # Errors
/// If the server refuses a request, or the connection ends.
pub async fn main(options: &Options) -> Result<()> {
    let requests = options.bodies.iter().map(|body| request(options, body)).collect::<Result<Vec<_>>>()?;
    let (clock, server) = (SystemClock::new(), options.pid.map(Tree::new));
    let mut clients = Vec::new();
    for _ in 0..options.connections {
        clients.push(Wire::connect(options.address).await?);
    }
    let cpu = || (server.map_or(0.0, |tree| tree.cpu_seconds()), own_cpu());
    let left = std::cell::Cell::new(options.requests);
    let end = clock.monotonic() + Duration::from_secs_f64(options.seconds);
    let (before, begun) = (cpu(), clock.monotonic());
    let (requests, left, clock) = (&requests, &left, &clock);
    let work = clients.iter_mut().map(|wire| async move {
        let (mut times, mut bytes) = (Vec::new(), 0);
        while left.get() > 0 && clock.monotonic() < end {
            left.set(left.get() - 1);
            let request = &requests[usize::try_from(left.get()).unwrap_or(0) % requests.len()];
            let sent = clock.monotonic();
            wire.send(request).await?;
            let answer = tokio::time::timeout(ANSWER, answer(wire)).await.context("no answer")??;
            times.push(clock.monotonic() - sent);
            if let Some(found) = options.refuse.iter().find(|text| contains(&answer, text)) {
                bail!(
                    "an answer contains {found:?}: {}",
                    String::from_utf8_lossy(&answer[..answer.len().min(2000)])
                );
            }
            bytes = answer.len();
        }
        anyhow::Ok((times, bytes))
    });
    let done = futures::future::try_join_all(work).await?;
    let (took, after) = (clock.monotonic() - begun, cpu());
    let first = done.iter().filter_map(|(times, _)| times.first().copied()).max().unwrap_or_default();
    let mut times: Vec<Duration> = done.iter().flat_map(|(times, _)| times.iter().copied()).collect();
    ensure!(!times.is_empty(), "no request was sent");
    let of = Percentiles::of(&mut times);
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    let each = |seconds: f64| seconds * 1000.0 / times.len() as f64;
    let measured = Measured {
        requests: times.len(),
        per_second: times.len() as f64 / took.as_secs_f64(),
        first_ms: ms(first),
        p50_ms: ms(of.p50),
        p99_ms: ms(of.p99),
        longest_ms: ms(of.longest),
        bytes: done.last().map_or(0, |(_, bytes)| *bytes),
        server_cpu_ms: server.map(|_| each(after.0 - before.0)),
        client_cpu_ms: each((after.1 - before.1).as_secs_f64()),
    };
    println!("{}", serde_json::to_string(&measured)?);
    Ok(())
}

/// A request with the body in that file.
fn request(options: &Options, body: &Path) -> Result<Vec<u8>> {
    let body = std::fs::read(body).with_context(|| body.display().to_string())?;
    let authorization = basic(&options.user, &options.password);
    let mut request = format!(
        "POST {} HTTP/1.1\r\nHost: {}\r\nAuthorization: {authorization}\r\nContent-Type: application/json\r\n\
         Accept: application/json\r\nContent-Length: {}\r\n\r\n",
        options.path,
        options.address,
        body.len()
    )
    .into_bytes();
    request.extend_from_slice(&body);
    Ok(request)
}

/// The value of `Authorization` for that login (RFC 7617).
pub(crate) fn basic(user: &str, password: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let text = format!("{user}:{password}");
    let mut encoded = "Basic ".to_owned();
    for group in text.as_bytes().chunks(3) {
        let bits =
            group.iter().fold(0u32, |bits, byte| (bits << 8) | u32::from(*byte)) << (8 * (3 - group.len()));
        for digit in 0..4 {
            encoded.push(match digit <= group.len() {
                true => char::from(DIGITS[((bits >> (18 - 6 * digit)) & 63) as usize]),
                false => '=',
            });
        }
    }
    encoded
}

fn contains(answer: &[u8], text: &str) -> bool {
    memchr::memmem::find(answer, text.as_bytes()).is_some()
}

/// The body of the next answer (RFC 9112 §6).
async fn answer(wire: &mut Wire) -> Result<Vec<u8>> {
    let status = String::from_utf8(wire.line().await?)?;
    let (mut length, mut is_chunked) = (None, false);
    loop {
        let line = String::from_utf8(wire.line().await?)?.to_ascii_lowercase();
        match line.split_once(':') {
            Some(("content-length", value)) => length = Some(value.trim().parse::<u64>()?),
            Some(("transfer-encoding", value)) => is_chunked = value.trim() == "chunked",
            Some(_) => {}
            None => break,
        }
    }
    let mut body = Vec::new();
    if is_chunked {
        loop {
            let line = String::from_utf8(wire.line().await?)?;
            let size = u64::from_str_radix(line.split(';').next().unwrap_or_default().trim(), 16)?;
            wire.take(size, |piece| body.extend_from_slice(piece)).await?;
            ensure!(wire.line().await?.is_empty(), "a chunk without an end");
            if size == 0 {
                break;
            }
        }
    } else {
        wire.take(length.context("an answer without a length")?, |piece| body.extend_from_slice(piece))
            .await?;
    }
    ensure!(status.contains(" 200 "), "{status}: {}", String::from_utf8_lossy(&body));
    Ok(body)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn credentials_are_base64() {
        assert_eq!(basic("Aladdin", "open sesame"), "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        assert_eq!(basic("a", "b"), "Basic YTpi");
        assert_eq!(basic("a", "bc"), "Basic YTpiYw==");
    }

    #[tokio::test]
    async fn answers_of_both_framings_are_read() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut wire = Wire::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        let text = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                    2\r\nde\r\n1;x=y\r\nf\r\n0\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno";
        server.write_all(text.as_bytes()).await.unwrap();
        assert_eq!(answer(&mut wire).await.unwrap(), b"abc");
        assert_eq!(answer(&mut wire).await.unwrap(), b"def");
        assert!(answer(&mut wire).await.unwrap_err().to_string().contains("404 Not Found: no"));
        drop(wire);
        assert_eq!(server.read(&mut [0; 8]).await.unwrap(), 0);
    }
}
