//! Limits on submitted and forwarded messages.

use super::queue::QUEUE_INLINE_BYTES;

/// Bytes of the header of a submitted message. The session holds the whole header to complete and sign it.
pub const SUBMISSION_HEADER_BYTES: usize = 256 * 1024;
/// Bytes of such a header for which a submission acquires no more memory than for any message.
pub const SUBMISSION_SMALL_HEADER_BYTES: usize = 32 * 1024;
/// URLs of one submitted message (BURL, RFC 4468).
pub const SUBMISSION_URLS: usize = 100;
/// Bytes acquired for a submitted message of more than [`SMTP_HEAD_BYTES`](super::SMTP_HEAD_BYTES): its
/// header as received and as completed, the body up to [`QUEUE_INLINE_BYTES`], and a piece in transit.
pub const SUBMISSION_MEMORY_BYTES: usize = 2 * SUBMISSION_SMALL_HEADER_BYTES + QUEUE_INLINE_BYTES + 32 * 1024;
/// Bytes of a Message-ID that the queue keeps, to find the mail by; RFC 5322 §2.1.1: lines have no more.
pub const MESSAGE_ID_BYTES: usize = 998;
/// Addresses and domains that an account may send as besides its own.
pub const ALLOWED_SENDERS: usize = 100;
/// Bytes acquired for a forwarded message on its way into the queue.
pub const FORWARDING_MEMORY_BYTES: usize = QUEUE_INLINE_BYTES + 32 * 1024;
/// Aliases whose forwarded recipients are counted in an hour; further aliases wait for the next.
pub const FORWARDING_ALIASES: usize = 16_384;
/// Bytes of a reverse-path of forwarded mail (RFC 5321 §4.5.3.1.3, without its brackets); a sender
/// that would become longer is not rewritten.
pub const SRS_ADDRESS_BYTES: usize = 254;
