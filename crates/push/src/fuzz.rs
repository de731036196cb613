//! What fuzz targets and the replays of their findings call: what reads bytes of push services, of
//! clients, and of the data directory.

use sealpost_base::Timestamp;

use crate::notes::{decode_note, parse_path};
use crate::post::{Parsed, parse_reply};
use crate::url::PushUrl;

/// Reads the URL of a subscription. One that is read is on the internet, and is written without
/// characters that would end a header field.
pub fn url(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    if let Ok(url) = PushUrl::parse(text) {
        assert!(text.starts_with("https://"));
        assert!(url.target.starts_with('/') && url.target.bytes().all(|byte| byte.is_ascii_graphic()));
        assert!(url.authority.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/' && byte != b'@'));
        let again = PushUrl::parse(&format!("{}{}", url.origin(), url.target));
        assert_eq!(again, Ok(url));
    }
}

/// Reads the response of a push service, however it is divided.
pub fn reply(bytes: &[u8]) {
    let now = Timestamp(1_795_000_000_000);
    if let Some(Parsed::Reply(whole)) = parse_reply(bytes, now) {
        assert!((200..600).contains(&whole.status));
    }
    for end in 0..bytes.len().min(64) {
        parse_reply(&bytes[..end], now);
    }
}

/// Reads a note, its path, and the file of positions.
pub fn stored(bytes: &[u8]) {
    if let Ok(note) = decode_note(bytes) {
        let again = minicbor::to_vec(&note).unwrap_or_default();
        assert!(decode_note(&again).is_ok_and(|again| again == note));
    }
    let text = String::from_utf8_lossy(bytes);
    parse_path(&text);
    crate::positions::parse(&text);
}
