//! Every limit on what an outsider can grow, by name, with its unit.
//!
//! Each has a test that exceeds it, next to the code that enforces it.

use std::time::Duration;

/// Plaintext bytes in one sealed chunk of a message object.
pub const CHUNK_BYTES: usize = 64 * 1024;
/// The newest rows of the local store that a server checks against the indexes when it starts. New rows are
/// appended after them.
pub const NEWEST_ROWS: usize = 10_000;
/// How long a starting server checks the indexes of the local store; `sealpost check` checks the rest.
pub const DATABASE_START_TIME: Duration = Duration::from_secs(10);
/// How long `sealpost check` checks the database of the local store; after that it reports the timeout and
/// continues.
pub const DATABASE_CHECK_TIME: Duration = Duration::from_secs(6 * 3600);
/// Lines of a report on a damaged database.
pub const DATABASE_FINDINGS: usize = 100;
/// Lost objects that a repair of the local store names; all are counted.
pub const REPAIR_NAMED: usize = 10_000;
/// Bytes of a local store's disk that are reserved for expunge and removal, the default of the setting
/// `store.reserve`. Twice the maximum size of the write-ahead log, so that a checkpoint into the database
/// always fits.
pub const STORE_RESERVE_BYTES: u64 = 32 * 1024 * 1024;
/// Objects up to this many sealed bytes live in the local backend's database; larger ones are files.
pub const INLINE_OBJECT_BYTES: usize = 64 * 1024;
/// Bytes of blocks queued for the cache of a remote store. A read beyond them waits briefly for the disk, or
/// skips the cache.
pub const STORE_CACHE_QUEUE_BYTES: usize = 3 * 1024 * 1024;
/// Concurrent requests of one process to a remote store, the default of the setting `store.requests`; one
/// more waits.
pub const STORE_REQUESTS: usize = 32;
/// Bytes that one read takes from a connection to a remote store; the connection keeps the buffer between
/// requests.
pub const STORE_READ_BYTES: usize = 64 * 1024;
/// Bytes of a remote store's response to a request without a range: more than a log entry or a page of a
/// listing.
pub const STORE_ANSWER_BYTES: usize = 32 * 1024 * 1024;
/// Bytes of its response to a request that it refuses.
pub const STORE_REFUSAL_BYTES: usize = 64 * 1024;

/// Nesting of MIME parts below the message; deeper parts become opaque leaves.
pub const MIME_DEPTH: usize = 32;
/// Messages in base64 or quoted-printable within each other; the next one is an opaque leaf.
pub const MIME_ENCODED_DEPTH: usize = 3;
/// MIME parts of one message; further text stays in the last part.
pub const MIME_PARTS: usize = 1000;
/// Memory for each part beside its values during a scan, in bytes.
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
/// Memory that the recipients of one transaction use without a permit, in bytes: about ten of them. The
/// charge of a connection covers it ([`CONNECTION_BYTES`]).
pub const SMTP_ENVELOPE_FREE_BYTES: usize = 4 * 1024;
/// Bytes that further recipients acquire at once.
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
/// Bytes of a client's response to an AUTH challenge, CRLF included (RFC 4954 §4: 12,288).
pub const SMTP_AUTH_LINE_BYTES: usize = 12_288;
/// Bytes of the header of a submitted message. The session holds the whole header to complete and sign it.
pub const SUBMISSION_HEADER_BYTES: usize = 256 * 1024;
/// Bytes of such a header for which a submission acquires no more memory than for any message.
pub const SUBMISSION_SMALL_HEADER_BYTES: usize = 32 * 1024;
/// URLs of one submitted message (BURL, RFC 4468).
pub const SUBMISSION_URLS: usize = 100;
/// Bytes acquired for a submitted message of more than [`SMTP_HEAD_BYTES`]: its header as received and as
/// completed, the body up to [`QUEUE_INLINE_BYTES`], and a piece in transit.
pub const SUBMISSION_MEMORY_BYTES: usize = 2 * SUBMISSION_SMALL_HEADER_BYTES + QUEUE_INLINE_BYTES + 32 * 1024;
/// Bytes of a Message-ID that the queue keeps, to find the mail by; RFC 5322 §2.1.1: lines have no more.
pub const MESSAGE_ID_BYTES: usize = 998;
/// Addresses and domains that an account may send as besides its own.
pub const ALLOWED_SENDERS: usize = 100;
/// Bytes of one address in MAIL or RCPT (RFC 5321 §4.5.3.1.3 asks for 256): it has to fit into a header line.
pub const SMTP_PATH_BYTES: usize = 512;
/// Bytes that a session discards while it looks for the end of a bad SMTP command line, before it closes.
pub const SMTP_DISCARD_BYTES: usize = 1024 * 1024;
/// Errors of one SMTP session before it is closed.
pub const SMTP_ERRORS: usize = 20;
/// Received fields in a message; one more is a loop (RFC 5321 §6.3).
pub const RECEIVED_FIELDS: usize = 100;

/// Mail keys in a key file, earlier ones included.
pub const MAIL_KEYS: usize = 64;
/// Bytes of a small value sealed on its own under the mail key.
pub const MAIL_NOTE_BYTES: usize = 1024 * 1024;

/// Bytes of a message, its trace header included, that a queue's log holds itself; a larger one is
/// an object of its own.
pub const QUEUE_INLINE_BYTES: usize = 64 * 1024;
/// Addresses of other servers that the recipients of one SMTP or LMTP transaction may lead to; one
/// alias leads to fewer ([`ALIAS_LOOKUPS`]).
pub const SMTP_FORWARDS: usize = 500;
/// Bytes acquired for a forwarded message on its way into the queue.
pub const FORWARDING_MEMORY_BYTES: usize = QUEUE_INLINE_BYTES + 32 * 1024;
/// Aliases whose forwarded recipients are counted in an hour; further aliases wait for the next.
pub const FORWARDING_ALIASES: usize = 16_384;
/// Bytes of a reverse-path of forwarded mail (RFC 5321 §4.5.3.1.3, without its brackets); a sender
/// that would become longer is not rewritten.
pub const SRS_ADDRESS_BYTES: usize = 254;
/// Bytes of the subject of a vacation response.
pub const VACATION_SUBJECT_BYTES: usize = 998;
/// Bytes of its plain text, and of its HTML.
pub const VACATION_TEXT_BYTES: usize = 64 * 1024;
/// Senders to whom an account has replied within the last week; more get no reply.
pub const VACATION_SENDERS: usize = 1000;
/// Replies of one account within an hour; further mail gets none.
pub const VACATION_REPLIES_PER_HOUR: usize = 60;
/// Received fields in a message beyond which it gets no vacation response: it may loop.
pub const VACATION_RECEIVED_FIELDS: usize = 50;
/// Bytes of a message's header that are held to decide on a vacation response, drawn from the
/// budget: the fields that matter, and the one that arrives.
pub const VACATION_HEADER_BYTES: usize = 32 * 1024;
/// Addresses in To, Cc and their like of one message that are compared with those of an account.
pub const VACATION_ADDRESSES: usize = 16;
/// Characters of the original subject, and of the recipient's name, that a vacation response repeats.
pub const VACATION_QUOTED_CHARS: usize = 200;
/// Delivered messages that wait for a decision on a vacation response; more get none.
pub const VACATION_WAITING: usize = 256;
/// Accounts whose vacation dates a node has in memory.
pub const VACATION_ACCOUNTS_CACHED: usize = 1024;
/// Accounts whose lists of replies a node has in memory, 12 KB each.
pub const VACATION_LISTS_CACHED: usize = 64;
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
/// Accounts whose recipients of the last day one queue counts. Beyond that it drops those that sent least;
/// their counts start again at zero.
pub const QUEUE_SENDERS: usize = 16_384;
/// Handled requests that a queue remembers, so that it handles none twice.
pub const QUEUE_REQUESTS: usize = 1024;
/// How long a queue keeps the history of a mail.
pub const QUEUE_HISTORY_AGE: Duration = Duration::from_secs(30 * 86_400);
/// Bytes of that history in one queue; the oldest is dropped first. A mail takes about 400.
pub const QUEUE_HISTORY_BYTES: u64 = 64 * 1024 * 1024;
/// Bytes of one request to a queue.
pub const QUEUE_REQUEST_BYTES: usize = 64 * 1024;

/// Bytes of a PROXY protocol header after its fixed part, addresses included (version 2; the
/// longest addresses are 216).
pub const PROXY_HEADER_BYTES: usize = 2048;

/// Bytes charged for a connection: its session, and input and output without a permit of their own.
pub const CONNECTION_BYTES: usize = 16 * 1024;
/// Additional bytes charged for a connection with TLS.
pub const TLS_BYTES: usize = 24 * 1024;
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

/// How long a login may wait for its password check; after that it gets a temporary error.
pub const LOGIN_QUEUE_TIMEOUT: Duration = Duration::from_secs(30);
/// Accounts for which the addresses of past logins are kept. Attempts from such an address are checked first.
pub const KNOWN_ACCOUNTS: usize = 4096;
/// Such addresses of one account.
pub const KNOWN_ADDRESSES: usize = 16;

/// How far the clock may be ahead of the newest known time before all permanent removal stops.
pub const CLOCK_AHEAD: Duration = Duration::from_secs(30 * 86_400);
/// How often a running server records the time.
pub const CLOCK_NOTED: Duration = Duration::from_secs(60 * 60);
/// Logs, and likewise records, of which a node keeps the last position or version seen.
pub const WATERMARKS: usize = 32_768;
/// Records that a starting node reads to check that its server key authenticates them.
pub const SERVER_KEY_RECORDS: usize = 1024;
/// Server keys in a key file, older ones included.
pub const SERVER_KEYS: usize = 64;

/// Distinct errors that one call site logs within an hour; further ones are only counted.
pub const LOGGED_ERRORS: usize = 1000;
/// Warnings that one call site logs within an hour; further ones are only counted. Failed logins have limits
/// of their own.
pub const LOGGED_WARNINGS: usize = 1000;
/// Bytes of log lines that wait for standard error; lines beyond them are dropped and counted.
pub const LOG_QUEUE_BYTES: usize = 1024 * 1024;

/// Bytes of the head of an HTTP request for metrics.
pub const HTTP_HEAD_BYTES: usize = 8 * 1024;
/// Header fields in it.
pub const HTTP_HEADERS: usize = 64;
/// Bytes of the head of any other HTTP request; in HTTP/2 as RFC 9113 §6.5.2 counts them.
pub const HTTP_REQUEST_HEAD_BYTES: usize = 16 * 1024;
/// Header fields in it (HTTP/1.1; in HTTP/2 each counts for 32 bytes at least).
pub const HTTP_REQUEST_HEADERS: usize = 100;
/// Bytes of a response that are passed to the connection at once.
pub const HTTP_PIECE_BYTES: usize = 16 * 1024;
/// Bytes that a request acquires before its handler runs: its head, and three pieces of the response: one in
/// preparation, one waiting, one in transit.
pub const HTTP_REQUEST_BYTES: usize = HTTP_REQUEST_HEAD_BYTES + 3 * HTTP_PIECE_BYTES;
/// The share of the memory budget for all HTTP requests: the common part divided by this. Their large held
/// bodies have another share of the same size. Handlers acquire from the rest.
pub const HTTP_BUDGET_SHARE: usize = 4;
/// The part of the requests' share that is for small held bodies: the common part divided by this.
pub const HTTP_SMALL_BODIES_SHARE: usize = 16;
/// The most bytes of a small held body. Others are large.
pub const HTTP_SMALL_BODY_BYTES: usize = 64 * 1024;
/// Small held bodies of one account at a time, over all its connections and WebSockets.
pub const HTTP_SMALL_BODIES_PER_ACCOUNT: usize = JMAP_CONCURRENT_REQUESTS;
/// Large ones.
pub const HTTP_LARGE_BODIES_PER_ACCOUNT: usize = 1;
/// How long a body on an HTTP/2 connection waits for other bodies of its account.
pub const HTTP2_BODY_WAIT: Duration = Duration::from_secs(2);
/// Concurrent requests of one HTTP/2 connection.
pub const HTTP_STREAMS: u32 = 16;
/// Bytes of request bodies that an HTTP/2 connection receives before a handler reads them: the minimum of RFC
/// 9113 §6.9.2.
pub const HTTP_WINDOW_BYTES: u32 = 65_535;
/// Bytes charged for an HTTP/2 connection beside [`CONNECTION_BYTES`]: the window, frame buffers, header
/// tables, and an incomplete head.
pub const HTTP2_BYTES: usize = 112 * 1024;
/// Reset streams of an HTTP/2 connection that the server still tracks (CVE-2023-44487).
pub const HTTP_RESET_STREAMS: usize = 32;
/// Requests of a connection that its client cancelled, minus those that completed, before the server closes
/// the connection.
pub const HTTP_ABANDONED_REQUESTS: usize = 64;
/// Concurrent requests from one IPv4 address or one IPv6 /64 network; one more is refused.
pub const HTTP_REQUESTS_PER_ADDRESS: usize = 64;
/// Concurrent requests of one account; one more is refused. As many as an HTTP/2 connection has
/// ([`HTTP_STREAMS`]).
pub const HTTP_REQUESTS_PER_ACCOUNT: usize = HTTP_REQUESTS_PER_ADDRESS / 4;
/// Bytes of an `Authorization` field.
pub const HTTP_AUTHORIZATION_BYTES: usize = 4 * 1024;
/// Proxies that the fields of a request may name; one more, and the request is refused.
pub const HTTP_FORWARDED_HOPS: usize = 16;
/// The size from which a response is compressed, in bytes, if the client accepts it.
pub const HTTP_COMPRESSED_BYTES: u64 = 1024;
/// Bytes that a compressor acquires; if they are not free, the response is sent uncompressed.
pub const HTTP_COMPRESSOR_BYTES: usize = 320 * 1024;
/// Bytes of one server-sent event (`text/event-stream`), its lines included: enough for the state of each
/// type ([`JMAP_STATE_BYTES`]) in an account with the most logs.
pub const HTTP_EVENT_BYTES: usize = 64 * 1024;
/// Bytes that an HTTP/1.1 client may send while it receives events; they are ignored.
pub const HTTP_STRAY_BYTES: usize = 1024;
/// Bytes of a WebSocket message that needs no permit.
pub const HTTP_SMALL_MESSAGE_BYTES: usize = 4 * 1024;
/// Bytes of an unwanted body that the server discards, so that its client receives the refusal.
pub const HTTP_DISCARDED_BYTES: usize = 16 * 1024 * 1024;
/// Bytes of a file name in `Content-Disposition`; the rest is cut off.
pub const HTTP_FILE_NAME_BYTES: usize = 255;
/// Bytes of a request body that is held as a whole; JMAP's `maxSizeRequest`.
pub const HTTP_HELD_BODY_BYTES: usize = 10_000_000;
/// How long a client may transfer less than [`HTTP_STALLED_BYTES`] while others wait for memory that it
/// holds.
pub const HTTP_STALLED: Duration = Duration::from_secs(10);
/// Bytes that a client must transfer in that time.
pub const HTTP_STALLED_BYTES: usize = 64 * 1024;
/// As [`HTTP_STALLED`] for a large held body.
pub const HTTP_LARGE_BODY_STALLED: Duration = Duration::from_secs(5);
/// Bytes of such a body that must come in that time at least.
pub const HTTP_LARGE_BODY_STALLED_BYTES: usize = 32 * 1024;
/// How many such periods such a body may take while others wait.
pub const HTTP_LARGE_BODY_PERIODS: usize = 12;
/// Concurrent connections to `/metrics`, and likewise to the admin socket.
pub const OPERATOR_CONNECTIONS: usize = 8;
/// Bytes of one request on the admin socket.
pub const ADMIN_REQUEST_BYTES: usize = 1024;
/// Sessions, and likewise accounts, in one response on the admin socket.
pub const ADMIN_ROWS: usize = 200;

/// Bytes of one IMAP command before login, literals included: the longest ID that is allowed takes 32 KiB
/// (RFC 2971 §3.3).
pub const IMAP_COMMAND_BYTES_ANONYMOUS: usize = 40 * 1024;
/// Bytes of one IMAP command after login, streamed literals (messages) excluded.
pub const IMAP_COMMAND_BYTES: usize = 256 * 1024;
/// Bytes of an IMAP command that a session holds without a permit.
pub const IMAP_COMMAND_FREE_BYTES: usize = 4 * 1024;
/// Bytes of pending IMAP output that a session holds without a permit.
pub const IMAP_OUTPUT_FREE_BYTES: usize = 4 * 1024;
/// Bytes of a non-synchronizing literal where LITERAL- is announced (RFC 7888 §5).
pub const IMAP_LITERAL_MINUS_BYTES: u64 = 4096;
/// Nesting of lists and search keys in an IMAP command.
pub const IMAP_NESTING: usize = 64;
/// Nesting of lists in an IMAP response that our client reads: body structures nest deeper than commands.
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
/// UID ranges in the results of all of them together; each message of a sorted result counts as a range.
pub const IMAP_CONTEXT_RANGES: usize = 64 * 1024;
/// Messages in a sorted result that is kept up to date.
pub const IMAP_SORTED_CONTEXT: usize = 20_000;
/// Fuzzy strings of one search; each costs a hundred times as much as an exact one.
pub const FUZZY_STRINGS: usize = 16;
/// Different words of one string of a FUZZY search key; later ones are ignored.
pub const FUZZY_WORDS: usize = 16;
/// Bytes of a string that SORT compares.
pub const SORT_KEY_BYTES: usize = 1000;
/// References of one message that THREAD uses: the last ones.
pub const THREAD_REFERENCES: usize = 1000;
/// Criteria of one SORT.
pub const IMAP_SORT_CRITERIA: usize = 32;
/// Bytes of an IMAP command's tag.
pub const IMAP_TAG_BYTES: usize = 128;
/// Literals of one IMAP command, messages excluded.
pub const IMAP_LITERALS: usize = 2000;
/// Bytes of a client's line after a continuation request. The longest are SASL tokens (RFC 4959, RFC 7628).
pub const IMAP_LINE_BYTES: usize = 16 * 1024;
/// Bytes of a refused command that the server discards before login; after that it closes the connection.
pub const IMAP_SKIPPED_BYTES_ANONYMOUS: u64 = 64 * 1024;
/// Bytes of the messages in a refused command that the server discards after login.
pub const IMAP_SKIPPED_BYTES: u64 = 4 * 1024 * 1024 * 1024;
/// Bytes of its other parts: four times the longest command. A bound against decompression bombs, which
/// expand a thousandfold.
pub const IMAP_SKIPPED_COMMAND_BYTES: u64 = 1024 * 1024;
/// Share of the memory budget for compressed connections: the budget divided by this.
pub const IMAP_COMPRESSED_SHARE: usize = 4;
/// Share of the memory budget for the compressors of connections that are sending: the budget divided by
/// this.
pub const IMAP_COMPRESSORS_SHARE: usize = 8;
/// Fields of an ID command (RFC 2971 §3.3).
pub const IMAP_ID_FIELDS: usize = 30;
/// Consecutive bad commands of one IMAP session before the server closes it. A good command after login
/// resets the count.
pub const IMAP_ERRORS: usize = 20;

/// Bytes of a mailbox name: the whole path in UTF-8.
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

/// Records in one log entry when several requests are appended together.
pub const ENTRY_RECORDS: usize = 128;
/// How far behind the last entry of a log the next one may be, if other objects occupy the positions between.
/// Entries beyond that are damage: they are not read one by one, and nothing is appended to them.
pub const LOG_GAP: u64 = 64;
/// Objects at the paths of one log's entries that are no entries. They are recorded, so that they are neither
/// read nor reported again.
pub const LOG_NOISE: usize = 1024;
/// Log entries whose hashes a loaded account keeps, to detect that another node counts different ones.
pub const ENTRIES_COMPARED: usize = 4096;
/// Bytes of one log entry.
pub const ENTRY_BYTES: usize = 8 * 1024 * 1024;
/// Bytes that sealing may add to an object; larger objects are not read.
pub const SEALING_BYTES: usize = 64 * 1024;
/// Bytes of a sealed checkpoint manifest or attestation. An account of ten million messages takes some 2 MiB.
pub const MANIFEST_BYTES: usize = 8 * 1024 * 1024;
/// Bytes of a sealed mark in the folder of manifests; its content is in its name.
pub const MARK_BYTES: usize = 4096;
/// Keywords of one message.
pub const FLAG_SET_KEYWORDS: usize = 256;
/// Object ids that garbage collection holds at a time; a larger account takes several passes.
pub const GARBAGE_IDS: usize = 262_144;
/// Expunged UID ranges that a mailbox records for clients that resynchronise.
pub const VANISHED_RANGES: usize = 20_000;
/// Expunged messages, and likewise deleted mailboxes, that an account records for clients that request
/// changes since a position.
pub const TOMBSTONES: usize = 65_536;
/// Identifiers of one message that find its thread: its own, its oldest reference, and its latest ones.
pub const THREAD_LINKS: usize = 8;
/// Identifiers whose threads an account keeps, the latest ones.
pub const THREAD_LINKS_KNOWN: usize = 8192;
/// Messages of one thread that its mailbox counts include, the oldest ones: each change of one of them reads
/// all of them.
pub const THREAD_COUNTED: usize = 2048;
/// Placements of one message that these counts include.
pub const PLACEMENTS_COUNTED: usize = 256;
/// Small per-account objects (Sieve scripts, identities, import ledgers).
pub const ACCOUNT_OBJECTS: usize = 10_000;
/// Bytes of one small per-account object.
pub const ACCOUNT_OBJECT_BYTES: usize = 64 * 1024;
/// Bytes of all small per-account objects together.
pub const ACCOUNT_OBJECTS_BYTES: usize = 4 * 1024 * 1024;
/// Address books of an account.
pub const ADDRESS_BOOKS: usize = 100;
/// Bytes of the name of an address book (RFC 9610 §2).
pub const ADDRESS_BOOK_NAME_BYTES: usize = 255;
/// Bytes of the description of an address book.
pub const ADDRESS_BOOK_DESCRIPTION_BYTES: usize = 4096;
/// Contact cards of an account.
pub const CARDS: usize = 50_000;
/// Bytes of one contact card as JSON, without its pictures and sounds.
pub const CARD_BYTES: usize = 64 * 1024;
/// Bytes of all contact cards of an account, which are in memory while it is loaded.
pub const CARDS_BYTES: usize = 32 * 1024 * 1024;
/// Bytes of the uid of a contact card.
pub const CARD_UID_BYTES: usize = 1024;
/// Pictures and sounds of one contact card that are stored with it.
pub const CARD_MEDIA: usize = 16;
/// Bytes of one of them.
pub const CARD_MEDIA_BYTES: u64 = 5_000_000;
/// Languages that a contact card is localized to.
pub const CARD_LANGUAGES: usize = 32;
/// Bytes of the changes of contact cards that one log entry takes; more are several entries.
pub const CARDS_ENTRY_BYTES: usize = 512 * 1024;
/// Bytes of each key by which a contact card is sorted: of longer names the beginnings decide.
pub const CARD_SORT_BYTES: usize = 64;
/// Identities of an account, those of its own addresses included.
pub const IDENTITIES: usize = 256;
/// Bytes of one identity: its names, addresses and signatures.
pub const IDENTITY_BYTES: usize = 64 * 1024;
/// Bytes of all identities of an account together.
pub const IDENTITIES_BYTES: usize = 1024 * 1024;
/// Submissions that an account has a record of: beyond it the oldest that are final go.
pub const SUBMISSIONS: usize = 1000;
/// Bytes of all these records together, with the replies that each recipient may get: beyond it the
/// oldest that are final go.
pub const SUBMISSIONS_BYTES: usize = 4 * 1024 * 1024;
/// Recipients of one submission over JMAP.
pub const SUBMISSION_RECIPIENTS: usize = 1000;
/// Bytes of a server's reply that the record of a submission keeps for each recipient.
pub const SUBMISSION_REPLY_BYTES: usize = 256;
/// Identities, and submissions, that were removed and that an account remembers for /changes.
pub const RECORD_TOMBSTONES: usize = 4096;

/// Bytes of the part of an address before the `@`; RFC 5321 §4.5.3.1.1 promises 64, and tags make it longer.
pub const LOCAL_PART_BYTES: usize = 128;
/// Bytes of the domain of an address (RFC 5321 §4.5.3.1.2).
pub const DOMAIN_BYTES: usize = 255;
/// Networks for which logged failed logins are counted.
pub const FAILED_LOGIN_NETWORKS: usize = 1024;
/// Domains of accounts and aliases that are cached; with more, every domain counts as local.
pub const SERVED_DOMAINS: usize = 65_536;
/// Targets of one alias.
pub const ALIAS_TARGETS: usize = 100;
/// Length of a chain of aliases.
pub const ALIAS_DEPTH: usize = 8;
/// Addresses looked up to resolve one recipient.
pub const ALIAS_LOOKUPS: usize = 300;
/// App passwords of one account.
pub const ACCOUNT_APP_PASSWORDS: usize = 100;
/// OAuth grants of one account, authorization codes that wait among them; one more is refused once
/// unused ones are gone.
pub const ACCOUNT_GRANTS: usize = 50;
/// Web logins of one account; one more ends the one that was used least lately.
pub const ACCOUNT_WEB_LOGINS: usize = 20;
/// A grant that no client has used for so long is over (draft-ietf-mailmaint-oauth-public §3.9: at
/// least 30 days).
pub const GRANT_IDLE: Duration = Duration::from_secs(90 * 86_400);
/// A web login that was not used for so long is over.
pub const WEB_LOGIN_IDLE: Duration = Duration::from_secs(30 * 86_400);
/// How exactly the last use of a web login is known: it is written down at most once in this time.
pub const WEB_LOGIN_NOTED: Duration = Duration::from_secs(86_400);
/// Web logins whose last use a node has in memory; of others it reads it again.
pub const WEB_LOGINS_REMEMBERED: usize = 4096;
/// How long an authorization code is good (draft-ietf-mailmaint-oauth-public §3.4: at least ten
/// minutes; RFC 6749 §4.1.2: at most).
pub const OAUTH_CODE_LIFETIME: Duration = Duration::from_secs(600);
/// How long an access token is good (draft-ietf-mailmaint-oauth-public §3.9: at least an hour).
pub const OAUTH_ACCESS_LIFETIME: Duration = Duration::from_secs(3600);
/// For so long after a refresh the same refresh token gets the same answer: the first may be lost.
pub const OAUTH_REFRESH_GRACE: Duration = Duration::from_secs(30);
/// Bytes of a form or a registration that a client of OAuth sends.
pub const OAUTH_BODY_BYTES: usize = 16 * 1024;
/// Parameters in a request of OAuth.
pub const OAUTH_PARAMETERS: usize = 64;
/// Bytes of one parameter of a request of OAuth.
pub const OAUTH_PARAMETER_BYTES: usize = 4 * 1024;
/// Redirect URIs of one client.
pub const OAUTH_REDIRECT_URIS: usize = 8;
/// Bytes of one redirect URI.
pub const OAUTH_REDIRECT_URI_BYTES: usize = 256;
/// Bytes of the name of a client; the rest is cut off.
pub const OAUTH_CLIENT_NAME_BYTES: usize = 100;
/// Bytes of the id of a client: all that it registered.
pub const OAUTH_CLIENT_ID_BYTES: usize = OAUTH_PARAMETER_BYTES;
/// Password slots of one account that a login tries; an account has one.
pub const LOGIN_SLOTS: usize = 4;
/// Bytes of the label of an app password.
pub const TOKEN_LABEL_BYTES: usize = 200;
/// Bytes of a password or token.
pub const SECRET_BYTES: usize = 1024;
/// Entries that this process appended and has not yet announced on the bus. Beyond them, other nodes find
/// entries by reading the log.
pub const APPENDED_QUEUE: usize = 1024;
/// Bytes of a line that the bus between nodes sends.
pub const BUS_LINE_BYTES: usize = 64 * 1024;
/// Bytes of a bus message; larger ones are skipped.
pub const BUS_MESSAGE_BYTES: usize = 256;
/// Other nodes that a node tracks by their bus messages.
pub const BUS_NODES: usize = 1024;
/// Ballots of one log or record whose names stay in the store, where writers agree by ballots.
pub const BALLOTS: usize = 16;
/// Bytes of one sealed version of a record. A larger object is no version and is not read. An account with
/// all app passwords takes 64 KiB.
pub const RECORD_BYTES: usize = 1024 * 1024;
/// Versions of one record. An object with a higher number is no version, whichever process wrote it, so that
/// there is always a next one.
pub const RECORD_VERSIONS: u64 = 1 << 62;
/// Objects in a record's folder that are no versions and are read; with more, the record cannot be used.
pub const RECORD_NOISE: usize = 64;
/// Such objects that are cached for a minute, of all records together.
pub const RECORD_NOISE_REMEMBERED: usize = 4096;
/// Attempts to change a record while other writers keep changing it.
pub const RECORD_ATTEMPTS: usize = 32;
/// Records of accounts and aliases that are cached for deliveries.
pub const RECORDS_REMEMBERED: usize = 1024;
/// Size of a cached record with its path, in bytes: one with a password and a dozen app passwords.
pub const RECORD_REMEMBERED_BYTES: usize = 4096;
/// Patterns of one LIST command.
pub const IMAP_LIST_PATTERNS: usize = 16;
/// Identifiers in the access control list of one mailbox.
pub const ACL_ENTRIES: usize = 100;
/// Links of one account to shared mailboxes, its own and others'.
pub const LINKS: usize = 256;
/// Links of one account to mailboxes of one other account, so that no account can fill the list of another.
pub const LINKS_OF_ONE: usize = 128;
/// Links to mailboxes of one other account to which the account has not subscribed. Further offers make no
/// link, so that no other user can fill the list.
pub const UNACCEPTED_LINKS_OF_ONE: usize = 32;
/// The same for all other accounts together. The rest of [`LINKS`] is for the account's own shares and its
/// subscriptions.
pub const UNACCEPTED_LINKS: usize = 128;
/// Notices of changed rights that one account keeps (RFC 9670 §3), and as many of those that are gone:
/// the oldest go first.
pub const SHARE_NOTICES: usize = 80;
/// Users of its domain that one account is shown as principals (RFC 9670 §2), by name.
pub const PRINCIPALS: usize = 1000;
/// Domains whose users are kept in memory for principals.
pub const PRINCIPAL_DOMAINS: usize = 16;
/// How long the users of a domain are kept there.
pub const PRINCIPALS_KEPT: Duration = Duration::from_secs(30);
/// Accounts whose identity keys one account remembers, because it shared a mailbox with them.
pub const PINNED_IDENTITIES: usize = 1024;
/// Shared mailboxes of one account: those with a name, and those deleted or incomplete and still stored.
pub const SHARES: usize = 256;
/// Bytes of the patterns of one LIST command; the reference counts with each.
pub const IMAP_LIST_PATTERN_BYTES: usize = 4096;
/// Bytes of all names that an account subscribes to; each counts 32 bytes more.
pub const SUBSCRIPTIONS_BYTES: usize = 1024 * 1024;
/// Bytes of the name of a metadata entry.
pub const METADATA_ENTRY_BYTES: usize = 500;
/// Bytes of the value of a metadata entry (RFC 5464 §4.1 asks for at least 1024).
pub const METADATA_VALUE_BYTES: usize = ACCOUNT_OBJECT_BYTES;
/// Metadata entries of one mailbox, or of the server for one account (RFC 5464 §4.1 asks for at least 10).
pub const METADATA_ENTRIES: usize = 1000;
/// Bytes of all metadata of an account, names included: half the limit of small objects.
pub const METADATA_BYTES: usize = ACCOUNT_OBJECTS_BYTES / 2;
/// Metadata changes that an account keeps for sessions that must report them.
pub const METADATA_CHANGES: usize = 512;
/// Bytes of a sealed structure in the event of a delivery to a remote store; a larger one is read from the
/// object.
pub const DELIVERED_STRUCTURE_BYTES: usize = 2048;
/// Messages with a piece in one pack of a remote store.
pub const PACK_MESSAGES: usize = 1024;
/// Bytes of all pieces in one pack.
pub const PACK_BYTES: usize = 1024 * 1024;
/// Bytes of a message object that is packed whole.
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
/// Memory that one APPEND uses without a permit for messages stored and not yet placed, in bytes.
pub const APPEND_FREE_BYTES: usize = 4 * 1024;
/// Bytes that it acquires at once for more of them.
pub const APPEND_STEP_BYTES: usize = 16 * 1024;
/// Parts that form the messages of one APPEND (RFC 4469).
pub const IMAP_CATENATE_PARTS: usize = 10_000;
/// URLs of one GENURLAUTH or URLFETCH (RFC 4467).
pub const IMAP_URLS: usize = 100;
/// Bytes of an IMAP URL (RFC 5092).
pub const IMAP_URL_BYTES: usize = 8192;
/// Messages of one COPY or MOVE into or out of a shared mailbox; they are one log entry.
pub const COPY_BETWEEN: usize = 10_000;
/// Bytes of the names of all distinct flag sets in one archive folder. Beyond that, keywords are neither
/// compared nor shown.
pub const ARCHIVE_FLAG_BYTES: usize = 2 * 1024 * 1024;
/// Removed parts of an archived mbox when it is rewritten, about 30 MiB; an mbox with more is not rewritten.
pub const ARCHIVE_REWRITE_RANGES: usize = 1_000_000;
/// Bytes of one record in the journal of an archived folder.
pub const ARCHIVE_RECORD_BYTES: usize = 64 * 1024;
/// Bytes of one response of a source server, messages excluded: a SEARCH response with a million UIDs.
pub const ARCHIVE_RESPONSE_BYTES: usize = 8 * 1024 * 1024;
/// Bytes of one message on a source server: the maximum in IMAP4rev1.
pub const ARCHIVE_MESSAGE_BYTES: u64 = u32::MAX as u64;
/// Bytes of a response that a source server must send per period (`MinThroughput`): 34 a second.
pub const ARCHIVE_PACE_BYTES: u64 = 4096;
/// Bytes of a message that passes from a source server to the backup in one piece; a larger one streams.
pub const ARCHIVE_INLINE_BYTES: u64 = 64 * 1024;
/// Bytes of messages that one archive connection holds until their FETCH completes. Further messages are
/// written, and removed again if the FETCH fails.
pub const ARCHIVE_HELD_BYTES: usize = 4 * 1024 * 1024;
/// Untagged OK, NO and BAD responses, and continuation requests, that a source server may send within one
/// command. At one every ten seconds, that takes a day.
pub const ARCHIVE_REMARKS: usize = 10_000;
/// All other responses within one command: the flags of every message, twice.
pub const ARCHIVE_RESPONSES: usize = 2 * ARCHIVE_FOLDER_MESSAGES as usize;
/// Messages of one folder on a source server.
pub const ARCHIVE_FOLDER_MESSAGES: u32 = 10_000_000;
/// Consecutive FETCH commands without a message before the pull of a folder ends.
pub const ARCHIVE_EMPTY_FETCHES: u32 = 10_000;
/// Messages of a folder that were requested and not received, and that are recorded and reported one by one.
pub const ARCHIVE_DOUBTFUL: usize = 100_000;
/// Messages of a backup folder that the source deleted and that are recognised if they reappear under other
/// UIDs: the latest ones, about 30 MiB. Of earlier ones, only those in the record of restores are recognised.
pub const ARCHIVE_RETURNING: u64 = 500_000;
/// Mailboxes that are read from a server's LIST.
pub const ARCHIVE_FOLDERS: usize = 100_000;
/// Indistinguishable mailboxes of a server's LIST that are reported one by one.
pub const ARCHIVE_LEFT_OUT: usize = 100;
/// Bytes of an OAuth 2.0 access token for an archive's server.
pub const ARCHIVE_TOKEN_BYTES: usize = 64 * 1024;
/// Bytes that a compressed mail file may expand to, however small it is.
pub const IMPORT_UNPACKED_BYTES: u64 = 256 * 1024 * 1024;
/// Bytes that one byte of a compressed mail file may expand to, beyond [`IMPORT_UNPACKED_BYTES`]. Mail has a
/// ratio of five, attachments of one.
pub const IMPORT_UNPACKED_RATIO: u64 = 200;
/// Memory for decompressing a file, in bytes: enough for all levels of common programs, and for zstd's
/// `--long`.
pub const IMPORT_UNPACKING_BYTES: usize = 128 * 1024 * 1024;
/// Gmail labels of one message that an import uses.
pub const GMAIL_LABELS: usize = 100;
/// Messages whose bodies are evicted together.
pub const BODIES_TOGETHER: usize = 64;
/// As [`BODIES_TOGETHER`], in bytes of their stubs.
pub const BODIES_TOGETHER_BYTES: usize = 1024 * 1024;
/// Bodies that were fetched again and are cached, of all accounts of a process together.
pub const BODIES_SPOOLED: usize = 32;
/// Bytes of them, without the one that was fetched last.
pub const BODIES_SPOOLED_BYTES: u64 = 128 * 1024 * 1024;
/// DKIM signatures of a message that are verified, from the top.
pub const DKIM_SIGNATURES: usize = 8;
/// Names of signed fields in one DKIM signature.
pub const DKIM_SIGNED_FIELDS: usize = 256;
/// TXT records at the name of a DKIM key that are tried.
pub const DKIM_KEY_RECORDS: usize = 4;
/// Objects of the DKIM keys of one domain: two for each key.
pub const DKIM_DOMAIN_OBJECTS: usize = 128;
/// Domains whose signing keys a process caches; the least recently used is evicted.
pub const DKIM_DOMAINS_REMEMBERED: usize = 1024;
/// Policies of one day whose TLS sessions are counted for reports (RFC 8460); sessions under further policies
/// are counted together.
pub const TLS_REPORT_POLICIES: usize = 1000;
/// Kinds of failure of one such policy that are counted with their servers.
pub const TLS_REPORT_FAILURES: usize = 64;
/// Bytes of such a policy's text.
pub const TLS_REPORT_POLICY_BYTES: usize = 4096;
/// Estimated bytes of the counts of one day.
pub const TLS_REPORT_DAY_BYTES: usize = 512 * 1024;
/// Days of which TLS session counts are kept, today included.
pub const TLS_REPORT_DAYS: usize = 8;
/// Time for one DNS lookup, all its queries, retries and aliases together.
pub const DNS_LOOKUP_TIME: Duration = Duration::from_secs(30);
/// Time for all lookups of one domain in a command that its user waits for.
pub const DOMAIN_CHECK_TIME: Duration = Duration::from_secs(20);
/// Domains that a command checks at the same time.
pub const DOMAIN_CHECKS: usize = 8;
/// Concurrent DNS lookups of a process. One more waits, and the wait counts towards its lookup time.
pub const DNS_LOOKUPS: usize = 256;
/// Bytes of cached DNS answers.
pub const DNS_CACHE_BYTES: usize = 4 * 1024 * 1024;
/// Bytes of the key of a destination site; a longer one is replaced by its digest.
pub const SITE_KEY_BYTES: usize = 255;
/// Mail servers of a domain that are considered, best first.
pub const MX_HOSTS: usize = 16;
/// Addresses of each kind of one mail server that are tried.
pub const MX_ADDRESSES: usize = 4;
/// Connections tried for one destination before delivery is deferred.
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
/// Bytes of a name server's response over TCP.
pub const DNS_MESSAGE_BYTES: usize = 16 * 1024;
/// Records of one such response.
pub const DNS_MESSAGE_RECORDS: usize = 256;
/// Name server responses that recursion caches, besides [`DNS_CACHE_BYTES`].
pub const DNS_CACHED_MESSAGES: usize = 256;
/// Zones whose name servers recursion caches.
pub const DNS_CACHED_ZONES: usize = 512;
/// Bytes of one request to the JMAP API (RFC 8620 §2, `maxSizeRequest`).
pub const JMAP_REQUEST_BYTES: usize = 10_000_000;
/// Bytes of one upload over JMAP (RFC 8620 §2, `maxSizeUpload`).
pub const JMAP_UPLOAD_BYTES: u64 = 50_000_000;
/// Concurrent JMAP API requests of one user (RFC 8620 §2, `maxConcurrentRequests`).
pub const JMAP_CONCURRENT_REQUESTS: usize = 4;
/// Concurrent JMAP uploads of one user (RFC 8620 §2, `maxConcurrentUpload`).
pub const JMAP_CONCURRENT_UPLOADS: usize = 4;
/// Bytes of all uploads of an account (RFC 8620 §6); beyond that the oldest are removed.
pub const JMAP_UPLOADS_BYTES: u64 = 500_000_000;
/// Bytes of the texts and attachments of an email that a JMAP client composes, decoded (RFC 8621 §1.3.1,
/// `maxSizeAttachmentsPerEmail`).
pub const JMAP_EMAIL_BYTES: u64 = 100_000_000;
/// Uploads of an account; beyond that the oldest are removed.
pub const JMAP_UPLOADS: usize = 1000;
/// Method calls of one JMAP request (RFC 8620 §2, `maxCallsInRequest`).
pub const JMAP_CALLS: usize = 16;
/// Ids of one JMAP /get (RFC 8620 §2, `maxObjectsInGet`).
pub const JMAP_GET_OBJECTS: usize = 500;
/// Objects that one JMAP /set creates, updates and destroys (RFC 8620 §2, `maxObjectsInSet`).
pub const JMAP_SET_OBJECTS: usize = 500;
/// Nesting of arrays and objects in a JMAP request.
pub const JMAP_JSON_DEPTH: usize = 64;
/// Memory for the values of one JMAP request beside their text, in bytes. It bounds requests with millions of
/// empty objects in few bytes.
pub const JMAP_JSON_VALUE_BYTES: usize = 32 * 1024 * 1024;
/// The share of the memory budget for the values of JMAP requests: the common part divided by this.
pub const JMAP_VALUES_SHARE: usize = 4;
/// The part of that share for the values of small requests: the common part divided by this.
pub const JMAP_SMALL_VALUES_SHARE: usize = 32;
/// The most memory for the values of a small JMAP request, in bytes. Other requests are large.
pub const JMAP_SMALL_VALUES_BYTES: usize = 64 * 1024;
/// Small JMAP requests of one user that have or wait for memory for their values. More than run at a time
/// ([`JMAP_CONCURRENT_REQUESTS`]): one too many is refused, and must be read before that.
pub const JMAP_SMALL_REQUESTS_PER_USER: usize = 2 * JMAP_CONCURRENT_REQUESTS;
/// Large ones.
pub const JMAP_LARGE_REQUESTS_PER_USER: usize = 1;
/// How long the client of a large JMAP request may keep the server waiting while it takes the response, over
/// the whole of it, if others wait for memory.
pub const JMAP_LARGE_REQUEST_WAIT: Duration = Duration::from_secs(60);
/// Capabilities in `using` of one JMAP request.
pub const JMAP_USING: usize = 64;
/// Creation ids in `createdIds` of one JMAP request.
pub const JMAP_CREATED_IDS: usize = 10_000;
/// Bytes of a JMAP state string from a client: a position for each of [`SHARES`] and one more.
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
/// Bytes of the headers that JMAP reads of one message and its parts; further fields are left out.
pub const JMAP_HEADER_BYTES: u64 = 256 * 1024;
/// Bytes of the header values of one email in a JMAP response; further values are null.
pub const JMAP_HEADER_VALUE_BYTES: usize = 1024 * 1024;
/// Bytes of the texts (`bodyValues`) of one email in a JMAP response; a longer text is cut and marked as
/// such.
pub const JMAP_BODY_VALUE_BYTES: usize = 2 * 1024 * 1024;
/// Nested messages that a JMAP blob id leads through.
pub const JMAP_BLOB_STEPS: usize = 4;
/// Bytes of one blob in the response to Blob/get; clients request larger blobs in several ranges.
pub const JMAP_BLOB_DATA_BYTES: u64 = 4 * 1024 * 1024;
/// Sources of one blob in JMAP's Blob/upload (RFC 9404 §3.1, `maxDataSources`: at least 64).
pub const JMAP_DATA_SOURCES: usize = 64;
/// Bytes of a JMAP response that are buffered before they are sent; one object may exceed it.
pub const JMAP_SEND_BYTES: usize = 16 * 1024;
/// Ids of one JMAP /changes, even if the client requests more.
pub const JMAP_CHANGES: usize = 4096;
/// The interval at which the server compares an account for a client that waits for changes. Changes within
/// it are pushed as one.
pub const JMAP_PUSH_INTERVAL: Duration = Duration::from_millis(200);
/// The shortest ping interval of a JMAP event stream, even if the client requests less.
pub const JMAP_PING_LEAST: Duration = Duration::from_secs(5);
/// The longest ping interval.
pub const JMAP_PING_MOST: Duration = Duration::from_secs(300);
/// Bytes of the id that a client gives a JMAP request on a WebSocket.
pub const JMAP_WEBSOCKET_ID_BYTES: usize = 255;
/// Bytes of the URL of a JMAP push subscription.
pub const JMAP_PUSH_URL_BYTES: usize = 2048;
/// Bytes of `deviceClientId` of a JMAP push subscription.
pub const JMAP_DEVICE_ID_BYTES: usize = 255;
/// Types that a JMAP push subscription names.
pub const JMAP_PUSH_TYPES: usize = 64;
/// Bytes of the name of a type in a JMAP push subscription.
pub const JMAP_PUSH_TYPE_BYTES: usize = 64;
/// JMAP push subscriptions of one account (RFC 8620 §8.6).
pub const PUSH_SUBSCRIPTIONS: usize = 16;
/// JMAP push subscriptions that an account creates in an hour: each costs its URL one request before
/// the client has shown that it reads there (RFC 8620 §8.6).
pub const PUSH_CREATED_PER_HOUR: usize = 30;
/// How long a JMAP push subscription lasts at most, and if the client names no end (RFC 8620 §7.2: at
/// least 48 hours, should be 7 days).
pub const PUSH_LIFETIME: Duration = Duration::from_secs(7 * 86_400);
/// Accounts with JMAP push subscriptions that one node knows. Those beyond it get no pushes, and the
/// log says so.
pub const PUSH_ACCOUNTS: usize = 65_536;
/// Shared mailboxes of an account whose changes are pushed.
pub const PUSH_LOGS: usize = SHARES + 1;
/// Pushes that wait on one node for their time: one for each subscription. Further ones are dropped, and
/// the client finds the changes when it next looks (RFC 8620 §7).
pub const PUSH_WAITING: usize = 65_536;
/// Pushes that one node sends at the same time.
pub const PUSH_CONNECTIONS: usize = 32;
/// Between two pushes to one subscription: changes in between are pushed as one.
pub const PUSH_INTERVAL: Duration = Duration::from_secs(1);
/// What one push acquires while it is made and sent: all subscriptions of its account, and TLS.
pub const PUSH_WORK_BYTES: usize = 320 * 1024;
/// How long a client that makes a push subscription waits for the addresses of its host at most.
pub const PUSH_HOST_TIME: Duration = Duration::from_secs(5);
/// How long one push may take, from the name of the host to the response.
pub const PUSH_TIME: Duration = Duration::from_secs(30);
/// The pause after a push that failed; it doubles with each failure, up to [`PUSH_PAUSE_MOST`].
pub const PUSH_PAUSE: Duration = Duration::from_secs(10);
/// The longest pause between two attempts, also if the push service names a longer one.
pub const PUSH_PAUSE_MOST: Duration = Duration::from_secs(3600);
/// Attempts at one push that fail in a row; then it is dropped, and the next change begins again.
pub const PUSH_ATTEMPTS: u32 = 12;
/// Bytes of the head of a push service's response.
pub const PUSH_HEAD_BYTES: usize = 8 * 1024;
/// Header fields of a push service's response.
pub const PUSH_HEAD_FIELDS: usize = 64;
/// Bytes of a push before it is encrypted: a push service takes 4,096 (RFC 8291 §4).
pub const PUSH_BYTES: usize = 3993;
/// Appends to accounts without subscriptions that a node remembers for a while, because another node
/// may just have got the first one.
pub const PUSH_APPENDS_REMEMBERED: usize = 4096;
/// Bytes of the file that says up to where a node has pushed.
pub const PUSH_POSITIONS_BYTES: u64 = 16 * 1024 * 1024;
/// Different keywords that the filter and the sort of one query over emails name: a bit each.
pub const QUERY_KEYWORDS: usize = 64;
/// Conditions on message content in one query over emails; each is a search of its own. Adjacent ones count
/// as one.
pub const QUERY_CONTENTS: usize = 16;
/// Words and phrases of the texts in one JMAP filter.
pub const JMAP_FILTER_WORDS: usize = 256;
/// Bytes of an email's text in which SearchSnippet/get finds words.
pub const JMAP_SNIPPET_TEXT_BYTES: usize = 256 * 1024;
/// Ids of one response to Email/query, even if the client requests more.
pub const JMAP_QUERY_IDS: usize = 8192;
/// Bytes of one HTTP response that the load generator reads; a longer one ends the connection.
pub const BENCH_RESPONSE_BYTES: usize = 32 * 1024 * 1024;
/// Bytes of one event of a server (`text/event-stream`) that the load generator reads.
pub const BENCH_EVENT_BYTES: usize = 64 * 1024;
