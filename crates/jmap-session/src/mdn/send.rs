//! MDN/send (RFC 9007 §2.1): notifications of what became of messages, to their senders.
//!
//! A notification goes through the outbox as all mail of users does, with the null sender (RFC 8098 §3), so
//! that no server answers it. It has no record: an EmailSubmission is of an email, and this is none.

use std::collections::BTreeMap;
use std::sync::Arc;

use sealpost_account::identity::Identity;
use sealpost_account::object_id::{email_id_of, object_of};
use sealpost_base::ObjectId;
use sealpost_directory::AccountRecord;
use sealpost_jmap::capability::Capability;
use sealpost_jmap::error::{MethodErrorType, SetErrorType};
use sealpost_jmap::id::CreationId;
use sealpost_jmap::mdn::{Mdn, MdnSend, MdnSendResponse, SentMdn};
use sealpost_jmap::read::FromJson;
use sealpost_jmap::standard::{ObjectMap, SetRequest};
use sealpost_jmap::{GivenId, MethodError, SetError};
use sealpost_mailbox::emails::Email;
use sealpost_queue::envelope::{Recipient, Source, TlsDemand};
use sealpost_submission::forwarder::Route;
use sealpost_submission::outbox::{Order, Outbox};
use serde_json::{Map, Value};

use super::compose::{Notification, Original};
use crate::email;
use crate::identity::list::{identity_of, refresh};
use crate::method::{Failure, Outcome};
use crate::responder::Responder;
use crate::scope::Scope;
use crate::submission::{Refused, SourceEmail, invalid_property, limit_error, received_field};

/// The keyword of a message whose sender got a notification (RFC 3503 §3).
const SENT: &str = "$mdnsent";

pub(crate) async fn send(
    scope: &mut Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let MdnSend { account_id, identity_id, send, on_success_update_email } =
        MdnSend::from_arguments(arguments)?;
    scope.require(&account_id)?;
    let outbox = scope.user().shared.outbox.clone().filter(|_| scope.uses(Capability::Mail));
    let Some(outbox) = outbox else {
        let text = "MDN/send needs urn:ietf:params:jmap:mail";
        return Err(MethodError::from(MethodErrorType::UnknownMethod).describe(text).into());
    };
    let account = Arc::new(refresh(scope).await?);
    let id = identity_of(&identity_id, &scope.created);
    let identity = scope.own_state(|state| state.identities().get(id?).cloned()).await?;
    // RFC 9007 §2.1.
    let identity = identity.ok_or_else(|| MethodError::invalid_arguments("there is no such identity"))?;
    let sender = Sender { outbox, account, identity };
    let (mut sent, mut not_sent, mut patches) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for (creation, object) in send {
        let sending = sender.send(scope, (&creation, object), &on_success_update_email, &patches);
        match Box::pin(sending).await {
            Ok((email, set)) => {
                let patch = patch_of(&on_success_update_email, &creation, email);
                patches.insert(GivenId::from(email_id_of(email)), patch.cloned().unwrap_or_default());
                sent.insert(creation, set);
            }
            Err(refused) => {
                let error = refused.of_object().map_err(|failure| partial(failure, !sent.is_empty()))?;
                not_sent.insert(creation, error);
            }
        }
    }
    let response = MdnSendResponse {
        account_id: account_id.clone(),
        sent: Some(sent).filter(|sent| !sent.is_empty()),
        not_sent: Some(not_sent).filter(|not_sent| !not_sent.is_empty()),
    };
    responder.respond("MDN/send", &response, call_id).await?;
    if patches.is_empty() {
        return Ok(());
    }
    let (create, destroy) = Default::default();
    let request = SetRequest { account_id, if_in_state: None, create, update: patches, destroy };
    Box::pin(email::set_emails(scope, responder, request, call_id)).await
}

/// After a notification was sent, a failure is one in part (RFC 8620 §3.6.2).
fn partial(failure: Failure, has_sent: bool) -> Failure {
    match failure {
        Failure::Method(_) if has_sent => MethodErrorType::ServerPartialFail.into(),
        failure => failure,
    }
}

/// The patch of the email that a notification is about: under its id, or under the creation id.
fn patch_of<'a>(
    patches: &'a BTreeMap<GivenId, ObjectMap>,
    creation: &CreationId,
    email: ObjectId,
) -> Option<&'a ObjectMap> {
    let by_id = patches.get(&GivenId::from(email_id_of(email)));
    by_id.or_else(|| patches.get(&GivenId::Created(creation.clone())))
}

/// Whether a patch sets the keyword (RFC 9007 §2.1).
fn marks(patch: &ObjectMap) -> bool {
    let is_set = |(path, value): (&String, &Value)| match path.split_once('/') {
        Some(("keywords", keyword)) => keyword.eq_ignore_ascii_case(SENT) && *value == Value::Bool(true),
        None if path == "keywords" => {
            let mut members = value.as_object().into_iter().flatten();
            members.any(|(keyword, value)| keyword.eq_ignore_ascii_case(SENT) && *value == Value::Bool(true))
        }
        _ => false,
    };
    patch.iter().any(is_set)
}

/// What sends the notifications of a call.
struct Sender {
    outbox: Outbox,
    account: Arc<AccountRecord>,
    identity: Identity,
}

impl Sender {
    /// Sends a notification: the email that it is about, and what the server set.
    async fn send(
        &self,
        scope: &Scope<'_>,
        (creation, object): (&CreationId, ObjectMap),
        updates: &BTreeMap<GivenId, ObjectMap>,
        sent: &BTreeMap<GivenId, ObjectMap>,
    ) -> Result<(ObjectId, SentMdn), Refused> {
        let includes_original = object.get("includeOriginalMessage").cloned();
        let mdn = Mdn::from_json(Value::Object(object)).map_err(SetError::from)?;
        let Some(email) = &mdn.for_email_id else {
            return Err(invalid_property("forEmailId", "a notification is about an email").into());
        };
        let object = object_of(email.as_str()).ok_or(not_found("there is no such email"))?;
        let is_again = sent.contains_key(&GivenId::from(email_id_of(object)));
        if is_again || is_marked(scope, object).await? {
            let error = SetError::from(SetErrorType::MdnAlreadySent);
            return Err(error.describe(format!("the email has {SENT}")).into());
        }
        let source = SourceEmail::of(scope, object).await?.ok_or(not_found("there is no such email"))?;
        if !patch_of(updates, creation, object).is_some_and(marks) {
            let text = format!("onSuccessUpdateEmail must set {SENT} of the email (RFC 9007 §2.1)");
            return Err(invalid_property("forEmailId", &text).into());
        }
        let original = source.header(scope, Original::of).await?;
        if original.requires_more {
            let text = "the sender requires something that this server cannot do (RFC 8098 §2.2)";
            return Err(SetError::from(SetErrorType::Forbidden).describe(text).into());
        }
        let to = self.recipients(&original).await?;
        let (address, final_recipient) = self.final_recipient(&mdn).await?;
        let random = &scope.user().ctx().random;
        let unique = format!("{:016x}{:016x}", random.next_u64(), random.next_u64());
        let notification = Notification {
            mdn: &mdn,
            original: &original,
            name: &self.identity.name,
            address: &address,
            to: &to,
            final_recipient: &final_recipient,
            boundary: &unique,
        };
        let (before, after) = notification.text()?;
        self.submit(scope, &to, (before, after), mdn.include_original_message.then_some(&source)).await?;
        let set = SentMdn {
            subject: mdn.subject.is_none().then(|| original.subject()),
            final_recipient: mdn.final_recipient.is_none().then_some(final_recipient),
            original_recipient: original.recipient.clone().filter(|_| mdn.original_recipient.is_none()),
            original_message_id: original.message_id.clone().filter(|_| mdn.original_message_id.is_none()),
            include_original_message: includes_original.is_none().then_some(false),
        };
        Ok((object, set))
    }

    /// Where the sender of the message wants it.
    async fn recipients(&self, original: &Original) -> Result<Vec<String>, Refused> {
        let mut to = Vec::new();
        for address in &original.notify {
            if self.outbox.forwarder().route(address, "").await? != Route::Nowhere {
                to.push(address.clone());
            }
        }
        match to.is_empty() {
            true => Err(not_found("the email has no valid Disposition-Notification-To").into()),
            false => Ok(to),
        }
    }

    /// The address that sends, and the recipient that the notification names.
    async fn final_recipient(&self, mdn: &Mdn) -> Result<(String, String), Refused> {
        let own = &self.identity.email;
        let Some(given) = &mdn.final_recipient else {
            if own.starts_with("*@") {
                let text = "the identity has no address of its own; name the recipient";
                return Err(invalid_property("finalRecipient", text).into());
            }
            return Ok((own.clone(), format!("rfc822; {own}")));
        };
        let address = given.split_once(';').map_or(given.as_str(), |(_, address)| address).trim();
        match self.outbox.check_sender(&self.account, address).await {
            Ok(()) => {}
            Err(sealpost_submission::outbox::Refusal::Sender(_)) => {
                let text = format!("the account may not send as {address}");
                return Err(SetError::from(SetErrorType::ForbiddenFrom).describe(text).into());
            }
            Err(refusal) => return Err(refusal.into()),
        }
        let from = if own.starts_with("*@") { address } else { own };
        Ok((from.to_owned(), if given.contains(';') { given.clone() } else { format!("rfc822; {address}") }))
    }

    /// Into the queue.
    async fn submit(
        &self,
        scope: &Scope<'_>,
        to: &[String],
        (before, after): (String, String),
        original: Option<&SourceEmail>,
    ) -> Result<(), Refused> {
        let ctx = scope.user().ctx();
        self.outbox.check_limits(&self.account, to.len()).map_err(|reached| limit_error(&reached))?;
        let id = sealpost_base::SubmissionId::random(&*ctx.random);
        let order = Order {
            account: Some(self.account.clone()),
            // RFC 8098 §3: "the envelope sender address MUST be null".
            from: String::new(),
            recipients: to.iter().map(Recipient::new).collect(),
            ret: None,
            envid: None,
            release: None,
            tls: TlsDemand::Policy,
            trace: received_field(&ctx.hostname, id, ctx.clock.now()),
            source: Source::Submission,
        };
        let mut submission = self.outbox.begin(order);
        submission.write(before.as_bytes()).await?;
        if let Some(original) = original {
            original.copy_into(&mut submission).await?;
        }
        submission.write(after.as_bytes()).await?;
        submission.finish().await?;
        Ok(())
    }
}

fn not_found(text: &str) -> SetError {
    SetError::from(SetErrorType::NotFound).describe(text)
}

/// Whether the sender of an email got a notification already.
async fn is_marked(scope: &Scope<'_>, object: ObjectId) -> Result<bool, Refused> {
    let is_marked = scope
        .look(|logs| {
            let email = Email::find(logs, object);
            email.is_some_and(|email| email.flags.keywords.iter().any(|name| name.eq_ignore_ascii_case(SENT)))
        })
        .await?;
    Ok(is_marked)
}
