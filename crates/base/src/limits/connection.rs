//! Limits on connections of any protocol, and what each is charged.

/// Bytes of a PROXY protocol header after its fixed part, addresses included (version 2; the
/// longest addresses are 216).
pub const PROXY_HEADER_BYTES: usize = 2048;
/// Bytes charged for a connection: its session, and input and output without a permit of their own.
pub const CONNECTION_BYTES: usize = 16 * 1024;
/// Additional bytes charged for a connection with TLS.
pub const TLS_BYTES: usize = 24 * 1024;
/// Bytes charged for an IMAP connection that was greeted and whose client has sent nothing: it has no session.
/// Also for a connection before the first byte of its TLS handshake.
pub const SILENT_BYTES: usize = 4 * 1024;
/// Bytes charged for an IMAP session that waits for its client, with no other memory, no input and no pending
/// output.
pub const RESTING_BYTES: usize = 10 * 1024;
/// Additional bytes charged for such a session with TLS: the keys, and the read buffer of rustls.
pub const RESTING_TLS_BYTES: usize = 9 * 1024;
/// Bytes that a TLS handshake in progress may take.
pub const TLS_HANDSHAKE_BYTES: usize = 32 * 1024;
/// Bytes that a client may send in a TLS handshake. The server requests no certificate, so a client sends
/// little more than its hello.
pub const TLS_HANDSHAKE_INPUT_BYTES: usize = 16 * 1024;
