//! SearchSnippet/get (RFC 8621 §5.1).
//!
//! Stored texts are case-folded, so the method reads the requested messages themselves, one after another, up
//! to [`JMAP_SNIPPET_TEXT_BYTES`] of their text.

use std::collections::HashSet;

use futures::TryStreamExt;
use sealpost_account::object_id::object_of;
use sealpost_account::{Account, Message};
use sealpost_base::limits::{JMAP_SNIPPET_TEXT_BYTES, STRUCTURE_BYTES};
use sealpost_base::{AccountId, ObjectId, Result};
use sealpost_jmap::GivenId;
use sealpost_jmap::id::EmailId;
use sealpost_jmap::snippet::{SearchSnippet, SnippetGet};
use sealpost_mailbox::emails::Email;
use sealpost_mime::decode::html::HtmlText;
use sealpost_mime::header::word;
use sealpost_mime::structure::StoredStructure;
use sealpost_vault::message::READER_BYTES;
use serde_json::{Map, Value};

use super::mark::{marked, preview};
use super::terms::Terms;
use crate::email::body_tree::{BodyLists, BodyPart};
use crate::email::body_value::BodyText;
use crate::method::Outcome;
use crate::responder::Responder;
use crate::scope::{OpenLogs, Scope};

/// Memory for one snippet: the reader, the structure, the text, and the text of HTML.
const SNIPPET_BYTES: usize = READER_BYTES + 8 * STRUCTURE_BYTES + 3 * JMAP_SNIPPET_TEXT_BYTES;

pub(crate) async fn get(
    scope: &Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let request = SnippetGet::from_arguments(arguments)?;
    scope.require(&request.account_id)?;
    let terms = Terms::of(request.filter.as_ref());
    let _permit = scope.permit(SNIPPET_BYTES).await;
    let logs = scope.logs().await?;
    let mut response = responder.open("SearchSnippet/get", call_id);
    response.argument("accountId", scope.id()).await?;
    response.open_array("list");
    let (mut not_found, mut seen) = (Vec::new(), HashSet::new());
    for given in request.email_ids {
        if !seen.insert(given.clone()) {
            continue;
        }
        let id = given.resolve(&scope.created).cloned();
        let object = id.as_ref().and_then(|id| object_of(id.as_str()));
        let found = match object {
            Some(object) => stored(&logs, object).await,
            None => Ok(None),
        };
        let found = match found {
            Ok(found) => found,
            Err(error) => return Err(response.fail(error.into())),
        };
        let (Some(id), Some((log, message))) = (id, found) else {
            not_found.push(given);
            continue;
        };
        let snippet = match logs.iter().find(|account| account.id() == log) {
            Some(account) => snippet(account, &message, &terms, EmailId::from(id)).await,
            None => continue,
        };
        response.item(&snippet).await?;
    }
    response.close_array();
    let not_found: Option<Vec<GivenId>> = Some(not_found).filter(|ids| !ids.is_empty());
    response.argument("notFound", &not_found).await?;
    response.close();
    Ok(())
}

/// The message of an email, and the log that it is in; `None` if it is not visible.
async fn stored(logs: &OpenLogs, object: ObjectId) -> Result<Option<(AccountId, Message)>> {
    logs.look(|logs| {
        let email = Email::find(logs, object)?;
        Some((email.stored.0, email.message(logs)?))
    })
    .await
}

/// The snippet of an email; empty if the message cannot be read (RFC 8621 §5).
async fn snippet(account: &Account, message: &Message, terms: &Terms, email_id: EmailId) -> SearchSnippet {
    let found = parts_of(account, message, terms).await.unwrap_or_else(|error| {
        tracing::warn!(%error, "a message could not be read for a snippet");
        (None, None)
    });
    SearchSnippet { email_id, subject: found.0, preview: found.1 }
}

/// The subject, and the part of the body with matches.
async fn parts_of(
    account: &Account,
    message: &Message,
    terms: &Terms,
) -> Result<(Option<String>, Option<String>)> {
    if terms.subject.is_empty() && terms.body.is_empty() {
        return Ok((None, None));
    }
    let structure = account.structure(message).await?;
    let subject = structure.envelope.subject.as_deref().map(word::decode);
    let subject = subject.and_then(|subject| marked(&subject, &terms.subject));
    if terms.body.is_empty() {
        return Ok((subject, None));
    }
    let stored = StoredStructure::of(&structure);
    let Some(root) = BodyPart::tree(&stored) else { return Ok((subject, None)) };
    let lists = BodyLists::of(&root);
    let mut left = JMAP_SNIPPET_TEXT_BYTES;
    let (mut read, mut shown): (Vec<&Vec<u32>>, Vec<&&BodyPart<'_>>) = (Vec::new(), Vec::new());
    for part in lists.text.iter().chain(&lists.html).filter(|part| part.is_text()) {
        if !read.contains(&&part.path) {
            read.push(&part.path);
            shown.push(part);
        }
    }
    for part in shown {
        let text = text_of(account, message, part, left).await?;
        if let Some(preview) = preview(&text, &terms.body) {
            return Ok((subject, Some(preview)));
        }
        left = left.saturating_sub(text.len());
        if left == 0 {
            break;
        }
        tokio::task::consume_budget().await;
    }
    Ok((subject, None))
}

/// The text of a part, HTML without markup, up to `most` bytes.
async fn text_of(account: &Account, message: &Message, part: &BodyPart<'_>, most: usize) -> Result<String> {
    let mut text = BodyText::new(part.stored, most);
    let mut raw = account.reader(message).raw(part.stored.body());
    while let Some(piece) = raw.try_next().await? {
        text.push(&piece);
        if text.is_full() {
            break;
        }
    }
    let value = text.finish().value;
    if part.stored.subtype != "html" {
        return Ok(value);
    }
    let (mut html, mut plain) = (HtmlText::default(), String::new());
    html.push(&value, &mut plain);
    html.finish(&mut plain);
    Ok(plain)
}
