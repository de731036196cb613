//! Commands (RFC 3501 §6), for the client.
