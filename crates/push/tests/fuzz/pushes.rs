//! The fuzz targets for what clients, push services and stores give.

/// Reads the URL of a subscription.
pub fn fuzz_push_url(text: &[u8]) {
    sealpost_push::fuzz::url(text);
}

/// Reads the response of a push service.
pub fn fuzz_push_reply(bytes: &[u8]) {
    sealpost_push::fuzz::reply(bytes);
}

/// Reads a note, and the file of positions.
pub fn fuzz_push_stored(bytes: &[u8]) {
    sealpost_push::fuzz::stored(bytes);
}
