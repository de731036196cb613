//! Mailboxes in /set and /query.

use serde_json::{Map, Value, json};

use crate::error::{MethodErrorType, SetErrorDetail, SetErrorType};
use crate::mailbox::{Mailbox, MailboxGet, MailboxProperty, MailboxQuery, Role};
use crate::patch::PatchObject;
use crate::read::FromJson;
use crate::true_set::SetChange;

fn object(value: Value) -> Map<String, Value> {
    let Value::Object(members) = value else { panic!("no object: {value}") };
    members
}

#[test]
fn all_wrong_properties_of_a_new_object_are_listed() {
    let wrong = json!({"name": 5, "role": "INBOX", "id": "F1", "sortOrder": 1_u64 << 31, "colour": "red",
        "parentId": "#c", "isSubscribed": true});
    let error = Mailbox::for_create(object(wrong)).unwrap_err();
    assert_eq!(error.error, SetErrorType::InvalidProperties);
    let SetErrorDetail::Properties(mut names) = error.detail else { panic!("{error:?}") };
    names.sort();
    assert_eq!(names, ["colour", "id", "name", "role", "sortOrder"]);
    let why = error.description.unwrap();
    assert!(why.contains("name: expected a string, found the number 5"), "{why}");
    assert!(why.contains("role: expected one of \"all\""), "{why}");

    let mailbox =
        Mailbox::for_create(object(json!({"name": "a", "parentId": null, "role": "junk"}))).unwrap();
    assert_eq!(
        (mailbox.name.as_deref(), mailbox.parent_id, mailbox.role),
        (Some("a"), Some(None), Some(Some(Role::Junk)))
    );
}

#[test]
fn a_patch_may_repeat_immutable_properties() {
    let current = Mailbox {
        name: Some("a".into()),
        total_emails: Some(5),
        is_subscribed: Some(true),
        ..Mailbox::from_json(json!({"id": "F1", "parentId": null, "role": null, "sortOrder": 7})).unwrap()
    };
    let patch = |patch: Value| Mailbox::for_update(PatchObject::new(object(patch)).unwrap());
    let whole = patch(serde_json::to_value(&current).unwrap()).unwrap();
    assert_eq!((whole.conflicts(&current), &whole), (vec![], &current));
    let other =
        patch(json!({"id": "F2", "totalEmails": 5, "unreadEmails": 1, "name": "b", "sortOrder": null}))
            .unwrap();
    assert_eq!(other.conflicts(&current), ["id", "unreadEmails"]);
    assert_eq!(other.sort_order, Some(Default::default()), "null is the default");
    assert_eq!(patch(json!({"myRights/mayDelete": true})).unwrap_err().error, SetErrorType::InvalidPatch);
    for wrong in [json!({"name": null}), json!({"isSubscribed": 1}), json!({"x": 1})] {
        assert_eq!(patch(wrong).unwrap_err().error, SetErrorType::InvalidProperties);
    }
}

#[test]
fn only_selected_properties_are_written() {
    let mut mailbox =
        Mailbox::from_json(json!({"id": "F1", "name": "a", "role": null, "sortOrder": 0})).unwrap();
    mailbox.select(&[MailboxProperty::Id, MailboxProperty::Role]);
    assert_eq!(serde_json::to_value(mailbox).unwrap(), json!({"id": "F1", "role": null}));
    let get = json!({"accountId": "A", "ids": null, "properties": ["id", "colour"]});
    let error = MailboxGet::from_arguments(object(get)).unwrap_err();
    assert!(error.description.unwrap().starts_with("properties[1]: expected one of \"id\", \"name\""));
}

#[test]
fn errors_name_unsupported_filters_and_sorts() {
    let query = |arguments: Value| {
        let mut all = object(json!({"accountId": "A"}));
        all.extend(object(arguments));
        MailboxQuery::from_arguments(all)
    };
    for (arguments, error, why) in [
        (
            json!({"filter": {"colour": 1}}),
            MethodErrorType::UnsupportedFilter,
            "filter: unknown condition colour",
        ),
        (
            json!({"filter": {"operator": "AND", "conditions": [{}, {"name": 1}]}}),
            MethodErrorType::InvalidArguments,
            "filter.conditions[1].name: expected a string, found the number 1",
        ),
        (
            json!({"filter": {"operator": "XOR", "conditions": []}}),
            MethodErrorType::InvalidArguments,
            "filter.operator: expected one of \"AND\", \"OR\", \"NOT\", found the string \"XOR\"",
        ),
        (
            json!({"filter": []}),
            MethodErrorType::InvalidArguments,
            "filter: expected an object, found an array",
        ),
        (
            json!({"sort": [{"property": "id"}]}),
            MethodErrorType::UnsupportedSort,
            "sort[0]: cannot sort by \"id\"",
        ),
        (
            json!({"sort": [{}]}),
            MethodErrorType::InvalidArguments,
            "sort[0].property: missing; expected a string",
        ),
        (
            json!({"sort": [{"property": "name", "isAscending": null}]}),
            MethodErrorType::InvalidArguments,
            "sort[0].isAscending: expected true or false, found null",
        ),
        (
            json!({"limit": -1}),
            MethodErrorType::InvalidArguments,
            "limit: expected an integer from 0 to 2^53-1 or null, found the number -1",
        ),
        (
            json!({"sortAsTree": null}),
            MethodErrorType::InvalidArguments,
            "sortAsTree: expected true or false, found null",
        ),
    ] {
        let wrong = query(arguments.clone()).unwrap_err();
        assert_eq!(wrong.error, error, "{arguments}");
        let description = wrong.description.unwrap();
        assert_eq!(description.replace(" 2^53-1, found", " 2^53-1 or null, found"), why);
    }
    let taken =
        query(json!({"filter": null, "sort": null, "position": -5, "anchor": null, "limit": null})).unwrap();
    assert_eq!((taken.query.filter, taken.query.position), (None, -5));
    let taken = query(json!({"filter": {"parentId": null, "role": null}})).unwrap();
    let wire = serde_json::to_value(taken.query.filter).unwrap();
    assert_eq!(wire, json!({"parentId": null, "role": null}), "null is not the same as absent");
}

#[test]
fn sets_change_by_members() {
    let change = |patch: Value| {
        let properties = PatchObject::new(object(patch)).unwrap().properties();
        let (name, patch) = properties.into_iter().next().unwrap();
        SetChange::<crate::email::Keyword>::from_patch(&name, patch)
    };
    let before = ["$seen", "1"].iter().filter_map(|name| crate::email::Keyword::new(name)).collect();
    for (patch, after) in [
        (json!({"keywords": {"$Draft": true}}), &["$draft"][..]),
        (json!({"keywords": null}), &[]),
        (json!({"keywords": {}}), &[]),
        (json!({"keywords/1": null, "keywords/2": true, "keywords/none": null}), &["$seen", "2"]),
        (json!({"keywords/$SEEN": null}), &["1"]),
        (json!({"keywords/a~1b": true}), &["$seen", "1", "a/b"]),
    ] {
        let changed = change(patch.clone()).unwrap().apply(&before);
        assert_eq!(changed.iter().map(|keyword| keyword.as_str()).collect::<Vec<_>>(), after, "{patch}");
    }
    for (patch, error) in [
        (json!({"keywords/a/b": true}), SetErrorType::InvalidPatch),
        (json!({"keywords/a": false}), SetErrorType::InvalidProperties),
        (json!({"keywords/a b": true}), SetErrorType::InvalidProperties),
        (json!({"keywords": {"a": false}}), SetErrorType::InvalidProperties),
        (json!({"keywords": ["a"]}), SetErrorType::InvalidProperties),
    ] {
        assert_eq!(change(patch.clone()).unwrap_err().error, error, "{patch}");
    }
}
