//! The envelope: the parsed header fields of one message that IMAP's ENVELOPE, SEARCH, SORT and THREAD need.
//!
//! Values are as written, unfolded and not decoded (RFC 3501 §7.4.2 leaves encoded-words to the
//! client). Bytes that are not UTF-8 are read as windows-1252, and NUL becomes U+FFFD, so every
//! value can be sent in a literal.

/// The envelope of a message or of a nested message (RFC 3501 §7.4.2).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Envelope {
    /// The Date field as written.
    pub date: Option<String>,
    /// The Subject field, unfolded, encoded-words not decoded.
    pub subject: Option<String>,
    /// The From addresses.
    pub from: Vec<Address>,
    /// The Sender addresses, or those of From if there are none (RFC 3501 §7.4.2).
    pub sender: Vec<Address>,
    /// The Reply-To addresses, or those of From if there are none (RFC 3501 §7.4.2).
    pub reply_to: Vec<Address>,
    /// The To addresses.
    pub to: Vec<Address>,
    /// The Cc addresses.
    pub cc: Vec<Address>,
    /// The Bcc addresses.
    pub bcc: Vec<Address>,
    /// The In-Reply-To field as written.
    pub in_reply_to: Option<String>,
    /// The Message-ID field as written, angle brackets included.
    pub message_id: Option<String>,
    /// The References field as written, for threading.
    pub references: Option<String>,
    /// The Date field as seconds since 1970-01-01T00:00:00Z, if it can be understood.
    pub sent_date: Option<i64>,
    /// Minutes east of UTC that the Date field was written in; 0 if there is no date or its zone
    /// says nothing.
    pub sent_zone: i16,
}

impl Envelope {
    /// The day written in the Date field, as days since 1970-01-01, regardless of time and zone:
    /// compared by SENTBEFORE, SENTON and SENTSINCE (RFC 3501 §6.4.4).
    pub fn sent_day(&self) -> Option<i64> {
        self.sent_date
            .map(|seconds| seconds.saturating_add(i64::from(self.sent_zone) * 60).div_euclid(86_400))
    }
}

/// One address structure of an envelope (RFC 3501 §7.4.2).
///
/// A group is marked by structures of its own: its start has a mailbox (the group's name) and no
/// host, its end has neither. A name without an address, which RFC 5322 §3.4 does not allow, has an
/// empty mailbox and an empty host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Address {
    /// The display name, encoded-words not decoded.
    pub name: Option<String>,
    /// The obsolete source route.
    pub adl: Option<String>,
    /// The local part, unquoted; or the name of a group that starts here.
    pub mailbox: Option<String>,
    /// The domain. `None` marks the start or the end of a group; an address written without one has
    /// `Some("")`.
    pub host: Option<String>,
}

impl Address {
    /// True for an address, false for the marks around a group and for a name alone.
    pub fn is_mailbox(&self) -> bool {
        self.mailbox.as_ref().is_some_and(|mailbox| !mailbox.is_empty()) && self.host.is_some()
    }

    /// A name in the place of an address.
    pub fn name_alone(name: impl Into<String>) -> Self {
        Address {
            name: Some(name.into()),
            adl: None,
            mailbox: Some(String::new()),
            host: Some(String::new()),
        }
    }

    /// The marker that starts the group `name`.
    pub fn group_start(name: impl Into<String>) -> Self {
        Address { mailbox: Some(name.into()), ..Address::default() }
    }

    /// The marker that ends a group.
    pub fn group_end() -> Self {
        Address::default()
    }
}
