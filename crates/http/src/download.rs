//! Sends content as a file: its name, ranges, and conditional requests.

use std::fmt::Write;
use std::ops::Range;

use http::{HeaderMap, HeaderValue, StatusCode, header};
use sealpost_base::limits::HTTP_FILE_NAME_BYTES;

use crate::range::{Wanted, wanted};
use crate::response::Response;
use crate::response_body::ResponseBody;

/// The content to send.
#[derive(Debug, Clone)]
pub struct Download<'a> {
    /// Its full length in bytes.
    pub length: u64,
    /// Its media type; an invalid one becomes `application/octet-stream`.
    pub media_type: &'a str,
    /// Its file name.
    pub name: &'a str,
    /// A tag that is unique to this content: the id of an immutable blob. Letters, digits, `-` and `_`.
    pub tag: &'a str,
}

/// The response to a request with these header fields. `open` reads a range, which is never empty.
pub fn download(
    request: &HeaderMap,
    file: &Download<'_>,
    open: impl FnOnce(Range<u64>) -> ResponseBody,
) -> Response {
    let etag = format!("\"{}\"", file.tag);
    if is_known(request, &etag) {
        return named(Response::empty(StatusCode::NOT_MODIFIED), &etag);
    }
    let (status, range) = match wanted(request, file.length, &etag) {
        Wanted::Whole => (StatusCode::OK, 0..file.length),
        Wanted::Part(range) => (StatusCode::PARTIAL_CONTENT, range),
        Wanted::Unsatisfiable => {
            let refusal = Response::problem(StatusCode::RANGE_NOT_SATISFIABLE, "there are no such bytes");
            return refusal.with(header::CONTENT_RANGE, ascii(&format!("bytes */{}", file.length)));
        }
    };
    let length = range.end - range.start;
    let mut response = named(Response::empty(status), &etag)
        .with(header::CONTENT_TYPE, media_type(file.media_type))
        .with(header::CONTENT_DISPOSITION, disposition(file.name))
        .with(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if status == StatusCode::PARTIAL_CONTENT {
        let (first, last) = (range.start, range.end - 1);
        let field = ascii(&format!("bytes {first}-{last}/{}", file.length));
        response.headers.insert(header::CONTENT_RANGE, field);
    }
    if length > 0 {
        response.body = ResponseBody { length: Some(length), ..open(range) };
    }
    response
}

fn named(response: Response, etag: &str) -> Response {
    // The content never changes (RFC 8246), and shared caches must not store it.
    let cached = HeaderValue::from_static("private, immutable, max-age=31536000");
    response.with(header::ETAG, ascii(etag)).with(header::CACHE_CONTROL, cached)
}

/// `If-None-Match`: RFC 9110 §13.1.2, weak comparison.
fn is_known(request: &HeaderMap, etag: &str) -> bool {
    request.get_all(header::IF_NONE_MATCH).iter().any(|field| {
        let tags = field.to_str().unwrap_or_default().split(',').map(str::trim);
        tags.map(|tag| tag.strip_prefix("W/").unwrap_or(tag)).any(|tag| tag == "*" || tag == etag)
    })
}

/// A media type with parameters, if it is syntactically valid (RFC 9110 §8.3.1).
fn media_type(text: &str) -> HeaderValue {
    let is_token = |text: &str| {
        let is_in_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        !text.is_empty() && text.bytes().all(is_in_token)
    };
    let essence = text.split(';').next().unwrap_or_default().trim();
    let is_type = essence.split_once('/').is_some_and(|(a, b)| is_token(a) && is_token(b));
    let given = HeaderValue::try_from(text).ok().filter(|_| is_type && text.is_ascii());
    given.unwrap_or_else(|| HeaderValue::from_static("application/octet-stream"))
}

/// RFC 6266: always an attachment, so that browsers never render it as a page of this server.
fn disposition(name: &str) -> HeaderValue {
    let end = name.floor_char_boundary(HTTP_FILE_NAME_BYTES);
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || " !#$&'()+,-.;=@[]^_`{}~".contains(*c);
    let plain: String = name[..end].chars().map(|c| if is_plain(&c) { c } else { '_' }).collect();
    let mut field = format!("attachment; filename=\"{plain}\"");
    if plain != name[..end] {
        // RFC 8187 §3.2.1.
        field.push_str("; filename*=UTF-8''");
        for byte in name[..end].bytes() {
            match byte {
                byte if byte.is_ascii_alphanumeric() || b"!#$&+-.^_`|~".contains(&byte) => {
                    field.push(char::from(byte));
                }
                byte => {
                    let _ = write!(field, "%{byte:02X}");
                }
            }
        }
    }
    ascii(&field)
}

fn ascii(text: &str) -> HeaderValue {
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;
    use crate::response_body::Source;

    fn get(fields: &[(HeaderName, &str)]) -> Response {
        let mut request = HeaderMap::new();
        for (name, value) in fields {
            request.append(name.clone(), value.parse().unwrap());
        }
        let file = Download { length: 10, media_type: "text/plain; charset=utf-8", name: "a.txt", tag: "B1" };
        download(&request, &file, |range| {
            let (start, end) = (usize::try_from(range.start).unwrap(), usize::try_from(range.end).unwrap());
            ResponseBody::bytes(&b"0123456789"[start..end])
        })
    }

    fn told(response: &Response) -> (u16, &str, &[u8]) {
        let range = response.headers.get(header::CONTENT_RANGE).map_or("", |field| field.to_str().unwrap());
        let Source::Bytes(bytes) = &response.body.source else { panic!("bytes") };
        (response.status.as_u16(), range, bytes)
    }

    #[test]
    fn ranges_are_sent() {
        let whole = get(&[]);
        assert_eq!(told(&whole), (200, "", &b"0123456789"[..]));
        assert_eq!(whole.headers[header::CONTENT_TYPE], "text/plain; charset=utf-8");
        let part = get(&[(header::RANGE, "bytes=2-4")]);
        assert_eq!(told(&part), (206, "bytes 2-4/10", &b"234"[..]));
        let beyond = get(&[(header::RANGE, "bytes=10-")]);
        assert_eq!((told(&beyond).0, told(&beyond).1), (416, "bytes */10"));
        for tag in ["\"B1\"", "W/\"B1\"", "\"x\", \"B1\"", "*"] {
            assert_eq!(told(&get(&[(header::IF_NONE_MATCH, tag)])), (304, "", &b""[..]), "{tag}");
        }
        assert_eq!(told(&get(&[(header::IF_NONE_MATCH, "\"B2\"")])).0, 200);
    }

    #[test]
    fn names_and_types_cannot_leave_their_fields() {
        for (name, field) in [
            ("a b.txt", "attachment; filename=\"a b.txt\""),
            ("grün.txt", "attachment; filename=\"gr_n.txt\"; filename*=UTF-8''gr%C3%BCn.txt"),
            ("a\"\r\nX: y", "attachment; filename=\"a___X_ y\"; filename*=UTF-8''a%22%0D%0AX%3A%20y"),
            ("../x\\y%", "attachment; filename=\".._x_y_\"; filename*=UTF-8''..%2Fx%5Cy%25"),
        ] {
            assert_eq!(disposition(name), field);
        }
        assert!(disposition(&"ü".repeat(10_000)).len() < 2000);
        for (given, sent) in [
            ("image/png", "image/png"),
            ("text/html; charset=\"x\"", "text/html; charset=\"x\""),
            ("", "application/octet-stream"),
            ("a/b/c", "application/octet-stream"),
            ("a/b\r\nX: y", "application/octet-stream"),
            ("text/ü", "application/octet-stream"),
        ] {
            assert_eq!(media_type(given), sent, "{given:?}");
        }
    }
}
