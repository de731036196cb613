//! IMAP values: the parts of parsed commands and responses.
//!
//! Names follow the ABNF of RFC 3501 §9. Constructors refuse bytes that could not be written back,
//! so that every value can be sent. Everything here is owned and independent of the buffer it was
//! read from.

mod acl;
mod append;
mod command;
mod date;
mod esearch;
mod fetch;
mod flag;
mod list;
mod mailbox;
mod metadata;
mod modifier;
mod multisearch;
mod notify;
mod object_id;
mod quota;
mod response;
mod search;
mod sequence;
mod sort;
mod status;
mod string;
mod urlauth;

pub use acl::{AclCommand, AclData};
pub use append::{AppendHead, AppendLiteral, AppendMessage, Replaces};
pub use command::{Command, CommandBody, IdFields, Store, StoreAction};
pub use date::{Date, DateTime};
pub use esearch::{Correlator, ESearch, SearchData};
pub use fetch::{FetchItem, Partial, Section, SectionText};
pub use flag::{Flag, PermanentFlag};
pub use list::{
    List, ListExtension, ListItem, ListPattern, MailboxAttribute, Matched, Matcher, NamespaceEntry,
    Namespaces, ReturnOption, SelectionOption,
};
pub use mailbox::{HIERARCHY_DELIMITER, InvalidMailbox, Mailbox};
pub use metadata::{Depth, Entry, GetMetadata, MetadataCode, SetMetadata};
pub use modifier::{FetchModifier, QResync, SelectParameter, SequenceMatch, StoreModifier};
pub use multisearch::{MailboxFilter, MultiSearch};
pub use notify::{EventGroup, Notify, NotifyEvent, NotifyFilter};
pub use object_id::ObjectId;
pub use quota::{QuotaLimit, QuotaResource};
pub use response::{Code, Response, Status};
pub use search::{ModSeqEntry, ModSeqScope, PartialRange, Search, SearchKey, SearchReturn};
pub use sequence::{SeqNumber, SeqRange, SequenceSet};
pub use sort::{Sort, SortCriterion, SortKey, Thread, ThreadAlgorithm};
pub use status::{StatusData, StatusItem, StatusValue};
pub use string::{AString, Atom, Invalid, Secret, Tag};
pub use string::{is_astring_char, is_atom_char, is_tag_char};

pub use urlauth::UrlCommand;

pub(crate) use date::{MONTHS, month_name};
pub(crate) use object_id::is_object_id_char;
