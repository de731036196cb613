//! GENURLAUTH, URLFETCH and RESETKEY (RFC 4467): URLs that give another user access to a message or a part of
//! one.
//!
//! A URL authorizes access but carries no key: messages are sealed with keys that only their owner's sessions
//! have. So URLFETCH serves accounts that this process has loaded, whose owners use them or have done so
//! recently. Otherwise it refuses temporarily. `docs/decisions/0017-urlauth.md` has the reasons and
//! consequences.

mod key;
mod mark;
mod submit;

use std::sync::Arc;

use sealpost_account::event::Event;
use sealpost_account::rights::Rights;
use sealpost_account::{Account, Message, ops};
use sealpost_base::{Error, Kind};
use sealpost_directory::{AccountName, Directory};
use sealpost_imap::types::{AString, Atom, Code, Mailbox, Status, UrlCommand};
use sealpost_imap::url::{Access, ImapUrl, UrlAuth};
use sealpost_mailbox::resolve::{self, ResolvedMailbox, is_missing};
use sealpost_vault::message::READER_BYTES;

use super::append::catenate::message_in;
use super::fetch::{BodySection, Opened, Reads};
use super::reply::{Failure, Outcome, Reply};
use super::responses::Responses;
use super::selected::Selected;
use super::shared::ImapShared;
use super::user::User;
use key::AccessKey;
pub(super) use mark::UrlMarks;

/// The only mechanism (RFC 4467 §2.4.1).
const INTERNAL: &str = "INTERNAL";

/// The result of resolving a URL.
enum ResolvedUrl {
    /// No message: the URL is not of this server, not for this user, or expired, or its message no longer
    /// exists.
    Nothing,
    /// The URL is genuine, but the owner's mailbox is locked.
    Locked,
    /// A message of that account.
    Message(Arc<Account>, Box<Message>, BodySection),
}

/// `[URLMECH INTERNAL]` (RFC 4467 §8).
pub(super) fn mechanisms() -> Code {
    match Atom::new("URLMECH") {
        Ok(name) => Code::Other(name, Some(INTERNAL.to_owned())),
        Err(_) => Code::Alert,
    }
}

/// GENURLAUTH, URLFETCH, RESETKEY.
pub(super) async fn run(
    user: &User,
    selected: Option<&mut Selected>,
    responses: &mut Responses,
    command: &UrlCommand,
) -> Outcome {
    match command {
        UrlCommand::Generate(urls) => generate_urls(user, responses, urls).await,
        UrlCommand::Fetch(urls) => fetch_urls(user, responses, urls).await,
        UrlCommand::ResetKey(Some((mailbox, mechanisms))) => {
            reset_key(user, selected, mailbox, mechanisms).await
        }
        UrlCommand::ResetKey(None) => remove_keys(user, selected).await,
    }
}

async fn generate_urls(user: &User, responses: &mut Responses, urls: &[(AString, Atom)]) -> Outcome {
    let own = user.account().clone();
    let mut places = Vec::with_capacity(urls.len());
    for (text, mechanism) in urls {
        let (mailbox, rump) = rump(user, text, mechanism)?;
        // RFC 4467 §7: BAD for anything that cannot be authorized, including a mailbox that does not exist.
        let resolved = user.resolve(&mailbox).await.map_err(|failure| match failure {
            Failure::Reply(_) => Reply::bad("the URL's mailbox does not exist").into(),
            end => end,
        })?;
        places.push((resolved, rump));
    }
    // A mailbox without a key gets one.
    let random = user.shared.ctx.random.clone();
    let made = own.commit(|state| {
        let mut events: Vec<Event> = Vec::new();
        for (resolved, _) in &places {
            let name = key::name(resolved.account.id(), resolved.mailbox);
            let known =
                events.iter().any(|event| matches!(event, Event::ObjectPut { name: n, .. } if *n == name));
            if !known && AccessKey::of(state, resolved.account.id(), resolved.mailbox).is_none() {
                events.push(Event::ObjectPut { name, value: AccessKey::generate(&*random, 0).encode() });
            }
        }
        // All of them or none.
        ops::check_objects(state, &events)?;
        Ok((events, ()))
    });
    made.await?;
    let mut authorized = Vec::with_capacity(urls.len());
    for (resolved, rump) in places {
        let key = AccessKey::of(&own.state(), resolved.account.id(), resolved.mailbox);
        let key = key.ok_or_else(|| Reply::refused("the mailbox access key was removed just now"))?;
        let token = user.shared.url_marks.token(own.id(), &key, rump);
        authorized.push(format!("{rump}:internal:{token}"));
    }
    let out = responses.out();
    out.raw(b"* GENURLAUTH");
    for url in authorized {
        out.space().string(url);
    }
    out.crlf();
    Ok(Reply::ok("GENURLAUTH completed"))
}

/// The mailbox and text of a URL that can be authorized.
fn rump<'a>(user: &User, text: &'a AString, mechanism: &Atom) -> Result<(Mailbox, &'a str), Reply> {
    if *mechanism != *INTERNAL {
        return Err(Reply::bad("the only mechanism is INTERNAL"));
    }
    let url = ImapUrl::parse(text.as_bytes()).map_err(|invalid| Reply::bad(invalid.0))?;
    let rump = text.as_str().ok_or_else(|| Reply::bad("the URL is not ASCII"))?;
    match url.auth {
        Some(UrlAuth { token: None, .. }) => {}
        Some(_) => return Err(Reply::bad("the URL has a token already")),
        None => return Err(Reply::bad("missing access identifier in supplied URL")),
    }
    let Some(server) = url.server else { return Err(Reply::bad("the URL is not absolute")) };
    let Some(owner) = server.user else {
        return Err(Reply::bad("missing owner username in supplied URL"));
    };
    if !is_me(user, &owner, &server.host) {
        return Err(Reply::bad("the URL is another user's"));
    }
    Ok((url.mailbox, rump))
}

async fn fetch_urls(user: &User, responses: &mut Responses, urls: &[AString]) -> Outcome {
    let mut found = Vec::with_capacity(urls.len());
    let mut locked = false;
    for url in urls {
        match redeem(user, url).await? {
            ResolvedUrl::Locked => locked = true,
            other => found.push((url, other)),
        }
    }
    // RFC 4467 §7: one response has a pair for each of them.
    for (n, (url, found)) in found.iter().enumerate() {
        if n == 0 {
            responses.out().raw(b"* URLFETCH");
        }
        responses.out().space().string(url.as_bytes()).space();
        send_found(user, responses, found).await?;
    }
    if !found.is_empty() {
        responses.out().crlf();
    }
    if locked {
        let text = "the owner's mailbox is locked, try again while the owner uses it";
        return Err(Reply::no(Code::Unavailable, text).into());
    }
    Ok(Reply::ok("URLFETCH completed"))
}

/// Writes the value for one URL.
async fn send_found(user: &User, responses: &mut Responses, found: &ResolvedUrl) -> Result<(), Failure> {
    let ResolvedUrl::Message(account, message, bytes) = found else {
        responses.out().nil();
        return Ok(());
    };
    let _permit = user.shared.ctx.budget.acquire(READER_BYTES).await;
    let reads = Reads {
        reader: account.reader(message),
        account: account.clone(),
        message: (**message).clone(),
        outline: Some(account.structure(message).await.map(|structure| structure.outline())),
        whole: None,
    };
    match reads.open(bytes).await {
        Ok(Opened::Bytes(bytes)) => {
            bytes.send(&mut responses.connection, responses.dialect.takes_nul).await?;
        }
        // RFC 4467 §8: a missing part is empty, not NIL.
        Ok(Opened::Nil | Opened::UnknownEncoding) => {
            responses.out().string(b"");
        }
        Err(error) => {
            tracing::error!(%error, "a message could not be read for a URL");
            responses.out().nil();
        }
    }
    Ok(())
}

/// Resolves a URL for this session's user, with its owner's access (RFC 4467 §6, §7).
async fn redeem(me: &User, text: &AString) -> Result<ResolvedUrl, Failure> {
    let Ok(url) = ImapUrl::parse(text.as_bytes()) else { return Ok(ResolvedUrl::Nothing) };
    let (Some(server), Some(auth)) = (&url.server, &url.auth) else { return Ok(ResolvedUrl::Nothing) };
    let (Some(user), Some(token)) = (&server.user, &auth.token) else { return Ok(ResolvedUrl::Nothing) };
    let rump = &text.as_bytes()[..auth.rump.min(text.as_bytes().len())];
    let expired = auth.expire.is_some_and(|until| until < me.shared.ctx.clock.now());
    if token.mechanism != INTERNAL || expired || !may_use(me, &auth.access, &server.host) {
        return Ok(ResolvedUrl::Nothing);
    }
    let mut owner = None;
    for name in names(user, &server.host, me.directory()) {
        owner = me.directory().find(&name).await?;
        if owner.is_some() {
            break;
        }
    }
    let Some(owner) = owner else {
        // RFC 4467 §6: as much work as for an existing owner.
        me.shared.url_marks.waste(rump);
        return Ok(ResolvedUrl::Nothing);
    };
    // Only a client with a genuine URL learns whether its owner's account is loaded.
    let Some(token) = me.shared.url_marks.genuine(owner.id, rump, &token.token) else {
        return Ok(ResolvedUrl::Nothing);
    };
    let Some(account) = me.accounts().peek(owner.id) else { return Ok(ResolvedUrl::Locked) };
    account.catch_up().await?;
    match message_of(&me.shared, &account, &url, rump, token).await {
        Ok((account, message)) => {
            Ok(ResolvedUrl::Message(account, Box::new(message), BodySection::of(url.section, url.partial)))
        }
        Err(NoMessage::Unauthorized | NoMessage::Missing) => Ok(ResolvedUrl::Nothing),
        Err(NoMessage::Unavailable(error)) => {
            tracing::warn!(%error, "the mailbox of a URL could not be opened");
            Ok(ResolvedUrl::Nothing)
        }
    }
}

/// Why a URL with this server's mark gives no message.
enum NoMessage {
    /// The current mailbox access key did not make its tag.
    Unauthorized,
    /// The mailbox or the message does not exist, or the owner of the URL may not read it.
    Missing,
    /// The mailbox cannot be read now.
    Unavailable(Error),
}

/// The message of a URL whose owner is that account, and whose tag is for `rump`.
async fn message_of(
    shared: &ImapShared,
    owner: &Arc<Account>,
    url: &ImapUrl,
    rump: &[u8],
    tag: &[u8],
) -> Result<(Arc<Account>, Message), NoMessage> {
    let accounts = &shared.ctx.accounts;
    let resolved = resolve::User { accounts, account: owner }.resolve_known(url.mailbox.as_str()).await;
    let resolved = resolved.and_then(|resolved| resolved.require(Rights::READ)).map_err(|error| {
        let is_missing = is_missing(&error) || error.kind() == Kind::Denied;
        if is_missing { NoMessage::Missing } else { NoMessage::Unavailable(error) }
    })?;
    let key = AccessKey::of(&owner.state(), resolved.account.id(), resolved.mailbox);
    if !key.is_some_and(|key| key.verifies(rump, tag)) {
        return Err(NoMessage::Unauthorized);
    }
    message_in(resolved, url).map_err(|_| NoMessage::Missing)
}

/// Whether the URL authorizes this session's user (RFC 4467 §3).
fn may_use(me: &User, access: &Access, host: &str) -> bool {
    match access {
        // There are no anonymous sessions here.
        Access::Anonymous | Access::AuthUser => true,
        Access::User(user) => is_me(me, user, host),
        // Submission resolves these itself ([`submit`]); no IMAP user is a submission entity.
        Access::Submit(_) => false,
    }
}

fn is_me(me: &User, user: &str, host: &str) -> bool {
    names(user, host, me.directory()).any(|name| name.as_str() == me.name())
}

async fn reset_key(
    user: &User,
    selected: Option<&mut Selected>,
    mailbox: &Mailbox,
    mechanisms: &[Atom],
) -> Outcome {
    let own = user.account().clone();
    if mechanisms.iter().any(|mechanism| *mechanism != *INTERNAL) {
        return Err(Reply::no(Code::Cannot, "the only mechanism is INTERNAL").into());
    }
    let ResolvedMailbox { account, mailbox, .. } = user.resolve(mailbox).await?;
    let (id, random) = (account.id(), user.shared.ctx.random.clone());
    let reset = own.commit(|state| {
        let resets = AccessKey::of(state, id, mailbox).map_or(0, |key| key.resets());
        let value = AccessKey::generate(&*random, resets.wrapping_add(1)).encode();
        let events = vec![Event::ObjectPut { name: key::name(id, mailbox), value }];
        ops::check_objects(state, &events)?;
        Ok((events, ()))
    });
    reset.await?;
    // Notes it as reported to this client.
    note_resets(user, selected);
    Ok(Reply::ok_with(self::mechanisms(), "the mailbox has a new access key"))
}

async fn remove_keys(user: &User, selected: Option<&mut Selected>) -> Outcome {
    let own = user.account().clone();
    own.commit(|state| {
        let removed = |(name, _): (&str, &[u8])| Event::ObjectRemoved { name: name.to_owned() };
        Ok((state.objects(key::PREFIX).map(removed).collect(), ()))
    })
    .await?;
    note_resets(user, selected);
    Ok(Reply::ok("all mailbox access keys are removed"))
}

/// Notes that this client knows of the reset.
fn note_resets(user: &User, selected: Option<&mut Selected>) {
    if let Some(selected) = selected {
        selected.key_resets = resets(user, selected);
    }
}

/// How often the user's key of the selected mailbox was reset; `None` if there is no key.
pub(super) fn resets(user: &User, selected: &Selected) -> Option<u32> {
    let key = AccessKey::of(&user.account().state(), selected.account().id(), selected.mailbox())?;
    Some(key.resets())
}

/// Reports that another session of this user has reset the key of the selected mailbox (RFC 4467 §7,
/// RESETKEY).
pub(super) fn report_mechanisms(user: &User, selected: &mut Selected, responses: &mut Responses) {
    let now = resets(user, selected);
    let known = std::mem::replace(&mut selected.key_resets, now);
    // The first key of a mailbox revokes nothing.
    if now != known && !(known.is_none() && now == Some(0)) {
        let code = mechanisms();
        responses.out().status(None, Status::Ok, Some(&code), "the mailbox access key was reset");
    }
}

/// The accounts that a name in a URL may refer to: a name without a domain is in that of the URL's host, or
/// completed as at login.
fn names(user: &str, host: &str, directory: &Directory) -> impl Iterator<Item = AccountName> {
    let of_host = if user.contains('@') { None } else { AccountName::parse(&format!("{user}@{host}")).ok() };
    of_host.into_iter().chain(directory.account_name(user).ok())
}
