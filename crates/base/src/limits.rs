//! Every limit that keeps an outsider from growing something, by name, with its unit.
//!
//! Each has a test that goes past it, next to the code that enforces it.

use std::time::Duration;

/// Plaintext bytes in one sealed chunk of a message object.
pub const CHUNK_BYTES: usize = 64 * 1024;
/// The newest rows of the local store, which a server looks up in the indexes when it starts: new
/// rows come after them.
pub const NEWEST_ROWS: usize = 10_000;
/// How long a server checks the indexes of the local store while it starts; the rest is left to
/// `sealpost check`.
pub const DATABASE_START_TIME: Duration = Duration::from_secs(10);
/// How long `sealpost check` checks the database of the local store; then it reports that and
/// continues.
pub const DATABASE_CHECK_TIME: Duration = Duration::from_secs(6 * 3600);
/// Lines of a report on a damaged database.
pub const DATABASE_FINDINGS: usize = 100;
/// Lost objects that a repair of the local store names; all are counted.
pub const REPAIR_NAMED: usize = 10_000;
/// Bytes of a local store's disk that are kept for expunging and removing, the default of the
/// setting `store.reserve`: twice what the write-ahead log grows to, so that it can be copied into
/// the database first.
pub const STORE_RESERVE_BYTES: u64 = 32 * 1024 * 1024;
/// Objects up to this many sealed bytes live in the local backend's database; larger ones are files.
pub const INLINE_OBJECT_BYTES: usize = 64 * 1024;
/// Bytes of blocks queued for the cache of a remote store; a read beyond them waits for the disk a
/// moment, or is not cached.
pub const STORE_CACHE_QUEUE_BYTES: usize = 3 * 1024 * 1024;
/// Requests to a remote store that one process has under way, the default of the setting
/// `store.requests`; one more waits.
pub const STORE_REQUESTS: usize = 32;
/// Bytes that are read at once from a connection to a remote store, and kept by it between requests.
pub const STORE_READ_BYTES: usize = 64 * 1024;
/// Bytes of an answer of a remote store to a request without a range: more than a log entry, or a
/// page of a listing, takes.
pub const STORE_ANSWER_BYTES: usize = 32 * 1024 * 1024;
/// Bytes of its answer to a request that it refuses.
pub const STORE_REFUSAL_BYTES: usize = 64 * 1024;

/// Nesting of MIME parts below the message; deeper parts become opaque leaves.
pub const MIME_DEPTH: usize = 32;
/// Messages in base64 or quoted-printable within each other; the next one is an opaque leaf.
pub const MIME_ENCODED_DEPTH: usize = 3;
/// MIME parts of one message; what follows stays inside the last part that was opened.
pub const MIME_PARTS: usize = 1000;
/// Bytes that one of them takes beside its values, while the message is scanned.
pub const MIME_PART_BYTES: usize = 1024;
/// Bytes of one header field (folded lines included) that are parsed; the rest is kept.
pub const HEADER_FIELD_BYTES: usize = 64 * 1024;
/// Bytes of parsed header values kept in one message's structure, all parts together.
pub const STRUCTURE_BYTES: usize = 512 * 1024;
/// Addresses of one header field that are kept in the envelope.
pub const ENVELOPE_ADDRESSES: usize = 1000;
/// Parameters of one MIME field that are kept.
pub const MIME_PARAMETERS: usize = 100;
/// Bytes of folded, searchable text stored with one message; a search beyond it reads the message.
pub const TEXT_BYTES: usize = 256 * 1024;
/// Bytes of the target of one link in HTML that are searched.
pub const LINK_BYTES: usize = 2048;
/// Characters of a preview (RFC 8970 §3.1).
pub const PREVIEW_CHARS: usize = 200;

/// Bytes of one message, the default of the setting `message_size`.
pub const MESSAGE_BYTES: u64 = 2 * 1024 * 1024 * 1024;
/// Recipients of one SMTP or LMTP transaction (RFC 5321 §4.5.3.1.8 asks for at least 100).
pub const SMTP_RECIPIENTS: usize = 1000;
/// Memory that the recipients of one transaction take without acquiring it, in bytes: some ten of
/// them. It is covered by the charge of a connection ([`CONNECTION_BYTES`]).
pub const SMTP_ENVELOPE_FREE_BYTES: usize = 4 * 1024;
/// Bytes that they acquire at once for more.
pub const SMTP_ENVELOPE_STEP_BYTES: usize = 16 * 1024;
/// Accounts that the recipients of one SMTP or LMTP transaction may lead to through aliases.
pub const SMTP_ACCOUNTS: usize = 10_000;
/// Bytes of a message that a session holds before it acquires memory for it.
pub const SMTP_HEAD_BYTES: usize = 8 * 1024;
/// Bytes of a message to several recipients that are held in memory (acquired from the budget); a
/// larger one is spooled.
pub const SMTP_MEMORY_BYTES: usize = 256 * 1024;
/// Bytes of one SMTP command line, CRLF included (RFC 5321 §4.5.3.1.4 asks for 512; extensions add to it).
pub const SMTP_COMMAND_BYTES: usize = 4096;
/// Bytes of a line that answers a challenge of AUTH, CRLF included (RFC 4954 §4: 12,288).
pub const SMTP_AUTH_LINE_BYTES: usize = 12_288;
/// Bytes of the header of a submitted message: it is held as a whole, to be completed and signed.
pub const SUBMISSION_HEADER_BYTES: usize = 256 * 1024;
/// Bytes of such a header that a submission holds without drawing more than for any message.
pub const SUBMISSION_SMALL_HEADER_BYTES: usize = 32 * 1024;
/// URLs of one submitted message (BURL, RFC 4468): each is resolved by itself.
pub const SUBMISSION_URLS: usize = 100;
/// Bytes drawn for a submitted message that has more than [`SMTP_HEAD_BYTES`]: its header as it came
/// and as it is completed, the body up to [`QUEUE_INLINE_BYTES`], and a piece under way.
pub const SUBMISSION_MEMORY_BYTES: usize = 2 * SUBMISSION_SMALL_HEADER_BYTES + QUEUE_INLINE_BYTES + 32 * 1024;
/// Bytes of a Message-ID that the queue keeps, to find the mail by; RFC 5322 §2.1.1: lines have no more.
pub const MESSAGE_ID_BYTES: usize = 998;
/// Addresses and domains that an account may send as besides its own.
pub const ALLOWED_SENDERS: usize = 100;
/// Bytes of one address in MAIL or RCPT (RFC 5321 §4.5.3.1.3 asks for 256): it has to fit into a header line.
pub const SMTP_PATH_BYTES: usize = 512;
/// Bytes that are dropped while looking for the end of a bad SMTP command line before the session is closed.
pub const SMTP_DISCARD_BYTES: usize = 1024 * 1024;
/// Errors of one SMTP session before it is closed.
pub const SMTP_ERRORS: usize = 20;
/// Received fields in a message; one more is a loop (RFC 5321 §6.3).
pub const RECEIVED_FIELDS: usize = 100;

/// Mail keys in a key file, earlier ones included.
pub const MAIL_KEYS: usize = 64;
/// Bytes of something small that is sealed under the mail key by itself.
pub const MAIL_NOTE_BYTES: usize = 1024 * 1024;

/// Bytes of a message, its trace header included, that a queue's log holds itself; a larger one is
/// an object of its own.
pub const QUEUE_INLINE_BYTES: usize = 64 * 1024;
/// Addresses of other servers that the recipients of one SMTP or LMTP transaction may lead to; one
/// alias leads to fewer ([`ALIAS_LOOKUPS`]).
pub const SMTP_FORWARDS: usize = 500;
/// Bytes drawn for a message that is forwarded, while it passes into the queue.
pub const FORWARDING_MEMORY_BYTES: usize = QUEUE_INLINE_BYTES + 32 * 1024;
/// Aliases whose forwarded recipients are counted in an hour; further aliases wait for the next.
pub const FORWARDING_ALIASES: usize = 16_384;
/// Bytes of a reverse-path of forwarded mail (RFC 5321 §4.5.3.1.3, without its brackets); a sender
/// that would become longer is not rewritten.
pub const SRS_ADDRESS_BYTES: usize = 254;
/// Bytes of one entry of a queue's log; further pending events go into the next one.
pub const QUEUE_ENTRY_BYTES: usize = 1024 * 1024;
/// Events in one entry of a queue's log.
pub const QUEUE_ENTRY_EVENTS: usize = 2048;
/// Recipients of one queued mail.
pub const QUEUE_RECIPIENTS: usize = SMTP_ACCOUNTS;
/// Bytes of one queued mail in the log, envelope included: less than an entry may have ([`ENTRY_BYTES`]).
pub const QUEUE_ENVELOPE_BYTES: usize = 4 * 1024 * 1024;
/// Bytes of a server's reply that are kept with a recipient.
pub const QUEUE_REPLY_BYTES: usize = 512;
/// Bytes of the reason that a queue shows for a mail that waits.
pub const QUEUE_REASON_BYTES: usize = 160;
/// Standing rules of an operator in one queue.
pub const QUEUE_RULES: usize = 1000;
/// Bytes of a note that an operator adds to a rule.
pub const QUEUE_NOTE_BYTES: usize = 200;
/// Mails that a queue has in memory, ready to be sent.
pub const QUEUE_WINDOW: usize = 20_000;
/// Recipients of all these mails together.
pub const QUEUE_WINDOW_RECIPIENTS: usize = 200_000;
/// Mails of one account that enter that window although it is full.
pub const QUEUE_WINDOW_ACCOUNT: usize = 100;
/// Mails by which such accounts may exceed it.
pub const QUEUE_WINDOW_RESERVE: usize = 5_000;
/// Accounts whose recipients of the last day one queue counts; beyond that it forgets those that
/// sent least, whose limits then count anew.
pub const QUEUE_SENDERS: usize = 16_384;
/// Handled requests that a queue remembers, so that none is handled twice.
pub const QUEUE_REQUESTS: usize = 1024;
/// How long it is known what became of a queued mail.
pub const QUEUE_HISTORY_AGE: Duration = Duration::from_secs(30 * 86_400);
/// Bytes of what is known of it in one queue; the oldest goes first. A mail takes some 400.
pub const QUEUE_HISTORY_BYTES: u64 = 64 * 1024 * 1024;
/// Bytes of one request to a queue.
pub const QUEUE_REQUEST_BYTES: usize = 64 * 1024;

/// Bytes of a PROXY protocol header after its fixed part, addresses included (version 2; the
/// longest addresses are 216).
pub const PROXY_HEADER_BYTES: usize = 2048;

/// Bytes that a connection is charged for its session, and for input and output as far as no memory
/// was acquired for them.
pub const CONNECTION_BYTES: usize = 16 * 1024;
/// Bytes that it is charged in addition while it speaks TLS.
pub const TLS_BYTES: usize = 24 * 1024;
/// Bytes that a session of IMAP is charged while it waits for its client and holds nothing else,
/// and nothing was received or waits to be sent.
pub const RESTING_BYTES: usize = 10 * 1024;
/// Bytes that it is charged in addition then if it speaks TLS: the keys, and the read buffer of
/// rustls.
pub const RESTING_TLS_BYTES: usize = 9 * 1024;
/// Bytes that a TLS handshake may take while it is under way.
pub const TLS_HANDSHAKE_BYTES: usize = 32 * 1024;
/// Bytes that a client may send in a TLS handshake: no certificate is asked for, so it says hello
/// and little more.
pub const TLS_HANDSHAKE_INPUT_BYTES: usize = 16 * 1024;

/// How long a login may wait for its password check; then it has to come again.
pub const LOGIN_QUEUE_TIMEOUT: Duration = Duration::from_secs(30);
/// Accounts for which the addresses of past logins are kept: their next attempt from there is
/// checked first.
pub const KNOWN_ACCOUNTS: usize = 4096;
/// Such addresses of one account.
pub const KNOWN_ADDRESSES: usize = 16;

/// How far the clock may be past the newest time that is known before nothing is removed for good any more.
pub const CLOCK_AHEAD: Duration = Duration::from_secs(30 * 86_400);
/// How often the time is noted while a server runs.
pub const CLOCK_NOTED: Duration = Duration::from_secs(60 * 60);
/// Logs, and likewise records, of which a node keeps the last position or version seen.
pub const WATERMARKS: usize = 32_768;
/// Records that are read when a node starts, to check that its server key authenticates them.
pub const SERVER_KEY_RECORDS: usize = 1024;
/// Server keys in a key file, older ones included.
pub const SERVER_KEYS: usize = 64;

/// Different errors that one place in the program logs within an hour; more are counted.
pub const LOGGED_ERRORS: usize = 1000;
/// Warnings that one place in the program logs within an hour; more are counted. Failed logins have
/// bounds of their own.
pub const LOGGED_WARNINGS: usize = 1000;
/// Bytes of lines of the log that wait for standard error; a line beyond them is lost and counted.
pub const LOG_QUEUE_BYTES: usize = 1024 * 1024;

/// Bytes of the head of an HTTP request for metrics.
pub const HTTP_HEAD_BYTES: usize = 8 * 1024;
/// Header fields in it.
pub const HTTP_HEADERS: usize = 64;
/// Bytes of the head of any other HTTP request; in HTTP/2 as RFC 9113 §6.5.2 counts them.
pub const HTTP_REQUEST_HEAD_BYTES: usize = 16 * 1024;
/// Header fields in it (HTTP/1.1; in HTTP/2 each counts for 32 bytes at least).
pub const HTTP_REQUEST_HEADERS: usize = 100;
/// Bytes of a response that are handed over to the connection at once.
pub const HTTP_PIECE_BYTES: usize = 16 * 1024;
/// Bytes that a request acquires before it is answered: its head, and three pieces of its response: one that is made, one that waits, one that is sent.
pub const HTTP_REQUEST_BYTES: usize = HTTP_REQUEST_HEAD_BYTES + 3 * HTTP_PIECE_BYTES;
/// The requests of all clients together hold so much of the memory budget: what is common of it,
/// divided by this; their bodies that are held, as much again. Handlers acquire from the rest.
pub const HTTP_BUDGET_SHARE: usize = 4;
/// Requests at once of one HTTP/2 connection.
pub const HTTP_STREAMS: u32 = 32;
/// Bytes of request bodies that an HTTP/2 connection receives before they are read: the least that
/// RFC 9113 §6.9.2 allows.
pub const HTTP_WINDOW_BYTES: u32 = 65_535;
/// Bytes that an HTTP/2 connection is charged beside [`CONNECTION_BYTES`]: the window, buffers of
/// frames, tables of header fields, and a head that is not complete.
pub const HTTP2_BYTES: usize = 112 * 1024;
/// Streams of an HTTP/2 connection that were reset and wait to be forgotten (CVE-2023-44487).
pub const HTTP_RESET_STREAMS: usize = 32;
/// Requests of a connection that its client gave up, in excess of those that were answered, before
/// the connection is closed.
pub const HTTP_ABANDONED_REQUESTS: usize = 64;
/// Requests at once from one IPv4 address or one IPv6 /64 network; one more is refused.
pub const HTTP_REQUESTS_PER_ADDRESS: usize = 64;
/// Requests at once of one account; one more is refused.
pub const HTTP_REQUESTS_PER_ACCOUNT: usize = 64;
/// Bytes of an `Authorization` field.
pub const HTTP_AUTHORIZATION_BYTES: usize = 4 * 1024;
/// Proxies that the fields of a request may name; one more, and the request is refused.
pub const HTTP_FORWARDED_HOPS: usize = 16;
/// A response of at least so many bytes is compressed, if its client accepts that.
pub const HTTP_COMPRESSED_BYTES: u64 = 1024;
/// Bytes that a compressor acquires; a response for which they are not free is not compressed.
pub const HTTP_COMPRESSOR_BYTES: usize = 320 * 1024;
/// Bytes of one event that is sent to a browser (`text/event-stream`), its lines included: for a
/// JMAP account of the most logs, its state for each type ([`JMAP_STATE_BYTES`]).
pub const HTTP_EVENT_BYTES: usize = 64 * 1024;
/// Bytes that a client of HTTP/1.1 may send while it is sent events; they are ignored.
pub const HTTP_STRAY_BYTES: usize = 1024;
/// Bytes of a message on a WebSocket that needs no memory of the budget.
pub const HTTP_SMALL_MESSAGE_BYTES: usize = 4 * 1024;
/// Bytes of a body that is not wanted, which are read so that its client gets the refusal.
pub const HTTP_DISCARDED_BYTES: usize = 16 * 1024 * 1024;
/// Bytes of a file name in `Content-Disposition`; the rest is cut off.
pub const HTTP_FILE_NAME_BYTES: usize = 255;
/// Bytes of the body of a request that is held as a whole, at most: what JMAP calls `maxSizeRequest`.
pub const HTTP_HELD_BODY_BYTES: usize = 10_000_000;
/// How long a client may send or take next to nothing while others wait for memory that it holds.
pub const HTTP_STALLED: Duration = Duration::from_secs(10);
/// Bytes that are more than next to nothing in that time.
pub const HTTP_STALLED_BYTES: usize = 64 * 1024;
/// In so many such times a body that is held has to come, while others wait.
pub const HTTP_HELD_BODY_PERIODS: usize = 6;
/// Connections to `/metrics`, and likewise to the admin socket, at once.
pub const OPERATOR_CONNECTIONS: usize = 8;
/// Bytes of one request on the admin socket.
pub const ADMIN_REQUEST_BYTES: usize = 1024;
/// Sessions, and likewise accounts, in one answer on the admin socket.
pub const ADMIN_ROWS: usize = 200;

/// Bytes of one IMAP command before login, literals included: the longest ID that is allowed takes 32 KiB
/// (RFC 2971 §3.3).
pub const IMAP_COMMAND_BYTES_ANONYMOUS: usize = 40 * 1024;
/// Bytes of one IMAP command after login, literals that stream (messages) not included.
pub const IMAP_COMMAND_BYTES: usize = 256 * 1024;
/// Bytes of an IMAP command that are held before memory is acquired for it.
pub const IMAP_COMMAND_FREE_BYTES: usize = 4 * 1024;
/// Bytes of IMAP responses that wait to be sent before memory is acquired for them.
pub const IMAP_OUTPUT_FREE_BYTES: usize = 4 * 1024;
/// Bytes of a literal that a client may send without waiting where LITERAL- is announced (RFC 7888 §5).
pub const IMAP_LITERAL_MINUS_BYTES: u64 = 4096;
/// Nesting of lists and search keys in an IMAP command.
pub const IMAP_NESTING: usize = 64;
/// Nesting of lists in an IMAP response that a client reads: body structures nest deeper than commands.
pub const IMAP_VALUE_NESTING: usize = 200;
/// FETCH or STATUS items, header field names of one section, or LIST patterns of one command.
pub const IMAP_ITEMS: usize = 1000;
/// Ranges in one IMAP sequence set.
pub const IMAP_SEQUENCE_RANGES: usize = 32 * 1024;
/// Search keys of one command.
pub const IMAP_SEARCH_KEYS: usize = 2000;
/// Ranges of UIDs that `$` may stand for; the result of a search that has more is not saved.
pub const IMAP_SAVED_RANGES: usize = 64 * 1024;
/// Searches of one session that are kept up to date (RFC 5267 §4.3.1).
pub const IMAP_CONTEXTS: usize = 16;
/// Ranges of UIDs in the results of all of them together; a message of a sorted one counts as a range.
pub const IMAP_CONTEXT_RANGES: usize = 64 * 1024;
/// Messages in a sorted result that is kept up to date.
pub const IMAP_SORTED_CONTEXT: usize = 20_000;
/// Fuzzy strings of one search, which cost a hundred times as much as exact ones.
pub const FUZZY_STRINGS: usize = 16;
/// Different words of one string of a FUZZY search key; later ones are ignored.
pub const FUZZY_WORDS: usize = 16;
/// Bytes of a string by which SORT compares it.
pub const SORT_KEY_BYTES: usize = 1000;
/// References of one message that THREAD uses: the last ones.
pub const THREAD_REFERENCES: usize = 1000;
/// Criteria of one SORT.
pub const IMAP_SORT_CRITERIA: usize = 32;
/// Bytes of an IMAP command's tag.
pub const IMAP_TAG_BYTES: usize = 128;
/// Literals of one IMAP command, a message's not included.
pub const IMAP_LITERALS: usize = 2000;
/// Bytes of one line in answer to a continuation request (SASL; RFC 4959 and RFC 7628 tokens are
/// the long ones).
pub const IMAP_LINE_BYTES: usize = 16 * 1024;
/// Bytes of a refused command that are read and discarded before login; after that the connection
/// is closed.
pub const IMAP_SKIPPED_BYTES_ANONYMOUS: u64 = 64 * 1024;
/// Bytes of a refused command's messages that are read and discarded after login.
pub const IMAP_SKIPPED_BYTES: u64 = 4 * 1024 * 1024 * 1024;
/// Bytes of it outside of messages: four times the longest command. A bound against decompression
/// bombs, which expand a thousandfold.
pub const IMAP_SKIPPED_COMMAND_BYTES: u64 = 1024 * 1024;
/// Connections may be compressed until they hold the memory budget divided by this.
pub const IMAP_COMPRESSED_SHARE: usize = 4;
/// Connections that send at the moment are compressed until their compressors are the memory budget
/// divided by this.
pub const IMAP_COMPRESSORS_SHARE: usize = 8;
/// Fields of an ID command (RFC 2971 §3.3).
pub const IMAP_ID_FIELDS: usize = 30;
/// Bad commands of one IMAP session, with no good one after login between them, before it is closed.
pub const IMAP_ERRORS: usize = 20;

/// Bytes of a mailbox name, UTF-8, the whole path.
pub const MAILBOX_NAME_BYTES: usize = 1000;
/// Levels of a mailbox name.
pub const MAILBOX_LEVELS: usize = 32;
/// Mailboxes of one account.
pub const MAILBOXES: usize = 10_000;
/// Keywords of one account, all mailboxes together.
pub const KEYWORDS: usize = 2000;
/// Bytes of one keyword.
pub const KEYWORD_BYTES: usize = 128;
/// Mailboxes that one session watches by NOTIFY (RFC 5465 §5.8).
pub const NOTIFY_MAILBOXES: usize = 2000;
/// Shared mailboxes that one session watches by NOTIFY: each keeps a log open.
pub const NOTIFY_SHARES: usize = 32;
/// Distinct sets of flags of one account.
pub const FLAG_SETS: usize = 65_536;
/// Keywords of all those sets together.
pub const FLAG_SETS_KEYWORDS: usize = 524_288;

/// Records that one log entry may carry when several requests are appended together.
pub const ENTRY_RECORDS: usize = 128;
/// Positions behind the last entry of a log at which the next one may be, if objects that are no
/// entries occupy the ones before it. Entries further behind are damage: they are not read one by
/// one, and nothing is appended to them.
pub const LOG_GAP: u64 = 64;
/// Objects at the paths of log entries that are none, and are recorded for one log, so that they
/// are neither read nor reported again each time.
pub const LOG_NOISE: usize = 1024;
/// Log entries whose hashes are kept with a loaded account, to detect that another node counts
/// others.
pub const ENTRIES_COMPARED: usize = 4096;
/// Bytes of one log entry.
pub const ENTRY_BYTES: usize = 8 * 1024 * 1024;
/// Bytes that sealing may add to an object: a larger one is not read.
pub const SEALING_BYTES: usize = 64 * 1024;
/// Bytes of a checkpoint's manifest, or of an attestation, sealed. An account of ten million
/// messages takes some two.
pub const MANIFEST_BYTES: usize = 8 * 1024 * 1024;
/// Bytes of a mark in the folder of manifests, sealed: its name says it all.
pub const MARK_BYTES: usize = 4096;
/// Keywords of one message.
pub const FLAG_SET_KEYWORDS: usize = 256;
/// Ids of objects held at a time during garbage collection; an account with more takes several
/// passes.
pub const GARBAGE_IDS: usize = 262_144;
/// Ranges of expunged UIDs that a mailbox records for clients that resynchronise.
pub const VANISHED_RANGES: usize = 20_000;
/// Expunged messages, and as many deleted mailboxes, that an account records for clients that ask
/// for changes since a position.
pub const TOMBSTONES: usize = 65_536;
/// Identifiers of one message by which its thread is found: its own, its oldest reference, and its
/// latest ones.
pub const THREAD_LINKS: usize = 8;
/// Identifiers whose threads an account knows, the latest ones.
pub const THREAD_LINKS_KNOWN: usize = 8192;
/// Messages of one thread, the oldest ones, that count when those of a mailbox are counted: each
/// change of one reads all of them.
pub const THREAD_COUNTED: usize = 2048;
/// Placements of one message that count then.
pub const PLACEMENTS_COUNTED: usize = 256;
/// Small per-account objects (Sieve scripts, identities, import ledgers).
pub const ACCOUNT_OBJECTS: usize = 10_000;
/// Bytes of one small per-account object.
pub const ACCOUNT_OBJECT_BYTES: usize = 64 * 1024;
/// Bytes of all small per-account objects together.
pub const ACCOUNT_OBJECTS_BYTES: usize = 4 * 1024 * 1024;

/// Bytes of the part of an address before the `@`; RFC 5321 §4.5.3.1.1 promises 64, and tags make it longer.
pub const LOCAL_PART_BYTES: usize = 128;
/// Bytes of the domain of an address (RFC 5321 §4.5.3.1.2).
pub const DOMAIN_BYTES: usize = 255;
/// Networks for which the failed logins with a line in the log are counted.
pub const FAILED_LOGIN_NETWORKS: usize = 1024;
/// Domains of accounts and aliases that are cached; with more, every domain counts as one of them.
pub const SERVED_DOMAINS: usize = 65_536;
/// Targets of one alias.
pub const ALIAS_TARGETS: usize = 100;
/// Aliases that lead to aliases, one after the other.
pub const ALIAS_DEPTH: usize = 8;
/// Addresses looked up to find the recipients of one.
pub const ALIAS_LOOKUPS: usize = 300;
/// App passwords of one account.
pub const ACCOUNT_APP_PASSWORDS: usize = 100;
/// Password slots of one account that a login tries; an account has one.
pub const LOGIN_SLOTS: usize = 4;
/// Bytes of the label of an app password.
pub const TOKEN_LABEL_BYTES: usize = 200;
/// Bytes of a password or token.
pub const SECRET_BYTES: usize = 1024;
/// Entries that this process appended and has not yet announced on the bus; further ones other
/// nodes find when they read the log.
pub const APPENDED_QUEUE: usize = 1024;
/// Bytes of a line that the bus between nodes sends.
pub const BUS_LINE_BYTES: usize = 64 * 1024;
/// Bytes of a message from the bus; larger ones are skipped.
pub const BUS_MESSAGE_BYTES: usize = 256;
/// Other nodes that are tracked by their messages on the bus.
pub const BUS_NODES: usize = 1024;
/// Ballots of one log or record whose names are left in the store, where writers have to agree by them.
pub const BALLOTS: usize = 16;
/// Bytes of one version of a record, sealed: a larger object is none, and is not read. An account
/// with all app passwords takes 64 KiB.
pub const RECORD_BYTES: usize = 1024 * 1024;
/// Versions of one record; an object with a higher number is none, whichever process wrote it, so
/// that there is always a next one.
pub const RECORD_VERSIONS: u64 = 1 << 62;
/// Objects in the folder of a record that are no versions of it, beyond which it cannot be used. So
/// many are read.
pub const RECORD_NOISE: usize = 64;
/// Such objects that are kept in memory for a minute, of all records together.
pub const RECORD_NOISE_REMEMBERED: usize = 4096;
/// Attempts to change a record that others keep changing.
pub const RECORD_ATTEMPTS: usize = 32;
/// Records of accounts and aliases that are cached for deliveries.
pub const RECORDS_REMEMBERED: usize = 1024;
/// A cached record, with its path, in bytes: one with a password and a dozen tokens.
pub const RECORD_REMEMBERED_BYTES: usize = 4096;
/// Patterns of one LIST command.
pub const IMAP_LIST_PATTERNS: usize = 16;
/// Identifiers in the access control list of one mailbox.
pub const ACL_ENTRIES: usize = 100;
/// Shared mailboxes, its own and others', that one account has links to.
pub const LINKS: usize = 256;
/// Of these, mailboxes of one other account, so that no account can use all links of another.
pub const LINKS_OF_ONE: usize = 128;
/// Links to mailboxes of one other account that an account has not subscribed to: an offer beyond
/// them makes no link, so that no other user fills the account's list.
pub const UNACCEPTED_LINKS_OF_ONE: usize = 32;
/// The same of all other accounts together. The rest of [`LINKS`] is for shares of its own and for
/// what it subscribed to.
pub const UNACCEPTED_LINKS: usize = 128;
/// Accounts whose identity keys one account remembers, because it shared a mailbox with them.
pub const PINNED_IDENTITIES: usize = 1024;
/// Shared mailboxes that one account may have made: those that have a name, and those that were
/// deleted or never completed and are still kept.
pub const SHARES: usize = 256;
/// Bytes of the patterns of one LIST command, the reference counted with each.
pub const IMAP_LIST_PATTERN_BYTES: usize = 4096;
/// Bytes of all names that an account subscribes to, each counted with 32 more as overhead.
pub const SUBSCRIPTIONS_BYTES: usize = 1024 * 1024;
/// Bytes of the name of a metadata entry.
pub const METADATA_ENTRY_BYTES: usize = 500;
/// Bytes of the value of a metadata entry (RFC 5464 §4.1 asks for at least 1024).
pub const METADATA_VALUE_BYTES: usize = ACCOUNT_OBJECT_BYTES;
/// Metadata entries of one mailbox, or of the server for one account (RFC 5464 §4.1 asks for at least 10).
pub const METADATA_ENTRIES: usize = 1000;
/// Bytes of all metadata of an account, names included: half the limit of small objects.
pub const METADATA_BYTES: usize = ACCOUNT_OBJECTS_BYTES / 2;
/// Changes of metadata that an account keeps for sessions that have to report them.
pub const METADATA_CHANGES: usize = 512;
/// A sealed structure that goes with the event of a delivery to a remote store, in bytes; a larger
/// one is read from the object.
pub const DELIVERED_STRUCTURE_BYTES: usize = 2048;
/// Messages of which one pack of a remote store has a piece.
pub const PACK_MESSAGES: usize = 1024;
/// Bytes of the pieces of one pack together.
pub const PACK_BYTES: usize = 1024 * 1024;
/// Larger message objects are not packed whole.
pub const PACKED_MESSAGE_BYTES: usize = 256 * 1024;
/// Bytes of a message's header that a segment holds; a longer one is read from the message.
pub const HEADER_PIECE_BYTES: usize = 16 * 1024;
/// Bytes of a stored structure that a segment holds; a longer one is read from the message's object.
pub const STRUCTURE_PIECE_BYTES: usize = 4 * 1024;
/// Bytes of the compressed headers, or structures, of one segment together; a segment that would be
/// larger ends earlier.
pub const PIECE_SEGMENT_BYTES: usize = 768 * 1024;
/// Messages of one index segment.
pub const SUMMARY_SEGMENT_MESSAGES: usize = 1024;
/// Bytes of a message's summary that a segment holds; a longer one is read from the message's
/// structure and text.
pub const SUMMARY_BYTES: usize = 8 * 1024;
/// Bytes of the summaries of one segment together; a segment that would be larger ends earlier.
pub const SUMMARY_SEGMENT_BYTES: usize = 1024 * 1024;
/// Bytes of a message's searchable text that are searched directly; a longer one is first checked
/// against its Bloom filter.
pub const SHORT_TEXT_BYTES: usize = 2 * 1024;
/// Bytes of a message's searchable text that a segment holds; a longer one is read from the message's object.
pub const SEGMENT_TEXT_BYTES: usize = 16 * 1024;
/// Bytes of a segment's Bloom filter for a text that is not short.
pub const TEXT_SIGNATURE_BYTES: usize = 4096;
/// Bytes of the texts of one segment together; a segment that would be larger ends earlier.
pub const TEXT_SEGMENT_BYTES: usize = 2 * 1024 * 1024;
/// Messages of one APPEND (RFC 3502).
pub const APPEND_MESSAGES: usize = 1000;
/// Bytes of the names of all keywords of one APPEND, all its messages together.
pub const APPEND_KEYWORD_BYTES: usize = 1024 * 1024;
/// Memory that one APPEND uses without acquiring it, for messages stored and not placed yet, in
/// bytes.
pub const APPEND_FREE_BYTES: usize = 4 * 1024;
/// Bytes that it acquires at once for more of them.
pub const APPEND_STEP_BYTES: usize = 16 * 1024;
/// Parts that the messages of one APPEND are put together from (RFC 4469).
pub const IMAP_CATENATE_PARTS: usize = 10_000;
/// URLs of one GENURLAUTH or URLFETCH (RFC 4467).
pub const IMAP_URLS: usize = 100;
/// Bytes of an IMAP URL (RFC 5092).
pub const IMAP_URL_BYTES: usize = 8192;
/// Messages of one COPY or MOVE into or out of a shared mailbox: they are one log entry.
pub const COPY_BETWEEN: usize = 10_000;
/// Bytes of the names of all different sets of flags in one folder of an archive; beyond it
/// keywords are neither compared nor shown.
pub const ARCHIVE_FLAG_BYTES: usize = 2 * 1024 * 1024;
/// Parts of an archived mbox that are left out when it is written anew, some 30 MiB; with more of
/// them it stays as it is.
pub const ARCHIVE_REWRITE_RANGES: usize = 1_000_000;
/// Bytes of one record in the journal of an archived folder.
pub const ARCHIVE_RECORD_BYTES: usize = 64 * 1024;
/// Bytes of one response of a server that an archive is made of, messages not included: a SEARCH
/// that names a million UIDs.
pub const ARCHIVE_RESPONSE_BYTES: usize = 8 * 1024 * 1024;
/// Bytes of one message of an archive's server: as many as IMAP4rev1 has numbers for.
pub const ARCHIVE_MESSAGE_BYTES: u64 = u32::MAX as u64;
/// Bytes of an answer that have to come from an archive's server while it is waited for the rest
/// (`MinThroughput`): 34 a second.
pub const ARCHIVE_PACE_BYTES: u64 = 4096;
/// Bytes of a message that is handed from a server to the copy in one piece; a larger one streams.
pub const ARCHIVE_INLINE_BYTES: u64 = 64 * 1024;
/// Bytes of messages that one connection of an archive holds until their FETCH is completed; more
/// is written, and taken back if the FETCH fails.
pub const ARCHIVE_HELD_BYTES: usize = 4 * 1024 * 1024;
/// Untagged OK, NO and BAD, and continuation requests, of a server that an archive is made of
/// before it completes a command: one every ten seconds would take it a day.
pub const ARCHIVE_REMARKS: usize = 10_000;
/// All other responses of it before it completes a command: flags of every message, and twice that.
pub const ARCHIVE_RESPONSES: usize = 2 * ARCHIVE_FOLDER_MESSAGES as usize;
/// Messages of one folder of an archive's server.
pub const ARCHIVE_FOLDER_MESSAGES: u32 = 10_000_000;
/// FETCH commands, one after the other, that bring no message before a folder is given up for this time.
pub const ARCHIVE_EMPTY_FETCHES: u32 = 10_000;
/// Messages of a folder that were requested and not received, and are recorded and reported one by
/// one.
pub const ARCHIVE_DOUBTFUL: usize = 100_000;
/// Messages of an archived folder that are gone from its server and are recognized when they come
/// back under other UIDs: the last ones, some 30 MiB. Of those before, only messages in the record
/// of restores are recognized.
pub const ARCHIVE_RETURNING: u64 = 500_000;
/// Mailboxes that are read from a server's LIST.
pub const ARCHIVE_FOLDERS: usize = 100_000;
/// Indistinguishable mailboxes of a server's LIST that are reported one by one.
pub const ARCHIVE_LEFT_OUT: usize = 100;
/// Bytes of an OAuth 2.0 access token for an archive's server.
pub const ARCHIVE_TOKEN_BYTES: usize = 64 * 1024;
/// Bytes that come out of a compressed file of mail however small it is.
pub const IMPORT_UNPACKED_BYTES: u64 = 256 * 1024 * 1024;
/// Bytes of a compressed file of mail that come out of one byte of it, beyond
/// [`IMPORT_UNPACKED_BYTES`]: mail has five, attachments one.
pub const IMPORT_UNPACKED_RATIO: u64 = 200;
/// Memory for decompressing a file, in bytes: enough for all levels of the usual programs, and
/// zstd's `--long`.
pub const IMPORT_UNPACKING_BYTES: usize = 128 * 1024 * 1024;
/// Labels of Gmail of one message that count when it is imported.
pub const GMAIL_LABELS: usize = 100;
/// Messages whose bodies are evicted together.
pub const BODIES_TOGETHER: usize = 64;
/// As [`BODIES_TOGETHER`], in bytes of their stubs.
pub const BODIES_TOGETHER_BYTES: usize = 1024 * 1024;
/// Bodies that were fetched again and are kept for a while, of all accounts of a process together.
pub const BODIES_SPOOLED: usize = 32;
/// Bytes of them, but for the one that was fetched last.
pub const BODIES_SPOOLED_BYTES: u64 = 128 * 1024 * 1024;
/// DKIM signatures of a message that are verified, from the top.
pub const DKIM_SIGNATURES: usize = 8;
/// Names of signed fields in one DKIM signature.
pub const DKIM_SIGNED_FIELDS: usize = 256;
/// TXT records under the name of a DKIM key that are tried.
pub const DKIM_KEY_RECORDS: usize = 4;
/// Objects of the DKIM keys of one domain: two for each key.
pub const DKIM_DOMAIN_OBJECTS: usize = 128;
/// Domains whose signing keys a process remembers; the one that was used longest ago is forgotten.
pub const DKIM_DOMAINS_REMEMBERED: usize = 1024;
/// Policies of one day whose TLS sessions are counted for reports (RFC 8460); sessions under more
/// are counted together.
pub const TLS_REPORT_POLICIES: usize = 1000;
/// Kinds of failure of one such policy that are counted with their servers.
pub const TLS_REPORT_FAILURES: usize = 64;
/// Bytes of such a policy's text.
pub const TLS_REPORT_POLICY_BYTES: usize = 4096;
/// Bytes of what is counted of one day, about.
pub const TLS_REPORT_DAY_BYTES: usize = 512 * 1024;
/// Days of which TLS sessions are kept, today included.
pub const TLS_REPORT_DAYS: usize = 8;
/// Time for one DNS lookup, all its queries, retries and aliases together.
pub const DNS_LOOKUP_TIME: Duration = Duration::from_secs(30);
/// Time for all lookups of one domain that a command makes while its user waits.
pub const DOMAIN_CHECK_TIME: Duration = Duration::from_secs(20);
/// Domains that a command checks at the same time.
pub const DOMAIN_CHECKS: usize = 8;
/// DNS lookups of a process that run at the same time; one more waits, and its wait counts as time
/// of the lookup.
pub const DNS_LOOKUPS: usize = 256;
/// Bytes of cached DNS answers.
pub const DNS_CACHE_BYTES: usize = 4 * 1024 * 1024;
/// Bytes of the key of a destination site; a longer one is replaced by its digest.
pub const SITE_KEY_BYTES: usize = 255;
/// Mail servers of a domain that are considered, best first.
pub const MX_HOSTS: usize = 16;
/// Addresses of each kind of one mail server that are tried.
pub const MX_ADDRESSES: usize = 4;
/// Connections that are tried for one destination before it is given up for now.
pub const MX_ATTEMPTS: usize = 10;
/// TLSA records of a mail server that are compared with its certificate.
pub const DANE_RECORDS: usize = 32;
/// Bytes of an MTA-STS policy (RFC 8461 §3.3 suggests 64 KiB).
pub const STS_POLICY_BYTES: usize = 64 * 1024;
/// Patterns of mail servers in an MTA-STS policy.
pub const STS_MX_PATTERNS: usize = 256;
/// Bytes of the head of a response with an MTA-STS policy.
pub const STS_HEAD_BYTES: usize = 16 * 1024;
/// Time to fetch an MTA-STS policy (RFC 8461 §3.3 suggests a minute).
pub const STS_FETCH_TIME: Duration = Duration::from_secs(60);
/// MTA-STS policies that a node keeps, the most recently used ones.
pub const STS_POLICIES: std::num::NonZeroUsize = std::num::NonZeroUsize::new(1000).unwrap();
/// Bytes of all of them.
pub const STS_POLICIES_BYTES: usize = 1024 * 1024;
/// Bytes of an answer of a name server over TCP.
pub const DNS_MESSAGE_BYTES: usize = 16 * 1024;
/// Records of one such answer.
pub const DNS_MESSAGE_RECORDS: usize = 256;
/// Answers of name servers that recursion keeps, besides [`DNS_CACHE_BYTES`].
pub const DNS_CACHED_MESSAGES: usize = 256;
/// Zones whose name servers recursion keeps.
pub const DNS_CACHED_ZONES: usize = 512;
/// Bytes of one request to the JMAP API (RFC 8620 §2, `maxSizeRequest`).
pub const JMAP_REQUEST_BYTES: usize = 10_000_000;
/// Bytes of one upload over JMAP (RFC 8620 §2, `maxSizeUpload`).
pub const JMAP_UPLOAD_BYTES: u64 = 50_000_000;
/// Requests to the JMAP API that one user has under way (RFC 8620 §2, `maxConcurrentRequests`).
pub const JMAP_CONCURRENT_REQUESTS: usize = 4;
/// Uploads over JMAP that one user has under way (RFC 8620 §2, `maxConcurrentUpload`).
pub const JMAP_CONCURRENT_UPLOADS: usize = 4;
/// Bytes of all uploads that an account has (RFC 8620 §6): beyond it the oldest ones go.
pub const JMAP_UPLOADS_BYTES: u64 = 500_000_000;
/// Bytes of the texts and attachments of an email that a JMAP client composes, decoded (RFC 8621 §1.3.1,
/// `maxSizeAttachmentsPerEmail`).
pub const JMAP_EMAIL_BYTES: u64 = 100_000_000;
/// Uploads that an account has; beyond it the oldest ones go.
pub const JMAP_UPLOADS: usize = 1000;
/// Method calls of one JMAP request (RFC 8620 §2, `maxCallsInRequest`).
pub const JMAP_CALLS: usize = 16;
/// Ids of one JMAP /get (RFC 8620 §2, `maxObjectsInGet`).
pub const JMAP_GET_OBJECTS: usize = 500;
/// Objects that one JMAP /set creates, updates and destroys (RFC 8620 §2, `maxObjectsInSet`).
pub const JMAP_SET_OBJECTS: usize = 500;
/// Nesting of arrays and objects in a JMAP request.
pub const JMAP_JSON_DEPTH: usize = 64;
/// Memory for the values of one JMAP request beside their text, in bytes: what millions of empty
/// objects in few bytes would take.
pub const JMAP_JSON_VALUE_BYTES: usize = 32 * 1024 * 1024;
/// Capabilities in `using` of one JMAP request.
pub const JMAP_USING: usize = 64;
/// Creation ids that a JMAP request brings along in `createdIds`.
pub const JMAP_CREATED_IDS: usize = 10_000;
/// Bytes of a JMAP state string that a client sends: a position for each of [`SHARES`] and one more.
pub const JMAP_STATE_BYTES: usize = 8192;
/// Bytes of a JSON pointer in a JMAP patch or result reference.
pub const JMAP_POINTER_BYTES: usize = 1024;
/// Parts of a JSON pointer in a JMAP patch or result reference.
pub const JMAP_POINTER_PARTS: usize = 16;
/// Paths of one JMAP patch.
pub const JMAP_PATCH_PATHS: usize = 1024;
/// Values that the result references of one JMAP call select together; text counts as one more for
/// each 64 bytes.
pub const JMAP_REFERENCE_VALUES: usize = 50_000;
/// Bytes of the responses that later calls of the same JMAP request refer to, all together.
pub const JMAP_REFERENCED_BYTES: usize = 16 * 1024 * 1024;
/// Nesting of operators in a JMAP filter.
pub const JMAP_FILTER_DEPTH: usize = 16;
/// Operators and conditions of one JMAP filter.
pub const JMAP_FILTER_CONDITIONS: usize = 512;
/// Comparators of one JMAP sort.
pub const JMAP_COMPARATORS: usize = 16;
/// Properties that one JMAP /get names.
pub const JMAP_PROPERTIES: usize = 256;
/// Properties `header:Name` of one JMAP /get or of one part of a new email.
pub const JMAP_HEADER_PROPERTIES: usize = 100;
/// Bytes of a header that JMAP reads, of the message and of its parts together; fields beyond that are not shown.
pub const JMAP_HEADER_BYTES: u64 = 256 * 1024;
/// Bytes of the header values of one email in a JMAP response; those beyond that are null.
pub const JMAP_HEADER_VALUE_BYTES: usize = 1024 * 1024;
/// Bytes of the texts (`bodyValues`) of one email in a JMAP response; what is longer is cut, and marked so.
pub const JMAP_BODY_VALUE_BYTES: usize = 2 * 1024 * 1024;
/// Messages inside of each other that a JMAP blob id leads through.
pub const JMAP_BLOB_STEPS: usize = 4;
/// Bytes of one blob in the response to JMAP's Blob/get; a client asks for more in several ranges.
pub const JMAP_BLOB_DATA_BYTES: u64 = 4 * 1024 * 1024;
/// Sources of one blob in JMAP's Blob/upload (RFC 9404 §3.1, `maxDataSources`: at least 64).
pub const JMAP_DATA_SOURCES: usize = 64;
/// Bytes of a JMAP response that are made before they are sent; one object may make it more.
pub const JMAP_SEND_BYTES: usize = 16 * 1024;
/// Ids of one JMAP /changes, also if the client asks for more.
pub const JMAP_CHANGES: usize = 4096;
/// Between two looks at what changed in an account, for one client that waits for it: changes that
/// follow each other closely are pushed as one.
pub const JMAP_PUSH_INTERVAL: Duration = Duration::from_millis(200);
/// The shortest time between two pings of a JMAP event stream, also if the client asks for less.
pub const JMAP_PING_LEAST: Duration = Duration::from_secs(5);
/// The longest.
pub const JMAP_PING_MOST: Duration = Duration::from_secs(300);
/// Bytes of the id that a client gives a JMAP request on a WebSocket.
pub const JMAP_WEBSOCKET_ID_BYTES: usize = 255;
/// Bytes of the URL of a JMAP push subscription.
pub const JMAP_PUSH_URL_BYTES: usize = 2048;
/// Bytes of `deviceClientId` of a JMAP push subscription.
pub const JMAP_DEVICE_ID_BYTES: usize = 255;
/// Types that a JMAP push subscription names.
pub const JMAP_PUSH_TYPES: usize = 64;
/// Different keywords that the filter and the sort of one query over emails name: a bit each.
pub const QUERY_KEYWORDS: usize = 64;
/// Conditions on the content of messages in one query over emails, those that stand together
/// counted as one: each is a search of its own.
pub const QUERY_CONTENTS: usize = 16;
/// Words and phrases of the texts in one JMAP filter.
pub const JMAP_FILTER_WORDS: usize = 256;
/// Bytes of the text of one email in which SearchSnippet/get looks for words; those beyond are not shown.
pub const JMAP_SNIPPET_TEXT_BYTES: usize = 256 * 1024;
/// Ids of one response to Email/query, also if the client asks for more.
pub const JMAP_QUERY_IDS: usize = 8192;
/// Bytes of one HTTP response that the load generator reads; a longer one ends the connection.
pub const BENCH_RESPONSE_BYTES: usize = 32 * 1024 * 1024;
/// Bytes of one event of a server (`text/event-stream`) that the load generator reads.
pub const BENCH_EVENT_BYTES: usize = 64 * 1024;
