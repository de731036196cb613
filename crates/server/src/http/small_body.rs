//! Bodies of clients that have not logged in yet: small, and of a known media type.

use sealpost_http::{BodyError, HeaderMap, HeaderValue, RequestBody, header};
use zeroize::Zeroizing;

/// The media type of a body, without its parameters, in small letters.
pub(super) fn media_type(headers: &HeaderMap) -> String {
    let field = headers.get(header::CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    let media_type = field.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    String::from_utf8_lossy(media_type).to_ascii_lowercase()
}

/// A small body. It is read in pieces, which the memory of its request covers, because the client
/// has no credentials yet: the share for held bodies is for those who have.
pub(super) async fn small_body(mut body: RequestBody) -> Result<Zeroizing<Vec<u8>>, BodyError> {
    // As many as the route allows, so that it never grows and leaves no copy behind.
    let most = body.length().unwrap_or(body.limit()).min(body.limit());
    let mut bytes = Zeroizing::new(Vec::with_capacity(usize::try_from(most).unwrap_or(0)));
    while let Some(piece) = body.next().await? {
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}
