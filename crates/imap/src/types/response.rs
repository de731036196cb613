//! [`Response`]: a server's response, except FETCH data, which streams; status and response codes.

use super::acl::AclData;
use super::command::IdFields;
use super::esearch::ESearch;
use super::flag::{Flag, PermanentFlag};
use super::list::{ListItem, MailboxAttribute, Namespaces};
use super::mailbox::Mailbox;
use super::metadata::{Entry, MetadataCode};
use super::object_id::ObjectId;
use super::quota::QuotaResource;
use super::sequence::SequenceSet;
use super::status::StatusValue;
use super::string::{AString, Atom, Tag};

/// The condition of a status response (RFC 3501 §7.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// Done, or for information.
    Ok,
    /// Failed, or a warning.
    No,
    /// The client is wrong.
    Bad,
    /// Greeting: already authenticated. Never tagged.
    PreAuth,
    /// The connection ends. Never tagged.
    Bye,
}

/// A response code (RFC 3501 §7.1, RFC 4315, RFC 5530 and the extensions that define more).
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the code of that name")]
pub enum Code {
    Alert,
    /// Charsets that would do; empty: none named.
    BadCharset(Vec<AString>),
    Capability(Vec<Atom>),
    Parse,
    PermanentFlags(Vec<PermanentFlag>),
    ReadOnly,
    ReadWrite,
    TryCreate,
    UidNext(u32),
    UidValidity(u32),
    Unseen(u32),
    /// RFC 4315 §3
    AppendUid {
        uid_validity: u32,
        uids: SequenceSet,
    },
    /// RFC 4315 §3
    CopyUid {
        uid_validity: u32,
        from: SequenceSet,
        to: SequenceSet,
    },
    UidNotSticky,
    Unavailable,
    AuthenticationFailed,
    AuthorizationFailed,
    Expired,
    PrivacyRequired,
    ContactAdmin,
    NoPerm,
    InUse,
    ExpungeIssued,
    Corruption,
    ServerBug,
    ClientBug,
    Cannot,
    Limit,
    OverQuota,
    AlreadyExists,
    NonExistent,
    /// RFC 6154 §3: the special use cannot be given.
    UseAttr,
    /// RFC 4469 §4, RFC 7889: the message is too big.
    TooBig,
    /// RFC 3516 §4.3: the section's Content-Transfer-Encoding is not known, or cannot be stored.
    UnknownCte,
    /// RFC 7162 §3.2.11
    Closed,
    /// RFC 7162 §3.1.2.1
    HighestModSeq(u64),
    /// RFC 7162 §3.1.2.2
    NoModSeq,
    /// RFC 7162 §3.1.3: messages that STORE left alone.
    Modified(SequenceSet),
    /// RFC 9586 §3.1: the command names messages by number.
    UidRequired,
    /// RFC 5182 §2.5: the result of a search was not saved.
    NotSaved,
    /// RFC 5466 §3.1: there is no search stored under that name.
    UndefinedFilter(Atom),
    /// RFC 5267 §4.3.1: there will be no updates for the search of that tag.
    NoUpdate(AString),
    /// RFC 9051 §6.3.5: the mailbox has inferior ones.
    HasChildren,
    /// RFC 8474 §4.1
    MailboxId(ObjectId),
    /// RFC 5464 §5
    Metadata(MetadataCode),
    /// Any other: its name and the text after it.
    Other(Atom, Option<String>),
}

/// One response, complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Response {
    /// `* OK …`, or with a tag the completion of a command.
    Status {
        /// `None`: untagged.
        tag: Option<Tag>,
        /// The condition.
        status: Status,
        /// `[…]`
        code: Option<Code>,
        /// Human-readable text.
        text: String,
    },
    /// `+ …`: the server waits for more.
    Continue(String),
    /// `CAPABILITY`
    Capability(Vec<Atom>),
    /// `LIST`
    List(ListItem),
    /// `LSUB`
    Lsub(ListItem),
    /// `LIST` or `LSUB` of a name that is not modified UTF-7, UTF-8 without ENABLE included: only
    /// read, from servers that do not keep to it.
    ListUndecodable {
        /// Attributes.
        attributes: Vec<MailboxAttribute>,
        /// The hierarchy delimiter.
        delimiter: Option<char>,
        /// The name as it was sent: commands must send it the same way ([`crate::write::Writer::astring`]).
        wire: AString,
    },
    /// `STATUS`
    MailboxStatus {
        /// Which mailbox.
        mailbox: Mailbox,
        /// Its numbers; items this crate does not know are left out.
        values: Vec<StatusValue>,
    },
    /// `SEARCH`
    Search {
        /// Sequence numbers or UIDs.
        numbers: Vec<u32>,
        /// The highest mod-sequence among the messages, if the search asked about mod-sequences
        /// (RFC 7162 §3.1.5).
        modseq: Option<u64>,
    },
    /// `ESEARCH`
    ESearch(ESearch),
    /// `SORT` (RFC 5256)
    Sort(Vec<u32>),
    /// `FLAGS`
    Flags(Vec<Flag>),
    /// `n EXISTS`
    Exists(u32),
    /// `n RECENT`
    Recent(u32),
    /// `n EXPUNGE`
    Expunge(u32),
    /// `VANISHED` (RFC 7162 §3.2.10)
    Vanished {
        /// Whether they went before this session saw the mailbox.
        earlier: bool,
        /// The UIDs, without `*`.
        uids: SequenceSet,
    },
    /// `ENABLED` (RFC 5161)
    Enabled(Vec<Atom>),
    /// `NAMESPACE` (RFC 2342)
    Namespace(Namespaces),
    /// `JMAPACCESS` (RFC 9698 §4): the URL of the JMAP session.
    JmapAccess(String),
    /// `ACL`, `LISTRIGHTS`, `MYRIGHTS` (RFC 4314)
    Acl(AclData),
    /// `ID` (RFC 2971); `None` is NIL.
    Id(Option<IdFields>),
    /// `METADATA` with values (RFC 5464 §4.4.1)
    Metadata {
        /// The mailbox of the entries; `None`: the server.
        mailbox: Option<Mailbox>,
        /// Entries with their values; `None` is NIL.
        entries: Vec<(Entry, Option<Vec<u8>>)>,
    },
    /// `METADATA` without values: these have changed (RFC 5464 §4.4.2).
    MetadataChanged {
        /// The mailbox of the entries; `None`: the server.
        mailbox: Option<Mailbox>,
        /// At least one.
        entries: Vec<Entry>,
    },
    /// `QUOTA` (RFC 9208 §4.2.1)
    Quota {
        /// The name of the quota root.
        root: AString,
        /// The resources limited in it.
        resources: Vec<QuotaResource>,
    },
    /// `QUOTAROOT` (RFC 9208 §4.2.2)
    QuotaRoot {
        /// Which mailbox.
        mailbox: Mailbox,
        /// The names of its quota roots.
        roots: Vec<AString>,
    },
    /// Untagged data of another kind: the line after `* `, without literals' structure.
    Other(Vec<u8>),
}

impl Status {
    /// As written.
    pub fn name(self) -> &'static str {
        match self {
            Status::Ok => "OK",
            Status::No => "NO",
            Status::Bad => "BAD",
            Status::PreAuth => "PREAUTH",
            Status::Bye => "BYE",
        }
    }
}

impl Code {
    /// Codes that are a name alone.
    pub(crate) const SIMPLE: [(Code, &'static str); 32] = [
        (Code::Alert, "ALERT"),
        (Code::Parse, "PARSE"),
        (Code::ReadOnly, "READ-ONLY"),
        (Code::ReadWrite, "READ-WRITE"),
        (Code::TryCreate, "TRYCREATE"),
        (Code::UidNotSticky, "UIDNOTSTICKY"),
        (Code::Unavailable, "UNAVAILABLE"),
        (Code::AuthenticationFailed, "AUTHENTICATIONFAILED"),
        (Code::AuthorizationFailed, "AUTHORIZATIONFAILED"),
        (Code::Expired, "EXPIRED"),
        (Code::PrivacyRequired, "PRIVACYREQUIRED"),
        (Code::ContactAdmin, "CONTACTADMIN"),
        (Code::NoPerm, "NOPERM"),
        (Code::InUse, "INUSE"),
        (Code::ExpungeIssued, "EXPUNGEISSUED"),
        (Code::Corruption, "CORRUPTION"),
        (Code::ServerBug, "SERVERBUG"),
        (Code::ClientBug, "CLIENTBUG"),
        (Code::Cannot, "CANNOT"),
        (Code::Limit, "LIMIT"),
        (Code::OverQuota, "OVERQUOTA"),
        (Code::AlreadyExists, "ALREADYEXISTS"),
        (Code::NonExistent, "NONEXISTENT"),
        (Code::UseAttr, "USEATTR"),
        (Code::TooBig, "TOOBIG"),
        (Code::UnknownCte, "UNKNOWN-CTE"),
        (Code::Closed, "CLOSED"),
        (Code::HasChildren, "HASCHILDREN"),
        (Code::NoModSeq, "NOMODSEQ"),
        (Code::UidRequired, "UIDREQUIRED"),
        (Code::NotSaved, "NOTSAVED"),
        (Code::BadCharset(Vec::new()), "BADCHARSET"),
    ];
}
