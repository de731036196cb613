//! Fetches a policy: one GET over HTTPS (RFC 8461 §3.3), no redirects, everything bounded.

use bytes::BytesMut;
use sealpost_base::Timestamp;
use sealpost_base::limits::{STS_HEAD_BYTES, STS_POLICY_BYTES};
use sealpost_dns::{DnsName, Resolver};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Policy, StsProblem};
use crate::dial::{Dialer, Stream};
use crate::https::{self, ConnectProblem, Reach, Web, WebHost};
use crate::tls::TlsClient;

/// Header fields of a response.
const FIELDS: usize = 64;

/// The policy that the web site of `domain` serves. The caller bounds the time.
pub(super) async fn fetch(
    domain: &DnsName,
    port: u16,
    resolver: &dyn Resolver,
    dialer: &dyn Dialer,
    tls: &TlsClient,
    now: Timestamp,
) -> Result<Policy, StsProblem> {
    let host = domain.below("mta-sts").ok_or(StsProblem::FetchError)?;
    // RFC 8461 §3.3: the certificate has to be good for "mta-sts" below the domain.
    let site = WebHost::Name(host.clone());
    let web = Web { resolver, dialer, tls };
    let mut stream = https::connect(&site, port, web, Reach::All, now).await.map_err(problem)?;
    let request =
        format!("GET /.well-known/mta-sts.txt HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let body = exchange(stream.as_mut(), request.as_bytes()).await.ok_or(StsProblem::FetchError)?;
    Policy::parse(&body).ok_or(StsProblem::Invalid)
}

fn problem(problem: ConnectProblem) -> StsProblem {
    match problem {
        ConnectProblem::Certificate => StsProblem::WebPkiInvalid,
        _ => StsProblem::FetchError,
    }
}

/// Sends the request. Returns the body of a response 200 with a text; `None` for any other response.
async fn exchange(stream: &mut dyn Stream, request: &[u8]) -> Option<Vec<u8>> {
    stream.write_all(request).await.ok()?;
    stream.flush().await.ok()?;
    response(stream).await
}

/// Reads a response.
pub(crate) async fn response(stream: &mut dyn Stream) -> Option<Vec<u8>> {
    let mut input = BytesMut::new();
    let head = loop {
        if let Some(head) = parse_head(&input)? {
            break head;
        }
        if input.len() > STS_HEAD_BYTES || stream.read_buf(&mut input).await.ok()? == 0 {
            return None;
        }
    };
    let body = input.split_off(head.length);
    match head.body {
        BodyLength::Chunked => chunked(stream, body).await,
        BodyLength::Bytes(length) => sized(stream, body, length).await,
        BodyLength::UntilClose => until_close(stream, body).await,
    }
}

struct Head {
    length: usize,
    body: BodyLength,
}

enum BodyLength {
    Chunked,
    Bytes(usize),
    UntilClose,
}

/// The head of an acceptable response; the inner `None` if more input is needed.
fn parse_head(input: &[u8]) -> Option<Option<Head>> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut response = httparse::Response::new(&mut fields);
    let length = match response.parse(input).ok()? {
        httparse::Status::Partial => return Some(None),
        httparse::Status::Complete(length) => length,
    };
    // RFC 8461 §3.3: redirects and all codes except 200 are failures.
    if response.code != Some(200) {
        return None;
    }
    let field = |name: &str| {
        let found = response.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(found.value).ok().map(str::trim)
    };
    // RFC 8461 §3.2: the media type is text/plain.
    let kind = field("content-type").and_then(|kind| kind.split(';').next()).unwrap_or_default();
    if !kind.trim().eq_ignore_ascii_case("text/plain") {
        return None;
    }
    let body = match (field("transfer-encoding"), field("content-length")) {
        (Some(coding), _) if coding.eq_ignore_ascii_case("chunked") => BodyLength::Chunked,
        (Some(_), _) => return None,
        (None, Some(length)) => BodyLength::Bytes(length.parse().ok().filter(|&n| n <= STS_POLICY_BYTES)?),
        (None, None) => BodyLength::UntilClose,
    };
    Some(Some(Head { length, body }))
}

async fn sized(stream: &mut dyn Stream, mut body: BytesMut, length: usize) -> Option<Vec<u8>> {
    while body.len() < length {
        if stream.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    body.truncate(length);
    Some(body.to_vec())
}

async fn until_close(stream: &mut dyn Stream, mut body: BytesMut) -> Option<Vec<u8>> {
    while body.len() <= STS_POLICY_BYTES {
        // A TLS connection that breaks off is an error here: a part is not taken for the whole.
        if stream.read_buf(&mut body).await.ok()? == 0 {
            return Some(body.to_vec());
        }
    }
    None
}

async fn chunked(stream: &mut dyn Stream, mut input: BytesMut) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        match httparse::parse_chunk_size(&input).ok()? {
            httparse::Status::Complete((line, size)) => {
                let room = STS_POLICY_BYTES.saturating_sub(body.len());
                let size = usize::try_from(size).ok().filter(|size| *size <= room)?;
                if size == 0 {
                    return Some(body);
                }
                // The chunk and the CRLF after it.
                while input.len() < line + size + 2 {
                    if stream.read_buf(&mut input).await.ok()? == 0 {
                        return None;
                    }
                }
                let chunk = input.split_to(line + size + 2);
                body.extend_from_slice(&chunk[line..line + size]);
            }
            httparse::Status::Partial => {
                if input.len() > STS_HEAD_BYTES || stream.read_buf(&mut input).await.ok()? == 0 {
                    return None;
                }
            }
        }
    }
}
