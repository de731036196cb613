//! Compresses responses (gzip, RFC 1952; RFC 9110 §8.4.1.3).
//!
//! A compressor acquires memory without waiting: if it is not free, the response goes as it is.
//! Browsers add no credentials to a request by themselves but the cookie of a web login, and that
//! counts only if a page of this server asks ([`crate::Sender`]). So no page of another site can make
//! a user's browser ask for secrets beside text of the page's choice and compare lengths (BREACH).

use std::io::{self, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::stream::{BoxStream, Stream, StreamExt};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use sealpost_base::limits::{HTTP_COMPRESSED_BYTES, HTTP_COMPRESSOR_BYTES, HTTP_PIECE_BYTES};
use sealpost_base::{Budget, Permit};

use crate::response::Response;
use crate::response_body::ResponseBody;

/// The compressor flushes its output at this size, in bytes.
const OUTPUT_BYTES: usize = HTTP_PIECE_BYTES / 2;

/// Compresses the response, if it is worth it and the client accepts gzip.
pub(crate) fn compress(response: &mut Response, request: &HeaderMap, budget: &Budget) {
    if !is_worth_it(response) {
        return;
    }
    response.headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    if !accepts_gzip(request) {
        return;
    }
    let Some(permit) = budget.try_acquire_large(HTTP_COMPRESSOR_BYTES) else { return };
    let body = std::mem::replace(&mut response.body, ResponseBody::empty());
    let pieces = body.into_pieces();
    let encoder = Some(GzEncoder::new(Vec::new(), Compression::fast()));
    response.body =
        ResponseBody::stream(Compressed { pieces, input: Bytes::new(), encoder, _permit: permit }, None);
    response.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    response.headers.remove(header::CONTENT_LENGTH);
    // The compressed body is another representation (RFC 9110 §8.8.3.3).
    response.headers.remove(header::ETAG);
}

fn is_worth_it(response: &Response) -> bool {
    let headers = &response.headers;
    let media_type = headers.get(header::CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    let media_type = media_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let is_text = media_type.starts_with(b"text/") || media_type.ends_with(b"json");
    is_text
        && !response.body.is_lasting
        && response.body.length.is_none_or(|length| length >= HTTP_COMPRESSED_BYTES)
        && response.status != StatusCode::PARTIAL_CONTENT
        && !headers.contains_key(header::CONTENT_ENCODING)
        // Ranges refer to the uncompressed bytes.
        && !headers.contains_key(header::ACCEPT_RANGES)
}

/// RFC 9110 §12.5.3: `gzip` or `x-gzip` if the field names it, else `*`; a weight of zero refuses it.
fn accepts_gzip(request: &HeaderMap) -> bool {
    let (mut named, mut any) = (None, None);
    for field in request.get_all(header::ACCEPT_ENCODING) {
        for item in field.to_str().unwrap_or_default().split(',') {
            let (coding, parameters) = item.split_once(';').unwrap_or((item, ""));
            let weight = parameters.trim().strip_prefix("q=").map_or("1", str::trim);
            let accepted = weight.bytes().any(|byte| matches!(byte, b'1'..=b'9'));
            match coding.trim() {
                coding if coding.eq_ignore_ascii_case("gzip") || coding.eq_ignore_ascii_case("x-gzip") => {
                    named = Some(accepted);
                }
                "*" => any = Some(accepted),
                _ => {}
            }
        }
    }
    named.or(any).unwrap_or(false)
}

struct Compressed {
    pieces: BoxStream<'static, io::Result<Bytes>>,
    /// The rest of the last piece.
    input: Bytes,
    encoder: Option<GzEncoder<Vec<u8>>>,
    _permit: Permit,
}

impl Stream for Compressed {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            let Some(encoder) = &mut this.encoder else { return Poll::Ready(None) };
            if encoder.get_ref().len() >= OUTPUT_BYTES {
                return Poll::Ready(Some(Ok(std::mem::take(encoder.get_mut()).into())));
            }
            if this.input.is_empty() {
                match ready!(this.pieces.poll_next_unpin(cx)) {
                    Some(Ok(piece)) => this.input = piece,
                    Some(Err(error)) => {
                        this.encoder = None;
                        return Poll::Ready(Some(Err(error)));
                    }
                    None => {
                        let rest = this.encoder.take().map_or(Ok(Vec::new()), GzEncoder::finish);
                        return Poll::Ready(Some(rest.map(Bytes::from)));
                    }
                }
            }
            // Small steps bound both the output and the time of one poll.
            let next = this.input.split_to(this.input.len().min(OUTPUT_BYTES));
            encoder.write_all(&next)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn request(field: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::try_from(field).unwrap())])
    }

    #[test]
    fn accept_encoding_decides_on_gzip() {
        for (field, accepts) in [
            ("gzip", true),
            ("deflate, GZIP;q=0.5", true),
            ("x-gzip", true),
            ("gzip;q=0", false),
            ("gzip; q=0.0, *", false),
            ("*", true),
            ("*;q=0", false),
            ("gzip;q=0.001", true),
            ("br", false),
            ("", false),
            ("identity", false),
        ] {
            assert_eq!(accepts_gzip(&request(field)), accepts, "{field}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }

    async fn sent(response: Response, budget: &Budget) -> (Response, Vec<u8>) {
        let mut response = response;
        compress(&mut response, &request("gzip"), budget);
        let body = std::mem::replace(&mut response.body, ResponseBody::empty());
        let mut all = Vec::new();
        let is_whole = body.length.is_some();
        let mut pieces = body.into_pieces();
        while let Some(piece) = pieces.next().await {
            let piece = piece.unwrap();
            assert!(is_whole || piece.len() <= 2 * HTTP_PIECE_BYTES);
            all.extend_from_slice(&piece);
        }
        (response, all)
    }

    #[tokio::test]
    async fn compressed_bodies_decode_and_acquire_memory() {
        let budget = Budget::new(HTTP_COMPRESSOR_BYTES + 1);
        // Incompressible, so that the output is as large as the input.
        let text: String = (0..100_000u32).map(|n| format!("{:x}", n.wrapping_mul(2_654_435_761))).collect();
        let (response, bytes) = sent(Response::json(text.clone()), &budget).await;
        assert_eq!(response.headers[header::CONTENT_ENCODING], "gzip");
        let mut unpacked = String::new();
        flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut unpacked).unwrap();
        assert!(unpacked == text && bytes.len() < text.len());
        assert_eq!(budget.in_use(), 0);

        let _held = budget.try_acquire_large(2).unwrap();
        let (response, bytes) = sent(Response::json(text.clone()), &budget).await;
        assert!(bytes == text.as_bytes() && !response.headers.contains_key(header::CONTENT_ENCODING));
        assert_eq!(response.headers[header::VARY], "Accept-Encoding");
    }

    #[tokio::test]
    async fn small_or_binary_bodies_are_not_compressed() {
        let budget = Budget::new(usize::MAX >> 1);
        let large = "x".repeat(5000);
        let image = Response::new(StatusCode::OK, "image/png", ResponseBody::bytes(large.clone()));
        let ranged =
            Response::json(large.clone()).with(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        for response in [Response::json("x".repeat(1023)), image, ranged] {
            let (response, _) = sent(response, &budget).await;
            assert!(!response.headers.contains_key(header::CONTENT_ENCODING));
        }
        let (response, _) = sent(Response::json("x".repeat(1024)), &budget).await;
        assert!(response.headers.contains_key(header::CONTENT_ENCODING));
    }
}
