//! Submissions and identities that clients create.

use sealpost_base::limits::*;
use serde_json::{Map, Value, json};

use crate::error::{MethodErrorType, SetErrorDetail, SetErrorType};
use crate::identity::Identity;
use crate::patch::PatchObject;
use crate::snippet::SnippetGet;
use crate::submission::*;
use crate::vacation::VacationResponse;

fn object(value: Value) -> Map<String, Value> {
    let Value::Object(members) = value else { panic!("no object: {value}") };
    members
}

fn submission(changes: Value) -> Result<EmailSubmission, Vec<String>> {
    let mut submission = object(json!({"identityId": "I1", "emailId": "#draft"}));
    for (name, value) in object(changes) {
        if value == "absent" {
            submission.remove(&name)
        } else {
            submission.insert(name, value)
        };
    }
    EmailSubmission::new(submission).map_err(|error| {
        assert_eq!(error.error, SetErrorType::InvalidProperties);
        let SetErrorDetail::Properties(names) = error.detail else { panic!("no properties") };
        names
    })
}

#[test]
fn a_submission_is_checked() {
    let envelope = |mail_from: Value| json!({"mailFrom": mail_from, "rcptTo": [{"email": "a@example.com"}]});
    for good in [
        json!({}),
        json!({"envelope": null}),
        json!({"envelope": envelope(json!({"email": "", "parameters": {"HOLDFOR": "60", "SMTPUTF8": null}}))}),
    ] {
        assert!(submission(good.clone()).is_ok(), "{good}");
    }
    for (wrong, names) in [
        (json!({"identityId": "absent", "emailId": "absent"}), &["identityId", "emailId"][..]),
        (json!({"undoStatus": "final"}), &["undoStatus"]),
        (json!({"sendAt": "2030-01-01T00:00:00Z"}), &["sendAt"]),
        (json!({"envelope": envelope(json!({"email": "a@b\r\nRCPT TO:<c@d>"}))}), &["envelope"]),
        (json!({"envelope": envelope(json!({"email": "a@b", "parameters": {"A B": null}}))}), &["envelope"]),
        (json!({"envelope": envelope(json!({"email": "a@b", "parameters": {"-A": null}}))}), &["envelope"]),
        (json!({"envelope": envelope(json!({"email": "a@b", "parameters": {"SIZE": 5}}))}), &["envelope"]),
        (json!({"envelope": {"mailFrom": {"email": "a@b"}}}), &["envelope"]),
    ] {
        assert_eq!(submission(wrong.clone()).unwrap_err(), names, "{wrong}");
    }
}

#[test]
fn a_submission_can_be_canceled() {
    let current =
        EmailSubmission { undo_status: Some(UndoStatus::Pending), ..submission(json!({})).unwrap() };
    let update = |patch: Value| EmailSubmission::for_update(PatchObject::new(object(patch)).unwrap());
    let canceled = update(json!({"undoStatus": "canceled"})).unwrap();
    assert_eq!((canceled.undo_status, canceled.conflicts(&current)), (Some(UndoStatus::Canceled), vec![]));
    let moved = update(json!({"identityId": "I2", "emailId": "#draft"})).unwrap();
    assert_eq!(moved.conflicts(&current), ["identityId"]);
}

#[test]
fn emails_of_submissions_are_bounded() {
    let set = |count: usize| {
        let update: Map<String, Value> = (0..count - 1).map(|n| (format!("#k{n}"), json!({}))).collect();
        let arguments =
            json!({"accountId": "A", "onSuccessUpdateEmail": update, "onSuccessDestroyEmail": ["S1"]});
        SubmissionSet::from_arguments(object(arguments))
    };
    assert!(set(JMAP_SET_OBJECTS).is_ok());
    assert_eq!(set(JMAP_SET_OBJECTS + 1).unwrap_err().error, MethodErrorType::RequestTooLarge);
    let snippets = |count: usize| {
        SnippetGet::from_arguments(object(json!({"accountId": "A", "emailIds": vec!["M1"; count]})))
    };
    assert!(snippets(JMAP_GET_OBJECTS).is_ok());
    assert_eq!(snippets(JMAP_GET_OBJECTS + 1).unwrap_err().error, MethodErrorType::RequestTooLarge);
    for name in ["sentAt", "sendAt"] {
        let arguments = json!({"accountId": "A", "sort": [{"property": name}]});
        let query = SubmissionQuery::from_arguments(object(arguments)).unwrap();
        assert_eq!(query.sort[0].key, SubmissionSortKey::SentAt);
    }
}

#[test]
fn an_identity_has_defaults() {
    let identity = Identity::new(object(json!({"email": "a@example.com", "name": "A"}))).unwrap();
    let expected = json!({"name": "A", "email": "a@example.com", "replyTo": null, "bcc": null, "textSignature": "",
        "htmlSignature": ""});
    assert_eq!(serde_json::to_value(&identity).unwrap(), expected);
    let error = Identity::new(object(json!({"name": "A"}))).unwrap_err();
    assert_eq!(error.detail, SetErrorDetail::Properties(vec!["email".into()]));
    let patch = PatchObject::new(object(json!({"name": null, "bcc": null}))).unwrap();
    let update = Identity::for_update(patch).unwrap();
    assert_eq!((update.name.as_deref(), update.bcc), (Some(""), Some(None)));
}

#[test]
fn a_vacation_response_is_changed_by_property() {
    let patch = json!({"isEnabled": true, "fromDate": "2030-01-01T00:00:00Z", "toDate": null});
    let update = VacationResponse::for_update(PatchObject::new(object(patch.clone())).unwrap()).unwrap();
    assert_eq!(serde_json::to_value(update).unwrap(), patch);
    let patch = json!({"fromDate": "tomorrow"});
    let error = VacationResponse::for_update(PatchObject::new(object(patch)).unwrap()).unwrap_err();
    assert_eq!(error.detail, SetErrorDetail::Properties(vec!["fromDate".into()]));
}
