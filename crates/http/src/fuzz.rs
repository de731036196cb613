//! Entry points for fuzzing: they take any bytes, and panic if an invariant is broken.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, header};
use sealpost_base::limits::{HTTP_EVENT_BYTES, HTTP_FILE_NAME_BYTES, HTTP_SMALL_MESSAGE_BYTES};
use sealpost_session::settings::Origin;

use crate::download::{Download, download};
use crate::event_stream::Event;
use crate::range::{Wanted, wanted};
use crate::response_body::ResponseBody;
use crate::router::decoded;
use crate::websocket::frames::{Decoded, Decoder};
use crate::{Authorization, Sender, cookie, form_pairs, forwarded};

/// Parses a request field, or writes a response field; the first byte selects which.
///
/// # Panics
/// If credentials contain forbidden characters, a range is empty or past the end, a response field exceeds
/// its limits, or an origin does not survive a round trip.
pub fn fuzz_http_fields(data: &[u8]) {
    let Some((which, data)) = data.split_first() else { return };
    match which % 8 {
        0 => fuzz_authorization(data),
        1 => fuzz_forwarded(data),
        2 => fuzz_range(data),
        3 => fuzz_names(&String::from_utf8_lossy(data)),
        4 => fuzz_event(&String::from_utf8_lossy(data)),
        5 => fuzz_origin(&String::from_utf8_lossy(data)),
        6 => fuzz_cookie(data),
        _ => fuzz_form(&String::from_utf8_lossy(data)),
    }
}

/// Decodes WebSocket frames in pieces; the first byte is the size of the pieces.
///
/// # Panics
/// If a message exceeds its limit, is not UTF-8, used memory that it did not request, or depends on how the
/// bytes were divided.
pub fn fuzz_websocket_frames(data: &[u8]) {
    const MOST: usize = 64 * 1024;
    let Some((piece, data)) = data.split_first() else { return };
    let decode = |piece: usize| {
        let (mut decoder, mut all) = (Decoder::new(MOST), Vec::new());
        for mut input in data.chunks(piece) {
            loop {
                match decoder.decode(&mut input) {
                    Ok(None) => break,
                    Ok(Some(Decoded::Large(bytes))) => {
                        assert!((HTTP_SMALL_MESSAGE_BYTES..=MOST).contains(&bytes));
                        decoder.reserve(bytes);
                    }
                    Ok(Some(Decoded::Text(text))) => {
                        assert!(text.len() <= MOST && std::str::from_utf8(&text).is_ok());
                        all.push(Ok(Decoded::Text(text)));
                    }
                    Ok(Some(Decoded::Ping(payload))) => {
                        assert!(payload.len() <= 125);
                        all.push(Ok(Decoded::Ping(payload)));
                    }
                    Ok(Some(Decoded::Close)) => all.push(Ok(Decoded::Close)),
                    Err(code) => {
                        all.push(Err(code));
                        return all;
                    }
                }
            }
            assert!(input.is_empty());
        }
        all
    };
    assert!(decode(usize::from(*piece).max(1)) == decode(usize::MAX));
}

fn fuzz_authorization(data: &[u8]) {
    match Authorization::parse(data) {
        Ok(Authorization::Basic { user, password }) => {
            assert!(!user.contains(':') && !user.chars().chain(password.chars()).any(char::is_control));
        }
        Ok(Authorization::Bearer(token)) => {
            assert!(!token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic()));
        }
        Err(_) => {}
    }
}

fn fields(names: &[HeaderName], data: &[u8]) -> HeaderMap {
    let lines = data.split(|byte| *byte == b'\n').zip(names.iter().cycle());
    let mut headers = HeaderMap::new();
    for (value, name) in lines.take(100) {
        if let Ok(value) = HeaderValue::from_bytes(value) {
            headers.append(name, value);
        }
    }
    headers
}

fn fuzz_forwarded(data: &[u8]) {
    let (xff, xfp) = ("x-forwarded-for", "x-forwarded-proto");
    let usual = [HeaderName::from_static(xff), HeaderName::from_static(xfp)];
    for headers in [fields(&[header::FORWARDED], data), fields(&usual, data)] {
        // If every proxy is trusted, the client is the first address.
        let (all, none) = (forwarded::client(&headers, |_| true), forwarded::client(&headers, |_| false));
        assert!(all.is_ok() == none.is_ok());
        assert!(all.is_err() || all.unwrap_or(None).is_some() == none.unwrap_or(None).is_some());
    }
}

fn fuzz_range(data: &[u8]) {
    let headers = fields(&[header::RANGE, header::IF_RANGE], data);
    for length in [0, 1, 1000, u64::MAX] {
        match wanted(&headers, length, "\"t\"") {
            Wanted::Part(range) => assert!(range.start < range.end && range.end <= length),
            Wanted::Unsatisfiable => assert!(length < u64::MAX),
            Wanted::Whole => {}
        }
    }
}

fn fuzz_names(text: &str) {
    assert!(decoded(text, true).is_none_or(|decoded| decoded.len() <= text.len()));
    let file = Download { length: 1, media_type: text, name: text, tag: "t" };
    let response = download(&HeaderMap::new(), &file, |_| ResponseBody::bytes("x"));
    let field = |name| response.headers.get(name).map_or(0, HeaderValue::len);
    let named = field(header::CONTENT_DISPOSITION);
    assert!(named > 0 && named < 100 + 4 * HTTP_FILE_NAME_BYTES, "{named} bytes");
    assert!(field(header::CONTENT_TYPE) > 0);
}

fn fuzz_event(text: &str) {
    let Ok(event) = Event::new("state", Some("1"), text) else { return };
    let bytes = event.as_bytes();
    assert!(bytes.len() <= HTTP_EVENT_BYTES && bytes.ends_with(b"\n\n"));
    // One event, whose data lines contain no other fields.
    let lines = bytes[..bytes.len() - 2].split(|byte| *byte == b'\n').skip(2);
    assert!(lines.into_iter().all(|line| line.starts_with(b"data: ") && !line.contains(&b'\r')));
}

fn fuzz_cookie(data: &[u8]) {
    for is_tls in [false, true] {
        let headers = fields(&[header::COOKIE], data);
        let Some(value) = cookie::value(&headers, is_tls) else { continue };
        assert!(!value.is_empty() && value.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_'));
        // What is read can be set again, as one attribute.
        let field = cookie::set(&value, Duration::from_secs(1), is_tls);
        let text = field.to_str().unwrap_or_default();
        assert!(text.split("; ").next().is_some_and(|first| first.ends_with(value.as_str())));
    }
    let sender =
        Sender::of(&fields(&[header::ORIGIN, HeaderName::from_static("sec-fetch-site")], data), "https://a");
    assert!(!(sender.is_foreign() && sender.is_own_page()));
}

fn fuzz_form(text: &str) {
    let Some(pairs) = form_pairs(text) else { return };
    let bytes: usize = pairs.iter().map(|(name, value)| name.len() + value.len()).sum();
    assert!(bytes <= text.len());
}

fn fuzz_origin(text: &str) {
    if let Ok(origin) = text.parse::<Origin>() {
        assert!(origin.as_str().parse() == Ok(origin.clone()), "{origin}");
    }
}
