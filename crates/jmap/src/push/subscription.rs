//! PushSubscription and its methods, which know no account (RFC 8620 §7.2).

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use sealpost_base::limits::{
    JMAP_DEVICE_ID_BYTES, JMAP_GET_OBJECTS, JMAP_PUSH_TYPE_BYTES, JMAP_PUSH_TYPES, JMAP_PUSH_URL_BYTES,
    JMAP_SET_OBJECTS,
};
use serde::Serialize;

use crate::data_type::{all_wrong, data_type};
use crate::date::UtcDate;
use crate::error::{MethodError, MethodErrorType, SetError};
use crate::id::{CreationId, GivenId, Id};
use crate::object::object;
use crate::read::{Fields, Mismatch};
use crate::standard::ObjectMap;

object! {
    /// Keys of the client, to encrypt for it (RFC 8291).
    pub struct PushKeys {
        /// A public key on P-256, in URL-safe base64.
        p256dh: String = "p256dh" [required],
        /// A secret for authentication, in URL-safe base64.
        auth: String = "auth" [required],
    }
}

object! {
    /// `urn:ietf:params:jmap:webpush-vapid`, of the server (RFC 9749 §3).
    pub struct VapidCapability {
        /// The public key that signs pushes: an uncompressed point on P-256, in URL-safe base64.
        application_server_key: String = "applicationServerKey" [required],
    }
}

/// URL-safe base64 with padding or without: clients send both.
const BASE64URL: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

impl PushKeys {
    /// The point of the public key, uncompressed, and the secret; `None` if they have not the form
    /// of RFC 8291 §3.
    pub fn decode(&self) -> Option<([u8; 65], [u8; 16])> {
        let point: [u8; 65] = BASE64URL.decode(&self.p256dh).ok()?.try_into().ok()?;
        let secret = BASE64URL.decode(&self.auth).ok()?.try_into().ok()?;
        (point[0] == 4).then_some((point, secret))
    }
}

data_type! {
    /// A URL that is notified of changes.
    pub struct PushSubscription, PushProperty {
        /// Its id.
        id: Id = Id "id" [server_set],
        /// What the client calls itself and its device.
        device_client_id: String = DeviceClientId "deviceClientId" [immutable],
        /// The URL, which is never returned.
        url: String = Url "url" [immutable],
        /// Keys to encrypt with, which are never returned.
        keys: Option<PushKeys> = Keys "keys" [immutable],
        /// What the client repeats of the PushVerification.
        verification_code: Option<String> = VerificationCode "verificationCode" [settable],
        /// When it ends.
        expires: Option<UtcDate> = Expires "expires" [settable],
        /// The types it is for; none is all.
        types: Option<Vec<String>> = Types "types" [settable],
    }
}

impl PushSubscription {
    /// A subscription of `create` of PushSubscription/set.
    pub fn new(object: ObjectMap) -> Result<Self, SetError> {
        let subscription = PushSubscription::for_create(object)?;
        let mut wrong = Vec::new();
        match &subscription.device_client_id {
            None => wrong.push(Mismatch::missing("a string").within("deviceClientId")),
            Some(id) if id.len() > JMAP_DEVICE_ID_BYTES => {
                let why = format!("longer than {JMAP_DEVICE_ID_BYTES} bytes");
                wrong.push(Mismatch::because(why).within("deviceClientId"));
            }
            Some(_) => {}
        }
        match &subscription.url {
            None => wrong.push(Mismatch::missing("a URL").within("url")),
            Some(url) if !is_https(url) => {
                let why = format!("expected https:// and at most {JMAP_PUSH_URL_BYTES} bytes of ASCII");
                wrong.push(Mismatch::because(why).within("url"));
            }
            Some(_) => {}
        }
        if subscription.keys.iter().flatten().any(|keys| keys.decode().is_none()) {
            let why = "expected an uncompressed point of 65 bytes and a secret of 16, in URL-safe base64";
            wrong.push(Mismatch::because(why).within("keys"));
        }
        if subscription.verification_code.iter().flatten().next().is_some() {
            wrong.push(Mismatch::because("null until the server has sent one").within("verificationCode"));
        }
        wrong.extend(subscription.too_many_types());
        match all_wrong(&wrong) {
            Some(error) => Err(error),
            None => Ok(subscription),
        }
    }

    /// What is wrong with the types, also in an update.
    pub fn too_many_types(&self) -> Option<Mismatch> {
        let mut all = self.types.iter().flatten();
        let wrong = |types: &Vec<String>| {
            if types.len() > JMAP_PUSH_TYPES {
                return Some(format!("more than {JMAP_PUSH_TYPES}"));
            }
            let is_long = types.iter().any(|name| name.len() > JMAP_PUSH_TYPE_BYTES);
            is_long.then(|| format!("a name of more than {JMAP_PUSH_TYPE_BYTES} bytes"))
        };
        Some(Mismatch::because(all.find_map(wrong)?).within("types"))
    }
}

fn is_https(url: &str) -> bool {
    let is_valid = url.len() <= JMAP_PUSH_URL_BYTES && url.bytes().all(|byte| byte.is_ascii_graphic());
    let host = url.strip_prefix("https://").unwrap_or_default();
    is_valid && !host.is_empty() && !host.starts_with('/')
}

/// Arguments of PushSubscription/get (§7.2.1).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PushSubscriptionGet {
    /// The subscriptions; `None` for all.
    pub ids: Option<Vec<GivenId>>,
    /// What is wanted; never the URL or the keys.
    pub properties: Option<Vec<PushProperty>>,
}

impl PushSubscriptionGet {
    /// Reads the arguments.
    pub fn from_arguments(arguments: ObjectMap) -> Result<Self, MethodError> {
        let mut fields = Fields::from(arguments);
        let ids: Option<Vec<GivenId>> = fields.optional("ids")?;
        let properties: Option<Vec<PushProperty>> = fields.optional("properties")?;
        fields.finish()?;
        if let Some(ids) = ids.as_ref().filter(|ids| ids.len() > JMAP_GET_OBJECTS) {
            return Err(MethodError::too_large("maxObjectsInGet", JMAP_GET_OBJECTS, ids.len()));
        }
        let is_secret = |property: &PushProperty| matches!(property, PushProperty::Url | PushProperty::Keys);
        if properties.iter().flatten().any(is_secret) {
            let error = MethodError::from(MethodErrorType::Forbidden);
            return Err(error.describe("url and keys are never returned"));
        }
        Ok(PushSubscriptionGet { ids, properties })
    }
}

object! {
    /// The response to PushSubscription/get.
    pub struct PushSubscriptionGetResponse {
        /// The subscriptions.
        list: Vec<PushSubscription> = "list" [required],
        /// Ids of none.
        not_found: Vec<GivenId> = "notFound" [or_empty],
    }
}

/// Arguments of PushSubscription/set (§7.2.2).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PushSubscriptionSet {
    /// New ones, for [`PushSubscription::new`].
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub create: BTreeMap<CreationId, ObjectMap>,
    /// Changes, for [`crate::patch::PatchObject::new`].
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub update: BTreeMap<GivenId, ObjectMap>,
    /// Those that end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub destroy: Vec<GivenId>,
}

impl PushSubscriptionSet {
    /// Reads the arguments.
    pub fn from_arguments(arguments: ObjectMap) -> Result<Self, MethodError> {
        let mut fields = Fields::from(arguments);
        let create: Option<BTreeMap<CreationId, ObjectMap>> = fields.optional("create")?;
        let update: Option<BTreeMap<GivenId, ObjectMap>> = fields.optional("update")?;
        let destroy: Option<Vec<GivenId>> = fields.optional("destroy")?;
        fields.finish()?;
        let (create, update) = (create.unwrap_or_default(), update.unwrap_or_default());
        let destroy = destroy.unwrap_or_default();
        let objects = create.len() + update.len() + destroy.len();
        if objects > JMAP_SET_OBJECTS {
            return Err(MethodError::too_large("maxObjectsInSet", JMAP_SET_OBJECTS, objects));
        }
        Ok(PushSubscriptionSet { create, update, destroy })
    }
}

object! {
    /// The response to PushSubscription/set.
    pub struct PushSubscriptionSetResponse {
        /// What the server set in new ones.
        created: BTreeMap<CreationId, PushSubscription> = "created" [null_if_empty],
        /// What changed beyond what was asked for.
        updated: BTreeMap<Id, Option<PushSubscription>> = "updated" [null_if_empty],
        /// Those that ended.
        destroyed: Vec<Id> = "destroyed" [null_if_empty],
        /// Why some were not created.
        not_created: BTreeMap<CreationId, SetError> = "notCreated" [null_if_empty],
        /// Why some were not changed.
        not_updated: BTreeMap<GivenId, SetError> = "notUpdated" [null_if_empty],
        /// Why some did not end.
        not_destroyed: BTreeMap<GivenId, SetError> = "notDestroyed" [null_if_empty],
    }
}
