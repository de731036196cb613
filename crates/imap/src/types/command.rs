//! [`Command`]: everything a client can ask, except APPEND and REPLACE, which stream ([`super::AppendHead`]).

use super::acl::AclCommand;
use super::fetch::FetchItem;
use super::flag::Flag;
use super::list::{List, ListPattern, MailboxAttribute};
use super::mailbox::Mailbox;
use super::metadata::{GetMetadata, SetMetadata};
use super::modifier::{FetchModifier, SelectParameter, StoreModifier};
use super::multisearch::MultiSearch;
use super::notify::Notify;
use super::quota::QuotaLimit;
use super::search::Search;
use super::sequence::SequenceSet;
use super::sort::{Sort, Thread};
use super::status::StatusItem;
use super::string::{AString, Atom, Secret, Tag};
use super::urlauth::UrlCommand;

/// A complete command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The tag its completion carries.
    pub tag: Tag,
    /// The command and its arguments.
    pub body: CommandBody,
}

/// Names and values of ID; a value may be NIL (RFC 2971 §3.3).
pub type IdFields = Vec<(AString, Option<AString>)>;

/// A command and its arguments. `uid: true` is the `UID` form of the same command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandBody {
    /// `CAPABILITY`
    Capability,
    /// `NOOP`
    Noop,
    /// `LOGOUT`
    Logout,
    /// `ID` (RFC 2971); `None` is NIL. At most 30 fields.
    Id(Option<IdFields>),

    /// `STARTTLS`
    StartTls,
    /// `LOGIN`
    Login {
        /// The user's name.
        user: AString,
        /// The password.
        password: Secret,
    },
    /// `AUTHENTICATE`; the rest of the exchange are lines (`server::Event::Line`).
    Authenticate {
        /// The SASL mechanism, `PLAIN`.
        mechanism: Atom,
        /// The initial response, still base64; `=` is an empty one (RFC 4959 §3).
        initial: Option<Secret>,
    },

    /// `UNAUTHENTICATE` (RFC 8437)
    Unauthenticate,
    /// `COMPRESS` (RFC 4978): the algorithm, `DEFLATE`.
    Compress(Atom),
    /// `ENABLE` (RFC 5161): at least one capability.
    Enable(Vec<Atom>),
    /// `SELECT`, or `EXAMINE` if read-only.
    Select {
        /// Which mailbox.
        mailbox: Mailbox,
        /// Whether it was EXAMINE.
        read_only: bool,
        /// Parameters, each at most once.
        parameters: Vec<SelectParameter>,
    },
    /// `CREATE`, with `(USE (…))` of RFC 6154 §3.
    Create {
        /// The name.
        mailbox: Mailbox,
        /// Special uses asked for.
        special_use: Vec<MailboxAttribute>,
    },
    /// `DELETE`
    Delete(Mailbox),
    /// `RENAME`
    Rename {
        /// The present name.
        from: Mailbox,
        /// The new name.
        to: Mailbox,
    },
    /// `SUBSCRIBE`
    Subscribe(Mailbox),
    /// `UNSUBSCRIBE`
    Unsubscribe(Mailbox),
    /// `LIST`
    List(List),
    /// `LSUB`
    Lsub {
        /// The reference name.
        reference: Mailbox,
        /// The pattern.
        pattern: ListPattern,
    },
    /// `NAMESPACE` (RFC 2342)
    Namespace,
    /// `GETJMAPACCESS` (RFC 9698 §4)
    GetJmapAccess,
    /// `SETACL`, `DELETEACL`, `GETACL`, `LISTRIGHTS`, `MYRIGHTS` (RFC 4314)
    Acl(AclCommand),
    /// `GENURLAUTH`, `URLFETCH`, `RESETKEY` (RFC 4467)
    Url(UrlCommand),
    /// `STATUS`
    Status {
        /// Which mailbox.
        mailbox: Mailbox,
        /// At least one item.
        items: Vec<StatusItem>,
    },
    /// `NOTIFY` (RFC 5465)
    Notify(Notify),
    /// `GETMETADATA` (RFC 5464 §4.2)
    GetMetadata(GetMetadata),
    /// `SETMETADATA` (RFC 5464 §4.3)
    SetMetadata(SetMetadata),
    /// `GETQUOTA` (RFC 9208 §4.1.1): the name of a quota root.
    GetQuota(AString),
    /// `GETQUOTAROOT` (RFC 9208 §4.1.2)
    GetQuotaRoot(Mailbox),
    /// `SETQUOTA` (RFC 9208 §4.1.3)
    SetQuota {
        /// The name of the quota root.
        root: AString,
        /// All limits it has from now on.
        limits: Vec<QuotaLimit>,
    },
    /// `IDLE` (RFC 2177): ends with the line DONE.
    Idle,

    /// `CHECK`
    Check,
    /// `CLOSE`
    Close,
    /// `UNSELECT` (RFC 3691)
    Unselect,
    /// `EXPUNGE`, or `UID EXPUNGE set` (RFC 4315 §2.1).
    Expunge {
        /// The UIDs it is limited to.
        uids: Option<SequenceSet>,
    },
    /// `SEARCH`
    Search(Search),
    /// `ESEARCH` (RFC 7377)
    MultiSearch(MultiSearch),
    /// `SORT` (RFC 5256)
    Sort(Sort),
    /// `THREAD` (RFC 5256)
    Thread(Thread),
    /// `CANCELUPDATE` (RFC 5267 §4.3.5): the tags of searches; at least one, at most `limits::IMAP_ITEMS`.
    CancelUpdate(Vec<AString>),
    /// `FETCH`
    Fetch {
        /// Whether the set is of UIDs; the response then has UID even if it was not asked for.
        uid: bool,
        /// Which messages.
        set: SequenceSet,
        /// At least one item.
        items: Vec<FetchItem>,
        /// Modifiers, each at most once.
        modifiers: Vec<FetchModifier>,
    },
    /// `STORE`
    Store(Store),
    /// `COPY`
    Copy {
        /// Whether the set is of UIDs.
        uid: bool,
        /// Which messages.
        set: SequenceSet,
        /// Where to.
        mailbox: Mailbox,
    },
    /// `MOVE` (RFC 6851)
    Move {
        /// Whether the set is of UIDs.
        uid: bool,
        /// Which messages.
        set: SequenceSet,
        /// Where to.
        mailbox: Mailbox,
    },
}

/// `STORE`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    /// Whether the set is of UIDs.
    pub uid: bool,
    /// Which messages.
    pub set: SequenceSet,
    /// Modifiers, each at most once.
    pub modifiers: Vec<StoreModifier>,
    /// What to do with the flags.
    pub action: StoreAction,
    /// `.SILENT`: no FETCH responses for what this command changes.
    pub silent: bool,
    /// The flags; may be empty.
    pub flags: Vec<Flag>,
}

/// How STORE changes flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreAction {
    /// `FLAGS`
    Replace,
    /// `+FLAGS`
    Add,
    /// `-FLAGS`
    Remove,
}

impl CommandBody {
    /// The search it makes, if it is SEARCH or one of its kin.
    pub fn search(&self) -> Option<&Search> {
        match self {
            CommandBody::Search(search)
            | CommandBody::Sort(Sort { search, .. })
            | CommandBody::Thread(Thread { search, .. })
            | CommandBody::MultiSearch(MultiSearch { search, .. }) => Some(search),
            _ => None,
        }
    }

    /// The command's name, for logs and completions: `UID FETCH`.
    pub fn name(&self) -> &'static str {
        match self {
            CommandBody::Capability => "CAPABILITY",
            CommandBody::Noop => "NOOP",
            CommandBody::Logout => "LOGOUT",
            CommandBody::Id(_) => "ID",
            CommandBody::StartTls => "STARTTLS",
            CommandBody::Login { .. } => "LOGIN",
            CommandBody::Authenticate { .. } => "AUTHENTICATE",
            CommandBody::Unauthenticate => "UNAUTHENTICATE",
            CommandBody::Compress(_) => "COMPRESS",
            CommandBody::Enable(_) => "ENABLE",
            CommandBody::Select { read_only: false, .. } => "SELECT",
            CommandBody::Select { read_only: true, .. } => "EXAMINE",
            CommandBody::Create { .. } => "CREATE",
            CommandBody::Delete(_) => "DELETE",
            CommandBody::Rename { .. } => "RENAME",
            CommandBody::Subscribe(_) => "SUBSCRIBE",
            CommandBody::Unsubscribe(_) => "UNSUBSCRIBE",
            CommandBody::List(_) => "LIST",
            CommandBody::Lsub { .. } => "LSUB",
            CommandBody::Namespace => "NAMESPACE",
            CommandBody::GetJmapAccess => "GETJMAPACCESS",
            CommandBody::Acl(command) => command.name(),
            CommandBody::Url(command) => command.name(),
            CommandBody::Status { .. } => "STATUS",
            CommandBody::Notify(_) => "NOTIFY",
            CommandBody::GetMetadata(_) => "GETMETADATA",
            CommandBody::SetMetadata(_) => "SETMETADATA",
            CommandBody::GetQuota(_) => "GETQUOTA",
            CommandBody::GetQuotaRoot(_) => "GETQUOTAROOT",
            CommandBody::SetQuota { .. } => "SETQUOTA",
            CommandBody::Idle => "IDLE",
            CommandBody::Check => "CHECK",
            CommandBody::Close => "CLOSE",
            CommandBody::Unselect => "UNSELECT",
            CommandBody::Expunge { uids: None } => "EXPUNGE",
            CommandBody::Expunge { uids: Some(_) } => "UID EXPUNGE",
            CommandBody::Search(Search { uid: false, .. }) => "SEARCH",
            CommandBody::Search(Search { uid: true, .. }) => "UID SEARCH",
            CommandBody::MultiSearch(_) => "ESEARCH",
            CommandBody::Sort(Sort { search: Search { uid: false, .. }, .. }) => "SORT",
            CommandBody::Sort(Sort { search: Search { uid: true, .. }, .. }) => "UID SORT",
            CommandBody::Thread(Thread { search: Search { uid: false, .. }, .. }) => "THREAD",
            CommandBody::Thread(Thread { search: Search { uid: true, .. }, .. }) => "UID THREAD",
            CommandBody::CancelUpdate(_) => "CANCELUPDATE",
            CommandBody::Fetch { uid: false, .. } => "FETCH",
            CommandBody::Fetch { uid: true, .. } => "UID FETCH",
            CommandBody::Store(Store { uid: false, .. }) => "STORE",
            CommandBody::Store(Store { uid: true, .. }) => "UID STORE",
            CommandBody::Copy { uid: false, .. } => "COPY",
            CommandBody::Copy { uid: true, .. } => "UID COPY",
            CommandBody::Move { uid: false, .. } => "MOVE",
            CommandBody::Move { uid: true, .. } => "UID MOVE",
        }
    }
}
