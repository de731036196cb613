//! PushSubscription/set (RFC 8620 §7.2.2).

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sealpost_auth::Scopes;
use sealpost_base::limits::{PUSH_CREATED_PER_HOUR, PUSH_LIFETIME, PUSH_SUBSCRIPTIONS};
use sealpost_base::{Error, Timestamp};
use sealpost_jmap::date::UtcDate;
use sealpost_jmap::error::SetErrorType;
use sealpost_jmap::patch::PatchObject;
use sealpost_jmap::push::{PushKeys, PushSubscription, PushSubscriptionSet, PushSubscriptionSetResponse};
use sealpost_jmap::standard::ObjectMap;
use sealpost_jmap::{Id, SetError};
use sealpost_push::{AccountNote, ClientKeys, ConnectProblem, PushUrl, Pusher, Subscription, SubscriptionId};
use sealpost_vault::slot::SlotId;
use serde_json::{Map, Value};

use super::get::id_of;
use crate::method::{Failure, Outcome};
use crate::responder::Responder;
use crate::scope::Scope;
use crate::type_capabilities::granted_types;

/// The time in which created subscriptions are counted.
const HOUR: Duration = Duration::from_secs(3600);

/// Whose subscriptions are changed, and when.
struct Owner<'a> {
    /// `None`: this server does not push, and there are no subscriptions.
    push: Option<&'a Pusher>,
    account: sealpost_base::AccountId,
    name: &'a str,
    slot: SlotId,
    /// What the login may do: it hears of no other types.
    scopes: Scopes,
    shares: Vec<sealpost_base::AccountId>,
    now: Timestamp,
}

/// What a client wants of a new subscription, and may not get.
struct Wanted {
    expires: Option<Timestamp>,
    types: Option<Option<Vec<String>>>,
}

/// What became of one object: a `SetError` is for the client, an error ends the method.
type Changed<T> = Result<Result<T, SetError>, Error>;

pub(crate) async fn set(
    scope: &mut Scope<'_>,
    responder: &mut Responder<'_>,
    arguments: Map<String, Value>,
    call_id: &str,
) -> Outcome {
    let request = PushSubscriptionSet::from_arguments(arguments)?;
    let logs = scope.logs().await?;
    let user = scope.user();
    let owner = Owner {
        push: user.shared.push.as_ref(),
        account: user.id,
        name: &user.name,
        slot: user.standing.slot(),
        scopes: user.scopes,
        shares: logs.iter().skip(1).map(|log| log.id()).collect(),
        now: user.ctx().clock.now(),
    };
    // The accounts are not held while the store and DNS are asked.
    drop(logs);
    let mut response = PushSubscriptionSetResponse {
        created: Default::default(),
        updated: Default::default(),
        destroyed: Vec::new(),
        not_created: Default::default(),
        not_updated: Default::default(),
        not_destroyed: Default::default(),
    };
    for (creation, object) in request.create {
        match owner.create(object, &*user.ctx().random).await? {
            Ok((id, created)) => {
                scope.created.insert(creation.clone(), id);
                response.created.insert(creation, created);
            }
            Err(refused) => drop(response.not_created.insert(creation, refused)),
        }
    }
    let doomed = request.destroy.iter().filter_map(|given| given.resolve(&scope.created));
    let doomed: Vec<Id> = doomed.cloned().collect();
    for (given, patch) in request.update {
        let Some(id) = given.resolve(&scope.created).cloned() else {
            response.not_updated.insert(given, SetErrorType::NotFound.into());
            continue;
        };
        let updated = match doomed.contains(&id) {
            true => Err(SetErrorType::WillDestroy.into()),
            false => owner.update(&id, patch).await?,
        };
        match updated {
            Ok(changed) => drop(response.updated.insert(id, changed)),
            Err(refused) => drop(response.not_updated.insert(given, refused)),
        }
    }
    for given in &request.destroy {
        let destroyed = match given.resolve(&scope.created) {
            Some(id) => owner.destroy(id).await?.then(|| id.clone()),
            None => None,
        };
        match destroyed {
            Some(id) => response.destroyed.push(id),
            None => drop(response.not_destroyed.insert(given.clone(), SetErrorType::NotFound.into())),
        }
    }
    responder.respond("PushSubscription/set", &response, call_id).await.map_err(Failure::from)
}

impl Owner<'_> {
    async fn create(
        &self,
        object: ObjectMap,
        random: &dyn sealpost_base::Random,
    ) -> Changed<(Id, PushSubscription)> {
        let (subscription, wanted) = match self.read(object, random).await {
            Ok(read) => read,
            Err(refused) => return Ok(Err(refused)),
        };
        let Some(push) = self.push else {
            let refused = SetError::from(SetErrorType::Forbidden);
            return Ok(Err(refused.describe("this server does not push to devices")));
        };
        let added = push.change(self.account, |note| Ok(self.add(note, &subscription))).await?;
        if let Err(refused) = added {
            return Ok(Err(refused));
        }
        let id = id_of(&subscription);
        let created = PushSubscription {
            id: Some(id.clone()),
            keys: subscription.keys.is_none().then_some(None),
            verification_code: Some(None),
            expires: (wanted.expires != Some(subscription.expires))
                .then(|| Some(UtcDate::new(subscription.expires))),
            types: (wanted.types.as_ref() != Some(&subscription.types)).then(|| subscription.types.clone()),
            ..PushSubscription::default()
        };
        // RFC 8620 §7.2.2: immediately.
        push.verify(subscription);
        Ok(Ok((id, created)))
    }

    /// The new subscription, and what the client wants.
    async fn read(
        &self,
        object: ObjectMap,
        random: &dyn sealpost_base::Random,
    ) -> Result<(Subscription, Wanted), SetError> {
        let given = PushSubscription::new(object)?;
        let keys = given.keys.flatten().map(|keys| client_keys(&keys)).transpose()?;
        let text = given.url.unwrap_or_default();
        let url = PushUrl::parse(&text).map_err(|why| wrong("url", why))?;
        if let Some(push) = self.push {
            match push.reaches(&url).await {
                // It is checked again whenever something is sent there.
                Ok(()) | Err(ConnectProblem::Dns) => {}
                Err(problem) => return Err(wrong("url", problem.text())),
            }
        }
        let wanted = Wanted { expires: given.expires.flatten().map(UtcDate::timestamp), types: given.types };
        let subscription = Subscription {
            id: SubscriptionId::random(random),
            device: given.device_client_id.unwrap_or_default(),
            url: text,
            keys,
            code: Subscription::new_code(random),
            is_verified: false,
            expires: self.expires(wanted.expires)?,
            types: granted_types(self.scopes, wanted.types.clone().flatten()),
            slot: self.slot,
        };
        Ok((subscription, wanted))
    }

    /// RFC 8620 §7.2: the end is limited. It has whole seconds, as clients see it.
    fn expires(&self, wanted: Option<Timestamp>) -> Result<Timestamp, SetError> {
        let most = Timestamp::from_seconds(self.now.after(PUSH_LIFETIME).seconds());
        match wanted {
            None => Ok(most),
            Some(wanted) if wanted <= self.now => Err(wrong("expires", "is over")),
            Some(wanted) => Ok(wanted.min(most)),
        }
    }

    fn add(&self, note: &mut AccountNote, subscription: &Subscription) -> Result<(), SetError> {
        let is_recent = |at: &Timestamp| self.now.since(*at) < HOUR;
        note.created.retain(is_recent);
        if note.created.len() >= PUSH_CREATED_PER_HOUR {
            // RFC 8620 §8.6: each creation makes one request to a URL that may be of a stranger.
            let why = format!("more than {PUSH_CREATED_PER_HOUR} subscriptions in an hour");
            return Err(SetError::from(SetErrorType::RateLimit).describe(why));
        }
        // RFC 8620 §7.2: the device has one.
        note.subscriptions.retain(|it| self.now < it.expires && it.device != subscription.device);
        if note.subscriptions.len() >= PUSH_SUBSCRIPTIONS {
            let why = format!("there are {PUSH_SUBSCRIPTIONS} subscriptions of this user");
            return Err(SetError::from(SetErrorType::OverQuota).describe(why));
        }
        note.created.push(self.now);
        note.subscriptions.push(subscription.clone());
        note.name = self.name.to_owned();
        note.shares.clone_from(&self.shares);
        Ok(())
    }

    async fn update(&self, id: &Id, patch: ObjectMap) -> Changed<Option<PushSubscription>> {
        let changed = match PatchObject::new(patch).and_then(PushSubscription::for_update) {
            Ok(changed) => changed,
            Err(refused) => return Ok(Err(refused)),
        };
        let Some(push) = self.push else { return Ok(Err(SetErrorType::NotFound.into())) };
        push.change(self.account, |note| Ok(self.apply(note, id, &changed))).await
    }

    fn apply(
        &self,
        note: &mut AccountNote,
        id: &Id,
        changed: &PushSubscription,
    ) -> Result<Option<PushSubscription>, SetError> {
        let mut all = note.subscriptions.iter_mut();
        let found = all.find(|it| it.slot == self.slot && self.now < it.expires && id_of(it) == *id);
        let found = found.ok_or(SetErrorType::NotFound)?;
        let conflicts = changed.conflicts(&stored(found));
        if !conflicts.is_empty() {
            return Err(SetError::invalid_properties(conflicts, "set when the subscription was created"));
        }
        if let Some(why) = changed.too_many_types() {
            return Err(wrong("types", why.to_string()));
        }
        let mut next = found.clone();
        match &changed.verification_code {
            None => {}
            Some(Some(code)) if *code == found.code => next.is_verified = true,
            Some(None) if !found.is_verified => {}
            // RFC 8620 §7.2.2.
            Some(_) => return Err(wrong("verificationCode", "not the code that was sent to the URL")),
        }
        let mut told = PushSubscription::default();
        if let Some(wanted) = changed.expires {
            let wanted = wanted.map(UtcDate::timestamp);
            next.expires = self.expires(wanted)?;
            if wanted != Some(next.expires) {
                told.expires = Some(Some(UtcDate::new(next.expires)));
            }
        }
        if let Some(types) = &changed.types {
            next.types = granted_types(self.scopes, types.clone());
            told.types = (next.types != *types).then(|| next.types.clone());
        }
        *found = next;
        Ok((told != PushSubscription::default()).then_some(told))
    }

    /// Whether there was such a subscription.
    async fn destroy(&self, id: &Id) -> Result<bool, Error> {
        let remove = |note: &mut AccountNote| {
            let before = note.subscriptions.len();
            note.subscriptions.retain(|it| it.slot != self.slot || id_of(it) != *id);
            Ok(note.subscriptions.len() < before)
        };
        match self.push {
            Some(push) => push.change(self.account, remove).await,
            None => Ok(false),
        }
    }
}

/// A subscription as a client would have to repeat it.
fn stored(subscription: &Subscription) -> PushSubscription {
    let keys = subscription.keys.as_ref().map(|keys| PushKeys {
        p256dh: URL_SAFE_NO_PAD.encode(keys.point),
        auth: URL_SAFE_NO_PAD.encode(keys.secret),
    });
    PushSubscription {
        id: Some(id_of(subscription)),
        device_client_id: Some(subscription.device.clone()),
        url: Some(subscription.url.clone()),
        keys: Some(keys),
        ..PushSubscription::default()
    }
}

fn client_keys(keys: &PushKeys) -> Result<ClientKeys, SetError> {
    let decoded = keys.decode().map(|(point, secret)| ClientKeys { point, secret });
    let usable = decoded.filter(ClientKeys::is_usable);
    usable.ok_or_else(|| wrong("keys", "p256dh is not a point on P-256"))
}

/// One property is wrong.
fn wrong(property: &str, why: impl Into<String>) -> SetError {
    SetError::invalid_properties(vec![property.to_owned()], why)
}
