//! Resolves URLs for submission with BURL (RFC 4468 §3.3): `submit+user` URLs of this server, in a mailbox of
//! the submitting user.
//!
//! The user is logged in to submission, so the account is opened with the user's key, whether or not an IMAP
//! session has it open.

use futures::StreamExt;
use futures::future::BoxFuture;
use sealpost_imap::url::{Access, ImapUrl};
use sealpost_session::content_urls::{Content, ContentUrls, ContentUser, UrlRefusal};
use sealpost_vault::message::READER_BYTES;

use super::{BodySection, INTERNAL, ImapShared, NoMessage, Opened, Reads, message_of, names};

impl ContentUrls for ImapShared {
    fn open<'a>(&'a self, url: &'a str, user: ContentUser<'a>) -> BoxFuture<'a, Result<Content, UrlRefusal>> {
        Box::pin(open(self, url, user))
    }
}

impl From<NoMessage> for UrlRefusal {
    fn from(none: NoMessage) -> Self {
        match none {
            NoMessage::Unauthorized => UrlRefusal::Unauthorized,
            NoMessage::Missing => UrlRefusal::Missing,
            NoMessage::Unavailable(error) => UrlRefusal::Unavailable(error),
        }
    }
}

async fn open(shared: &ImapShared, text: &str, user: ContentUser<'_>) -> Result<Content, UrlRefusal> {
    let url = ImapUrl::parse(text.as_bytes()).map_err(|invalid| UrlRefusal::Invalid(invalid.0))?;
    let Some(server) = &url.server else { return Err(UrlRefusal::Invalid("the URL is not absolute")) };
    let Some(auth) = &url.auth else { return Err(refusal(shared, &server.host).await) };
    let (Some(owner), Some(token)) = (&server.user, &auth.token) else {
        return Err(refusal(shared, &server.host).await);
    };
    let rump = &text.as_bytes()[..auth.rump.min(text.len())];
    let genuine = shared.url_marks.genuine(user.id, rump, &token.token);
    let Some(tag) = genuine.filter(|_| token.mechanism == INTERNAL) else {
        return Err(refusal(shared, &server.host).await);
    };
    let is_me =
        |name: &str| names(name, &server.host, &shared.ctx.directory).any(|name| name.as_str() == user.name);
    // RFC 4468 §3.3: refuse "unless the userid in the URL's <access> token matches the submit client's
    // authorization identity".
    let is_mine = is_me(owner) && matches!(&auth.access, Access::Submit(user) if is_me(user));
    let has_expired = auth.expire.is_some_and(|until| until < shared.ctx.clock.now());
    if !is_mine || has_expired {
        return Err(UrlRefusal::Unauthorized);
    }
    // Another node may have just made the key of the mailbox.
    let account = shared.ctx.accounts.open_current(user.id, user.root).await?;
    let (account, message) = message_of(shared, &account, &url, rump, tag).await?;
    let permit = shared.submitted_content.acquire(READER_BYTES).await;
    let section = BodySection::of(url.section, url.partial);
    let outline = match section.is_whole() {
        true => None,
        false => Some(account.structure(&message).await.map(|structure| structure.outline())),
    };
    let reader = account.reader(&message);
    let reads = Reads { reader, account, message, outline, whole: None };
    let Opened::Bytes(bytes) = reads.open(&section).await? else { return Err(UrlRefusal::Missing) };
    let size = bytes.count();
    // Keeps the account and the permit as long as its message is read.
    let pieces = bytes.pieces().inspect(move |_| {
        let _ = (&permit, &reads);
    });
    Ok(Content { size, pieces: pieces.boxed() })
}

/// Why a URL without a token of this server for this user is refused.
async fn refusal(shared: &ImapShared, host: &str) -> UrlRefusal {
    let ctx = &shared.ctx;
    if host.eq_ignore_ascii_case(&ctx.hostname) {
        return UrlRefusal::Unauthorized;
    }
    match ctx.directory.serves(host).await {
        Ok(true) => UrlRefusal::Unauthorized,
        Ok(false) => UrlRefusal::OtherServer,
        Err(error) => UrlRefusal::Unavailable(error),
    }
}
