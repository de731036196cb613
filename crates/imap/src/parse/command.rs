//! Commands (RFC 3501 §6 and its extensions).

use std::borrow::Cow;

use sealpost_base::limits;

use super::cursor::{Cursor, Failure, Parsed};
use super::{acl, fetch, list, metadata, modifier, multisearch, notify, quota, search, urlauth};
use crate::types::{
    AString, Atom, Command, CommandBody, Flag, IdFields, InvalidMailbox, MailboxAttribute, Secret,
    StatusItem, Store, StoreAction, Tag,
};

/// Why a buffer is not a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// Wrong: answer BAD.
    Bad {
        /// The tag, if it could be read.
        tag: Option<Tag>,
        /// The error.
        reason: Cow<'static, str>,
    },
    /// Right but for the name of a mailbox: answer NO.
    Name {
        /// The tag.
        tag: Tag,
        /// Why the name is invalid.
        invalid: InvalidMailbox,
    },
    /// The buffer ends at a literal whose bytes are missing.
    Incomplete,
}

/// `command = tag SP (command-any / command-auth / command-nonauth / command-select) CRLF`
///
/// `input` is the whole command with its literals and its CRLF (or LF, or neither), or as much of
/// it as the client sends before it waits: up to the bytes of a literal. Mailbox names are UTF-8 if
/// `utf8`, else modified UTF-7. APPEND and REPLACE, whose messages stream, are not read here: see
/// `server::Decoder`.
pub fn command(input: &[u8], utf8: bool) -> Result<Command, Refused> {
    let mut cursor = Cursor::of_command(input, utf8);
    let Some(tag) = tag(&mut cursor) else {
        return Err(Refused::Bad { tag: None, reason: "a tag is missing".into() });
    };
    match body(&mut cursor) {
        Ok(body) => Ok(Command { tag, body }),
        Err(failure) => Err(refused(tag, failure)),
    }
}

/// The tag that `input` begins with.
pub(crate) fn tag_of(input: &[u8]) -> Option<Tag> {
    tag(&mut Cursor::new(input, false))
}

/// Whether `input` begins a SETMETADATA, whose values may be literal8s (RFC 5464 §5).
pub(crate) fn is_set_metadata(input: &[u8]) -> bool {
    let mut cursor = Cursor::new(input, false);
    tag(&mut cursor).is_some() && name(&mut cursor).is_ok_and(|name| name.eq_ignore_ascii_case("SETMETADATA"))
}

/// `tag`, and after it a space or the end of the line.
pub(super) fn tag(cursor: &mut Cursor<'_>) -> Option<Tag> {
    let word = cursor.take_while(crate::types::is_tag_char);
    let ends = matches!(cursor.peek(), None | Some(b' ' | b'\r' | b'\n'));
    Tag::from_bytes(word).ok().filter(|_| ends)
}

/// What a failure means for the command with that tag.
pub(crate) fn refused(tag: Tag, failure: Failure) -> Refused {
    match failure {
        Failure::Bad(reason) => Refused::Bad { tag: Some(tag), reason: reason.into() },
        Failure::Unknown(what, word) => {
            Refused::Bad { tag: Some(tag), reason: format!("{what} {word}").into() }
        }
        Failure::Name(invalid) => Refused::Name { tag, invalid },
        Failure::Incomplete => Refused::Incomplete,
    }
}

/// The command's name, after its space: letters only.
pub(super) fn name<'a>(cursor: &mut Cursor<'a>) -> Parsed<&'a str> {
    cursor.space().map_err(|_| Failure::Bad("a command is missing"))?;
    match cursor.word(|b| b.is_ascii_alphabetic()) {
        "" => Err(Failure::Bad("a command is missing")),
        name => Ok(name),
    }
}

fn body(cursor: &mut Cursor<'_>) -> Parsed<CommandBody> {
    let body = match name(cursor)?.to_ascii_uppercase().as_str() {
        "CAPABILITY" => CommandBody::Capability,
        "NOOP" => CommandBody::Noop,
        "LOGOUT" => CommandBody::Logout,
        "STARTTLS" => CommandBody::StartTls,
        "UNAUTHENTICATE" => CommandBody::Unauthenticate,
        "CHECK" => CommandBody::Check,
        "CLOSE" => CommandBody::Close,
        "UNSELECT" => CommandBody::Unselect,
        "NAMESPACE" => CommandBody::Namespace,
        "GETJMAPACCESS" => CommandBody::GetJmapAccess,
        "IDLE" => CommandBody::Idle,
        "EXPUNGE" => CommandBody::Expunge { uids: None },
        "RESETKEY" if cursor.at_end() => urlauth::reset_key(cursor)?,
        word => with_arguments(cursor, word)?,
    };
    cursor.end()?;
    Ok(body)
}

fn with_arguments(cursor: &mut Cursor<'_>, word: &str) -> Parsed<CommandBody> {
    if !KNOWN.contains(&word) {
        return Err(Failure::Bad("unknown command"));
    }
    cursor.space().map_err(|_| Failure::Bad("arguments are missing"))?;
    Ok(match word {
        "LOGIN" => login(cursor)?,
        "AUTHENTICATE" => authenticate(cursor)?,
        "ID" => CommandBody::Id(id_fields(cursor)?),
        "COMPRESS" => CommandBody::Compress(cursor.atom()?),
        "ENABLE" => enable(cursor)?,
        "SELECT" => select(cursor, false)?,
        "EXAMINE" => select(cursor, true)?,
        "CREATE" => create(cursor)?,
        "DELETE" => CommandBody::Delete(cursor.mailbox()?),
        "RENAME" => {
            let from = cursor.mailbox()?;
            cursor.space()?;
            CommandBody::Rename { from, to: cursor.mailbox()? }
        }
        "SUBSCRIBE" => CommandBody::Subscribe(cursor.mailbox()?),
        "UNSUBSCRIBE" => CommandBody::Unsubscribe(cursor.mailbox()?),
        "LIST" => CommandBody::List(list::list(cursor)?),
        "LSUB" => list::lsub(cursor)?,
        "STATUS" => status(cursor)?,
        "GENURLAUTH" => urlauth::generate(cursor)?,
        "URLFETCH" => urlauth::fetch(cursor)?,
        "RESETKEY" => urlauth::reset_key(cursor)?,
        "SETACL" | "DELETEACL" | "GETACL" | "LISTRIGHTS" | "MYRIGHTS" => acl::command(cursor, word)?,
        "ESEARCH" => CommandBody::MultiSearch(multisearch::esearch(cursor)?),
        "CANCELUPDATE" => CommandBody::CancelUpdate(multisearch::cancel_update(cursor)?),
        "NOTIFY" => CommandBody::Notify(notify::notify(cursor)?),
        "GETMETADATA" => metadata::get(cursor)?,
        "SETMETADATA" => metadata::set(cursor)?,
        "GETQUOTA" => CommandBody::GetQuota(cursor.astring()?),
        "GETQUOTAROOT" => CommandBody::GetQuotaRoot(cursor.mailbox()?),
        "SETQUOTA" => quota::set(cursor)?,
        "UID" => uid(cursor)?,
        _ => on_messages(cursor, word, false)?,
    })
}

/// Commands that have arguments. APPEND and REPLACE are among them only for the errors they get
/// without a message.
const KNOWN: &[&str] = &[
    "COMPRESS",
    "GENURLAUTH",
    "URLFETCH",
    "RESETKEY",
    "LOGIN",
    "AUTHENTICATE",
    "ID",
    "ENABLE",
    "SELECT",
    "EXAMINE",
    "CREATE",
    "DELETE",
    "RENAME",
    "SUBSCRIBE",
    "UNSUBSCRIBE",
    "LIST",
    "LSUB",
    "STATUS",
    "SETACL",
    "DELETEACL",
    "GETACL",
    "LISTRIGHTS",
    "MYRIGHTS",
    "ESEARCH",
    "CANCELUPDATE",
    "NOTIFY",
    "GETMETADATA",
    "SETMETADATA",
    "GETQUOTA",
    "GETQUOTAROOT",
    "SETQUOTA",
    "UID",
    "APPEND",
    "REPLACE",
    "SEARCH",
    "SORT",
    "THREAD",
    "FETCH",
    "STORE",
    "COPY",
    "MOVE",
];

/// `uid = "UID" SP (copy / fetch / search / store)`, with MOVE (RFC 6851) and EXPUNGE (RFC 4315 §2.1)
fn uid(cursor: &mut Cursor<'_>) -> Parsed<CommandBody> {
    let word = cursor.word(|b| b.is_ascii_alphabetic()).to_ascii_uppercase();
    if !matches!(
        word.as_str(),
        "EXPUNGE" | "SEARCH" | "SORT" | "THREAD" | "FETCH" | "STORE" | "COPY" | "MOVE" | "REPLACE"
    ) {
        return Err(Failure::Bad("unknown UID command"));
    }
    cursor.space().map_err(|_| Failure::Bad("arguments are missing"))?;
    if word == "EXPUNGE" {
        return Ok(CommandBody::Expunge { uids: Some(cursor.sequence_set()?) });
    }
    on_messages(cursor, &word, true)
}

fn on_messages(cursor: &mut Cursor<'_>, word: &str, uid: bool) -> Parsed<CommandBody> {
    match word {
        "SEARCH" => return Ok(CommandBody::Search(search::search(cursor, uid)?)),
        "SORT" => return Ok(CommandBody::Sort(search::sort(cursor, uid)?)),
        "THREAD" => return Ok(CommandBody::Thread(search::thread(cursor, uid)?)),
        "APPEND" | "REPLACE" => {
            let replace = (word == "REPLACE").then_some(uid);
            let failure = super::append::arguments(cursor, replace).err();
            return Err(failure.unwrap_or(Failure::Bad("a message is missing")));
        }
        _ => {}
    }
    let set = cursor.sequence_set()?;
    cursor.space()?;
    Ok(match word {
        "FETCH" => {
            let items = fetch::items(cursor)?;
            CommandBody::Fetch { uid, set, items, modifiers: modifier::fetch_modifiers(cursor)? }
        }
        "STORE" => {
            let modifiers = modifier::store_modifiers(cursor)?;
            let (action, silent) = store_action(cursor)?;
            cursor.space()?;
            CommandBody::Store(Store { uid, set, modifiers, action, silent, flags: store_flags(cursor)? })
        }
        "COPY" => CommandBody::Copy { uid, set, mailbox: cursor.mailbox()? },
        _ => CommandBody::Move { uid, set, mailbox: cursor.mailbox()? },
    })
}

/// `select = "SELECT" SP mailbox [select-params]` (RFC 4466 §2.1)
fn select(cursor: &mut Cursor<'_>, read_only: bool) -> Parsed<CommandBody> {
    let mailbox = cursor.mailbox()?;
    Ok(CommandBody::Select { mailbox, read_only, parameters: modifier::select_parameters(cursor)? })
}

/// `login = "LOGIN" SP userid SP password`
fn login(cursor: &mut Cursor<'_>) -> Parsed<CommandBody> {
    let user = cursor.astring()?;
    cursor.space()?;
    let password = Secret::new(cursor.astring_bytes()?);
    Ok(CommandBody::Login { user, password })
}

/// `authenticate = "AUTHENTICATE" SP auth-type [SP (base64 / "=")] *(CRLF base64)` (RFC 4959 §3)
fn authenticate(cursor: &mut Cursor<'_>) -> Parsed<CommandBody> {
    let mechanism = cursor.atom()?;
    if cursor.at_end() || !cursor.eat(b' ') || cursor.at_end() {
        return Ok(CommandBody::Authenticate { mechanism, initial: None });
    }
    let initial = cursor.take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'='));
    if initial.is_empty() || !matches!(cursor.peek(), None | Some(b' ' | b'\r' | b'\n')) {
        return Err(Failure::Bad("the initial response is not base64"));
    }
    Ok(CommandBody::Authenticate { mechanism, initial: Some(Secret::new(initial.to_vec())) })
}

/// `enable = "ENABLE" 1*(SP capability)` (RFC 5161 §5)
fn enable(cursor: &mut Cursor<'_>) -> Parsed<CommandBody> {
    let mut names: Vec<Atom> = vec![cursor.atom()?];
    while !cursor.at_end() && cursor.eat(b' ') && !cursor.at_end() {
        names.push(cursor.atom()?);
    }
    Ok(CommandBody::Enable(names))
}

/// `id-params-list = "(" [string SP nstring *(SP string SP nstring)] ")" / nil` (RFC 2971 §4)
pub(super) fn id_fields(cursor: &mut Cursor<'_>) -> Parsed<Option<IdFields>> {
    if cursor.nil() {
        return Ok(None);
    }
    let string = |bytes: Vec<u8>| AString::new(bytes).map_err(|_| Failure::Bad("NUL in a string"));
    let fields = cursor.list(|cursor| {
        let name = string(cursor.string()?)?;
        cursor.space()?;
        Ok((name, cursor.nstring()?.map(string).transpose()?))
    })?;
    if fields.len() > limits::IMAP_ID_FIELDS {
        return Err(Failure::Bad("too many fields in ID"));
    }
    Ok(Some(fields))
}

/// `create = "CREATE" SP mailbox [SP "(" "USE" SP "(" [use-attr *(SP use-attr)] ")" ")"]` (RFC 6154 §6)
fn create(cursor: &mut Cursor<'_>) -> Parsed<CommandBody> {
    let mailbox = cursor.mailbox()?;
    let mut special_use = Vec::new();
    if !cursor.at_end() && cursor.eat(b' ') && !cursor.at_end() {
        cursor.expect(b'(', "only a list may follow the name")?;
        if !cursor.eat_word("USE ") {
            return Err(Failure::Bad("unknown CREATE parameter"));
        }
        special_use = cursor.list(attribute)?;
        cursor.expect(b')', "a list does not end")?;
    }
    Ok(CommandBody::Create { mailbox, special_use })
}

/// `"\" atom`
pub(super) fn attribute(cursor: &mut Cursor<'_>) -> Parsed<MailboxAttribute> {
    cursor.expect(b'\\', "an attribute is missing")?;
    cursor.atom().map(MailboxAttribute::new)
}

/// `status = "STATUS" SP mailbox SP "(" status-att *(SP status-att) ")"`
fn status(cursor: &mut Cursor<'_>) -> Parsed<CommandBody> {
    let mailbox = cursor.mailbox()?;
    cursor.space()?;
    Ok(CommandBody::Status { mailbox, items: status_items(cursor)? })
}

/// `"(" status-att *(SP status-att) ")"`
pub(super) fn status_items(cursor: &mut Cursor<'_>) -> Parsed<Vec<StatusItem>> {
    let items = cursor.list1(|cursor| {
        let name = cursor.atom()?;
        StatusItem::from_name(name.as_str())
            .ok_or_else(|| Cursor::unknown("unknown STATUS item", name.as_str()))
    })?;
    if items.len() > limits::IMAP_ITEMS {
        return Err(Failure::Bad("too many STATUS items"));
    }
    Ok(items)
}

/// `store-att-flags = (["+" / "-"] "FLAGS" [".SILENT"]) SP …`
fn store_action(cursor: &mut Cursor<'_>) -> Parsed<(StoreAction, bool)> {
    let action = if cursor.eat(b'+') {
        StoreAction::Add
    } else if cursor.eat(b'-') {
        StoreAction::Remove
    } else {
        StoreAction::Replace
    };
    if !cursor.eat_word("FLAGS") {
        return Err(Failure::Bad("only FLAGS can be stored"));
    }
    Ok((action, cursor.eat_word(".SILENT")))
}

/// `… SP (flag-list / (flag *(SP flag)))`
fn store_flags(cursor: &mut Cursor<'_>) -> Parsed<Vec<Flag>> {
    if cursor.peek() == Some(b'(') {
        return cursor.flag_list();
    }
    let mut flags = vec![cursor.flag()?];
    while !cursor.at_end() && cursor.eat(b' ') && !cursor.at_end() {
        flags.push(cursor.flag()?);
    }
    Ok(flags)
}
