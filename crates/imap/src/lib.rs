//! IMAP types, parser and serializer for server and client; no I/O.
