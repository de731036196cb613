//! What can happen to an account. The log holds nothing else, and every view is made from it.
//!
//! Encoded with numbered fields (CBOR): numbers are never reused, so that old logs stay readable.
//! `docs/format/events.md` gives the bytes.

use std::fmt;

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};
use sealpost_base::{
    AccountId, Error, IdentityId, MailboxId, ModSeq, ObjectId, Result, SubmissionId, Timestamp, Uid, UidSet,
};
use sealpost_vault::message::{Layout, MessageKey};

mod flags;

pub use flags::{FlagAction, Flags, SystemFlags};

use crate::contacts::{AddressBookFields, AddressBookId, CardContent, CardId};
use crate::identity::Identity;
use crate::share::{Link, UnacceptedLinks};
pub use crate::special_use::SpecialUse;
use crate::submission::{Submission, SubmissionNews};
use crate::thread::ThreadId;

/// What one log entry carries: events that happened together, at one time.
#[derive(Debug, Clone, Encode, Decode)]
pub struct Batch {
    /// The time at which the writer made the entry.
    #[n(0)]
    pub at: Timestamp,
    /// In the order in which they are applied.
    #[n(1)]
    pub events: Vec<Event>,
}

impl Batch {
    /// The bytes that are sealed into a log entry.
    pub fn encode(&self) -> Vec<u8> {
        minicbor::to_vec(self).unwrap_or_default()
    }

    /// Reads what [`Batch::encode`] wrote.
    ///
    /// # Errors
    /// `Retry` if it has an event that this version does not know, `Corrupt` if the bytes are anything else.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        minicbor::decode(bytes).map_err(|e| Error::undecodable("a log entry", e))
    }
}

/// One event. An event that refers to something gone does nothing.
#[derive(Debug, Clone, Encode, Decode)]
pub enum Event {
    /// A mailbox was made. It gets the next id and the next UIDVALIDITY.
    #[n(0)]
    MailboxCreated {
        /// Its full name, `/` between levels.
        #[n(0)]
        name: String,
        /// What it is for (RFC 6154).
        #[n(1)]
        special_use: Option<SpecialUse>,
    },
    /// A mailbox got another name, and its inferiors with it.
    #[n(1)]
    MailboxRenamed {
        /// Which.
        #[n(0)]
        mailbox: MailboxId,
        /// The new full name.
        #[n(1)]
        name: String,
    },
    /// A mailbox was deleted; its messages are kept for the grace period.
    #[n(2)]
    MailboxDeleted {
        /// Which.
        #[n(0)]
        mailbox: MailboxId,
    },
    /// A name was subscribed to, or no longer is; the mailbox need not exist (RFC 3501 §6.3.6).
    #[n(3)]
    Subscribed {
        /// The mailbox name.
        #[n(0)]
        name: String,
        /// Whether it is subscribed to now.
        #[n(1)]
        on: bool,
    },
    /// Mail arrived. With [`Event::Offered`] and [`Event::SubmissionOutcome`] the only event that may be
    /// sealed to the public key.
    #[n(4)]
    Delivered {
        /// Where to; the inbox if there is no such mailbox, or it is a link.
        #[n(0)]
        target: Option<Target>,
        /// The message.
        #[n(1)]
        message: Message,
        /// Its sealed structure, as in the object, so that readers of the entry need not read the
        /// object. A hint only, and not part of the state.
        #[n(2)]
        structure: Option<ByteVec>,
        /// Its first flags; those that are not allowed are left out.
        #[n(3)]
        flags: Flags,
        /// A mailbox of the target's name is made if there is none, and it may be.
        #[n(4)]
        create: bool,
        /// It is a delivery status notification of a queue of this installation about that submission.
        #[n(5)]
        report_on: Option<SubmissionId>,
    },
    /// A client stored a message.
    #[n(5)]
    Appended {
        /// Where.
        #[n(0)]
        mailbox: MailboxId,
        /// The message.
        #[n(1)]
        message: Message,
        /// Its first flags.
        #[n(2)]
        flags: Flags,
    },
    /// Messages got a second placement, with the same flags.
    #[n(6)]
    Copied {
        /// From where.
        #[n(0)]
        from: MailboxId,
        /// Which.
        #[n(1)]
        uids: UidSet,
        /// To where; new UIDs in the order of the old ones.
        #[n(2)]
        to: MailboxId,
    },
    /// Messages changed their placement (RFC 6851).
    #[n(7)]
    Moved {
        /// From where.
        #[n(0)]
        from: MailboxId,
        /// Which.
        #[n(1)]
        uids: UidSet,
        /// To where; new UIDs in the order of the old ones.
        #[n(2)]
        to: MailboxId,
    },
    /// Flags of messages changed.
    #[n(8)]
    FlagsStored {
        /// Where.
        #[n(0)]
        mailbox: MailboxId,
        /// Which.
        #[n(1)]
        uids: UidSet,
        /// How.
        #[n(2)]
        action: FlagAction,
        /// Which flags.
        #[n(3)]
        flags: Flags,
        /// Messages changed later than this are left alone (RFC 7162 §3.1.3).
        #[n(4)]
        unchanged_since: Option<ModSeq>,
    },
    /// Messages were expunged; they are kept for the grace period.
    #[n(9)]
    Expunged {
        /// Where.
        #[n(0)]
        mailbox: MailboxId,
        /// Which.
        #[n(1)]
        uids: UidSet,
    },
    /// A session reported messages as recent, so no other will (RFC 3501 §2.3.2).
    #[n(10)]
    RecentTaken {
        /// Where.
        #[n(0)]
        mailbox: MailboxId,
        /// Messages below this UID are no longer recent.
        #[n(1)]
        below: Uid,
    },
    /// A small per-account object was stored under a name, replacing an earlier one.
    #[n(11)]
    ObjectPut {
        /// Its name; the part before the first `/` says what kind it is.
        #[n(0)]
        name: String,
        /// Its content.
        #[n(1)]
        #[cbor(with = "minicbor::bytes")]
        value: Vec<u8>,
    },
    /// A small per-account object was removed.
    #[n(12)]
    ObjectRemoved {
        /// Its name.
        #[n(0)]
        name: String,
    },
    /// The grace period of what was expunged before this time is over.
    #[n(13)]
    Purged {
        /// Expunged before this.
        #[n(0)]
        before: Timestamp,
    },
    /// Expunged messages still in their grace period were placed in a mailbox again.
    #[n(14)]
    Restored {
        /// Where to.
        #[n(0)]
        to: MailboxId,
        /// Expunged at this time or later.
        #[n(1)]
        since: Timestamp,
    },
    /// A mailbox was shared: its messages were put into a share, and its name leads there from now
    /// on. What is still in it is kept for the grace period.
    #[n(15)]
    Linked {
        /// Which.
        #[n(0)]
        mailbox: MailboxId,
        /// The share.
        #[n(1)]
        link: Link,
    },
    /// Another account gives this one a share. May be sealed to the public key: it makes a link and
    /// does nothing else.
    #[n(16)]
    Offered {
        /// The share.
        #[n(0)]
        link: Link,
        /// What its owner calls the mailbox; with `below`, the last level of its name.
        #[n(1)]
        name: String,
        /// Another user created the mailbox for this account below this share of its own.
        #[n(2)]
        below: Option<AccountId>,
        /// How many links may be there that the account has not subscribed to. Not in entries of
        /// earlier versions: then only the limits on all links count.
        #[n(3)]
        unaccepted: Option<UnacceptedLinks>,
    },
    /// A mailbox has these special uses and no others; no other mailbox has any of them (RFC 6154 §3, §4).
    #[n(20)]
    SpecialUsesSet {
        /// Which.
        #[n(0)]
        mailbox: MailboxId,
        /// Its uses.
        #[n(1)]
        uses: Vec<SpecialUse>,
    },
    /// A name that is only a level above mailboxes got another name: all mailboxes below it, at once.
    #[n(21)]
    HierarchyRenamed {
        /// The full name of the level.
        #[n(0)]
        from: String,
        /// Its new full name.
        #[n(1)]
        to: String,
    },
    /// A client stored a message in the place of another one, which was expunged (RFC 8508). If one
    /// of the two cannot be, neither is.
    #[n(26)]
    Replaced {
        /// Where the old message was.
        #[n(0)]
        from: MailboxId,
        /// The old message.
        #[n(1)]
        uid: Uid,
        /// Where the new one is.
        #[n(2)]
        to: MailboxId,
        /// The new message.
        #[n(3)]
        message: Message,
        /// Its first flags.
        #[n(4)]
        flags: Flags,
    },
    /// A UIDVALIDITY was given in another log to a name that may be one of this log's, now or
    /// again: those that are given here from now on are greater (RFC 3501 §2.3.1.1).
    #[n(27)]
    UidValidityRaised {
        /// The UIDVALIDITY.
        #[n(0)]
        above: u32,
        /// A mailbox that is renumbered unless its UIDVALIDITY is greater.
        #[n(1)]
        mailbox: Option<MailboxId>,
    },
    /// A share belongs to this account, and its former mailbox is unknown: it gets a name. No
    /// writer makes this event; replay makes it from a [`Event::Linked`] from before a renumbering.
    #[n(28)]
    Found {
        /// The share.
        #[n(0)]
        link: Link,
    },
    /// A message is handed over to a queue: it was recorded, and the queue takes it next.
    #[n(40)]
    Submitted {
        /// What is handed over.
        #[n(0)]
        submission: Submission,
    },
    /// What became of a submission. May be sealed to the public key: it changes a submission that is
    /// recorded and does nothing else.
    #[n(41)]
    SubmissionOutcome {
        /// Which.
        #[n(0)]
        submission: SubmissionId,
        /// What became of it, in order.
        #[n(1)]
        news: Vec<SubmissionNews>,
    },
    /// The record of a submission was removed.
    #[n(42)]
    SubmissionRemoved {
        /// Which.
        #[n(0)]
        submission: SubmissionId,
    },
    /// An identity was stored, in the place of an earlier one of that id.
    #[n(43)]
    IdentityStored {
        /// Its id.
        #[n(0)]
        id: IdentityId,
        /// The identity.
        #[n(1)]
        identity: Identity,
    },
    /// An identity was removed.
    #[n(44)]
    IdentityRemoved {
        /// Which.
        #[n(0)]
        id: IdentityId,
    },
    /// An address book was made. It gets the next id.
    #[n(49)]
    AddressBookCreated {
        /// What the client set.
        #[n(0)]
        fields: AddressBookFields,
    },
    /// An address book was changed.
    #[n(50)]
    AddressBookChanged {
        /// Which.
        #[n(0)]
        book: AddressBookId,
        /// What it has from now on.
        #[n(1)]
        fields: AddressBookFields,
    },
    /// An address book was deleted, which is not the default one; cards that are in no other go too.
    #[n(51)]
    AddressBookDeleted {
        /// Which.
        #[n(0)]
        book: AddressBookId,
    },
    /// Another address book is the default one.
    #[n(52)]
    DefaultAddressBookSet {
        /// Which.
        #[n(0)]
        book: AddressBookId,
    },
    /// A contact card was made, and gets the next id, or replaced as a whole.
    #[n(53)]
    CardStored {
        /// Which one is replaced; `None`: a new one.
        #[n(0)]
        card: Option<CardId>,
        /// What it has from now on.
        #[n(1)]
        content: CardContent,
    },
    /// A contact card was deleted.
    #[n(54)]
    CardDeleted {
        /// Which.
        #[n(0)]
        card: CardId,
    },
}

/// Which mailbox a delivery is for.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Target {
    /// The one of that name, in any form of Unicode.
    #[n(0)]
    Named(#[n(0)] String),
    /// The one with that id.
    #[n(1)]
    Mailbox(#[n(0)] MailboxId),
}

/// A stored message: where its object is and how to open it. Immutable; placements point to it.
#[derive(Clone, Encode, Decode)]
pub struct Message {
    /// The sealed object.
    #[n(0)]
    pub object: ObjectId,
    /// Opens the object.
    #[n(1)]
    pub key: MessageKey,
    /// Where in the object the raw bytes, the text and the structure are.
    #[n(2)]
    pub layout: Layout,
    /// INTERNALDATE (RFC 3501 §2.3.3).
    #[n(3)]
    pub received: Timestamp,
    /// The object in another account's log from which this one was sealed again: clients know them
    /// as the same message (RFC 8474 §5.1).
    #[n(4)]
    pub origin: Option<Box<ObjectId>>,
    /// In an event, the thread that the message founds or its oldest reference does; in the state, its thread
    /// ([`crate::thread`]).
    #[n(5)]
    pub thread: ThreadId,
    /// What may join it to another thread: its own link, then those of its references, the latest
    /// first. None in the state, nor in an event whose message has its thread from another log.
    #[n(6)]
    pub links: Vec<ThreadId>,
}

impl Message {
    /// The object that first held the message, in whichever log.
    pub fn first_object(&self) -> ObjectId {
        self.origin.as_deref().copied().unwrap_or(self.object)
    }

    /// RFC822.SIZE: bytes of the message as it was received.
    pub fn size(&self) -> u64 {
        self.layout.raw_bytes
    }
}

/// Shows the object, never the key.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Message({}, {} bytes)", self.object, self.size())
    }
}

impl Event {
    /// Whether it counts in an entry that is sealed to the public key, whose writer need not be the owner.
    pub fn needs_no_owner(&self) -> bool {
        matches!(self, Event::Delivered { .. } | Event::Offered { .. } | Event::SubmissionOutcome { .. })
    }

    /// A delivery to the inbox, without flags.
    pub fn delivered(message: Message) -> Self {
        let (target, structure, flags, create, report_on) = (None, None, Flags::default(), false, None);
        Event::Delivered { target, message, structure, flags, create, report_on }
    }

    /// Whether the event removes mail, now or when the client continues: on a full disk such events
    /// may use the reserve.
    pub fn frees_room(&self) -> bool {
        match self {
            Event::Expunged { .. }
            | Event::MailboxDeleted { .. }
            | Event::Purged { .. }
            | Event::ObjectRemoved { .. }
            | Event::AddressBookDeleted { .. }
            | Event::CardDeleted { .. }
            | Event::SubmissionRemoved { .. }
            | Event::IdentityRemoved { .. }
            // Clients move to the trash what they remove.
            | Event::Moved { .. } => true,
            Event::FlagsStored { action: FlagAction::Add | FlagAction::Replace, flags, .. } => {
                flags.system.contains(SystemFlags::DELETED)
            }
            _ => false,
        }
    }
}
