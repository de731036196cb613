//! Push subscriptions, and the Session object.

use sealpost_base::limits::*;
use serde_json::{Map, Value, json};

use crate::capability::Capability;
use crate::error::{MethodErrorType, SetErrorDetail};
use crate::push::{PushKeys, PushSubscription, PushSubscriptionGet, PushSubscriptionSet, StateChange};
use crate::read::FromJson;
use crate::session::{CoreCapability, NoDetails, capability};

fn object(value: Value) -> Map<String, Value> {
    let Value::Object(members) = value else { panic!("no object: {value}") };
    members
}

fn subscription(changes: Value) -> Result<PushSubscription, Vec<String>> {
    let mut subscription =
        object(json!({"deviceClientId": "d", "url": "https://example.com/push", "types": null}));
    for (name, value) in object(changes) {
        if value == "absent" {
            subscription.remove(&name)
        } else {
            subscription.insert(name, value)
        };
    }
    PushSubscription::new(subscription).map_err(|error| {
        let SetErrorDetail::Properties(names) = error.detail else { panic!("no properties") };
        names
    })
}

/// The keys of RFC 8291 §5, with padding or without.
fn keys(padding: &str) -> Value {
    let point = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
    json!({"p256dh": format!("{point}{padding}"), "auth": format!("BTBZMqHH6r4Tts7J_aSIgg{padding}{padding}")})
}

#[test]
fn a_subscription_is_checked() {
    for good in [
        json!({}),
        json!({"keys": keys("")}),
        json!({"keys": keys("=")}),
        json!({"keys": null, "verificationCode": null, "expires": "2030-01-01T00:00:00Z", "types": ["Email"]}),
        json!({"url": format!("https://{}", "a".repeat(JMAP_PUSH_URL_BYTES - 8))}),
        json!({"deviceClientId": "d".repeat(JMAP_DEVICE_ID_BYTES)}),
        json!({"types": vec!["Email"; JMAP_PUSH_TYPES]}),
    ] {
        assert!(subscription(good.clone()).is_ok(), "{good}");
    }
    for (wrong, property) in [
        (json!({"url": "http://example.com/push"}), "url"),
        (json!({"url": "https://"}), "url"),
        (json!({"url": "https:///path"}), "url"),
        (json!({"url": "https://a b"}), "url"),
        (json!({"url": "absent"}), "url"),
        (json!({"url": format!("https://{}", "a".repeat(JMAP_PUSH_URL_BYTES - 7))}), "url"),
        (json!({"deviceClientId": "absent"}), "deviceClientId"),
        (json!({"deviceClientId": "d".repeat(JMAP_DEVICE_ID_BYTES + 1)}), "deviceClientId"),
        (json!({"verificationCode": "a"}), "verificationCode"),
        (json!({"keys": {"p256dh": "AA", "auth": "BTBZMqHH6r4Tts7J_aSIgg"}}), "keys"),
        (json!({"keys": {"p256dh": keys("")["p256dh"], "auth": "AA"}}), "keys"),
        (json!({"keys": {"p256dh": keys("")["p256dh"]}}), "keys"),
        (json!({"types": vec!["Email"; JMAP_PUSH_TYPES + 1]}), "types"),
        (json!({"types": ["x".repeat(JMAP_PUSH_TYPE_BYTES + 1)]}), "types"),
        (json!({"id": "P1"}), "id"),
    ] {
        assert_eq!(subscription(wrong.clone()).unwrap_err(), [property], "{wrong}");
    }
    let PushKeys { p256dh, auth } = PushKeys::from_json(keys("")).unwrap();
    let (point, secret) = PushKeys { p256dh: p256dh.clone(), auth }.decode().unwrap();
    assert_eq!((point[0], point[64], secret[0]), (4, 0x0e, 5));
    assert_eq!(PushKeys { p256dh: p256dh.replace('B', "C"), auth: String::new() }.decode(), None);
}

#[test]
fn secrets_are_not_shown() {
    for property in ["url", "keys"] {
        let error =
            PushSubscriptionGet::from_arguments(object(json!({"properties": ["id", property]}))).unwrap_err();
        assert_eq!(error.error, MethodErrorType::Forbidden);
    }
    let error = PushSubscriptionGet::from_arguments(object(json!({"accountId": "A"}))).unwrap_err();
    assert_eq!(error.description.unwrap(), "accountId: unknown name");
    let get = |count: usize| PushSubscriptionGet::from_arguments(object(json!({"ids": vec!["P1"; count]})));
    assert!(get(JMAP_GET_OBJECTS).is_ok());
    assert_eq!(get(JMAP_GET_OBJECTS + 1).unwrap_err().error, MethodErrorType::RequestTooLarge);
    let set =
        |count: usize| PushSubscriptionSet::from_arguments(object(json!({"destroy": vec!["P1"; count]})));
    assert!(set(JMAP_SET_OBJECTS).is_ok());
    assert_eq!(set(JMAP_SET_OBJECTS + 1).unwrap_err().error, MethodErrorType::RequestTooLarge);
}

#[test]
fn changes_of_other_types_are_left_out() {
    let wire = json!({"@type": "StateChange", "changed": {"A": {"Email": "1", "Thread": "2"}, "B": {"Thread": "3"}}});
    let mut change = StateChange::from_json(wire).unwrap();
    change.retain_types(&["Email".into()]);
    let expected = json!({"@type": "StateChange", "changed": {"A": {"Email": "1"}}});
    assert_eq!(serde_json::to_value(change).unwrap(), expected);
    let error = StateChange::from_json(json!({"@type": "Other", "changed": {}})).unwrap_err().to_string();
    assert_eq!(error, "@type: expected \"StateChange\"");
}

#[test]
fn the_core_capability_has_the_limits_of_the_rfc() {
    let (name, core) = capability(Capability::Core, &CoreCapability::new(vec!["i;unicode-casemap".into()]));
    assert_eq!(name, "urn:ietf:params:jmap:core");
    // The minimal values that RFC 8620 §2 suggests.
    for (limit, least) in [
        ("maxSizeUpload", 50_000_000),
        ("maxConcurrentUpload", 4),
        ("maxSizeRequest", 10_000_000),
        ("maxConcurrentRequests", 4),
        ("maxCallsInRequest", 16),
        ("maxObjectsInGet", 500),
        ("maxObjectsInSet", 500),
    ] {
        assert!(core[limit].as_u64().unwrap() >= least, "{limit}");
    }
    assert_eq!(capability(Capability::Mail, &NoDetails {}).1, json!({}));
}
