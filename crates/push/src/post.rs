//! One request to a push service: POST over HTTPS (RFC 8030 §5), everything bounded.
//!
//! A redirect is not followed (RFC 8620 §8.6: it could lead inside), and of the response only the head
//! is read.

use std::time::{Duration, UNIX_EPOCH};

use sealpost_base::Timestamp;
use sealpost_base::limits::{PUSH_HEAD_BYTES, PUSH_HEAD_FIELDS, PUSH_TIME};
use sealpost_delivery::dial::Stream;
use sealpost_delivery::https::{ConnectProblem, Reach, Web, connect};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::url::PushUrl;

/// How urgent a message is (RFC 8030 §5.3): a device that saves power gets less urgent ones later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// For changes of known mail.
    Low,
    /// For new mail.
    Normal,
    /// For a client that waits.
    High,
}

/// A message to a push service.
pub(crate) struct Message<'a> {
    pub(crate) body: &'a [u8],
    pub(crate) is_encrypted: bool,
    /// How long the push service keeps it for a device that is off (RFC 8030 §5.2).
    pub(crate) ttl: Duration,
    pub(crate) urgency: Urgency,
    /// At most 32 characters of URL-safe base64 (RFC 8030 §5.4).
    pub(crate) topic: Option<&'a str>,
    /// The `Authorization` field.
    pub(crate) authorization: &'a str,
}

/// The head of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// When to try again, from now (RFC 9110 §10.2.3).
    pub(crate) retry_after: Option<Duration>,
}

/// Why there is no reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PostProblem {
    Connect(ConnectProblem),
    /// It took too long.
    TimedOut,
    /// The response is not HTTP, or the connection ended.
    NoReply,
}

impl PostProblem {
    pub(crate) fn text(self) -> &'static str {
        match self {
            PostProblem::Connect(problem) => problem.text(),
            PostProblem::TimedOut => "no response in time",
            PostProblem::NoReply => "no valid response",
        }
    }
}

impl Urgency {
    fn name(self) -> &'static str {
        match self {
            Urgency::Low => "low",
            Urgency::Normal => "normal",
            Urgency::High => "high",
        }
    }
}

/// Sends a message.
pub(crate) async fn post(
    url: &PushUrl,
    message: &Message<'_>,
    web: Web<'_>,
    now: Timestamp,
) -> Result<Reply, PostProblem> {
    let exchange = async {
        // RFC 8620 §8.6: addresses are checked when the connection is made, so that a name cannot lead
        // elsewhere after it was checked.
        let connected = connect(&url.host, url.port, web, Reach::Public, now).await;
        let mut stream = connected.map_err(PostProblem::Connect)?;
        let head = head_of(url, message);
        let reply = exchange(stream.as_mut(), head.as_bytes(), message.body, now).await;
        reply.ok_or(PostProblem::NoReply)
    };
    timeout(PUSH_TIME, exchange).await.unwrap_or(Err(PostProblem::TimedOut))
}

fn head_of(url: &PushUrl, message: &Message<'_>) -> String {
    // RFC 8620 §7.2: the type is that of the message, encrypted or not.
    let mut head = format!(
        "POST {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nTTL: {}\r\nUrgency: {}\r\nAuthorization: {}\r\n",
        url.target,
        url.authority,
        message.body.len(),
        message.ttl.as_secs(),
        message.urgency.name(),
        message.authorization,
    );
    if message.is_encrypted {
        head.push_str("Content-Encoding: aes128gcm\r\n");
    }
    if let Some(topic) = message.topic {
        head.push_str(&format!("Topic: {topic}\r\n"));
    }
    head.push_str("\r\n");
    head
}

async fn exchange(stream: &mut dyn Stream, head: &[u8], body: &[u8], now: Timestamp) -> Option<Reply> {
    // Together: a server may answer before it has read the body, and close.
    stream.write_all(&[head, body].concat()).await.ok()?;
    stream.flush().await.ok()?;
    let mut input = Vec::new();
    let mut piece = [0; 1024];
    loop {
        match parse_reply(&input, now)? {
            // RFC 9110 §15.2: interim responses come before the one that counts.
            Parsed::Interim(length) => drop(input.drain(..length)),
            Parsed::Reply(reply) => return Some(reply),
            Parsed::Partial if input.len() >= PUSH_HEAD_BYTES => return None,
            Parsed::Partial => match stream.read(&mut piece).await.ok()? {
                0 => return None,
                read => input.extend_from_slice(&piece[..read]),
            },
        }
    }
}

/// What the bytes of a response are until now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parsed {
    Partial,
    /// An interim response, and its length.
    Interim(usize),
    Reply(Reply),
}

/// The head of a response; `None` if it is not HTTP.
pub(crate) fn parse_reply(input: &[u8], now: Timestamp) -> Option<Parsed> {
    let mut fields = [httparse::EMPTY_HEADER; PUSH_HEAD_FIELDS];
    let mut response = httparse::Response::new(&mut fields);
    let length = match response.parse(input).ok()? {
        httparse::Status::Partial => return Some(Parsed::Partial),
        httparse::Status::Complete(length) => length,
    };
    let status = response.code?;
    match status {
        // A switch of protocols was not asked for.
        101 => None,
        100..=199 => Some(Parsed::Interim(length)),
        200..=599 => {
            let mut named = response.headers.iter();
            let field = named.find(|field| field.name.eq_ignore_ascii_case("retry-after"));
            let retry_after = field.and_then(|field| retry_after(field.value, now));
            Some(Parsed::Reply(Reply { status, retry_after }))
        }
        _ => None,
    }
}

/// Seconds, or a date.
fn retry_after(value: &[u8], now: Timestamp) -> Option<Duration> {
    let text = std::str::from_utf8(value).ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // So many that they do not fit are for ever.
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::from(u32::MAX))));
    }
    let at = httpdate::parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
    let now = u64::try_from(now.seconds()).ok()?;
    Some(Duration::from_secs(at.as_secs().saturating_sub(now)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_795_000_000_000);

    fn reply(text: &str) -> Option<Parsed> {
        parse_reply(text.as_bytes(), NOW)
    }

    #[test]
    fn replies_say_when_to_try_again() {
        let expected = |status, seconds: Option<u64>| {
            Some(Parsed::Reply(Reply { status, retry_after: seconds.map(Duration::from_secs) }))
        };
        assert_eq!(reply("HTTP/1.1 201 Created\r\nLocation: /m/1\r\n\r\nbody"), expected(201, None));
        assert_eq!(reply("HTTP/1.0 404 x\r\n\r\n"), expected(404, None));
        for (value, seconds) in [
            ("120", Some(120)),
            (" 7 ", Some(7)),
            ("99999999999999999999999", Some(u64::from(u32::MAX))),
            ("Wed, 18 Nov 2026 11:34:20 GMT", Some(1_795_001_660 - 1_795_000_000)),
            ("Wed, 21 Oct 2015 07:28:00 GMT", Some(0)),
            ("soon", None),
            ("-1", None),
            ("", None),
        ] {
            let text = format!("HTTP/1.1 429 Too Many Requests\r\nretry-after: {value}\r\n\r\n");
            assert_eq!(reply(&text), expected(429, seconds), "{value:?}");
        }
        assert_eq!(reply("HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 201"), Some(Parsed::Interim(22)));
        assert_eq!(reply("HTTP/1.1 20"), Some(Parsed::Partial));
        for bad in ["HTTP/1.1 101 Switch\r\n\r\n", "HTTP/1.1 999 x\r\n\r\n", "SSH-2.0-x\r\n", "\u{0}\r\n\r\n"]
        {
            assert_eq!(reply(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn requests_have_the_fields_of_web_push() {
        let url = PushUrl::parse("https://push.example.org:8443/p/1?x=y").unwrap();
        let mut message = Message {
            body: b"body",
            is_encrypted: true,
            ttl: Duration::from_secs(600),
            urgency: Urgency::Normal,
            topic: Some("abc"),
            authorization: "vapid t=a, k=b",
        };
        let head = head_of(&url, &message);
        assert!(head.starts_with("POST /p/1?x=y HTTP/1.1\r\nHost: push.example.org:8443\r\n"), "{head}");
        for field in [
            "TTL: 600",
            "Urgency: normal",
            "Topic: abc",
            "Content-Length: 4",
            "Content-Type: application/json",
            "Content-Encoding: aes128gcm",
            "Authorization: vapid t=a, k=b",
        ] {
            assert!(head.contains(&format!("\r\n{field}\r\n")), "{field}: {head}");
        }
        (message.is_encrypted, message.topic) = (false, None);
        let head = head_of(&url, &message);
        assert!(!head.contains("Content-Encoding") && !head.contains("Topic"), "{head}");
        assert!(head.ends_with("\r\n\r\n"));
    }
}
