//! The fuzz targets for ids and messages from outside.

/// Reads a blob id.
pub fn fuzz_blob_id(id: &[u8]) {
    sealpost_jmap_session::fuzz::blob_id(id);
}

/// Shows a message as an email.
pub fn fuzz_email(message: &[u8]) {
    sealpost_jmap_session::fuzz::email(message);
}

/// A header that envelopes and notifications are made of.
pub fn fuzz_sending(data: &[u8]) {
    sealpost_jmap_session::fuzz::sending(data);
}
