//! What a fuzzer calls: any bytes, and what must hold for them. Panics are findings.

use sealpost_jmap::contact::{AddressBook, AddressBookSet, CardQuery, CardQueryChanges, check_card};
use sealpost_jmap::email::{EmailImport, EmailUpdate, for_create};
use sealpost_jmap::identity::Identity;
use sealpost_jmap::mailbox::{Mailbox, MailboxGet, MailboxQuery, MailboxQueryChanges, MailboxSet};
use sealpost_jmap::patch::PatchObject;
use sealpost_jmap::principal::PrincipalQuery;
use sealpost_jmap::push::{PushSubscription, PushSubscriptionGet, PushSubscriptionSet};
use sealpost_jmap::quota::QuotaQuery;
use sealpost_jmap::share_notification::ShareNotificationQuery;
use sealpost_jmap::submission::{EmailSubmission, SubmissionQuery, SubmissionSet};
use sealpost_jmap::vacation::VacationResponse;
use sealpost_jmap::websocket::ClientMessage;
use sealpost_jmap::{MethodError, Request, ResponseWriter, State, blob, email, json, snippet, standard};
use serde_json::{Map, Value};

type Arguments = Map<String, Value>;

/// The body of a request: read, written and read again it stays as it is; every method reads the
/// arguments of every call; and the response is JSON whatever was in the request.
pub fn fuzz_request(data: &[u8]) {
    let _ = ClientMessage::parse(data);
    let Ok(request) = Request::parse(data) else { return };
    let written = serde_json::to_vec(&request).unwrap();
    assert_eq!(Request::parse(&written).unwrap(), request);
    let mut writer = ResponseWriter::new(&request);
    for call in &request.method_calls {
        match writer.resolve(call.arguments.clone()) {
            Ok(arguments) => {
                read_as_all_methods(&arguments);
                // What later calls may refer to.
                writer.respond(&call.name, &arguments, &call.call_id);
            }
            Err(error) => writer.error(&error, &call.call_id),
        }
    }
    let response: Value = serde_json::from_slice(&writer.finish(&State::new("s"), None)).unwrap();
    assert_eq!(response["methodResponses"].as_array().unwrap().len(), request.method_calls.len());
}

/// An argument that was taken is taken again as it is written.
fn stays<T: serde::Serialize + PartialEq + std::fmt::Debug>(
    arguments: &Arguments,
    read: impl Fn(Arguments) -> Result<T, MethodError>,
) {
    let Ok(taken) = read(arguments.clone()) else { return };
    let Value::Object(written) = serde_json::to_value(&taken).unwrap() else { panic!("no object") };
    assert_eq!(read(written), Ok(taken));
}

fn read_as_all_methods(arguments: &Arguments) {
    stays(arguments, MailboxGet::from_arguments);
    stays(arguments, MailboxSet::from_arguments);
    stays(arguments, MailboxQuery::from_arguments);
    stays(arguments, MailboxQueryChanges::from_arguments);
    stays(arguments, email::EmailGet::from_arguments);
    stays(arguments, email::EmailParse::from_arguments);
    stays(arguments, email::EmailQuery::from_arguments);
    stays(arguments, email::EmailQueryChanges::from_arguments);
    stays(arguments, email::EmailImportRequest::from_arguments);
    stays(arguments, standard::ChangesRequest::from_arguments);
    stays(arguments, standard::CopyRequest::from_arguments);
    stays(arguments, snippet::SnippetGet::from_arguments);
    stays(arguments, SubmissionSet::from_arguments);
    stays(arguments, SubmissionQuery::from_arguments);
    stays(arguments, QuotaQuery::from_arguments);
    stays(arguments, AddressBookSet::from_arguments);
    stays(arguments, CardQuery::from_arguments);
    stays(arguments, CardQueryChanges::from_arguments);
    stays(arguments, PrincipalQuery::from_arguments);
    stays(arguments, ShareNotificationQuery::from_arguments);
    stays(arguments, PushSubscriptionGet::from_arguments);
    stays(arguments, PushSubscriptionSet::from_arguments);
    stays(arguments, blob::BlobGet::from_arguments);
    stays(arguments, blob::BlobLookup::from_arguments);
    stays(arguments, blob::BlobCopy::from_arguments);
    stays(arguments, blob::BlobUpload::from_arguments);
    let Some(Value::Object(objects)) = arguments.get("create") else { return };
    for object in objects.values().filter_map(Value::as_object) {
        create_all_types(object);
    }
}

fn create_all_types(object: &Arguments) {
    let _ = Mailbox::for_create(object.clone());
    let _ = AddressBook::for_create(object.clone());
    let _ = check_card(object);
    let _ = Identity::new(object.clone());
    let _ = EmailSubmission::new(object.clone());
    let _ = PushSubscription::new(object.clone());
    let _ = EmailImport::new(object.clone());
    let _ = blob::UploadObject::new(object.clone());
    if let Ok(email) = for_create(object.clone()) {
        let Value::Object(written) = serde_json::to_value(&email).unwrap() else { panic!("no object") };
        assert_eq!(for_create(written), Ok(email));
    }
}

/// An array of an object and a patch: the patch is applied wholly or not at all, it says what it
/// said, and every type reads it.
pub fn fuzz_patch(data: &[u8]) {
    let Ok(Value::Array(values)) = json::parse(data) else { return };
    let [Value::Object(before), Value::Object(members)] = &values[..] else { return };
    let Ok(patch) = PatchObject::new(members.clone()) else { return };
    assert_eq!(&serde_json::to_value(&patch).unwrap(), &values[1]);
    let mut after = before.clone();
    match patch.apply(&mut after, &Map::new()) {
        Err(_) => assert_eq!(&after, before),
        Ok(()) => {
            for (pointer, value) in patch.entries() {
                let path = format!("/{pointer}");
                let found = Value::Object(after.clone());
                assert_eq!(found.pointer(&path), Some(value).filter(|value| !value.is_null()), "{path}");
            }
        }
    }
    if let Ok(update) = EmailUpdate::new(patch.clone()) {
        for change in update.keywords.iter() {
            let set = change.apply(&Default::default());
            assert_eq!(change.apply(&set), set, "a change made twice is made once");
        }
    }
    let _ = Identity::for_update(patch.clone());
    let _ = AddressBook::for_update(patch.clone());
    let _ = EmailSubmission::for_update(patch.clone());
    let _ = VacationResponse::for_update(patch.clone());
    let _ = PushSubscription::for_update(patch.clone());
    if let Ok(update) = Mailbox::for_update(patch) {
        assert!(update.conflicts(&update).is_empty());
    }
}

/// A card: checking it always ends, whatever it is, and one that is valid is so as it is written.
pub fn fuzz_card(data: &[u8]) {
    let Ok(Value::Object(card)) = json::parse(data) else { return };
    let checked = check_card(&card);
    let written = serde_json::to_vec(&card).unwrap();
    let Ok(Value::Object(read)) = json::parse(&written) else { panic!("no object") };
    assert_eq!(check_card(&read), checked);
    if checked.is_ok() {
        let needed = ["uid", "version"];
        assert!(needed.iter().all(|name| card.get(*name).is_some_and(Value::is_string)));
    }
}

/// Divides a text that is searched for into words.
pub fn fuzz_words(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let words = sealpost_jmap::email::words(&text);
    assert!(words.iter().all(|word| !word.trim().is_empty()));
    assert!(words.iter().map(String::len).sum::<usize>() <= text.len());
}
