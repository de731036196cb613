//! Identities (RFC 8621 §6).

use crate::data_type::data_type;
use crate::email::EmailAddress;
use crate::error::SetError;
use crate::id::IdentityId;
use crate::read::Mismatch;
use crate::standard::{
    ChangesRequest, ChangesResponse, GetRequest, GetResponse, ObjectMap, SetRequest, SetResponse,
};

data_type! {
    /// An address that the user sends from, with what clients add to such mail.
    pub struct Identity, IdentityProperty {
        /// Its id.
        id: IdentityId = Id "id" [server_set],
        /// The name in From.
        name: String = Name "name" [settable default String::new()],
        /// The address in From; `*@example.com` is any of the domain.
        email: String = Email "email" [immutable],
        /// Addresses in Reply-To.
        reply_to: Option<Vec<EmailAddress>> = ReplyTo "replyTo" [settable],
        /// Addresses in Bcc.
        bcc: Option<Vec<EmailAddress>> = Bcc "bcc" [settable],
        /// A signature for plain text.
        text_signature: String = TextSignature "textSignature" [settable default String::new()],
        /// A signature for HTML.
        html_signature: String = HtmlSignature "htmlSignature" [settable default String::new()],
        /// Whether the user may destroy it.
        may_delete: bool = MayDelete "mayDelete" [server_set],
    }
}

impl Identity {
    /// An identity of `create` of Identity/set: with an address, and defaults for what it lacks.
    pub fn new(object: ObjectMap) -> Result<Self, SetError> {
        let mut identity = Identity::for_create(object)?;
        if identity.email.is_none() {
            return Err(Mismatch::missing("a string").within("email").into());
        }
        identity.name.get_or_insert_default();
        identity.reply_to.get_or_insert_default();
        identity.bcc.get_or_insert_default();
        identity.text_signature.get_or_insert_default();
        identity.html_signature.get_or_insert_default();
        Ok(identity)
    }
}

/// Arguments of Identity/get (§6.1).
pub type IdentityGet = GetRequest<IdentityProperty>;
/// The response to Identity/get.
pub type IdentityGetResponse = GetResponse<Identity>;
/// Arguments of Identity/changes (§6.2).
pub type IdentityChanges = ChangesRequest;
/// The response to Identity/changes.
pub type IdentityChangesResponse = ChangesResponse;
/// Arguments of Identity/set (§6.3).
pub type IdentitySet = SetRequest;
/// The response to Identity/set.
pub type IdentitySetResponse = SetResponse<Identity>;
